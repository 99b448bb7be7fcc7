"""Commands that ask the same of several runs."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any, ClassVar, Literal

from django.core.management.base import BaseCommand, CommandError

from ...client.handle import RunHandle, get_run
from ...exceptions import IllegalTransition, RunLocked, RunNotFound
from ._shell import clear_errors, plural, run_id


class RunsCommand(BaseCommand):
    """``act`` does it to one run and returns the line to print. One that refuses does not stop the others."""

    done: ClassVar[str]
    """The verb's participle: what a run that refuses could not be."""
    requires_system_checks: list[str] | tuple[str, ...] | Literal["__all__"] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("ids", nargs="+", type=run_id, metavar="ID")
        parser.add_argument("--reason", default="", help="kept in the audit")

    def handle(self, *args: Any, **options: Any) -> None:
        refused = 0
        with clear_errors():
            # All are looked up first: a mistyped id stops the command before it has done a part.
            for handle in [get_run(given) for given in options["ids"]]:
                try:
                    self.stdout.write(self.act(handle, options["reason"]))
                except (IllegalTransition, RunLocked, RunNotFound) as error:
                    refused += 1
                    self.stderr.write(str(error))
        if refused:
            raise CommandError(f"{plural(refused, 'run')} could not be {self.done}.")

    def act(self, handle: RunHandle[Any], reason: str) -> str:
        raise NotImplementedError
