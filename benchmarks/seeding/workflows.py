"""What the seeded runs have done: few shapes of work, under as many names as a grown project has.

A step takes its time on the clock of ``django_durable.testing.travel``: nobody waits for it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django_durable import Context, NonRetriableError, Retry, durable_workflow
from django_durable.testing.travelling import traveller

STEPS_OF_THE_LONG_ONE = 2_000
ROWS_OF_AN_IMPORT, ROWS_OF_A_LARGE_IMPORT = 3, 40

Name = tuple[str, str]
"""Of a workflow, and of its queue."""


def take(seconds: float, result: Any = None) -> Any:
    """A step that takes so long."""
    if (clock := traveller()) is not None:
        clock.advance(seconds)
    return result


def charge(amount: str) -> dict[str, str]:
    """A step that fails as a call over the network does: with a cause and frames of its own."""
    take(0.8)
    try:
        return _post("https://gateway.example/charges", amount)
    except OSError as error:
        raise RuntimeError(f"the gateway did not answer while it was asked to charge {amount}") from error


def _post(url: str, amount: str) -> dict[str, str]:
    raise ConnectionResetError(104, "Connection reset by peer", url)


def send(ctx: Context, number: int) -> str:
    return str(ctx.step("send", take, 0.2, f"message {number} accepted"))


def order(ctx: Context, number: int, lines: list[dict[str, Any]]) -> dict[str, Any]:
    ctx.step("reserve", take, 0.05, [line["sku"] for line in lines])
    ctx.log.info("order %s: %s lines reserved", number, len(lines))
    ctx.progress(1, 4, "reserved")
    ctx.step("charge", take, 0.9, {"charge": f"ch_{number:08}"})
    ctx.progress(2, 4, "charged")
    packed = ctx.wait_for_event("packed")
    ctx.annotate(parcel=packed.payload)
    ctx.log.info("order %s: packed as %s", number, packed.payload["parcel"])
    ctx.progress(3, 4, "packed")
    ctx.step("ship", take, 1.5)
    ctx.progress(4, 4, "shipped")
    return {"number": number, "parcel": packed.payload}


def onboarding(ctx: Context, number: int) -> str:
    ctx.step("welcome", take, 0.3)
    ctx.sleep("two days", timedelta(days=2))
    ctx.step("remind", take, 0.3)
    return "onboarded"


def failing(ctx: Context, number: int) -> None:
    ctx.step("reserve", take, 0.05)
    ctx.step("charge", charge, "19.90", retry=Retry(max_attempts=3, initial=30))


def long(ctx: Context, number: int) -> int:
    for turn in range(STEPS_OF_THE_LONG_ONE):
        ctx.step("page", take, 0.4, {"page": turn, "rows": 250}, key=turn)
        if turn % 10 == 0:
            ctx.log.info("%s rows so far", 250 * turn)
        if turn % 100 == 0:
            ctx.progress(turn, STEPS_OF_THE_LONG_ONE, f"page {turn}")
    ctx.progress(STEPS_OF_THE_LONG_ONE, STEPS_OF_THE_LONG_ONE, "done")
    return STEPS_OF_THE_LONG_ONE


@durable_workflow(name="imports.row", queue="imports")
def imported_row(ctx: Context, number: int) -> int:
    return int(ctx.step("store", take, 0.1, number))


def importing(ctx: Context, number: int) -> list[int]:
    ctx.step("download", take, 4.0)
    ctx.log.info("%s rows to import", ROWS_OF_AN_IMPORT)
    return list(ctx.map("row", imported_row, range(ROWS_OF_AN_IMPORT)))


def checkout(ctx: Context, number: int) -> None:
    """Fails as ``failing`` does, and is undone."""
    ctx.step("reserve", take, 0.05, ["TEA-EARL-GREY-250", "CUP"], compensate=give_back)
    ctx.step("charge", charge, "19.90", retry=Retry(max_attempts=3, initial=30))


def give_back(skus: list[str]) -> None:
    take(0.04)


@durable_workflow(name="imports.parcel", queue="imports")
def imported_parcel(ctx: Context, number: int) -> int:
    return int(ctx.step("store", store, number))


def store(number: int) -> int:
    take(0.1 + number % 5)
    if number % 13 == 7:
        raise NonRetriableError(f"row {number} has no weight")
    return number


def importing_many(ctx: Context, number: int) -> list[int]:
    ctx.step("download", take, 4.0)
    return list(ctx.map("row", imported_parcel, range(ROWS_OF_A_LARGE_IMPORT), max_parallel=20))


def _named(apps: str, verbs: str) -> list[Name]:
    """A workflow for each pair; an app's workflows share a queue, which is named after it."""
    return [(f"{app}.{verb}", app) for app in apps.split() for verb in verbs.split()]


SENDING = _named("mail sms push webhooks", "welcome receipt reminder digest invoice survey alert verify")
ORDERS = _named("shop market wholesale", "order return exchange preorder subscription")
SLOW = _named("crm support", "onboarding renewal winback escalation")
IMPORTS = _named("imports", "catalogue prices customers")
LONG = _named("reports", "yearly")
CHARGES = _named("billing", "charge")
CHILDREN = ["imports.row", "imports.parcel"]
# What only a night of trouble has (night.py).
CHECKOUTS, LARGE = _named("shop", "checkout"), _named("imports", "parcels")
LONG_NAMED = _named("wholesale", "order_for_partners_with_consignment_stock_and_deferred_invoicing")

for _shape, _names in (
    (send, SENDING),
    (order, ORDERS),
    (onboarding, SLOW),
    (importing, IMPORTS),
    (long, LONG),
    (failing, CHARGES),
    (checkout, CHECKOUTS + LONG_NAMED),
    (importing_many, LARGE),
):
    for _name, _queue in _names:
        durable_workflow(name=_name, queue=_queue)(_shape)
