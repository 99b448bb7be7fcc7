"""What `make bench-all` measures besides the comparison: what it divides and draws, and small real runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID
from xml.etree import ElementTree

import pytest
from django.db import connection
from django.utils import timezone

from benchmarks import project, rows
from benchmarks.suite import __main__ as suite
from benchmarks.suite import page, repeating, rest, sleepers
from benchmarks.suite.goals import BOUNDS, GOALS, REST_BOUNDS, REST_GOALS
from benchmarks.suite.ledger import Ledger, Series
from benchmarks.suite.lines import CURVES, drawn, points
from benchmarks.suite.rest import REST, Rest
from benchmarks.suite.sample import Sample
from benchmarks.suite.scenarios import SCENARIOS
from benchmarks.suite.slow_disk import SETTINGS, SLOW, commit_ms, slow_disk
from benchmarks.suite.stage import REDIS_SNAPSHOTS, Stage, stage
from benchmarks.suite.systems import OWN, PARTICIPANTS
from django_durable.core import registry
from django_durable.core.ids import uuid7
from django_durable.models import ClaimRecord, JournalEntry, Payload, Run
from django_durable.testing import run_until_idle
from tests.benchmarks.benches import bench_of
from tests.benchmarks.ledgers import ratios
from tests.processes import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
SVG = "{http://www.w3.org/2000/svg}"


def ledger(path: Path, figures: dict[str, float], variant: str = "sync") -> Ledger:
    made = Ledger.new(path / "results.json")
    for figure, value in figures.items():
        made.add(OWN, variant, Sample(figure, value, {}, 0.0))
    return made


def test_a_history_may_cost_a_tenth_and_a_slow_disk_two_fifths(tmp_path: Path) -> None:
    figures = {"S5_without_drain": 100.0, "S5_with_drain": 90.0, "S5_without_bulk": 100.0, "S5_with_bulk": 89.0}
    made = ledger(tmp_path, figures)
    for variant in ("sync", "sync-threads"):
        for figure, value in (("S10_fast_steps", 1000.0), ("S10_slow_steps", 599.0)):
            made.add(OWN, variant, Sample(figure, value, {}, 0.0))
    made.add("dbos", "sync", Sample("S10_slow_steps", 100.0, {}, 0.0))
    assert ratios(made) == {
        "S5_bulk_with_history": (0.89, False),
        "S5_drain_with_history": (0.9, True),
        "S10_steps_threads": (0.599, False),
        # Shown, and nothing promised.
        "S10_steps_default": (0.599, True),
        "S10_steps_sync_vs_dbos": (5.99, True),
    }


def test_what_was_measured_by_turns_is_compared_with_its_neighbour(tmp_path: Path) -> None:
    """The machine became half as fast in the midst: of one side most is of before that, of the other of after it."""
    made = ledger(tmp_path, {})
    for without, with_ in ((1000.0, 950.0), (1000.0, 500.0), (500.0, 475.0)):
        made.add(OWN, "sync", Sample("S5_without_enqueue", without, {}, 0.0))
        made.add(OWN, "sync", Sample("S5_with_enqueue", with_, {}, 0.0))
    assert ratios(made) == {"S5_enqueue_with_history": (0.95, True)}


def test_a_bound_is_the_figure_itself_of_one_variant(tmp_path: Path) -> None:
    figures = {"S7_lag_p99_ms": 1000.0, "S7_rss_more_mb": 20.1, "replay_us@100": 15.0}
    assert ratios(ledger(tmp_path, figures, "sync-database")) == {
        "S7_lag_p99_ms sync-database": (1000.0, True),
        "S7_rss_more_mb sync-database": (20.1, False),
    }
    assert ratios(ledger(tmp_path, {"replay_us@100": 15.1})) == {"replay_us@100 sync": (15.1, False)}


def test_flat_is_a_fifth_more_at_most(tmp_path: Path) -> None:
    figures = {"S8_few_child_ms": 1.0, "S8_many_child_ms": 1.2, "S8_early_turn_us": 10.0, "S8_late_turn_us": 12.1}
    assert ratios(ledger(tmp_path, figures)) == {
        "S8_child_many_vs_few": (1.2, True),
        "S8_turn_late_vs_early": (1.21, False),
    }
    for late, is_met in ((1.2, True), (1.21, False)):
        made = ledger(tmp_path, {"S8_early_turn_ms": 1.0, "S8_late_turn_ms": late})
        assert ratios(made) == {"S8_worker_turn_late_vs_early": (late, is_met)}
    figures = {"S8_few_child_ms": 1.0, "S8_many_child_ms": 1.21}
    assert ratios(ledger(tmp_path, figures, "sync-database")) == {"S8_child_database": (1.21, False)}


def test_of_sleepers_and_of_turns_less_is_better() -> None:
    figures = [figure for figure in page.FIGURES if figure.startswith(("S7_", "S8_"))]
    assert [figure for figure in figures if not Series(OWN, "sync", figure).is_cost] == []


def test_goals_and_scenarios_have_names_of_their_own() -> None:
    names = [goal.name for goal in (*GOALS, *REST_GOALS)]
    assert len(names) == len(set(names))
    assert not SCENARIOS.keys() & REST.keys()
    shown = page.FIGURES.keys()
    assert {figure for goal in REST_GOALS for figure in (goal.figure, goal.other or goal.figure)} <= shown
    drawn_names = {curve.name for curve in CURVES}
    assert {figure for figure, _, _ in (*BOUNDS, *REST_BOUNDS) if figure.partition("@")[0] not in drawn_names} <= shown


def test_of_the_rest_everybody_is_measured_who_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["suite", "--rest"])
    assert suite.read_options().scenarios == list(REST)
    told = {"variants": ["sync", "async", "direct"], "doors": ["direct"], "drains": ["sync", "async"]}
    for participant in PARTICIPANTS:
        expected = ("sync", "async", "sync-database") if participant.name == OWN else ()
        assert suite._variants("S7", participant, told) == expected
    assert suite._named_by(["S7", "S8-loop"]) == [OWN]
    assert suite._named_by(["S7", "S10-S2"]) == [OWN, "dbos", "absurd"]
    beside = {name for scenario in ("S5-S2", "S7-beside", "S8-fan-out") for name in REST[scenario].peers}
    assert beside == {participant.name for participant in PARTICIPANTS if not participant.is_own}
    assert suite._named_by(["S7", "S2"]) is None
    peer = PARTICIPANTS[-1]
    assert suite._variants("S1", peer, told) == ["direct"]
    for scenario in ("S2", "S3", "S9"):
        assert suite._variants(scenario, peer, told) == told["drains"]
    assert suite._variants("S4", peer, told) == told["variants"]


def test_a_scenario_that_is_not_there_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["suite", "--scenarios", "S2,S5"])
    with pytest.raises(SystemExit):
        suite.read_options()
    assert "no such scenario: S5" in capsys.readouterr().err


def test_a_figure_under_another_name_is_otherwise_the_same() -> None:
    sample = Sample("S2_drain", 5.0, {"wal_bytes": 1.0}, 0.1, 7)
    assert sample.as_of("S10_slow") == Sample("S10_slow_drain", 5.0, {"wal_bytes": 1.0}, 0.1, 7)


def test_a_curve_has_a_line_for_each_variant_and_a_place_for_each_point(tmp_path: Path) -> None:
    made = ledger(tmp_path, {"drain_by_workers@2": 200.0, "drain_by_workers@1": 100.0, "drain_by_workers@4": 150.0})
    made.add(OWN, "async", Sample("drain_by_workers@1", 50.0, {}, 0.0))
    [curve] = [one for one in CURVES if one.name == "drain_by_workers"]
    lines = points(made, curve)
    assert lines == {"sync": [(1.0, 100.0), (2.0, 200.0), (4.0, 150.0)], "async": [(1.0, 50.0)]}
    drawing = ElementTree.fromstring(drawn(curve, lines))  # noqa: S314
    sync, alone = [line.get("points", "").split() for line in drawing.iter(f"{SVG}polyline")]
    assert (len(sync), len(alone), len(list(drawing.iter(f"{SVG}circle")))) == (3, 1, 4)
    (x1, y1), (x2, y2), (x4, y4) = [tuple(map(int, place.split(","))) for place in sync]
    # Twice as many is as far each time; more is higher.
    assert x2 - x1 == x4 - x2 > 0
    assert y2 < y4 < y1


def test_the_page_shows_the_rest_where_it_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "PAGE", written := tmp_path / "performance.md")
    monkeypatch.setattr(page, "CHART", tmp_path / "performance.svg")
    written.write_text(page.PLACE)
    page.write(ledger(tmp_path, {}))
    assert "###" not in written.read_text()
    page.write(ledger(tmp_path, {"S7_lag_p99_ms": 340.0, "replay_us@10": 5.0, "replay_us@1000": 4.0}))
    lines = written.read_text().splitlines()
    assert "| `S7_lag_p99_ms sync` | 340.00 | ≤ 1000 |  |" in lines
    assert f"### {page.FIGURES['S7_lag_p99_ms']}" in lines
    assert "| django_durable sync | 340 | 340 - 340 | 1 |  |  |  |  |" in lines
    assert "| journaled steps at resume | 10 | 1,000 |" in lines
    assert "| sync | 5.00 | 4.00 |" in lines
    assert [path.name for path in tmp_path.glob("performance-*.svg")] == ["performance-replay-us.svg"]
    assert "](performance-replay-us.svg)" in written.read_text()


def test_memory_is_that_of_the_process_that_has_grown_most() -> None:
    idle = {1: 10 * 2**20, 2: 20 * 2**20, 3: 5}
    assert sleepers.most_more(idle, {1: 12 * 2**20, 2: 21 * 2**20, 4: 2**30}) == 2.0


def test_a_part_of_a_size_is_never_none() -> None:
    bench = bench_of(part=0.001)
    assert (bench.part_of(10_000), bench.part_of(10)) == (10, 2)


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "postgresql", reason="the benchmark's database is PostgreSQL")
def test_a_copy_has_what_the_run_has_with_an_id_and_times_of_its_own() -> None:
    now = timezone.now()
    run = Run.objects.create(
        id=(run_id := uuid7()), root_id=run_id, workflow="bench.one_step", queue="default", status="scheduled",
        created_at=now, wake_at=now + timedelta(hours=1),
    )  # fmt: skip
    JournalEntry.objects.create(
        run_id=run.pk, path="step", seq=1, kind="step", status="succeeded", value="1", started_at=now, token=UUID(int=1)
    )
    Payload.objects.create(run_id=run.pk, kind="input", data="{}")
    Payload.objects.create(run_id=run.pk, kind="output", data="1")
    first = rows.milliseconds() - 60_000
    rows.multiply(run.pk, 3, first=first, step=20_000)
    copies = list(Run.objects.exclude(pk=run.pk).order_by("pk"))
    assert [round(copy.created_at.timestamp() * 1000) - first for copy in copies] == [0, 20_000, 40_000]
    assert [copy.pk.int >> 80 for copy in copies] == [first, first + 20_000, first + 40_000]
    for copy in copies:
        assert copy.pk.version == 7 and copy.root_id == copy.pk
        assert (copy.wake_at - copy.created_at, copy.workflow) == (timedelta(hours=1), run.workflow)
        assert JournalEntry.objects.get(run_id=copy.pk).value == "1"
        assert Payload.objects.filter(run_id=copy.pk).count() == 2
    assert rows.id_at(first) < copies[0].pk < rows.id_at(first + 1)


@pytest.mark.django_db
def test_lags_count_from_the_end_of_the_sleep_to_the_claim_that_wakes() -> None:
    now, first = timezone.now(), uuid7()
    for late in (0.25, 0.0, 2.0):
        Run.objects.create(
            id=(run_id := uuid7()), root_id=run_id, workflow="bench.asleep", queue="default", status="waiting",
            waiting_on="nothing", created_at=now, started_at=now + timedelta(seconds=1),
        )  # fmt: skip
        for number, seconds in ((2, 10 + late), (3, 60)):
            ClaimRecord.objects.create(
                run_id=run_id, place=number, number=number, worker_id=uuid7(),
                claimed_at=now + timedelta(seconds=seconds),
            )  # fmt: skip
    assert rows.lags(first, uuid7(), 10) == pytest.approx([0.0, 250.0, 2000.0])
    ClaimRecord.objects.get(run_id=run_id, number=2).delete()
    with pytest.raises(AssertionError, match="not all of them were claimed again"):
        rows.lags(first, uuid7(), 10)


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`bench.asleep`, which is known to this test alone."""
    monkeypatch.setattr(registry, "_named", dict(registry.definitions()))
    # Whoever has imported it before has declared it elsewhere, and who does so afterwards declares it anew.
    monkeypatch.setattr(project, "workflows", None, raising=False)
    monkeypatch.setitem(sys.modules, name := "benchmarks.project.workflows", ModuleType(name))
    del sys.modules[name]
    return import_module(name).asleep


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "postgresql", reason="the benchmark's database is PostgreSQL")
def test_a_copy_of_a_sleeper_wakes_when_it_is_due_and_is_replayed(asleep: Any) -> None:
    parked = asleep.enqueue(seconds=600)
    run_until_idle()
    run = parked.refresh().run
    slept = (run.wake_at - run.created_at).total_seconds()
    # Five seconds ago, three seconds ago, in five minutes, and the run itself in ten.
    for due in (-5, -3, 300):
        rows.multiply(run.pk, 1, first=rows.milliseconds() + round(1000 * (due - slept)), step=1)
    run_until_idle()
    by_age = list(Run.objects.order_by("pk"))
    assert [one.status for one in by_age] == ["succeeded", "succeeded", "waiting", "waiting"]
    before = JournalEntry.objects.get(run_id=run.pk, path="before").value
    for copy in by_age[:2]:
        values = dict(JournalEntry.objects.filter(run_id=copy.pk).values_list("path", "value"))
        # What was journaled is not done again.
        assert values.keys() == {"before", "sleep", "after"} and values["before"] == before
    lags = rows.lags(by_age[0].pk, by_age[1].pk, slept)
    assert lags[0] >= 3_000 and lags[1] >= 5_000


