"""Restate: server 1.7.12 from npm, Python SDK 1.3 under Hypercorn; no PostgreSQL, its log is synced to disk by default.

Follows https://docs.restate.dev/develop/python/serving (Hypercorn's production settings),
/services/invocation/http (calls), /develop/python/service-communication (sends) and /references/server-config.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import restate
from notes import begin_nap, end_nap, left, ms_of_child, note_parent
from protocol import System, Unsupported, batches, naps, serve

VERSION = "1.7.12"
SERVER = f"@restatedev/restate-server@{VERSION}"
# In the virtual environment, which is kept from run to run, as the server's 200 MB should be.
NPM_FOLDER = Path(sys.prefix) / SERVER.rpartition("/")[2]
SETTINGS = {
    # 24 by default; with one, on two cores, a step took the server a third less CPU. The other cores are for workers.
    "RESTATE_DEFAULT_NUM_PARTITIONS": str(max(1, (os.cpu_count() or 1) // 2)),
    "RESTATE_LOG_FILTER": "warn",
    "RESTATE_DISABLE_TELEMETRY": "true",
}
# Kills the server when the client, at the other end of the pipe, is gone, however that one went.
GUARD = '"$@" & read -r line; kill -9 $!; wait $!'
# The first four lines are the documentation's; uvloop saved some of the workers' CPU.
HYPERCORN = """
h2_max_concurrent_streams = 2147483647
keep_alive_max_requests = 2147483647
keep_alive_timeout = 2147483647
workers = {processes}
bind = "127.0.0.1:{port}"
worker_class = "uvloop"
loglevel = "ERROR"
"""
PATIENCE, ANSWERS_WITHIN = 60.0, 180.0

service = restate.Service("bench")


async def step() -> None:
    pass


@service.handler()
async def run(ctx: restate.Context, steps: int) -> None:
    for _ in range(steps):
        await ctx.run_typed("step", step)


@service.handler()
async def start_many(ctx: restate.Context, order: dict[str, int]) -> None:
    for _ in range(order["runs"]):
        ctx.service_send(run, order["steps"])


async def fall_asleep(until: float) -> None:
    begin_nap(until)


async def wake_up(until: float) -> None:
    end_nap(until)


# After a minute by default, and no more than a thousand invocations are open at a time.
@service.handler(inactivity_timeout=timedelta(milliseconds=100))
async def nap(ctx: restate.Context, until: float) -> None:
    await ctx.run_typed("before", fall_asleep, until=until)
    # What is journaled is the instant: a replay sleeps until then.
    await ctx.sleep(timedelta(seconds=left(until)))
    await ctx.run_typed("after", wake_up, until=until)


@service.handler()
async def start_naps(ctx: restate.Context, order: dict[str, list[float]]) -> None:
    for until in order["naps"]:
        ctx.service_send(nap, until)


@service.handler()
async def child(ctx: restate.Context, number: int) -> int:
    return number


# https://docs.restate.dev/guides/parallelizing-work
@service.handler()
async def fan_out(ctx: restate.Context, count: int) -> None:
    note_parent()
    for call in [ctx.service_call(child, number) for number in range(count)]:
        await call
    note_parent()


async def instant() -> float:
    return time.perf_counter()


@service.handler()
async def loop(ctx: restate.Context, marks: list[int]) -> list[float]:
    seen = []
    for number in range(marks[-1] + 1):
        reached = await ctx.run_typed("turn", instant)
        if number in marks:
            seen.append(reached)
    return seen


app = restate.app(services=[service])


class RestateSystem(System):
    variants = ("async",)
    is_pushed = True

    def versions(self) -> dict[str, str]:
        return {**super().versions(), "restate-server": VERSION}

    def prepare(self) -> None:
        if not list(NPM_FOLDER.glob("**/bin/restate-server")):
            command = ["npm", "install", "--silent", "--ignore-scripts", "--prefix", str(NPM_FOLDER), SERVER]
            subprocess.run(command, check=True, stdout=sys.stderr)

    def connect(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.start()

    def clear(self) -> None:
        self.server.communicate()
        shutil.rmtree(self.folder)
        self.start()

    def start(self) -> None:
        self.folder = Path(mkdtemp(prefix="restate-", dir=os.environ["BENCH_FOLDER"]))
        (binary,) = NPM_FOLDER.glob("node_modules/@restatedev/restate-server-*/bin/restate-server")
        command = [str(binary), "--no-logo", "--listen-mode=unix", "--node-name=bench", f"--base-dir={self.folder}"]
        with (self.folder / "server.log").open("wb") as log:
            self.server = subprocess.Popen(
                ["sh", "-c", GUARD, "sh", *command],
                env={**os.environ, **SETTINGS},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        sockets = self.folder / "bench"
        self.ingress, self.admin = Endpoint(sockets / "ingress.sock"), Endpoint(sockets / "admin.sock")
        self.count_again_at, self.has_workers = 0.0, False
        self.register()
        until_answered(self.finished)

    def register(self) -> None:
        """The server asks the service what it serves, once; invocations are accepted from then on, also without it."""
        with subprocess.Popen(self.hypercorn(1)) as service:
            deployment = {"uri": f"http://127.0.0.1:{self.port}", "force": True}
            until_answered(lambda: self.admin.ask("POST", "/deployments", deployment))
            service.terminate()

    def enqueue(self, count: int, steps: int) -> None:
        for _ in range(count):
            self.ingress.ask("POST", "/restate/send/bench/run", steps)

    def enqueue_many(self, count: int, steps: int, batch: int) -> None:
        """Through a handler that sends them: as durable once it has returned, and one request for each batch."""
        if not self.has_workers:
            raise Unsupported("the bulk door is a handler, which needs a worker")
        for first in range(0, count, batch):
            order = {"runs": min(batch, count - first), "steps": steps}
            self.ingress.ask("POST", "/restate/call/bench/start_many", order)

    def finished(self) -> int:
        return self.count("sys_invocation_status WHERE status = 'completed' AND target_handler_name = 'run'")

    def count(self, what: str) -> int:
        """The server scans for it, so no more than a tenth of the time goes into that."""
        time.sleep(max(0.0, self.count_again_at - time.monotonic()))
        began = time.monotonic()
        answer = self.admin.ask("POST", "/query", {"query": f"SELECT count(*) AS number FROM {what}"})
        self.count_again_at = time.monotonic() + 9 * (time.monotonic() - began)
        return int(answer["rows"][0]["number"])

    def latency(self, count: int) -> list[float]:
        milliseconds = []
        for _ in range(count):
            began = time.perf_counter()
            self.ingress.ask("POST", "/restate/call/bench/run", 1)
            milliseconds.append((time.perf_counter() - began) * 1000)
        return milliseconds

    def nap(self, until: float, apart: float, count: int) -> None:
        for instants in batches(naps(until, apart, count)):
            self.ingress.ask("POST", "/restate/call/bench/start_naps", {"naps": instants})

    def fan_out(self, count: int) -> float:
        self.ingress.ask("POST", "/restate/call/bench/fan_out", count)
        return ms_of_child(count)

    def loop_in_worker(self, marks: list[int]) -> list[float]:
        return list(self.ingress.ask("POST", "/restate/call/bench/loop", marks))

    def worker_commands(self, processes: int) -> list[list[str]]:
        self.has_workers = True
        return [self.hypercorn(processes)]

    def hypercorn(self, processes: int) -> list[str]:
        config = self.folder / "hypercorn.toml"
        config.write_text(HYPERCORN.format(processes=processes, port=self.port))
        return [sys.executable, "-m", "hypercorn", "--config", str(config), f"{__file__}:app"]


class Endpoint(HTTPConnection):
    """One kept-alive connection to a unix socket of the server, which listens there by default: no port to be free."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=ANSWERS_WITHIN)
        self.path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"content-type": "application/json", "accept": "application/json"}
        try:
            self.request(method, path, None if body is None else json.dumps(body), headers)
            response = self.getresponse()
            text = response.read()
        except OSError:
            self.close()
            raise
        if response.status >= 300:
            raise OSError(f"{method} {path}: {response.status} {text[:500]!r}")
        return json.loads(text) if text else None


def until_answered(call: Callable[[], object]) -> None:
    ends = time.monotonic() + PATIENCE
    while True:
        try:
            call()
            return
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.05)


if __name__ == "__main__":
    serve(RestateSystem())
