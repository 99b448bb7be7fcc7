"""Django signals of a run's life, sent after the commit with ``send_robust`` (see docs/signals.md)."""

from django.dispatch import Signal

run_enqueued = Signal()
run_started = Signal()
run_waiting = Signal()
run_succeeded = Signal()
run_failed = Signal()
run_cancelled = Signal()
run_blocked = Signal()
step_succeeded = Signal()
step_retrying = Signal()
step_failed = Signal()
schedule_fired = Signal()
