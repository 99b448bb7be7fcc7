"""The overview as tests look at it: its addresses, what it says, where its links lead; and what is counted for it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from html import unescape
from typing import Any

from django.test import Client
from django.utils import timezone

from django_durable.models import Tally
from tests.admin.pages import judge, text_of

OVERVIEW = "/admin/django_durable/run/overview/"
FRAGMENT, CHARTS = OVERVIEW + "fragment/", OVERVIEW + "charts/"
INDEX = "/admin/django_durable/"
SCHEDULES = "/admin/django_durable/schedule/"
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def look(client: Client, url: str = FRAGMENT) -> str:
    response = client.get(url)
    assert response.status_code == 200
    assert judge(response) == []
    return text_of(response)


def links(client: Client, url: str = FRAGMENT) -> dict[str, str]:
    """Where the text of a link leads to."""
    page = client.get(url).content.decode()
    found = re.findall(r'<a [^>]*?href="([^"]*)"[^>]*>(.*?)</a>', page, re.DOTALL)
    return {" ".join(unescape(re.sub("<.*?>", "", text)).split()): unescape(url) for url, text in found}


def tally(**counts: Any) -> None:
    Tally.objects.create(
        **{"kind": Tally.RUNS, "minute": timezone.now().replace(second=0, microsecond=0), "workflow": "app.doubling",
           "queue": "default", **counts}
    )  # fmt: skip


def midnight() -> datetime:
    return timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)


def rows(client: Client, section: str) -> list[list[str]]:
    page = client.get(FRAGMENT).content.decode()
    table = page.split(f'id="durable-{section}-title"')[1].split("</table>")[0].split("<tbody>")[1]
    cells = [re.findall(r"<t[dh]\b.*?</t[dh]>", row, re.DOTALL) for row in table.split("</tr>")]
    return [[" ".join(re.sub("<.*?>", " ", cell).split()) for cell in row] for row in cells if row]
