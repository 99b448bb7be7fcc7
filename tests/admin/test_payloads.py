"""Values on the pages: whole ones on demand, and what a project's own function makes of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.db import connection
from django.test import AsyncClient, Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

import django_durable
from django_durable.admin import excerpts, exports, extras, payloads
from django_durable.core.payloads.codec import encode
from django_durable.models import LogLine, Run
from tests.admin.conftest import LOOK, Person
from tests.admin.pages import judge, list_url, run_url, text_of
from tests.admin.world import make_entry, make_line, make_run, make_schedule, make_worker
from tests.app import limits

KINDS = ("input", "output", "error", "retry", "notes")
SECRET = "4111-1111"
SCHEDULE = "admin:django_durable_schedule"


def value_url(run: Run, query: str = "") -> str:
    return reverse("admin:django_durable_run_value", args=[run.pk]) + query


def body(response: Any) -> str:
    return b"".join(response.streaming_content).decode()


def make_told_run(told: str) -> Run:
    """A run that says ``told`` in everything that a page shows of its values."""
    run = make_run("failed")
    error = encode({"type": "shop.Refused", "message": told, "traceback": told})
    make_entry(run, "step", 1, value=encode({"card": told}), error=error)
    make_entry(
        run, "child", 2, kind="child", status="failed", error=encode(["failed", {"type": told, "message": told}])
    )
    make_entry(run, "join", 3, kind="join", status="failed", error=encode({"left": {"type": told, "message": told}}))
    for kind, value in (("input", [told]), ("output", told), ("progress", {"done": 1, "total": 2, "message": told})):
        run.payloads.create(kind=kind, data=encode(value))
    run.payloads.create(kind="error", data=error)
    run.payloads.create(kind="notes", data=encode([["card", told], ["customer", "gold"]]))
    run.events.create(name="paid", payload=encode({"card": told}))
    return run


# --- errors in rows ---------------------------------------------------------------------------


def test_of_several_errors_it_is_said_which_there_are_and_what_the_first_was(boss: Client) -> None:
    run = make_run("failed")
    told = {7: {"type": "shop.Refused", "message": "no <b>card</b>", "traceback": "in seven"}, 20: {"type": "E"}}
    make_entry(run, "row", kind="map", status="failed", error=encode(told))
    page = boss.get(run_url(run)).content.decode()
    assert '">2 failed: 7, 20</strong>: Refused: no &lt;b&gt;card&lt;/b&gt;</summary>' in page
    for part in ("7: Refused: no &lt;b&gt;card&lt;/b&gt;\n20: E: ", "in seven"):
        assert part in page


STEP_OF_A_CHILD = "Step 'store' failed after 1 attempt: shop.NoWeight: row 7 has no weight"
CHILD_OF_A_CHILD = (
    "Child 'row' (01a20327-b8d9-749e-87c9-4406a1db7a50) failed: django_durable.exceptions.StepFailed: "
) + STEP_OF_A_CHILD


@pytest.mark.parametrize(
    ("raised", "message", "summary"),
    [
        ("django_durable.exceptions.StepFailed", STEP_OF_A_CHILD, ("NoWeight", "row 7 has no weight")),
        ("django_durable.exceptions.ChildFailed", CHILD_OF_A_CHILD, ("NoWeight", "row 7 has no weight")),
        ("shop.Refused", STEP_OF_A_CHILD, ("Refused", STEP_OF_A_CHILD[:64] + "…")),
        ("shop.Refused", "", ("Refused", "")),
        ("django_durable.exceptions.StepFailed", "not as it says it", ("StepFailed", "not as it says it")),
    ],
)
def test_a_row_tells_of_a_child_what_was_raised_first(
    boss: Client, raised: str, message: str, summary: tuple[str, str]
) -> None:
    """And all of it to whoever opens that."""
    run = make_run("failed")
    error = encode(["failed", {"type": raised, "message": message, "traceback": "t"}])
    make_entry(run, "row[7]", kind="child", status="failed", error=error)
    page = boss.get(run_url(run)).content.decode()
    told = '<summary><strong class="durable-error-type">{}</strong>: {}</summary>'.format(*map(escape, summary))
    assert told in page
    assert f'<p class="durable-raised">{raised}: {escape(message)}</p>' in page


# --- what is read of errors --------------------------------------------------------------------


def texts_read(client: Client, url: str) -> list[str]:
    """The errors, or what is read of them, that the queries of a page bring."""
    with CaptureQueriesContext(connection) as queries:
        assert client.get(url).status_code == 200
    found: list[str] = []
    with connection.cursor() as cursor:
        for query in queries:
            cursor.execute(query["sql"].replace("%", "%%"), [])
            found += [text for row in cursor.fetchall() for text in row if isinstance(text, str)]
    return [text for text in found if text.startswith('{"type":')]


def error_of(size: int) -> str:
    """One that takes so many characters as it is stored."""
    told = {"type": "shop.Refused", "message": "no card", "traceback": ""}
    return encode({**told, "traceback": "t" * (size - len(encode(told)))})


@pytest.mark.parametrize("more", [0, 1])
def test_of_an_error_that_is_too_long_to_be_parsed_what_is_shown_is_read(boss: Client, more: int) -> None:
    run, error = make_run("failed"), error_of(excerpts.ERROR_EXCERPT + more)
    make_entry(run, "charge", status="failed", error=error)
    run.payloads.create(kind="error", data=error)
    page = boss.get(run_url(run)).content.decode()
    read = sorted(len(text) for text in texts_read(boss, run_url(run)))
    if not more:
        assert read == [excerpts.ERROR_EXCERPT] * 2
        assert page.count("shop.Refused</strong>: no card") + page.count("shop.Refused: no card") == 2
        assert "characters in all" not in page
    else:
        assert read == [301, 2_049]
        assert page.count("32,769 characters in all") == 2
        assert f">{escape(error[:300])}…</pre>" in page
        assert f">{escape(error[:2_048])}…</pre>" in page


def test_a_list_reads_the_beginning_of_an_error(boss: Client, redact: Any) -> None:
    """All of it for who redacts; and nothing of one that is told of on its page only."""
    sizes = (2_047, 2_048, 2_049, extras.ERROR_MOST, extras.ERROR_MOST + 1)
    for size in sizes:
        make_run("failed").payloads.create(kind="error", data=error_of(size))
    assert sorted(map(len, texts_read(boss, list_url()))) == [2_047, 2_048, 2_048, 2_048]
    assert text_of(boss.get(list_url())).count("Refused: no card") == 4
    redact("saying")
    told_of.clear()
    assert sorted(map(len, texts_read(boss, list_url()))) == list(sizes[:-1])
    assert sorted(len(encode(value)) for kind, value in told_of if kind == "error") == list(sizes[:-1])


def test_wherever_a_list_stops_to_read_an_error_is_told(boss: Client) -> None:
    """Within a character that takes several as it is stored, and within what is none."""
    told = [
        ("x" * shift, character) for shift in range(7) for character in ("\0", "\ud83d", "😀", "\u2028", '"', "\\", "$")
    ]
    for before, character in told:
        message = f"begun {before}" + character * (5_000 // (len(encode(character)) - 2))
        run = make_run("failed")
        run.payloads.create(kind="error", data=encode({"type": "E", "message": message, "traceback": "t"}))
    assert text_of(boss.get(list_url())).count("E: begun ") == len(told)


# --- whole values ----------------------------------------------------------------------------


def test_a_value_that_was_cut_is_had_whole(boss: Client) -> None:
    run = make_run("failed")
    long = "x" * 300_000
    error = encode({"type": "E", "message": "m" * 9_000, "traceback": "t" * 60_000})
    make_entry(run, "load/a&b[1]", value=encode(long), error=error)
    for kind in KINDS:
        run.payloads.create(kind=kind, data=encode([["note", long]] if kind == "notes" else long))
    event = run.events.create(name="packed", payload=encode(long))
    page = boss.get(run_url(run)).content.decode()
    path = quote("load/a&b[1]", safe="")
    asked = {
        **{f"?of={kind}": long for kind in ("input", "output", "error", "notes")},
        f"?of=value&amp;path={path}": long,
        f"?of=failure&amp;path={path}": "t" * 60_000,
        f"?of=event&amp;id={event.pk}": long,
    }
    for query, wanted in asked.items():
        assert f'href="{value_url(run, query)}"' in page, query
        response = boss.get(value_url(run, query.replace("&amp;", "&")))
        assert response.streaming
        assert wanted in body(response)
    assert long in body(boss.get(value_url(run, "?of=retry")))
    assert "x" * 3_000 not in page


def test_a_value_of_a_few_pages_is_cut_as_well(boss: Client) -> None:
    """One that is read whole, and of which more can be told than its beginning."""
    run = make_run("succeeded")
    long = {kind: f"<{kind}>{kind[0] * 5_000}" for kind in ("input", "output", "notes")}
    for kind, text in long.items():
        run.payloads.create(kind=kind, data=encode([["note", text]] if kind == "notes" else text))
    page = boss.get(run_url(run)).content.decode()
    for kind, text in long.items():
        assert f"&#x27;{escape(text[:2_047])}…</pre>" in page, kind
        assert kind[0] * 2_100 not in page, kind
        assert f'<a href="{value_url(run, f"?of={kind}")}">Show all of it</a>' in page, kind
        assert text in body(boss.get(value_url(run, f"?of={kind}")))


def test_what_fits_is_shown_whole_and_leads_nowhere(boss: Client) -> None:
    run = make_run("succeeded")
    for kind, text in (("input", "i" * 2_046), ("output", "o" * 2_046), ("notes", "n" * 2_046)):
        run.payloads.create(kind=kind, data=encode([["note", text]] if kind == "notes" else text))
    make_entry(run, "step", value=encode("s" * 298), error=encode({"type": "E", "message": "m" * 300}))
    page = boss.get(run_url(run)).content.decode()
    for text in ("i" * 2_046, "o" * 2_046, "n" * 2_046, "s" * 298):
        assert f"&#x27;{text}&#x27;</pre>" in page
    assert f'<p class="durable-raised">E: {"m" * 300}</p>' in page
    assert "Show all of it" not in page


def test_what_a_step_raised_is_cut_in_its_row(boss: Client) -> None:
    run = make_run("running")
    raised = {"type": "shop.Refused", "message": "m" * 9_000, "traceback": "t" * 9_000}
    make_entry(run, "charge", error=encode(raised))
    page = boss.get(run_url(run)).content.decode()
    assert f'<p class="durable-raised">shop.Refused: {"m" * 300}…</p>' in page
    assert f'<pre class="durable-value">…{"t" * 300}</pre>' in page
    assert f'<a href="{value_url(run, "?of=failure&amp;path=charge")}">Show all of it</a>' in page


@pytest.mark.parametrize("text", ["<hostile>", "</code><hostile onclick='x'>", "&lt;hostile&gt;"])
def test_a_value_that_fits_into_its_row_is_escaped(boss: Client, text: str) -> None:
    run = make_run("running")
    make_entry(run, "step", value=encode(text))
    response = boss.get(run_url(run))
    assert f"<code>{escape(repr(text))}</code>" in response.content.decode()
    assert judge(response) == []


def test_it_is_text_and_nothing_else(boss: Client) -> None:
    run = make_run("succeeded")
    run.payloads.create(kind="output", data=encode("<script>alert(1)</script>\u202e\x00"))
    response = boss.get(value_url(run, "?of=output"))
    assert body(response) == "'<script>alert(1)</script>\\u202e\\x00'"
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert "no-store" in response["Cache-Control"]
    assert response["Content-Disposition"] == f'inline; filename="{run.pk}.txt"'
    saved = boss.get(value_url(run, "?of=output&download"))
    assert saved["Content-Disposition"].startswith("attachment;")


@pytest.mark.parametrize("text", ["{", '{"$":"gone","v":"the parcel"}', "[" * 3_000, ""])
def test_what_cannot_be_read_is_had_as_it_is_stored(boss: Client, text: str) -> None:
    run = make_run("succeeded")
    run.payloads.create(kind="output", data=text)
    assert body(boss.get(value_url(run, "?of=output"))) == text


@pytest.mark.parametrize(
    "query",
    ["", "?of=tried", "?of=value", "?of=value&path=%00", "?of=value&path=other", "?of=event&id=x", "?of=event&id=²",
     f"?of=event&id={'9' * 30}", "?of=output"],
)  # fmt: skip
def test_what_is_not_there_is_not_found(boss: Client, query: str) -> None:
    run = make_run("succeeded")
    make_entry(run, "step")
    make_run("succeeded").payloads.create(kind="output", data="1")
    assert boss.get(value_url(run, query)).status_code == 404


def test_an_event_of_another_run_is_not_found(boss: Client) -> None:
    event = make_run().events.create(name="packed", payload="1")
    assert boss.get(value_url(make_run(), f"?of=event&id={event.pk}")).status_code == 404


@pytest.mark.parametrize(
    ("permissions", "answer"), [(LOOK, 403), (("view_payload",), 403), ((*LOOK, "view_payload"), 200)]
)
def test_it_needs_both_permissions(person: Person, permissions: tuple[str, ...], answer: int) -> None:
    client, run = person(*permissions), make_told_run("x" * 9_000)
    assert client.get(value_url(run, "?of=output")).status_code == answer
    assert client.post(value_url(run, "?of=output")).status_code == 405
    if answer == 403 and permissions == LOOK:
        assert value_url(run) not in client.get(run_url(run)).content.decode()


def test_it_is_streamed_under_asgi_as_well() -> None:
    run = make_run("succeeded")
    run.payloads.create(kind="output", data=encode("z" * 200_000))
    User.objects.create_superuser("eve")

    async def ask() -> str:
        client = AsyncClient()
        await client.aforce_login(await User.objects.aget())
        response = await client.get(value_url(run, "?of=output"))
        return b"".join([piece async for piece in response.streaming_content]).decode()

    assert async_to_sync(ask)() == encode("z" * 200_000)


# --- redaction -------------------------------------------------------------------------------


def test_one_module_asks_for_it() -> None:
    modules = Path(django_durable.__file__).parent.rglob("*.py")
    assert [path.name for path in modules if "durable_settings().REDACT" in path.read_text()] == ["redacting.py"]


def masked(run: Run, kind: str, value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(SECRET, "XXXX")
    if isinstance(value, list):
        return [masked(run, kind, one) for one in value]
    return {key: masked(run, kind, one) for key, one in value.items()} if isinstance(value, dict) else value


seen_kinds: list[str] = []


def noting(run: Run, kind: str, value: Any) -> Any:
    seen_kinds.append(kind)
    return f"{kind} of {run.workflow}"


def raising(run: Run, kind: str, value: Any) -> Any:
    raise KeyError(value)


@pytest.fixture
def redact(settings: Any) -> Any:
    def use(name: str) -> None:
        settings.DURABLE = {**settings.DURABLE, "REDACT": f"{__name__}.{name}"}

    return use


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (f"KeyError: 'no key for {SECRET}: none'", "KeyError: What it says is not shown"),
        (SECRET, "What it says is not shown"),
        (f"InvalidSchedule: {SECRET}", "InvalidSchedule: What it says is not shown"),
        (f"a {SECRET}: b", "What it says is not shown"),
        ("Its workflow has another schedule called 'daily: EU'.", "another schedule called 'daily: EU'."),
        ("InvalidSchedule: Schedule 'x': cannot be understood", "Schedule 'x': cannot be understood"),
        ("No worker that is alive knows the workflow 'app.gone'.", "knows the workflow 'app.gone'"),
    ],
    ids=["raised by the project", "without a type", "of a like name", "no type", "duplicate", "expression", "workflow"],
)
def test_what_stops_a_schedule_may_hold_a_value(boss: Client, redact: Any, problem: str, told: str) -> None:
    """The function is asked about runs, so what it would hide is not known."""
    schedule = make_schedule(problem=problem)

    def pages() -> list[str]:
        urls = [reverse(f"{SCHEDULE}_changelist"), reverse(f"{SCHEDULE}_change", args=[schedule.pk])]
        return [text_of(boss.get(url)) for url in urls]

    assert all(problem in page for page in pages())
    redact("masked")
    assert all(told in page and SECRET not in page for page in pages())


def everything(client: Client, run: Run) -> str:
    """All pages on which something of the run's values is."""
    pages = [client.get(run_url(run)), client.get(list_url())]
    queries = [f"?of={kind}" for kind in KINDS]
    queries += [f"?of={what}&path={path}" for what in ("value", "failure") for path in ("step", "child", "join")]
    queries += [f"?of=event&id={event.pk}" for event in run.events.all()]
    whole = [client.get(value_url(run, query)) for query in queries]
    assert all(judge(page) == [] for page in pages)
    texts = [body(one) if one.streaming else one.content.decode() for one in whole]
    return "\n".join([*(page.content.decode() for page in pages), *texts])


