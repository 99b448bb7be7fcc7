"""How many points each scenario has: `floor.json`. Fewer are a failure, and so are more that are not recorded.

The number is the same in every run: what is counted is what one thread passes in an untouched scenario, and each fault
that comes to its point by another way is a failure of its own (`enumerating.py`). Without a record of what was added,
as much could be lost again unseen.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path

from tests.faults.options import ALL

FILE = Path(__file__).with_suffix(".json")
Floor = dict[str, dict[str, int]]
"""Points, by backend and scenario."""


def recorded() -> Floor:
    floor: Floor = json.loads(FILE.read_text()) if FILE.exists() else {}
    return floor


def record(floor: Floor) -> None:
    FILE.write_text(json.dumps(floor, indent=2) + "\n")


def differences(floor: Floor, counted: Floor, scenarios: Collection[str] = ()) -> Iterator[str]:
    """In words, where the floor says otherwise than was counted: of the backends that were, and of all scenarios or
    these."""
    for backend, points in counted.items():
        least = floor.get(backend, {})
        for name in dict.fromkeys((*least, *points)):
            was, now = least.get(name, 0), points.get(name, 0)
            if scenarios and name not in scenarios:
                continue
            if now < was:
                yield f"{backend:8} {name}: {now} points, and there were {was}: they may only become more"
            if now > was:
                yield f"{backend:8} {name}: {now} points, and the floor is {was}: raise it with --write-floor"


def raised(floor: Floor, counted: Floor, *, may_lower: bool = False) -> Floor:
    """The floor up to what was counted; it stays where that is less, and where nothing was counted. ``may_lower``: it
    is what was counted, and scenarios that there are no more are left out."""
    new = dict(floor)
    for backend, points in counted.items():
        old = floor.get(backend, {})
        least = {} if may_lower else old
        points = {**old, **{name: max(count, least.get(name, 0)) for name, count in points.items()}}
        order = ALL if may_lower else dict.fromkeys((*ALL, *points))
        new[backend] = {name: points[name] for name in order if name in points}
    return new
