"""Whether an error says something of the database and not of what was asked: the same may do on another session."""

from __future__ import annotations

from django.db.utils import InterfaceError, OperationalError

PROGRAM_LIMIT_EXCEEDED = "54"
"""A class of SQLSTATEs: these would come back for ever."""

TOO_MUCH = frozenset({"57014", "25P04", "53200"})
"""SQLSTATEs of what took longer than the server allows (``statement_timeout``, ``transaction_timeout``), or more memory
than it has: less of it may do. Both may as well be a server that is busy with others: the same is worth another try."""

SESSION_IS_UNFIT = frozenset(
    {
        # We froze in a transaction, and the server ended it; or it took longer than the server allows one to.
        "25P03",
        "25P04",
        # The server was demoted, or its provider lets nobody write while a disk is full.
        "25006",
    }
)
"""SQLSTATEs that psycopg raises as errors of the engine's own making (InternalError), and which are none."""


def is_out_of_reach(error: BaseException) -> bool:
    """Whether it was the connection, or what it was connected to."""
    state = _sqlstate(error)
    if isinstance(error, OperationalError | InterfaceError):
        return not state.startswith(PROGRAM_LIMIT_EXCEEDED)
    return state in SESSION_IS_UNFIT


def is_too_much(error: BaseException) -> bool:
    """Whether half of what was asked may do."""
    return _sqlstate(error) in TOO_MUCH


def _sqlstate(error: BaseException) -> str:
    return str(getattr(error.__cause__, "sqlstate", None) or "")