def test_a_slow_disk_is_slow_until_it_is_left() -> None:
    with stage() as scene:
        with slow_disk(scene):
            assert commit_ms(scene) >= SLOW
        # Not by the clock: with other tests beside it a commit may take that long anyway.
        wait_until(lambda: set(settings_of(scene)) == {"0", "5"}, message="the settings of before")


NO_MATTER_OF_SPEED = {"listen_addresses", "unix_socket_directories", "unix_socket_permissions", "TimeZone"}


def test_both_servers_have_the_settings_that_they_have_by_default() -> None:
    with stage() as scene:
        with scene.connect() as connection:
            # What the server was told, other than what it is built with.
            other = connection.execute(
                "SELECT name, setting FROM pg_settings"
                " WHERE source = 'command line' AND setting IS DISTINCT FROM boot_val"
            ).fetchall()
            [locale] = connection.execute(
                "SELECT datlocprovider, datlocale FROM pg_database WHERE datname = current_database()"
            ).fetchall()
        with scene.redis.client() as client:
            kept = client.config_get("save")
    # As many as the workers of every system may want.
    assert {name: setting for name, setting in other if name not in NO_MATTER_OF_SPEED} == {"max_connections": "200"}
    assert tuple(locale) == ("b", "C.UTF-8"), "as the page says"
    assert kept == {"save": REDIS_SNAPSHOTS}


