"""What the engine says, in every language: a text of it that may come to a page and that no phrase knows fails here."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.utils.translation import gettext, override

import django_durable
from django_durable.admin.audit_words import CHOICES, COLUMNS, DETAILS, reason_of
from django_durable.admin.errors import TEXT_MOST, told, translated, translated_start
from django_durable.admin.phrases import PHRASES
from django_durable.admin.schedule_form import COLUMNS as FORM_COLUMNS
from django_durable.core.flow.branches import Branch
from django_durable.core.flow.flow import Flow
from django_durable.core.journal.digests import digests_of
from django_durable.core.journal.fan_out import Progress
from django_durable.core.journal.journal import Entry
from django_durable.core.journal.states import EntryStatus, Kind
from django_durable.core.kinds import branching, compensation, events
from django_durable.exceptions import DurableError, InvalidInput, PayloadUndecodable
from django_durable.executor.attempt import _not_visited
from django_durable.models import Audit
from django_durable.store.by_hand import TOLD_OF_REMOVED
from tests.admin.test_languages import ERRORS, LANGUAGES

PACKAGE = Path(django_durable.__file__).parent
ID = UUID("0193e2c4-aaaa-7bbb-8ccc-abcdefabcdef")
WHEN = datetime(2024, 1, 1, 6, tzinfo=UTC)

RAISED_IN_CODE = {
    "BlockFailed", "BranchesFailed", "CannotBeChild", "ChildFailed", "ContextMisuse", "EventTimeout", "InvalidKey",
    "JoinError", "JournalFull", "LoopLimit", "NonRetriableError", "PollTimeout", "RaceError", "RetryLater",
    "RollbackError", "RunCancelled", "RunFailed", "RunTimeout", "StepFailed", "StepNameReused", "StepTimeout",
    "SuspensionSwallowed", "WriteLockHeldTooLong",
}  # fmt: skip
"""A run ends with these: they are shown as they were raised, like those of the project, beside their traceback."""
RAISED_ELSEWHERE = {
    "DuplicateWorkflow", "EventUnanswered", "ResultUnavailable", "WorkflowDefinitionError",
}  # fmt: skip
"""At import, or to who waits for a result: no page is made there."""
IN_OTHER_WORDS = {"IllegalTransition", "RunNotFound"}
"""The admin says itself what they mean there."""


def kinds_of(error: type[Exception]) -> Iterator[type[Exception]]:
    for kind in error.__subclasses__():
        if kind.__module__.startswith("django_durable.") and not kind.__module__.startswith("django_durable.testing"):
            yield kind
            yield from kinds_of(kind)


def test_each_error_is_translated_or_comes_to_no_page() -> None:
    shown = {type(make()).__name__ for make in ERRORS.values()}
    every = {kind.__name__ for kind in kinds_of(DurableError)}
    assert every - shown == RAISED_IN_CODE | RAISED_ELSEWHERE | IN_OTHER_WORDS
    assert shown.isdisjoint(RAISED_IN_CODE | RAISED_ELSEWHERE | IN_OTHER_WORDS)


# --- as the code has them --------------------------------------------------------------------

SAID_BY = {
    "CannotFork": 2, "IdempotencyConflict": 3, "InvalidName": 2, "InvalidSchedule": 1, "PayloadError": 1,
    "PayloadUndecodable": 0, "Refusal": 0,
}  # fmt: skip
"""By what makes it, which argument is a text for people."""
ONLY_IN_CODE = {
    "the expression must be a string", "must be a string, not 7",
    "its failure, a 7, cannot be stored; those that try_step and try_block give can be",
}  # fmt: skip
"""Nothing that a form sends comes to these."""


def said_in_code() -> Iterator[tuple[str, str]]:
    """Each of these texts, once with a number and once with a date in all its gaps."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in SAID_BY:
                continue
            place = SAID_BY[node.func.id]
            text = node.args[place] if len(node.args) > place else None
            if isinstance(text, ast.JoinedStr) or (isinstance(text, ast.Constant) and isinstance(text.value, str)):
                yield filled(text, "7"), filled(text, "2024-01-01")


def filled(text: ast.JoinedStr | ast.Constant, gap: str) -> str:
    if isinstance(text, ast.Constant):
        return str(text.value)
    return "".join(str(part.value) if isinstance(part, ast.Constant) else gap for part in text.values)


