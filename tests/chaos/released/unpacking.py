"""The wheel of the released version as a folder, and what leads a process there."""

from __future__ import annotations

import os
from pathlib import Path
from zipfile import ZipFile

CHECKOUT = Path(__file__).resolve().parents[3]
[WHEEL] = CHECKOUT.glob("tests/fixtures/v0_1/*.whl")
RELEASED = "DURABLE_TEST_RELEASED"
"""The variable that has the folder of the released version, for its processes only."""

VERSION = "released"
"""What its workers say of themselves in the table of workers; those of this checkout say nothing."""


def unpack(folder: Path) -> Path:
    """The wheel's content below ``folder``, as an installer would lay it down: it is nothing but Python."""
    target = folder / "released"
    if not target.exists():
        with ZipFile(WHEEL) as wheel:
            wheel.extractall(target)
    return target


def environment(released: Path) -> dict[str, str]:
    """What to add to the environment of a process that is to work with the released version."""
    return {
        "DJANGO_SETTINGS_MODULE": "tests.chaos.released.settings",
        RELEASED: str(released),
        # For `python -m`, which would look into the working directory first.
        "PYTHONPATH": os.pathsep.join((str(released), str(CHECKOUT))),
        "PYTHONSAFEPATH": "1",
    }
