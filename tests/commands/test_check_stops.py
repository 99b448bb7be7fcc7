"""`durable_check` and statements that take too long: they are stopped, and it looks at fewer runs at a time."""

from __future__ import annotations

from contextlib import AbstractContextManager
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_durable.models import Event
from django_durable.store.database import Database
from django_durable.store.dialects import Dialect
from django_durable.store.invariants import Bounds, Finding, Invariant, examine, values, walking
from django_durable.store.invariants.catalogue import RUNS, Look
from django_durable.store.invariants.reading import NotInTime, brief_look
from django_durable.store.invariants.terms import Terms
from django_durable.store.sql.invariants import sizes
from django_durable.store.sql.invariants.windows import in_window, window_end
from tests.commands.checking import KEY, a_run, sound
from tests.commands.conftest import Call

pytestmark = [pytest.mark.django_db, pytest.mark.contract]
ENDLESS = "WITH RECURSIVE n (i) AS (SELECT {} UNION ALL SELECT 1 - i FROM n) SELECT count(*) FROM n"
TIMEOUT = 60.0
"""So long nothing takes by chance: what is stopped stops itself (`stopped`)."""
STOPPED = "a statement was stopped after 60 s"
RUNS_THERE = f"SELECT count(*) FROM {RUNS} w WHERE {in_window('w.id')}"


def stopped() -> str:
    """A statement that is stopped as if its time were over, at once."""
    db = Database()
    if not db.dialect.has_one_writer:
        return ENDLESS.format("(SELECT 1 FROM pg_cancel_backend(pg_backend_pid()))")
    db.connection.ensure_connection()
    raw = db.connection.connection
    raw.create_function("stop", 0, raw.interrupt)
    return ENDLESS.format("stop()")


def ends_unless(condition: str) -> str:
    """True, or a statement that is stopped."""
    return f"CASE WHEN {condition} THEN ({stopped()}) ELSE 1 END = 1"


# --- one statement -----------------------------------------------------------------------------


def test_a_statement_is_stopped_when_its_time_is_over() -> None:
    db = Database()
    with pytest.raises(NotInTime, match=r"a statement was stopped after 0\.2 s"), brief_look(db, 0.2):
        db.rows(ENDLESS.format(1))
    with brief_look(db, 10.0):
        assert db.rows("SELECT 1") == [(1,)]


