"""Every error that django_durable raises: each carries its data and owns its message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID


class DurableError(Exception):
    """Base of all errors of this package."""


# --- declaring -------------------------------------------------------------------------------


class WorkflowDefinitionError(DurableError, TypeError):
    """A ``@durable_workflow`` declaration that can never work: raised at import."""


class DuplicateWorkflow(WorkflowDefinitionError):
    def __init__(self, name: str, first: str, second: str) -> None:
        self.name = name
        super().__init__(f"Two workflows are called {name!r}: {first} and {second}. Give one of them name=….")


class InvalidSchedule(DurableError, ValueError):
    """A cron expression, time zone or schedule option that can never fire."""

    def __init__(self, expression: str, reason: str) -> None:
        self.expression = expression
        self.reason = reason
        super().__init__(f"Schedule {expression!r}: {reason}")


# --- starting and finding --------------------------------------------------------------------


class UnknownWorkflow(DurableError, LookupError):
    def __init__(self, name: str, close: Sequence[str] = ()) -> None:
        self.name = name
        hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
        super().__init__(f"No workflow is registered under {name!r}.{hint}")


class RunNotFound(DurableError, LookupError):
    def __init__(self, run_id: object) -> None:
        self.run_id = run_id
        super().__init__(f"There is no run {run_id}.")


class InvalidInput(DurableError, TypeError):
    """The input does not fit the workflow's signature or annotations."""

    def __init__(self, workflow: str, problems: Sequence[str]) -> None:
        self.workflow = workflow
        self.problems = list(problems)
        super().__init__(f"Input of {workflow}: " + "; ".join(problems))


class IdempotencyConflict(DurableError):
    """The idempotency key is taken: by another input, or at all with ``on_conflict="reject"``."""

    def __init__(self, workflow: str, key: str, run_id: UUID, reason: str) -> None:
        self.workflow, self.key, self.run_id, self.reason = workflow, key, run_id, reason
        super().__init__(f"Idempotency key {key!r} of {workflow} belongs to run {run_id}: {reason}.")


class PayloadError(DurableError, ValueError):
    """A value that cannot be stored and come back exactly, with the path to the part that cannot."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class PayloadUndecodable(DurableError, ValueError):
    """A stored payload that this code can no longer read (a tag or a type that is gone, damaged text)."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"Stored payload cannot be read: {reason}")


# --- outcomes --------------------------------------------------------------------------------


class RunFailed(DurableError):
    """The run ended as ``failed``; ``error`` has ``type``, ``message`` and, where known, ``step``."""

    def __init__(self, run_id: UUID, error: dict[str, Any]) -> None:
        self.run_id = run_id
        self.error = error
        super().__init__(f"Run {run_id} failed: {error.get('type', 'Error')}: {error.get('message', '')}")


class RunCancelled(DurableError):
    """The run was cancelled."""

    def __init__(self, run_id: object, reason: str = "") -> None:
        self.run_id = run_id
        self.reason = reason
        super().__init__(f"Run {run_id} was cancelled" + (f": {reason}" if reason else "."))


class ResultUnavailable(DurableError):
    """``result()`` was asked where it could only hang."""


class IllegalTransition(DurableError):
    """A verb that the run's present status does not allow."""

    def __init__(self, verb: str, run_id: UUID, status: str) -> None:
        self.verb, self.run_id, self.status = verb, run_id, status
        super().__init__(f"Run {run_id} is {status}: it cannot be {verb}.")


class TooManyEvents(DurableError):
    """A run has as many events as may wait for it. Nothing was stored; send it again when the run has taken some.

    ``events`` and ``bytes`` are what it has not taken yet (of ``events``, no more are counted than are allowed),
    ``setting`` names the bound and ``limit`` is its value.
    """

    def __init__(self, run_id: UUID, events: int, size: int, setting: str, limit: int) -> None:
        self.run_id, self.events, self.bytes, self.setting, self.limit = run_id, events, size, setting, limit
        super().__init__(
            f"Run {run_id} has open events: {events:,}, of {size:,} bytes. {setting} is {limit:,}: "
            "send it again when the run has taken some."
        )


