"""The servers under the suite: they start, restart, and go with the process that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
import redis
from django.core.cache import cache
from django.db import OperationalError, connection

from tests import settings as project
from tests.app.models import Counter
from tests.processes import is_alive, wait_until
from tests.servers import Folder, Guarded, PostgresServer, RedisServer, database_settings, session
from tests.servers.postgres import free_copy

ROOT = Path(__file__).resolve().parent.parent

# Starts a server, says where, and would wait for ever.
KILLED_RUN = """
import sys, time
from tests.servers import Folder, PostgresServer, RedisServer
with Folder() as folder, PostgresServer(folder) as pg, RedisServer(folder) as r:
    print(folder, pg._process.pid, r._process.pid, flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def postgres():
    with Folder() as path, PostgresServer(path, fsync=True) as server:
        yield server


def ask(server: PostgresServer, sql: str) -> str:
    with psycopg.connect(server.url) as link:
        return str(link.execute(sql).fetchone()[0])


def test_postgres_is_version_18_and_durable(postgres):
    assert ask(postgres, "select version()").startswith("PostgreSQL 18")
    assert ask(postgres, "show fsync") == "on"
    assert ask(postgres, "show synchronous_commit") == "on"
    assert ask(postgres, "show listen_addresses") == ""


@pytest.mark.parametrize("mode", ["immediate", "fast"])
def test_postgres_comes_back_with_its_data(postgres, mode):
    with psycopg.connect(postgres.url, autocommit=True) as link:
        link.execute(f"create table kept_{mode} as select 42 as value")
        postgres.restart(mode)
        with pytest.raises(psycopg.OperationalError):
            link.execute("select 1")
    assert ask(postgres, f"select value from kept_{mode}") == "42"


def test_postgres_stops_and_starts(postgres):
    postgres.stop()
    assert not postgres.running
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(postgres.url)
    postgres.start()
    assert ask(postgres, "select 1") == "1"


def test_settings_are_what_django_wants():
    entry = database_settings("postgresql://me:secret@/shop?host=/run/pg&sslmode=disable", "other")
    assert entry["ENGINE"] == "django.db.backends.postgresql"
    assert (entry["NAME"], entry["USER"], entry["PASSWORD"], entry["HOST"]) == ("other", "me", "secret", "/run/pg")
    assert entry["OPTIONS"] == {"sslmode": "disable"}


@pytest.mark.parametrize("given", ["", "DURABLE_TEST_DATABASE_URL", "DURABLE_TEST_REDIS_URL"])
def test_a_server_that_runs_already_is_used_and_none_is_started_for_it(given, monkeypatch):
    urls = {"DURABLE_TEST_DATABASE_URL": "postgresql://me@h/shop", "DURABLE_TEST_REDIS_URL": "redis://h/3"}
    started = {"DURABLE_TEST_DATABASE_URL": "PostgresServer", "DURABLE_TEST_REDIS_URL": "RedisServer"}
    for name in urls:
        monkeypatch.delenv(name, raising=False)
        own = nullcontext(SimpleNamespace(url=f"own {name}"))
        monkeypatch.setattr(session, started[name], lambda folder, own=own: own)
    if given:
        monkeypatch.setenv(given, urls[given])
    with session.servers_for("postgres-redis") as servers:
        pass
    own = {name: url for name, url in servers.environment.items() if name in urls}
    assert own == {name: f"own {name}" for name in urls if name != given}
    mine = {"DURABLE_TEST_DATABASE_URL": servers.postgres, "DURABLE_TEST_REDIS_URL": servers.redis}
    assert [name for name, server in mine.items() if server is None] == ([given] if given else [])


def test_the_settings_go_where_the_urls_say(monkeypatch):
    monkeypatch.setattr(project, "BACKEND", "postgres-redis")
    monkeypatch.setattr(project, "QUEUE", "redis")
    monkeypatch.setenv("DURABLE_TEST_DATABASE_URL", "postgresql://me@elsewhere:5555/shop")
    monkeypatch.setenv("DURABLE_TEST_REDIS_URL", "redis://elsewhere/3")
    monkeypatch.delenv("DURABLE_TEST_DATABASE_NAME", raising=False)
    entry = project.database()
    assert (entry["HOST"], str(entry["PORT"]), entry["NAME"]) == ("elsewhere", "5555", "shop")
    assert project.cache()["LOCATION"] == "redis://elsewhere/3"


def test_redis_answers_forgets_and_comes_back(folder):
    with RedisServer(folder) as server, server.client() as client:
        assert client.ping()
        client.set("key", "value")
        server.flush()
        assert client.get("key") is None
        for end in (server.kill, server.stop):
            end()
            with pytest.raises(redis.ConnectionError):
                client.ping()
            server.start()
            assert client.ping()


def test_servers_end_with_a_run_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", KILLED_RUN], cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        folder, *pids = run.stdout.readline().split()
        assert all(is_alive(int(pid)) for pid in pids)
        run.kill()
    wait_until(lambda: not any(is_alive(int(pid)) for pid in pids), message="the servers to end")
    wait_until(lambda: not Path(folder).exists(), message="the folder to be removed")


def test_guarded_process_ends_as_its_command_does(tmp_path):
    assert Guarded([sys.executable, "-c", "raise SystemExit(7)"]).wait() == 7
    sleeper = Guarded([sys.executable, "-c", "import time; time.sleep(60)"])
    sleeper.signal(signal.SIGTERM)
    assert sleeper.wait() == -signal.SIGTERM
    with pytest.raises(RuntimeError, match="did not start"):
        Guarded([tmp_path / "nothing"], log=tmp_path / "log")


def test_copy_of_binaries_is_open_to_every_user(tmp_path):
    source = tmp_path / "private"
    source.mkdir(mode=0o700)
    (source / "program").touch(mode=0o700)
    (source / "data").touch(mode=0o600)
    copy = free_copy(source, tmp_path / "copy")
    assert [oct(path.stat().st_mode & 0o777) for path in (copy, copy / "program", copy / "data")] == [
        "0o755",
        "0o755",
        "0o644",
    ]


@pytest.mark.contract
@pytest.mark.django_db
def test_settings_follow_the_backend(backend, settings):
    assert connection.vendor == backend.split("-")[0].replace("postgres", "postgresql")
    assert str(connection.settings_dict["NAME"]) == os.environ["DURABLE_TEST_DATABASE_NAME"]
    assert settings.DURABLE["QUEUE"] == ("redis" if backend == "postgres-redis" else "database")
    cache.set("key", "value")
    assert cache.get("key") == "value"
    cache.delete("key")


def test_the_runs_own_postgres_can_be_restarted(postgres_server):
    Counter.objects.create(name="kept")
    postgres_server.restart("immediate")
    with pytest.raises(OperationalError):
        Counter.objects.get()
    connection.close()
    assert Counter.objects.get().name == "kept"
    postgres_server.stop("immediate")


def test_the_runs_own_redis_can_be_killed(redis_server):
    cache.set("key", "value")
    redis_server.kill()
    with pytest.raises(redis.ConnectionError):
        cache.get("key")


@pytest.mark.django_db
def test_after_them_both_are_there_again():
    assert not Counter.objects.exists()
    assert cache.get("key") is None
