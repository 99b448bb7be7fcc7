"""Which pages the pictures show, and what is done on each before one is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from benchmarks import admin

ORDERED = "shop.order"
"""The workflow of which a run is started by hand."""
FAILING = "shop.checkout"


@dataclass(frozen=True)
class Look:
    url: str
    then: Callable[[Any], object] | None = None
    """What is done on that page before the picture is taken."""
    of: str = ""
    """The part of the page that the picture shows; empty: its beginning."""
    is_whole: bool = False
    """However long the page is."""
    told: str = ""
    """Parts of the page whose words the tour has as well."""
    durable: Mapping[str, object] = field(default_factory=dict)
    """Settings that are not what they are on the other pictures."""
    is_live: bool = True
    """Its workers are those of the seeded site, and go on."""


def pages_of_nothing() -> dict[str, Look]:
    """Where to look by the name of the picture, while nothing has happened yet."""
    from django.urls import reverse

    found = {
        "overview-new": Look(reverse("admin:django_durable_overview"), is_whole=True),
        "runs-new": Look(admin.runs_url()),
    }
    return found | {"workflows-new": Look(reverse("admin:django_durable_workflows"))}


def pages() -> dict[str, Look]:
    """Likewise, in a night of trouble."""
    from django.urls import reverse

    from benchmarks.seeding.workflows import CHECKOUTS, LARGE, LONG_NAMED
    from django_durable.models import Run, Schedule

    newest, run_url, runs_url = admin.newest, admin.run_url, admin.runs_url
    [(checkout, _)], [(large, _)], [(long_named, _)] = CHECKOUTS, LARGE, LONG_NAMED
    waiting = run_url(newest("waiting", queue="shop"))
    worker = Run.objects.values_list("leased_by", flat=True).get(pk=newest("running"))
    overview, start = reverse("admin:django_durable_overview"), reverse("admin:django_durable_workflows_start")
    found = {
        "charts": Look(overview, of=".durable-pair:has(.durable-chart)"),
        "overview-workers": Look(overview, of="#durable-workers"),
        "runs": Look(runs_url()),
        "runs-failed": Look(overview, lambda page: page.click("#durable-need-failed a")),
        "runs-one": Look(runs_url(f"?q={newest('failed', workflow=checkout)}")),
        "runs-none": Look(runs_url("?q=nobody")),
        "runs-long-named": Look(runs_url(f"?workflow={long_named}")),
        "run-succeeded": Look(run_url(newest("succeeded", queue="shop"))),
        "run-failed": Look(run_url(newest("failed", workflow=checkout)), fold_traceback),
        "run-long-named": Look(run_url(newest("failed", workflow=long_named)), fold_traceback),
        "run-running": Look(run_url(newest("running"))),
        "run-waiting": Look(waiting),
        "run-blocked": Look(run_url(newest("blocked"))),
        "run-cancelled": Look(run_url(newest("cancelled"))),
        "run-queued": Look(run_url(newest("queued"))),
        "run-children": Look(run_url(newest("failed", workflow=large)), fold_traceback),
        "run-long": Look(run_url(newest("succeeded", workflow="reports.yearly"))),
        "run-log": Look(run_url(newest("failed", workflow=checkout)), of="section:has(> #durable-log)"),
        "run-claims": Look(run_url(recovered()), of="section:has(> #durable-claims)"),
        "run-audit": Look(run_url(newest("paused")), resume_one, of="section:has(> #durable-audit)"),
        "cancel": Look(waiting, lambda page: press(page, "Cancel")),
        "send-event": Look(waiting, lambda page: press(page, "Send an event")),
        "resume-all": Look(overview, resume_all),
        "start": Look(f"{start}?workflow={ORDERED}", start_by_hand, durable={"ADMIN_START": True}),
    }
    named = {"schedule_changelist": "schedules", "schedule_change": "schedule", "worker_changelist": "workers"}
    named |= {"worker_change": "worker", "app_list": "app"}
    others = {named.get(page.label, page.label): Look(page.url) for page in admin.others()}
    failing = Schedule.objects.filter(workflow=large).latest("pk")
    rows = {"schedule": failing.pk, "worker": worker}
    chosen = {name: Look(reverse(f"admin:django_durable_{name}_change", args=[key])) for name, key in rows.items()}
    return found | others | chosen | {"overview": Look(overview, told=".durable-need")}


def recovered() -> UUID:
    """The newest order whose worker died on the way."""
    from benchmarks.seeding.workflows import ORDERS
    from django_durable.models import ClaimRecord

    lost = ClaimRecord.objects.exclude(lost_at=None).values("run_id")
    found: UUID = admin.newest("succeeded", workflow__in=[name for name, _ in ORDERS], pk__in=lost)
    return found


def pages_without_workers() -> dict[str, Look]:
    """Likewise, after they have died."""
    from django.urls import reverse

    return {"overview-no-worker": Look(reverse("admin:django_durable_overview"), is_live=False)}


def press(page: Any, button: str) -> None:
    page.get_by_role("button", name=button).first.click()


def fold_traceback(page: Any) -> None:
    """So that the timeline comes on the picture."""
    for summary in page.locator(".durable-error details[open] > summary").all():
        summary.click()


def resume_all(page: Any) -> None:
    """To the question of the button beside the workflow that fails most."""
    press(page, f"Resume: {FAILING}")
    page.locator("input[name=reason]").fill("The payment gateway answers again.")


def resume_one(page: Any) -> None:
    """By somebody else than who has paused it: its audit has both. For a second picture of it that is done already."""
    if page.get_by_role("button", name="Resume").count():
        press(page, "Resume")
        page.locator("input[name=reason]").fill("Counted: the shelves have what the books say.")
        press(page, "Yes, do it")


def start_by_hand(page: Any) -> None:
    page.get_by_label("number").fill("48211")
    page.get_by_label("lines").fill('[{"sku": "TEA-EARL-GREY-250", "quantity": 2}]')
    page.get_by_label("Tags").fill("customer-48211, vip")
    page.get_by_label("Reason").fill("Ordered by telephone.")
