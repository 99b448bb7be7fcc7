"""docs/settings.md names every key with the default that it has."""

from __future__ import annotations

import re
from ast import literal_eval
from dataclasses import fields
from pathlib import Path

from django_durable.conf import Settings

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "settings.md"


def test_every_key_is_documented_with_its_default() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| `([^`]+)` \| \S", DOCUMENT.read_text(), re.MULTILINE)
    assert {key: literal_eval(default) for key, default in rows} == {
        field.name: field.default for field in fields(Settings)
    }
