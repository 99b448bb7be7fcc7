"""The ``ctx`` calls of one line of a ``def`` workflow: in its own thread, and in no transaction of its code's."""

from __future__ import annotations

import threading

from ..core.flow.executing import executing_line
from ..core.flow.flow import Flow
from .misuse import refuse_other_thread, refuse_outer_context
from .transactions import connections_here, open_transactions, refuse_open_transaction


class SyncCalls:
    """What is known of where the line runs, and of its latest call."""

    __slots__ = ("_name", "_thread", "connections", "outer")

    def __init__(self) -> None:
        self.outer = open_transactions()
        """What was open before the line began."""
        self.connections = connections_here()
        self._thread = threading.get_ident()
        self._name = ""

    def refuse(self, flow: Flow, name: str) -> None:
        """Raise where the line ``flow`` cannot make the call ``name`` here and now."""
        line = executing_line()
        if line is not None and line is not flow:
            refuse_outer_context(flow, name, self._name)
        if threading.get_ident() != self._thread:
            refuse_other_thread(flow, self._thread, name)
        if flow.outcome is None:
            refuse_open_transaction(self.outer, self.connections)
        self._name = name
