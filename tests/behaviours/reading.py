"""The clauses of docs/behaviours.md, and the marks of the tests that show them, both as they are written.

The tests are parsed and not imported: which of them a run collects depends on its backend, and a clause does not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "behaviours.md"

_CLAUSE = re.compile(r"^- \*\*(.+?)\*\* (.+?)(?=^- |^#|\Z)", re.MULTILINE | re.DOTALL)
_BOLD = re.compile(r"\*\*([A-Za-z]+-\d[^*\s]*)\*\*")
_ID = re.compile(r"[A-Z]+-\d\d[a-z]")
_ENDING = re.compile(r"\*(Replaced:|Later\.|Open\.)\*(.*)\Z", re.DOTALL)


@dataclass(frozen=True)
class Clause:
    """``ending`` is empty for a clause that a test shows, else ``replaced``, ``later`` or ``open``; ``by`` says what
    replaces it."""

    id: str
    text: str
    ending: str = ""
    by: str = ""


@dataclass(frozen=True)
class Mark:
    """``problem`` is empty where the mark is on a test that pytest finds and names its clauses in plain strings."""

    place: str
    ids: tuple[str, ...] = ()
    problem: str = ""


def clauses(page: str) -> list[Clause]:
    """The clauses of the page's text, in order. Raises ValueError for an id that is none, or that begins no clause."""
    found: list[Clause] = []
    for clause_id, text in _CLAUSE.findall(page):
        if not _ID.fullmatch(clause_id):
            raise ValueError(f"{clause_id!r} is no id of a clause")
        ending = _ENDING.search(text)
        told = text[: ending.start()] if ending else text
        word, by = (ending[1].rstrip(":.").lower(), ending[2].strip()) if ending else ("", "")
        found.append(Clause(clause_id, " ".join(told.split()), word, " ".join(by.split())))
    # Each bold id is one of a clause that was read, in this order: else a clause would be lost to a bullet of another
    # form, and nobody would miss its test.
    ids = [clause.id for clause in found]
    for place, bold in enumerate(_BOLD.findall(page)):
        if place >= len(ids) or ids[place] != bold:
            raise ValueError(f"{bold!r} is not at the beginning of a line: - **{bold}** …")
    return found


def marks() -> list[Mark]:
    """Every behaviour mark of the test suite."""
    paths = [path for path in sorted(TESTS.rglob("*.py")) if TESTS / "docs" / "project" not in path.parents]
    return [mark for path in paths for mark in marks_of(path.read_text(), path.relative_to(TESTS.parent).as_posix())]


def marks_of(source: str, name: str) -> list[Mark]:
    """The behaviour marks in the text of the file called ``name``."""
    if "mark.behaviour" not in source:
        return []
    tree = ast.parse(source)
    is_collected = re.fullmatch(r"test_.*\.py", name.rpartition("/")[2]) is not None
    found, seen = [], set()
    for owner in _tests(tree):
        for decorator in owner.decorator_list:
            if isinstance(decorator, ast.Call) and _is_mark(decorator.func):
                seen.add(decorator.func)
                problem = "" if is_collected else "pytest does not collect this file"
                found.append(_mark(f"{name}::{owner.name}", decorator, problem))
    for node in ast.walk(tree):
        if _is_mark(node) and node not in seen:
            found.append(Mark(f"{name}:{getattr(node, 'lineno', 0)}", problem="is not called on a test"))
    return found


def _tests(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The test functions of the module, and the test methods of its test classes."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and (node.name.startswith("Test") or node.name.endswith("Tests")):
            yield from (inner for inner in node.body if _is_test(inner))
        elif _is_test(node):
            yield node


def _is_test(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")


def _is_mark(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.behaviour"


def _mark(place: str, call: ast.Call, problem: str) -> Mark:
    ids = tuple(arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))
    if not ids or len(ids) != len(call.args) or call.keywords:
        problem = problem or "does not name its clauses in plain strings"
    return Mark(place, ids, problem)
