"""The points at which a fault can be made, and how this process is made to stop at each of them.

Every SQL statement, on the engine's private connections and on Django's; every COMMIT; every Redis command of the
queue; and a table of the engine's functions where something is durable, known or decided and no statement stands:
before each and after it. Installed in a process that does nothing else: nothing is ever put back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from django_durable.store.kept_cursor import KeptCursor
from tests.faults.kinds import ALL, OF_READS, READING_COMMANDS, WRITES, Action, Point, label_of
from tests.faults.named import MODULES, NAMED, STEP_BODY, Named

T = TypeVar("T")


Strike = Callable[[Action, str, Callable[[], Any], "BaseDatabaseWrapper | None", type[Exception]], Any]
"""Does what the action says at the point of that label: what to do there, the connection, the error to raise."""


class Points:
    """Counts the points that this process passes; at number ``k`` of a case it strikes once."""

    def __init__(self, strike: Strike) -> None:
        self.links: list[BaseDatabaseWrapper] = []
        """Every connection that this process has opened."""
        self._strike = strike
        self.begin(None, 0)

    def begin(self, action: Action | None, k: int) -> None:
        """From here on a new case. ``k`` 0: points are only counted."""
        self.passed: list[Point] = []
        self.has_struck = False
        self.is_counting = True
        self._action = action
        self._k = k

    def at(
        self,
        point: Point,
        do: Callable[[], T],
        link: BaseDatabaseWrapper | None = None,
        error: type[Exception] = OperationalError,
    ) -> T:
        """Do it, or what is to happen here in place of that."""
        if self.has_struck or not self.is_counting:
            return do()
        self.passed.append(point)
        if len(self.passed) != self._k or self._action is None:
            return do()
        self.has_struck = True
        struck: T = self._strike(self._action, point.label, do, link, error)
        return struck

    # --- installing ----------------------------------------------------------------------------

    def install(self, *, is_postgres: bool) -> None:
        """From now on this process stops at every point."""
        self._common = ALL if is_postgres else ALL - {Action.TERMINATE}
        connection_created.connect(self._opened, weak=False, dispatch_uid="tests.faults")
        self._install_typed()
        for link in connections.all(initialized_only=True):
            self._opened(link)
        self._install_commits()
        self._install_redis()
        for named in NAMED:
            self._install_named(named)

    def _opened(self, connection: BaseDatabaseWrapper, **_: object) -> None:
        if self._statement not in connection.execute_wrappers:
            connection.execute_wrappers.append(self._statement)
            self.links.append(connection)

    def _install_typed(self) -> None:
        """Where somebody listens to a connection, what goes without a cursor would go through one."""
        from django_durable.store import of_thread

        kept: Any = KeptCursor
        of_ours, of_djangos = kept._typed_rows, of_thread.typed_rows

        def ours(kept: Any, sql: str, parameters: Any) -> Any:
            if kept._typed is None:
                return None
            return self._unheard(kept._wrapper, sql, lambda: of_ours(kept, sql, parameters))

        def djangos(connection: Any, sql: Any, parameters: Any) -> Any:
            if connection.in_atomic_block:
                return None
            # Else there would be no session that can be ended.
            connection.ensure_connection()
            return self._unheard(connection, sql, lambda: of_djangos(connection, sql, parameters))

        kept._typed_rows = ours
        of_thread.typed_rows = djangos

    def _unheard(self, link: BaseDatabaseWrapper, sql: str, send: Callable[[], T]) -> T:
        def do() -> T:
            heard, link.execute_wrappers = link.execute_wrappers, []
            try:
                return send()
            finally:
                link.execute_wrappers = heard

        return self.at(self._point(sql), do, link)

    def _statement(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        point = self._point(sql)
        if sql.startswith("BEGIN") and not link_is_private(context["connection"]):
            # Django takes no transaction for begun that was not; and SQLite, in the same process, answers.
            point = point._replace(allows=point.allows - {Action.AFTER})
        return self.at(point, lambda: execute(sql, params, many, context), context["connection"])

    def _point(self, sql: str) -> Point:
        repeats = frozenset() if WRITES.search(sql) else OF_READS
        return Point(label_of(sql), self._common - repeats, repeats)

    def _install_commits(self) -> None:
        wrapper: Any = BaseDatabaseWrapper
        commit, points = wrapper._commit, self

        def _commit(link: BaseDatabaseWrapper) -> None:
            points.at(Point("COMMIT of Django's", points._common), lambda: commit(link), link)

        wrapper._commit = _commit

    def _install_redis(self) -> None:
        import redis
        from redis.client import Pipeline

        from django_durable.queues.unawaited import Unawaited

        awaited: Any = redis.Redis
        unawaited: Any = Unawaited
        in_one_trip: Any = Pipeline
        execute, execute_all, send, points = awaited.execute_command, in_one_trip.execute, unawaited.send, self

        def point_of(names: Sequence[str]) -> Point:
            repeats = OF_READS if set(names) <= set(READING_COMMANDS) else frozenset()
            return Point(f"redis {' '.join(names)}", ALL - {Action.TERMINATE} - repeats, repeats)

        def execute_command(client: Any, *args: Any, **options: Any) -> Any:
            return points.at(
                point_of([args[0]]), lambda: execute(client, *args, **options), error=redis.ConnectionError
            )

        def execute_in_one_trip(pipe: Any, **options: Any) -> Any:
            point = point_of([args[0] for args, _ in pipe.command_stack])
            return points.at(point, lambda: execute_all(pipe, **options), error=redis.ConnectionError)

        def send_unawaited(self: Any, commands: Sequence[Any], **options: Any) -> Any:
            point = point_of([command[0] for command in commands])
            # The reply is waited for: whether a list has the id when it is asked for is chance otherwise, and with it
            # what comes next.
            options["is_awaited"] = True
            return points.at(point, lambda: send(self, commands, **options), error=redis.ConnectionError)

        awaited.execute_command = execute_command
        in_one_trip.execute = execute_in_one_trip
        unawaited.send = send_unawaited

    def _install_named(self, named: Named) -> None:
        owner: Any = MODULES[named.module]
        *path, attribute = named.attribute.split(".")
        for part in path:
            owner = getattr(owner, part)
        call = getattr(owner, attribute)
        before, after = self._sides(named)

        @wraps(call)
        def stopped_at(*args: Any, **options: Any) -> Any:
            if named.of is not None and not args[named.of]:
                return call(*args, **options)
            self.at(before, lambda: None)
            value = call(*args, **options)
            return self.at(after, lambda: value)

        setattr(owner, attribute, stopped_at)

    def _sides(self, named: Named) -> tuple[Point, Point]:
        """Its points before and after it."""
        # Nothing becomes durable from here to the next point, but for what a step's body does.
        repeats = frozenset() if named.name == STEP_BODY else frozenset({Action.DIE, Action.TERMINATE}) & self._common
        stays = self._common - {Action.BEFORE, Action.AFTER} - repeats
        first = Point(f"{named.name}, before", stays | _if(Action.BEFORE, named.may_fail), repeats)
        if named.begins_at_once:
            first = Point(first.label, frozenset(), first.allows | first.repeats)
        return first, Point(f"{named.name}, after", stays | _if(Action.AFTER, named.may_fail), repeats)


def link_is_private(link: BaseDatabaseWrapper) -> bool:
    """Whether it is one of the engine's own, which threads hand on."""
    return link.allow_thread_sharing


def _if(action: Action, may: bool) -> frozenset[Action]:
    return frozenset({action}) if may else frozenset()