class CannotFork(DurableError):
    """A step that a run never came to, or where its journal does not say any more how things stood; ``close`` are paths
    that are spelt like it."""

    def __init__(self, run_id: object, from_step: str, reason: str, close: Sequence[str] = ()) -> None:
        self.run_id, self.from_step, self.reason, self.close = run_id, from_step, reason, list(close)
        hint = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
        super().__init__(f"Run {run_id} cannot be forked from {from_step!r}: {reason}{hint}")


class RunLocked(DurableError):
    """Another transaction that is still open holds rows that were waited for; ``run_ids`` are the runs they belong to.

    ``keys`` instead, where it has begun a start under ``debounce`` or ``singleton``: the limits that this one asks for.
    What the call had changed in the runs that it took together with these is undone; it may be made again.
    """

    def __init__(self, run_ids: Sequence[UUID], seconds: float, *, keys: Sequence[str] = ()) -> None:
        self.run_ids, self.keys, self.seconds = list(run_ids), list(keys), seconds
        held = [f"The start of {key!r}" for key in keys] or [f"Run {run_id}" for run_id in self.run_ids] or ["A run"]
        more = f" (and {len(held) - 1} more)" if len(held) > 1 else ""
        super().__init__(
            f"{held[0]}{more} is held by another transaction that has not ended within {seconds:g} s. "
            "Try again when it has, and keep transactions that act on runs short."
        )


class ScheduleLocked(DurableError):
    """Another transaction that is still open holds rows of ``schedules``, each as ``workflow: name``.

    Nothing of the call was done; it may be made again.
    """

    def __init__(self, schedules: Sequence[str], seconds: float) -> None:
        self.schedules, self.seconds = list(schedules), seconds
        more = f" (and {len(self.schedules) - 1} more)" if len(self.schedules) > 1 else ""
        super().__init__(
            f"Schedule {self.schedules[0]}{more} is held by another transaction that has not ended within "
            f"{seconds:g} s. Try again when it has."
        )


# --- inside a workflow -----------------------------------------------------------------------


class StepFailed(DurableError):
    """A step whose retries are used up; raised at the ``ctx`` call that asked for it.

    ``step`` is the path, ``attempts`` how often the body ran, ``error`` what the last attempt raised
    (``type``, ``message``, ``traceback``). ``run_id``: whose step it is, where not one of the run that has this.
    """

    run_id: UUID | None = None

    def __init__(self, step: str, attempts: int, error: dict[str, Any]) -> None:
        self.step, self.attempts, self.error = step, attempts, error
        tries = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        super().__init__(f"Step {step!r} failed after {tries}: {error.get('type')}: {error.get('message')}")


class ChildFailed(DurableError):
    """A child run that ended without a value: ``run_id``, ``status`` and the child's ``error``."""

    def __init__(self, step: str, run_id: UUID, status: str, error: dict[str, Any]) -> None:
        self.step, self.run_id, self.status, self.error = step, run_id, status, error
        super().__init__(f"Child {step!r} ({run_id}) {status}: {error.get('type')}: {error.get('message')}")


class BranchesFailed(DurableError):
    """Base of JoinError and RaceError. ``errors`` has what each branch that failed raised, by the branch's name
    (``type``, ``message``, ``traceback``; and ``cut`` where there are too many to keep all of that)."""

    def __init__(self, path: str, errors: dict[Any, dict[str, Any]]) -> None:
        self.path, self.errors = path, errors
        told = "; ".join(f"{name}: {error.get('type')}: {error.get('message')}" for name, error in errors.items())
        cut = sum("cut" in error for error in errors.values())
        note = f" ({cut} of {len(errors)} errors are told in brief.)" if cut else ""
        super().__init__(f"{path!r}: {told[:2000]}{note}")


class JoinError(BranchesFailed):
    """At least one branch of a ``join``, or one item of a ``map``, failed; the others have come to their ends."""


class RaceError(BranchesFailed):
    """Every branch of a ``race`` failed, or the result of the first that did not cannot be stored."""


class BlockFailed(DurableError):
    """What a ``try_block`` made data of, as an error again: ``error`` has ``type``, ``message``, ``traceback``, and
    ``run_id`` says whose block it is, where not one of the run that has this."""

    run_id: UUID | None = None

    def __init__(self, path: str, error: dict[str, Any]) -> None:
        self.path, self.error = path, error
        super().__init__(f"{path!r}: {error.get('type')}: {error.get('message')}")


