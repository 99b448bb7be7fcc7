"""Why a run is not running now, and what will move it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db.models import Max, Q, QuerySet

from ..conf import durable_settings
from ..core import clock
from ..core.flow.undoing import UNDO
from ..core.journal.states import LIVE, BlockReason, EntryStatus, Kind, PayloadKind, Phase, Status
from ..core.payloads.codec import decode
from ..core.registry import limits
from ..models import JournalEntry, Payload, Run, Worker
from ..models.run import IS_ENDING
from ..store.clock import DatabaseNow
from ..store.database import Database
from .listing import STILL

NAMED_MAX = 5
"""Steps that one sentence names."""


@dataclass(slots=True, frozen=True)
class Why:
    """``reason`` is for programs and stable; ``text`` is one sentence for people."""

    reason: str
    text: str


def why(run: Run) -> Why:
    """The one reason that stands in this run's way, from its row and, where it matters, who is alive to take it."""
    return why_held_by(run, holder_of(run))


def holder_of(run: Run) -> Worker | None:
    """The worker that has the run's lease, where there is one and it has told of itself."""
    if run.leased_by is None:
        return None
    return Worker.objects.using(Database().alias).filter(pk=run.leased_by).first()


def why_held_by(run: Run, holder: Worker | None) -> Why:
    """As ``why``, for who has looked up the run's ``holder_of`` anyway."""
    found = _standing(run, holder)
    return replace(found, text=found.text + _not_undone(run) + _long_journal(run))


def _not_undone(run: Run) -> str:
    """Of a run that succeeded, which has no error to tell it: what losers of its races did and still stands."""
    if run.status != Status.SUCCEEDED:
        return ""
    undos = JournalEntry.objects.using(Database().alias).filter(run_id=run.pk, kind=Kind.UNDO)
    paths = undos.filter(status=EntryStatus.FAILED).order_by("seq").values_list("path", flat=True)[: NAMED_MAX + 1]
    names = [repr(path.removesuffix(UNDO)) for path in paths]
    if not names:
        return ""
    more = ", and more" if len(names) > NAMED_MAX else ""
    return f" What losers of races did could not be undone: {', '.join(names[:NAMED_MAX])}{more}."


def _long_journal(run: Run) -> str:
    if run.claims == 0:
        return ""
    warn = durable_settings().JOURNAL_WARN_ENTRIES
    # Whether there is one more than that: a journal is not counted to its end for a word about it.
    if not JournalEntry.objects.using(Database().alias).filter(run_id=run.pk).order_by()[warn : warn + 1].exists():
        return ""
    claims = ", all of which each claim reads" if run.status in LIVE else ""
    return f" Its journal has more than {warn:,} entries{claims}."


def _standing(run: Run, holder: Worker | None) -> Why:
    match run.status:
        case Status.RUNNING:
            return _running(run, holder)
        case Status.SCHEDULED:
            return Why("scheduled", f"It starts at {_time(run.wake_at)}.")
        case Status.WAITING:
            return _waiting(run)
        case Status.PAUSED:
            return Why("paused", _paused(run))
        case Status.BLOCKED:
            return Why(f"blocked: {run.block_reason}", _blocked(run))
        case Status.QUEUED:
            return _queued(run)
        case _:
            return Why("finished", f"It is over: {run.status} at {_time(run.finished_at)}.")


def _running(run: Run, worker: Worker | None) -> Why:
    until = _time(run.lease_expires_at)
    silent_since = clock.utcnow() - timedelta(seconds=durable_settings().LEASE_SECONDS)
    if worker is not None and worker.stopped_at is not None:
        text = f"Its worker {worker} stopped at {_time(worker.stopped_at)}"
    elif worker is not None and worker.heartbeat_at < silent_since:
        text = f"Its worker {worker} has not been heard of since {_time(worker.heartbeat_at)}"
    elif run.pause_requested_at is not None:
        return Why("running: pausing", f"It pauses at its next call, asked to at {_time(run.pause_requested_at)}.")
    else:
        return Why("running", f"It is being worked on; its lease stands until {until}.{_still(run)}")
    return Why("running: worker silent", f"{text}; it is taken up when its lease ends at {until}.")


def _still(run: Run) -> str:
    """Since when nothing has come of the work, where that is long."""
    now = clock.utcnow()
    claimed = max((time for time in (run.queued_at, run.started_at) if time is not None), default=now)
    if now - claimed < STILL:
        return ""
    journal = JournalEntry.objects.using(Database().alias).filter(run_id=run.pk)
    # A wait that is over by now: nobody worked on the run before.
    woken = Max("wake_at", filter=Q(wake_at__lte=now))
    moved = journal.aggregate(Max("started_at"), Max("finished_at"), woken=woken).values()
    last = max((claimed, *(time for time in moved if time is not None)))
    return f" It has journaled nothing since {_time(last)}." if now - last >= STILL else ""


def _paused(run: Run) -> str:
    if run.wake_at is not None:
        # Its times go on: what it waits for is looked at when it is resumed.
        what = "was to start" if run.claims == 0 else "would be woken"
        return f"Somebody paused it before {_time(run.wake_at)}, when it {what}; it goes on when somebody resumes it."
    return "Somebody paused it; it goes on when somebody resumes it."


