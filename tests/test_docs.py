"""The documentation is true: its Python runs, its commands and links exist, and nothing is left out."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import CommandParser

import django_durable
from django_durable import exceptions, signals
from django_durable.client.handle import RunHandle
from django_durable.core.context import Context
from django_durable.core.flow.stepping import CurrentStep
from django_durable.workflows.options import StartOptions, WorkflowOptions
from tests.docs.reading import DOCUMENTS, ROOT, anchors, blocks, codes, links, prose, table
from tests.docs.running import run

DOCS = ROOT / "docs"
NOT_RUN_MOST = 3
"""Python that is shown and not run rots: every exemption has a reason, and there are few."""

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


# --- what is shown works ---------------------------------------------------------------------


@each_document
@pytest.mark.django_db
def test_python_runs(document: Path, request: pytest.FixtureRequest) -> None:
    run(document, request)


def test_few_blocks_are_not_run() -> None:
    exempt = [f"{block} ({block.not_run})" for document in DOCUMENTS for block in blocks(document) if block.not_run]
    assert len(exempt) <= NOT_RUN_MOST, exempt


def test_python_is_marked_as_such() -> None:
    """A block without a language may not hide Python from the test above."""
    hidden = re.compile(r"^(from \w+ import|import \w+$|def \w+\(|class \w+|@durable|DURABLE = )", re.MULTILINE)
    found = [
        str(block)
        for document in DOCUMENTS
        for block in blocks(document)
        if block.language != "python" and hidden.search(block.text)
    ]
    assert not found


@each_document
def test_shell_lines_are_understood(document: Path) -> None:
    """`$ … manage.py X …`: the command's own parser takes the whole line."""
    for block in blocks(document):
        if block.language == "console":
            for line in re.findall(r"^\$ (.*)$", block.text, re.MULTILINE):
                words = shlex.split(line)
                if "manage.py" in words:
                    name, *arguments = words[words.index("manage.py") + 1 :]
                    assert name in get_commands(), f"{block}: there is no command {name}"
                    parser_of(name).parse_args(arguments)  # raises CommandError


@each_document
def test_options_exist(document: Path) -> None:
    """In usages, unit files and the like: every option belongs to a command that the block names."""
    for block in blocks(document):
        names = set(re.findall(r"manage\.py\W+(durable_\w+)", block.text))
        known = {option for name in names for option in parser_of(name)._option_string_actions}
        shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", block.text)) if names else set()
        assert shown <= known, f"{block}: {sorted(shown - known)}"


@each_document
def test_commands_exist(document: Path) -> None:
    others = {"durable_workflow", "durable_type", "durable_clock"}
    named = set(re.findall(r"`(?:manage\.py )?(durable_[a-z_]+)", prose(document)))
    assert named - others <= set(get_commands())


@each_document
def test_links_lead_somewhere(document: Path) -> None:
    for link in links(document):
        if not link.startswith(("http:", "https:", "mailto:")):
            path, _, fragment = link.partition("#")
            target = (document.parent / path).resolve() if path else document
            assert target.exists(), f"{document.name}: {link}"
            assert not fragment or fragment in anchors(target), f"{document.name}: {link}, of {sorted(anchors(target))}"


def parser_of(command: str) -> CommandParser:
    return load_command_class(get_commands()[command], command).create_parser("manage.py", command)


# --- nothing is left out (of settings and checks: tests/checks, of commands: tests/commands) ---


def public(cls: type) -> list[str]:
    return [name for name in dir(cls) if not name.startswith("_")]


def missing(names: Iterable[str], *documents: str) -> list[str]:
    """Those that stand in backticks, alone or as a part of an expression, in none of the documents."""
    paths = [DOCS / name for name in documents] or DOCUMENTS
    shown = "\n".join(code for path in paths if path.exists() for code in codes(prose(path)))
    return sorted(name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", shown))


def test_every_signal_is_documented() -> None:
    names = {name for name in vars(signals) if name.startswith(("run_", "step_", "schedule_"))}
    rows = table(DOCS / "signals.md", "signal", "arguments besides `sender`", "sent")
    assert {codes(row["signal"])[0] for row in rows} == names


def test_every_public_name_is_documented() -> None:
    assert not missing(django_durable.__all__)


def test_every_workflow_option_is_documented() -> None:
    assert not missing((field.name for field in fields(WorkflowOptions)), "workflows.md")
    assert not missing((field.name for field in fields(StartOptions)), "workflows.md")


def test_every_context_call_is_documented() -> None:
    assert not missing(public(Context), "workflows.md")
    options = [
        name for name in inspect.signature(Context.step).parameters if name not in ("self", "fn", "args", "later")
    ]
    assert not missing(options, "workflows.md")
    internal = ("heeds_cancel", "lease", "started", "next_start_key")
    assert not missing([name for name in public(CurrentStep) if name not in internal])


def test_the_handle_is_documented() -> None:
    assert not missing([name for name in public(RunHandle) if name != "run"], "workflows.md")


def test_every_error_is_documented() -> None:
    names = [
        name for name, value in vars(exceptions).items() if inspect.isclass(value) and issubclass(value, Exception)
    ]
    assert not missing(names, "workflows.md")
