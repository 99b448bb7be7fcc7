"""One run's write on its way to the commit, and how its submitter is told of the end."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from ..core.flow.lease import Lease
from ..core.journal.journal import Write
from ..executor.undisturbed import UndisturbedFuture
from ..store.receipts import Receipt

logger = logging.getLogger("django_durable.worker")

Then = Callable[[Receipt | None, BaseException | None], None]
"""Called with the receipt, or with the error that the write itself has made. Must not take long."""


class Submission:
    """Of a thread, which waits and may be asked to lead; of a coroutine, which is answered on its ``loop``; or of
    nobody who waits: ``then`` is called in whichever thread."""

    __slots__ = (
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
        self._waits: threading.Lock | None = None
        if loop is None and then is None:
            self._waits = threading.Lock()
            self._waits.acquire()

    @property
    def may_lead(self) -> bool:
        """Whether a thread waits for this."""
        return self._waits is not None

    def wait(self) -> None:
        """Sleep until the write is done, or until this thread is to lead."""
        if self._waits is not None:
            self._waits.acquire()

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


def answer_all(done: Iterable[Submission]) -> None:
    """Let all of them go on: threads one by one, coroutines with one call for each loop."""
    of_loops: dict[asyncio.AbstractEventLoop, list[Submission]] = defaultdict(list)
    for one in done:
        if one.then is not None:
            _tell(one, one.then)
        elif one.loop is None:
            one.rouse()
        else:
            of_loops[one.loop].append(one)
    for loop, submissions in of_loops.items():
        loop.call_soon_threadsafe(_resolve, submissions)


def _tell(one: Submission, then: Then) -> None:
    try:
        then(one.receipt, one.error)
    except Exception:
        # Out of here nobody would be answered any more.
        logger.exception("what follows the end of run=%s failed", one.lease.run_id)


def _resolve(submissions: Sequence[Submission]) -> None:
    for one in submissions:
        future = one.future
        if future is None or future.done():
            continue
        if one.error is not None:
            future.set_exception(one.error)
        else:
            future.set_result(one.answer())
