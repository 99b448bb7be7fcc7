"""Queues and workflows that an operator holds: no run of theirs is claimed. What is being worked on goes on to its next
suspension, and what starts runs starts them as ever."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from ..core.registry import names_of
from ..models import Audit, Hold
from .auditing import ACTOR_MAX, Verb
from .claiming import Claimant
from .clock import DatabaseNow
from .database import Database
from .sql import holds as sql


class Held(NamedTuple):
    """``workflows``: under each name that this process knows them by."""

    queues: frozenset[str] = frozenset()
    workflows: frozenset[str] = frozenset()

    def covers(self, queue: str, workflow: str) -> bool:
        return queue in self.queues or workflow in self.workflows


NOTHING = Held()


def held(db: Database) -> Held:
    """What is held now."""
    [(text,)] = db.rows(f"SELECT {sql.held(db.dialect)}")
    return read_held(text)


def read_held(text: str | None) -> Held:
    """From what ``sql.held`` gives."""
    return held_of(json.loads(text) if text else ())


def held_of(pairs: Iterable[tuple[str, str]]) -> Held:
    """From kinds and names."""
    queues: set[str] = set()
    workflows: set[str] = set()
    for kind, name in pairs:
        if kind == Hold.QUEUE:
            queues.add(name)
        else:
            workflows.update(names_of(name))
    return Held(frozenset(queues), frozenset(workflows))


def narrowed(who: Claimant, held: Held) -> Claimant:
    """The same claimant, who claims nothing of what is held."""
    if held == NOTHING:
        return who
    return replace(
        who,
        queues=tuple(name for name in who.queues if name not in held.queues),
        workflows=tuple(name for name in who.workflows if name not in held.workflows),
    )


def hold(db: Database, kind: str, name: str, by: Verb) -> bool:
    """Hold it; whether nobody did before: then the hold stays as it was."""
    with db.transaction():
        given = {"actor": by.actor[:ACTOR_MAX], "reason": by.reason, "since": DatabaseNow()}
        _, is_new = Hold.objects.using(db.alias).get_or_create(kind=kind, name=name, defaults=given)
        if is_new:
            _audit(db, kind, name, "hold", by)
    return is_new


def release(db: Database, kind: str, name: str, by: Verb) -> bool:
    """End the hold; whether there was one."""
    with db.transaction():
        count, _ = Hold.objects.using(db.alias).filter(kind=kind, name=name).delete()
        if count:
            _audit(db, kind, name, "release", by)
    return bool(count)


def _audit(db: Database, kind: str, name: str, verb: str, by: Verb) -> None:
    Audit.objects.using(db.alias).create(
        **{kind: name},
        verb=verb,
        actor=by.actor[:ACTOR_MAX],
        reason=by.reason,
        status_before="" if verb == "hold" else "held",
        at=DatabaseNow(),
    )