def settings_of(scene: Stage) -> list[object]:
    with scene.connect() as connection:
        names = sorted(SETTINGS)
        return [row[0] for name in names if (row := connection.execute(f"SHOW {name}".encode()).fetchone())]


def measure(results: Path, scenario: str, variant: str, *more: str) -> dict[str, Any]:
    """The series of one small real run of this project: others are not installed, nor waited for."""
    which = ["--systems", "django_durable", "--scenarios", scenario, "--variants", variant]
    command = [sys.executable, "-m", "benchmarks.suite", *which, *more]
    small = ["--part", "0.002", "--repetitions", "0", "--patience", "0", "--results", str(results)]
    done = subprocess.run([*command, *small], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 1) and not done.stderr, done.stdout + done.stderr
    written = json.loads(results.read_text())
    assert f"{scenario} {OWN} {variant}" in written["done"]
    return dict(written["series"])


def test_it_measures_a_history_and_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    series = measure(results, "S5-S1", "sync-database", "--resume")
    names = {f"S5_{side}_{door}" for side in ("with", "without") for door in ("enqueue", "bulk")}
    assert {one["figure"] for one in series.values()} == names
    # Nothing is measured twice.
    assert measure(results, "S5-S1", "sync-database", "--resume") == series


SLEEPERS = [
    "S7_asleep_more_mb",
    "S7_idle_queries",
    "S7_lag_p50_ms",
    "S7_lag_p99_ms",
    "S7_rss_more_mb",
]
BESIDE = ["S7_beside_asleep_mb", "S7_beside_lag_p50_ms", "S7_beside_lag_p99_ms", "S7_beside_more_mb"]
DIFFERENCES = ("replay_us", "S7_asleep_more_mb", "S7_idle_queries", "S7_rss_more_mb", "S7_beside")
"""Which company on the machine turns round where so little is measured."""


