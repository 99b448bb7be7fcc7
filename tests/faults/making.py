"""Facts as a scenario leaves them where everything goes well, made by hand: for tests, which then spoil them."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from django_durable.core.ids import uuid7
from django_durable.core.journal.states import TERMINAL, Kind, PayloadKind, Status
from django_durable.core.payloads.codec import encode
from django_durable.models import JournalEntry, Run
from tests.faults.checker import UNDO, Facts, problems_of
from tests.faults.kinds import Action
from tests.faults.rows import SETTLED
from tests.faults.scenarios import EVENT, SCENARIOS
from tests.faults.witness import Lines

BODY = "step body, before"
"""The label of a point right before a body."""
LONG_AGO = UUID(int=0)

ORDERS = {
    "plain": ("one", "two", "three"),
    "atomic": ("one", "count", "two"),
    "sleep-and-event": ("one", "nap", "go", "two"),
    "compensation": ("reserve", "charge", "ship", "charge%undo", "reserve%undo"),
    "schedule": ("one", "two"),
    "crashing": ("one", "two", "three"),
}
"""In which order the steps of a scenario come."""
UNDOABLE = ("reserve", "charge")
REFUSED = "ship"
WAITS = {"nap": (Kind.SLEEP, None), "go": (Kind.EVENT, EVENT)}
"""What has no body: its kind, and its value."""


def found(making: Making) -> list[str]:
    """What the checker says."""
    return problems_of(making.facts())


def went_well(name: str) -> Making:
    """The whole scenario, with no fault."""
    making = Making(name)
    making.start()
    for path in ORDERS[name.removesuffix("-cancelled")]:
        making.execute(path)
    making.end()
    return making


class Making:
    """One run of the scenario ``name``; what is done comes in the order of the calls. No database has any of it."""

    def __init__(self, name: str, action: Action | None = None, label: str = "some statement") -> None:
        self.scenario = SCENARIOS[name]
        self.action = action
        self.label = label if action is not None else ""
        self.lines: Lines = []
        self.runs: list[Run] = []
        self.entries: list[JournalEntry] = []
        self.payloads: dict[tuple[UUID, str], str] = {}
        self.fires: list[tuple[UUID | None, str]] = []
        self.counters = dict.fromkeys(self.scenario.effects.values(), 0)
        self.claim()

    def facts(self) -> Facts:
        facts = Facts(self.scenario, self.lines, self.label, self.action, LONG_AGO)
        facts.runs, facts.entries, facts.payloads = self.runs, self.entries, self.payloads
        facts.fires, facts.counters = self.fires, self.counters
        return facts

    @property
    def run(self) -> Run:
        """The one that was started last."""
        return self.runs[-1]

    def entry(self, path: str) -> JournalEntry:
        return next(entry for entry in self.entries if entry.path == path)

    def drop(self, path: str) -> None:
        """Have the journal without it."""
        self.entries.remove(self.entry(path))

    # --- what the outside does -----------------------------------------------------------------

    def start(self, *, is_answered: bool = True, parent: Run | None = None) -> Run:
        """A run is stored, by a client or by its schedule."""
        run = Run(id=uuid7(), parent=parent, workflow=self.scenario.workflow, status=Status.RUNNING)
        self.runs.append(run)
        if self.scenario.is_scheduled:
            self.fires.append((run.pk, "fired"))
        elif is_answered:
            self.note("started")
        return run

    def cancel(self) -> None:
        """A cancellation is acknowledged."""
        self.note("cancelled")

    def fault(self, *at_stake: Run) -> None:
        """``at_stake``: the runs whose process has to live."""
        settled = [[str(entry.run_id), entry.path] for entry in self.entries if entry.status in SETTLED]
        line = {"what": "fault", "action": self.action, "label": self.label, "settled": settled}
        self.lines.append({**line, "at_stake": [str(run.pk) for run in at_stake]})

    def note(self, what: str, **facts: Any) -> None:
        self.lines.append({"what": what, "run": str(self.run.pk), **facts})

    # --- what workers do -----------------------------------------------------------------------

    def claim(self) -> None:
        """From here on somebody else has the run."""
        self.token = uuid4()

    def execute(self, path: str, attempt: int = 1) -> None:
        """A step of the scenario, from its beginning to its entry in the journal."""
        if path in WAITS:
            kind, value = WAITS[path]
            self.journal(path, kind, value)
            return
        self.begin(path, attempt)
        if path == REFUSED:
            self.journal(path, Kind.STEP, None, status="failed")
        else:
            self.finish(path)

    def begin(self, path: str, attempt: int = 1) -> None:
        """A body begins."""
        settled = any((entry.run_id, entry.path) == (self.run.pk, path) for entry in self.entries)
        self.note("begin", path=path, attempt=attempt, token=self.token.hex, settled=settled)

    def finish(self, path: str) -> None:
        """It ends, and the journal gets what it has returned."""
        value = [path, self.token.hex]
        self.note("end", path=path, token=self.token.hex, value=value)
        if path in self.scenario.effects:
            self.counters[self.scenario.effects[path]] += 1
        self.journal(path, Kind.UNDO if path.endswith(UNDO) else Kind.STEP, value)

    def journal(self, path: str, kind: Kind, value: Any, status: str = "succeeded") -> None:
        text = None if value is None else encode(value)
        entry = JournalEntry(run_id=self.run.pk, path=path, seq=len(self.entries) + 1, kind=kind, status=status)
        entry.value, entry.undo, entry.token = text, path in UNDOABLE, self.token
        self.entries.append(entry)

    def end(self, status: Status | None = None) -> None:
        """The run is over: as the scenario says, and with the result that its journal makes."""
        self.run.status = status or self.scenario.ends_as
        assert self.run.status in TERMINAL
        if self.run.status == Status.SUCCEEDED:
            self.payloads[self.run.pk, PayloadKind.OUTPUT] = encode(self.scenario.result(self.facts().values()))

    def unsee(self, what: str, path: str) -> None:
        """Have no line that says so of the step."""
        self.lines = [line for line in self.lines if line["what"] != what or line["path"] != path]
