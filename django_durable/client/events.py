"""``EventHandle``: an event that was sent to a run, and what the run answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from ..core.journal.states import TERMINAL
from ..core.payloads.codec import decode
from ..core.payloads.tags import register_tag
from ..exceptions import EventUnanswered, RunNotFound
from ..models import Event
from ..store.database import Database
from .waiting import Usual, await_, pauses, wait

_ANSWERS = Usual()


@dataclass(slots=True, frozen=True)
class EventHandle:
    """The event ``id`` of the run ``run_id``. Nothing is read before somebody asks for the answer.

    Steps may return it: it is a value that the codec can store.
    """

    run_id: UUID
    id: int
    name: str = field(compare=False)

    def response(self, timeout: float | None = None) -> Any:
        """What the run answers by ``event.complete(…)``. Raises EventUnanswered where it is over without that,
        TimeoutError (``timeout`` seconds, the caller's only), RunNotFound where the run is gone.

        Refused with ResultUnavailable where it could only hang: in a workflow, and inside a transaction, whose snapshot
        or unfinished event the worker's answer cannot reach.
        """
        look = _Look(self)
        wait(look.pauses(timeout))
        return look.answer()

    async def aresponse(self, timeout: float | None = None) -> Any:
        """As ``response``. Asks on the caller's connection and holds no thread while it waits."""
        look = _Look(self)
        await await_(look.pauses(timeout))
        return look.answer()


class _Look:
    """What one who waits for the answer has seen last."""

    def __init__(self, event: EventHandle) -> None:
        self._event = event
        self._response: str | None = None
        self._status = ""

    def pauses(self, timeout: float | None) -> Iterator[float]:
        instead = "have the other run send an event back"
        return pauses(self._is_over, timeout, "response()", instead, self._told, _ANSWERS)

    def _is_over(self) -> bool:
        # Both at one moment: the answer is stored no later than the end of its run.
        rows = Event.objects.using(Database().alias).filter(pk=self._event.id)
        row = rows.values_list("response", "run__status").first()
        if row is None:
            raise RunNotFound(self._event.run_id)
        self._response, self._status = row
        return self._response is not None or self._status in TERMINAL

    def answer(self) -> Any:
        if self._response is None:
            raise EventUnanswered(self._event.run_id, self._event.name, self._status)
        return decode(self._response)

    def _told(self) -> str:
        return f"Run {self._event.run_id} is {self._status} and has not answered {self._event.name!r}"


def _from_data(data: Any) -> EventHandle:
    run_id, event_id, name = data
    if type(run_id) is not UUID or type(event_id) is not int or type(name) is not str:
        raise TypeError("a run, a number and a name expected")
    return EventHandle(run_id, event_id, name)


register_tag("event", EventHandle, lambda event: [event.run_id, event.id, event.name], _from_data)
