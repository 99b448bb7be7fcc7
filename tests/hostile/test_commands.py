"""Whatever stands in a command line: the command does what it says or ends with one sentence, and no terminal obeys."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.admin.every import Rows, make_rows
from tests.admin.test_access import undone
from tests.admin.world import make_schedule
from tests.hostile.corpus import TEXTS
from tests.hostile.ends import the_next_ones_are_well
from tests.processes import Command

pytestmark = [pytest.mark.django_db, pytest.mark.contract, pytest.mark.queueless]

NOT_UTF_8 = "caf\udce9"
"""How Python gives bytes of a command line that are no text."""
WORDS = ("script", "template", "right to left", "line breaks", "forged line", "c1 controls", "long", "emoji", "quotes",
         "blank", "empty", "path", "lookup", "format bomb", "sql sleep", "option", "not a number", "negative",
         "huge number", "uuid", "tag", "dotted path")  # fmt: skip
ARGUMENTS = {**{what: TEXTS[what] for what in WORDS}, "no text": NOT_UTF_8}
"""A command line holds no NUL, and no megabyte in one word."""

HERE = "{here}"
LINES: dict[str, list[list[str]]] = {
    "durable_runs": [
        *([option, HERE] for option in ("--workflow", "--queue", "--tag", "--limit", "--status")),
        [HERE],
        ["--workflow", HERE, "--json"],
    ],
    "durable_enqueue": [
        [HERE],
        *(["app.doubling", "--input", '{"number": 1}', option, HERE]
          for option in ("--queue", "--priority", "--delay", "--key", "--tag")),
        ["app.doubling", "--input", HERE],
        ["hostile.taking", "--input", HERE],
    ],
    "durable_event": [[HERE, "said"], ["{live}", HERE], *(["{live}", "said", option, HERE]
                                                         for option in ("--payload", "--key", "--reason"))],
    "durable_cancel": [[HERE], ["{live}", "--reason", HERE]],
    "durable_pause": [[HERE], ["{live}", "--reason", HERE]],
    "durable_resume": [[HERE], ["{run}", "--reason", HERE]],
    "durable_rerun": [[HERE], ["{run}", "--reason", HERE]],
    "durable_fork": [[HERE, "double"], ["{run}", HERE], ["{run}", "double", "--reason", HERE]],
    "durable_hold": [["queue", HERE], ["workflow", HERE], [HERE, "x"], ["queue", "x", "--reason", HERE]],
    "durable_release": [["queue", HERE], ["workflow", HERE], ["queue", "vip", "--reason", HERE]],
    "durable_schedules": [["--workflow", HERE]],
    "durable_fire": [[HERE], ["app.doubling", HERE], ["app.doubling", "daily", "--reason", HERE]],
    "durable_backfill": [
        [HERE, "--since", "2024-05-01T06:00Z", "--until", "2024-05-01T07:00Z"],
        ["app.doubling", HERE, "--since", "2024-05-01T06:00Z", "--until", "2024-05-01T07:00Z"],
        ["app.doubling", "daily", "--since", HERE, "--until", "2024-05-01T07:00Z"],
        ["app.doubling", "daily", "--since", "2024-05-01T06:00Z", "--until", "2024-05-01T07:00Z", "--limit", HERE],
    ],
    "durable_export": [[HERE]],
    "durable_replay": [[HERE], ["--workflow", HERE], ["--sample", HERE], ["--file", HERE]],
    "durable_prune": [["--older-than", HERE], ["--batch-size", HERE]],
}  # fmt: skip
"""Not the file that `durable_export` writes: whoever is at the shell may write it anyway, and the tests are root."""


def filled(line: list[str], rows: Rows, text: str) -> list[str]:
    words = {"{here}": text, "{run}": str(rows.run.pk), "{live}": str(rows.live.pk)}
    return [words.get(word, word) for word in line]


def said(name: str, *arguments: str) -> str:
    """All that it has said, whichever way it has ended. Raises what is no sentence."""
    out, err = StringIO(), StringIO()
    try:
        call_command(name, *arguments, stdout=out, stderr=err)
    except CommandError as error:
        return f"{out.getvalue()}{err.getvalue()}{error}"
    return f"{out.getvalue()}{err.getvalue()}"


@pytest.mark.parametrize("name", LINES)
def test_it_ends_with_a_sentence(name: str) -> None:
    wrong: dict[Any, str] = {}
    rows = make_rows()
    for number, line in enumerate(LINES[name]):
        for what, text in ARGUMENTS.items():
            with undone():
                if fault := fault_of(name, *filled(line, rows, text)):
                    wrong[number, what] = fault
    assert wrong == {}
    assert the_next_ones_are_well()


def fault_of(name: str, *arguments: str) -> str:
    try:
        told = said(name, *arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error!s:.100}"
    steering = [letter for letter in told if not letter.isprintable() and letter != "\n"]
    return f"says {steering[0]!r}" if steering else ""


@pytest.mark.django_db(transaction=True)
def test_a_number_without_an_end_has_one() -> None:
    """In a process of its own, which can be ended."""
    make_schedule()
    with Command("durable_schedules", "--next", "9" * 9) as command:
        assert command.wait() in (0, 1, 2)
