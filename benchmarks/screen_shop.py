"""The example's shop for the pictures: an order that its warehouse packs, as its staff and as its customer see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.screen_pages import Look

ROOT = Path(__file__).resolve().parent.parent
NO_SERVERS = {"DATABASE_URL": "", "REDIS_URL": ""}
"""Those that the environment knows of have other orders."""
ORDER = "A-4711"


@contextmanager
def opened() -> Iterator[str]:
    """Its address, once it has an order that is packed."""
    from tests.example.open_shop import open_shop
    from tests.processes import wait_until

    with TemporaryDirectory() as name:
        folder = Path(name)
        environment = {**NO_SERVERS, "PYTHONPATH": str(ROOT), "SHOP_DATA": str(folder / "data")}
        with open_shop(environment, folder) as shop:
            shop.order(ORDER)
            wait_until(lambda: shop.status(ORDER) == "packing", 60)
            yield shop.url


def sign_in(context: Any) -> None:
    from tests.example.open_shop import PASSWORD, USER

    page = context.new_page()
    page.goto("/admin/login/")
    page.get_by_label("Username").fill(USER)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/admin/")
    page.close()


def pages() -> dict[str, Look]:
    """Where to look by the name of the picture."""
    return {
        "order": Look("/admin/shop/order/1/change/", until_packed(".durable-object-runs"), is_live=False),
        "page": Look(f"/orders/{ORDER}/", until_packed(".durable-run"), is_live=False),
    }


def until_packed(part: str) -> Callable[[Any], None]:
    """What waits until this part of a page says that the order's run waits for its parcel."""

    def wait(page: Any) -> None:
        from tests.processes import wait_until

        wait_until(lambda: page.reload() and "waiting" in page.locator(part).first.text_content(), 60)

    return wait
