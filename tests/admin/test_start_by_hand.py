"""Starting a run by hand: a form made from the signature, and what comes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from html import unescape
from typing import Annotated, Any, Literal
from urllib.parse import urlencode
from uuid import UUID, uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.translation import override

from django_durable import durable_type, durable_workflow
from django_durable.exceptions import IdempotencyConflict, RunLocked
from django_durable.models import Audit, Run
from django_durable.workflows.registry import get_workflow
from tests.admin.conftest import LOOK, Person
from tests.admin.pages import judge, run_url, text_of
from tests.admin.test_hostile import CORPUS
from tests.admin.test_workflows import PAGE

START = PAGE + "start/"


@pytest.fixture(autouse=True)
def _on(settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": True}


@durable_type("hand.colour")
class Colour(Enum):
    RED = "r"
    BLUE = "b"


@durable_type("hand.address")
@dataclass
class Address:
    street: str
    number: int


@durable_workflow(name="hand.all", priority=5)
def every_kind(
    ctx: Any,
    text: str,
    number: int,
    share: float,
    price: Decimal,
    day: date,
    at: datetime,
    key: UUID,
    sure: bool,
    size: Literal["s", 3],
    colour: Colour,
    rows: list[int],
    anything,  # type: ignore[no-untyped-def]
    maybe: int | None,
    bounded: Annotated[int, "more than 0"] = 7,
    name: str | None = None,
    polite: bool = True,
    tone: Colour = Colour.BLUE,
    options: dict[str, int] | None = {"a": 1},  # noqa: B006
) -> None:
    """Has a field for each."""


@durable_workflow(name="hand.order")
def order(ctx: Any, order_id: int, address: Address | None = None, queue: str = "mine") -> None: ...


@durable_workflow(name="hand.many")
def many(ctx: Any, first: int, /, second: int = 2, *others: int, flag: bool = False, **more: str) -> None: ...


@durable_workflow(name="hand.single", singleton="skip", concurrency_key=lambda which, **_: str(1 // which))
def single(ctx: Any, which: int) -> None: ...


@durable_workflow(name="hand.latest", singleton="cancel_running")
def latest(ctx: Any) -> None: ...


@durable_workflow(name="hand.none")
def takes_none(ctx: Any) -> None: ...


@durable_workflow(name="hand.letter")
def letter(ctx: Any, text: str = "Dear\nAnn") -> None: ...


GIVEN = {
    "text": " as it is ",
    "number": "3",
    "share": "0.5",
    "price": "9.90",
    "day": "2024-02-29",
    "at": "2024-05-01T06:00:30",
    "key": str(UUID(int=7)),
    "sure": "1",
    "size": "1",
    "colour": "0",
    "rows": "[1, 2]",
    "anything": '{"a": null}',
    "maybe": "",
}


def address(workflow: str) -> str:
    return f"{START}?{urlencode({'workflow': workflow})}"


def form_of(client: Client, workflow: str) -> dict[str, str]:
    """What a browser would send of the form as it comes."""
    return fields_of(client.get(address(workflow)).content.decode())


def fields_of(page: str) -> dict[str, str]:
    form = page[page.index('class="durable-form"') :]
    found = {}
    for tag in re.findall(r"<input [^>]*>", form):
        attributes = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if "name" in attributes:
            found[attributes["name"]] = unescape(attributes.get("value", ""))
    for name, text in re.findall(r'<textarea name="([^"]*)"[^>]*>\n?(.*?)</textarea>', form, re.DOTALL):
        found[name] = unescape(text)
    for name, options in re.findall(r'<select name="([^"]*)".*?>(.*?)</select>', form, re.DOTALL):
        chosen = re.findall(r'<option value="([^"]*)" selected', options)
        found[name] = chosen[0] if chosen else ""
    return found


def send(client: Client, workflow: str, given: dict[str, str] | None = None, **options: str) -> Any:
    sent = {**form_of(client, workflow), **{f"input:{name}": text for name, text in (given or {}).items()}, **options}
    return client.post(address(workflow), sent)


def input_of(run: Run) -> Any:
    return get_workflow(run.workflow).signature.keywords(run.workflow, run.payloads.get(kind="input").data)


def test_each_annotation_has_its_field_and_each_default_its_value(boss: Client) -> None:
    response = boss.get(address("hand.all"))
    assert judge(response) == []
    page, form = response.content.decode(), form_of(boss, "hand.all")
    for kind in ("number", "date", "datetime-local", "text"):
        assert f'<input type="{kind}" name="input:' in page
    assert "Has a field for each." in page
    assert {name: form[f"input:{name}"] for name in ("bounded", "name", "polite", "tone", "options", "text")} == {
        "bounded": "7", "name": "", "polite": "0", "tone": "1", "options": '{"a": 1}', "text": "",
    }  # fmt: skip
    assert 'placeholder="default"' in page and 'placeholder="5"' in page


def test_what_is_sent_is_what_the_workflow_is_given_and_its_page_comes_next(boss: Client) -> None:
    response = send(boss, "hand.all", GIVEN, reason="a customer asked")
    run = Run.objects.get()
    assert (response.status_code, response["Location"]) == (302, run_url(run))
    assert (run.workflow, run.queue, run.status) == ("hand.all", "default", "queued")
    assert input_of(run) == {
        "text": " as it is ", "number": 3, "share": 0.5, "price": Decimal("9.90"), "day": date(2024, 2, 29),
        "at": datetime(2024, 5, 1, 6, 0, 30, tzinfo=UTC), "key": UUID(int=7), "sure": False, "size": 3,
        "colour": Colour.RED, "rows": [1, 2], "anything": {"a": None}, "maybe": None, "bounded": 7, "name": None,
        "polite": True, "tone": Colour.BLUE, "options": {"a": 1},
    }  # fmt: skip
    audit, entry = Audit.objects.get(), LogEntry.objects.get()
    assert (audit.run_id, audit.verb, audit.actor, audit.reason) == (run.pk, "start", "ann", "a customer asked")
    assert (entry.object_id, entry.change_message) == (str(run.pk), "Start by hand: a customer asked")


@pytest.mark.parametrize(
    ("name", "text", "stored"),
    [
        ("maybe", "0", 0),
        ("options", "null", None),
        ("options", "", {"a": 1}),
        ("bounded", "", 7),
        ("polite", "1", False),
        ("name", "", None),
        ("name", "x", "x"),
        ("anything", "null", None),
        ("anything", "0", 0),
        ("sure", "0", True),
    ],
)
def test_empty_and_null_and_nothing_are_told_apart(boss: Client, name: str, text: str, stored: Any) -> None:
    assert send(boss, "hand.all", {**GIVEN, name: text}).status_code == 302
    assert input_of(Run.objects.get())[name] == stored


@pytest.mark.parametrize(
    ("name", "text"),
    [("number", ""), ("number", "x"), ("day", "2024-02-30"), ("key", "7"), ("sure", ""), ("size", "9"), ("colour", "r"),
     ("rows", "[1"), ("rows", ""), ("anything", "NaN"), ("price", "x"), ("rows", '["x"]'), ("options", '{"a": "x"}')],
)  # fmt: skip
def test_what_does_not_fit_is_said_at_its_field(boss: Client, name: str, text: str) -> None:
    response = send(boss, "hand.all", {**GIVEN, name: text})
    assert response.status_code == 200 and judge(response) == []
    assert f'<ul class="errorlist" id="id_input:{name}_error">' in response.content.decode()
    assert response.content.decode().count("errorlist") == 1
    assert not Run.objects.exists() and not Audit.objects.exists() and not LogEntry.objects.exists()


def test_a_model_of_the_projects_own_is_json(boss: Client) -> None:
    response = send(boss, "hand.order", {"order_id": "1", "address": '{"street": "Elm", "number": "no"}'})
    assert "address[&#x27;number&#x27;]" in response.content.decode()
    assert send(boss, "hand.order", {"order_id": "1", "address": '{"street": "Elm", "number": 4}'}).status_code == 302
    assert input_of(Run.objects.get()) == {"order_id": 1, "address": Address("Elm", 4), "queue": "mine"}


def test_further_arguments_are_lists_and_objects(boss: Client) -> None:
    assert send(boss, "hand.many", {"first": "1"}).status_code == 302
    assert send(boss, "hand.many", {"first": "1", "others": "[3, 4]", "more": '{"a": "b"}'}).status_code == 302
    first, second = (input_of(run) for run in Run.objects.order_by("pk"))
    assert (first["first"], first["second"], first.get("others", ())) == (1, 2, ())
    assert (second["second"], tuple(second["others"]), second["a"]) == (2, (3, 4), "b")
    for name, text in (("others", "{}"), ("more", "[]")):
        response = send(boss, "hand.many", {"first": "1", name: text})
        assert f'id="id_input:{name}_error"' in response.content.decode()
    assert Run.objects.count() == 2


def test_a_text_may_have_several_lines(boss: Client) -> None:
    assert '<textarea name="input:text"' in boss.get(address("hand.letter")).content.decode()
    assert send(boss, "hand.letter").status_code == 302
    # As a browser sends it.
    assert send(boss, "hand.letter", {"text": "Dear\r\nBob\r\n"}, reason="").status_code == 302
    assert [input_of(run)["text"] for run in Run.objects.order_by("pk")] == ["Dear\nAnn", "Dear\nBob\n"]


def test_options(boss: Client) -> None:
    response = send(
        boss, "hand.order", {"order_id": "1", "queue": "theirs"}, queue="slow", priority="-7",
        run_after="2099-01-01T00:00", idempotency_key="order-1", tags="a, b c,",
    )  # fmt: skip
    run = Run.objects.get()
    assert response["Location"] == run_url(run)
    assert (run.queue, run.priority, run.status) == ("slow", -7, "scheduled")
    assert run.wake_at == datetime(2099, 1, 1, tzinfo=UTC)
    assert sorted(run.tags.values_list("name", flat=True)) == ["a", "b c"]
    assert input_of(run)["queue"] == "theirs"
    clash = send(boss, "hand.order", {"order_id": "2"}, idempotency_key="order-1")
    assert "belongs to run" in text_of(clash) and Run.objects.count() == 1


REFUSED: dict[str, tuple[Exception, str]] = {
    "locked": (RunLocked([], 2.0), "Versuchen Sie es danach erneut"),
    "key": (
        IdempotencyConflict("hand.none", "k", UUID(int=7), "it is taken"),
        "Es gibt schon einen Lauf, den Sie nicht sehen können",
    ),
    "option": (
        TypeError("debounce of hand.none says when its runs start: it takes no run_after."),
        "TypeError: debounce von hand.none legt fest, wann seine Läufe starten",
    ),
    "unknown": (ValueError("no"), "ValueError: no"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_what_the_engine_refuses_is_told_in_the_language_of_who_looks(
    boss: Client, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    error, said = REFUSED[which]

    def refuse(*args: Any, **more: Any) -> list[UUID]:
        raise error

    sent = form_of(boss, "hand.none")
    monkeypatch.setattr("django_durable.admin.starting.store", refuse)
    with override("de"):
        assert said in text_of(boss.post(address("hand.none"), sent))


def test_a_key_of_another_input_is_told_in_the_language_of_who_looks(boss: Client) -> None:
    send(boss, "hand.order", {"order_id": "1"}, idempotency_key="order-1")
    with override("de"):
        said = text_of(send(boss, "hand.order", {"order_id": "2"}, idempotency_key="order-1"))
    assert f"gehört zu Lauf {Run.objects.get().pk}: Er wurde mit einer anderen Eingabe verwendet." in said


def test_arguments_that_do_not_fit_are_told_in_the_language_of_who_looks(boss: Client) -> None:
    with override("de"):
        said = text_of(send(boss, "hand.many", {"first": "1", "others": "[3]", "more": '{"second": "b"}'}))
    assert "mehrere Werte für das Argument 'second'" in said


@pytest.mark.parametrize(
    ("name", "text"), [("queue", "no spaces"), ("priority", "101"), ("run_after", "soon"), ("tags", "a\x07b"),
                       ("idempotency_key", "x" * 201)],
)  # fmt: skip
def test_an_option_that_cannot_be_is_said_at_its_field(boss: Client, name: str, text: str) -> None:
    response = send(boss, "hand.order", {"order_id": "1"}, **{name: text})
    assert f'id="id_{name}_error"' in response.content.decode()
    assert not Run.objects.exists()


def test_a_form_that_is_sent_twice_starts_one_run(boss: Client) -> None:
    sent = {**form_of(boss, "hand.order"), "input:order_id": "1"}
    assert {boss.post(address("hand.order"), sent)["Location"] for _ in range(2)} == {run_url(Run.objects.get())}
    assert send(boss, "hand.order", {"order_id": "1"}).status_code == 302
    assert Run.objects.count() == 2


def test_a_run_that_was_there_already_is_told_and_written_down_as_found(boss: Client) -> None:
    given = {"idempotency_key": "order-1", "reason": "once more"}
    for said in ("The run was started.", "No other run was started: this one was there already."):
        assert said in text_of(boss.get(send(boss, "hand.order", {"order_id": "1"}, **given)["Location"]))
    for said in ("The run was started.", "No other run was started: this one was there already."):
        assert said in text_of(boss.get(send(boss, "hand.single", {"which": "1"}, reason="")["Location"]))
    run = Run.objects.get(workflow="hand.order")
    told = Audit.objects.filter(run=run).order_by("pk").values_list("verb", "status_before", "reason")
    assert list(told) == [("start", "", "once more"), ("found", "queued", "once more")]
    entries = LogEntry.objects.filter(object_id=str(run.pk)).order_by("pk").values_list("change_message", flat=True)
    assert list(entries) == ["Start by hand: once more", "Found by a start by hand: once more"]


def test_a_workflow_that_says_which_run_a_start_gives(boss: Client) -> None:
    assert "idempotency_key" not in form_of(boss, "hand.single")
    first, second = (send(boss, "hand.single", {"which": "1"})["Location"] for _ in range(2))
    assert first == second == run_url(Run.objects.get())
    response = send(boss, "hand.single", {"which": "0"})
    assert response.status_code == 200 and "ZeroDivisionError" in text_of(response)
    assert Run.objects.count() == 1


def test_a_workflow_without_input(boss: Client) -> None:
    assert "It takes none." in text_of(boss.get(address("hand.none")))
    assert send(boss, "hand.none").status_code == 302
    assert Run.objects.get().workflow == "hand.none"


@pytest.mark.parametrize("what", CORPUS)
def test_whatever_is_sent_is_escaped(boss: Client, what: str) -> None:
    text = CORPUS[what]
    given = dict.fromkeys(GIVEN, text)
    for workflow, more in (("hand.all", given), ("hand.order", {"order_id": text, "queue": text, "address": text})):
        response = send(boss, workflow, more, reason=text, queue=text, tags=text, idempotency_key=text, priority=text)
        assert response.status_code == 200 and judge(response) == []
    assert not Run.objects.exists()
    response = send(boss, "hand.order", {"order_id": "1", "queue": text}, reason=text[:1_000])
    assert response.status_code == 302 and judge(boss.get(response["Location"])) == []
    assert boss.get(address(text)).status_code == 404


PEOPLE: dict[str, tuple[str, ...]] = {
    "view": LOOK, "rerun": (*LOOK, "rerun_run"), "blind": ("start_run",), "starter": (*LOOK, "start_run"), "boss": (),
}  # fmt: skip


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize("who", ["anonymous", *PEOPLE])
def test_it_needs_its_permission_and_the_setting(person: Person, settings: Any, who: str, is_on: bool) -> None:
    settings.DURABLE = {**settings.DURABLE, "ADMIN_START": is_on}
    client = Client() if who == "anonymous" else person(*PEOPLE[who], boss=who == "boss")
    allowed = is_on and who in ("starter", "boss")
    sent = {"input:order_id": "1", "key": str(uuid4()), "reason": ""}
    for method in (client.get, client.head):
        assert method(address("hand.order")).status_code == (302 if who == "anonymous" else 200 if allowed else 403)
    for method in (client.put, client.delete):
        assert method(address("hand.order")).status_code == (302 if who == "anonymous" else 405)
    answer = client.post(address("hand.order"), sent)
    assert answer.status_code == (302 if allowed or who == "anonymous" else 403)
    assert Run.objects.count() == Audit.objects.count() == LogEntry.objects.count() == int(allowed)
    if who not in ("anonymous", "blind"):
        assert (address("hand.order") in unescape(client.get(PAGE).content.decode())) == allowed


def test_it_is_off_unless_the_project_says_so(boss: Client, settings: Any) -> None:
    settings.DURABLE = {key: value for key, value in settings.DURABLE.items() if key != "ADMIN_START"}
    assert boss.get(address("hand.order")).status_code == 403


def test_every_post_is_checked_for_its_origin(person: Person) -> None:
    careful = Client(enforce_csrf_checks=True)
    careful.cookies = person(boss=True).cookies
    assert careful.post(address("hand.order"), {"input:order_id": "1"}).status_code == 403


def test_it_costs_a_few_queries(boss: Client) -> None:
    with CaptureQueriesContext(connection) as queries:
        boss.get(address("hand.all"))
    assert len(queries) <= 4
