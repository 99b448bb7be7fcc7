"""The options of ``@durable_workflow`` and of ``using``, checked where they are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ..core.kinds.sleeps import instant_of, seconds_of
from ..core.limits import Bounds, Meeting, parse_rate
from ..core.names import NAME_MAX, QUEUE_MAX, check_key, check_name
from ..core.retries import Retry
from ..core.schedules.cron import Cron
from ..exceptions import RunFailed, WorkflowDefinitionError

_QUEUE = re.compile(rf"[A-Za-z0-9_.-]{{1,{QUEUE_MAX}}}")
Seconds = timedelta | float
MAX_CONCURRENCY = 1_000_000


def check_queue(queue: object) -> None:
    """Raise TypeError for what cannot be a queue's name (it becomes part of a Redis key)."""
    if not isinstance(queue, str) or not _QUEUE.fullmatch(queue):
        raise TypeError(f"queue must be 1 to 100 letters, digits, dots, dashes or underscores, not {queue!r}.")


def check_priority(priority: object) -> None:
    """Raise TypeError for anything but an integer from -100 to 100."""
    if isinstance(priority, bool) or not isinstance(priority, int) or not -100 <= priority <= 100:
        raise TypeError(f"priority must be an integer from -100 to 100, not {priority!r}.")


def _check_aliases(name: str | None, aliases: object) -> None:
    if not isinstance(aliases, list | tuple):
        raise TypeError(f"aliases must be a list of names, not {aliases!r}.")
    for alias in aliases:
        check_name("alias", alias)
    if len({name, *aliases}) <= len(aliases):
        raise ValueError(f"aliases must be other names than {name!r}, each given once, not {aliases!r}.")


def _check_concurrency(maximum: object) -> None:
    if maximum is not None and (type(maximum) is not int or not 1 <= maximum <= MAX_CONCURRENCY):
        raise TypeError(f"max_concurrency must be an integer from 1 to {MAX_CONCURRENCY}, not {maximum!r}.")


def _check_singleton(singleton: object, max_concurrency: object, debounce: object) -> None:
    if singleton is None:
        return
    if singleton not in ("skip", "cancel_running"):
        raise TypeError(f'singleton must be "skip" or "cancel_running", not {singleton!r}.')
    if max_concurrency not in (None, 1):
        raise TypeError(f"singleton works on one run at a time: leave max_concurrency={max_concurrency!r} out.")
    if debounce is not None:
        raise TypeError("singleton and debounce each say what a second start does: give one of them.")


def _check_key(concurrency_key: object, *, is_limited: bool) -> None:
    if concurrency_key is None:
        return
    if not callable(concurrency_key):
        raise TypeError(f"concurrency_key must be callable, not {concurrency_key!r}.")
    if not is_limited:
        raise TypeError(
            "concurrency_key says which runs max_concurrency, rate, debounce or singleton mean together: give one of "
            "these as well."
        )


def default_name(workflow: str, number: int) -> str:
    """The name of a workflow's first, second … schedule that was given none; no expression in it, which may change."""
    return workflow if number == 1 else f"{workflow[: NAME_MAX - 6]} {number}"


