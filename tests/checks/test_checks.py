"""Every check fires in a project that has its problem, only there, and is documented."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django_redis.cache import RedisCache

from django_durable import Cron, durable_workflow
from django_durable.checks import deployment
from django_durable.checks.redis import places
from django_durable.core.journal.log import LINES_MAX
from tests.checks.scenes import (
    SCENES,
    SQLITE_OPTIONS,
    caches,
    database,
    durable,
    redis,
    scheduled,
    setting,
    workflows,
)

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENT = ROOT / "docs" / "settings.md"
# A check may be right to fire beside the one that the scene is about.
COMPANIONS = {"E001": {"W005"}, "W002": {"W011"}, "W003": {"W011"}, "E014": {"W011"}}


def messages(*, deploy: bool = True) -> list[CheckMessage]:
    return run_checks(tags=["durable"], include_deployment_checks=deploy)


def ids(found: list[CheckMessage]) -> set[str]:
    return {str(message.id).removeprefix("django_durable.") for message in found}


@pytest.fixture(autouse=True)
def _sound_project() -> Any:
    """A project without any problem, whatever the backend of the test run."""
    sound = {"QUEUE": "redis", "LEASE_SECONDS": 30}
    with setting(DURABLE=sound, CACHES={"default": redis()})(), database("postgresql")():
        yield


def test_a_sound_project_hears_nothing() -> None:
    assert messages() == []


@pytest.mark.parametrize("check", SCENES)
def test_each_check_fires(check: str) -> None:
    with SCENES[check]():
        found = messages()
    assert ids(found) == {check} | COMPANIONS.get(check, set())
    for message in found:
        assert message.hint
        assert message.msg.endswith((".", "?")), message.msg
        assert message.is_serious() == str(message.id).startswith("django_durable.E")


@pytest.mark.parametrize("check", ["W010", "W011", "W012"])
def test_deployment_checks_are_for_deployments(check: str) -> None:
    with SCENES[check]():
        assert messages(deploy=False) == []


def written_ids() -> set[str]:
    found = set()
    for file in (ROOT / "django_durable" / "checks").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(
                    func=ast.Name(id="error" | "warning" as kind), args=[ast.Constant(value=int(number)), *_]
                ):
                    found.add(f"{kind[0].upper()}{number:03}")
    return found


def test_every_id_has_a_scene() -> None:
    assert written_ids() == set(SCENES)


def test_every_id_is_documented() -> None:
    documented = re.findall(r"^\| `([EW]\d{3})` \|", DOCUMENT.read_text(), re.MULTILINE)
    assert documented == sorted(SCENES)


# --- what they say -----------------------------------------------------------------------------


def test_unknown_key_is_told_what_was_meant() -> None:
    with durable(lease_second=30)():
        [message] = messages()
    assert message.hint == "Did you mean 'LEASE_SECONDS'?"


def test_an_unknown_key_that_is_like_none_is_told_all() -> None:
    with durable(zzz=1)():
        [message] = messages()
    assert "LEASE_SECONDS" in str(message.hint)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("LEASE_SECONDS", "30", "a number"),
        ("LEASE_SECONDS", True, "a number"),
        ("LEASE_SECONDS", float("nan"), "a number"),
        ("POLL_SECONDS", float("inf"), "a number"),
        ("MAX_CRASHES", 2.5, "a whole number"),
        ("PREPARED_STATEMENTS", 1, "True or False"),
        ("VERSION", 7, "a string or None"),
        ("DATABASE", None, "a string"),
    ],
)
def test_wrong_types(key: str, value: object, expected: str) -> None:
    with durable(**{key: value})():
        [message] = messages()
    assert (message.id, message.hint) == ("django_durable.E003", f"It takes {expected}.")
    assert key in message.msg


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("REAP_SECONDS", 0),
        ("POLL_SECONDS", -1),
        ("RETENTION_DAYS", 0),
        ("SHUTDOWN_GRACE_SECONDS", -0.1),
        ("LOG_LINES", -1),
        ("LOG_LINES", 99),
        ("MAX_OPEN_EVENTS", 0),
        ("MAX_OPEN_EVENT_BYTES", 0),
        ("MAX_OPEN_EVENT_BYTES", 8 * 1024 * 1024 - 1),
        ("MAX_CRASHES", 40_000),
        ("VERSION", ""),
        ("VERSION", "v" * 65),
    ],
)
def test_out_of_range(key: str, value: object) -> None:
    with durable(**{key: value})():
        assert [message.id for message in messages() if key in message.msg] == ["django_durable.E004"]


@pytest.mark.parametrize("lines", [0, LINES_MAX])
def test_all_lines_of_one_commit_are_kept_or_none(lines: int) -> None:
    with durable(LOG_LINES=lines)():
        assert messages() == []


@pytest.mark.parametrize("lease", [2, 30.0, 1.5])
def test_a_lease_of_three_heartbeats_is_enough(lease: float) -> None:
    with durable(LEASE_SECONDS=lease, HEARTBEAT_SECONDS=lease / 3)():
        assert messages() == []


def test_every_problem_is_told_at_once() -> None:
    with durable(QUEUE="rabbit", MAX_CRASHES=0, NOPE=1, DATABASE="nowhere")():
        assert ids(messages()) == {"E002", "E004", "E006", "E010"}


class OwnCache(RedisCache):
    """A backend that a project made from django-redis."""


def test_a_subclass_of_the_django_redis_backend_is_one() -> None:
    with caches(default={"BACKEND": f"{__name__}.OwnCache", "LOCATION": "redis://:x@redis.example"})():
        assert messages() == []


@pytest.mark.parametrize("backend", [f"{__name__}.messages", "no.such.Backend", None])
def test_a_backend_that_is_none_is_refused(backend: str | None) -> None:
    with caches(default={"BACKEND": backend, "LOCATION": "redis://:x@redis.example"})():
        assert ids(messages()) == {"E021"}


def test_without_redis_nobody_looks_at_caches() -> None:
    with caches("database", default=redis(CLIENT_CLASS="django_redis.client.ShardClient"))():
        assert messages() == []


def test_a_queue_in_a_cache_that_nobody_named_is_told_of() -> None:
    with caches(None, default=redis(), sessions=redis("redis://:x@redis.example/2"))():
        [message] = messages()
    assert "cache.clear() empties it" in message.msg
    assert 'DURABLE["REDIS_CACHE"]' in str(message.hint) and '"QUEUE": "database"' in str(message.hint)


@pytest.mark.parametrize(
    "said", [{"REDIS_CACHE": "default"}, {"REDIS_CACHE": "durable"}, {"QUEUE": "redis"}, {"QUEUE": "database"}]
)
def test_a_queue_that_somebody_asked_for_is_none_of_these(said: dict[str, str]) -> None:
    aliases = {"default": redis(), "durable": redis("redis://:x@redis.example/2")}
    with setting(DURABLE=said, CACHES=aliases)():
        assert messages() == []


def test_a_project_whose_cache_is_no_redis_has_no_queue_in_it() -> None:
    with caches(None, default={"BACKEND": "django.core.cache.backends.locmem.LocMemCache"})():
        assert messages() == []


@pytest.mark.parametrize(
    ("location", "is_open"),
    [
        ("redis://redis.example/1", True),
        ("rediss://redis.example/1", True),
        ("redis://user@redis.example", True),
        ("redis://10.0.0.7:6379/1", True),
        ("redis://[2001:db8::7]/1", True),
        ("redis://127.0.0.1.example/1", True),
        ("redis://localhost.example/1", True),
        (["redis://localhost/1", "redis://redis.example/1"], True),
        ("redis://localhost/1,redis://redis.example/1", True),
        ("redis://:secret@redis.example/1", False),
        ("redis://localhost/1", False),
        ("redis://LOCALHOST:6379", False),
        ("redis://127.0.0.1/1", False),
        ("redis://127.9.9.9:6380/1", False),
        ("redis://[::1]:6379/1", False),
        ("redis:///1", False),
        ("unix:///run/redis.sock?db=1", False),
    ],
)
def test_a_password_is_asked_for_where_others_can_reach_it(location: Any, is_open: bool) -> None:
    with caches(default=redis(location))():
        assert ids(messages()) == ({"W012"} if is_open else set())
    with caches(default=redis(location, PASSWORD="secret"))():
        assert messages() == []


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("/srv/shop/db.sqlite3", "nfs4"),
        ("/srv/shop/media/db.sqlite3", None),
        ("/srv/my shop/db.sqlite3", "cifs"),
        ("/srv/shopping/db.sqlite3", None),
        ("/mnt/far/db.sqlite3", "fuse.sshfs"),
        ("/mnt/over/db.sqlite3", None),
        ("/db.sqlite3", None),
        (":memory:", None),
        ("a\0b", None),
    ],
)
def test_a_file_of_several_machines_is_told_of(
    file: str, kind: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/sda1 / ext4 rw 0 0\n"
        "files:/shop /srv/shop nfs4 rw 0 0\n"
        "/dev/sdb1 /srv/shop/media xfs rw 0 0\n"
        "//files/shop /srv/my\\040shop cifs rw 0 0\n"
        "me@far:/ /mnt/far fuse.sshfs rw 0 0\n"
        "files:/over /mnt/over nfs rw 0 0\n"
        "/dev/sdc1 /mnt/over ext4 rw 0 0\n"
    )
    monkeypatch.setattr(deployment, "MOUNTS", mounts)
    monkeypatch.chdir("/")
    assert deployment.shared_kind(file) == kind
    with database("sqlite", **SQLITE_OPTIONS)():
        deployment.durable_connection().settings_dict["NAME"] = file
        [message] = messages()
    assert (f"Its file is on {kind}," in message.msg) is (kind is not None)


def test_where_no_mounts_are_told_none_is_of_several_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment, "MOUNTS", Path("/nowhere/mounts"))
    assert deployment.shared_kind("/srv/shop/db.sqlite3") is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("redis://h:6379/1", "redis://h/1", True),
        ("redis://user:pw@H:6379/1", "rediss://h:6379?db=1", True),
        ("redis://h:6379", "redis://h:6379/0", True),
        ("unix:///tmp/r.sock?db=2", "unix:///tmp/r.sock?db=2", True),
        (["redis://a/1", "redis://b/1"], "redis://c/1,redis://b/1", True),
        ("redis://h/1", "redis://h/2", False),
        ("redis://h:6379/1", "redis://h:6380/1", False),
        ("some-locmem-name", "some-locmem-name", False),
    ],
)
def test_places(one: Any, other: Any, same: bool) -> None:
    assert bool(places({"LOCATION": one}) & places({"LOCATION": other})) is same


def test_schedules_that_fit_are_fine() -> None:
    crons = [Cron("0 6 * * *", input={"day": "monday"}), Cron("0 6 * * *", name="other"), "@daily"]
    with workflows(lambda: scheduled(crons))():
        assert messages() == []


def test_a_schedule_must_give_what_has_no_default() -> None:
    def declare() -> None:
        @durable_workflow(name="shop.order", cron="@hourly")
        def order(ctx: Any, order_id: int) -> None: ...

    with workflows(declare)():
        [message] = messages()
    assert "order_id" in message.msg
