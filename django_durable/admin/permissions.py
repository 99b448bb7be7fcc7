"""Who may do what: Django's model permissions, the built-in ones to look and our own for the verbs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from inspect import unwrap
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.sites import all_sites
from django.db.models import Model
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from ..models import Run, Schedule, Worker

ROWS: dict[str, type[Model]] = {"run": Run, "schedule": Schedule, "worker": Worker}


def may(request: HttpRequest, permission: str) -> bool:
    """Whether the user has this permission of ours: ``cancel_run``, ``view_payload``, …"""
    return request.user.has_perm(f"django_durable.{permission}")


def may_look(request: HttpRequest, model: str) -> bool:
    """Whether the user may look at rows of this model of ours, as its model admin on this site says, which may be the
    project's; where there is none: who may change them may, as everywhere in the admin."""
    rows = ROWS[model]
    admins = [site.get_model_admin(rows) for site in _sites_of(request) if site.is_registered(rows)]
    if admins:
        return all(admin.has_view_permission(request) for admin in admins)
    return may(request, f"view_{model}") or may(request, f"change_{model}")


def view_of(model_admin: Any, view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """The view as an address of this admin has it: it tells whose it is, as Django's own views do."""
    of_the_site = model_admin.admin_site.admin_view(partial(view, model_admin))

    # What a project's own site makes of a view may take no attribute.
    def of_the_admin(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response: HttpResponseBase = of_the_site(request, *args, **kwargs)
        return response

    update_wrapper(of_the_admin, of_the_site)
    of_the_admin.model_admin = model_admin  # type: ignore[attr-defined]
    return of_the_admin


def _sites_of(request: HttpRequest) -> list[AdminSite]:
    """The site that this page is of: as its view tells, since sites may share a name; or else all that have the name of
    its address. None for a page that is of no site."""
    found = request.resolver_match
    view = getattr(found, "func", None)
    # Django's own views say whose they are. Others are methods of a model admin or of a site, as ``admin_view`` wraps.
    method = unwrap(view) if view is not None else None
    owner = getattr(view, "model_admin", None) or getattr(getattr(method, "func", method), "__self__", None)
    site = getattr(view, "admin_site", None) or getattr(owner, "admin_site", owner)
    if isinstance(site, AdminSite):
        return [site]
    return [one for one in all_sites if one.name in (found.namespaces if found else ())]
