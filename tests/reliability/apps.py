from __future__ import annotations

import os

from django.apps import AppConfig


class ReliabilityConfig(AppConfig):
    name = "tests.reliability"

    def ready(self) -> None:
        if "DURABLE_TEST_UNFENCED" in os.environ:
            # Not above: it imports models.
            from tests.reliability.unfenced import drop_the_fence

            drop_the_fence()
