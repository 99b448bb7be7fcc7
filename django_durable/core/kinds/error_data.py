"""The errors of branches, items and blocks as data, for the journal and for code that decides by them."""

from __future__ import annotations

from typing import Any

from ..journal.culprits import culprits_of
from ..payloads.failures import describe
from .reasons import reason_of


def described(error: BaseException) -> dict[str, Any]:
    """An error as data; ``culprits`` are the paths whose failure an operator's resume would try again."""
    told = {**describe(error), "reason": reason_of(error)}
    if culprits := culprits_of(error):
        told["culprits"] = culprits
    return told
