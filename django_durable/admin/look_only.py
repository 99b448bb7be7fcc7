"""What all our pages have in common: rows that the engine writes and people look at, in the engine's database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.functional import cached_property
from django.utils.text import capfirst

from ..store.database import Database

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
    AnyPaginator = Paginator[Any]
else:  # At run time these classes take no parameters.
    ModelAdmin, AnyPaginator = admin.ModelAdmin, Paginator


class CappedPaginator(AnyPaginator):
    """Counts no further than ``most``: an exact COUNT(*) reads ten million rows for a number that nobody needs."""

    most = 10_000

    @cached_property
    def count(self) -> int:
        return min(self._counted, self.most)

    @property
    def is_capped(self) -> bool:
        """Whether there are more rows than the pages reach."""
        return self._counted > self.most

    @cached_property
    def _counted(self) -> int:
        rows = self.object_list
        assert isinstance(rows, QuerySet)  # noqa: S101  (for the type checker: the change list gives nothing else)
        return rows.order_by()[: self.most + 1].count()


class NothingWritten(ModelAdmin):
    """Nobody adds, changes or deletes these rows by a form; verbs have permissions of their own."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class LookOnlyAdmin(NothingWritten):
    """A list of such rows, and their pages."""

    paginator = CappedPaginator
    list_per_page = 50
    show_full_result_count = False
    # Facets count every choice of every filter.
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ()
    list_filter_names: tuple[str, ...] = ()

    class Media:
        css = {"all": ["django_durable/admin.css", "django_durable/lists.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).using(Database().alias)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        title = capfirst(str(self.opts.verbose_name_plural))
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        """With the ticks that can be keys of rows: Django looks for all of them, and fails at any other."""
        sent = request.POST.copy()
        sent.setlist(ACTION_CHECKBOX_NAME, [key for key in sent.getlist(ACTION_CHECKBOX_NAME) if self._is_key(key)])
        request.POST = sent  # type: ignore[assignment]
        return super().response_action(request, queryset, *args, **kwargs)

    def _is_key(self, text: str) -> bool:
        try:
            self.opts.pk.clean(text, None)
        except ValidationError:
            return False
        return True

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Only what the filters offer: by default any column could be searched by LIKE from the address line."""
        return lookup in self.list_filter_names
