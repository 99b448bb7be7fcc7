"""Copies of a supervisor: what they begin with, how they end, and when there are none."""

from __future__ import annotations

import logging
import logging.handlers
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.backends.sqlite3.base import DatabaseWrapper

from django_durable.models import Worker as WorkerRow
from django_durable.worker import forking
from django_durable.worker import supervisor as supervisor_module
from django_durable.worker.forking import Forked, fork
from django_durable.worker.spawning import Told
from django_durable.worker.supervisor import STANDBY_SECONDS, Supervisor
from tests.acceptance.traces import kill_in_step, wait_for_success
from tests.app import faults
from tests.processes import MANAGE, PATIENCE, Worker, is_alive, wait_until
from tests.worker.children import KILLED, commanded
from tests.worker.test_supervisor import ended, own_signals, terminate  # noqa: F401  (two are fixtures)

pytestmark = pytest.mark.django_db(transaction=True)


def leave(status: int) -> Callable[[], object]:
    return lambda: os._exit(status)


# --- a copy, seen by who made it ------------------------------------------------------------------


def test_its_end_is_told_as_that_of_other_processes_and_again() -> None:
    copy = fork(leave(7))
    assert copy.wait() == 7
    assert (copy.poll(), copy.wait(), copy.returncode) == (7, 7, 7)
    # Nobody is hit who has its number now.
    copy.kill()


def test_one_that_runs_has_no_end_yet_and_one_that_is_killed_has_the_signal() -> None:
    copy = fork(signal.pause)
    assert (copy.poll(), copy.returncode) == (None, None)
    copy.kill()
    assert copy.wait() == KILLED


def test_an_end_that_somebody_else_was_told_is_one() -> None:
    """As the handler of a second signal, which asks in the middle of a poll."""
    copy, other = fork(leave(7)), Forked(0)
    other.pid = copy.pid
    assert other.wait() == 7
    copy.kill()
    assert copy.poll() == 0


@pytest.mark.parametrize("is_raising", [True, False])
def test_one_that_comes_to_an_end_of_its_own_never_supervises(is_raising: bool, capfd: Any) -> None:
    def become() -> None:
        if is_raising:
            raise SystemExit("this is the copy's")

    assert fork(become).wait() == 1
    assert ("this is the copy's" in capfd.readouterr().err) is is_raising


def test_signals_wait_until_a_copy_can_obey_and_mean_nothing_of_the_supervisors() -> None:
    held = {signal.SIGINT, signal.SIGTERM}

    def look() -> None:
        is_held = held <= signal.pthread_sigmask(signal.SIG_BLOCK, [])
        handlers = {signal.getsignal(number) for number in (*held, signal.SIGCHLD)}
        os._exit(7 if is_held and handlers == {signal.SIG_DFL} and signal.set_wakeup_fd(-1) == -1 else 8)

    before = signal.signal(signal.SIGCHLD, lambda number, frame: None)
    read, write = os.pipe()
    os.set_blocking(write, False)
    alarm = signal.set_wakeup_fd(write)
    try:
        assert fork(look).wait() == 7
    finally:
        signal.set_wakeup_fd(alarm)
        signal.signal(signal.SIGCHLD, before)
        os.close(read)
        os.close(write)
    assert not held & signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_what_waits_to_be_written_is_written_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr(sys, name, out)
        out.write("a line\n")
        assert fork(lambda: (out.flush(), os._exit(7))).wait() == 7
    assert (tmp_path / "out").read_text() == "a line\n"


def test_what_waits_to_be_logged_is_logged_once(tmp_path: Path) -> None:
    target = logging.FileHandler(tmp_path / "log")
    handler = logging.handlers.MemoryHandler(99, target=target)
    logger = logging.getLogger("somebody.of.the.project")
    logger.addHandler(handler)
    try:
        logger.error("a line")
        assert fork(lambda: (logging.shutdown(), os._exit(7))).wait() == 7
    finally:
        logger.removeHandler(handler)
        handler.close()
        target.close()
    assert (tmp_path / "log").read_text() == "a line\n"


