"""Group commit: whoever runs side by side in this process shares statements and commits.

A thread that finds nobody committing leads the commit itself, so that a lone run does not pay for company; what
gathers meanwhile goes into the next batch, led by the first thread that waits in it. Where nobody waits who could lead
the committer's own thread does: for event loops, for the outcomes of threads that have gone on to other runs, and for
writes whose row was held when the last leader had nothing else to do. But a step of a coroutine whose run is alone is
committed by its event loop itself, as long as that takes no moment's sleep: to wake two threads took as long.

That a run is in flight does not say that it is about to commit, so nobody lingers for that: a linger of 1 ms made
coroutines a quarter slower, and the steps of one run beside another that was inside of a long step took twice as long.
The commit that is under way is the linger of those who come meanwhile. But threads that were just answered together
come back together, and are waited for (``Cohort``).

Where commits take long, a full batch of those who wait in no thread is committed beside the leader's (``Relief``), and
an event loop that fills one lets it be taken (``GivingWay``).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Sequence
from math import inf

from django.db.utils import Error

from ..core import clock
from ..core.flow.lease import Lease
from ..core.journal.inbox import Inbox
from ..core.journal.journal import Write
from ..core.payloads.surviving import survive
from ..store.claiming import load_news
from ..store.database import PrivateDatabase
from ..store.receipts import Receipt
from .batch_writer import After, BatchWriter, InDoubt
from .cohort import Cohort
from .giving_way import GivingWay
from .held import HeldRows
from .relief import Relief
from .submission import Submission, Then, Turn, answer_all

logger = logging.getLogger("django_durable.worker")

BATCH = 100
"""Runs in one commit, so that 200 coroutines do not all wait for the same one: the loop works on one batch while the
database works on the next. Steps a second of 200 coroutines, against batches of 256: 1.2 times as many with batches of
48 and of 64, 1.4 times with 96 and with 128."""


class Committer:
    """Decides who commits when; what a commit is, and of what it tells whom, is the ``BatchWriter``'s."""

    is_stepwise = False

    def __init__(
        self,
        db: PrivateDatabase,
        after: After,
        in_doubt: InDoubt = lambda lease, write: None,
    ) -> None:
        self._db = db
        self._after = after
        self._writer = BatchWriter(db, after, in_doubt)
        self._mutex = threading.Lock()
        self._waiting: list[Submission] = []
        self._under_way: set[int] = set()
        """The runs that are in a commit, by their numbers."""
        self._held = HeldRows()
        self._relief = Relief(PrivateDatabase(db.alias), self._relieve)
        self._beside = BatchWriter(self._relief.db, after, in_doubt)
        self._cohort = Cohort(self._mutex)
        self._way = GivingWay()
        self._is_led = False
        self._has_led_at_once = False
        """Whether an event loop has, in its present turn."""
        self._begun: Submission | None = None
        """What an event loop has taken, and maybe sent, and could not wait for: the committer's own thread leads on."""
        self._calls = threading.Semaphore(0)
        self._is_called = False
        self._wakes_at = inf
        """Until when the committer's own thread sleeps, unless it is called; minus infinity while it is awake."""
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="durable-committer", daemon=True)
        self._thread.start()

    # --- submitting ----------------------------------------------------------------------------

    def write(self, lease: Lease, write: Write) -> Receipt:
        """Make ``write`` durable, in company where there is some; returns after the commit."""
        own = Submission(lease, write)
        is_answered = self._join(own) and self._lead(own)
        while not is_answered:
            own.wait()
            is_answered = own.is_done or self._lead(own)
        return own.answer()

    def awrite(self, lease: Lease, write: Write) -> Awaitable[Receipt]:
        """The same for coroutines, answered on their own loop. Of a run that is alone the loop itself commits a step,
        where the answer comes before anybody else could have been woken for it."""
        loop = asyncio.get_running_loop()
        own = Submission(lease, write, loop)
        if self._join_alone(own, loop):
            if self._lead_at_once(own):
                return Turn(own.answer())
        else:
            self._hand_over(own)
        assert own.future is not None  # noqa: S101  (made with a loop)
        return own.future

    def send(self, lease: Lease, write: Write, then: Then, *, may_lead: bool) -> None:
        """Make ``write`` durable, and call ``then``. Returns before that, unless the caller ``may_lead`` and nobody is
        committing."""
        own = Submission(lease, write, then=then)
        if may_lead:
            if self._join(own):
                self._lead(own)
        else:
            self._hand_over(own)

    def noted(self, lease: Lease, write: Write, receipt: Receipt) -> None:
        """Take note of a write that was committed elsewhere: with an atomic step's own transaction."""
        try:
            self._after(lease, write, receipt)
        except BaseException as error:
            # The step is durable: what follows must not fail it.
            survive(error, logger, "what follows a commit failed for run=%s", lease.run_id)

    def refresh(self, inbox: Inbox, lease: Lease) -> None:
        """What the outside has sent to a run that is worked on. Where the database is away, the next look will do."""
        try:
            inbox.refresh(*load_news(self._db, lease.run_id))
        except Error as error:
            logger.warning("no look at the events of run=%s: %s", lease.run_id, error)

    async def arefresh(self, inbox: Inbox, lease: Lease) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.refresh, inbox, lease)

    def close(self) -> None:
        self._closing = True
        self._calls.release()
        self._thread.join(timeout=5)
        self._relief.close()
        self._db.close()

    def _join(self, own: Submission) -> bool:
        """Whether the caller is to lead."""
        with self._mutex:
            self._waiting.append(own)
            self._cohort.returned()
            if self._is_led:
                return False
            self._is_led = True
            return True

    def _hand_over(self, own: Submission) -> None:
        with self._mutex:
            self._waiting.append(own)
            self._cohort.returned()
            is_full = len(self._waiting) >= BATCH
            if self._is_led:
                is_called = is_full and self._relief.ask()
            elif is_called := not self._relief.is_under_way or self._relief.may_be_led_beside(is_full):
                self._call()
            takes = self._to_wait_for() if is_called and is_full else None
        if takes is not None:
            self._way.wait(takes)

    def _to_wait_for(self) -> threading.Lock | None:
        """What the caller, who has filled a batch and called somebody for it, is to wait for (mutex held). None for
        threads, and where less than a batch can be taken: some runs of those in line may be under way."""
        if self._relief.is_slow and self._are_enough() and _is_event_loop():
            return self._way.until_taken()
        return None

    def _join_alone(self, own: Submission, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the caller, an event loop, is to lead, with the own write under way: nobody else has anything to do
        with a commit now, and the last one was of the same run. Once in each turn of the loop: branches of a run that
        is alone would keep it from all else, one after the other."""
        with self._mutex:
            others = self._is_led or self._waiting or self._held or self._under_way or self._relief.is_under_way
            if others or self._has_led_at_once or not self._writer.expects(own):
                return False
            self._cohort.returned()
            self._is_led = self._has_led_at_once = True
            self._under_way.add(own.lease.run_id.int)
            self._relief.leader_begins()
        loop.call_soon(self._turn_over)
        return True

    def _turn_over(self) -> None:
        self._has_led_at_once = False

    def _are_enough(self) -> bool:
        """Whether those who wait are to be led now (mutex held): beside a relief, which goes on with a few of them when
        it is through with its own, a full batch, threads, and who has waited for it long enough."""
        if not self._relief.is_under_way:
            return bool(self._waiting)
        free = [one for one in self._waiting if one.lease.run_id.int not in self._under_way]
        enough = BATCH if clock.monotonic() < self._relief.late_at else 1
        return len(free) >= enough or any(one.may_lead for one in free)

    # --- leading -------------------------------------------------------------------------------

    def _lead(self, own: Submission | None) -> bool:
        """Commit batches until the own write is done (without one: until nothing is left), then hand on.

        False: the own write is not done, since its row is held, or its run is under way beside us. Whoever leads when
        it is due rouses its thread.
        """
        while True:
            batch = self._next()
            self._writer.commit(batch)
            with self._mutex:
                if batch:
                    self._relief.note(self._writer.seconds)
                self._cohort.answered(self._worth_waiting_for(batch))
                done = self._give_back(batch)
                is_alone = len(done) == len(batch) == 1 and not self._waiting
                if is_over := is_alone and (own is None or (own.may_lead and done == [own])):
                    self._step_down()
            if is_over and own is not None:
                # Nobody else is to be told of anything.
                return True
            answer_all(done)
            if is_over:
                # It was told after that: an event loop's next write is to find that nobody leads.
                return True
            with self._mutex:
                # While we still lead: a moment later the next leader may have settled it and not yet told of it.
                is_answered = own is not None and own.is_done
                if not self._are_enough():
                    self._step_down()
                    return is_answered
                if not is_answered:
                    continue
                heir = next((one for one in self._waiting if one.may_lead), None)
                if heir is None:
                    self._step_down()
                    return is_answered
            # Still led: the heir takes over without anybody else joining as a leader in between.
            heir.rouse()
            return is_answered

    def _lead_at_once(self, own: Submission) -> bool:
        """Commit the own write, which is all there is, without a moment's sleep. False: the committer's own thread goes
        on with it, and leads."""
        try:
            self._writer.try_at_once(own)
        finally:
            with self._mutex:
                if own.is_done:
                    self._relief.note(self._writer.seconds)
                    self._give_back([own])
                    self._step_down()
                else:
                    self._begun = own
                    self._call()
        return own.is_done

    def _relieve(self) -> None:
        """Commit beside the leader while there are full batches, and where nobody leads until nothing is left."""
        goes_on = True
        while goes_on:
            batch = self._take(beside=True)
            # What our connection does not reach the leader's may: it is set aside, and whoever leads sends it again.
            has_failed = bool(self._beside.try_once(batch))
            with self._mutex:
                done = self._give_back(batch)
                goes_on = bool(batch) and not has_failed and len(self._waiting) >= (BATCH if self._is_led else 1)
                if not goes_on:
                    self._relief.ends(has_failed=has_failed)
                if not self._is_led:
                    self._call_where_wanted()
            answer_all(done)

    def _next(self) -> list[Submission]:
        begun, self._begun = self._begun, None
        if begun is not None:
            return [begun]
        self._cohort.wait()
        return self._take()

    def _take(self, *, beside: bool = False) -> list[Submission]:
        """The next batch: each run once, the others stay for the batch after it. ``beside`` the leader's, without
        threads, any of which may be asked to lead meanwhile."""
        with self._mutex:
            if len(self._waiting) == 1 and not (beside or self._held or self._under_way):
                alone, self._waiting = self._waiting, []
                self._under_way.add(alone[0].lease.run_id.int)
                self._relief.leader_begins()
                return alone
            waiting = self._held.sort(self._waiting, clock.monotonic()) if self._held else self._waiting
            # By the number of its run: a UUID itself is hashed by code in Python.
            batch: dict[int, Submission] = {}
            later: list[Submission] = []
            behind = set(self._under_way)
            for one in waiting:
                run = one.lease.run_id.int
                if beside and one.may_lead:
                    behind.add(run)
                if len(batch) >= BATCH or run in behind or batch.setdefault(run, one) is not one:
                    later.append(one)
            self._waiting = later
            self._under_way.update(batch)
            self._way.taken()
            if beside:
                self._relief.begins()
            else:
                self._relief.leader_begins()
                if len(later) >= BATCH:
                    self._relief.ask()
        return list(batch.values())

    def _give_back(self, batch: Sequence[Submission]) -> list[Submission]:
        """Their commit is over: those that are to be answered. The others are set aside, to be sent again, before
        anything else of their runs may be taken (mutex held)."""
        now = clock.monotonic()
        done = [one for one in batch if one.is_done]
        if len(done) < len(batch):
            for one in batch:
                if not one.is_done:
                    self._held.put(one, now)
        self._under_way.difference_update([one.lease.run_id.int for one in batch])
        return done

    def _worth_waiting_for(self, batch: Sequence[Submission]) -> int:
        """How many threads that are about to be answered may add to the next batch (mutex held). It may have no room
        for more; and a run that is in line already, with the write of another branch, has one write a batch."""
        if len(batch) == 1:
            return 0
        threads = [one for one in batch if one.is_done and one.may_lead]
        if not (threads and self._waiting):
            return len(threads)
        in_line = {one.lease.run_id for one in self._waiting}
        return min(sum(one.lease.run_id not in in_line for one in threads), BATCH - len(self._waiting))

    # --- the committer's own thread ------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            self._calls.acquire(timeout=self._rest())
            if self._closing:
                return
            if self._is_to_lead():
                self._lead(None)

    def _rest(self) -> float | None:
        """For how long to sleep: while somebody leads, until that leader steps down."""
        with self._mutex:
            self._wakes_at = inf if self._is_led else self._due
            return None if self._wakes_at == inf else max(0.0, self._wakes_at - clock.monotonic())

    def _is_to_lead(self) -> bool:
        with self._mutex:
            # Awake: it looks for itself before it sleeps again.
            self._is_called, self._wakes_at = False, -inf
            if self._begun is not None:
                return True
            if self._is_led or not (self._are_enough() or self._held.next_due <= clock.monotonic()):
                return False
            self._is_led = True
            return True

    def _step_down(self) -> None:
        """Lead no more. What is left is nobody's, unless the committer's own thread comes for it (mutex held)."""
        self._is_led = False
        self._call_where_wanted()

    def _call_where_wanted(self) -> None:
        """Nobody leads (mutex held)."""
        if self._are_enough() or self._due < self._wakes_at:
            self._call()

    @property
    def _due(self) -> float:
        """When somebody has to look what there is to lead, in monotonic seconds (mutex held)."""
        late_at = self._relief.late_at
        return min(self._held.next_due, late_at if clock.monotonic() < late_at else inf)

    def _call(self) -> None:
        """Wake the committer's own thread (mutex held)."""
        if not self._is_called:
            self._is_called = True
            self._calls.release()


def _is_event_loop() -> bool:
    """Whether the caller is one, in the turn of a task or of what follows its end."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
