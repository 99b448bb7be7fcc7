"""A threaded HTTP server on the loopback interface that speaks JSON through a table of routes."""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any, NamedTuple

HOST = "127.0.0.1"


class Answer(NamedTuple):
    status: int
    body: dict[str, Any]


class HangUp(Exception):
    """Raised by a route that closes the connection without an answer."""


@dataclass(frozen=True)
class Call:
    """One request, as a route sees it."""

    body: dict[str, Any]
    headers: Mapping[str, str]
    connection: socket.socket

    def caller_left(self, seconds: float) -> bool:
        """Wait up to ``seconds`` and say whether the caller has closed the connection meanwhile."""
        readable, _, _ = select.select([self.connection], [], [], seconds)
        if not readable:
            return False
        try:
            return self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True


Route = Callable[[Call], Answer]


class JsonServer(ThreadingHTTPServer):
    """Serve ``{"POST /charges": route, …}`` on 127.0.0.1; port 0 takes a free one."""

    daemon_threads = True
    # The default of 5 waiting connections makes a burst of callers wait a second for the kernel's next try.
    request_queue_size = 128

    def __init__(self, port: int, routes: Mapping[str, Route]) -> None:
        self.routes = routes
        super().__init__((HOST, port), _Handler)

    def server_bind(self) -> None:
        # HTTPServer asks the name service for this machine's name, which may take seconds and is not used here.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.socket.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A caller that was killed in the middle of its request is this demo's daily business.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: JsonServer

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(raw)
        except ValueError:
            return self._write(Answer(400, {"error": "the body is not JSON"}))
        if not isinstance(body, dict):
            return self._write(Answer(400, {"error": "the body is not a JSON object"}))
        self._answer(body)

    def _answer(self, body: dict[str, Any]) -> None:
        route = self.server.routes.get(f"{self.command} {self.path}")
        if route is None:
            return self._write(Answer(404, {"error": f"no {self.command} {self.path} here"}))
        try:
            answer = route(Call(body, dict(self.headers.items()), self.connection))
        except HangUp:
            return
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            answer = Answer(400, {"error": f"{type(error).__name__}: {error}"})
        self._write(answer)

    def _write(self, answer: Answer) -> None:
        raw = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def announce(path: Path | None, url: str) -> None:
    """Tell whoever started this process where it listens; the rename makes the file appear whole."""
    if path is None:
        return
    draft = path.with_suffix(".draft")
    draft.write_text(url)
    os.replace(draft, path)
