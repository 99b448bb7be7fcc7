"""What commands share: who asks, and how text from a shell becomes values (and back)."""

from __future__ import annotations

import json
import os
import re
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.core.management.base import CommandError
from django.db import Error

from ...core.payloads.codec import decode
from ...exceptions import DurableError, PayloadUndecodable

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def actor() -> str:
    """Who is at the shell, for the audit. From the process, not from the environment, which anybody may set."""
    try:
        import pwd

        return f"shell:{pwd.getpwuid(os.getuid()).pw_name}"
    except (ImportError, KeyError):
        # A container may run as a number without a name.
        return f"shell:{getattr(os, 'getuid', lambda: 'unknown')()}"


def run_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no run id") from None


def duration(text: str) -> float:
    """Seconds from ``90s``, ``30m``, ``12h``, ``7d`` or ``2w``."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise ArgumentTypeError(f"{text!r} is no duration: write 90s, 30m, 12h, 7d or 2w")
    return float(found[1]) * _SECONDS[found[2]]


def positive(text: str) -> int:
    # What is longer fits no column, and beyond some thousand digits Python reads none.
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number from 1 to 999,999,999, not {text[:80]!r}")
    return int(text)


def read_json(text: str, option: str) -> Any:
    """The value of JSON text, in which the codec's tags may stand for what JSON has no word for."""
    try:
        json.loads(text)
        return decode(text)
    except json.JSONDecodeError as error:
        raise CommandError(f"{option} is no JSON: {error}.") from None
    except (PayloadUndecodable, RecursionError, ValueError) as error:
        raise CommandError(f"{option} cannot be read: {error}") from None


def write_json(value: Any) -> str:
    return json.dumps(value, indent=2, default=_plain_value)


def _plain_value(value: Any) -> Any:
    return iso(value) if isinstance(value, datetime) else str(value)


def iso(value: datetime | None) -> str | None:
    """UTC, to the millisecond."""
    return None if value is None else value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def printable(text: object) -> str:
    """Text that cannot steer a terminal: what does not print is escaped."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(text))


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """Columns under their names, aligned."""
    cells = [list(rows[0]), *([printable("" if cell is None else cell) for cell in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


@contextmanager
def clear_errors() -> Iterator[None]:
    """What users and operators can mend ends as one sentence and exit status 1, not as a traceback."""
    try:
        yield
    except DurableError as error:
        raise CommandError(printable(error)) from error
    except UnicodeEncodeError as error:
        raise CommandError(f"{printable(repr(error.object))} is no text: its bytes are not UTF-8.") from None
    except Error as error:
        raise CommandError(f"The database did not do it: {printable(error).strip()}") from error
