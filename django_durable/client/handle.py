"""``RunHandle``: a run as code outside of it sees and steers it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db.models import Q

from ..core.journal.states import LIVE, TERMINAL, PayloadKind, Status
from ..core.payloads.codec import decode
from ..exceptions import RunCancelled, RunFailed, RunNotFound
from ..models import JournalEntry, Payload, Run
from ..store.database import Database
from ..store.endings import Ending, ending_of
from . import verbs
from .events import EventHandle
from .log import LoggedLine, log_of
from .sentences import Why
from .steps import StepInfo, step_info
from .waiting import Usual, await_, pauses, wait
from .why import why

R = TypeVar("R")
_RESULTS = Usual()


class RunHandle(Generic[R]):
    """Reads go to the database at first use and at ``refresh()``; verbs act in the caller's transaction."""

    _started: float | None = None

    def __init__(self, run_id: UUID, run: Run | None = None, *, is_new: bool = False) -> None:
        """``is_new``: whether the caller has started it just now."""
        self.id = run_id
        self._run = run
        if is_new:
            self._started = time.monotonic()
        self._ending: Ending | None = None

    def __repr__(self) -> str:
        return f"<RunHandle {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    # --- looking -------------------------------------------------------------------------------

    @property
    def run(self) -> Run:
        """The row as last read. Raises RunNotFound."""
        if self._run is None:
            self.refresh()
        assert self._run is not None  # noqa: S101  (for the type checker: refresh() has set it)
        return self._run

    def refresh(self) -> RunHandle[R]:
        """Read the row anew. Raises RunNotFound."""
        try:
            self._run = Run.objects.using(Database().alias).get(pk=self.id)
        except Run.DoesNotExist:
            raise RunNotFound(self.id) from None
        return self

    @property
    def workflow(self) -> str:
        return self.run.workflow

    @property
    def status(self) -> Status:
        return Status(self.run.status)

    @property
    def attempt(self) -> int:
        return self.run.attempt

    @property
    def error(self) -> dict[str, Any] | None:
        """Why the run failed (``type``, ``message``, ``traceback``), or, while it is live, its last attempt."""
        # At one moment: between two looks the run may end. The outcome's comes first in the alphabet too.
        of_attempt = Q(kind=PayloadKind.RETRY, run__status__in=sorted(LIVE))
        error: dict[str, Any] | None = self._first(Q(kind=PayloadKind.ERROR) | of_attempt)
        return error

    @property
    def progress(self) -> dict[str, Any] | None:
        """What ``ctx.progress`` said last: ``done``, ``total``, ``message``."""
        progress: dict[str, Any] | None = self._payload(PayloadKind.PROGRESS)
        return progress

    @property
    def annotations(self) -> dict[str, Any]:
        """What ``ctx.annotate`` has said, by name; the one that was said last comes last."""
        return dict(self._payload(PayloadKind.NOTES) or ())

    @property
    def divergence(self) -> list[str]:
        """Paths that are journaled and that the function, when it returned, had not come by: its code had changed."""
        return self._payload(PayloadKind.MISSED) or []

    def _payload(self, kind: PayloadKind) -> Any:
        return self._first(Q(kind=kind))

    def _first(self, which: Q) -> Any:
        rows = Payload.objects.using(Database().alias).filter(which, run_id=self.id).order_by("kind")
        text = rows.values_list("data", flat=True).first()
        return None if text is None else decode(text)

    def steps(self) -> list[StepInfo]:
        """The journal in order. An entry that this code cannot read hides no other: see ``StepInfo.undecodable``."""
        entries = JournalEntry.objects.using(Database().alias).filter(run_id=self.id).order_by("seq")
        return [step_info(entry) for entry in entries]

    def log(self, limit: int = 100) -> list[LoggedLine]:
        """What the run's code has said through ``ctx.log``: the newest ``limit`` lines, the oldest of them first. What
        was said since the run's last durable write is not among them yet."""
        return log_of(self.id, limit)

    def why(self) -> Why:
        """Why the run is not running now and what will move it: one reason for programs, one sentence for people."""
        return why(self.refresh().run)

    # --- waiting -------------------------------------------------------------------------------

    def result(self, timeout: float | None = None) -> R:
        """The run's value. Raises RunFailed, RunCancelled, TimeoutError (``timeout`` seconds, the caller's only).

        Refused with ResultUnavailable where it could only hang: in a workflow's body, and inside a transaction,
        whose snapshot or unfinished enqueue the worker's answer cannot reach.
        """
        wait(self._pauses(timeout))
        return self._outcome()

    async def aresult(self, timeout: float | None = None) -> R:
        """As ``result``. Asks on the caller's connection and holds no thread while it waits."""
        await await_(self._pauses(timeout))
        return await sync_to_async(self._outcome)()

    def _pauses(self, timeout: float | None) -> Iterator[float]:
        def told() -> str:
            return f"Run {self.id} is {self.status}"

        return pauses(self._is_over, timeout, "result()", "use ctx.run_workflow()", told, _RESULTS, self._started)

    def _is_over(self) -> bool:
        self._ending, self._run = ending_of(Database(), self.id), None
        if self._ending is None:
            raise RunNotFound(self.id)
        return self._ending.status in TERMINAL

    def _outcome(self) -> R:
        assert self._ending is not None  # noqa: S101  (whoever asks has waited)
        match self._ending:
            case Ending(Status.SUCCEEDED, output):
                # Retention may have taken it.
                return cast(R, None if output is None else decode(output))
            case Ending(Status.CANCELLED):
                raise RunCancelled(self.id, verbs.reason_of(self.id, "cancel"))
            case _:
                error = self._payload(PayloadKind.ERROR)
                raise RunFailed(self.id, error if isinstance(error, dict) else {})

    # --- steering ------------------------------------------------------------------------------

    def cancel(self, reason: str = "", *, actor: str = "") -> None:
        """Ask the run and its attached children to stop. Final for one that has not started. Raises RunLocked."""
        verbs.cancel_runs([self.id], reason=reason, actor=actor)
        self._run = None

    def pause(self, reason: str = "", *, actor: str = "") -> None:
        """Put the run aside until somebody resumes it: at once, or at its next call where it is being worked on.

        Its sleeps, time-outs and deadline go on, and its children. Raises IllegalTransition, RunLocked.
        """
        verbs.pause(self.id, reason=reason, actor=actor)
        self._run = None

    def resume(self, reason: str = "", *, actor: str = "") -> None:
        """Let a paused, blocked, failed or cancelled run go on from its journal.

        Raises IllegalTransition, RunLocked.
        """
        verbs.resume(self.id, reason=reason, actor=actor)
        self._run = None

    def rerun(self, reason: str = "", *, actor: str = "") -> RunHandle[R]:
        """A new run of the same workflow with the same input."""
        return RunHandle(verbs.rerun(self.id, reason=reason, actor=actor))

    def fork(self, from_step: str, reason: str = "", *, actor: str = "") -> RunHandle[R]:
        """A new run of the same workflow and input that has done what this one had journaled before ``from_step``.

        ``from_step`` is a path as ``steps()`` shows it, or that of a branch or a turn. Raises CannotFork.
        """
        return RunHandle(verbs.fork(self.id, from_step, reason=reason, actor=actor))

    def send_event(
        self,
        name: str,
        payload: Any = None,
        idempotency_key: str | None = None,
        *,
        reason: str = "",
        actor: str = "",
    ) -> EventHandle:
        """Send the run an event; ``response()`` of what comes back waits for its answer. The same idempotency key sends
        once, and gives the same event again. Raises RunNotFound, IllegalTransition (it is over), PayloadError,
        TooManyEvents (it has too many that it has not taken yet)."""
        event_id = verbs.send_event(self.id, name, payload, idempotency_key, reason=reason, actor=actor)
        return EventHandle(self.id, event_id, name)


def get_run(run_id: UUID | str) -> RunHandle[Any]:
    """The handle of a run that exists. Raises RunNotFound, also for what is no id."""
    try:
        key = run_id if isinstance(run_id, UUID) else UUID(str(run_id))
    except ValueError:
        raise RunNotFound(run_id) from None
    return RunHandle[Any](key).refresh()
