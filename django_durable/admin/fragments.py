"""Parts of a page that refresh themselves: asked for anew every few seconds, and sent only when they have changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.cache import get_conditional_response
from django.utils.translation import gettext as _

from . import cells

DONE = "X-Durable-Done"
STEP = 15
# Each rendering masks the same secret anew.
_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="\w*"')


def fragment(request: HttpRequest, template: str, context: Mapping[str, Any], *, is_done: bool = False) -> HttpResponse:
    """The rendered template; without it, as 304, where the browser says that it has the same already.

    ``is_done``: nothing of it will change any more, and nobody asks again.
    """
    text = render_to_string(template, dict(context), request)
    etag = f'"{sha256(_TOKEN.sub("", text).encode()).hexdigest()[:32]}"'
    full = HttpResponse(text, headers={"ETag": etag})
    # A 304 takes over the ETag; the other headers are for either.
    answer = get_conditional_response(request, etag=etag, response=full)
    response = answer if isinstance(answer, HttpResponse) else full
    response["Cache-Control"] = "private, no-cache"
    if is_done:
        response[DONE] = "1"
    return response


def ago(moment: datetime, now: datetime) -> str:
    """How long ago that was, in steps: to the second it would be another text each time a fragment is asked for."""
    age = max(now - moment, timedelta(0))
    seconds = int(age.total_seconds())
    if seconds < 60:
        return _("under %d s") % (STEP * (seconds // STEP + 1))
    return cells.rough(age)
