"""A real worker that knows the workflows of the corpus."""

from __future__ import annotations

from typing import Any

from tests.hostile.corpus import CAP
from tests.processes import Worker

SETTINGS = {"DJANGO_SETTINGS_MODULE": "tests.hostile.settings"}


def hostile_worker(*arguments: str, **durable: Any) -> Worker:
    return Worker(*arguments, durable={"MAX_PAYLOAD_BYTES": CAP, "WARN_PAYLOAD_BYTES": CAP, **durable}, env=SETTINGS)
