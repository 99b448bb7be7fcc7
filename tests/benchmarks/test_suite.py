"""The comparison of engines: what it divides, keeps and shows, and one small real run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.suite import __main__ as suite
from benchmarks.suite import machine, pace, page, quiet, repeating
from benchmarks.suite.bench import Sizes
from benchmarks.suite.chart import WIDTH, chart
from benchmarks.suite.goals import GOALS, judge
from benchmarks.suite.ledger import Incomparable, Ledger
from benchmarks.suite.machine import commit, without_git
from benchmarks.suite.pace import Pace
from benchmarks.suite.report import report
from benchmarks.suite.sample import Once, Sample
from benchmarks.suite.systems import PARTICIPANTS, participants
from tests.benchmarks.ledgers import ledger

ROOT = Path(__file__).resolve().parent.parent.parent
CPU = "CPU client, workers, PostgreSQL, µs each"
SVG = "{http://www.w3.org/2000/svg}"


def test_the_committed_page_and_ratios_are_those_of_the_committed_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Ledger.load(page.RESULTS)
    before = json.loads(json.dumps(kept.ratios))
    judge(kept)
    assert json.loads(json.dumps(kept.ratios)) == before
    pages = {path: path.read_text() for path in (page.PAGE, page.CHART, *page.PAGE.parent.glob("performance-*.svg"))}
    monkeypatch.setattr(page, "PAGE", tmp_path / page.PAGE.name)
    monkeypatch.setattr(page, "CHART", tmp_path / page.CHART.name)
    page.PAGE.write_text(pages[ROOT / "docs" / "performance.md"])
    page.write(kept)
    assert {path.name: path.read_text() for path in tmp_path.glob("performance*")} == {
        path.name: text for path, text in pages.items()
    }


def test_a_run_that_was_stopped_goes_on_with_what_it_has(tmp_path: Path) -> None:
    made = ledger(tmp_path / "results.json", S1_enqueue__dbos__sync=[3.0, 1.0, 2.0])
    made.finish("S1", "dbos", "sync")
    read = Ledger.load(made.path)
    assert read.is_done("S1", "dbos", "sync")
    assert not read.is_done("S1", "dbos", "async")
    assert (series := read.figure("S1_enqueue", "dbos", "sync"))
    assert (series.values, series.median, series.cost) == ([3.0, 1.0, 2.0], 2.0, {"wal_bytes": 2.0})


def test_figures_of_another_machine_are_no_part_of_a_run(tmp_path: Path) -> None:
    made = ledger(tmp_path / "results.json")
    made.machine["cores"] = 1024
    made.save()
    assert Ledger.load(made.path).machine["cores"] == 1024
    with pytest.raises(Incomparable, match="another machine"):
        Ledger.resume(made.path)


@pytest.mark.parametrize("other", ["0123abc", None])
def test_figures_of_another_state_of_the_code_are_no_part_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str | None
) -> None:
    monkeypatch.setattr(machine, "commit", lambda: "4567def")
    made = ledger(tmp_path / "results.json")
    made.save()
    assert Ledger.resume(made.path).machine["commit"] == "4567def"
    made.machine["commit"] = other
    made.save()
    with pytest.raises(Incomparable, match="two states of the code"):
        Ledger.resume(made.path)
    # As results of before anybody wrote it down.
    del made.machine["commit"]
    made.save()
    with pytest.raises(Incomparable, match="two states of the code"):
        Ledger.resume(made.path)


def test_figures_of_other_servers_are_no_part_of_a_run(tmp_path: Path) -> None:
    made = ledger(tmp_path / "results.json")
    made.served_by({"postgres": "18.1", "redis": "6.2.14"})
    made.save()
    read = Ledger.load(made.path)
    read.served_by({"postgres": "18.1", "redis": "6.2.14"})
    with pytest.raises(Incomparable, match=r"18\.2"):
        read.served_by({"postgres": "18.2", "redis": "6.2.14"})


def test_figures_of_code_that_was_changed_meanwhile_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ledger(tmp_path / "results.json")
    made.finish("S1", "dbos", "sync")
    monkeypatch.setattr(machine, "commit", lambda: "4567def")
    made.add("dbos", "async", Sample("S1_enqueue", 1.0, {}, 0.0))
    with pytest.raises(Incomparable, match="was changed while S1 of dbos"):
        made.finish("S1", "dbos", "async")
    read = Ledger.load(made.path)
    assert (read.done, read.series) == (["S1 dbos sync"], {})


@pytest.mark.parametrize("other", ["commit", "servers"])
def test_who_goes_on_with_what_does_not_fit_is_told_so_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], other: str
) -> None:
    made = ledger(tmp_path / "results.json")
    made.served_by({"postgres": "18.1", "redis": "6.2.14"})
    if other == "commit":
        made.machine["commit"] = "0123abc"
    made.save()
    before = made.path.read_text()

    @contextmanager
    def stage() -> Iterator[Any]:
        yield SimpleNamespace(versions=lambda: {"postgres": "18.2", "redis": "6.2.14"})

    monkeypatch.setattr(suite, "stage", stage)
    monkeypatch.setattr(sys, "argv", ["suite", "--systems", "django_durable", "--resume", "--results", str(made.path)])
    assert suite.main() == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and {"commit": "0123abc", "servers": "18.2"}[other] in told
    assert made.path.read_text() == before


def test_what_a_run_took_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    made = ledger(tmp_path / "results.json")
    # Until it is known of which part it is.
    made._since -= 1000
    made.save()
    for part, seconds, after in (("bench", 50, 50), ("bench", 50, 100), ("bench-all", 200, 200)):
        read = Ledger.load(made.path)
        read.part = part
        read._since -= seconds
        read.save()
        assert Ledger.load(made.path).seconds[part] == pytest.approx(after, abs=20)
    assert read.seconds.keys() == {"bench", "bench-all"}


def test_figures_of_another_version_of_a_peer_are_no_part_of_a_run(tmp_path: Path) -> None:
    made = ledger(tmp_path / "results.json")
    made.installed("dbos", {"dbos": "3.4.0"})
    made.save()
    read = Ledger.load(made.path)
    read.installed("dbos", {"dbos": "3.4.0"})
    with pytest.raises(Incomparable, match=r"3\.4\.1"):
        read.installed("dbos", {"dbos": "3.4.1"})


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_the_state_of_the_code_is_its_commit_and_what_was_changed_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert commit(tmp_path) is None
    measured, results = tmp_path / "django_durable" / "code.py", tmp_path / "benchmarks" / "results.json"
    for path in (measured, results):
        path.parent.mkdir()
        path.write_text("1\n")
    nobodys = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    by = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.com"]

    def git(*command: str) -> None:
        subprocess.run(["git", "-C", tmp_path, *command], env=without_git() | nobodys, check=True)

    git("init", "-q")
    (tmp_path / "nothing").touch()
    git("add", "nothing")
    git(*by, "commit", "-q", "-m", "nothing that figures depend on")
    assert commit(tmp_path) is None
    # In a hook of another repository its own would be meant.
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "no repository"))
    git("add", ".")
    git(*by, "commit", "-q", "-m", "all of it")
    clean = commit(tmp_path)
    assert clean and len(clean) == 40
    # A run writes it, and whoever keeps the figures commits it before the next one goes on.
    results.write_text("2\n")
    assert commit(tmp_path) == clean
    git(*by, "commit", "-q", "-a", "-m", "the figures")
    assert commit(tmp_path) == clean
    for name in ("other.json", "results.part"):
        results.with_name(name).touch()
    assert commit(tmp_path) == clean
    measured.write_text("2\n")
    states = [clean, commit(tmp_path)]
    measured.write_text("3\n")
    states.append(commit(tmp_path))
    measured.with_name("new.py").write_text("1\n")
    states.append(commit(tmp_path))
    assert len(set(states)) == 4
    assert all(str(state).startswith(f"{clean}+") for state in states[1:])


def test_how_many_were_timed_stands_beside_each_latency(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Ledger.new(tmp_path / "results.json")
    cost = {"cpu_us_client": 0.0, "cpu_us_workers": 0.0, "cpu_us_postgres": 0.0}
    for system, value, counts in (("django_durable", 5.0, (300, 300)), ("absurd", 50.0, (9, 10))):
        for count in counts:
            made.add(system, "sync", Sample("S6_latency_p99_ms", value, cost, 0.0, count))
    # Of before anybody wrote it down.
    made.add("dbos", "sync", Sample("S6_latency_p99_ms", 5.0, cost, 0.0))
    made.figure("S6_latency_p99_ms", "dbos", "sync").operations.clear()  # type: ignore[union-attr]
    made.add("dbos", "sync", Sample("S2_drain", 5.0, cost, 0.0, 4321))
    made.save()
    read = Ledger.load(made.path)
    ends = [line.split("  ")[-1].strip() for line in report(read).splitlines()]
    assert [end for end in ends if end in ("runs timed", "300", "9 - 10")] == ["runs timed", "300", "9 - 10"]
    monkeypatch.setattr(page, "PAGE", written := tmp_path / "performance.md")
    monkeypatch.setattr(page, "CHART", tmp_path / "performance.svg")
    written.write_text(page.PLACE)
    page.write(read)
    rows = [line.split(" | ") for line in written.read_text().splitlines() if line.startswith(("| django", "| absurd"))]
    assert [row[3:5] for row in rows] == [["2", "300"], ["2", "9 - 10"]]
    assert "4,321" not in written.read_text() + report(read)


def test_what_is_told_first_is_what_was_promised_of_dbos_and_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ledger(
        tmp_path / "results.json",
        S2_drain__django_durable__sync=[300.0],
        S2_drain__celery__best=[100.0],
        S6_latency_p50_ms__django_durable__sync=[3.0],
        S6_latency_p99_ms__django_durable__sync=[9.0],
        S9_mixed__django_durable__sync=[300.0],
        S9_mixed__dbos__sync=[100.0],
        S4_step_ms__django_durable__sync=[0.5],
        S4_commit_ms__limits__django=[0.3],
        S6_commit_ms__limits__django=[0.3],
        batched_insert__limits__django=[60_000.0],
    )
    first = ["S2_drain_vs_batched_insert", "S9_mixed_vs_dbos", "S4_step_vs_commit", "S6_latency_vs_commits"]
    names = [*first, "S2_drain_vs_celery", "S6_p99_vs_p50"]
    assert [line.split()[0] for line in report(made).splitlines()[1 : 1 + len(names)]] == names
    monkeypatch.setattr(page, "PAGE", written := tmp_path / "performance.md")
    monkeypatch.setattr(page, "CHART", tmp_path / "performance.svg")
    monkeypatch.setattr(page, "FIGURES", {})
    written.write_text(page.PLACE)
    page.write(made)
    rows = [line.split("`")[1] for line in written.read_text().splitlines() if line.startswith("| `")]
    assert rows == names


def test_the_report_says_what_was_missed(tmp_path: Path) -> None:
    made = ledger(
        tmp_path / "results.json",
        S2_drain__django_durable__sync=[300.0, 100.0, 200.0],
        S2_drain__dbos__sync=[100.0],
        S2_drain__celery__best=[100.0],
    )
    lines = report(made).splitlines()
    assert [line.split() for line in lines[1:3]] == [
        ["S2_drain_vs_dbos", "2.00", ">=", "8.00", "MISSED"],
        ["S2_drain_vs_celery", "2.00", ">=", "1.50"],
    ]
    assert "django_durable sync" in lines[5]
    assert lines[5].split()[2:7] == ["200", "100", "-", "300", "3"]


def test_the_chart_has_a_bar_for_each_series_as_long_as_its_rate(tmp_path: Path) -> None:
    made = ledger(
        tmp_path / "results.json",
        S2_drain__django_durable__sync=[400.0],
        S2_drain__dbos__sync=[100.0],
        S2_drain__celery__best=[200.0],
        S2_drain__limits__django=[9000.0],
    )
    bars = list(ElementTree.fromstring(chart(made, ["celery"])).iter(f"{SVG}rect"))  # noqa: S314
    assert [bar.get("class") for bar in bars] == ["ours", "lossy", "theirs"]
    longest = int(bars[0].get("width", 0))
    assert [int(bar.get("width", 0)) for bar in bars] == [longest, round(longest / 2), round(longest / 4)]


def test_a_bar_says_where_much_came_before_the_first_outcome(tmp_path: Path) -> None:
    made = ledger(tmp_path / "results.json")
    for variant, released in (("sync", 320.0), ("sync-database", 319.0)):
        made.add("django_durable", variant, Sample("S2_drain", 400.0, {"from_release": released}, 0.0))
    assert [text for text in chart(made, []).split(">") if "release" in text] == ["400 (319 from the release)</text"]


def test_what_stands_beside_the_longest_bar_fits_into_the_picture(tmp_path: Path) -> None:
    made = ledger(tmp_path / "results.json")
    made.add("django_durable", "async", Sample("S3_steps", 123456.0, {"from_release": 12345.0}, 0.0))
    texts = list(ElementTree.fromstring(chart(made, [])).iter(f"{SVG}text"))  # noqa: S314
    [told] = [text for text in texts if (text.text or "").startswith("123,456")]
    # Of letters that are half as wide as they are high.
    assert float(told.get("x", "")) + 13 / 2 * len(told.text or "") < WIDTH


def test_the_page_keeps_what_people_wrote_and_renews_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "PAGE", written := tmp_path / "performance.md")
    monkeypatch.setattr(page, "CHART", drawn := tmp_path / "performance.svg")
    written.write_text(f"# By hand\n\n{page.PLACE}\n\nof an earlier run\n")
    made = Ledger.new(tmp_path / "results.json")
    cost = {"cpu_us_client": 0.0, "cpu_us_workers": 1234.0, "cpu_us_postgres": 25.2, "write_transactions": 2.0}
    for system, variant, value in (("django_durable", "sync", 400.0), ("dbos", "sync", 100.0)):
        made.add(system, variant, Sample("S2_drain", value, cost | {"from_release": value / 2}, 0.0))
    made.add("django_durable", "sync", Sample("S5_with_enqueue", 4000.0, cost, 0.0))
    page.write(made)
    lines = written.read_text().splitlines()
    assert lines[:3] == ["# By hand", "", page.PLACE]
    assert "of an earlier run" not in lines
    assert "| `S2_drain_vs_dbos` | 4.00 | ≥ 8 | missed |" in lines
    rows = [line for line in lines if line.startswith(("| django_durable", "| dbos"))]
    assert rows[0] == "| django_durable sync | 400 | 400 - 400 | 1 | 200 | 0 / 1,234 / 25 | 2.00 |  |  |"
    heads = [line.split(" | ") for line in lines if line.startswith("| | ")]
    assert [head[4:-3] for head in heads] == [["from the release", CPU], [CPU]]
    assert rows[2] == "| django_durable sync | 4,000 | 4,000 - 4,000 | 1 | 0 / 1,234 / 25 | 2.00 |  |  |"
    titles = [line.removeprefix("### ") for line in lines if line.startswith("### ")]
    assert titles == [page.FIGURES["S2_drain"], page.FIGURES["S5_with_enqueue"]]
    # Each table has as many cells in its lines as it has names.
    for above, below in pairwise(lines):
        if below.startswith("|---"):
            assert above.count("|") == below.count("|")
    # The chart is of the comparison.
    assert (drawn.read_text().count("<rect"), len(rows)) == (2, 3)


def test_the_page_says_what_it_was_measured_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "PAGE", written := tmp_path / "performance.md")
    monkeypatch.setattr(page, "CHART", tmp_path / "performance.svg")
    written.write_text(page.PLACE)
    made = ledger(tmp_path / "results.json")
    made.machine["commit"], made.seconds = "0123456789abcdef+fedcba98", {"bench-all": 30 * 60.0, "bench": 24 * 60.0}
    made.served_by({"postgres": "18.1", "redis": "6.2.14"})
    made.installed("dbos", {"dbos": "3.4.0", "psycopg": "3.3.9"})
    made.installed("restate", {"restate-server": "1.7.12"})
    page.write(made)
    said = f"Python {made.machine['python']}, PostgreSQL 18.1, Redis 6.2.14, commit 0123456789 with changes"
    assert f"{said}; `make bench` took 24 minutes, `make bench-all` took 30 minutes." in written.read_text()
    assert "\nBeside it: dbos 3.4.0 psycopg 3.3.9; restate-server 1.7.12.\n" in written.read_text()
    # As of results of before, and of a folder without git.
    made.machine["commit"], made.seconds, made.servers, made.peers = None, {}, {}, {}
    page.write(made)
    assert f"Python {made.machine['python']}.\n" in written.read_text() and "Beside it" not in written.read_text()


def test_a_part_of_the_sizes_is_never_none() -> None:
    assert set(vars(Sizes().part(0.00001)).values()) == {2}


def test_nobody_takes_part_under_an_unknown_name() -> None:
    assert [one.name for one in participants(["dbos", "limits"])] == ["limits", "dbos"]
    with pytest.raises(ValueError, match="no such system: airflow; there are limits, "):
        participants(["airflow"])


@pytest.mark.parametrize("participant", PARTICIPANTS, ids=lambda participant: participant.name)
def test_every_participant_has_its_folder(participant: Any) -> None:
    assert participant.script.exists()
    assert participant.is_own or (participant.folder / "requirements.txt").read_text().count("==") > 0


def measure(results: Path, scenario: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.suite", "--systems", "django_durable", "--variants", "sync"]
    small = ["--scenarios", scenario, "--repetitions", "1", "--patience", "0", "--results", str(results), *more]
    return subprocess.run([*command, *small], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_it_measures_real_processes(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    done = measure(results, "S3", "--part", "0.05")
    assert done.returncode == 0, done.stdout + done.stderr
    written = json.loads(results.read_text())
    assert written["done"] == ["S3 django_durable sync"]
    assert set(written["servers"]) == {"postgres", "redis"} and written["seconds"]["bench"] > 0
    assert list(written["series"]) == ["S3_steps django_durable sync"]
    series = written["series"]["S3_steps django_durable sync"]
    assert len(series["values"]) == 1 and series["median"] > 0
    assert series["operations"] == [20]
    # Each of the two steps of ten runs is a row of the journal, and hardly a commit of its own.
    assert series["cost"]["wal_bytes"] > 100
    assert 0 < series["cost"]["write_transactions"] < 3
    assert series["cost"]["from_release"] > 0


@pytest.mark.parametrize("scenario", ["S4", "S6"])
def test_what_a_scenario_is_held_against_is_measured_beside_it(tmp_path: Path, scenario: str) -> None:
    results = tmp_path / "results.json"
    done = measure(results, scenario, "--part", "0.1", "--systems", "limits", "--variants", "django")
    assert done.returncode == 0, done.stdout + done.stderr
    [series] = json.loads(results.read_text())["series"].values()
    assert (series["figure"], series["operations"]) == (f"{scenario}_commit_ms", [50])
    # A commit of each row: had they shared some, the figure would be the least of them.
    assert series["median"] > 0 and series["cost"]["write_transactions"] >= 1


def test_lone_runs_find_a_worker_as_long_as_they_are_measured(tmp_path: Path) -> None:
    done = measure(tmp_path / "results.json", "S6", "--part", "0.1")
    # Of so few the slowest says nothing, and may well miss its goal.
    assert done.returncode in (0, 1), done.stdout + done.stderr
    written = json.loads((tmp_path / "results.json").read_text())
    assert written["done"] == ["S6 django_durable sync"], done.stdout + done.stderr
    series = written["series"]["S6_latency_p50_ms django_durable sync"]
    assert series["operations"] == [30] and 0 < series["median"] < 30_000


@pytest.mark.parametrize(
    ("repetitions", "seconds", "waits", "is_late", "times"),
    [
        *((1, 0.1, 0.0, False, 1), (2, 60.0, 0.0, False, 2), (4, 0.1, 0.0, False, 10), (4, 0.5, 0.0, False, 8)),
        *((4, 1.25, 0.0, False, 4), (4, 4.9, 0.0, False, 4), (4, 5.0, 0.0, False, 3), (4, 60.0, 0.0, False, 3)),
        *((4, 4.9, 20.0, False, 4), (4, 0.1, 20.0, False, 4)),
        *((4, 0.1, 0.0, True, 3), (4, 7.4, 20.0, True, 3), (4, 60.0, 0.0, True, 3), (2, 60.0, 0.0, True, 2)),
    ],
)
def test_what_is_soon_over_is_measured_more_often_and_what_takes_long_less(
    monkeypatch: pytest.MonkeyPatch, repetitions: int, seconds: float, waits: float, is_late: bool, times: int
) -> None:
    """``waits``: so long for a quiet machine, before each. ``is_late``: as the whole is."""
    now = [0.0]
    sizes: list[int] = []
    bench = SimpleNamespace(sizes=Sizes(), stage=None, database="", waited=7.0, is_late=is_late)

    @contextmanager
    def scenario(_: object) -> Iterator[Once]:
        def once() -> Iterator[Sample]:
            now[0] += seconds + waits
            bench.waited += waits
            sizes.append(bench.sizes.drain)
            yield Sample("S2_drain", 1.0, {}, 0.0, bench.sizes.drain)

        yield once

    monkeypatch.setattr(repeating, "rows_left_dead", lambda *_: 0)
    monkeypatch.setattr(repeating, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    assert len(list(repeating.measured(bench, scenario, repetitions))) == times  # type: ignore[arg-type]
    assert sizes == [1_250 if times > 1 else 5_000] + [5_000] * (times - 1)


def test_the_whole_is_late_where_at_its_rate_it_does_not_end_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: now[0]))
    whole, unbounded = Pace(10.0), Pace(None)
    now[0] += 100
    told = []
    for each in (whole, unbounded):
        each.begin(50)
    assert not whole.is_late  # nobody knows yet
    for seconds in (9.0, 11.0, 10.0, 10.2, 9.8, 2.0):
        now[0] += seconds
        for one in (whole, unbounded):
            one.visited()
        told.append(whole.is_late)
    assert told == [False, False, False, True, False, False]
    now[0] += 600
    assert whole.is_late and not unbounded.is_late


@pytest.mark.parametrize("is_late", [False, True])
def test_who_is_measured_while_the_whole_is_late_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    heard: list[bool] = []

    @contextmanager
    def stage() -> Iterator[Any]:
        yield SimpleNamespace(versions=lambda: {})

    monkeypatch.setattr(suite, "stage", stage)
    monkeypatch.setattr(suite, "measure", lambda *_, is_late: heard.append(is_late))
    monkeypatch.setattr(suite, "python_of", lambda _: Path(sys.executable))
    monkeypatch.setattr(suite, "_describe", lambda *_: {"drains": ["sync", "async"], "variants": [], "versions": {}})
    minutes = "0" if is_late else "1000"
    monkeypatch.setattr(sys, "argv", ["suite", "--systems", "dbos", "--scenarios", "S2", "--minutes", minutes])
    suite.measure_all(ledger(tmp_path / "results.json"), suite.read_options())
    assert heard == [False, is_late]


@pytest.mark.parametrize(
    ("scenario", "last"),
    [
        ("S0", ["limits"]),
        ("S1", ["limits", "django_durable", "dbos"]),
        ("S2", ["django_durable", "dbos", "dramatiq"]),
        ("S4", ["limits", "django_durable"]),
        ("S9", ["django_durable", "dbos"]),
    ],
)
def test_who_is_compared_comes_first_and_again_at_the_end(scenario: str, last: list[str]) -> None:
    order = [participant.name + visit for participant, visit in suite.visits(scenario, PARTICIPANTS)]
    assert order[:3] == ["limits", "django_durable", "dbos"]
    assert order[len(PARTICIPANTS) :] == [f"{name} again" for name in last]
    assert len(order) == len(set(order))
    for names in (["dbos"], ["dbos", "dramatiq"], ["limits", "django_durable"]):
        alone = participants(names)
        assert suite.visits(scenario, alone) == [(participant, "") for participant in alone]


def test_nobody_is_prepared_for_a_scenario_that_it_has_no_part_in() -> None:
    told = {"variants": ["sync"], "doors": ["sync"], "drains": ["sync"]}
    parts = {
        scenario: [one.name for one in PARTICIPANTS if suite._variants(scenario, one, told)]
        for scenario in ("S0", "S1", "S2", "S4", "S5-S1", "S10-S3")
    }
    others = [one.name for one in PARTICIPANTS if one.name != "limits"]
    assert parts == {
        "S0": ["limits"],
        "S1": ["limits", *others],
        "S2": others,
        "S4": ["limits", *others],
        "S5-S1": ["django_durable", "dbos", "absurd", "procrastinate", "django_tasks"],
        "S10-S3": ["django_durable", "dbos", "absurd"],
    }


def test_again_are_the_variants_that_goals_are_held_against() -> None:
    told = {
        "variants": ["sync", "sync-database", "async", "async-database", "sync-direct", "best", "default"],
        "doors": ["sync", "sync-database"],
        "drains": ["sync", "sync-threads", "sync-pinned", "async", "sync-database", "best", "default"],
    }
    known = {participant.name: participant for participant in PARTICIPANTS}

    def again(scenario: str, name: str) -> list[str]:
        return list(suite._variants(scenario, known[name], told, " again"))

    for goal in (goal for goal in GOALS if goal.factor):
        scenario, (system, *variants) = goal.figure[:2], goal.ours
        assert set(variants) <= set(again(scenario, system)), goal.name
    assert again("S1", "django_durable") == again("S6", "django_durable") == ["sync"]
    assert [again(scenario, "dbos") for scenario in ("S1", "S2", "S3", "S6", "S9")] == [
        ["sync"],
        ["sync"],
        ["sync"],
        ["sync-direct"],
        ["sync"],
    ]
    assert again("S2", "dramatiq") == ["best"]


@pytest.mark.parametrize(
    ("uses", "are_up", "looks"),
    [
        ([0.1], False, 1),
        ([1.0, 0.2], False, 2),
        ([0.4, 0.45, 0.35, 0.4], True, 4),
        ([1.0, 0.4, 0.4, 0.4, 0.4], True, 5),
        ([0.5, 0.3, 0.5, 0.4, 0.4, 0.4], True, 6),
        ([0.7] * 10, True, 10),
        ([0.4] * 10, False, 10),
    ],
    ids=[
        "idle",
        "once it is",
        "who polls",
        "once it has started",
        "not up and down",
        "a process",
        "others, if none is up",
    ],
)
def test_a_measurement_waits_until_the_machine_is_quiet_or_only_polled(
    monkeypatch: pytest.MonkeyPatch, uses: list[float], are_up: bool, looks: int
) -> None:
    """In cores, of two of them; a patience of nine looks."""
    now, left = [0.0], list(uses)

    def cpu_percent(interval: float) -> float:
        now[0] += interval
        return left.pop(0) * 100 / 2

    monkeypatch.setattr(quiet, "psutil", SimpleNamespace(cpu_percent=cpu_percent, cpu_count=lambda: 2))
    monkeypatch.setattr(quiet, "time", SimpleNamespace(monotonic=lambda: now[0]))
    patience = 9 * (quiet.LOOK_AT_POLLS if are_up else quiet.LOOK_SECONDS)
    assert quiet.wait_until_quiet(patience, are_up=are_up) == pytest.approx(uses[-1])
    assert len(uses) - len(left) == looks


@pytest.mark.parametrize("error", [TimeoutError("finished: 3 of 5"), RuntimeError("a worker ended with 1")])
def test_a_peer_that_hangs_costs_nobody_else_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def repeat(*_: object) -> None:
        raise error

    @contextmanager
    def prepared(*_: object, **__: object) -> Iterator[None]:
        yield

    monkeypatch.setattr(suite, "repeat", repeat)
    monkeypatch.setattr(suite, "prepared", prepared)
    made = ledger(tmp_path / "results.json")
    options = SimpleNamespace(part=1.0, patience=0.0, repetitions=3)

    def measure(name: str) -> None:
        [one] = participants([name])
        suite.measure(None, one, "sync", Path(sys.executable), "S2", "", made, options)  # type: ignore[arg-type]

    measure("dbos")
    assert not made.is_done("S2", "dbos", "sync") and str(error) in capsys.readouterr().out
    # Without its own there is nothing to compare.
    with pytest.raises(type(error)):
        measure("django_durable")
