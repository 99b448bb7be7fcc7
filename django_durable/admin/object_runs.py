"""The runs of a row of the project, on the row's own page: ``inlines = [RunsInline]`` in the project's ModelAdmin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from zlib import crc32

from django.contrib.admin.checks import InlineModelAdminChecks
from django.contrib.admin.options import InlineModelAdmin
from django.core.exceptions import ValidationError
from django.db.models import Model
from django.forms import BaseModelFormSet, Media, modelformset_factory
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from ..client.tagging import tag_for
from ..core import clock
from ..models import Run, Tag
from ..store.database import Database
from . import cells
from .extras import extras_of
from .permissions import may_look
from .tabs import address_of

if TYPE_CHECKING:
    Inline = InlineModelAdmin[Run, Any]
    FormSet = BaseModelFormSet[Run, Any]
else:  # At run time these classes take no parameters.
    Inline, FormSet = InlineModelAdmin, BaseModelFormSet

SHOWN = 10


class RunsFormSet(FormSet):
    """What the admin expects an inline to bring, for one that takes no input: of what is posted it reads nothing."""

    request: HttpRequest

    def __init__(
        self, data: Any = None, files: Any = None, instance: Model | None = None, prefix: str | None = None, **_: Any
    ) -> None:
        self.instance = instance
        # For the history: nothing of it was changed.
        self.new_objects, self.changed_objects, self.deleted_objects = [], [], []
        super().__init__(prefix=prefix, queryset=Run.objects.none())

    @classmethod
    def get_default_prefix(cls) -> str:
        return "durable_runs"

    def is_valid(self) -> bool:
        return True

    def save(self, commit: bool = True) -> list[Run]:
        return []

    @cached_property
    def panel(self) -> dict[str, Any]:
        return panel_of(self.request, self.instance)


class RunsInlineChecks(InlineModelAdminChecks):
    """Without those for the foreign key that links the rows of other inlines."""

    def _check_relation(self, obj: Any, parent_model: Any) -> list[Any]:
        return []

    def _check_exclude_of_parent_model(self, obj: Any, parent_model: Any) -> list[Any]:
        return []


class RunsInline(Inline):
    """The newest runs that are tagged with ``tag_for(row)``, for those who may look at runs. Nothing in it is input."""

    model = Run
    template = "admin/django_durable/object_runs.html"
    verbose_name = _("run")
    verbose_name_plural = _("Runs")
    checks_class = RunsInlineChecks
    formset: Any = RunsFormSet
    extra = max_num = 0

    @property
    def media(self) -> Media:
        return Media(css={"all": ["django_durable/admin.css", "django_durable/object_runs.css"]})

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        formset = modelformset_factory(Run, formset=self.formset, fields=[], extra=0, max_num=0)
        return type(formset.__name__, (formset,), {"request": request})

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        return []

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return obj is not None and may_look(request, "run")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def panel_for(request: HttpRequest, row: Model) -> dict[str, Any]:
    """The context of the panel where it is no inline; empty for those who may not look at runs."""
    if not may_look(request, "run"):
        return {}
    panel = panel_of(request, row)
    # There may be several on a page.
    heading = f"durable-runs-{crc32(panel['tag'].encode()):08x}"
    return {"panel": panel, "heading": heading, "title": RunsInline.verbose_name_plural}


def panel_of(request: HttpRequest, row: Model | None) -> dict[str, Any]:
    """What the template shows of the row's runs, newest first; in two queries."""
    try:
        tag = tag_for(row) if row is not None else ""
    except (ValueError, ValidationError):
        tag = ""
    runs = newest(tag) if tag else []
    extras, now = extras_of(runs), clock.utcnow()
    every = address_of(request, "django_durable_run_changelist")
    return {
        "rows": [
            {
                "url": address_of(request, "django_durable_run_change", run.pk),
                "pills": cells.run_pills(run),
                "workflow": cells.name(run.workflow),
                "id": run.pk,
                "short_id": cells.short_id(run.pk),
                "progress": extras[run.pk].progress,
                "step": extras[run.pk].step,
                "started": cells.relative(run.started_at, now),
                "took": cells.duration(run.started_at, run.finished_at or now),
            }
            for run in runs
        ],
        "tag": cells.name(tag) if tag else "",
        "all_url": f"{every}?{urlencode({'q': tag})}" if every and tag else "",
    }


def newest(tag: str) -> list[Run]:
    """The last ``SHOWN`` runs with this tag: read from the end of its part of the index, however many there are."""
    alias = Database().alias
    tagged = Tag.objects.using(alias).filter(name=tag).order_by("-run_id").values("run_id")[:SHOWN]
    return list(Run.objects.using(alias).filter(pk__in=tagged).order_by("-pk"))
