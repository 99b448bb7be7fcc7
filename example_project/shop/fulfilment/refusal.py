from __future__ import annotations

from dataclasses import dataclass

from django_durable import durable_type


@durable_type("shop.refusal")
@dataclass(frozen=True)
class Refusal:
    """Why an order gets no goods: a value of ``RefusalReason`` and what a person wants to know.

    An outcome and not an exception: a declined card is business as usual, and no retry helps.
    """

    reason: str
    detail: str = ""
