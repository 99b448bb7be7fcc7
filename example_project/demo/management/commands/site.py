from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.management.base import BaseCommand, CommandParser
from django.core.servers.basehttp import WSGIServer, run
from django.core.wsgi import get_wsgi_application

from loopback.server import HOST, announce


class Site(WSGIServer):
    request_queue_size = 128


class Command(BaseCommand):
    help = "Serve the shop, its admin and its static files on 127.0.0.1, for the demo. Not for the open sea."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="0 takes a free one")
        parser.add_argument("--ready-file", type=Path, help="the address is written here once it listens")

    def handle(self, *args: Any, **options: Any) -> None:
        def listening(port: object) -> None:
            url = f"http://{HOST}:{port}"
            self.stdout.write(f"site on {url}")
            announce(options["ready_file"], url)

        handler = StaticFilesHandler(get_wsgi_application())
        with suppress(KeyboardInterrupt):
            run(HOST, options["port"], handler, threading=True, on_bind=listening, server_cls=Site)
