"""``post`` and ``get`` JSON, with the two ways it can fail kept apart: an answer that says no, and no answer at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Reply(NamedTuple):
    """What the other side answered, whatever the status."""

    status: int
    body: dict[str, Any]

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class NoAnswer(Exception):
    """Nobody answered in time: whether the other side acted is unknown, so ask again with the same key."""

    def __init__(self, url: str, reason: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(f"no answer from {url}: {reason}")


def post(url: str, body: Mapping[str, Any], *, headers: Mapping[str, str] | None = None, timeout: float = 5) -> Reply:
    """Send ``body`` as JSON. Any status is a ``Reply``; raises ``NoAnswer`` where there is none."""
    headers = {"Content-Type": "application/json", **(headers or {})}
    return _ask("POST", url, json.dumps(body).encode(), headers, timeout)


def get(url: str, *, timeout: float = 5) -> Reply:
    return _ask("GET", url, None, {}, timeout)


def _ask(method: str, url: str, body: bytes | None, headers: Mapping[str, str], timeout: float) -> Reply:
    # Not urllib: a proxy from the environment must not get between two processes of one machine.
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"an http:// address is needed, not {url!r}")
    with closing(HTTPConnection(parts.hostname, parts.port, timeout=timeout)) as connection:
        try:
            connection.request(method, parts.path or "/", body, headers)
            response = connection.getresponse()
            return Reply(response.status, _decode(response.read()))
        except (OSError, HTTPException) as error:
            raise NoAnswer(url, str(error) or type(error).__name__) from error


def _decode(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw or b"{}")
    except ValueError:
        return {"text": raw.decode(errors="replace")[:500]}
    return value if isinstance(value, dict) else {"value": value}