def test_each_reason_in_the_code_is_a_phrase() -> None:
    has_words = re.compile("[a-z]")
    found = [texts for texts in said_in_code() if has_words.search(texts[0]) and texts[0] not in ONLY_IN_CODE]
    with override("de"):
        left = [texts[0] for texts in found if all(translated(text) == text for text in texts)]
    assert left == []
    assert len(found) > 30


# --- what blocks a run -----------------------------------------------------------------------


def blocking(act: Callable[..., Any], *args: Any) -> str:
    """What ``act`` ends a flow with."""
    ended: list[Any] = []
    act(SimpleNamespace(end=ended.append), *args)
    return str(ended[0].text)


def unfound(last: str, *, has_seen: bool = False, outcome: object = None) -> str:
    probe = SimpleNamespace(undos=[], outcome=outcome, has_seen=lambda path: has_seen)
    return blocking(compensation._require, probe, last, ["pay"])


def ask_anew(flow: Any, entry: Entry, kind: Kind) -> None:
    flow.forget = list
    Flow._require_anew(flow, entry, kind)


STEP = Entry("pay", Kind.STEP, EntryStatus.SUCCEEDED)
MAP = Progress(2, digests=digests_of([1, 2]))
MANY = Progress(200, digests=digests_of(range(200)))  # type: ignore[arg-type]
BLOCKED: dict[str, Callable[[], str]] = {
    "another kind": lambda: blocking(ask_anew, STEP, Kind.EVENT),
    "one event": lambda: blocking(events._diverge, "w", "one event", "several"),
    "several events": lambda: blocking(events._diverge, "w", "several events", "one"),
    "branches": lambda: blocking(branching.require_same, "j", ["a", "b"], [Branch("c", "j/c", lambda ctx: None)]),
    "count": lambda: MAP.difference("m", [1, 2, 3]),
    "item": lambda: MAP.difference("m", [1, 3]),
    "items": lambda: MANY.difference("m", range(1, 201)),
    "no compensation": lambda: unfound("", has_seen=True),
    "nothing": lambda: unfound(""),
    "end": lambda: unfound("pack"),
    "halt": lambda: unfound("pack", outcome=7),
    "one left out": lambda: _not_visited(["a"]),
    "two left out": lambda: _not_visited(["a", "b"]),
    "no input": lambda: str(PayloadUndecodable("the input is gone")),
    "input": lambda: str(InvalidInput("app.one", ["missing a required argument: 'n'"])),
    "entry": lambda: "journal entry 'pay': 'dance' is not a valid Kind",
}


@pytest.mark.parametrize("which", BLOCKED)
def test_what_blocks_a_run_is_translated(which: str) -> None:
    text = BLOCKED[which]()
    assert translated(text) == text
    texts = {text}
    for language in LANGUAGES:
        with override(language):
            texts.add(translated(text))
    assert len(texts) == 4


def test_the_kind_of_an_entry_is_named_as_elsewhere() -> None:
    with override("de"):
        assert translated(BLOCKED["another kind"]()) == (
            "'pay' steht im Journal als „Schritt“, der Code verlangt jetzt aber „Ereignis“."
        )


# --- texts of others in ours -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Schedule x: Schedule y: it is taken", "Zeitplan x: Schedule y: Er ist vergeben"),
        ("Input of x: Input of y: it is taken", "Eingabe von x: Input of y: Er ist vergeben"),
        ("Input of x: " * 208, "Eingabe von x: " + ("Input of x: " * 207)),
    ],
    ids=["schedule", "input", "many"],
)
def test_a_text_in_a_text_in_a_text_is_looked_into_once(text: str, shown: str) -> None:
    with override("de"):
        assert translated(text) == shown


def test_of_several_problems_those_that_are_known_are_translated() -> None:
    error = InvalidInput("app.one", ["missing a required argument: 'n'", "n: Input should be an integer"])
    with override("de"):
        assert told(error) == (
            "Eingabe von app.one: ein erforderliches Argument fehlt: 'n'; n: Input should be an integer"
        )


# --- the audit -------------------------------------------------------------------------------

