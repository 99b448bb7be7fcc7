"""Breaking the gateway where there is none."""

from __future__ import annotations

import tempfile
from pathlib import Path

from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, override_settings


class NoGatewayTests(SimpleTestCase):
    def setUp(self) -> None:
        self.data = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(override_settings(DATA_DIR=self.data))

    def test_before_the_first_serve_it_says_what_starts_one(self) -> None:
        with self.assertRaisesRegex(CommandError, "make serve"):
            call_command("gateway", "break")

    def test_after_the_end_of_serve_too(self) -> None:
        # Port 1 is nobody's.
        (self.data / "gateway.url").write_text("http://127.0.0.1:1")
        with self.assertRaisesRegex(CommandError, "make serve"):
            call_command("gateway", "repair")
