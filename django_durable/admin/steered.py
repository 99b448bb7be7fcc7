"""Rows with a page of their own, and buttons on it: everything that changes one has an address of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path, reverse

from .confirming import page
from .look_only import LookOnlyAdmin
from .permissions import view_of
from .text import cut, visible

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

Row = Any


class SteeredAdmin(LookOnlyAdmin):
    verbs: ClassVar[Mapping[str, Callable[..., HttpResponseBase]]] = {}
    """What answers the buttons and brings what a page leaves out: called with this admin, request, the row's key."""
    key = "int"
    """The path converter of the rows' keys."""
    gone: StrOrPromise = ""
    """What is said where there is no such row, with a ``%s`` for the key that was asked for."""

    def find(self, request: HttpRequest, key: str) -> Row | None:
        return self.get_object(request, key)

    def title_of(self, row: Row) -> str:
        raise NotImplementedError

    def context_of(self, request: HttpRequest, row: Row) -> dict[str, Any]:
        raise NotImplementedError

    def get_urls(self) -> list[URLPattern]:
        return [*(self._verb_url(name, view) for name, view in self.verbs.items()), *super().get_urls()]

    def _verb_url(self, name: str, view: Callable[..., HttpResponseBase]) -> URLPattern:
        model = self.opts.model_name
        return path(f"<{self.key}:{model}_id>/{name}/", view_of(self, view), name=f"django_durable_{model}_{name}")

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The row's page, in place of Django's form."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        if not self.has_view_permission(request):
            raise PermissionDenied
        model, site = self.opts.model_name, self.admin_site.name
        row = self.find(request, object_id)
        if row is None:
            self.message_user(request, self.gone % visible(cut(object_id, 100)), messages.WARNING)
            return HttpResponseRedirect(reverse(f"admin:django_durable_{model}_changelist", current_app=site))
        context = {**self.context_of(request, row), **(extra_context or {})}
        return page(self, request, f"admin/django_durable/{model}/page.html", self.title_of(row), context)
