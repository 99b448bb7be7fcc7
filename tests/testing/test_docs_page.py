"""The examples of docs/testing.md do what they say: here the tests in them run, not only their definitions."""

from __future__ import annotations

import inspect
import re
import unittest
from pathlib import Path
from typing import Any

import pytest
from django.test import TestCase

from django_durable.core import registry

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "testing.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a block declares is gone afterwards: its schedules would fire wherever another test moves the time."""
    registry.definitions()
    monkeypatch.setattr(registry, "_named", dict(registry._named))


@pytest.mark.parametrize("number", range(len(BLOCKS)))
@pytest.mark.django_db
def test_block(number: int, request: pytest.FixtureRequest) -> None:
    names: dict[str, Any] = {"__name__": f"docs_testing_{number}"}
    exec(compile(BLOCKS[number], f"{PAGE.name}, block {number}", "exec"), names)  # noqa: S102
    cases = [value for value in names.values() if isinstance(value, type) and issubclass(value, TestCase)]
    suite = unittest.TestSuite(
        unittest.defaultTestLoader.loadTestsFromTestCase(case) for case in cases if case is not TestCase
    )
    result = unittest.TestResult()
    suite.run(result)
    assert result.wasSuccessful(), [text for _, text in result.failures + result.errors]
    functions = [value for name, value in names.items() if name.startswith("test_")]
    for function in functions:
        function(**{name: request.getfixturevalue(name) for name in inspect.signature(function).parameters})
    assert result.testsRun or functions