# --- when there is none -----------------------------------------------------------------------------

LOOK = """
import logging, os, shelve, socket, sqlite3, subprocess, sys, threading, zipfile
import django
django.setup()
from django.core.cache import caches
from django.db import connection, transaction
from django.db.backends.sqlite3.base import DatabaseWrapper
from django_durable.queues.current import current_queue
from django_durable.worker import forking
here = sys.argv[1]
def raising(*_):
    raise RuntimeError("no")
{before}
print(forking.what_hinders({{99}}))
"""
AROUND = {
    "nothing": ("", "None"),
    "a thread": ("threading.Thread(target=threading.Event().wait, daemon=True).start()", "this process has 2 threads"),
    "a connection": ("pair = socket.socketpair()", "this process has a connection open"),
    "a connection that is ours": ("pair = socket.socketpair(); os.dup2(3, 99); os.close(3); os.close(4)", "None"),
    "datagrams": ("log = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", "None"),
    "a log that is collected": ("with socket.socketpair()[0] as one: os.dup2(one.fileno(), 2)", "None"),
    "a log": ("logging.root.addHandler(logging.FileHandler(here + '/log'))", "None"),
    "a file that is read": ("open(here + '/new', 'w').write('x'); file = open(here + '/new')", "this process has /"),
    "a database of the project's own": ("own = sqlite3.connect(here + '/own')", "this process has /"),
    "a process that is spoken with": ("cat = subprocess.Popen(['cat'], stdin=-1)", "this process has pipe:"),
    "what whoever started it had open": ("os.dup2(os.open('/', 0), 50, inheritable=True); os.close(3)", "None"),
    "Django's own connection": ("connection.ensure_connection()", "None"),
    "our queue's": ("current_queue().length('default')", "None"),
    "another system": ("sys.platform = 'darwin'", "this is darwin"),
    "no /proc": ("forking.THREADS = '/nowhere'", "FileNotFoundError: "),
    "a cache that cannot be closed": ("caches.close_all = raising", "RuntimeError: no"),
}  # fmt: skip


@pytest.mark.parametrize("around", AROUND)
def test_what_is_in_the_way(around: str, tmp_path: Path) -> None:
    before, told = AROUND[around]
    environment = {**os.environ, "DURABLE_TEST_DATABASE_NAME": str(connection.settings_dict["NAME"])}
    command, folder = [sys.executable, "-c", LOOK.format(before=before), str(tmp_path)], Path(MANAGE).parents[1]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout.startswith(told), done.stderr


TRANSACTION = "this process has a transaction under way"


def test_no_transaction_is_ended_for_it() -> None:
    with transaction.atomic():
        assert forking._of_database(connection) == TRANSACTION
    connection.set_autocommit(False)
    try:
        assert forking._of_database(connection) == TRANSACTION
    finally:
        connection.set_autocommit(True)
    assert forking._of_database(connection) is None


def test_no_database_is_copied_that_is_in_memory() -> None:
    settings = {**connection.settings_dict, "ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:", "OPTIONS": {}}
    in_memory = DatabaseWrapper(settings)
    assert forking._of_database(in_memory) == "the database is in the memory of this process"


def test_a_look_at_a_socket_leaves_it_as_it_is() -> None:
    """Python makes each socket anew that it is given by number, with the default timeout."""
    import socket

    mine, other = socket.socketpair()
    with mine, other:
        socket.setdefaulttimeout(5)
        try:
            assert forking._of_descriptor(mine.fileno()) == "a connection"
        finally:
            socket.setdefaulttimeout(None)
        assert os.get_blocking(mine.fileno())


