"""No text of anybody's is ever a part of a statement: what people name, search, filter and send goes as a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db import connection
from django.test import Client
from django.urls import reverse

from django_durable import Context, durable_workflow, fork_runs, get_run, hold_queue
from django_durable.models import Run
from django_durable.testing import run_until_idle
from tests.admin.every import addresses, make_rows
from tests.hostile.app.workflows import do, taking
from tests.hostile.statements import statements_with

pytestmark = [pytest.mark.django_db, pytest.mark.contract]

MARKER = "zq7"
ATTACKS = {
    "quote": f"{MARKER}' OR '1'='1",
    "double quote": f'{MARKER}") OR 1=1 --',
    "stacked": f"{MARKER}'; DELETE FROM django_durable_run; --",
    "dollar": f"$${MARKER}$$ || pg_sleep(9)",
    "percent": f"%s %(id)s %% {MARKER}",
    "backslash": f"\\' {MARKER} \\",
    "like": f"%{MARKER}_",
}
ADDRESSES = [name for name in addresses() if not name.endswith("_old")]


@pytest.mark.django_db
def test_a_value_in_a_statement_would_be_seen() -> None:
    with statements_with(MARKER) as (written, given), connection.cursor() as cursor:
        cursor.execute(f"SELECT '{MARKER}'")
        cursor.execute("SELECT %s", [MARKER])
    assert (len(written), len(given)) == (1, 1)


# --- addresses -------------------------------------------------------------------------------

FILTERS = ("status", "trouble", "reason", "created", "until", "workflow", "queue", "parent", "q")
OTHERS = ("p", "o", "all", "e", "_facets", "_popup", "_to_field", "_changelist_filters", "pk__in", "id", "status__in",
          "workflow__regex", "payloads__data__contains", "from", "near", "in", "of", "to", "page", "token", "since",
          "expression", "timezone", "kind", "name", "day", "hours", "window")  # fmt: skip


@pytest.mark.parametrize("what", ["quote", "stacked", "percent"])
def test_no_address_makes_a_statement_of_what_it_is_asked(admin_client: Client, what: str, settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}
    rows, attack = make_rows(), ATTACKS[what]
    before = Run.objects.count()
    with statements_with(MARKER) as (written, given):
        for name in ADDRESSES:
            url = rows.url(name).partition("?")[0]
            admin_client.get(url, dict.fromkeys((*FILTERS, *OTHERS), attack))
        for field in (*FILTERS, *OTHERS):
            response = admin_client.get(rows.url("run_changelist"), {field: attack})
            assert response.status_code in (200, 302, 400), field
        url = f"{rows.url('run_changelist')}?{urlencode({'q': attack, 'workflow': attack})}"
        for action in ("cancel_selected", "export_selected", attack):
            picked = {"action": action, ACTION_CHECKBOX_NAME: attack, "select_across": "1", "confirmed": "1"}
            admin_client.post(url, {**picked, "upto": attack, "place": attack, "reason": attack})
        for verb in ("cancel", "pause"):
            admin_client.post(rows.url(f"run_{verb}"), {"confirmed": "1", "reason": attack})
    assert written == []
    assert given, "nothing of it has come to the database at all"
    assert Run.objects.count() == before


@pytest.mark.parametrize("what", ATTACKS)
def test_a_filter_finds_what_is_called_so_and_nothing_else(admin_client: Client, what: str) -> None:
    attack = ATTACKS[what]
    rows = make_rows()
    for query in ({"workflow": attack}, {"queue": attack}, {"q": attack}, {"parent": attack}, {"status": attack}):
        response = admin_client.get(reverse("admin:django_durable_run_changelist"), query)
        shown = [run.pk for run in response.context["cl"].result_list] if response.status_code == 200 else []
        assert shown == [], query
    Run.objects.filter(pk=rows.live.pk).update(workflow=attack)
    response = admin_client.get(reverse("admin:django_durable_run_changelist"), {"workflow": attack})
    assert [run.pk for run in response.context["cl"].result_list] == [rows.live.pk]


# --- the API ---------------------------------------------------------------------------------


@durable_workflow(name="hostile.called")
def called(ctx: Context, name: str) -> Any:
    """Everything that has a name has this one."""
    ctx.annotate(**{name: name})
    ctx.progress(1, 2, name)
    ctx.log.info("%s", name)
    ctx.step(name, do, name, key=name)
    ctx.try_block(name, lambda ctx: ctx.run_workflow(name, taking.using(tags=[name]), name))
    ctx.join("join", {name: lambda ctx: ctx.sleep(name, 0)})
    return ctx.wait_for_event("wait", event=name).payload


STARTS: dict[str, Callable[[str], Any]] = {
    "plain": lambda name: called.enqueue(name),
    "many": lambda name: called.enqueue_many([{"name": name}] * 3)[0],
    "with all options": lambda name: called.using(tags=[name], idempotency_key=name, run_after=0.0).enqueue(name),
}


@pytest.mark.usefixtures("possible_tables")
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("what", ["quote", "percent", "backslash"])
def test_a_run_that_is_called_so_in_everything_makes_no_statement_of_it(start: str, what: str) -> None:
    name = ATTACKS[what]
    before = Run.objects.count()
    with statements_with(MARKER) as (written, given):
        run = STARTS[start](name)
        run_until_idle(skip_waits=True)
        run.send_event(name, name, name, reason=name, actor=name)
        run_until_idle(skip_waits=True)
        assert run.result(timeout=0) == name
        run.why(), run.steps(), run.log(), run.annotations, run.progress
        fork_runs([run], name, reason=name, actor=name)
        other = get_run(run.id).rerun(name, actor=name)
        other.pause(name, actor=name)
        other.resume(name, actor=name)
        other.cancel(name, actor=name)
        hold_queue(name, reason=name, actor=name)
        Run.objects.tagged(name).for_workflow(name).count()
    assert written == []
    assert given
    assert Run.objects.count() > before