@dataclass(frozen=True, slots=True)
class WorkflowOptions:
    """What ``@durable_workflow(...)`` was told; the words are those of docs/workflows.md."""

    name: str | None = None
    aliases: Sequence[str] = ()
    queue: str = "default"
    priority: int = 0
    retry: Retry = field(default_factory=Retry)
    step_retry: Retry = field(default_factory=Retry)
    max_concurrency: int | None = None
    concurrency_key: Callable[..., str] | None = None
    rate: str | None = None
    debounce: Seconds | None = None
    singleton: str | None = None
    timeout: Seconds | None = None
    cron: str | Cron | Sequence[str | Cron] | None = None
    on_failure: Callable[[RunFailed], Any] | None = None
    retention: Seconds | None = None
    compensate_on_cancel: bool = True
    strict: bool = False

    def __post_init__(self) -> None:
        try:
            if self.name is not None:
                check_name("workflow", self.name)
            _check_aliases(self.name, self.aliases)
            check_queue(self.queue)
            check_priority(self.priority)
            for what in ("retry", "step_retry"):
                if not isinstance(getattr(self, what), Retry):
                    raise TypeError(f"{what} must be a Retry, not {getattr(self, what)!r}.")
            _check_concurrency(self.max_concurrency)
            _check_singleton(self.singleton, self.max_concurrency, self.debounce)
            _check_key(self.concurrency_key, is_limited=self.bounds is not None)  # raises where the rate is none
            for what in ("timeout", "retention", "debounce"):
                if getattr(self, what) is not None and not seconds_of(getattr(self, what), what) > 0:
                    raise ValueError(f"{what} must be more than 0, not {getattr(self, what)!r}.")
            _ = self.crons  # raises InvalidSchedule
            if self.on_failure is not None and not callable(self.on_failure):
                raise TypeError(f"on_failure must be callable, not {self.on_failure!r}.")
        except (TypeError, ValueError) as error:
            raise WorkflowDefinitionError(str(error)) from error

    @property
    def bounds(self) -> Bounds | None:
        """How its runs are limited; None: they have no key by which they could be. Raises ValueError."""
        if self.max_concurrency is None and self.rate is None and self.meeting is None:
            return None
        most = self.max_concurrency if self.singleton is None else 1
        return Bounds(most, None if self.rate is None else parse_rate(self.rate))

    @property
    def meeting(self) -> Meeting | None:
        """What a start does that meets a run of its key; None: it is none of its business."""
        if self.debounce is not None:
            return Meeting.DEBOUNCE
        return None if self.singleton is None else Meeting(self.singleton)

    @property
    def crons(self) -> list[Cron]:
        """The schedules, each as a Cron. Raises InvalidSchedule."""
        given = self.cron
        if given is None:
            return []
        several = [given] if isinstance(given, str | Cron) else list(given)
        return [one if isinstance(one, Cron) else Cron(one) for one in several]


@dataclass(frozen=True, slots=True)
class StartOptions:
    """What ``using(...)`` was told. None: as the workflow says."""

    queue: str | None = None
    priority: int | None = None
    run_after: datetime | Seconds | None = None
    idempotency_key: str | None = None
    idempotency_ttl: Seconds = timedelta(days=7)
    on_conflict: str = "return"
    timeout: Seconds | None = None
    max_attempts: int | None = None
    tags: Sequence[str] = ()
    key: object = None
    detached: bool = False

    def __post_init__(self) -> None:
        if self.queue is not None:
            check_queue(self.queue)
        if self.priority is not None:
            check_priority(self.priority)
        if isinstance(self.run_after, datetime):
            instant_of(self.run_after, "run_after")
        elif self.run_after is not None:
            seconds_of(self.run_after, "run_after")
        if self.idempotency_key is not None:
            check_name("idempotency key", self.idempotency_key)
        if self.on_conflict not in ("return", "reject", "replace"):
            raise TypeError(f'on_conflict is "return", "reject" or "replace", not {self.on_conflict!r}.')
        for what in ("idempotency_ttl", "timeout"):
            if getattr(self, what) is not None and not seconds_of(getattr(self, what), what) > 0:
                raise ValueError(f"{what} must be more than 0, not {getattr(self, what)!r}.")
        if self.max_attempts is not None and (type(self.max_attempts) is not int or self.max_attempts < 1):
            raise TypeError(f"max_attempts must be an integer of at least 1, not {self.max_attempts!r}.")
        if isinstance(self.tags, str):
            raise TypeError("tags must be a list of strings, not one string.")
        for tag in self.tags:
            check_name("tag", tag)
        if self.key is not None:
            check_key(self.key)
