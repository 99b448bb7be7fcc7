"""What others are measured with beside this project: a history of copies, notes past the system, fewer repetitions."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from django.db import connection

from benchmarks.suite import client as suite_client
from benchmarks.suite import history, naps, repeating, rest, sleepers
from benchmarks.suite.bench import Bench, Sizes
from benchmarks.suite.rest import REST, Rest
from benchmarks.suite.sample import Sample
from benchmarks.systems import notes
from benchmarks.systems.copies import DAY, Copies, settle
from benchmarks.systems.notes import NAPPING, WOKEN, Notes
from tests.benchmarks.benches import bench_of

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def noting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("BENCH_FOLDER", str(tmp_path))
    notes.notes.cache_clear()
    yield tmp_path
    notes.notes.cache_clear()


def test_processes_note_into_one_file(noting: Path) -> None:
    code = "from benchmarks.systems.notes import notes\nfor number in range(50): notes('woken').add(number / 4)"
    writers = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) for _ in range(2)]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    read = Notes(WOKEN, noting)
    assert read.count() == 100
    assert sorted(read.read()) == sorted([(0.0, number / 4) for number in range(50)] * 2)
    read.clear()
    assert (read.count(), read.read()) == (0, [])
    read.close()


def test_a_nap_notes_that_it_begins_and_how_late_it_ends(noting: Path) -> None:
    until = time.time() - 2
    notes.begin_nap(until)
    notes.end_nap(until)
    [(begun, _)] = Notes(NAPPING, noting).read()
    [(woken, late)] = Notes(WOKEN, noting).read()
    assert begun == woken == pytest.approx(until, abs=1e-6)
    assert 2 <= late < 60
    assert 50 < notes.left(time.time() + 60) <= 60 and notes.left(until) == 0.0


def test_children_are_timed_from_the_first_that_a_parent_noted_to_the_last(noting: Path) -> None:
    parent = notes.notes(notes.PARENT)
    for instant in (100.0, 104.0, 101.0):
        parent.add(instant)
    assert notes.ms_of_child(2) == 2000.0
    assert parent.count() == 0


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "postgresql", reason="the benchmark's database is PostgreSQL")
def test_copies_differ_in_what_is_their_own_and_are_spread_over_the_days_before_yesterday() -> None:
    original = UUID(int=7)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE jobs (number serial, id uuid, told text, at timestamptz, ms bigint)")
        cursor.execute("CREATE TEMP TABLE parts (job uuid, value int)")
        cursor.execute("INSERT INTO jobs (id, told) VALUES (%s, 'it'), (%s, 'another')", [original, UUID(int=8)])
        cursor.execute("INSERT INTO parts VALUES (%s, 1), (%s, 2)", [original, original])
        copies = Copies(cursor, 10)
        new_id, where = copies.id_in_time(f"'{original}'::uuid"), f"id = '{original}'"
        copies.of("jobs", {"id": new_id, "at": copies.at, "ms": copies.milliseconds}, where, without="number")
        copies.of("parts", {"job": new_id}, f"job = '{original}'")
        cursor.execute("SELECT number, id, told, extract(epoch FROM at), ms FROM jobs WHERE at NOTNULL ORDER BY number")
        rows = cursor.fetchall()
        cursor.execute("SELECT job, count(*) FROM parts WHERE job <> %s GROUP BY job", [original])
        parts = dict(cursor.fetchall())
    numbers, ids, told, instants, milliseconds = zip(*rows, strict=True)
    assert numbers == tuple(range(3, 13)) and set(told) == {"it"}
    assert parts == dict.fromkeys(ids, 2)
    # Ids of ever later instants.
    assert list(ids) == sorted(ids) and {one.version for one in ids} == {7}
    assert [one.int >> 80 for one in ids] == list(milliseconds)
    ago = [time.time() - float(instant) for instant in instants]
    assert 21 * DAY <= ago[0] < 21 * DAY + 60 and 3 * DAY <= ago[-1] < 3 * DAY + 60


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "postgresql", reason="the benchmark's database is PostgreSQL")
def test_a_random_id_is_the_same_in_every_table() -> None:
    with connection.cursor() as cursor:
        copies = Copies(cursor, 2)
        cursor.execute(f"SELECT {copies.random_id('7')}, {copies.random_id('7')} FROM generate_series(0, 1) n")
        (one, same), (other, _) = cursor.fetchall()
    assert one == same != other


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "postgresql", reason="the benchmark's database is PostgreSQL")
def test_what_was_settled_has_statistics() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE jobs AS SELECT generate_series(1, 100) n")
        settle(cursor, "jobs")
        cursor.execute("SELECT reltuples FROM pg_class WHERE oid = 'jobs'::regclass")
        assert cursor.fetchone() == (100.0,)


def test_no_copy_asks_for_what_all_copies_have() -> None:
    """It would be asked for a million times."""
    with pytest.raises(ValueError, match="a query for each copy"):
        Copies(None, 3).of("jobs", {"at": "(SELECT min(at) FROM jobs)"}, "true")


@pytest.mark.parametrize(("is_own", "turns"), [(True, history.TURNS), (False, 1)])
def test_of_two_sides_one_is_measured_while_the_other_is_held(
    monkeypatch: pytest.MonkeyPatch, is_own: bool, turns: int
) -> None:
    said: list[str] = []
    benches = {name: bench_of(is_own=is_own) for name in ("old", "new")}

    def client(name: str) -> Any:
        return SimpleNamespace(ask=lambda call, count: said.append(f"{name} {call} {count}"))

    def workers(name: str) -> Any:
        return SimpleNamespace(hold=lambda: said.append(f"hold {name}"), let_go=lambda: said.append(f"let go {name}"))

    @contextmanager
    def up(bench: Bench, processes: int) -> Iterator[None]:
        yield

    @contextmanager
    def scenario(bench: Bench) -> Iterator[Callable[[], Iterator[Sample]]]:
        [name] = [name for name, one in benches.items() if one is bench]
        bench.up = workers(name)

        def measured() -> Iterator[Sample]:
            said.append(name)
            yield Sample("S2_drain", float(bench.sizes.drain), {}, 0.0)

        yield measured

    @contextmanager
    def prepared(*_: Any, **__: Any) -> Iterator[Bench]:
        yield benches["new"]

    monkeypatch.setattr(Bench, "workers", up)
    monkeypatch.setattr(history, "prepared", prepared)
    for name, bench in benches.items():
        bench.client, bench.environment = client(name), {"BENCH_VARIANT": "sync"}
    with history.with_and_without(benches["old"], scenario=scenario) as once:
        benches["old"].sizes = Sizes(drain=7)
        figures = [(sample.figure, sample.value) for _ in range(2) for sample in once()]
    assert said[:2] == ["old history 1000000", "new history 0"]
    new, old = ["hold old", "new", "let go old"], ["hold new", "old", "let go new"]
    assert said[2:] == (new + old + old + new) * turns
    assert set(figures) == {("S5_without_drain", 7.0), ("S5_with_drain", 7.0)}


@pytest.fixture
def napping(noting: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Of somebody whose runs fall asleep at once."""
    bench = bench_of(part=0.001)
    bench.environment = {"BENCH_FOLDER": str(noting)}
    monkeypatch.setattr(naps, "_resident", lambda *_: 100.0)
    monkeypatch.setattr(Bench, "wait_until_quiet", lambda *_, **__: 0.0)
    monkeypatch.setattr(naps, "Meter", lambda *_: SimpleNamespace(cost=lambda _: {}))
    return bench


