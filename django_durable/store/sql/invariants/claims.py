"""Who has worked on a run: its claims, and what was written under them.

A claim has a token and, kept beside it, a worker and a time (``ClaimRecord``, the first one in the run's row). No row
says which token was whose claim's: what a token can be held against is the lease of a run that is being worked on.
"""

from __future__ import annotations

from ...dialects import Dialect
from ..claim_records import KEPT
from .windows import SLACK, in_window, judged, judged_runs

NEEDS_A_CLAIM = "('running', 'waiting', 'succeeded', 'failed')"


def counted(d: Dialect) -> str:
    """I4: ``claims`` counts what has happened, and a run is worked on under its latest claim, by whoever made that."""
    latest = f"""SELECT 1 FROM django_durable_claimrecord k
        WHERE k.run_id = r.id AND k.place = r.claims %% {KEPT} AND k.number = r.claims AND"""
    other = "r.claims = 1 AND r.started_by <> r.leased_by"
    return judged_runs(f"""
        WHEN r.claims = 0 AND (r.started_at IS NOT NULL OR r.started_by IS NOT NULL) THEN 'started, and never claimed'
        WHEN r.claims > 0 AND r.started_at IS NULL THEN 'claimed, and never started'
        WHEN r.claims = 0 AND r.status IN {NEEDS_A_CLAIM} THEN r.status || ', and never claimed'
        WHEN r.status = 'running' AND ({other} OR ({latest} k.worker_id <> r.leased_by LIMIT 1) IS NOT NULL)
            THEN 'leased by a worker that did not make its latest claim'
        WHEN r.status = 'running' AND ({latest} k.lost_at IS NOT NULL LIMIT 1) IS NOT NULL
            THEN 'running under a claim that was taken away'""")


def kept(d: Dialect) -> str:
    """I4: the claims that are kept are those that are counted, one after the other: none begins before the one before
    it was lost."""
    following = f"""django_durable_claimrecord n
        ON n.run_id = k.run_id AND n.place = (k.number + 1) %% {KEPT} AND n.number = k.number + 1"""
    claim, after = "'claim ' || k.number", "'claim ' || n.number"
    return judged(
        "k.run_id AS run_id, k.number AS number",
        f"""
        WHEN k.number > r.claims THEN {claim} || ' is kept, and the run counts ' || r.claims
        WHEN k.number < 1 OR k.place <> k.number %% {KEPT} THEN {claim} || ' is kept in the place ' || k.place
        WHEN k.number > 1 AND {d.after("k.claimed_at", SLACK)} < r.started_at
            THEN {claim} || ' was made before the first'
        WHEN {d.after("k.lost_at", SLACK)} < k.claimed_at THEN {claim} || ' was lost before it was made'
        WHEN {d.after("n.claimed_at", SLACK)} < k.claimed_at THEN {after} || ' was made before ' || {claim}
        WHEN {d.after("n.claimed_at", SLACK)} < k.lost_at
            THEN {after} || ' was made before ' || {claim} || ' was taken away'""",
        f"""django_durable_claimrecord k JOIN django_durable_run r ON r.id = k.run_id LEFT JOIN {following}
        WHERE {in_window("k.run_id")} AND {in_window("r.id")}""",
        order="run_id, number",
    )


def entries(d: Dialect) -> str:
    """I5, of the journal: nothing was written before the first claim, and while a run is worked on, nothing since its
    latest claim but under the token of that.

    A fork begins with entries of another run, which are as old, and under such tokens, as they were there. When an
    entry was written last no column says: with a later ``started_at`` or ``finished_at`` it was after that.
    """
    latest = f"""django_durable_claimrecord k ON k.run_id = r.id AND k.place = r.claims %% {KEPT}
        AND k.number = r.claims AND k.worker_id = r.leased_by"""
    claimed = "CASE WHEN r.claims = 1 THEN r.started_at ELSE k.claimed_at END"
    is_own = "r.forked_from IS NULL"
    is_since = f"(r.claims = 1 AND {is_own} OR j.started_at > {claimed} OR j.finished_at > {claimed})"
    entry = "'the journal entry ' || j.path"
    return judged(
        "j.run_id AS run_id, j.seq AS seq",
        f"""
        WHEN {is_own} AND r.claims = 0 THEN {entry} || ' of a run that was never claimed'
        WHEN {is_own} AND {d.after("j.started_at", SLACK)} < r.started_at
            THEN {entry} || ' is older than the first claim'
        WHEN r.status = 'running' AND j.token <> r.lease_token AND {is_since}
            THEN {entry} || ' was written under a token that is not the lease''s'""",
        f"""django_durable_journalentry j JOIN django_durable_run r ON r.id = j.run_id LEFT JOIN {latest}
        WHERE {in_window("j.run_id")} AND {in_window("r.id")}""",
        order="run_id, seq",
    )


def tokens(d: Dialect) -> str:
    """I5: each claim has one token, so that a journal has no more of them than the run was claimed."""
    return f"""
        SELECT r.id, count(DISTINCT j.token) || ' tokens in the journal of a run with ' || r.claims || ' claims'
        FROM django_durable_journalentry j JOIN django_durable_run r ON r.id = j.run_id
        WHERE {in_window("j.run_id")} AND {in_window("r.id")} AND r.claims > 0 AND r.forked_from IS NULL
        GROUP BY r.id, r.claims HAVING count(DISTINCT j.token) > r.claims
        ORDER BY r.id LIMIT %(limit)s"""


def events(d: Dialect) -> str:
    """I5, of events: only somebody with a claim takes one, for a wait, and nobody once the run is over.

    What takes one in the commit that ends its run does so in an earlier statement of that; a resume clears the end.
    """
    return judged(
        "e.run_id AS run_id, e.id AS number",
        f"""
        WHEN e.consumed_at IS NULL THEN NULL
        WHEN r.claims = 0 THEN 'an event was taken, and the run never claimed'
        WHEN {d.after("e.consumed_at", SLACK)} < r.started_at THEN 'an event was taken before the first claim'
        WHEN e.consumed_at > {d.after("r.finished_at", SLACK)} THEN 'an event was taken when the run was over'
        WHEN e.consumed_by = '' THEN 'an event was taken by no wait'""",
        f"""django_durable_event e JOIN django_durable_run r ON r.id = e.run_id
        WHERE {in_window("e.run_id")} AND {in_window("r.id")}""",
        order="run_id, number",
    )


def children(d: Dialect) -> str:
    """I5, of children: only somebody with a claim of its parent starts one."""
    parent = "SELECT 1 FROM django_durable_run p WHERE p.id = r.parent_id AND p.claims = 0 LIMIT 1"
    return judged_runs(f"""
        WHEN r.parent_id IS NOT NULL AND ({parent}) IS NOT NULL THEN 'a child of a run that was never claimed'""")
