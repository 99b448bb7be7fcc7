"""Connections of a victim: what state they are in, and how they stay from case to case."""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper

from django_durable.store import database


class KeptConnections:
    """The engine's private connections of this process: of a case that is over the next one takes them up. To open
    them anew takes as long as all else that a case does."""

    def __init__(self) -> None:
        self._free: list[BaseDatabaseWrapper] = []
        self._taken: list[BaseDatabaseWrapper] = []
        self._copy = database._private_copy
        database._private_copy = self._take

    def _take(self, original: BaseDatabaseWrapper) -> BaseDatabaseWrapper:
        self._taken.append(self._free.pop() if self._free else self._copy(original))
        return self._taken[-1]

    def take_back(self) -> None:
        """Nobody uses those any more that were taken."""
        for link in reversed(self._taken):
            close_if_unusable(link)
        self._free += reversed(self._taken)
        self._taken.clear()


def is_in_transaction(link: BaseDatabaseWrapper) -> bool:
    """Also in one that has failed."""
    if not is_open(link):
        return False
    if link.vendor == "sqlite":
        return bool(link.connection.in_transaction)
    return bool(link.connection.info.transaction_status.name != "IDLE")


def close_if_unusable(link: BaseDatabaseWrapper) -> None:
    """What the next case is to find is open and at rest, or closed."""
    if link.connection is not None and (is_in_transaction(link) or not link.is_usable()):
        link.close()


def is_open(link: BaseDatabaseWrapper) -> bool:
    return link.connection is not None and not getattr(link.connection, "closed", False)


def run_out(link: BaseDatabaseWrapper) -> int | None:
    """Let the limit that the engine has set to its idle transaction be reached by now; the session that the server
    then ends, None where no limit was set. The clock that tests move is not the server's own."""
    limit = "idle_in_transaction_session_timeout"
    found = link.connection.execute(
        f"SELECT set_config('{limit}', '1ms', true) FROM (SELECT 1 WHERE current_setting('{limit}') <> '0') AS limited"
    ).fetchone()
    return link.connection.info.backend_pid if found else None