def _waiting(run: Run) -> Why:
    what, _, path = run.waiting_on.partition(":")
    until = f" until {_time(run.wake_at)}" if run.wake_at else ""
    texts = {
        "sleep": f"It sleeps at {path!r}{until}.",
        "poll": f"It asks again at {path!r}{until}.",
        "event": f"It waits at {path!r} for an event{until}.",
        "join": f"All that is left of its branches at {path!r} waits{until}.",
        "race": f"All branches of its race at {path!r} wait{until}.",
        "map": f"It waits for the items of {path!r}{until}.",
        "child": f"It waits for its child run at {path!r}{until}.",
        "retry": f"{'The run' if path == 'run' else f'Step {path!r}'} failed and is tried again at "
        f"{_time(run.wake_at)}.",
    }
    text = texts.get(what, f"It waits on {run.waiting_on}{until}.")
    if run.phase == Phase.COMPENSATING:
        text = f"It undoes what it did. {text}"
    return Why(f"waiting: {what}", text)


def _blocked(run: Run) -> str:
    if run.cancel_requested_at is None:
        return _misfit(run)
    return f"It was asked to stop, and has to undo what it did; cancelled once more it ends as it is. {_misfit(run)}"


def _misfit(run: Run) -> str:
    if run.block_reason == BlockReason.UNKNOWN_WORKFLOW:
        return f"No live worker knows a workflow called {run.workflow!r}; a worker that does takes it up."
    if run.block_reason == BlockReason.CRASHED:
        return f"It killed its process {run.crashes} times; resume it when the cause is mended."
    rows = Payload.objects.using(Database().alias).filter(run_id=run.pk, kind=PayloadKind.BLOCK)
    text = rows.values_list("data", flat=True).first()
    return decode(text)["message"] if text else f"It is blocked: {run.block_reason}."


def _queued(run: Run) -> Why:
    if run.suspect:
        return Why("queued: suspect", "Its process died; it runs next alone in a process of its own.")
    settings = durable_settings()
    since = clock.utcnow().timestamp() - 3 * settings.HEARTBEAT_SECONDS
    alive = [
        worker
        for worker in Worker.objects.using(Database().alias).filter(stopped_at=None)
        if worker.heartbeat_at.timestamp() >= since
    ]
    if not alive:
        return Why("queued: no worker", "No worker is alive; start one with manage.py durable_worker.")
    if not any(run.queue in worker.queues for worker in alive):
        return Why("queued: no worker", f"No live worker serves the queue {run.queue!r}.")
    if not any(run.queue in worker.queues and run.workflow in worker.workflows for worker in alive):
        return Why("queued: unknown workflow", f"No live worker of its queue knows {run.workflow!r}.")
    return (
        _at_its_limit(run)
        or _at_its_rate(run)
        or Why("queued", "It is next when a worker of its queue has a free slot.")
    )


def _at_its_limit(run: Run) -> Why | None:
    """Only a limit that the code here knows: whoever claims goes by its own code."""
    bounds = limits().get(run.workflow)
    if run.limit_key is None or bounds is None or (maximum := bounds.concurrency) is None:
        return None
    held = _of_its_key(run).filter(status=Status.RUNNING).count()
    if held >= maximum:
        text = f"{held} of {maximum} are running; one that is queued starts when one of them ends or waits."
        return Why("queued: limit", f"Its limit {run.limit_key!r} is full: {text}")
    first = _of_its_key(run).filter(IS_ENDING, status=Status.QUEUED).exclude(pk=run.pk).count()
    if _is_ending(run) or held + first < maximum:
        return None
    text = f"of {maximum}, {held} are running and {first} are about to end, which go first whatever their priority."
    return Why("queued: limit", f"Its limit {run.limit_key!r} is full: {text}")


def _is_ending(run: Run) -> bool:
    return run.cancel_requested_at is not None or run.phase != Phase.FORWARD


def _at_its_rate(run: Run) -> Why | None:
    bounds = limits().get(run.workflow)
    if run.limit_key is None or run.started_at is not None or bounds is None or (rate := bounds.rate) is None:
        return None
    recent = _of_its_key(run).filter(started_at__gt=DatabaseNow(ago=float(rate.seconds)))
    # The one that has to be over before another may begin; there is one only where the rate is used up.
    oldest = recent.order_by("-started_at").values_list("started_at", flat=True)[rate.starts - 1 : rate.starts].first()
    if oldest is None:
        return None
    opens_at = oldest + timedelta(seconds=rate.seconds)
    return Why(
        "queued: rate",
        f"The rate {rate} of {run.limit_key!r} is used up; the next one that is queued may start at {_time(opens_at)}.",
    )


def _of_its_key(run: Run) -> QuerySet[Run]:
    return Run.objects.using(Database().alias).filter(limit_key=run.limit_key)


def _time(value: datetime | None) -> str:
    return "an unknown time" if value is None else f"{value:%Y-%m-%d %H:%M:%S %Z}"