def test_what_was_stopped_is_not_known(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the others are told of all the same."""
    sound()
    endless = stopped()
    monkeypatch.setattr(walking, "window_end", lambda table: endless if table == KEY else window_end(table))
    with pytest.raises(CommandError, match=r"It could not be told whether these hold: I13\.") as error:
        call_command("durable_check", "--timeout", TIMEOUT, "--batch-size", "1")
    assert error.value.returncode == 2
    a_run(status="succeeded")
    # What is violated comes first.
    called = call("durable_check", "--timeout", TIMEOUT, "--batch-size", "1", "--json")
    assert called.failed == "1 violation found."
    assert (called.data["known"], called.data["invariants"]["I2"]["holds"]) == (False, False)
    assert called.data["invariants"]["I13"]["holds"] is None
    assert called.data["invariants"]["I13"]["not_known"] == STOPPED


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "soon"])
def test_a_time_out_that_makes_no_sense(seconds: str) -> None:
    with pytest.raises(CommandError, match="must be a number of seconds above 0"):
        call_command("durable_check", f"--timeout={seconds}")


# --- windows -----------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each window might have that was looked at, those that were stopped as well."""
    asked: list[int] = []
    window = walking._window

    def noted(db: Database, table: str, after: Any, last: Any, size: int) -> walking.Window:
        asked.append(size)
        return window(db, table, after, last, size)

    monkeypatch.setattr(walking, "_window", noted)
    return asked


def let_each_take(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long a window seems to take that is not stopped."""
    moments = count(0, seconds)
    monkeypatch.setattr(walking, "clock", SimpleNamespace(monotonic=lambda: next(moments)))


def look_at(condition: str, window: int) -> Finding:
    """At each run, of which it tells, in statements that are stopped where that is the case."""

    def query(d: Dialect) -> str:
        return f"""
            SELECT r.id, 'seen' FROM {RUNS} r
            WHERE {in_window("r.id")} AND {ends_unless(condition)} ORDER BY r.id LIMIT %(limit)s"""

    invariant = Invariant("I0", "Each run is seen.", (Look(query),))
    return examine(Database(), invariant, Terms.now(0.0), Bounds(100, window, TIMEOUT))


def seen(finding: Finding) -> list[Any]:
    return [one.run_id for one in finding.violations]


def queued(number: int) -> list[Any]:
    return sorted(a_run(status="queued").pk for _ in range(number))


def holds(run_id: Any) -> str:
    """That a window holds this run."""
    return (
        f"(SELECT count(*) FROM {RUNS} h WHERE h.id = '{Database().dialect.key(run_id)}' AND {in_window('h.id')}) = 1"
    )


def test_a_window_in_which_a_statement_was_stopped_is_looked_at_in_smaller_ones(
    asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run once."""
    let_each_take(TIMEOUT, monkeypatch)
    runs = queued(8)
    finding = look_at(f"({RUNS_THERE}) > 2", window=8)
    assert (seen(finding), finding.rows, finding.not_known) == (runs, 8, "")
    # The last one, behind all of the runs, is for what belongs to none.
    assert asked == [8, 4, 2, 2, 2, 2, 2]


def test_a_window_that_might_hold_more_rows_than_there_are(asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """To halve what it might hold would stop the same statement again and again."""
    let_each_take(TIMEOUT, monkeypatch)
    runs = queued(5)
    finding = look_at(f"({RUNS_THERE}) > 2", window=5_000)
    assert (seen(finding), finding.rows, finding.not_known) == (runs, 5, "")
    assert asked == [5_000, 2, 2, 2]


@pytest.mark.parametrize(
    ("part", "sizes"), [(0.2, [4, 2, 1, 2, 4, 4, 4]), (0.3, [4, 2, *[1] * 13])], ids=["quick", "not so quick"]
)
def test_windows_grow_again_while_they_are_quick(
    part: float, sizes: list[int], asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And never beyond what they might hold at the beginning. The first run is too much for others to be beside it."""
    let_each_take(part * TIMEOUT, monkeypatch)
    runs = queued(12)
    finding = look_at(f"({RUNS_THERE}) > 1 AND {holds(runs[0])}", window=4)
    assert (seen(finding), finding.rows, finding.not_known) == (runs, 12, "")
    assert asked == sizes


def test_a_run_that_is_too_much_by_itself(asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    let_each_take(TIMEOUT, monkeypatch)
    runs = queued(5)
    finding = look_at(holds(runs[2]), window=4)
    assert (seen(finding), finding.rows, finding.not_known) == (runs[:2], 2, STOPPED)
    assert asked == [4, 2, 2, 1]


def test_what_has_no_windows_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []

    def noted(db: Database, seconds: float) -> AbstractContextManager[None]:
        looks.append(seconds)
        return brief_look(db, seconds)

    monkeypatch.setattr(walking, "brief_look", noted)
    statement = stopped()
    invariant = Invariant("I0", "", (Look(lambda d: statement, walks=None, counts=lambda: "SELECT 0"),))
    finding = examine(Database(), invariant, Terms.now(0.0), Bounds(timeout=TIMEOUT))
    assert (finding.not_known, looks) == (STOPPED, [TIMEOUT])


def test_what_was_found_before_the_stop_is_told_once(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window's values are asked for page by page, and each page's are read before the next one is asked for."""
    runs = [sound() for _ in range(3)]
    Event.objects.filter(run_id=runs[0].pk).update(payload="{")
    is_next = f"%(place)s <> '' AND ({RUNS_THERE}) > 1"
    slow = sizes.measure(Database().dialect).replace("ORDER BY", f"AND {ends_unless(is_next)} ORDER BY")
    monkeypatch.setattr(sizes, "measure", lambda d: slow)
    monkeypatch.setattr(values, "PAGE", 2)
    monkeypatch.setattr(values, "PORTION_VALUES", 1)
    found = call("durable_check", "--only", "I20b", "--json", "--timeout", TIMEOUT).data["invariants"]["I20b"]
    assert [one["run"] for one in found["violations"]] == [str(runs[0].pk)]
    # An input, an output, a step's result and an event's payload of each.
    assert (found["rows"], found["not_known"]) == (12, None)
