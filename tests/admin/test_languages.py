"""What the engine says in words of its own is in the language of who looks; names and values stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import override

from django_durable import durable_workflow
from django_durable.admin import cells
from django_durable.admin.audit_words import COLUMNS
from django_durable.admin.axis import spelled
from django_durable.admin.errors import told, translated
from django_durable.admin.journal import BEFORE, VERBS
from django_durable.admin.payloads import exported_line
from django_durable.admin.schedule_page import OUTCOMES
from django_durable.admin.waterfall_words import KINDS
from django_durable.client import schedules
from django_durable.client.schedules import WindowFilled
from django_durable.client.verbs import fork
from django_durable.core.ids import uuid7
from django_durable.core.journal.states import Kind
from django_durable.core.names import check_name
from django_durable.core.payloads.codec import decode, encode
from django_durable.core.schedules.cron import Cron
from django_durable.exceptions import (
    CannotFork,
    DurableError,
    IdempotencyConflict,
    RunLocked,
    ScheduleLocked,
    TooManyEvents,
    UnknownWorkflow,
)
from django_durable.models import Audit, Fire, LogLine
from django_durable.store import by_hand
from django_durable.store.scheduling import problem_of
from django_durable.workflows.options import StartOptions
from tests.admin.pages import run_url, text_of, verb_url
from tests.admin.world import make_entry, make_line, make_run, make_schedule
from tests.app.workflows import doubling

LANGUAGES = ("de", "es", "fr")
SECONDS = "attempt 2 failed, the next one comes in 2.5 s: shop.Refused: card: no"


@durable_workflow(name="languages.single", singleton="cancel_running")
def single(ctx: Any) -> None:
    """Its card is looked at."""


@durable_workflow(name="languages.place")
def only_by_place(ctx: Any, first: int, /) -> None: ...


@durable_workflow(name="languages.name")
def only_by_name(ctx: Any, *, first: int) -> None: ...


@dataclass
class Unregistered:
    number: int = 7


@pytest.fixture
def _german() -> Iterator[None]:
    with override("de"):
        yield


@pytest.mark.usefixtures("_german")
def test_the_timeline_and_the_audit_of_a_run(boss: Client) -> None:
    run = make_run("succeeded")
    for seq, kind in enumerate(Kind):
        make_entry(run, f"e{seq}", seq, kind=kind)
    run.audit.create(verb="cancel", actor="ann", status_before="waiting")
    run.audit.create(verb="own", actor="bob", status_before="")
    said = text_of(boss.get(run_url(run)))
    for word in ("Schritt", "Zusammenführung", "Abbildung", "Wettlauf", "Kindlauf", "Rückabwicklung"):
        assert word in said
    assert "abbrechen ann wartend" in said and "own bob" in said


@pytest.mark.usefixtures("_german")
def test_the_fires_and_the_audit_of_a_schedule(boss: Client) -> None:
    schedule = make_schedule(problem="No worker that is alive knows the workflow 'app.doubling'.")
    now = timezone.now()
    Fire.objects.create(schedule=schedule, scheduled_for=now, fired_at=now, outcome="skipped: overlap")
    Audit.objects.create(workflow=schedule.workflow, schedule=schedule.name, verb="disable", status_before="enabled")
    said = text_of(boss.get(reverse("admin:django_durable_schedule_change", args=[schedule.pk])))
    assert "ausgelassen: Überschneidung" in said
    assert "deaktivieren" in said and "aktiviert" in said
    assert "Kein aktiver Worker kennt den Workflow 'app.doubling'." in said


@pytest.mark.usefixtures("_german")
def test_what_the_audit_says_of_other_runs_and_which_of_them_is_linked(boss: Client) -> None:
    run, other = make_run("succeeded"), make_run("succeeded")
    run.audit.create(verb="fork", actor="ann", reason=f"of {other.pk} from 'double': from here")
    page = boss.get(run_url(run))
    assert f"von {other.pk} , ab 'double': from here" in text_of(page)
    assert f'href="{run_url(other)}' in page.content.decode()


@pytest.mark.usefixtures("_german")
def test_what_the_audit_says_of_a_schedule(boss: Client) -> None:
    schedule = make_schedule()
    for verb, reason in (("create", "expression 0 7 * * *, timezone UTC: hers"), ("remove", "in the code no more")):
        Audit.objects.create(workflow=schedule.workflow, schedule=schedule.name, verb=verb, reason=reason)
    said = text_of(boss.get(reverse("admin:django_durable_schedule_change", args=[schedule.pk])))
    assert "Ausdruck 0 7 * * *, Zeitzone UTC: hers" in said and "nicht mehr im Code" in said


@pytest.mark.usefixtures("_german")
def test_why_a_run_is_blocked(boss: Client) -> None:
    run = make_run("blocked")
    text = "'pay' is a step in the journal, but the code now asks for a sleep."
    run.payloads.create(kind="block", data=encode({"message": text}))
    assert "'pay' steht im Journal als „Schritt“, der Code verlangt jetzt aber" in text_of(boss.get(run_url(run)))


def said_instead(run: Any, kind: str, value: Any) -> Any:
    return "it is taken" if kind == "block" else value


def test_what_a_project_says_in_the_place_of_it_is_its_own(boss: Client, settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "REDACT": f"{__name__}.said_instead"}
    run = make_run("blocked")
    run.payloads.create(kind="block", data=encode({"message": "the input is gone"}))
    with override("de"):
        assert "it is taken." in text_of(boss.get(run_url(run)))


@pytest.mark.usefixtures("_german")
def test_a_window_that_is_filled(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_hand, "PORTION", 2)
    monkeypatch.setattr(schedules, "INSTANTS_MOST", 4)
    schedule = make_schedule(input='{"number": 4}', expression="0 * * * *")
    for hour in range(12):
        at = datetime(2024, 1, 1, hour, tzinfo=UTC)
        Fire.objects.create(schedule=schedule, scheduled_for=at, fired_at=at, run_id=uuid7())
    window = {"since": "2024-01-01T00:00", "until": "2024-01-01T23:00", "limit": "1"}
    counted = "2024-01-01T00:00:00+00:00 2024-01-01T23:00:00+00:00 1 1"
    url = reverse("admin:django_durable_schedule_backfill", args=[schedule.pk])
    said = text_of(boss.post(url, {"confirmed": "1", "reason": "", "counted": counted, **window}))
    assert "Die ersten 4 fälligen Zeitpunkte ab 2024-01-01T00:00:00+00:00 haben ihre Läufe." in said


@pytest.mark.usefixtures("_german")
def test_an_input_that_does_not_fit(boss: Client) -> None:
    given = {
        "name": "new", "expression": "0 7 * * *", "timezone": "UTC", "overlap": "skip", "catch_up": "all",
        "jitter": "0", "input": '{"other": 4}', "workflow": "app.doubling", "reason": "",
    }  # fmt: skip
    said = text_of(boss.post(reverse("admin:django_durable_schedule_add"), {"confirmed": "1", **given}))
    assert "Eingabe von app.doubling: ein erforderliches Argument fehlt: 'number'" in said


@pytest.mark.usefixtures("_german")
def test_lengths_of_time_have_the_point_of_the_language(boss: Client) -> None:
    assert (cells.length(1.26), spelled(1.5), spelled(12.34)) == ("1,3 s", "1,5 s", "12,3 s")
    schedule = make_schedule(jitter=2.5)
    assert "Streuung 2,5 s" in text_of(boss.get(reverse("admin:django_durable_schedule_change", args=[schedule.pk])))


@pytest.mark.usefixtures("_german")
def test_the_card_of_a_singleton(boss: Client) -> None:
    assert "laufenden abbrechen" in text_of(boss.get(reverse("admin:django_durable_workflows")))


@pytest.mark.usefixtures("_german")
def test_the_log_and_not_what_is_stored_or_exported_of_it(boss: Client) -> None:
    run = make_run("running")
    make_line(run, SECONDS, attempt=2, scope="charge")
    said = text_of(boss.get(run_url(run)))
    assert "Versuch 2 ist fehlgeschlagen, der nächste folgt in 2,5 s: shop.Refused: card: no" in said
    assert LogLine.objects.get().message == SECONDS
    assert exported_line(run, SECONDS, 2) == SECONDS


def test_a_line_of_the_code_is_its_own(boss: Client) -> None:
    run = make_run("running")
    make_line(run, SECONDS, scope="charge")
    with override("de"):
        assert SECONDS in text_of(boss.get(run_url(run)))


@pytest.mark.usefixtures("_german")
def test_the_forms_of_a_run(boss: Client) -> None:
    run = make_run("waiting")
    run.payloads.create(kind="input", data=encode([[], {}]))
    answer = boss.post(verb_url(run, "fork"), {"confirmed": "1", "from_step": "x", "reason": ""})
    assert f"Lauf {run.pk} kann nicht ab 'x' abgezweigt werden: Dorthin kam er nie." in text_of(answer)
    for name, payload, complaint in (("a\x01b", "", "enthält Steuerzeichen"), ("a", "[" * 201 + "]" * 201, "200")):
        data = {"confirmed": "1", "name": name, "payload": payload, "key": str(run.pk)}
        said = text_of(boss.post(verb_url(run, "event"), data))
        assert complaint in said and "levels deep" not in said


@pytest.mark.usefixtures("_german")
def test_the_preview_of_a_schedule(boss: Client) -> None:
    answer = boss.get(reverse("admin:django_durable_schedule_preview"), {"expression": "61 * * * *"})
    assert "Er kann nicht auslösen: lässt sich nicht verstehen:" in text_of(answer)


@pytest.mark.usefixtures("_german")
def test_what_cannot_be_read(boss: Client) -> None:
    run = make_run("succeeded")
    run.payloads.create(kind="output", data='{"$":"gone","v":"parcel"}')
    assert "Gespeicherte Nutzdaten sind nicht lesbar: unbekannte Markierung &#x27;gone&#x27;" in (
        boss.get(run_url(run)).content.decode()
    )


@pytest.mark.parametrize("words", [KINDS, VERBS, BEFORE, OUTCOMES, COLUMNS])
def test_in_english_a_word_is_the_one_that_is_stored(words: dict[str, Any]) -> None:
    assert [str(word) for word in words.values()] == [key.replace("_", " ") for key in words]


def test_every_kind_has_a_word() -> None:
    assert set(KINDS) == set(Kind)


def raised(call: Any, *args: Any) -> Exception:
    with pytest.raises(DurableError) as caught:
        call(*args)
    return caught.value


ERRORS = {
    "never there": lambda: raised(fork, make_told().pk, "x"),
    "close": lambda: CannotFork(7, "chard", "it never came there.", ["card"]),
    "turn": lambda: CannotFork(
        7, "l[1]", "turn 1 of loop 'l' has left the journal, which keeps the last turns (history=…) only."
    ),
    "state": lambda: CannotFork(7, "x", "its journal does not say any more what the state of turn 2 of loop 'l' was."),
    "damaged": lambda: CannotFork(7, "x", "its journal is damaged (no JSON)."),
    "run": lambda: RunLocked([make_run().pk], 2.5),
    "runs": lambda: RunLocked([make_run().pk, make_run().pk], 2),
    "some run": lambda: RunLocked([], 2),
    "start": lambda: RunLocked([], 2, keys=["app.one", "app.two", "app.three"]),
    "schedule": lambda: ScheduleLocked(["app.one: daily"], 2),
    "schedules": lambda: ScheduleLocked(["app.one: daily", "app.one: nightly"], 2),
    "workflow": lambda: UnknownWorkflow("app.gone"),
    "close workflow": lambda: UnknownWorkflow("app.gone", ["app.done"]),
    "key": lambda: IdempotencyConflict("app.one", "order-1", uuid7(), "it was given with another input"),
    "key taken": lambda: IdempotencyConflict("app.one", "a: b", uuid7(), "it is taken"),
    "argument missing": lambda: raised(doubling.signature.write, "app.doubling", (), {}),
    "argument unexpected": lambda: raised(doubling.signature.write, "app.doubling", (), {"number": 1, "other": 2}),
    "argument twice": lambda: raised(doubling.signature.write, "app.doubling", (1,), {"number": 1}),
    "arguments too many": lambda: raised(doubling.signature.write, "app.doubling", (1, 2), {}),
    "arguments stored": lambda: raised(doubling.signature.read, "app.doubling", '{"other":1}'),
    "only by place": lambda: raised(only_by_place.signature.write, "languages.place", (), {"first": 1}),
    "only by name": lambda: raised(only_by_name.signature.write, "languages.name", (), {}),
    "window": lambda: WindowFilled(timezone.now(), 100_000),
    "events": lambda: TooManyEvents(uuid7(), 3, 9_000, "MAX_OPEN_EVENTS", 3),
    "expression": lambda: raised(Cron, "61 * * * *"),
    "date": lambda: raised(Cron, "0 0 30 2 *"),
    "fields": lambda: raised(Cron, "* *"),
    "hashed": lambda: raised(Cron, "H * * * *"),
    "long": lambda: raised(Cron, "*" * 201),
    "range": lambda: raised(Cron, "5-5 * * * *"),
    "step": lambda: raised(Cron, "50-10/5 * * * *"),
    "kinds": lambda: raised(Cron, "* * * * 1,L5"),
    "days": lambda: raised(Cron, "* * 15W * 1"),
    "zone": lambda: raised(Cron, "* * * * *", "Mars/Olympus"),
    "no name": lambda: raised(check_name, "event", " "),
    "long name": lambda: raised(check_name, "event", "x" * 201),
    "characters": lambda: raised(check_name, "event", "a\x01b"),
    "queue": lambda: refused(queue="no spaces"),
    "priority": lambda: refused(priority=101),
    "calendar": lambda: refused(run_after=datetime(9999, 12, 31, tzinfo=UTC)),
    "tag's name": lambda: raised(check_name, "tag", " "),
    "key's name": lambda: raised(check_name, "idempotency key", "x" * 201),
    "text": lambda: raised(decode, "{"),
    "tag": lambda: raised(decode, '{"$":"gone","v":1}'),
    "unregistered": lambda: raised(encode, Unregistered()),
    "no data": lambda: raised(decode, '{"$":"set"}'),
    "class": lambda: raised(decode, '{"$":"@gone","v":1}'),
    "size": lambda: raised(lambda: encode("x" * 5_000, limit=1_000)),
    "depth": lambda: raised(encode, deep()),
    "digits": lambda: raised(encode, 10**4_400),
}


def refused(**option: Any) -> Exception:
    with pytest.raises((TypeError, ValueError)) as caught:
        StartOptions(**option)
    return caught.value


def make_told() -> Any:
    run = make_run("succeeded")
    run.payloads.create(kind="input", data=encode([[], {}]))
    return run


def deep() -> list[Any]:
    value: list[Any] = []
    for _level in range(201):
        value = [value]
    return value


@pytest.mark.parametrize("which", ERRORS)
def test_an_error_is_told_in_every_language_and_in_english_as_it_is(which: str) -> None:
    error = ERRORS[which]()
    assert told(error) == str(error).replace("\x01", "\\x01")
    texts = set()
    for language in LANGUAGES:
        with override(language):
            texts.add(told(error))
    assert len(texts | {told(error)}) == 4


@pytest.mark.parametrize("which", ["expression", "zone", "workflow"])
def test_what_is_stored_of_it_likewise(which: str) -> None:
    error = ERRORS[which]()
    with override("de"):
        assert translated(problem_of(error)) == f"{type(error).__name__}: {told(error)}"


def test_what_nobody_has_translated_stays_as_it_is() -> None:
    with override("de"):
        assert told(DurableError("card\x00 %(no)s")) == "card\\x00 %(no)s"
        assert translated("attempt 1 failed, the next one comes in  s") == "attempt 1 failed, the next one comes in  s"
        assert translated("") == "" and translated("ValueError: is empty, I say") == "ValueError: is empty, I say"
        assert translated("unknown time zone '%(name)s'") == "unbekannte Zeitzone '%(name)s'"
