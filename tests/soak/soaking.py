"""The soak itself: workers, what they can do at most, the load that they can keep up with, the end of it all."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from io import StringIO
from typing import Any

import psutil
from django.core.management import CommandError, call_command

from tests import processes
from tests.chaos.witness import witness_file
from tests.processes import STARTED, Command, wait_until
from tests.soak.databases import RUNS
from tests.soak.load import Load, calibrate, drain
from tests.soak.measures import Kind, Measure, Sample
from tests.soak.plan import Plan
from tests.soak.report import Result
from tests.soak.sampling import Sampler, processes_of

PROCESSES, CONCURRENCY = 2, 16
START_SECONDS = 60.0
STOP_SECONDS = 60.0
TOLD = 20
"""How often it is told how things stand."""


def soak(plan: Plan, seed: str, redis: Any) -> Result:
    """On servers that are there, with Django set up. ``redis`` is a client. Raises RuntimeError and AssertionError
    where it never came to the load."""
    # The bodies of chaos bear witness of each step, and nobody asks them here.
    witness_file().symlink_to(os.devnull)
    folder = witness_file().parent
    result = Result(plan, seed)
    try:
        worker = start_worker(plan)
        result.capacity = calibrate(folder, seed, plan)
        print(f"the workers do {result.capacity:.1f} runs a second, and get {result.rate:.1f}", flush=True)
        sampler = Sampler(processes_of(worker), redis)
        load = Load(folder, seed, "--rate", str(result.rate))
        result.wrong += keep(load, sampler, result)
        result.said = load.end()
        result.wrong += calm_down(worker)
        result.failed = sum(int(sample.values[Measure(Kind.FAILED, RUNS)]) for sample in result.samples)
        result.failed += sampler.endings.read().failed
    finally:
        processes.kill_all()
    result.judge()
    return result


def start_worker(plan: Plan) -> Command:
    """A supervisor with its processes and the settings of production, retention apart."""
    counts = ("--processes", str(PROCESSES), "--concurrency", str(CONCURRENCY))
    worker = Command("durable_worker", *counts, durable=plan.durable)
    wait_until(lambda: worker.log.count(STARTED) >= PROCESSES, START_SECONDS, f"{PROCESSES} processes to begin")
    return worker


def keep(load: Load, sampler: Sampler, result: Result) -> Iterator[str]:
    """Fill ``result.samples`` while the load goes on; why that ended before its time."""
    began = time.monotonic()
    often = max(1, result.plan.samples // TOLD)
    for number in range(1, result.plan.samples + 1):
        time.sleep(max(0.0, began + number * result.plan.interval - time.monotonic()))
        if not load.running:
            yield "the client has ended before its time"
            return
        try:
            sample = sampler.read(time.monotonic() - began)
        except psutil.NoSuchProcess as error:
            yield f"a process of the worker has ended: {error}"
            return
        result.samples.append(sample)
        if number % often == 0:
            print(line(sample), flush=True)


def line(sample: Sample) -> str:
    """How things stand."""
    memory = [value / 1e6 for measure, value in sample.values.items() if measure.kind is Kind.RSS]
    runs = {measure.kind: value for measure, value in sample.values.items() if measure.of == RUNS}
    dead = sum(value for measure, value in sample.values.items() if measure.kind is Kind.DEAD_ROWS)
    return (
        f"{sample.at / 60:5.1f} min  {runs[Kind.FINISHED]:6.1f} runs/s  p99 {runs.get(Kind.P99, 0.0):5.2f} s  "
        f"{runs[Kind.LIVE_RUNS]:5.0f} live  rss {sum(memory):6.1f} MB  {dead:9,.0f} dead rows"
    )


def calm_down(worker: Command) -> Iterator[str]:
    """Every run comes to its end, then what stands in the tables is checked beside the worker, then that ends. What
    was wrong with it, in words."""
    try:
        drain()
    except AssertionError as error:
        yield str(error)
    yield from violated()
    worker.signal(signal.SIGTERM)
    try:
        if status := worker.wait(STOP_SECONDS):
            yield f"the worker ended with {status}"
    except subprocess.TimeoutExpired:
        yield "the worker does not end"
    if errors := [text for text in worker.log.splitlines() if " ERROR " in text]:
        yield f"{len(errors)} errors in the worker's log, the first: {errors[0]}"


def violated() -> list[str]:
    """What `durable_check` finds, or could not tell."""
    out = StringIO()
    try:
        call_command("durable_check", stdout=out)
    except CommandError as error:
        told = [text for text in out.getvalue().splitlines() if not text.startswith("ok ")]
        return [f"durable_check: {error}", *told]
    return []
