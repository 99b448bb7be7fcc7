"""A run's own row: its lease, its end, its crashes and its attempts."""

from __future__ import annotations

from ...dialects import Dialect
from ..endings import ALL, TERMINAL
from .windows import SLACK, in_window, is_none, is_some, judged, judged_runs


def lease(d: Dialect) -> str:
    """I1: running <=> lease_token, leased_by and lease_expires_at are set; else all three are null."""
    missing = "r.lease_token IS NULL OR r.leased_by IS NULL OR r.lease_expires_at IS NULL"
    present = "r.lease_token IS NOT NULL OR r.leased_by IS NOT NULL OR r.lease_expires_at IS NOT NULL"
    return judged_runs(f"""
        WHEN r.status = 'running' AND ({missing}) THEN 'running without a whole lease'
        WHEN r.status <> 'running' AND ({present}) THEN r.status || ' with a lease'""")


def standing(d: Dialect) -> str:
    """A run's status is one of the nine, and the columns that go with it are set."""
    return judged_runs(f"""
        WHEN r.status NOT IN {ALL} THEN 'in a status that there is not: ' || r.status
        WHEN r.status = 'scheduled' AND r.wake_at IS NULL THEN 'scheduled for no time'
        WHEN r.status = 'queued' AND r.queued_at IS NULL THEN 'queued since no time'
        WHEN r.status = 'waiting' AND r.waiting_on = '' THEN 'waiting, and does not say on what'
        WHEN r.status = 'blocked' AND r.block_reason = '' THEN 'blocked for no reason'
        WHEN r.status <> 'blocked' AND r.block_reason <> '' THEN r.status || ', and blocked for ' || r.block_reason""")


def ending(d: Dialect) -> str:
    """I2: terminal <=> finished_at; succeeded has an output and no error, failed an error and no output."""
    output, error = _payload("output"), _payload("error")
    return judged_runs(f"""
        WHEN r.status IN {TERMINAL} AND r.finished_at IS NULL THEN r.status || ' without finished_at'
        WHEN r.status NOT IN {TERMINAL} AND r.finished_at IS NOT NULL THEN r.status || ' with finished_at'
        WHEN r.status = 'succeeded' AND {is_none(output)} THEN 'succeeded without an output'
        WHEN r.status = 'succeeded' AND {is_some(error)} THEN 'succeeded with an error'
        WHEN r.status = 'failed' AND {is_none(error)} THEN 'failed without an error'
        WHEN r.status = 'failed' AND {is_some(output)} THEN 'failed with an output'""")


def _payload(kind: str) -> str:
    return f"SELECT 1 FROM django_durable_payload p WHERE p.run_id = r.id AND p.kind = '{kind}'"


def final(d: Dialect) -> str:
    """I3: what is over changes by a resume only, and what has succeeded not even by that.

    Whoever resumes a run clears its end, so that nothing of one that is over is later than that. A live one may have an
    output only where it was cancelled before, and undoes what it did; and an error only while it undoes that, or
    ``on_failure`` is called: a resume takes both away.
    """
    ended = d.after("r.finished_at", SLACK)
    claim = f"SELECT 1 FROM django_durable_claimrecord k WHERE k.run_id = r.id AND k.claimed_at > {ended}"
    entry = f"SELECT 1 FROM django_durable_journalentry j WHERE j.run_id = r.id AND j.finished_at > {ended}"
    audit = "SELECT 1 FROM django_durable_audit a WHERE a.run_id = r.id AND a.verb"
    changed = f"{audit} IN ('cancel', 'pause') AND a.status_before IN {TERMINAL}"
    is_live = f"r.status NOT IN {TERMINAL}"
    has_output = f"r.cancel_requested_at IS NULL AND {is_some(_payload('output'))}"
    has_error = f"r.phase = 'forward' AND {is_some(_payload('error'))}"
    return judged_runs(f"""
        WHEN r.started_at > {ended} OR {is_some(claim)} THEN r.status || ', and claimed after that'
        WHEN {is_some(entry)} THEN r.status || ', and journaled something after that'
        WHEN {is_some(changed)} THEN 'cancelled or paused when it was over'
        WHEN {is_some(f"{audit} = 'resume' AND a.status_before = 'succeeded'")} THEN 'resumed when it had succeeded'
        WHEN {is_live} AND {has_output} THEN r.status || ', and has the output of one that succeeded'
        WHEN {is_live} AND {has_error} THEN r.status || ', and has the error of one that failed'""")


def cancelled(d: Dialect) -> str:
    """I14: a run that was asked to stop before it was over ends cancelled, and a resume forgets that it was asked."""
    return judged_runs("""
        WHEN r.status IN ('succeeded', 'failed') AND r.cancel_requested_at IS NOT NULL
            THEN r.status || ', and was asked to stop before'""")


def crashes(d: Dialect) -> str:
    """I16: a run crashes no more often than it may, each time under a claim, and is suspect only where it can be.

    One that may still undo what it did when it is cancelled for its crashes goes on once more. What was cancelled keeps
    its suspicion; what ends otherwise loses it, and so does, in the same commit, what journals something new.
    """
    entry = "SELECT 1 FROM django_durable_journalentry j WHERE j.run_id = r.id AND j.token = r.lease_token"
    allowed = "CASE WHEN r.cancel_requested_at IS NULL THEN %(max_crashes)s ELSE %(max_crashes)s + 1 END"
    goes_on = f"r.status NOT IN ('blocked', 'succeeded', 'failed', 'cancelled') AND r.crashes >= {allowed}"
    return judged_runs(f"""
        WHEN r.crashes < 0 OR r.crashes > r.claims THEN r.crashes || ' crashes in ' || r.claims || ' claims'
        WHEN r.crashes > {allowed} THEN r.crashes || ' crashes, and it may have ' || %(max_crashes)s
        WHEN {goes_on} THEN r.status || ' after ' || r.crashes || ' crashes'
        WHEN r.status = 'blocked' AND r.block_reason = 'crashed' AND r.crashes = 0 THEN 'blocked for crashes, of none'
        WHEN r.suspect AND r.status NOT IN ('queued', 'running', 'paused', 'blocked', 'cancelled')
            THEN r.status || ', and suspect'
        WHEN r.suspect AND r.claims = 0 THEN 'suspect, and never claimed'
        WHEN r.suspect AND r.status = 'running' AND {is_some(entry)}
            THEN 'suspect, and has journaled under its lease'""")


def attempts(d: Dialect) -> str:
    """I17, of the run as a whole: no more attempts than it was given, and each under a claim of its own."""
    return judged_runs("""
        WHEN r.attempt < 1 THEN 'attempt ' || r.attempt
        WHEN r.attempt > r.max_attempts THEN 'attempt ' || r.attempt || ' of ' || r.max_attempts
        WHEN r.attempt > r.claims + 1 THEN 'attempt ' || r.attempt || ' after ' || r.claims || ' claims'""")


EARLY = "-0.1"
"""Seconds. A worker knows the database's time by its own clock since it last heard of it, and that may be a little
faster."""


def sleeps(d: Dialect) -> str:
    """I17, of sleeps: none has ended before its time."""
    too_early = f"j.kind = 'sleep' AND j.status = 'succeeded' AND j.finished_at < {d.after('j.wake_at', EARLY)}"
    return judged(
        "j.run_id AS run_id, j.seq AS seq",
        f"WHEN {too_early} THEN 'the sleep ' || j.path || ' ended early'",
        f"django_durable_journalentry j WHERE {in_window('j.run_id')}",
        order="run_id, seq",
    )