@pytest.mark.parametrize(
    ("scenario", "variant", "figures"),
    [
        ("S7", "sync", SLEEPERS),
        ("S7-beside", "async", BESIDE),
        ("S8-loop", "sync", ["S8_early_turn_us", "S8_late_turn_us"]),
        ("S8-worker-loop", "sync", ["S8_early_turn_ms", "S8_late_turn_ms"]),
        ("S8-worker-loop", "sync-plain", ["S8_early_turn_ms", "S8_late_turn_ms"]),
        ("S8-fan-out", "sync-database", ["S8_few_child_ms", "S8_many_child_ms"]),
        ("S10-S4", "sync", ["S10_fast_commit_ms", "S10_fast_step_ms", "S10_slow_commit_ms", "S10_slow_step_ms"]),
        ("workers@1", "sync", ["drain_by_workers@1"]),
        ("queued@10000", "sync", ["drain_by_queued@20"]),
        ("kilobytes@10", "sync", ["drain_by_kilobytes@10"]),
        ("journal@100", "sync", ["replay_us@100", "resume_ms@100"]),
    ],
)
def test_it_measures_real_processes(tmp_path: Path, scenario: str, variant: str, figures: list[str]) -> None:
    series = measure(tmp_path / "results.json", scenario, variant)
    values = {one["figure"]: one["values"][0] for one in series.values()}
    assert sorted(values) == figures
    assert all(value > 0 for figure, value in values.items() if not figure.startswith(DIFFERENCES))


