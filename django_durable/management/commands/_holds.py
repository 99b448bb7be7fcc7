"""What the commands that hold and release share."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from django.core.management.base import BaseCommand

from ._shell import actor, clear_errors, printable


class HoldCommand(BaseCommand):
    """Does ``verbs`` to each of the queues or workflows that are named."""

    requires_system_checks: list[str] | tuple[str, ...] | Literal["__all__"] = ()
    verbs: ClassVar[Mapping[str, Callable[..., bool]]]
    done: ClassVar[str]
    was_so: ClassVar[str]

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("kind", choices=sorted(self.verbs), help="what the names are of")
        parser.add_argument("names", metavar="NAME", nargs="+", help="names of queues or of workflows")
        parser.add_argument("--reason", default="", help="kept in the audit")

    def handle(self, *args: Any, **options: Any) -> None:
        for name in options["names"]:
            with clear_errors():
                is_new = self.verbs[options["kind"]](name, reason=options["reason"], actor=actor())
            self.stdout.write(f"{options['kind']} {printable(name)} {self.done if is_new else self.was_so}")
