"""What the page of a run that failed tells of its own error, whatever its journal has."""

from __future__ import annotations

import re
from html import unescape

from django.test import Client

from django_durable.core.payloads.codec import encode
from tests.admin.pages import run_url
from tests.admin.world import make_entry, make_run

TRACEBACK = 'Traceback (most recent call last):\n  File "shop.py", line 7, in checkout\nValueError: no such card\n'


def test_it_stands_at_the_top_with_its_traceback_opened(boss: Client) -> None:
    run = make_run("failed")
    make_entry(run, "reserve")
    error = {"type": "builtins.ValueError", "message": "no such card", "traceback": TRACEBACK}
    run.payloads.create(kind="error", data=encode(error))
    page = boss.get(run_url(run)).content.decode()
    [panel] = re.findall(r'<section class="module durable-error".*?</section>', page, re.DOTALL)
    assert "<strong>builtins.ValueError</strong>: no such card" in panel
    opened = re.findall(r"<details open><summary>Traceback</summary><pre[^>]*>(.*?)</pre></details>", panel, re.DOTALL)
    assert [unescape(text) for text in opened] == [TRACEBACK]
    assert page.count("Traceback") == panel.count("Traceback") == 2
