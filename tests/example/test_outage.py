"""The night that the README tells of, with real processes: the gateway breaks, orders fail, it is repaired, and all of
them are resumed in the admin."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from pathlib import Path

from gateway.faults import Fault, FaultPlan
from tests.example.open_shop import PASSWORD, USER, open_shop
from tests.example.visiting import Visitor
from tests.processes import wait_until

OVERVIEW = "/admin/django_durable/run/overview/"
FAILED = re.compile("3 runs have failed (?:today|in the last day)")
"""The one by day, the other by night."""
SILENT = next(seed for seed in count() if FaultPlan(seed).fault(0) is Fault.TIMEOUT)
"""The seed of a gateway that charges what it is asked first, and does not say so."""
ORDERS = ["W-1", "W-2", "W-3"]


def test_what_failed_is_resumed_in_the_overview_and_ships_each_charged_once(
    example_environment: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    environment = example_environment(SHOP_GATEWAY_ATTEMPTS="3")
    with open_shop(environment, tmp_path, seed=SILENT, pack_seconds=0.2) as shop:

        def statuses() -> set[str]:
            return {shop.status(order) for order in ORDERS}

        first, *others = ORDERS
        shop.order(first)
        wait_until(lambda: shop.charged() == [first])
        shop.tell_gateway("break")
        for order in others:
            shop.order(order)

        operator = Visitor(shop.url).open(f"/admin/login/?next={OVERVIEW}")
        operator.press("Log in", username=USER, password=PASSWORD)
        wait_until(lambda: FAILED.search(operator.open(OVERVIEW).text) is not None)
        [failed] = FAILED.findall(operator.text)
        assert statuses() == {"placed"}
        assert shop.charged() == [first], "which the shop does not know"

        shop.tell_gateway("repair")
        operator.press(f"Resume: {failed}")
        assert "This can be done to 3 runs." in operator.text
        assert statuses() == {"placed"}, "it is asked first"
        operator.press("Yes, do it", reason="The gateway works again.")
        assert "3 runs go on." in operator.text

        wait_until(lambda: statuses() == {"shipped"})
        assert sorted(shop.charged()) == ORDERS
        assert not FAILED.search(operator.open(OVERVIEW).text)
