"""Why a run is not running now, and what will move it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Max, Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from ..conf import durable_settings
from ..core import clock
from ..core.flow.undoing import UNDO
from ..core.journal.states import LIVE, BlockReason, EntryStatus, Kind, PayloadKind, Phase, Status
from ..core.payloads.codec import decode
from ..exceptions import PayloadUndecodable
from ..models import JournalEntry, Payload, Run, Worker
from ..store.database import Database
from ..store.transitions import IS_KNOWN_TO_PARENT
from .listing import STILL
from .sentences import NAMED_MAX, Sentence, Stored, Why, because
from .why_queued import queued
from .why_waiting import waiting


def why(run: Run) -> Why:
    """The one reason that stands in this run's way, from its row and, where it matters, who is alive to take it."""
    return why_held_by(run, holder_of(run))


def holder_of(run: Run) -> Worker | None:
    """The worker that has the run's lease, where there is one and it has told of itself."""
    if run.leased_by is None:
        return None
    return Worker.objects.using(Database().alias).filter(pk=run.leased_by).first()


def why_held_by(
    run: Run,
    holder: Worker | None,
    *,
    is_long: bool | None = None,
    is_known_to_parent: bool | None = None,
    awaits: str | None = None,
) -> Why:
    """As ``why``, for who has looked up the run's ``holder_of`` anyway, and maybe whether ``has_long_journal``, whether
    its parent knows how it ended, and what the entry ``awaits`` that it waits at."""
    found = _standing(run, holder, is_known_to_parent, awaits)
    is_long = has_long_journal(run) if is_long is None else is_long
    return Why(found.reason, (*found.sentences, *_not_undone(run), *([_long_journal(run)] if is_long else [])))


def _not_undone(run: Run) -> list[Sentence]:
    """Of a run that succeeded, which has no error to tell it: what losers of its races did and still stands."""
    if run.status != Status.SUCCEEDED:
        return []
    undos = JournalEntry.objects.using(Database().alias).filter(run_id=run.pk, kind=Kind.UNDO)
    paths = undos.filter(status=EntryStatus.FAILED).order_by("seq").values_list("path", flat=True)[: NAMED_MAX + 1]
    names = [repr(path.removesuffix(UNDO)) for path in paths]
    if not names:
        return []
    text = _("What losers of races did could not be undone: %(paths)s.")
    if len(names) > NAMED_MAX:
        text = _("What losers of races did could not be undone: %(paths)s, and more.")
    return [Sentence(text, {"paths": ", ".join(names[:NAMED_MAX])})]


def has_long_journal(run: Run) -> bool:
    """Whether there is one entry more than what is warned of: a journal is not counted to its end for that."""
    warn, journal = durable_settings().JOURNAL_WARN_ENTRIES, JournalEntry.objects.using(Database().alias)
    return run.claims > 0 and journal.filter(run_id=run.pk).order_by()[warn : warn + 1].exists()


def _long_journal(run: Run) -> Sentence:
    count = durable_settings().JOURNAL_WARN_ENTRIES
    text = ngettext_lazy(
        "Its journal has more than %(count)s entry.", "Its journal has more than %(count)s entries.", count
    )
    if run.status in LIVE:
        text = ngettext_lazy(
            "Its journal has more than %(count)s entry, all of which each claim reads.",
            "Its journal has more than %(count)s entries, all of which each claim reads.",
            count,
        )
    return Sentence(text, {"count": count})


def _standing(run: Run, holder: Worker | None, is_known_to_parent: bool | None, awaits: str | None) -> Why:
    match run.status:
        case Status.RUNNING:
            return _running(run, holder)
        case Status.SCHEDULED:
            return because("scheduled", _("It starts at %(time)s."), time=run.wake_at)
        case Status.WAITING:
            return waiting(run, awaits)
        case Status.PAUSED:
            return _paused(run)
        case Status.BLOCKED:
            return Why(f"blocked: {run.block_reason}", tuple(_blocked(run)))
        case Status.QUEUED:
            return queued(run)
        case _:
            return because("finished", _over(run, is_known_to_parent), time=run.finished_at)


def _over(run: Run, is_known_to_parent: bool | None) -> Any:
    if run.status == Status.SUCCEEDED or run.parent_id is None:
        return _OVER[run.status]
    if run.is_replaced:
        return _REPLACED[run.status]
    if is_known_to_parent is None:
        is_known_to_parent = Run.objects.using(Database().alias).filter(IS_KNOWN_TO_PARENT, pk=run.pk).exists()
    return (_KNOWN if is_known_to_parent else _OVER)[run.status]


_OVER: Mapping[str, Any] = {
    Status.SUCCEEDED: _("It is over: succeeded at %(time)s."),
    Status.FAILED: _(
        "It is over: failed at %(time)s, and stays so until somebody resumes it, which tries again what failed."
    ),
    Status.CANCELLED: _(
        "It is over: cancelled at %(time)s, and stays so until somebody resumes it, which lets it go on from there."
    ),
}


