"""Runs through which a secret goes everywhere that a value can go, and what a project says to have it redacted."""

from __future__ import annotations

import logging
from hashlib import sha256
from typing import Any

from django_durable import AsyncContext, Context, Retry, durable_workflow

SECRET = "zq7-canary-4111-1111"
TWICE = Retry(max_attempts=2, initial=0.01, maximum=0.01)


def redact(run: Any, kind: str, value: Any) -> Any:
    """``DURABLE["REDACT"]``: nobody sees anything."""
    return "•••"


def charge(card: str) -> dict[str, str]:
    return {"receipt": card}


def refund(receipt: dict[str, str]) -> str:
    return receipt["receipt"]


def decline(card: str) -> None:
    raise ValueError(f"declined: {card}")


@durable_workflow(name="hostile.paying", step_retry=TWICE, retry=Retry(max_attempts=1))
def paying(ctx: Context, card: str, is_declined: bool = False) -> Any:
    """In input, arguments, results, annotations, progress, children, events, answers, the output."""
    ctx.progress(1, 2, card)
    ctx.annotate(card=card)
    receipt = ctx.step("charge", charge, card, compensate=refund)
    ctx.join("both", {"one": lambda ctx: ctx.step("charge", charge, card), "other": lambda ctx: card})
    ctx.run_workflow("child", paid, card)
    event = ctx.wait_for_event("card")
    event.complete(event.payload)
    if is_declined:
        ctx.step("decline", decline, card)
    return [receipt, event.payload]


@durable_workflow(name="hostile.paid", step_retry=TWICE, retry=Retry(max_attempts=1))
async def paid(ctx: AsyncContext, card: str) -> str:
    await ctx.step("charge", charge, card)
    return card


def customer_of(card: str) -> str:
    """The key of a limit: made of a secret that it does not tell."""
    return sha256(card.encode()).hexdigest()


@durable_workflow(name="hostile.paying_again", retry=TWICE, max_concurrency=1, concurrency_key=customer_of)
def paying_again(ctx: Context, card: str) -> str:
    """Its first attempt fails, and tells all."""
    if ctx.attempt == 1:
        decline(card)
    return card


@durable_workflow(name="hostile.betraying", retry=Retry(max_attempts=1))
def betraying(ctx: Context, card: str) -> None:
    """As if the engine said what it was given, where it says the least important things."""
    logging.getLogger("django_durable.runs").debug("betrayed %s", card)
