"""``manage.py durable_check``: do the invariants hold? Read-only."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ...conf import durable_settings
from ...store.database import Database
from ...store.invariants import WINDOW, Bounds, Finding
from ...store.invariants.reading import TIMEOUT
from ...store.invariants.terms import Terms
from ._check.examinations import EXAMINATIONS, IDS, Examination
from ._check.telling import as_data, lines
from ._shell import clear_errors, plural, positive, write_json

SWEEPS = 3
NOT_KNOWN = 2


class Command(BaseCommand):
    help = (
        "Looks for what must never be in the tables, and for what should have moved. Changes nothing; exit status 1 if "
        "there is a violation, 2 if something could not be told."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--limit", type=positive, default=20, help="violations shown of each (default 20)")
        parser.add_argument("--batch-size", type=positive, default=WINDOW, help=f"rows in a look (default {WINDOW:,})")
        parser.add_argument("--timeout", type=_seconds, default=TIMEOUT, help="of a statement (default 10 seconds)")
        parser.add_argument("--only", type=_ids, default=[], metavar="ID,...", help="these invariants alone")
        parser.add_argument("--payloads", action="store_true", help="also read every stored value, which takes long")
        parser.add_argument("--json", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        bounds = Bounds(options["limit"], options["batch_size"], options["timeout"])
        findings = []
        with clear_errors():
            # Younger than this may merely not have been swept yet.
            terms = Terms.now(SWEEPS * durable_settings().REAP_SECONDS + durable_settings().POLL_SECONDS)
            for examination in _chosen(options["only"], options["payloads"]):
                findings.append(finding := examination.look(Database(), terms, bounds))
                if not options["json"]:
                    self.stdout.write("\n".join(lines(finding)))
        if options["json"]:
            self.stdout.write(write_json(as_data(findings)))
        _judge(findings)


def _chosen(only: Sequence[str], payloads: bool) -> list[Examination]:
    if only:
        return [one for one in EXAMINATIONS if one.id in only]
    return [one for one in EXAMINATIONS if payloads or not one.is_asked_for]


def _judge(findings: Sequence[Finding]) -> None:
    if count := sum(len(one.violations) for one in findings):
        raise CommandError(f"{plural(count, 'violation')} found.")
    if unknown := [one.id for one in findings if one.not_known]:
        raise CommandError(f"It could not be told whether these hold: {', '.join(unknown)}.", returncode=NOT_KNOWN)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:
        raise ArgumentTypeError(f"must be a number of seconds above 0, not {text!r}")
    return seconds


def _ids(text: str) -> list[str]:
    ids = [name.strip() for name in text.split(",")]
    if unknown := [name for name in ids if name not in IDS]:
        raise ArgumentTypeError(f"there is no invariant {unknown[0]!r}; there are {', '.join(IDS)}")
    return ids
