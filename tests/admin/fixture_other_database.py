"""Not collected by itself: ``test_other_database.py`` runs it, under the settings of ``two_databases``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import LogEntry
from django.db import DatabaseError, connections
from django.test import Client
from django.urls import reverse

from django_durable import tag_for
from django_durable.models import Audit, IdempotencyKey, Payload, Run, Schedule, Tag
from tests.admin.conftest import LOOK, Person
from tests.admin.every import Rows, answer, make_rows, question
from tests.admin.pages import list_url, run_url, text_of
from tests.admin.test_access import ACTIONS, ASKED_FOR, MATRIX
from tests.admin.two_databases import ENGINE, as_a_test
from tests.admin.world import make_full_run, make_run, make_schedule
from tests.app.models import Counter
from tests.app.workflows import doubling

# Commits, as in life: a lock that is asked for outside of its database's transaction is refused.
pytestmark = pytest.mark.django_db(transaction=True, databases=["default", ENGINE])

OURS = re.compile(r"\bdjango_durable_\w+")
PROJECTS = re.compile(r"\b(?:auth_user|auth_perm|django_admin_log|django_session|django_content_type|app_counter)")


@pytest.fixture(autouse=True)
def asked() -> Iterator[list[tuple[str, str]]]:
    """Every statement with its database. Where one names a table that is not there the test fails, also where whoever
    asked did not mind."""
    statements: list[tuple[str, str]] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        statements.append((context["connection"].alias, sql))
        return execute(sql, params, many, context)

    with ExitStack() as stack:
        for alias in ("default", ENGINE):
            stack.enter_context(connections[alias].execute_wrapper(note))
        yield statements
    astray = [(alias, sql) for alias, sql in statements if (PROJECTS if alias == ENGINE else OURS).search(sql)]
    assert astray == []


@pytest.fixture
def rows() -> Rows:
    with as_a_test():
        return make_rows()


def told() -> tuple[int, int]:
    """In Django's history and in the audit."""
    with as_a_test():
        return LogEntry.objects.count(), Audit.objects.count()


def status_of(name: str, method: str) -> int:
    """With which whoever may do everything is answered."""
    rule = MATRIX[name]
    if method not in rule.methods:
        return 405
    return rule.well if rule.lets_in(ASKED_FOR) else rule.refused


def test_each_database_has_its_own_tables() -> None:
    ours = {table for table in connections[ENGINE].introspection.table_names() if OURS.match(table)}
    assert {"django_durable_run", "django_durable_schedule", "django_durable_audit"} <= ours
    assert not any(PROJECTS.match(table) for table in connections[ENGINE].introspection.table_names())
    project = connections["default"].introspection.table_names()
    assert {"auth_user", "django_admin_log"} <= {*project} and not any(OURS.match(table) for table in project)


@pytest.fixture
def _one_goes_astray(asked: list[tuple[str, str]]) -> Iterator[None]:
    """Forgotten before the statements are judged."""
    yield
    assert [alias for alias, sql in asked if OURS.search(sql)] == ["default", ENGINE]
    asked.clear()


@pytest.mark.usefixtures("_one_goes_astray")
def test_a_query_that_does_not_say_where_it_goes_is_seen() -> None:
    with pytest.raises(DatabaseError, match="django_durable_run"):
        Run.objects.count()
    with as_a_test():
        assert Run.objects.count() == 0


def test_every_page_comes(boss: Client, rows: Rows, asked: list[tuple[str, str]]) -> None:
    found = {name: boss.get(rows.url(name)).status_code for name in MATRIX}
    assert found == {name: status_of(name, "get") for name in MATRIX}
    assert {alias for alias, _ in asked} == {"default", ENGINE}


def test_every_page_of_what_has_all_that_there_can_be(boss: Client) -> None:
    with as_a_test():
        run = make_full_run("text", "blocked")
        schedule = Schedule.objects.get()
    for url in (run_url(run), reverse("admin:django_durable_schedule_change", args=[schedule.pk]), list_url()):
        assert "text" in text_of(boss.get(url))


@pytest.mark.parametrize("name", [name for name, rule in MATRIX.items() if rule.does])
def test_every_verb_works(boss: Client, rows: Rows, name: str) -> None:
    assert boss.post(rows.url(name), question(name)).status_code == 200
    before = told()
    done = boss.post(rows.url(name), answer(name), follow=True)
    assert [status for _, status in done.redirect_chain] == [302] and done.status_code == 200
    entries, audits = (after - count for after, count in zip(told(), before, strict=True))
    assert entries == 1 and audits
    assert "why" in LogEntry.objects.latest("pk").change_message


