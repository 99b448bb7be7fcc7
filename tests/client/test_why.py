"""Why a run does not run now, in the language of who asks, and with what they may see in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from django.utils.translation import override

from django_durable.client.sentences import Hidden, Sentence, Stored
from django_durable.client.why import why, why_held_by
from django_durable.core.journal.states import BlockReason
from django_durable.core.payloads.codec import encode
from django_durable.models import Hold, Run
from tests.admin.world import make_entry, make_run, make_worker
from tests.app import limits

pytestmark = pytest.mark.django_db
LANGUAGES = ("de", "es", "fr")
AT = datetime(2031, 7, 1, 12, tzinfo=timezone.get_default_timezone())
SEEN = f"{AT:%Y-%m-%d %H:%M:%S}"
LIMITED = limits.one_a_tenant.name

Scene = Callable[[], Run]


def row(status: str, /, **columns: Any) -> Scene:
    return lambda: make_run(status, **columns)


def waiting(what: str, **columns: Any) -> Scene:
    return row("waiting", waiting_on=what, **columns)


def listening(*names: str, path: str = "at/here", **columns: Any) -> Scene:
    """It waits at this path for events of these names."""

    def make() -> Run:
        run = make_run("waiting", waiting_on=f"event:{path}", **columns)
        make_entry(run, "above", 1, kind="event", awaits="another")
        make_entry(run, path, 2, kind="event", status="waiting", awaits="\n".join(names), finished_at=None)
        return run

    return make


def blocked(reason: BlockReason, said: Any = None, **columns: Any) -> Scene:
    def make() -> Run:
        run = make_run("blocked", block_reason=reason, **columns)
        if said is not None:
            run.payloads.create(kind="block", data=said)
        return run

    return make


def running(worker: dict[str, Any], **columns: Any) -> Scene:
    def make() -> Run:
        holder = make_worker(**worker)
        return make_run("running", leased_by=holder.pk, lease_expires_at=AT + timedelta(days=1), **columns)

    return make


def queued(*workers: dict[str, Any], beside: tuple[dict[str, Any], ...] = (), **columns: Any) -> Scene:
    def make() -> Run:
        for worker in workers:
            make_worker(**worker)
        for other in beside:
            make_run(**other)
        return make_run("queued", **columns)

    return make


def held(**columns: Any) -> Scene:
    def make() -> Run:
        Hold.objects.create(since=AT, **columns)
        return make_run("queued")

    return make


def with_losers(count: int) -> Scene:
    def make() -> Run:
        run = make_run("succeeded", finished_at=AT)
        for n in range(count):
            make_entry(run, f"step-{n}%undo", n, kind="undo", status="failed")
        return run

    return make


def child(status: str, entry: str, path: str = "child") -> Scene:
    """One that ended so, and what its parent has journaled of it."""

    def make() -> Run:
        parent = make_run("waiting")
        make_entry(parent, "child", kind="child", status=entry)
        return make_run(status, finished_at=AT, parent=parent, parent_path=path)

    return make


def still() -> Run:
    old = timezone.now() - timedelta(hours=3)
    return make_run("running", queued_at=old, started_at=old, lease_expires_at=AT)


WAITS = ("sleep", "poll", "event", "join", "race", "map", "child")
LATE = {"wake_at": AT, "deadline_at": AT}
TENANT = {"workflow": LIMITED, "limit_key": "key-7"}
SERVING = {"workflows": [LIMITED, limits.two_a_minute.name]}
JUST_NOW = {"status": "succeeded", "workflow": limits.two_a_minute.name, "limit_key": "key-7"}
used_up = queued(
    SERVING, beside=({**JUST_NOW, "started_at": timezone.now() + timedelta(hours=1)},) * 2,
    workflow=limits.two_a_minute.name, limit_key="key-7",
)  # fmt: skip
SCENES: list[tuple[Scene, list[str]]] = [
    (row("scheduled", wake_at=AT), [SEEN]),
    (row("succeeded", finished_at=AT), [SEEN]),
    (row("failed", finished_at=AT), [SEEN]),
    (row("cancelled", finished_at=AT), [SEEN]),
    *((child(status, "failed"), [SEEN]) for status in ("failed", "cancelled")),
    (with_losers(2), ["'step-0', 'step-1'"]),
    (with_losers(9), ["'step-3', 'step-4'"]),
    (row("paused"), []),
    (row("paused", wake_at=AT, claims=1), [SEEN]),
    (row("paused", wake_at=AT, claims=0), [SEEN]),
    *((waiting(f"{what}:at/here"), ["'at/here'"]) for what in WAITS),
    *((waiting(f"{what}:here", wake_at=AT), [SEEN]) for what in (*WAITS, "retry")),
    *((waiting(f"{what}:at/here", **LATE), ["'at/here'", SEEN]) for what in (*WAITS, "retry")),
    (waiting("retry:", wake_at=AT), [SEEN]),
    (waiting("retry:", **LATE), [SEEN]),
    (waiting("retry:"), []),
    (listening("packed", path="packed"), ["'packed'"]),
    (listening("packed", path="packed", wake_at=AT), ["'packed'", SEEN]),
    *(
        (listening(*names, **columns), [", ".join(map(repr, names)), "'at/here'"])
        for names in (("packed",), ("packed", "lost"))
        for columns in ({}, {"wake_at": AT})
    ),
    (waiting("later:here"), ["later:here"]),
    (waiting("later:here", wake_at=AT, phase="compensating"), ["later:here", SEEN]),
    (blocked(BlockReason.CRASHED, crashes=1), ["1"]),
    (blocked(BlockReason.CRASHED, crashes=3), ["3"]),
    (blocked(BlockReason.UNKNOWN_WORKFLOW, workflow="app.gone"), ["'app.gone'"]),
    (blocked(BlockReason.DIVERGED), ["diverged"]),
    (blocked(BlockReason.DIVERGED, "{"), []),
    (blocked(BlockReason.DIVERGED, encode({"message": "%(told)s %"}), cancel_requested_at=AT), ["%(told)s %. "]),
    (running({"stopped_at": AT}), ["box:7", SEEN]),
    (running({"heartbeat_at": AT - timedelta(days=9_999)}), ["box:7"]),
    (running({}), ["2031-07-02"]),
    (still, [SEEN]),
    (running({}, cancel_requested_at=AT), [SEEN]),
    (running({}, cancel_requested_at=AT, phase="compensating"), [SEEN]),
    (running({}, pause_requested_at=AT), [SEEN]),
    (queued(), ["manage.py durable_worker"]),
    (queued({"queues": ["vip"]}), ["'default'"]),
    (queued({"workflows": []}), ["'app.doubling'"]),
    (queued({}), []),
    (queued({}, suspect=True), []),
    (queued(SERVING, beside=({"status": "running", **TENANT},), **TENANT), ["'key-7'", "1"]),
    (queued(SERVING, beside=({"status": "queued", "phase": "compensating", **TENANT},), **TENANT), ["'key-7'", "0"]),
    (used_up, ["'key-7'", "2/m"]),
    *(
        (held(kind=kind, name=name, actor=actor, reason=reason), [repr(name), SEEN, actor, reason])
        for kind, name in {"queue": "default", "workflow": "app.doubling"}.items()
        for actor in ("", "ann")
        for reason in ("", "a bad deploy")
    ),
]  # fmt: skip


@pytest.mark.parametrize(("scene", "parts"), SCENES)
def test_every_sentence_is_told_in_every_language(scene: Scene, parts: list[str]) -> None:
    found = why(scene())
    english = found.text
    assert "%(" not in english.replace("%(told)s", "")
    for sentence in found.sentences:
        told = {language: _told(sentence, language) for language in ("en", *LANGUAGES)}
        if sentence.text != "%(message)s":
            assert len(set(told.values())) == len(told), told
    for language in LANGUAGES:
        with override(language):
            text = found.text
        assert [part for part in parts if part not in english or part not in text] == []


def _told(sentence: Sentence, language: str) -> str:
    with override(language):
        return sentence.told(lambda kind, value: value)


def test_the_sentences_are_whole_ones() -> None:
    run = listening("go", path="go", wake_at=AT, phase="compensating")()
    found = why_held_by(run, None, is_long=True)
    assert found.reason == "waiting: event"
    assert found.text == (
        f"It undoes what it did. It waits for the event 'go', and gives up at {SEEN} UTC. "
        "Its journal has more than 2,000 entries, all of which each claim reads."
    )
    with override("de"):
        assert found.text == (
            f"Er wickelt zurück, was er getan hat. Er wartet auf das Ereignis 'go' und gibt um {SEEN} UTC auf. "
            "Sein Journal hat mehr als 2.000 Einträge; jede Übernahme liest alle."
        )
    assert repr(found) == f"Why(reason='waiting: event', text={found.text!r})"


def test_the_time_is_that_of_the_zone_in_which_it_is_looked_at() -> None:
    found = why(row("scheduled", wake_at=AT)())
    with timezone.override("Europe/Berlin"):
        assert found.text == "It starts at 2031-07-01 14:00:00 CEST."
    assert found.text == "It starts at 2031-07-01 12:00:00 UTC."
    assert why(waiting("retry:")()).text == "The run failed and is tried again at an unknown time."


def test_a_step_that_is_called_run_is_not_the_run() -> None:
    assert "'run'" in why(waiting("retry:run", wake_at=AT)()).text


@pytest.mark.parametrize(
    ("status", "ends"),
    [("waiting", "more than 1 entry, all of which each claim reads."), ("succeeded", "more than 1 entry.")],
)
def test_one_is_not_many(settings: Any, status: str, ends: str) -> None:
    settings.DURABLE = {**settings.DURABLE, "JOURNAL_WARN_ENTRIES": 1}
    assert why_held_by(make_run(status), None, is_long=True).text.endswith(ends)
    assert why(blocked(BlockReason.CRASHED, crashes=1)()).text.startswith("It killed its process 1 time;")


def test_what_may_be_seen_of_the_runs_values_stands_in_it() -> None:
    asked: list[tuple[str, Any]] = []

    def seen(kind: str, value: Any) -> Any:
        asked.append((kind, value))
        return {"message": "hidden"} if kind == "block" else "hid'den"

    message = {"message": "card: 4111"}
    found = why(blocked(BlockReason.UNDECODABLE, encode(message))())
    assert found.told(seen).startswith("hidden. A worker with other code")
    found = why(queued(SERVING, beside=({"status": "running", **TENANT},), **TENANT)())
    assert found.told(seen).startswith("""Its limit "hid'den" is full: 1 of 1""")
    assert asked == [("block", message), ("limit_key", "key-7")]


@pytest.mark.parametrize(
    ("scene", "text"),
    [
        (
            queued(SERVING, beside=({"status": "running", **TENANT},), **TENANT),
            "Its limit is full: 1 of 1 are running;",
        ),
        (
            queued(SERVING, beside=({"cancel_requested_at": AT, **TENANT},), **TENANT),
            "Its limit is full: of 1, 0 are running and 1 are about to end,",
        ),
        (used_up, "The rate 2/m of its limit is used up;"),
    ],
)
def test_what_may_not_be_seen_at_all_is_left_out(scene: Scene, text: str) -> None:
    def seen(kind: str, value: Any) -> Any:
        raise Hidden

    found = why(scene())
    assert found.told(seen).startswith(text)
    assert "'key-7'" in found.text and "key-7" not in found.told(seen)


def test_a_sentence_that_is_nothing_without_its_value_is_not_told_without() -> None:
    def seen(kind: str, value: Any) -> Any:
        raise Hidden

    with pytest.raises(Hidden):
        Sentence("%(a)s", {"a": Stored("x", "secret")}).told(seen)


@pytest.mark.parametrize(
    ("said", "text"), [("no", "no."), ("no!", "no!"), ({"other": 1}, "{'other': 1}."), (None, "None.")]
)
def test_whatever_comes_in_the_place_of_what_is_said_is_a_sentence(said: Any, text: str) -> None:
    found = why(blocked(BlockReason.DIVERGED, encode({"message": "told"}))())
    assert found.told(lambda kind, value: said).startswith(f"{text} A worker")


def test_a_value_is_no_template() -> None:
    assert (
        Sentence("%(a)s %(b)r", {"a": "%(b)s", "b": Stored("x", "{0}")}).told(lambda _, value: value) == "%(b)s '{0}'"
    )