_REPLACED: Mapping[str, Any] = {
    Status.FAILED: _("It is over: failed at %(time)s. Its parent was resumed, and has another in its place."),
    Status.CANCELLED: _("It is over: cancelled at %(time)s. Its parent was resumed, and has another in its place."),
}


_KNOWN: Mapping[str, Any] = {
    Status.FAILED: _(
        "It is over: failed at %(time)s, and stays so: its parent has seen that. If the parent failed or was cancelled "
        "as well, resume that one."
    ),
    Status.CANCELLED: _(
        "It is over: cancelled at %(time)s, and stays so: its parent has seen that. If the parent failed or was "
        "cancelled as well, resume that one."
    ),
}


def _running(run: Run, worker: Worker | None) -> Why:
    until = run.lease_expires_at
    silent_since = clock.utcnow() - timedelta(seconds=durable_settings().LEASE_SECONDS)
    if worker is not None and worker.stopped_at is not None:
        text = _("Its worker %(worker)s stopped at %(time)s; it is taken up when its lease ends at %(until)s.")
        return because("running: worker silent", text, worker=str(worker), time=worker.stopped_at, until=until)
    if worker is not None and worker.heartbeat_at < silent_since:
        text = _(
            "Its worker %(worker)s has not been heard of since %(time)s; it is taken up when its lease ends at "
            "%(until)s."
        )
        return because("running: worker silent", text, worker=str(worker), time=worker.heartbeat_at, until=until)
    if run.cancel_requested_at is not None:
        text = _("It stops at its next call, asked to at %(time)s.")
        if run.phase == Phase.COMPENSATING:
            text = _("It undoes what it did, asked to stop at %(time)s.")
        return because("running: stopping", text, time=run.cancel_requested_at)
    if run.pause_requested_at is not None:
        text = _("It pauses at its next call, asked to at %(time)s.")
        return because("running: pausing", text, time=run.pause_requested_at)
    worked_on = Sentence(_("It is being worked on; its lease stands until %(until)s."), {"until": until})
    return Why("running", (worked_on, *_still(run)))


def _still(run: Run) -> list[Sentence]:
    """Since when nothing has come of the work, where that is long."""
    now = clock.utcnow()
    claimed = max((time for time in (run.queued_at, run.started_at) if time is not None), default=now)
    if now - claimed < STILL:
        return []
    journal = JournalEntry.objects.using(Database().alias).filter(run_id=run.pk)
    # A wait that is over by now: nobody worked on the run before.
    woken = Max("wake_at", filter=Q(wake_at__lte=now))
    moved = journal.aggregate(Max("started_at"), Max("finished_at"), woken=woken).values()
    last = max((claimed, *(time for time in moved if time is not None)))
    return [Sentence(_("It has journaled nothing since %(time)s."), {"time": last})] if now - last >= STILL else []


def _paused(run: Run) -> Why:
    if run.wake_at is None:
        return because("paused", _("Somebody paused it; it goes on when somebody resumes it."))
    # Its times go on: what it waits for is looked at when it is resumed.
    text = _("Somebody paused it before %(time)s, when it would be woken; it goes on when somebody resumes it.")
    if run.claims == 0:
        text = _("Somebody paused it before %(time)s, when it was to start; it goes on when somebody resumes it.")
    return because("paused", text, time=run.wake_at)


def _blocked(run: Run) -> list[Sentence]:
    if run.cancel_requested_at is None:
        return _misfit(run)
    asked = _("It was asked to stop, and has to undo what it did; cancelled once more it ends as it is.")
    return [Sentence(asked), *_misfit(run)]


def _misfit(run: Run) -> list[Sentence]:
    if run.block_reason == BlockReason.UNKNOWN_WORKFLOW:
        text = _("No live worker knows a workflow called %(workflow)r; a worker that does takes it up.")
        return [Sentence(text, {"workflow": run.workflow})]
    if run.block_reason == BlockReason.CRASHED:
        text = ngettext_lazy(
            "It killed its process %(count)s time; resume it when the cause is mended.",
            "It killed its process %(count)s times; resume it when the cause is mended.",
            run.crashes,
        )
        return [Sentence(text, {"count": run.crashes})]
    return [_told(run), Sentence(_("A worker with other code tries it again, and so does a resume."))]


def _told(run: Run) -> Sentence:
    """What the engine has said of it, in its own words: values of the run may be among them."""
    rows = Payload.objects.using(Database().alias).filter(run_id=run.pk, kind=PayloadKind.BLOCK)
    text = rows.values_list("data", flat=True).first()
    if not text:
        return Sentence(_("It is blocked: %(reason)s."), {"reason": run.block_reason})
    try:
        said = decode(text)
    except PayloadUndecodable:
        said = None
    if not isinstance(said, Mapping) or "message" not in said:
        return Sentence(_("It is blocked, and the text that says why cannot be read."))
    return Sentence("%(message)s", {"message": Stored("block", said, _message)})


def _message(said: Any) -> str:
    text = str(said["message"] if isinstance(said, Mapping) and "message" in said else said)
    return text if text.rstrip().endswith((".", "!", "?")) else f"{text}."
