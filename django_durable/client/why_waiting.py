"""What a waiting run waits for, and what moves it on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from ..core.journal.outcomes import TRIED_AGAIN
from ..core.journal.states import Kind, Phase
from ..models import JournalEntry, Run
from ..store.database import Database
from .sentences import NAMED_MAX, Sentence, Why

Texts = tuple[Any, Any]
"""Without a time, and with one."""


def waiting(run: Run, awaits: str | None = None) -> Why:
    """``awaits``: as the entry has it that the run waits at, for who has looked that up anyway."""
    what, _colon, path = run.waiting_on.partition(":")
    names = _awaited(run, path, awaits) if what == Kind.EVENT else []
    ever, until = _texts(run, what, path, names)
    # The time is that of its deadline: its own, where it has one, would come later.
    is_last = run.wake_at is not None and run.wake_at == run.deadline_at
    # Without a time nobody tries again.
    is_timed = run.wake_at is not None or what == "retry"
    values = {"path": path, "waiting_on": run.waiting_on, "time": run.wake_at, "events": _listed(names)}
    waits = Sentence(until if is_timed and not is_last else ever, values)
    undoes = [Sentence(_("It undoes what it did."))] if run.phase == Phase.COMPENSATING else []
    fails = [Sentence(_("At its deadline, %(time)s, it fails."), {"time": run.deadline_at})] if is_last else []
    return Why(f"waiting: {what}", (*undoes, waits, *fails))


def _awaited(run: Run, path: str, awaits: str | None) -> list[str]:
    """The names of the events that are waited for; none where the entry is gone, as that of a run that was pruned."""
    if awaits is None:
        entries = JournalEntry.objects.using(Database().alias).filter(run_id=run.pk, path=path)
        awaits = entries.values_list("awaits", flat=True).first()
    return [name for name in (awaits or "").split("\n") if name]


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*map(repr, names[:NAMED_MAX]), *["…"] * (len(names) > NAMED_MAX)])


def _texts(run: Run, what: str, path: str, names: Sequence[str]) -> Texts:
    if run.waiting_on == TRIED_AGAIN:
        return _RUN_AGAIN
    if not names:
        return _WAITS.get(what, _OTHER_WAITS)
    return _EVENT if names == [path] else _events(len(names))


_RUN_AGAIN = (
    _("The run failed, and would be tried again only after its deadline."),
    _("The run failed and is tried again at %(time)s."),
)
_EVENT = (
    _("It waits for the event %(events)s, and goes on when that is sent."),
    _("It waits for the event %(events)s, and gives up at %(time)s."),
)
"""Of a wait that is called as what it waits for."""


def _events(count: int) -> Texts:
    return (
        ngettext_lazy(
            "It waits for the event %(events)s (at %(path)r), and goes on when that is sent.",
            "It waits for the events %(events)s (at %(path)r), and goes on when enough of them are sent.",
            count,
        ),
        ngettext_lazy(
            "It waits for the event %(events)s (at %(path)r), and gives up at %(time)s.",
            "It waits for the events %(events)s (at %(path)r), and gives up at %(time)s.",
            count,
        ),
    )


_WAITS: Mapping[str, Texts] = {
    "sleep": (_("It sleeps at %(path)r."), _("It sleeps at %(path)r until %(time)s.")),
    "poll": (
        _("It asks at %(path)r, and would ask again only after its deadline."),
        _("It asks again at %(path)r, next at %(time)s."),
    ),
    # Where its entry does not tell for which.
    "event": (
        _("It waits at %(path)r for an event."),
        _("It waits at %(path)r for an event, and gives up at %(time)s."),
    ),
    "join": (
        _("All that is left of its branches at %(path)r waits; it goes on when what one of them waits for comes."),
        _(
            "All that is left of its branches at %(path)r waits; it goes on when what one of them waits for comes, at "
            "%(time)s at the latest."
        ),
    ),
    "race": (
        _("All branches of its race at %(path)r wait; it goes on when what one of them waits for comes."),
        _(
            "All branches of its race at %(path)r wait; it goes on when what one of them waits for comes, at %(time)s "
            "at the latest."
        ),
    ),
    "map": (
        _("It waits for the items of %(path)r, and goes on as they end."),
        # Steps: what children wait for, their own rows say.
        _("It waits for the items of %(path)r, the first of which is tried again at %(time)s."),
    ),
    "child": (
        _("It waits for its child run at %(path)r, and goes on when that is over."),
        _("It waits for its child run at %(path)r until %(time)s."),
    ),
    "retry": (
        _("Step %(path)r failed, and would be tried again only after the deadline."),
        _("Step %(path)r failed and is tried again at %(time)s."),
    ),
}
_OTHER_WAITS = (_("It waits on %(waiting_on)s."), _("It waits on %(waiting_on)s until %(time)s."))