def asleep(bench: Bench, *woken: Sequence[float]) -> list[Sample]:
    """The figures, where each of two that come due notes how many seconds late it is."""

    def nap(call: str, until: float, apart: float, count: int) -> None:
        for number in range(count):
            notes.begin_nap(until + apart * number)
            for late in woken[number] if apart else ():
                notes.notes(WOKEN).add(late, of=until + apart * number)

    bench.client = cast(Any, SimpleNamespace(ask=nap, pid=0))
    started = cast(Any, SimpleNamespace(check=lambda: None))
    return list(naps._measured(bench, started, notes.notes(NAPPING), notes.notes(WOKEN)))


def test_of_who_is_woken_twice_the_last_time_counts(napping: Bench) -> None:
    figures = {sample.figure: sample.value for sample in asleep(napping, [0.5, 0.75], [0.25])}
    assert (figures["S7_beside_lag_p50_ms"], figures["S7_beside_lag_p99_ms"]) == (750.0, 750.0)


def test_a_sleep_that_ends_early_is_no_figure(napping: Bench) -> None:
    with pytest.raises(RuntimeError, match="50 ms early"):
        asleep(napping, [-0.05], [0.25])


def test_who_does_not_wake_everybody_is_not_waited_for_for_ever(
    napping: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sleepers, "TIMEOUT", 0.01)
    with pytest.raises(TimeoutError, match="not all of 2 sleepers were woken"):
        asleep(napping, [0.1, 0.2], [])


def test_a_client_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "client.py"
    script.write_text("import time\nprint('{\"is_pushed\": false}', flush=True)\nfor line in open(0): time.sleep(60)")
    monkeypatch.setattr(suite_client, "ENDS_WITHIN", 0.01)
    with suite_client.client(Path(sys.executable), script, {}) as asked:
        monkeypatch.setattr(suite_client, "ANSWERS_WITHIN", 0.01)
        with pytest.raises(TimeoutError, match="has not answered"):
            asked.ask("finished")


@pytest.mark.parametrize(("is_own", "counting"), [(True, 3), (False, 2)])
def test_who_takes_long_has_one_repetition_less_and_a_first_that_is_smaller(
    monkeypatch: pytest.MonkeyPatch, is_own: bool, counting: int
) -> None:
    sizes: list[tuple[float, int]] = []
    now = 0.0

    @contextmanager
    def enter(bench: Bench) -> Iterator[Callable[[], Iterator[Sample]]]:
        def once() -> Iterator[Sample]:
            nonlocal now
            now += 10
            sizes.append((bench.part, bench.sizes.drain))
            yield Sample("S5_with_drain", 1.0, {}, 0.0)

        yield once

    monkeypatch.setitem(REST, "S5-S2", Rest(enter))
    monkeypatch.setattr(repeating, "rows_left_dead", lambda *_: 0)
    monkeypatch.setattr(rest.time, "perf_counter", lambda: now)
    list(rest.measured(bench_of(is_own=is_own), "S5-S2", 4))
    assert sizes == [(0.25, Sizes().drain // 4), *[(1.0, Sizes().drain)] * counting]
