"""What a page tells of its row at a glance."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from django.test import Client


def facts(client: Client, url: str) -> list[tuple[str, str]]:
    """Label and value, as they are read, in the order of the page."""
    response: Any = client.get(url)
    [told] = re.findall(r'<dl class="durable-facts">(.*?)</dl>', response.content.decode(), re.DOTALL)
    return [(_text(label), _text(value)) for label, value in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", told)]


def _text(html: str) -> str:
    return " ".join(unescape(re.sub("<.*?>", " ", html)).split())
