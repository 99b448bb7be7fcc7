"""What a test looks at: addresses, and HTML as a browser under ``default-src 'self'`` would judge it."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from django.http import HttpResponse
from django.urls import reverse

RUNS = "admin:django_durable_run_changelist"
RUN = "admin:django_durable_run_change"
ROUNDED = 0.02
"""Percent of the axis: a place and a width are written with two digits each, so their sum may be off by one more."""


def list_url(query: str = "") -> str:
    return reverse(RUNS) + query


def run_url(run: Any) -> str:
    return reverse(RUN, args=[run.pk])


def live_url(run: Any) -> str:
    return reverse("admin:django_durable_run_live", args=[run.pk])


def verb_url(run: Any, verb: str) -> str:
    return reverse(f"admin:django_durable_run_{verb}", args=[run.pk])


def text_of(response: HttpResponse | Any) -> str:
    """What a person reads, with white space made even."""
    reader = _Reader()
    reader.feed(response.content.decode())
    return " ".join(" ".join(reader.texts).split())


def judge(response: HttpResponse | Any) -> list[str]:
    """What a strict content security policy would refuse, and elements that came in from outside."""
    reader = _Reader()
    reader.feed(response.content.decode())
    return reader.faults


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in given) or tag in ("iframe", "object", "base", "hostile"):
            self.faults.append(f"<{tag}>")
        for name, value in attrs:
            if name == "style" or name.startswith("on"):
                self.faults.append(f"<{tag} {name}=…>")
            if name in ("href", "src", "action") and (value or "").strip().lower().startswith(("javascript:", "data:")):
                self.faults.append(f"<{tag} {name}={value}>")
            if name in ("href", "src") and tag in ("script", "link", "img") and "//" in (value or ""):
                self.faults.append(f"<{tag} {name}={value}>")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
