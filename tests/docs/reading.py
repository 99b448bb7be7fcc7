"""Markdown, as much of it as the tests of the documentation need."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(r"^```(.*)$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its first line's number is `line`, counted from 1."""

    document: Path
    line: int
    language: str
    text: str
    not_run: str | None

    def __str__(self) -> str:
        return f"{self.document.name}:{self.line}"


def blocks(document: Path) -> list[Block]:
    found: list[Block] = []
    opened: tuple[int, str, str | None] | None = None
    lines = document.read_text().splitlines()
    for number, line in enumerate(lines, start=1):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if opened is None:
            above = _NOT_RUN.match(lines[number - 2]) if number > 1 else None
            opened = (number + 1, fence[1].strip(), above[1] if above else None)
        else:
            first, language, reason = opened
            found.append(Block(document, first, language, "\n".join(lines[first - 1 : number - 1]), reason))
            opened = None
    assert opened is None, f"{document.name}: the block that begins in line {opened} is never closed"
    return found


def prose(document: Path) -> str:
    """The text outside of the blocks."""
    kept, is_open = [], False
    for line in document.read_text().splitlines():
        if _FENCE.match(line):
            is_open = not is_open
        elif not is_open:
            kept.append(line)
    return "\n".join(kept)


def links(document: Path) -> list[str]:
    return _LINK.findall(prose(document))


def anchors(document: Path) -> set[str]:
    """The fragments that GitHub makes of the headings."""
    found = [_HEADING.match(line) for line in prose(document).splitlines()]
    return {_slug(heading[1]) for heading in found if heading}


def _slug(heading: str) -> str:
    plain = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return plain.replace(" ", "-")


def table(document: Path, *columns: str) -> list[dict[str, str]]:
    """The rows of the first table that has these columns, by column."""
    rows: list[list[str]] | None = None
    for line in prose(document).splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else None
        if rows is None:
            rows = [] if cells == list(columns) else None
        elif cells is None:
            break
        else:
            rows.append(cells)
    assert rows, f"{document.name} has no table {columns}"
    return [dict(zip(columns, row, strict=True)) for row in rows[1:]]


def codes(cell: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)
