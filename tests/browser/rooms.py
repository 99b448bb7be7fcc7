"""Every page of ours: what links and buttons lead to from the lists on, each kind of page with a few of its rows."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import parse_qsl, urlsplit

from django.urls import Resolver404, resolve, reverse
from django.utils import timezone
from playwright.sync_api import Page

from django_durable.core.payloads.codec import encode
from django_durable.models import Hold, Payload, Run, Schedule, Tag, Tally, Worker
from tests.admin.world import make_entry, make_full_run, make_run, make_schedule, make_worker

LONG = "warehouse.reconcile_the_stock_of_every_branch_with_what_the_suppliers_have_confirmed"
UNBROKEN = "Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz" * 2
EACH = 2
"""Addresses of one kind that are looked at; of runs' pages there is one for each status beside them."""


def furnish() -> None:
    """Rows of every kind: none that is worth a look is missing, and some are long."""
    for status in ("queued", "scheduled", "running", "paused", "succeeded", "cancelled"):
        run = make_run(status, workflow=LONG, attempt=2, max_attempts=5)
        Tag.objects.create(run=run, name="customer-4711")
        Payload.objects.create(run=run, kind="input", data=encode({"order": 42, "lines": ["TEA"] * 40}))
        Payload.objects.create(run=run, kind="progress", data=encode({"done": 3, "total": 10, "message": "packing"}))
        _journal(run)
    make_full_run("packed", "blocked")
    make_full_run(UNBROKEN, "failed")
    make_full_run(LONG, "waiting")
    make_worker(host="web-1", heartbeat_at=timezone.now() - timedelta(hours=1))
    make_worker(host="web-2", stopped_at=timezone.now())
    make_schedule(name="nightly", enabled=False, timezone="Europe/Berlin")
    for kind, name in ((Hold.QUEUE, "default"), (Hold.QUEUE, UNBROKEN[:100]), (Hold.WORKFLOW, "app.doubling")):
        Hold.objects.create(kind=kind, name=name, actor="ann", reason="A bad deployment.")
    minute = timezone.now().replace(second=0, microsecond=0)
    for ago in range(0, 90, 7):
        counts = {"minute": minute - timedelta(minutes=ago), "workflow": "app.doubling", "queue": "default"}
        Tally.objects.create(kind=Tally.RUNS, started=40 + ago, succeeded=30, failed=6, cancelled=2, **counts)
        Tally.objects.create(kind=Tally.STEP, name=UNBROKEN, failed=6, **counts)


def _journal(run: Run) -> None:
    now = timezone.now()
    for seq, (path, kind, more) in enumerate(
        [
            ("reserve stock", "step", {"value": encode([1, 2])}),
            ("charge card", "step", {"status": "failed", "attempts": 3, "error": encode(
                {"type": "OSError", "message": "reset", "traceback": "Traceback\n  File x.py"})}),
            ("cooling off", "sleep", {}),
            ("packed", "event", {"status": "waiting", "awaits": "packed", "finished_at": None}),
            ("both", "join", {}),
            ("both/left/weigh", "step", {}),
            ("reserve stock%undo", "undo", {}),
            ("tomorrow", "sleep", {"status": "waiting", "wake_at": now + timedelta(minutes=5), "finished_at": None}),
        ],
        start=1,
    ):  # fmt: skip
        make_entry(run, path, seq, kind=kind, **{"started_at": now - timedelta(seconds=60 - 5 * seq), **more})


def starts() -> list[str]:
    """Where one comes in: the app's page, the lists, the page of each run and schedule, and what no link leads to."""
    lists = [reverse(f"admin:django_durable_{model}_changelist") for model in ("run", "schedule", "worker")]
    rows = [reverse("admin:django_durable_run_change", args=[run.pk]) for run in Run.objects.order_by("-pk")]
    rows += [reverse("admin:django_durable_schedule_change", args=[row.pk]) for row in Schedule.objects.order_by("pk")]
    histories = [reverse("admin:django_durable_worker_history", args=[Worker.objects.latest("pk").pk])]
    return [reverse("admin:app_list", args=["django_durable"]), *lists, *rows, *histories]


