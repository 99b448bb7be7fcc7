"""docs/commands.md names every command and every option of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import find_commands, load_command_class
from django.core.management.base import DjangoHelpFormatter

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENT = ROOT / "docs" / "commands.md"
COMMANDS = [name for name in find_commands(str(ROOT / "django_durable" / "management")) if name.startswith("durable_")]


def sections() -> dict[str, str]:
    parts = re.split(r"^## (\w+)$", DOCUMENT.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_has_a_section() -> None:
    assert set(sections()) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented(name: str) -> None:
    parser = load_command_class("django_durable", name).create_parser("manage.py", name)
    assert parser.formatter_class is DjangoHelpFormatter
    ours = {
        flag
        for action in parser._actions
        for flag in action.option_strings
        if flag.startswith("--") and flag not in DjangoHelpFormatter.show_last | {"--help"}
    }
    documented = set(re.findall(r"--[a-z][a-z-]*", sections()[name]))
    assert ours <= documented
    # What other commands offer may be mentioned; what none has may not.
    assert documented <= ours, f"{name} has no {documented - ours}"
