"""Without pydantic there is nothing to check against annotations: its tests are collected where it is installed."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("pydantic") else ["test_pydantic.py"]
