"""What a strict content security policy would refuse is seen by those who look at pages with ``judge``."""

from __future__ import annotations

import pytest
from django.http import HttpResponse

from tests.admin.pages import judge, text_of

FAULTS = {
    "<style>a {}</style>": "<style>",
    "<script>alert(1)</script>": "<script>",
    '<p style="color: red">': "<p style=…>",
    '<img src="/static/a.png" onerror="alert(1)">': "<img onerror=…>",
    '<a href=" JavaScript:alert(1)">': "<a href= JavaScript:alert(1)>",
    '<form action="data:text/html,a">': "<form action=data:text/html,a>",
    '<script src="https://elsewhere.test/a.js"></script>': "<script src=https://elsewhere.test/a.js>",
    '<link href="//elsewhere.test/a.css">': "<link href=//elsewhere.test/a.css>",
    "<iframe></iframe>": "<iframe>",
    '<base href="/">': "<base>",
    "<hostile>": "<hostile>",
}
"""HTML, and what is to be said of it."""
WELL = (
    '<link href="/static/a.css"><script src="/static/a.js"></script><img src="/static/a.png">'
    '<a href="https://elsewhere.test/">&lt;hostile onclick="alert(1)"&gt;</a>'
)


@pytest.mark.parametrize("html", FAULTS)
def test_what_a_policy_would_refuse_is_seen(html: str) -> None:
    assert judge(HttpResponse(f"{WELL}<div>{html}</div>{WELL}")) == [FAULTS[html]]


def test_a_page_of_our_own_files_and_escaped_texts_is_well() -> None:
    assert judge(HttpResponse(WELL)) == []
    assert text_of(HttpResponse(f"<p>one</p>\n  {WELL}")) == 'one <hostile onclick="alert(1)">'