def tour(page: Page) -> Iterator[str]:
    """Goes to each page and says what it is; then to the confirmations and forms behind the buttons of each."""
    waiting, seen, kinds = deque(starts()), set(starts()), Counter[tuple[str, ...]]()
    while waiting:
        url = waiting.popleft()
        page.goto(url)
        yield url
        for link in page.eval_on_selector_all("a[href]", "(found) => found.map((link) => link.href)"):
            kind = kind_of(link)
            address = urlsplit(link)._replace(scheme="", netloc="", fragment="").geturl()
            if kind and address not in seen and kinds[kind] < EACH:
                kinds[kind] += 1
                seen.add(address)
                waiting.append(address)
        yield from _behind_buttons(page, url, kinds)


def kind_of(link: str) -> tuple[str, ...] | None:
    """The view and what of it is chosen, where it is one of ours; an address like another one is of its kind."""
    parts = urlsplit(link)
    try:
        match = resolve(parts.path)
    except Resolver404:
        return None
    if "django_durable" not in parts.path or not match.view_name.startswith("admin:"):
        return None
    chosen = sorted(name for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    # Each filter leads to all combinations with it: there is no end to them.
    return match.view_name, *(chosen if len(chosen) <= 1 else ["several"])


BUTTONS = "#content-main [type=submit]"
ADDRESSES = """
(found) => found.map((button) => {
    const action = button.getAttribute("formaction") ?? button.form.getAttribute("action") ?? "";
    return button.form.method === "post" ? new URL(action, location.href).href : "";
})
"""


def _behind_buttons(page: Page, url: str, kinds: Counter[tuple[str, ...]]) -> Iterator[str]:
    """What a button asks before it does anything; one that sends the form of this very page is left alone."""
    for number, action in enumerate(page.eval_on_selector_all(BUTTONS, ADDRESSES)):
        kind = kind_of(action) if action != page.url else None
        if kind is None or kinds[kind] >= EACH:
            continue
        kinds[kind] += 1
        page.locator(BUTTONS).nth(number).click()
        page.wait_for_load_state()
        yield urlsplit(action).path
        page.goto(url)


def questions_of_lists(page: Page) -> Iterator[str]:
    """What each action asks about a few rows, and about all runs that match; the action and of how many."""
    for model in ("run", "schedule"):
        url = reverse(f"admin:django_durable_{model}_changelist")
        page.goto(url)
        actions = page.eval_on_selector_all(
            "select[name=action] option[value$=_selected]", "(found) => found.map((option) => option.value)"
        )
        for action in actions:
            for across in ("0", "1") if model == "run" else ("0",):
                _choose(page, url, action, across, EACH)
                if page.locator("#content-main [name=confirmed]").count():
                    yield f"{action} {'all' if across == '1' else 'some'}"


def _choose(page: Page, url: str, action: str, across: str, rows: int) -> None:
    """The action for so many rows of that list; for all that match where ``across`` is 1."""
    page.goto(url)
    for number in range(rows):
        page.locator("input.action-select").nth(number).check()
    page.locator("select[name=action]").first.select_option(action)
    # The link that says so is there where there are more than a page of them.
    page.locator("input.select-across").first.evaluate("(field, value) => { field.value = value; }", across)
    page.locator(".actions button[type=submit]").first.click()
    page.wait_for_load_state()


def refusals(page: Page) -> Iterator[str]:
    """What comes where something is not done: forms that were filled in wrongly, and an action that is cut off, for
    which `sweeping.SECONDS` has to be nothing."""
    run = Run.objects.filter(status="waiting").latest("pk")
    page.goto(reverse("admin:django_durable_run_change", args=[run.pk]))
    page.get_by_role("button", name="Send an event").click()
    page.get_by_label("Event").fill("packed")
    page.get_by_label("Payload").fill("{not JSON")
    page.locator("[type=submit].default").click()
    page.get_by_text("This is not JSON").wait_for()
    page.wait_for_load_state()
    yield "an event, refused for a field"

    page.goto(reverse("admin:django_durable_schedule_change", args=[Schedule.objects.get(name="nightly").pk]))
    page.get_by_role("button", name="Backfill").click()
    page.get_by_label("Since:").fill("2024-01-02T00:00")
    page.get_by_label("Until:").fill("2024-01-01T00:00")
    page.get_by_role("button", name="Count the runs").click()
    page.get_by_text("The window ends before it begins.").wait_for()
    page.wait_for_load_state()
    yield "a window, refused as a whole"

    _choose(page, reverse("admin:django_durable_run_changelist"), "cancel_selected", "1", 1)
    page.get_by_role("button", name="Yes, do it").click()
    page.get_by_role("button", name="Go on").wait_for()
    page.wait_for_load_state()
    yield "a cancel, cut off"