class LoopLimit(DurableError):
    """A loop that did not end within ``max_iterations``."""

    def __init__(self, path: str, limit: int) -> None:
        self.path, self.limit = path, limit
        super().__init__(f"Loop {path!r} did not end within {limit} turns.")


class JournalFull(DurableError):
    """The run has as many journal entries as it may have: nothing new can be begun but what undoes it."""

    def __init__(self, run_id: object, limit: int) -> None:
        self.run_id, self.limit = run_id, limit
        super().__init__(
            f"The journal of run {run_id} is full: JOURNAL_MAX_ENTRIES allows {limit:,} entries. "
            "Repeat work in ctx.loop, which prunes its turns, or hand parts of it to child runs."
        )


class EventTimeout(DurableError):
    def __init__(self, path: str, event: str) -> None:
        self.path, self.event = path, event
        super().__init__(f"{path!r}: no event {event!r} came in time.")


class PollTimeout(DurableError):
    """A poll that gave nothing but PENDING until its time was over; ``polls`` is how many times it was asked."""

    def __init__(self, path: str, polls: int) -> None:
        self.path, self.polls = path, polls
        times = "once" if polls == 1 else f"{polls} times"
        super().__init__(f"{path!r} was still pending when its time was over; it was polled {times}.")


class EventUnanswered(DurableError):
    """The run is over and has not answered the event; ``status`` is how it ended."""

    def __init__(self, run_id: UUID, event: str, status: str) -> None:
        self.run_id, self.event, self.status = run_id, event, status
        super().__init__(f"Run {run_id} {'was ' * (status == 'cancelled')}{status} and has not answered {event!r}.")


class StepTimeout(DurableError):
    def __init__(self, path: str, seconds: float) -> None:
        self.path, self.seconds = path, seconds
        super().__init__(f"Step {path!r} took longer than {seconds:g} s.")


class RunTimeout(DurableError):
    def __init__(self, run_id: object) -> None:
        self.run_id = run_id
        super().__init__(f"Run {run_id} passed its deadline.")


class NonRetriableError(DurableError):
    """Raise it in a step or workflow to give up at once, whatever the retry policy says."""


class CannotBeChild(NonRetriableError, TypeError):
    """A workflow with ``debounce`` or ``singleton`` was to be a child: it may come to the run of somebody else."""

    def __init__(self, workflow: str, option: str) -> None:
        self.workflow, self.option = workflow, option
        super().__init__(
            f"{workflow} cannot be a child: with {option} a start may give, put off or cancel a run of somebody else. "
            "Enqueue it in a step."
        )


class RollbackError(NonRetriableError):
    """Raise it to give up at once and undo what was done: no ``try_step`` or ``try_block`` catches it."""


class RetryLater(DurableError):
    """Raise it in a step to say when the next attempt is due.

    ``after`` is seconds (a number) or a ``timedelta``. The attempt counts like any other.
    """

    def __init__(self, message: str = "", *, after: Any) -> None:
        self.after = after
        super().__init__(message or f"retry after {after}")


class StepNameReused(DurableError):
    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"{path!r} was used twice in this run. Give each step its own name, or pass key= in a loop.")


class InvalidName(DurableError, ValueError):
    """A step, event, tag or key name that is empty, too long or has control characters."""

    def __init__(self, what: str, name: object, reason: str) -> None:
        self.what, self.name, self.reason = what, name, reason
        super().__init__(f"{what} {str(name)[:80]!r}: {reason}")


class InvalidKey(InvalidName, TypeError):
    """A ``key`` whose text may be another one in the next replay, such as that of an object or of a set."""

    def __init__(self, key: object) -> None:
        kind = type(key).__name__
        reason = f"the text of a {kind} may be another one in the next replay. Pass an id, or a string."
        super().__init__("key", f"<{kind}>", reason)


class ContextMisuse(DurableError):
    """A ``ctx`` call where it cannot work (inside a transaction, inside a step, after a suspension)."""


class SuspensionSwallowed(ContextMisuse):
    """The workflow returned although it had been suspended: something caught the suspension."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"The workflow went on after it was suspended at {path!r}. Do not catch BaseException around ctx calls."
        )


class WriteLockHeldTooLong(DurableError):
    """An atomic step on SQLite held the one write lock for longer than a lease allows; it was rolled back."""
