"""What people may see of a run's values: ``DURABLE["REDACT"]`` is asked here, and nowhere else."""

from __future__ import annotations

import logging
from typing import Any

from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _

from ..conf import durable_settings
from ..core.payloads.failures import in_one_line
from ..models import Run

logger = logging.getLogger("django_durable.redacting")


class Withheld(Exception):
    """What is to redact it could not be asked, so nobody sees it."""


def is_redacting() -> bool:
    return durable_settings().REDACT is not None


def why(text: str) -> str:
    """The end of a line of the log that tells why, in one line. Nothing where values are redacted: it may be the words
    of the project, which quote one, and nobody can be asked here what of them may be seen."""
    return "" if is_redacting() else f": {in_one_line(text)}"


def redacted(run: Run, kind: str, value: Any) -> Any:
    """What the project's function makes of the value, to which ``kind`` is a word for what it is. Raises Withheld."""
    path = durable_settings().REDACT
    if path is None:
        return value
    try:
        return import_string(path)(run, kind, value)
    except Exception as error:
        # Its message, and its traceback, may tell the secret.
        logger.error("DURABLE['REDACT'] raised %s, run=%s kind=%s", type(error).__name__, run.pk, kind)
        raise Withheld(_("It is not shown: what is to redact it failed.")) from None