@pytest.mark.parametrize(
    ("options", "may_copy"), [([], True), (["--burst"], True), (["--no-fork"], False), (["--reload"], False)]
)
def test_who_asks_for_copies(options: list[str], may_copy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy would not have the code that was changed."""
    assert (commanded(monkeypatch, *options)["be_child"] is not None) is may_copy


def test_somebody_stands_by_from_when_there_can_be_no_copy(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As with the first error that is logged to somebody far away, by a thread."""
    hindrances: list[str | None] = [None]
    monkeypatch.setattr(supervisor_module, "what_hinders", lambda ours: hindrances[-1])
    monkeypatch.setattr(supervisor_module, "fork", lambda become: Forked(0))
    executed: list[bool] = []
    supervisor = Supervisor(["never started"], 1, has_standby=True, be_child=print)

    def execute(told: Told, not_its: object) -> Forked:
        executed.append(told["stands_by"])
        return Forked(0)

    supervisor._execute = execute
    with caplog.at_level(logging.INFO, "django_durable"):
        supervisor._start_due()
        assert (executed, supervisor._standby_at, caplog.messages) == ([], inf, [])
        hindrances.append("this process has 2 threads")
        began = time.monotonic()
        supervisor._start(None)
        assert executed == [False]
        assert began <= supervisor._standby_at - STANDBY_SECONDS <= time.monotonic()
        supervisor._standby_at = 0.0
        supervisor._start_due()
        assert (executed, supervisor._standby_at) == ([False, True], inf), "one is enough"
        supervisor._start(None)
        assert (executed, supervisor._standby_at) == ([False, True, False], inf), "one is enough"
    assert caplog.messages == ["worker processes are executed, not copied: this process has 2 threads"]
    for child in supervisor._children:
        child.close()


@pytest.mark.usefixtures("own_signals")
def test_a_second_signal_during_a_fork_leaves_no_process(
    ended: list[int],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies: list[Forked] = []

    def interrupted(become: Callable[[], object]) -> Forked:
        copies.append(fork(become))
        terminate()
        terminate()
        return copies[-1]

    monkeypatch.setattr(supervisor_module, "what_hinders", lambda ours: None)
    monkeypatch.setattr(supervisor_module, "fork", interrupted)
    Supervisor(["never started"], 1, be_child=lambda told: signal.pause()).run()
    assert ended == [128 + signal.SIGTERM]
    assert [copy.returncode for copy in copies] == [KILLED]


# --- with processes ---------------------------------------------------------------------------------

COUNTED = """
import os, pathlib
from tests.settings import *
(pathlib.Path(__file__).with_name("imports") / str(os.getpid())).touch()
{more}
"""


def counted(folder: Path, *arguments: str, more: str = "", **options: Any) -> tuple[Worker, Callable[[], int]]:
    """A worker of a project that counts how many processes have imported it."""
    (folder / "imports").mkdir()
    (folder / "counted.py").write_text(COUNTED.format(more=more))
    env = {"PYTHONPATH": str(folder), "DJANGO_SETTINGS_MODULE": "counted"}
    return Worker(*arguments, env=env, **options), lambda: len(list((folder / "imports").iterdir()))


THREAD = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"


@pytest.mark.parametrize(
    ("arguments", "more", "imports"), [((), "", 1), (("--no-fork",), "", 4), ((), THREAD, 4)],
    ids=["copies", "none wanted", "a thread of the project's"],
)  # fmt: skip
def test_the_project_is_imported_once_whoever_dies(
    arguments: tuple[str, ...], more: str, imports: int, tmp_path: Path
) -> None:
    # Without housekeeping only the takeover asks for isolation: a look beside it may ask for the same run once more.
    worker, count = counted(tmp_path, "--no-loops", *arguments, more=more, durable={"LEASE_SECONDS": 300})
    kill_in_step()
    # The replacement, and the one that has tried the run alone. And the supervisor.
    wait_until(lambda: worker.starts == 3, message="a replacement, and one that is isolated")
    assert count() == imports
    assert ("worker processes are executed, not copied: this process has 2 threads" in worker.log) is bool(more)
    assert worker.stop() == 0
    assert "Traceback" not in worker.log


def opened(pid: int, kind: str = "pipe:") -> set[str]:
    """By descriptor too: each epoll has the same name."""
    found: dict[str, str] = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        # A process that begins opens and closes others while it is looked at; what it has of its supervisor stays.
        with suppress(FileNotFoundError):
            found[entry.name] = os.readlink(entry)
    return {(number if kind == "eventpoll" else name) for number, name in found.items() if kind in name}


def test_a_copy_has_its_own_two_pipes_of_the_supervisors_and_nothing_else() -> None:
    worker = Worker("--processes", "3")
    wait_until(lambda: worker.starts == 3, message="three")
    # One that was made beside the others.
    os.kill(worker.children()[1], signal.SIGKILL)
    wait_until(lambda: worker.starts == 4, message="a replacement")
    # What supervises has opened nothing else; of the alarm it has both ends.
    ours, children = opened(worker.pid), worker.children()
    assert len(ours) == 2 * len(children) + 1
    assert [len(ours & opened(child)) for child in children] == [2] * len(children)
    assert not set.intersection(*(ours & opened(child) for child in children))
    [epoll] = opened(worker.pid, "eventpoll")
    # Who connects has one of its own for a moment, which may get the number; the supervisor's would stay.
    for child in children:
        wait_until(lambda child=child: epoll not in opened(child, "eventpoll"), message="no epoll of the supervisor's")
    assert "executed, not copied" not in worker.log


def blocked_signals(pid: int) -> set[int]:
    """The signals that the main thread of a process blocks."""
    status = Path(f"/proc/{pid}/status").read_text()
    [mask] = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigBlk:")]
    return {number for number in range(1, 65) if mask & (1 << (number - 1))}


@pytest.mark.parametrize("arguments", [(), ("--no-fork",)], ids=["a copy", "executed"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_a_process_and_those_that_its_steps_start(
    number: signal.Signals, arguments: tuple[str, ...]
) -> None:
    worker = Worker(*arguments)
    worker.wait_for_start()
    [child] = worker.children()
    # The C library holds all signals for as long as it starts a thread, which one that begins may just be doing.
    wait_until(lambda: number not in blocked_signals(child), message="a signal that is not held")
    os.kill(child, number)
    wait_until(lambda: worker.starts == 2, message="another in its place")
    assert not is_alive(child)


def test_connections_that_the_project_has_opened_before_are_not_shared(tmp_path: Path) -> None:
    """Django's are closed, and each process opens its own."""
    (tmp_path / "eager").mkdir()
    (tmp_path / "eager" / "__init__.py").write_text("")
    (tmp_path / "eager" / "apps.py").write_text(
        "from django.apps import AppConfig\n"
        "class Eager(AppConfig):\n"
        "    name = 'eager'\n"
        "    def ready(self):\n"
        "        from django.db import connection\n"
        "        connection.ensure_connection()\n"
    )
    worker, count = counted(tmp_path, "--processes", "2", more="INSTALLED_APPS += ['eager']")
    wait_until(lambda: worker.starts == 2, message="two")
    runs = [faults.plodding.enqueue(3, 0) for _ in range(8)]
    for run in runs:
        wait_for_success(run.id)
    assert count() == 1
    assert not opened(worker.pid, "socket:")
    assert worker.stop() == 0


def test_where_the_supervisor_has_taken_something_over_the_next_is_a_copy_too(tmp_path: Path) -> None:
    """For that it speaks to the database and to Redis."""
    worker, count = counted(tmp_path, "--processes", "2", durable={"LEASE_SECONDS": 300})
    wait_until(lambda: worker.starts == 2, message="two")
    killed = set()
    for number in range(1, 4):
        killed.add(kill_in_step())
        wait_until(lambda number=number: worker.starts >= 2 + number, message="a replacement")
    assert count() == 1

    def at_work() -> set[int]:
        return {row.pid for row in WorkerRow.objects.filter(stopped_at=None)}

    # The rows first: the last replacement may be on its way still.
    wait_until(lambda: at_work() <= set(worker.children()) - killed, message="the rows of the killed to be closed")
    children = worker.children()
    assert worker.stop() == 0
    assert not any(map(is_alive, children))
