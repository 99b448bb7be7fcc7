"""One run's write on its way to the commit, and how its submitter is told of the end."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress

from ..core import clock
from ..core.flow.lease import Lease
from ..core.journal.journal import Write
from ..core.payloads.surviving import survive
from ..executor.undisturbed import UndisturbedFuture
from ..store.receipts import Receipt

logger = logging.getLogger("django_durable.worker")

Then = Callable[[Receipt | None, BaseException | None], None]
"""Called with the receipt, or with the error that the write itself has made. Must not take long."""


SHARE_SECONDS = 0.001
"""How long one thread of a batch may take to rouse the next one: somebody else has the interpreter, for longer than it
takes to make a step."""


class Turns:
    """The threads of one batch, which rouse each other: each the next one, before it does anything else.

    Roused all at once they would wait for the interpreter, each of them twice: it is one thread's at a time. Where it
    is somebody's who does not wait, a turn takes milliseconds: then whoever gets one rouses all that are left.
    """

    __slots__ = ("_began", "_left")

    def __init__(self, threads: Iterable[Submission]) -> None:
        self._left = deque(threads)
        self._began = clock.monotonic()
        for one in self._left:
            one.turns = self

    def pass_on(self) -> None:
        now = clock.monotonic()
        is_slow, self._began = now - self._began > SHARE_SECONDS, now
        # Once one turn was slow several threads are at it at a time.
        with suppress(IndexError):
            self._left.popleft().rouse()
            while is_slow:
                self._left.popleft().rouse()


class Submission:
    """Of a thread, which waits and may be asked to lead; of a coroutine, which is answered on its ``loop``; or of
    nobody who waits: ``then`` is called in whichever thread."""

    __slots__ = (
        "_thread",
        "_waits",
        "error",
        "future",
        "is_done",
        "is_in_doubt",
        "lease",
        "loop",
        "pause",
        "receipt",
        "then",
        "turns",
        "write",
    )

    def __init__(
        self,
        lease: Lease,
        write: Write,
        loop: asyncio.AbstractEventLoop | None = None,
        then: Then | None = None,
    ) -> None:
        self.lease = lease
        self.write = write
        self.receipt: Receipt | None = None
        self.error: BaseException | None = None
        self.is_done = False
        self.is_in_doubt = False
        """Whether it was sent in a commit that was never answered: it may be durable already."""
        self.pause = 0.0
        """How many seconds it has last been left alone because somebody held its row."""
        self.loop = loop
        self.future: asyncio.Future[Receipt] | None = UndisturbedFuture(loop=loop) if loop else None
        self.then = then
        self.turns: Turns | None = None
        """Those of its batch, once it is done: others wait for it to be roused."""
        self._thread = 0
        self._waits: threading.Lock | None = None
        if loop is None and then is None:
            self._thread = threading.get_ident()
            self._waits = threading.Lock()
            self._waits.acquire()

    @property
    def may_lead(self) -> bool:
        """Whether a thread waits for this."""
        return self._waits is not None

    def wait(self) -> None:
        """Sleep until the write is done, or until this thread is to lead."""
        if self._waits is not None:
            try:
                self._waits.acquire()
            finally:
                # Whatever becomes of this thread.
                if self.turns is not None:
                    self.turns.pass_on()

    @property
    def is_our_own(self) -> bool:
        """Whether it is of this very thread, which does not wait now."""
        return self._thread == threading.get_ident()

    def rouse(self) -> None:
        if self._waits is not None:
            self._waits.release()

    def settle(self, receipt: Receipt | None, error: BaseException | None = None) -> None:
        self.receipt, self.error, self.is_done = receipt, error, True

    def answer(self) -> Receipt:
        if self.error is not None:
            raise self.error
        assert self.receipt is not None  # noqa: S101  (settled without an error)
        return self.receipt


class Turn:
    """A receipt that is there already. Who awaits it lets the loop's others have their turn first, as with any other:
    a run of many steps would keep them waiting to its end."""

    __slots__ = ("_receipt",)

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt

    def __await__(self) -> Generator[None, None, Receipt]:
        yield
        return self._receipt


def answer_all(done: Iterable[Submission]) -> None:
    """Let all of them go on: threads one after the other, coroutines with one call for each loop."""
    threads: list[Submission] = []
    of_loops: dict[asyncio.AbstractEventLoop, list[Submission]] = defaultdict(list)
    for one in done:
        if one.then is not None:
            _tell(one, one.then)
        elif one.loop is None:
            if not one.is_our_own:
                threads.append(one)
        else:
            of_loops[one.loop].append(one)
    if threads:
        Turns(threads).pass_on()
    for loop, submissions in of_loops.items():
        # Nobody waits on a loop that is closed, and those of the others do.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, submissions)


def _tell(one: Submission, then: Then) -> None:
    try:
        then(one.receipt, one.error)
    except BaseException as error:
        # Out of here nobody would be answered any more.
        survive(error, logger, "what follows the end of run=%s failed", one.lease.run_id)


def _resolve(submissions: Sequence[Submission]) -> None:
    for one in submissions:
        future = one.future
        if future is None or future.done():
            continue
        if one.error is not None:
            future.set_exception(one.error)
        else:
            future.set_result(one.answer())
