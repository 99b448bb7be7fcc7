"""Steps: the user's functions, run at least once, journaled exactly once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, cast

from ...exceptions import NonRetriableError, PayloadError, RollbackError, RunCancelled, StepFailed
from ..flow.effects import LAST, Decisions, Perform, Persist, Raised, Returned
from ..flow.flow import Flow
from ..flow.notes import note_attempt
from ..flow.undoing import UNDO, Undo
from ..journal.journal import Entry
from ..journal.outcomes import Cancelled
from ..journal.states import EntryStatus, Kind
from ..names import fit_path
from ..payloads.codec import decode, encode, is_plain
from ..payloads.failures import describe
from ..retries import Retry, retry_delay


@dataclass(slots=True, frozen=True)
class StepOptions:
    """``timeout`` is seconds for one attempt; the other words are told in docs/workflows.md."""

    retry: Retry | None = None
    timeout: float | None = None
    atomic: bool = False
    ephemeral: bool = False
    compensate: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if self.atomic and self.ephemeral:
            raise TypeError("A step is atomic or ephemeral, not both.")
        if self.ephemeral and self.compensate is not None:
            # A crash would take the entry, and with it the undo of an effect that has happened.
            raise TypeError("An ephemeral step has nothing to undo: compensate= goes with steps that are journaled.")
        check_retry(self.retry)
        if self.timeout is not None:
            _check_timeout(self.timeout)
        if self.compensate is not None and not callable(self.compensate):
            raise TypeError(f"compensate must be callable with the step's result, not {self.compensate!r}.")


def check_retry(retry: object) -> None:
    """Raise TypeError for what no call can be retried as."""
    if retry is not None and not isinstance(retry, Retry):
        raise TypeError(f"retry must be a Retry, such as Retry(max_attempts=5), not {retry!r}.")


def _check_timeout(timeout: object) -> None:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout takes a timedelta or seconds, not {timeout!r}.")
    if not timeout > 0:
        raise ValueError(f"timeout must be more than 0 seconds, not {timeout!r}.")


PLAIN = StepOptions()


def step_options(
    retry: Retry | None,
    timeout: timedelta | float | None,
    atomic: bool,
    ephemeral: bool,
    compensate: Callable[[Any], Any] | None,
) -> StepOptions:
    """The options of one step. Raises TypeError, ValueError for what cannot be."""
    if retry is None and timeout is None and compensate is None and not atomic and not ephemeral:
        return PLAIN
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    return StepOptions(retry, seconds, atomic, ephemeral, compensate)


def step(
    flow: Flow,
    path: str,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    options: StepOptions = PLAIN,
    kind: Kind = Kind.STEP,
) -> Decisions[Any]:
    """The value that ``fn(*args)`` returned once. Raises StepFailed when its retries are used up."""
    entry = flow.find(path, kind)
    if entry is not None:
        if entry.status == EntryStatus.SUCCEEDED:
            if options.compensate is not None:
                _register(flow, entry, options.compensate, options.retry)
            return decode(cast(str, entry.value))
        if entry.status == EntryStatus.FAILED:
            raise failure(entry)
        if _is_early(flow, entry):
            flow.suspend(entry)
    if not callable(fn):
        raise TypeError(f"Step {path!r} takes a function and its arguments, not {fn!r}.")
    if options.compensate is not None:
        fit_path(path + UNDO)
    attempt, before = (entry.attempts + 1, entry.value) if entry else (1, None)
    while True:
        flow.require_live()
        settle = partial(_settled, flow, path, kind, attempt, options) if options.atomic else None
        performed = yield Perform(path, fn, args, attempt, options.timeout, settle)
        if isinstance(performed, Returned):
            try:
                entry = _settled(flow, path, kind, attempt, options, performed)
            except PayloadError as error:
                performed = Raised(error, performed.seconds)
            else:
                if not options.atomic:
                    flow.record(entry)
                    if not options.ephemeral:
                        # What is undone, somebody undoes who goes on.
                        yield LAST if kind == Kind.STEP else Persist()
                return performed.value if is_plain(performed.value) else decode(cast(str, entry.value))
        raised = cast(Raised, performed)
        entry = after_error(flow, path, kind, attempt, raised, options.retry or flow.step_retry)
        entry.value = before
        flow.record(entry)
        if entry.status == EntryStatus.RETRYING:
            note_attempt(flow, entry, raised.error)
        if entry.status == EntryStatus.RETRYING and entry.wake_after:
            flow.suspend(entry)
        yield Persist()
        if entry.status == EntryStatus.FAILED:
            raise failure(entry) from raised.error
        attempt += 1


def _is_early(flow: Flow, entry: Entry) -> bool:
    """Whether the time of the next attempt has not come. Where this attempt of the run has put it off, and undoes what
    losers did before that is stored, nobody knows it yet."""
    return bool(entry.wake_after) if entry.wake_at is None else flow.journal.now() < entry.wake_at


def _register(flow: Flow, entry: Entry, undo: Callable[[Any], Any], retry: Retry | None) -> None:
    if flow.is_looking and entry.undo:
        flow.undos.append(Undo(entry.path, entry.seq, undo, cast(str, entry.value), retry or flow.step_retry))


def _settled(flow: Flow, path: str, kind: Kind, attempt: int, options: StepOptions, returned: Returned) -> Entry:
    """The entry after an attempt that returned. Raises PayloadError."""
    value = flow.encode(returned.value, f"result of step {path!r}")
    undo = options.compensate is not None
    return Entry(path, kind, EntryStatus.SUCCEEDED, attempts=attempt, value=value, undo=undo, seconds=returned.seconds)


def after_error(flow: Flow, path: str, kind: Kind, attempt: int, raised: Raised, retry: Retry) -> Entry:
    """The entry after an attempt that raised: to be retried, or failed. Ends the flow where it was to stop there."""
    error = raised.error
    if isinstance(error, RunCancelled) and flow.lease.cancel_requested and flow.heeds_cancel:
        flow.end(Cancelled())
    told = describe(error)
    if isinstance(error, NonRetriableError):
        told["reason"] = "rollback" if isinstance(error, RollbackError) else "critical"
    entry = Entry(path, kind, EntryStatus.FAILED, attempts=attempt, error=encode(told), seconds=raised.seconds)
    entry.max_attempts = retry.max_attempts
    # A result that cannot be stored fails at once: the body has run, and would return the same again.
    if not isinstance(error, PayloadError) and retry.allows(error, attempt):
        delay = retry_delay(retry, error, attempt, flow.random)
        entry = replace(entry, status=EntryStatus.RETRYING, wake_after=delay)
    return entry


def failure(entry: Entry) -> StepFailed:
    return StepFailed(entry.path, entry.attempts, decode(entry.error or "{}"))
