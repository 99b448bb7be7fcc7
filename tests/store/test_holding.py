"""What is held: told by a heartbeat, claimed by nobody who heeds it, and nobody's overdue run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from django_durable.client.listing import overdue_wakes
from django_durable.client.standing import standing
from django_durable.core.clock import DatabaseClock
from django_durable.core.journal.states import Status
from django_durable.models import Audit, Hold
from django_durable.store import holding, workers
from django_durable.store.auditing import Verb
from django_durable.store.claiming import Claim, Claimant, claim_ids, claim_next, claim_oldest, claim_suspect
from django_durable.store.database import Database, PrivateDatabase
from django_durable.store.holding import NOTHING, Held, held, narrowed
from django_durable.store.limiting import KeyWalk, claim_hinted, claim_limited
from tests.store.rows import LEASE, WORKFLOW, at, claimant, make_run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.contract]
BY = Verb("ann", "the gateway is down")
WAYS: dict[str, Callable[..., list[Claim]]] = {
    "next": lambda db, who, run: claim_next(db, who, 9, lease=LEASE, time=DatabaseClock()),
    "oldest": lambda db, who, run: claim_oldest(db, who, 9, lease=LEASE, time=DatabaseClock()),
    "hint": lambda db, who, run: claim_ids(db, who, [run.pk], lease=LEASE, time=DatabaseClock()),
    "suspect": lambda db, who, run: claim_suspect(db, who, lease=LEASE, time=DatabaseClock()),
    "limited": lambda db, who, run: claim_limited(db, who, 9, KeyWalk(), lease=LEASE, time=DatabaseClock()),
    "limited hint": lambda db, who, run: claim_hinted(db, who, [run.pk], lease=LEASE, time=DatabaseClock()),
}
COLUMNS: dict[str, dict[str, Any]] = {
    "suspect": {"suspect": True}, "limited": {"limit_key": WORKFLOW}, "limited hint": {"limit_key": WORKFLOW},
}  # fmt: skip


def registered(db: PrivateDatabase, **more: Any) -> Claimant:
    who = claimant(**more)
    workers.register(db, who, concurrency=1, is_isolated=False, version="")
    return who


def test_a_heartbeat_brings_what_is_held(db: PrivateDatabase) -> None:
    who = registered(db)
    assert workers.beat(db, who.id) == held(db) == NOTHING
    holding.hold(Database(), Hold.QUEUE, 'v"ip', BY)
    holding.hold(Database(), Hold.WORKFLOW, "shop.ship", BY)
    assert workers.beat(db, who.id) == held(db) == Held(frozenset({'v"ip'}), frozenset({"shop.ship"}))
    holding.release(Database(), Hold.QUEUE, 'v"ip', BY)
    assert workers.beat(db, who.id) == Held(frozenset(), frozenset({"shop.ship"}))
    assert workers.beat(db, claimant().id) is None


def test_a_workflow_is_held_under_all_of_its_names(db: PrivateDatabase) -> None:
    from django_durable import durable_workflow

    @durable_workflow(name="holding.new_name", aliases=["holding.old_name"])
    def renamed(ctx: Any) -> None: ...

    holding.hold(Database(), Hold.WORKFLOW, "holding.new_name", BY)
    assert held(db).workflows == {"holding.new_name", "holding.old_name"}
    who = narrowed(claimant("holding.new_name", "holding.old_name", "other"), held(db))
    assert who.workflows == ("other",)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [Hold.QUEUE, Hold.WORKFLOW])
def test_nothing_claims_what_is_held(db: PrivateDatabase, kind: str, way: str) -> None:
    run = make_run(**COLUMNS.get(way, {}))
    name = "default" if kind == Hold.QUEUE else WORKFLOW
    assert holding.hold(Database(), kind, name, BY)
    alone, beside = claimant(), claimant(WORKFLOW, "other", queues=["default", "other"])
    for who in (alone, beside):
        assert WAYS[way](db, narrowed(who, held(db)), run) == []
    assert holding.release(Database(), kind, name, BY)
    assert [claim.run_id for claim in WAYS[way](db, narrowed(beside, held(db)), run)] == [run.pk]


def test_a_limit_has_room_for_others_while_the_first_of_its_key_is_held(db: PrivateDatabase) -> None:
    make_run(limit_key=WORKFLOW, priority=9, queue="vip")
    second = make_run(limit_key=WORKFLOW)
    holding.hold(Database(), Hold.QUEUE, "vip", BY)
    who = narrowed(claimant(queues=["vip", "default"]), held(db))
    claims = claim_limited(db, who, 9, KeyWalk(), lease=LEASE, time=DatabaseClock())
    assert [claim.run_id for claim in claims] == [second.pk]


def test_hold_and_release_are_written_down_once(db: PrivateDatabase) -> None:
    before = timezone.now() - timedelta(minutes=1)
    assert [
        holding.hold(Database(), Hold.QUEUE, "vip", BY),
        holding.hold(Database(), Hold.QUEUE, "vip", Verb("eve", "me too")),
    ] == [
        True,
        False,
    ]
    found = Hold.objects.get()
    assert (found.kind, found.name, found.actor, found.reason) == ("queue", "vip", "ann", "the gateway is down")
    assert before < found.since < timezone.now() + timedelta(minutes=1)
    holding.hold(Database(), Hold.WORKFLOW, "vip", Verb())
    assert [holding.release(Database(), Hold.QUEUE, "vip", Verb("bob", "mended")) for _ in range(2)] == [True, False]
    assert [(one.queue, one.workflow, one.verb, one.actor, one.reason) for one in Audit.objects.order_by("pk")] == [
        ("vip", None, "hold", "ann", "the gateway is down"),
        (None, "vip", "hold", "", ""),
        ("vip", None, "release", "bob", "mended"),
    ]


def test_a_thing_is_held_once() -> None:
    Hold.objects.create(kind="queue", name="vip")
    with pytest.raises(IntegrityError, match="hold"), transaction.atomic():
        Hold.objects.create(kind="queue", name="vip")


def test_what_is_held_is_not_overdue(db: PrivateDatabase) -> None:
    late = {"wake_at": at(timedelta(minutes=-1))}
    make_run(Status.SCHEDULED, queue="vip", **late)
    make_run(Status.SCHEDULED, workflow="shop.ship", **late)
    make_run(Status.SCHEDULED, **late)
    now = timezone.now()
    found = Held(frozenset({"vip"}), frozenset({"shop.ship"}))
    assert (overdue_wakes(now), overdue_wakes(now, found)) == (3, 1)
    assert standing(now).overdue[Status.SCHEDULED].number == 3
    assert standing(now, found).overdue[Status.SCHEDULED].number == 1


def test_the_window_of_a_list_shows_none_of_a_held_workflow(db: PrivateDatabase) -> None:
    make_run(priority=9, workflow="shop.ship")
    run = make_run()
    assert [one.id for one in workers.first_startable(db, "default", 1, without={"shop.ship"})] == [run.pk]
