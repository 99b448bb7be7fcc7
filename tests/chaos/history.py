"""What PostgreSQL itself notes of every lease that is given, ended or taken away, and of every journal entry.

Triggers write a line into a table of ours in the very transaction that they tell of. A row shows how things stand, and
who writes without the right to do so leaves a row like any other: only the order of what was written shows it.

The order of the lines of one run is that in which its row was locked: who writes for a run locks that first, and its
line is numbered while the lock is held.
"""

from __future__ import annotations

from django.db import connection

from tests.chaos.evidence import Change, Written

TRIGGERS = """
CREATE TABLE chaos_change (
    seq bigint NOT NULL, xid bigint NOT NULL, at double precision NOT NULL, run uuid NOT NULL,
    was text NOT NULL, status text NOT NULL, old_token uuid, token uuid, worker uuid, claims integer NOT NULL,
    crashes integer NOT NULL, suspect boolean NOT NULL, lapsed boolean NOT NULL, cancelling boolean NOT NULL,
    limit_key text);
CREATE TABLE chaos_written (
    seq bigint NOT NULL, xid bigint NOT NULL, at double precision NOT NULL, run uuid NOT NULL,
    path text NOT NULL, kind text NOT NULL, status text NOT NULL, attempts integer NOT NULL, token uuid NOT NULL,
    execution text);
CREATE SEQUENCE chaos_seq;
CREATE FUNCTION chaos_note_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos_change VALUES (
        nextval('chaos_seq'), pg_current_xact_id()::text::bigint, extract(epoch FROM clock_timestamp()), NEW.id,
        OLD.status, NEW.status, OLD.lease_token, NEW.lease_token, coalesce(NEW.leased_by, OLD.leased_by), NEW.claims,
        NEW.crashes, NEW.suspect, coalesce(OLD.lease_expires_at <= statement_timestamp(), false),
        NEW.cancel_requested_at IS NOT NULL, NEW.limit_key);
    RETURN NULL;
END $$;
CREATE FUNCTION chaos_note_written() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO chaos_written VALUES (
        nextval('chaos_seq'), pg_current_xact_id()::text::bigint, extract(epoch FROM clock_timestamp()), NEW.run_id,
        NEW.path, NEW.kind, NEW.status, NEW.attempts, NEW.token,
        substring(right(NEW.value, 40) FROM '"by":"([0-9a-f]{12})"'));
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_change AFTER UPDATE ON django_durable_run FOR EACH ROW WHEN (
    OLD.status <> NEW.status OR OLD.lease_token IS DISTINCT FROM NEW.lease_token OR OLD.crashes <> NEW.crashes
    OR OLD.cancel_requested_at IS DISTINCT FROM NEW.cancel_requested_at) EXECUTE FUNCTION chaos_note_change();
CREATE TRIGGER chaos_written AFTER INSERT OR UPDATE ON django_durable_journalentry
    FOR EACH ROW EXECUTE FUNCTION chaos_note_written();
"""

NO_TRIGGERS = """
DROP TRIGGER IF EXISTS chaos_change ON django_durable_run;
DROP TRIGGER IF EXISTS chaos_written ON django_durable_journalentry;
DROP TABLE IF EXISTS chaos_change, chaos_written;
DROP SEQUENCE IF EXISTS chaos_seq;
DROP FUNCTION IF EXISTS chaos_note_change;
DROP FUNCTION IF EXISTS chaos_note_written;
"""


def begin_history() -> None:
    """Note from now on what becomes of runs and their journals, in tables that are empty."""
    end_history()
    with connection.cursor() as cursor:
        cursor.execute(TRIGGERS)


def end_history() -> None:
    with connection.cursor() as cursor:
        cursor.execute(NO_TRIGGERS)


def changes() -> list[Change]:
    """What became of the runs, in its order."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT seq, xid, at, run::text, was, status, old_token::text, token::text, worker::text, claims, crashes,"
            " suspect, lapsed, cancelling, limit_key FROM chaos_change ORDER BY seq"
        )
        return [Change(*row) for row in cursor.fetchall()]


def writings() -> list[Written]:
    """What was written into the journals, in its order."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT seq, xid, at, run::text, path, kind, status, attempts, token::text, execution"
            " FROM chaos_written ORDER BY seq"
        )
        return [Written(*row) for row in cursor.fetchall()]
