"""Why an attempt may begin nothing new."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from ...exceptions import RunTimeout
from ..journal.outcomes import Cancelled, Failed, Lost, Outcome, Paused, Released
from ..payloads.failures import describe
from .lease import Lease
from .run_info import RunInfo


def reason_to_halt(lease: Lease, run: RunInfo, heeds_cancel: bool, now: Callable[[], datetime]) -> Outcome | None:
    """How the attempt is to end: lease (nearly) over, asked to stop or to pause, out of time. None: it goes on."""
    if lease.is_over:
        return Lost()
    if lease.cancel_requested and heeds_cancel:
        return Cancelled()
    if lease.pause_requested:
        return Paused()
    if lease.release_requested:
        return Released()
    if run.deadline_at is not None and now() >= run.deadline_at:
        return Failed(describe(RunTimeout(run.run_id)))
    # Nobody renews it. As long as it lasts the run can still be handed back, so that it need not lapse.
    return Released() if lease.ends_within(run.lease_margin) else None
