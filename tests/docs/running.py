"""Runs the Python blocks of a document: in order, in one module that stands in for an app's `workflows.py`.

Blocks of the language `journal` between them are pictures of what the document's `run` has journaled so far.
"""

from __future__ import annotations

import re
import sys
import time
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from django.contrib import admin
from django.core.checks import CheckMessage, Error, run_checks
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import override_settings

from django_durable import signals
from django_durable.core import registry
from django_durable.core.payloads import tags
from tests.docs.reading import Block, blocks

PROJECT = Path(__file__).resolve().parent / "project"
APPS = ("orders", *sorted({path.parent.name for path in PROJECT.glob("*/__init__.py")} - {"orders"}))
"""The first one is the app of documents that do not say which file they show."""
NEEDS_CACHES = {f"django_durable.E{number:03}" for number in (20, 21, 22)}

_FILE = re.compile(r"^# (\w+)/workflows\.py$", re.MULTILINE)


def run(document: Path, request: pytest.FixtureRequest) -> None:
    """Execute the document's blocks, then the tests that they define."""
    shown = blocks(document)
    python = [block for block in shown if block.language == "python"]
    with installed(request.getfixturevalue("settings"), request.getfixturevalue("monkeypatch")):
        module = module_of(document, python, request.getfixturevalue("monkeypatch"))
        for block in shown:
            if block.language == "journal":
                compare(block, module)
            elif block.language == "python" and block.not_run is None:
                execute(block, module)
        run_tests(module, request)


@contextmanager
def installed(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The examples' apps and their tables; what a document declares and connects is gone afterwards."""
    monkeypatch.syspath_prepend(str(PROJECT))
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, *APPS]
    make_tables()
    registry.definitions()  # so that nothing of others is left to be named among ours
    monkeypatch.setattr(registry, "_named", dict(registry._named))
    monkeypatch.setattr(registry, "_duplicates", [])
    monkeypatch.setattr(tags, "_by_name", dict(tags._by_name))
    monkeypatch.setattr(tags, "_by_class", dict(tags._by_class))
    # A cake takes its time; a test does not have it.
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    all_signals = [getattr(signals, name) for name in vars(signals) if name.startswith(("run_", "step_", "schedule_"))]
    receivers = [list(signal.receivers) for signal in all_signals]
    in_admin = dict(admin.site._registry)
    yield
    admin.site._registry = in_admin
    registry.duplicates()  # what no block has started is to be named while the names are the document's
    for signal, before in zip(all_signals, receivers, strict=True):
        signal.receivers = before
        signal.sender_receivers_cache.clear()


def make_tables() -> None:
    from orders.models import Order

    editor = connection.schema_editor(collect_sql=True)
    editor.deferred_sql = []
    sql, parameters = editor.table_sql(Order)
    with connection.cursor() as cursor:
        # Not with the editor itself: on SQLite it refuses to work inside a test's transaction.
        cursor.execute(sql, parameters or None)


def module_of(document: Path, python: list[Block], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`orders.workflows`, or that of the app whose file a block says that it is."""
    named = [found[1] for block in python if (found := _FILE.search(block.text))]
    app = named[0] if named else APPS[0]
    assert app in APPS, f"{document.name}: the tests know no app {app!r}, only {APPS}"
    module = ModuleType(f"{app}.workflows")
    module.__package__ = app
    module.__file__ = str(document)
    # What a project's settings.py has.
    module.__dict__["BASE_DIR"] = PROJECT
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def execute(block: Block, module: ModuleType) -> None:
    names = module.__dict__
    names.pop("DURABLE", None)
    names.pop("CACHES", None)
    # Line numbers are those of the document, so that a traceback points into it.
    code = compile("\n" * (block.line - 1) + block.text, str(block.document), "exec", dont_inherit=True)
    exec(code, names)  # noqa: S102  (our own documentation)
    if "DURABLE" in names or "CACHES" in names:
        wrong = errors_of(names)
        assert not wrong, f"{block}: {wrong}"


def compare(block: Block, module: ModuleType) -> None:
    """A picture of a journal shows that of the document's `run` at this place, line by line: path, kind, status."""
    pictured = [re.split(r" {2,}", line)[:3] for line in block.text.splitlines()]
    journaled = [[step.path, step.kind, step.status] for step in module.__dict__["run"].steps()]
    assert pictured == journaled, f"{block}: {journaled}"


def errors_of(names: dict[str, Any]) -> list[CheckMessage]:
    """What the system checks say of the settings in a block."""
    given = {name: names[name] for name in ("DURABLE", "CACHES") if name in names}
    with override_settings(**given):
        found = [message for message in run_checks(tags=["durable"]) if isinstance(message, Error)]
    return [message for message in found if "CACHES" in given or message.id not in NEEDS_CACHES]


def run_tests(module: ModuleType, request: pytest.FixtureRequest) -> None:
    """Run the TestCases and test functions of the document, each of which may have been shown to be copied."""
    mine = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
    cases = [value for value in mine if isinstance(value, type) and issubclass(value, unittest.TestCase)]
    for case in cases:
        result = unittest.TestResult()
        # Django's TestCase closes the connections when it is through; ours is in the outer test's transaction.
        with patch.object(BaseDatabaseWrapper, "close"):
            unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
        assert result.testsRun, f"{case.__name__} has no test"
        assert result.wasSuccessful(), "\n".join(text for _, text in result.failures + result.errors)
    for value in mine:
        if callable(value) and getattr(value, "__name__", "").startswith("test_"):
            names = value.__code__.co_varnames[: value.__code__.co_argcount]
            value(**{name: request.getfixturevalue(name) for name in names})