AUDITED = {
    "fire": (f"run {ID}", f"Lauf {ID}"),
    "one": (f"1 run, {WHEN.isoformat()}", f"1 Lauf, {WHEN.isoformat()}"),
    "two": (f"2 runs, {WHEN.isoformat()} to {WHEN.isoformat()}", f"2 Läufe, {WHEN.isoformat()} bis {WHEN.isoformat()}"),
    "rerun": (f"of {ID}", f"von {ID}"),
    "fork": (f"of {ID} from 'pay'", f"von {ID}, ab 'pay'"),
    "forked": (f"{ID} from 'pay'", f"{ID} ab 'pay'"),
    "code": ("the code says so", "der Code sagt es so"),
}


@pytest.mark.parametrize("said", ["", ": run for it: 2 runs"])
@pytest.mark.parametrize("which", AUDITED)
def test_what_is_written_beside_a_verb_is_translated_and_not_what_a_person_said(which: str, said: str) -> None:
    stored, shown = AUDITED[which]
    entry = Audit(verb="fire", reason=stored + said)
    assert reason_of(entry) == stored + said
    with override("de"):
        assert reason_of(entry) == shown + said


@pytest.mark.parametrize(
    "reason", ["run for it", "2 runs, I think, to be sure", "of course from 'pay'", "", "x" * 9_000]
)
def test_what_only_a_person_said_stays(reason: str) -> None:
    with override("de"):
        assert reason_of(Audit(verb="cancel", reason=reason)) == reason


def test_what_a_schedule_was_is_told_by_the_names_of_its_fields() -> None:
    entry = Audit(
        verb="remove", reason="expression 0 7 1,2 * *, timezone UTC, overlap skip, jitter 0.0: name it, input x"
    )
    with override("de"):
        assert reason_of(entry) == (
            "Ausdruck 0 7 1,2 * *, Zeitzone UTC, Überschneidung überspringen, Streuung 0.0: name it, input x"
        )
    with override("de"):
        assert reason_of(Audit(verb="change", reason="name night, input")) == "Name night, Eingabe"
        assert reason_of(Audit(verb="cancel", reason="name night, input")) == "name night, input"


def test_each_column_that_is_told_of_has_a_name() -> None:
    assert set(COLUMNS) == {*FORM_COLUMNS, "input"} >= set(TOLD_OF_REMOVED)
    assert set(CHOICES) <= set(COLUMNS)


@pytest.mark.parametrize("phrase", [*PHRASES, *DETAILS])
def test_no_phrase_is_hidden_by_one_before_it(phrase: str) -> None:
    gaps = {"run": str(ID), "setting": "MAX_OPEN_EVENTS"} | dict.fromkeys(("since", "until", "after"), "2024-01-01")
    gaps |= dict.fromkeys(("count", "index", "most", "size", "cap", "events", "limit"), "3")
    text = re.sub(r"%\((\w+)\)s", lambda found: gaps.get(found[1], f"'{found[1]}'"), phrase)
    with override("de"):
        shown = translated_start(text, DETAILS) if phrase in DETAILS else translated(text)
        assert shown == re.sub(r"%\((\w+)\)s", lambda found: gaps.get(found[1], f"'{found[1]}'"), gettext(phrase))


SOON = 0.5
"""Seconds of CPU for a text of the longest that is looked at, whatever somebody has made it of; usual are 10 ms."""


@pytest.mark.parametrize("phrase", [*PHRASES, *DETAILS])
def test_a_text_that_nearly_is_a_phrase_is_soon_told_from_it(phrase: str) -> None:
    """Each part of it again and again, so that every gap has many ends to try, and no end that fits."""
    first, *parts = re.split(r"%\(\w+\)s", phrase)
    first = phrase[: phrase.find("%(run)s")] + str(ID) if "%(run)s" in phrase else first
    room = TEXT_MOST - len(first) - 1
    repeated = ["".join((part * room)[: room // len(some)] for part in some) for some in (parts, parts[1:]) if some]
    texts = [f"{first}{more}!" for more in repeated]
    began = time.process_time()
    for text in texts:
        translated(text)
        translated(f"ValueError: {text}"[:TEXT_MOST])
        translated_start(text, DETAILS)
    assert time.process_time() - began < SOON
