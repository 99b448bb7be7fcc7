"""Lines of the log: stored with their write or not at all, each once, and never more of a run than are kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.db.utils import OperationalError
from django.test.utils import CaptureQueriesContext

from django_durable.core.journal.journal import Write
from django_durable.core.journal.log import LEVEL_MAX, MESSAGE_MAX, Log, Logged, fit_message
from django_durable.core.journal.outcomes import Completed, Outcome, Released, Suspended
from django_durable.models import LogLine, Run
from django_durable.store.committing import write_batch
from django_durable.store.database import Database, PrivateDatabase, Row
from tests.store.rows import at, claim, entries, make_run, running, sleep_entry, stale, status_of, step_entry

pytestmark = pytest.mark.django_db(transaction=True)

IS_POSTGRES = connection.vendor == "postgresql"
Store = Callable[..., Write]


def line(message: str, place: int = 0, **more: Any) -> Logged:
    return Logged(logging.INFO, message, at(timedelta(0)), more.pop("scope", ""), place, **more)


def log_of(*lines: Logged) -> Log:
    log = Log()
    for one in lines:
        log.add(one)
    return log


def stored(run_id: Any) -> list[str]:
    return list(LogLine.objects.filter(run_id=run_id).order_by("number").values_list("message", flat=True))


def plain(log: Log, outcome: Outcome | None = None) -> Write:
    """On PostgreSQL one statement."""
    return Write(entries(step_entry()), log=log, outcome=outcome)


def rare(log: Log) -> Write:
    """In a transaction, statement by statement."""
    return Write(entries(step_entry()), log=log, notes={"stage": '"one"'})


both = pytest.mark.parametrize("write", [plain, rare])


@both
def test_lines_are_numbered_in_the_order_in_which_they_were_said(db: PrivateDatabase, write: Store) -> None:
    first, second = (running(db) for _ in range(2))
    moment = at(timedelta(hours=-1)).replace(microsecond=123_000)
    for one, two in (("a", "x"), ("b", "y")):
        lines = (line(one, scope="both/left"), replace(line(one + one), level=LEVEL_MAX, at=moment, place=-(2**63)))
        write_batch(db, [(first.lease, write(log_of(*lines))), (second.lease, write(log_of(line(two))))])
    assert (stored(first.run_id), stored(second.run_id)) == (["a", "aa", "b", "bb"], ["x", "y"])
    row = LogLine.objects.get(run_id=first.run_id, number=2)
    assert (row.at, row.level, row.scope, row.message, row.place) == (moment, LEVEL_MAX, "", "aa", -(2**63))
    assert LogLine.objects.get(run_id=first.run_id, number=1).scope == "both/left"


@both
def test_beside_a_run_that_says_nothing(db: PrivateDatabase, write: Store) -> None:
    quiet, loud = (running(db) for _ in range(2))
    quiet_write = Write(entries(step_entry()))
    receipts = write_batch(db, [(quiet.lease, quiet_write), (loud.lease, write(log_of(line("a"))))])
    assert [receipt.is_held for receipt in receipts.values()] == [True, True]
    assert (stored(quiet.run_id), stored(loud.run_id)) == ([], ["a"])


@both
def test_who_does_not_hold_the_run_stores_none(db: PrivateDatabase, write: Store) -> None:
    one = running(db)
    receipts = write_batch(db, [(stale(one.lease), write(log_of(line("a"))))])
    assert receipts[one.run_id].is_lost and stored(one.run_id) == []


@pytest.mark.parametrize("outcome", [Completed("1"), Released(), Suspended("sleep:nap", wake_after=60)])
def test_the_last_lines_go_with_the_outcome(db: PrivateDatabase, outcome: Outcome) -> None:
    one, two = (running(db) for _ in range(2))
    writes = [Write(entries(sleep_entry(60)), log=log_of(line("the end")), outcome=outcome), Write(outcome=outcome)]
    receipts = write_batch(db, list(zip((one.lease, two.lease), writes, strict=True)))
    told = [(receipt.status, receipt.parent_id) for receipt in receipts.values()]
    assert told == [(status_of(one.run_id), None)] * 2
    assert stored(one.run_id) == ["the end"]


@both
def test_what_a_replay_says_again_is_stored_where_it_is_not(db: PrivateDatabase, write: Store) -> None:
    one, other = (running(db) for _ in range(2))
    write_batch(
        db, [(one.lease, write(log_of(line("a", 1), line("b", 2)))), (other.lease, write(log_of(line("c", 3))))]
    )
    again = [line(name, place, is_again=True) for place, name in enumerate("abcd", 1)]
    write_batch(db, [(one.lease, write(log_of(*again))), (other.lease, write(log_of(*again)))])
    assert stored(one.run_id) == ["a", "b", "c", "d"]
    assert stored(other.run_id) == ["c", "a", "b", "d"]
    # What is new may stand where something stood before: a step's function, or an attempt without a journal.
    write_batch(db, [(one.lease, write(log_of(line("a", 1))))])
    assert stored(one.run_id) == ["a", "b", "c", "d", "a"]


class Unanswered(PrivateDatabase):
    """Its commits happen, and the connection is lost before anybody hears of it."""

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        found = super().rows(sql, **parameters)
        if not self._is_begun:
            raise OperationalError
        return found

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with super().transaction():
            yield
        raise OperationalError


class Refused(PrivateDatabase):
    """Its commits do not happen."""

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        if "logline" in sql:
            raise OperationalError
        return super().rows(sql, **parameters)


@both
@pytest.mark.parametrize("database", [Unanswered, Refused])
def test_lines_of_a_commit_that_was_never_answered_are_stored_once(
    db: PrivateDatabase, write: Store, database: type[PrivateDatabase]
) -> None:
    one, away = running(db), database()
    sent = write(log_of(line("a", 1), line("b", 2)))
    with pytest.raises(OperationalError):
        write_batch(away, [(one.lease, sent)])
    assert stored(one.run_id) == (["a", "b"] if database is Unanswered else [])
    assert write_batch(db, [(one.lease, sent)])[one.run_id].is_held
    assert stored(one.run_id) == ["a", "b"]
    away.close()


def test_what_waits_for_a_held_row_is_not_in_doubt(db: PrivateDatabase) -> None:
    """What stands at the same place was said by an attempt before."""
    one = running(db)
    write_batch(db, [(one.lease, plain(log_of(line("begun", 1))))])
    sent = plain(log_of(line("begun", 1)))
    assert write_batch(db, [(stale(one.lease), sent)])[one.run_id].is_lost
    write_batch(db, [(one.lease, sent)])
    assert stored(one.run_id) == ["begun", "begun"]


@both
def test_of_a_run_the_newest_lines_are_kept(db: PrivateDatabase, write: Store, settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "LOG_LINES": 5}
    long, short = (running(db) for _ in range(2))
    for number in range(0, 9, 3):
        lines = [line(str(number + one)) for one in range(3)]
        both_say = [(long.lease, write(log_of(*lines)))]
        write_batch(db, [*both_say, (short.lease, write(log_of(line("x"))))])
    assert stored(long.run_id) == list("45678")
    assert stored(short.run_id) == ["x"] * 3
    settings.DURABLE = {**settings.DURABLE, "LOG_LINES": 2}
    write_batch(db, [(long.lease, write(log_of(line("9"))))])
    assert stored(long.run_id) == ["8", "9"]


@both
def test_what_was_said_again_leaves_no_gap_that_counts_as_lines(
    db: PrivateDatabase, write: Store, settings: Any
) -> None:
    settings.DURABLE = {**settings.DURABLE, "LOG_LINES": 10}
    one = running(db)
    lines = [line(str(place), place) for place in range(9)]
    write_batch(db, [(one.lease, write(log_of(*lines)))])
    again = [replace(each, is_again=True) for each in lines]
    write_batch(db, [(one.lease, write(log_of(*again, line("9", 9))))])
    assert stored(one.run_id) == list("0123456789")


HOSTILE = ["a\x00b", "\ud83d and \udc69", "".join(map(chr, range(0x120))), "\U0001f469" * MESSAGE_MAX, "\\u0000", ""]


@both
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_text_is_stored(db: PrivateDatabase, write: Store, text: str) -> None:
    one, fit = running(db), fit_message(text * 2)
    write_batch(db, [(one.lease, write(log_of(line(fit))))])
    assert stored(one.run_id) == [fit]


def test_they_go_with_their_run(db: PrivateDatabase) -> None:
    one, other = (running(db) for _ in range(2))
    write_batch(db, [(each.lease, plain(log_of(line("a")))) for each in (one, other)])
    Run.objects.get(pk=one.run_id).delete()
    assert list(LogLine.objects.values_list("run_id", flat=True)) == [other.run_id]


# --- costs -----------------------------------------------------------------------------------


def statements(db: Database, writes: Sequence[Any]) -> int:
    with CaptureQueriesContext(db.connection) as captured:
        write_batch(db, writes)
    return len(captured)


@pytest.mark.parametrize("outcome", [None, Completed("1")])
def test_lines_cost_no_statement_of_their_own_on_postgres_and_one_in_a_transaction(
    db: PrivateDatabase, outcome: Outcome | None
) -> None:
    without, with_lines = (
        [
            (one.lease, Write(entries(step_entry()), log=log, outcome=outcome))
            for one in claim(db, make_run(), make_run())
        ]
        for log in (None, log_of(line("a"), line("b")))
    )
    assert statements(db, with_lines) - statements(db, without) == (0 if IS_POSTGRES else 1)


def test_only_what_is_too_much_costs_another_statement(db: PrivateDatabase, settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "LOG_LINES": 2}
    one = running(db)
    say = partial(statements, db)
    counts = [say([(one.lease, plain(log_of(line(str(number)))))]) for number in range(4)]
    assert [count - counts[0] for count in counts] == [0, 0, 1, 1]
    assert stored(one.run_id) == ["2", "3"]
