"""Atomic steps: the body's ORM writes, what is pending and the journal row commit together, so exactly once."""

from __future__ import annotations

import inspect
import logging
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import count
from typing import Any

from django.db import transaction
from django.db.utils import Error

from ..conf import durable_settings
from ..core.flow.effects import Perform, Performed, Raised, Returned
from ..core.flow.flow import Flow
from ..core.flow.stepping import enter_step, leave_step
from ..core.journal.journal import Entry, Write
from ..core.journal.outcomes import Lost, Released
from ..core.journal.states import EntryStatus
from ..core.payloads.codec import decode
from ..core.payloads.failures import in_one_line, short
from ..exceptions import ContextMisuse, RunLocked, WriteLockHeldTooLong
from ..models import JournalEntry, Run
from ..store.committing import HELD_PAUSE, write_batch
from ..store.database import ONE_WRITER, Database
from ..store.locking import brief_lock, is_waited_for, locked
from ..store.reaching import is_out_of_reach
from ..store.receipts import Receipt
from .commit import Commit
from .step_call import call_here, step_of
from .transactions import drop_broken_connections, leftover_transactions, open_transactions

logger = logging.getLogger("django_durable.executor")

TRIES_FOR_A_LOOK = 20
"""After so many in vain, about a tenth of a second, it is asked whether somebody waits for us."""

LOOKS = 5
"""So often that has to be so. Of a row that everybody changes there is always somebody who waits, and a heartbeat that
holds the run meanwhile is soon done."""

AWAY_PAUSE = 0.1
"""Seconds before a database that is away is asked again."""


class _LeaseLost(Exception):
    """Rolls the transaction back; the run is somebody else's."""


class _GivesWay(Exception):
    """Rolls the transaction back: somebody holds the run, and somebody waits for what the body has changed, most likely
    the same. PostgreSQL sees no deadlock, since our fence does not wait but looks again and again."""


def perform_atomically(flow: Flow, perform: Perform, commit: Commit) -> Performed:
    """Run the step's body and commit it with its journal row. ``Returned`` means that both have happened.

    An exception that leaves the block does not tell whether the commit happened (the connection may have been lost
    after it, an ``on_commit`` hook may have raised): the journal does.
    """
    db = Database()
    pending = flow.take_pending()
    was_suspect, known = flow.lease.is_suspect, flow.journal.find(perform.path)
    may_be_sent = False
    began = time.perf_counter()
    # Around the commit too: what its on_commit hooks enqueue is enqueued by this step.
    token = enter_step(step_of(flow, perform))
    try:
        with _writer(db), transaction.atomic(using=db.alias):
            _set_up(db)
            if flow.lease.is_over:
                # The connection was long in coming: the body would run beside whoever has the run now.
                raise _LeaseLost
            value = _call_whole(perform)
            returned = Returned(value, time.perf_counter() - began)
            write, receipt = _journal(db, flow, perform, returned, pending)
            may_be_sent = True
    except _LeaseLost:
        flow.end(Lost())
    except _GivesWay:
        _restore(flow, pending, perform.path)
        _forget(flow, perform.path, known)
        flow.lease.is_suspect = was_suspect
        logger.warning(
            "step %r of run %s gives way: somebody holds the run, and somebody waits for what the step has changed",
            perform.path,
            flow.run.run_id,
        )
        # No attempt of the step's, which is not to blame. Whoever claims the run next has waited for the other one.
        flow.end(Released())
    except BaseException as error:
        drop_broken_connections()
        seconds = time.perf_counter() - began
        if not (may_be_sent and _was_committed(db, flow, perform.path)):
            _restore(flow, pending, perform.path)
            flow.lease.is_suspect = was_suspect
            return Raised(error, seconds)
        logger.warning(
            "step %r of run %s is done, although: %s", perform.path, flow.run.run_id, in_one_line(short(error))
        )
        returned = Returned(_journaled_value(flow, perform), seconds)
    finally:
        leave_step(token)
    commit.noted(flow.lease, write, receipt)
    return returned


def _call_whole(perform: Perform) -> Any:
    """What the body returns; raises ContextMisuse where it leaves a transaction open, inside ours or beside it."""
    outer = open_transactions()
    try:
        value = call_here(perform)
    except BaseException:
        # Else leaving our block would only release what the body has opened, and ours would stay open.
        leftover_transactions(outer)
        raise
    if (left_open := leftover_transactions(outer)) is not None:
        raise left_open
    return value


