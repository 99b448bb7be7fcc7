"""A block that says which module it is can be copied there: importing it defines things, and starts nothing."""

from __future__ import annotations

import ast
import re

from tests.docs.reading import DOCUMENTS, Block, blocks

DEFINES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
STARTS = {"aenqueue", "enqueue", "enqueue_many", "run_until_idle", "arun_until_idle", "send_event"}

_MODULE = re.compile(r"# (\w+)/(\w+)\.py")


def modules() -> list[Block]:
    python = [block for document in DOCUMENTS for block in blocks(document) if block.language == "python"]
    return [block for block in python if _MODULE.fullmatch(block.text.partition("\n")[0])]


def acts(statement: ast.stmt) -> bool:
    """Whether the statement does something when its module is imported."""
    if not isinstance(statement, DEFINES):
        return True
    is_code = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    return not is_code and any(called(node) in STARTS for node in ast.walk(statement) if isinstance(node, ast.Call))


def called(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def test_modules_that_are_shown_start_nothing_when_they_are_imported() -> None:
    shown = modules()
    acting = [
        f"{block.document.name}:{block.line + statement.lineno - 1}"
        for block in shown
        for statement in ast.parse(block.text).body
        if acts(statement)
    ]
    assert shown and not acting, acting
