"""Evidence as it is left where everything goes well, made by hand: for tests, which then spoil it."""

from __future__ import annotations

from itertools import count
from typing import Any

from tests.chaos.evidence import Began, Change, EntryRow, Evidence, Fault, RunRow, Said, Written
from tests.chaos.losses import STEP_FAILED
from tests.chaos.programs import Program, fails, result_of, steps_of
from tests.chaos.story import UNDO
from tests.chaos.witness import BEGIN, END, RAISE, RETURN, Line

PID, WORKER = 100, "worker-1"
EPOCH = 1_000_000.0
"""The database's clock is so far ahead of CLOCK_MONOTONIC."""

ENDS = {"succeeded": RETURN, "failed": RAISE}
STEP_SECONDS = 0.01
BYSTANDER = 900
"""A process that works from the beginning and is never hit."""


class Making:
    """Time goes on by itself, a little with everything that happens."""

    def __init__(self) -> None:
        self.evidence = Evidence(epoch=EPOCH, workers={WORKER: PID}, began=[Began(BYSTANDER, "beside", EPOCH)])
        self.now = 10.0
        self._numbers = count(1)
        self._calls = count(1)

    def tick(self, seconds: float = 0.001) -> float:
        self.now += seconds
        return self.now

    # --- what clients do -----------------------------------------------------------------------

    def enqueue(self, *tags: str, moment: str = "ok", key: str | None = None) -> None:
        """One call for runs that are called by their tags."""
        self._call("enqueue", moment, list(tags), {tag: f"run-{tag}" for tag in tags} if moment == "ok" else {}, key)

    def cancel(self, tag: str, moment: str = "ok") -> None:
        self._call("cancel", moment, [], {tag: f"run-{tag}"})

    def _call(self, verb: str, moment: str, tags: list[str], runs: dict[str, str], key: str | None = None) -> None:
        call = next(self._calls)
        for said in ("invoke", moment):
            self.evidence.said.append(Said(call, verb, said, self.tick(), tags, runs, key))

    # --- what workers do -----------------------------------------------------------------------

    def run(self, tag: str, program: Program, *, status: str = "", key: str | None = None) -> str:
        """A run that is enqueued, claimed once and worked on to its end; its id."""
        self.enqueue(tag, key=key)
        run = f"run-{tag}"
        token = self.claim(run)
        for step in steps_of(program):
            self.execute(run, step.path, token, step.value, is_atomic=step.is_atomic)
        if fails(program):
            undoable = [step for step in steps_of(program) if step.is_undoable]
            for step in reversed(undoable):
                self.execute(run, step.path + UNDO, token, step.value, kind="undo")
        self.leave(run, token, tag, program, status or ("failed" if fails(program) else "succeeded"))
        return run

    def claim(self, run: str, *, limit_key: str | None = None, worker: str = WORKER) -> str:
        """The token of the claim."""
        token = f"token-{next(self._numbers)}"
        self.change(run, "queued", "running", None, token, limit_key=limit_key, worker=worker)
        return token

    def execute(
        self,
        run: str,
        path: str,
        token: str,
        value: Any = 0,
        *,
        kind: str = "step",
        is_atomic: bool = False,
        ends: bool = True,
        writes: bool = True,
        pid: int = PID,
        attempt: int = 1,
    ) -> str:
        """A step's body runs and is journaled; what tells the execution."""
        by = f"{next(self._numbers):012x}"
        self.say(BEGIN, run, path, token, by, pid, attempt)
        self.tick(STEP_SECONDS)
        if ends:
            self.say(END, run, path, token, by, pid, attempt)
        if ends and writes:
            self.write(run, path, token, by, value, kind)
            if is_atomic:
                self.evidence.counters[run] = self.evidence.counters.get(run, 0) + 1
        return by

    def say(self, moment: str, run: str, path: str, token: str, by: str, pid: int = PID, attempt: int = 1) -> None:
        self.evidence.lines.append(Line(run, path, attempt, token, pid, moment, by, self.tick()))

    def write(self, run: str, path: str, token: str, by: str, value: Any = 0, kind: str = "step") -> None:
        seq, at = next(self._numbers), EPOCH + self.tick()
        self.evidence.writings.append(Written(seq, seq, at, run, path, kind, "succeeded", 1, token, by))
        self.evidence.entries.append(EntryRow(run, path, seq, kind, "succeeded", token, {"value": value, "by": by}))

    def end(self, moment: str, run: str, token: str) -> None:
        """The run's function comes to its end, so."""
        self.say(moment, run, "", token, "")

    def leave(
        self, run: str, token: str, tag: str, program: Program, status: str, *, claims: int = 1, ends: bool = True
    ) -> None:
        """The run's last claim ends, and the run with it. ``ends``: its function has come to that, and says so."""
        if ends and status in ENDS:
            self.end(ENDS[status], run, token)
        self.change(run, "running", status, token, None, cancelling=status == "cancelled")
        output = result_of(program) if status == "succeeded" else None
        error = {"type": STEP_FAILED} if status == "failed" else None
        self.evidence.runs.append(RunRow(run, tag, program, status, claims, output, error))

    def lose(self, run: str, token: str, *, lapsed: bool = False, suspect: bool = True, crashes: int = 0) -> None:
        """The lease is taken away."""
        self.change(run, "running", "queued", token, None, lapsed=lapsed, suspect=suspect, crashes=crashes)

    def change(self, run: str, was: str, status: str, old: str | None, token: str | None, **more: Any) -> None:
        seq, at = next(self._numbers), EPOCH + self.tick()
        more = {"worker": WORKER, **more}
        self.evidence.changes.append(Change(seq, seq, at, run, was, status, old, token, **more))

    def hit(self, kind: str, *pids: int, seconds: float = 0.0) -> None:
        at = self.tick()
        self.evidence.faults.append(Fault(kind, at, self.tick(seconds), pids))
