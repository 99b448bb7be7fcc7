"""The parts that drive a run of chaos: what is done when, and who is in the middle of something."""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path

from tests.chaos.goals import FAULTS_A_MINUTE
from tests.chaos.later import Later
from tests.chaos.nemesis import PER_MINUTE, plan
from tests.chaos.watching import Watch
from tests.chaos.witness import BEGIN, DIE, END, append


def test_a_minute_has_every_fault_and_enough_of_them() -> None:
    due = plan(random.Random("seed"), 60)
    assert Counter(kind for _, kind in due) == PER_MINUTE
    assert len(due) > FAULTS_A_MINUTE
    assert [at for at, _ in due] == sorted(at for at, _ in due)
    assert all(0 <= at < 60 for at, _ in due)
    assert due == plan(random.Random("seed"), 60)
    assert due != plan(random.Random("another"), 60)


def test_half_a_minute_has_half_of_them_and_ten_minutes_ten_times_as_many() -> None:
    assert len(plan(random.Random(1), 30)) == round(sum(PER_MINUTE.values()) / 2)
    assert Counter(kind for _, kind in plan(random.Random(1), 600)) == {k: 10 * n for k, n in PER_MINUTE.items()}


def test_who_has_begun_a_step_and_not_ended_it(folder: Path) -> None:
    file = folder / "witness"
    watch = Watch(file)
    assert watch.busy() == set()

    def say(moment: str, by: str, pid: int) -> None:
        append(file, ["run", "path", 1, "token", pid, moment, by, 0.0])

    say(BEGIN, "a", 1)
    say(BEGIN, "b", 2)
    say(BEGIN, "c", 2)
    assert watch.busy() == {1, 2}
    say(END, "a", 1)
    say(END, "b", 2)
    assert watch.busy() == {2}
    say(DIE, "c", 2)
    say(BEGIN, "d", 3)
    with file.open("a") as half:
        half.write('["run"')
    assert watch.busy() == {3}
    watch.forget(3)
    assert watch.busy() == set()


def test_who_has_an_heir(folder: Path) -> None:
    file = folder / "witness"
    watch = Watch(file)
    append(file, ["run", "path", 1, "token-1", 1, BEGIN, "a", 0.0])
    append(file, ["run", "other", 1, "token-1", 1, BEGIN, "b", 0.0])
    append(file, ["run", "other", 1, "token-1", 1, END, "b", 0.0])
    append(file, ["run", "other", 1, "token-2", 2, BEGIN, "c", 0.0])
    assert not watch.have_heirs({1})
    append(file, ["run", "path", 1, "token-2", 2, BEGIN, "d", 0.0])
    assert watch.have_heirs({1})
    assert not watch.have_heirs({1, 2})
    append(file, ["run", "path", 1, "token-1", 1, END, "a", 0.0])
    assert not watch.have_heirs({1})


def test_what_is_not_settled_is_called_again_and_nobody_leaves_before() -> None:
    later, calls = Later(again=0.01), Counter[str]()

    def call(name: str, times: int) -> bool:
        calls[name] += 1
        return calls[name] == times

    later.add(0.02, lambda: call("thrice", 3))
    later.add(0.0, lambda: call("once", 1))
    workers = [threading.Thread(target=later.work) for _ in range(3)]
    for worker in workers:
        worker.start()
    later.close()
    for worker in workers:
        worker.join(10)
        assert not worker.is_alive()
    assert calls == {"thrice": 3, "once": 1}