@pytest.mark.parametrize("length", [1, 400, 4_000, 40_000])
def test_one_function_redacts_everything(boss: Client, redact: Any, length: int) -> None:
    run = make_told_run(SECRET * length)
    assert SECRET in everything(boss, run)
    redact("masked")
    text = everything(boss, run)
    assert SECRET not in text
    assert "XXXX" in text


def test_it_is_told_what_the_value_is(boss: Client, redact: Any) -> None:
    run = make_told_run("told")
    redact("noting")
    seen_kinds.clear()
    text = text_of(boss.get(run_url(run)))
    assert set(seen_kinds) == {"input", "output", "value", "error", "event", "progress", "notes"}
    assert "'input of app.doubling'" in text
    assert "told" not in text


@pytest.mark.parametrize("name", ["raising", "nowhere"])
def test_where_it_fails_nothing_is_shown(
    boss: Client, redact: Any, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    run = make_told_run(SECRET)
    redact(name)
    text = everything(boss, run)
    assert SECRET not in text
    assert "what is to redact it failed" in text
    assert SECRET not in caplog.text
    assert "DURABLE['REDACT'] raised" in caplog.text


def test_what_cannot_be_read_cannot_be_redacted(boss: Client, redact: Any) -> None:
    run, text = make_run("failed"), f'{{"$":"gone","v":"{SECRET}"}}'
    make_entry(run, "step", value=text, error=text)
    for kind in (*KINDS, "progress"):
        run.payloads.create(kind=kind, data=f'[["card",{text}]]' if kind == "notes" else text)
    run.events.create(name="paid", payload=text)
    redact("masked")
    page = everything(boss, run)
    assert SECRET not in page
    assert "so not be redacted" in page


def test_without_permission_errors_are_redacted_too(person: Person, redact: Any) -> None:
    run = make_told_run(SECRET)
    redact("masked")
    page = person(*LOOK).get(run_url(run)).content.decode()
    assert SECRET not in page
    assert "XXXX" in page


def test_a_large_value_is_not_set_out_in_lines(boss: Client, redact: Any) -> None:
    run = make_run("succeeded")
    value = [SECRET] * payloads.PRETTY_MOST
    run.payloads.create(kind="output", data=encode(value))
    assert body(boss.get(value_url(run, "?of=output"))) == encode(value)
    redact("masked")
    assert body(boss.get(value_url(run, "?of=output"))) == repr(["XXXX"] * payloads.PRETTY_MOST)


def export_of(client: Client) -> list[dict[str, Any]]:
    """Every run that there is, as the file of those that match has it."""
    newest = Run.objects.order_by("-pk")[0]
    data = {"action": "export_selected", "_selected_action": "all", "select_across": "1", "confirmed": "1"}
    response = client.post(list_url(), {**data, "upto": str(newest.pk)})
    # The last line says that it is whole.
    return [json.loads(line) for line in body(response).splitlines()[:-1]]


told_of: list[tuple[Any, Any]] = []


def hiding_cards(run: Run, kind: str, value: Any) -> Any:
    """As the documents tell: annotations come as a dict."""
    told_of.append((run.pk, value))
    if kind == "notes" and isinstance(value, dict):
        return {name: "•••" if name == "card" else one for name, one in value.items()}
    return value


def test_annotations_are_asked_for_one_by_one_wherever_they_are_had(boss: Client, redact: Any) -> None:
    run = make_run("succeeded")
    run.payloads.create(kind="notes", data=encode([["card", SECRET], ["customer", "gold"]]))
    redact("hiding_cards")
    ways = {
        "page": lambda: boss.get(run_url(run)).content.decode(),
        "whole": lambda: body(boss.get(value_url(run, "?of=notes"))),
        "export": lambda: export_of(boss)[0]["payloads"]["notes"].encode().decode("unicode_escape"),
    }
    for way, had in ways.items():
        told_of.clear()
        text = had()
        assert SECRET not in text and "•••" in text and "gold" in text, way
        assert [value for _, value in told_of] == [{"card": SECRET}, {"customer": "gold"}], way


@pytest.mark.parametrize("text", ["{", "7", '{"card":"4111-1111"}', '[["card"]]'])
def test_annotations_that_cannot_be_told_apart_are_asked_for_by_nobody(boss: Client, redact: Any, text: str) -> None:
    run = make_run("succeeded")
    run.payloads.create(kind="notes", data=text)
    assert boss.get(value_url(run, "?of=notes")).status_code == 200
    redact("hiding_cards")
    told_of.clear()
    assert "so not be redacted" in text_of(boss.get(run_url(run)))
    assert boss.get(value_url(run, "?of=notes")).status_code == 403
    assert export_of(boss)[0]["payloads"]["notes"] is None
    assert told_of == []


class Unwritable:
    def __repr__(self) -> str:
        raise RuntimeError(SECRET)


def unwritable(run: Run, kind: str, value: Any) -> Any:
    return Unwritable()


@pytest.mark.parametrize("length", [1, payloads.PRETTY_MOST])
def test_what_cannot_be_written_is_not_shown_as_it_is_stored(boss: Client, redact: Any, length: int) -> None:
    run = make_told_run(SECRET * length)
    redact("unwritable")
    text = everything(boss, run)
    assert SECRET not in text
    assert "so not be shown redacted" in text


def saying(run: Run, kind: str, value: Any) -> Any:
    told_of.append((kind, value))
    return masked(run, kind, value)


def test_what_a_run_is_blocked_for_is_redacted(boss: Client, redact: Any) -> None:
    run, text = make_run("blocked", block_reason="undecodable"), f"input: card, got '{SECRET}'"
    run.payloads.create(kind="block", data=encode({"message": text}))
    headline = "A worker with other code tries it again"
    assert f"{text}. {headline}" in text_of(boss.get(run_url(run)))
    assert SECRET in json.dumps(export_of(boss))
    redact("saying")
    for had in (lambda: text_of(boss.get(run_url(run))), lambda: json.dumps(export_of(boss))):
        told_of.clear()
        assert SECRET not in had() and "XXXX" in had()
        assert set(map(str, told_of)) == {str(("block", {"message": text}))}
    redact("raising")
    page = text_of(boss.get(run_url(run)))
    assert SECRET not in page and headline not in page and "what is to redact it failed" in page
    assert export_of(boss)[0]["payloads"]["block"] is None


def test_the_key_of_a_limit_is_redacted(boss: Client, redact: Any) -> None:
    workflow = limits.one_a_tenant.name
    key = f"{workflow}:{SECRET}"
    make_run("running", workflow=workflow, limit_key=key)
    run = make_run("queued", workflow=workflow, limit_key=key)
    make_worker(workflows=[workflow])
    assert f"Its limit '{key}' is full" in text_of(boss.get(run_url(run)))
    redact("saying")
    told_of.clear()
    assert f"Its limit '{workflow}:XXXX' is full" in text_of(boss.get(run_url(run)))
    assert told_of == [("limit_key", key)]


def test_without_permission_the_key_of_a_limit_is_told_nowhere(person: Person, redact: Any) -> None:
    workflow = limits.one_a_tenant.name
    key = f"{workflow}:{SECRET}"
    make_run("running", workflow=workflow, limit_key=key)
    run = make_run("queued", workflow=workflow, limit_key=key)
    make_worker(workflows=[workflow])
    ann, bob = person(*LOOK), person(*LOOK, "view_payload", name="bob")
    live = reverse("admin:django_durable_run_live", args=[run.pk])
    for url in (run_url(run), live, list_url()):
        assert SECRET not in ann.get(url).content.decode()
    assert "Its limit is full: 1 of 1 are running" in text_of(ann.get(run_url(run)))
    assert SECRET not in json.dumps(export_of(ann))
    assert f"Its limit '{key}' is full" in text_of(bob.get(run_url(run)))
    # Nobody is asked about what is not shown.
    redact("raising")
    assert "Its limit is full: 1 of 1 are running" in text_of(ann.get(run_url(run)))


def test_without_permission_what_a_run_is_blocked_for_is_told_and_redacted(person: Person, redact: Any) -> None:
    """Like an error: for everybody who has to mend it."""
    run, ann = make_run("blocked", block_reason="undecodable"), person(*LOOK)
    run.payloads.create(kind="block", data=encode({"message": f"input: card, got '{SECRET}'"}))
    assert SECRET in text_of(ann.get(run_url(run)))
    redact("masked")
    assert "input: card, got 'XXXX'" in text_of(ann.get(run_url(run)))
    assert SECRET not in json.dumps(export_of(ann))


@pytest.mark.parametrize("text", ["{", "7", '{"$":"gone","v":1}', "{}"])
def test_a_block_whose_text_is_damaged_says_so(boss: Client, text: str) -> None:
    run = make_run("blocked")
    run.payloads.create(kind="block", data=text)
    assert "the text that says why cannot be read. A worker with other code" in text_of(boss.get(run_url(run)))


def test_the_log_is_exported_for_those_who_may_view_payloads_and_redacted(person: Person, redact: Any) -> None:
    run = make_run("succeeded")
    line = {"at": timezone.now(), "level": logging.INFO, "message": f"charged {SECRET}", "place": 0}
    LogLine.objects.create(run=run, number=1, **line)
    ann, bob = person(*LOOK), person(*LOOK, "view_payload", name="bob")
    assert export_of(ann)[0]["log"] == []
    assert [line["message"] for line in export_of(bob)[0]["log"]] == [f"charged {SECRET}"]
    redact("saying")
    told_of.clear()
    assert [line["message"] for line in export_of(bob)[0]["log"]] == ["charged XXXX"]
    assert told_of == [("log", f"charged {SECRET}")]
    redact("raising")
    assert [line["message"] for line in export_of(bob)[0]["log"]] == [None]


def test_what_an_attempt_raised_is_exported_redacted_as_an_error(boss: Client, redact: Any) -> None:
    said = f"attempt 1 failed, the next one comes in 2 s: shop.Refused: card {SECRET}"
    make_line(make_run("running"), said, attempt=1, scope="charge")
    assert export_of(boss)[0]["log"][0]["message"] == said
    redact("saying")
    told_of.clear()
    assert export_of(boss)[0]["log"][0]["message"] == said.replace(SECRET, "XXXX")
    assert told_of == [("error", {"type": "shop.Refused", "message": f"card {SECRET}", "traceback": ""})]
    redact("raising")
    assert export_of(boss)[0]["log"][0]["message"] is None


def test_a_run_that_is_pruned_meanwhile_is_asked_of_as_itself(
    boss: Client, redact: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who redacts is never asked of a run that is nobody's."""
    runs = [make_told_run(SECRET) for _ in range(2)]
    export_runs = exports.export_runs

    def pruning(ids: Any) -> Iterator[Any]:
        documents = list(export_runs(ids))
        Run.objects.filter(pk=runs[0].pk).delete()
        return iter(documents)

    # Nobody else can prune within this test's transaction.
    monkeypatch.setattr(exports, "read_only", lambda db: nullcontext())
    monkeypatch.setattr(exports, "export_runs", pruning)
    redact("hiding_cards")
    told_of.clear()
    assert {line["run"]["id"] for line in export_of(boss)} == {str(run.pk) for run in runs}
    assert {run_id for run_id, _ in told_of} == {run.pk for run in runs}