def _writer(db: Database) -> AbstractContextManager[Any]:
    return ONE_WRITER if db.dialect.has_one_writer else nullcontext()


def refuse_coroutine(perform: Perform) -> None:
    """Raise ContextMisuse where an atomic step is a coroutine function: its ORM calls would run in other threads."""
    if inspect.iscoroutinefunction(perform.fn):
        raise ContextMisuse(f"Step {perform.path!r}: atomic=True takes a plain function, not a coroutine function.")


def _set_up(db: Database) -> None:
    connection = db.connection
    # In a TestCase both would hold for the rest of the test.
    if connection.vendor != "postgresql" or len(connection.atomic_blocks) != 1:
        return
    # READ COMMITTED whatever the project's or the server's default: on a snapshot from the body's beginning the fence
    # fails as soon as a heartbeat has renewed the lease. And a process that freezes inside the body must not hold its
    # locks for longer than its lease. One round trip for both.
    milliseconds = int(durable_settings().LEASE_SECONDS * 1000)
    db.rows(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; "
        f"SET LOCAL idle_in_transaction_session_timeout = {milliseconds}"
    )


def _journal(db: Database, flow: Flow, perform: Perform, returned: Returned, pending: Write) -> tuple[Write, Receipt]:
    """The fence comes last: a row lock held during the body would keep the heartbeat from renewing the lease."""
    assert perform.settle is not None  # noqa: S101  (what makes a step atomic)
    entry = perform.settle(returned)
    flow.journal.add(entry)
    # What the body has said: of a step, a log is all that is pending.
    pending.absorb(flow.take_pending())
    write = replace(pending, entries={**pending.entries, entry.path: entry})
    settings = durable_settings()
    if db.dialect.has_one_writer and returned.seconds > settings.LEASE_SECONDS - settings.lease_margin:
        raise WriteLockHeldTooLong(
            f"Step {perform.path!r} held SQLite's one write lock for {returned.seconds:.1f} s, longer than its lease "
            "allows; it was rolled back. Make it shorter, or raise LEASE_SECONDS."
        )
    receipt = _write(db, flow, write)
    flow.lease.hear(cancelling=receipt.cancelling, pausing=receipt.pausing)
    return write, receipt


def _write(db: Database, flow: Flow, write: Write) -> Receipt:
    looks = 0
    for tries in count(1):
        if flow.lease.is_over:
            break
        receipt = write_batch(db, [(flow.lease, write)])[flow.run.run_id]
        if receipt.is_held:
            return receipt
        if receipt.is_lost:
            break
        # Somebody holds the row, as a rule the heartbeat of this process; the fence itself never waits.
        if not tries % TRIES_FOR_A_LOOK and is_waited_for(db):
            looks += 1
            if looks == LOOKS:
                raise _GivesWay
        time.sleep(HELD_PAUSE)
    raise _LeaseLost


def _was_committed(db: Database, flow: Flow, path: str) -> bool:
    """Whether the journal has the step under our token. Asks until the database answers; unwinds with the lease.

    It looks behind the lock of the run's row, which our transaction has held since the fence. A COMMIT that was sent
    before the connection was lost may still be under way on the server: whoever looks meanwhile sees nothing of it.
    """
    run_id = flow.run.run_id
    rows = JournalEntry.objects.using(db.alias).filter(run_id=run_id, path=path, token=flow.lease.token)
    while not flow.lease.is_over:
        try:
            with brief_lock(db, [run_id]):
                locked(db, Run.objects.filter(pk=run_id))
                return rows.filter(status=EntryStatus.SUCCEEDED).exists()
        except RunLocked:
            # It has waited for long enough by itself.
            continue
        except Error as error:
            if not is_out_of_reach(error):
                raise
            db.connection.close()
            time.sleep(AWAY_PAUSE)
    flow.end(Lost())


def _journaled_value(flow: Flow, perform: Perform) -> Any:
    entry: Entry | None = flow.journal.find(perform.path)
    return decode(entry.value) if entry is not None and entry.value is not None else None


def _forget(flow: Flow, path: str, known: Entry | None) -> None:
    """The attempt's own journal has the step as done: whoever looks for what there is to undo would find it."""
    if known is None:
        flow.journal.forget([path])
    else:
        flow.journal.add(known)


def _restore(flow: Flow, pending: Write, path: str) -> None:
    pending.entries.pop(path, None)
    pending.absorb(flow.take_pending())
    if pending.log is not None:
        # The journal has answered: none of it is stored.
        pending.log.is_in_doubt = False
    flow.pending = pending