@pytest.mark.parametrize(("verb", "page"), [("cancel", "run"), ("disable", "schedule")])
def test_the_history_of_a_row_has_what_was_done(person: Person, rows: Rows, verb: str, page: str) -> None:
    """By somebody with a permission, which is in the project's database."""
    client = person(*LOOK, {"run": "cancel_run", "schedule": "change_schedule"}[page])
    client.post(rows.url(f"{page}_{verb}"), answer(f"{page}_{verb}"))
    row = rows.live if page == "run" else rows.schedule
    history = client.get(reverse(f"admin:django_durable_{page}_history", args=[row.pk]))
    assert ": why" in text_of(history)
    assert "why" in text_of(client.get(reverse(f"admin:django_durable_{page}_change", args=[row.pk])))


CHOSEN = {"cancel": "live", "pause": "live", "enable": "idle", "disable": "schedule"}
WAYS = [(*action, way) for action in ACTIONS for way in ("ticked", "all")[: 2 if action[0] == "run" else 1]]


@pytest.mark.parametrize(("model", "action", "way"), WAYS)
def test_every_action_works(boss: Client, rows: Rows, model: str, action: str, way: str) -> None:
    row = getattr(rows, CHOSEN.get(action.partition("_")[0], "run"))
    sent = {"action": action, ACTION_CHECKBOX_NAME: str(row.pk), "reason": "why"}
    confirmed = {"confirmed": "1", **({"ids": row.pk.hex} if model == "run" else {})}
    if way == "all":
        sent |= {"select_across": "1", ACTION_CHECKBOX_NAME: "all"}
        confirmed = {"confirmed": "1", "upto": str(rows.live.pk)}
    url = rows.url(f"{model}_changelist")
    assert boss.post(url, sent).status_code == 200
    before = told()
    done = boss.post(url, {**sent, **confirmed})
    if action == "export_selected":
        text = b"".join(done.streaming_content).decode()  # type: ignore[attr-defined]
        assert str(row.pk) in text and '"django_durable.end"' in text.splitlines()[-1]
    else:
        assert done.status_code == 302
    entries, audits = (after - count for after, count in zip(told(), before, strict=True))
    assert entries == 1 and bool(audits) == (action != "export_selected")


def test_every_filter_and_search_finds(boss: Client, rows: Rows) -> None:
    with as_a_test():
        keyed = doubling.using(idempotency_key="order-42", tags=["blue"]).enqueue(number=1).run
        for status in ("queued", "scheduled", "running", "paused", "blocked", "succeeded", "cancelled"):
            Payload.objects.create(run=make_run(status), kind="progress", data='{"done": 1, "total": 2}')
        assert IdempotencyKey.objects.count() == 1
        make_schedule(name="broken", problem="It has one.")
    for term in (str(keyed.pk), "order-42", "blue"):
        assert str(keyed.pk) in boss.get(list_url(f"?q={term}")).content.decode(), term
    followed = 0
    for page in ("run_changelist", "schedule_changelist", "worker_changelist"):
        listed = boss.get(rows.url(page)).content.decode()
        for href in sorted(set(re.findall(r'href="(\?[^"]*)"', listed))):
            url = rows.url(page) + href.replace("&amp;", "&")
            assert boss.get(url).status_code == 200, href
            followed += 1
    assert followed > 40
    for query in (f"?parent={rows.run.pk}", f"?until={rows.run.pk}", "?status=failed&q=blue", "?status=attention"):
        assert boss.get(list_url(query)).status_code == 200, query


@pytest.mark.urls("tests.admin.test_panel")
def test_the_runs_of_a_row_of_the_project_are_on_its_page(boss: Client) -> None:
    counter = Counter.objects.create(name="a")
    with as_a_test():
        run = make_run("running")
        Tag.objects.create(run=run, name=tag_for(counter))
    url = reverse("admin:app_counter_change", args=[counter.pk], current_app="admin")
    page = boss.get(url)
    assert str(run.pk) in page.content.decode()
    form = page.context["adminform"].form
    sent = {name: form[name].value() for name in form.fields} | {"name": "b"}
    for inline in page.context["inline_admin_formsets"]:
        sent |= {field.html_name: field.value() for field in inline.formset.management_form}
    assert boss.post(url, {name: value for name, value in sent.items() if value is not None}).status_code == 302
    assert Counter.objects.get().name == "b"
