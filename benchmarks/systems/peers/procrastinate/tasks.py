"""The Procrastinate application, which the client and the workers use."""

import os
from datetime import UTC, datetime

from notes import begin_nap, end_nap
from procrastinate import App, PsycopgConnector

# Trials: one job at a time drains half as fast as five at a time, and from there to fifty nothing changes.
CONCURRENCY = 10

# "The shorter your average job execution time, the more your pool will need to contain as many connections as your
# concurrency (plus one)."
app = App(connector=PsycopgConnector(conninfo=os.environ["BENCH_POSTGRES"], max_size=CONCURRENCY + 1))


@app.task(name="step")
async def step(left: int) -> None:
    """One of several steps: as there are no chains, a job defers the next one before it ends."""
    if left > 2:
        await step.defer_async(left=left - 1)
    else:
        await last_step.defer_async()


@app.task(name="last_step")
async def last_step() -> None:
    pass


@app.task(name="nap")
async def nap(until: float) -> None:
    """There is no sleep: a job defers another one for later."""
    begin_nap(until)
    await after_nap.configure(schedule_at=datetime.fromtimestamp(until, UTC)).defer_async(until=until)


@app.task(name="after_nap")
async def after_nap(until: float) -> None:
    end_nap(until)
