"""Who may do what: Django's model permissions, the built-in ones to look and our own for the verbs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any

from django.contrib.admin import AdminSite
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
    site, rows = _site_of(request), ROWS[model]
    if site is not None and site.is_registered(rows):
        return site.get_model_admin(rows).has_view_permission(request)
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


def _site_of(request: HttpRequest) -> AdminSite | None:
    """By the view and not by its name: sites may share one. None for a page that is of no site."""
    view = getattr(request.resolver_match, "func", None)
    return getattr(getattr(view, "model_admin", view), "admin_site", None)