def test_what_is_soon_over_is_made_several_times_but_for_the_one_that_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = [Sample("S10_fast_steps", float(number), {}, 0.0) for number in range(7)]
    left = iter(made)

    @contextmanager
    def enter(bench: object) -> Iterator[Callable[[], Iterator[Sample]]]:
        yield lambda: iter([next(left)])

    monkeypatch.setitem(REST, "S10-S3", Rest(enter, times=3))
    monkeypatch.setattr(repeating, "rows_left_dead", lambda *_: 0)
    bench = bench_of()
    assert list(rest.measured(bench, "S10-S3", 3)) == [made[:1], made[1:4], made[4:]]


def test_peers_make_it_once_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def enter(bench: object) -> Iterator[Callable[[], Iterator[Sample]]]:
        yield lambda: iter([Sample("S10_fast_steps", 1.0, {}, 0.0)])

    monkeypatch.setitem(REST, "S10-S3", Rest(enter, times=3))
    monkeypatch.setattr(repeating, "rows_left_dead", lambda *_: 0)
    bench = bench_of(is_own=False)
    assert [len(one) for one in rest.measured(bench, "S10-S3", 3)] == [1, 1, 1]


@pytest.mark.parametrize("deletes", [False, True])
def test_what_is_left_dead_is_told_for_each_operation(monkeypatch: pytest.MonkeyPatch, deletes: bool) -> None:
    """Once for figures that share their cost; not where rows were deleted before, nor of what costs nothing."""
    left = iter([100, 100 + 2 * 60])

    @contextmanager
    def enter(bench: object) -> Iterator[Callable[[], Iterator[Sample]]]:
        def once() -> Iterator[Sample]:
            shared = {"wal_bytes": 1.0}
            yield Sample("S10_fast_commit_ms", 1.0, {}, 0.0, 999)
            yield Sample("S7_lag_p50_ms", 1.0, shared, 0.0, 20)
            yield Sample("S7_lag_p99_ms", 1.0, shared, 0.0, 20)
            yield Sample("S10_fast_drain", 1.0, {"wal_bytes": 1.0}, 0.0, 10)

        yield once

    monkeypatch.setitem(REST, "S7", Rest(enter, deletes=deletes))
    monkeypatch.setattr(repeating, "rows_left_dead", lambda *_: next(left))
    bench = bench_of()
    *_, last = rest.measured(bench, "S7", 2)
    told = [sample.cost.get("dead_rows") for sample in last]
    assert told == ([None] * 4 if deletes else [None, 2.0, 2.0, 2.0])


def test_statements_are_counted_by_the_database_that_they_were_for(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "ours LOG:  statement: SELECT 1\nours LOG:  execute durable_1: SELECT\n\tours LOG:  statement: in it\n"
        "ours DETAIL:  parameters: $1 = '1'\npostgres LOG:  statement: SELECT 2\nours LOG:  execute <unnamed>: BEGIN\n"
    )
    assert (sleepers.statements(log, "ours"), sleepers.statements(log, "postgres")) == (3, 1)
