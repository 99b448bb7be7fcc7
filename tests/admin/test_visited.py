"""What the browser's tests come by is all that there is to be seen. It needs no browser to tell."""

from __future__ import annotations

from django.test import Client

from tests.admin.every import addresses, make_rows
from tests.browser.visited import EXPECTED, FORBIDDEN, LEADING_ON, PARTS, PLAIN


def test_a_browser_is_to_come_by_every_page() -> None:
    """A new address is for one of these sets to name."""
    sets = (EXPECTED, PARTS, PLAIN, LEADING_ON, FORBIDDEN)
    assert sorted(name for names in sets for name in names) == sorted(addresses())


def test_what_it_does_not_come_by_is_no_page(boss: Client) -> None:
    rows = make_rows()
    found = {name: boss.get(rows.url(name)) for name in PARTS | PLAIN | LEADING_ON | FORBIDDEN}
    wanted = {**dict.fromkeys(PARTS | PLAIN, 200), **dict.fromkeys(LEADING_ON, 302), **dict.fromkeys(FORBIDDEN, 403)}
    assert {name: response.status_code for name, response in found.items()} == wanted
    assert [name for name in PARTS if "<html" in found[name].content.decode()] == []
    assert {found[name]["Content-Type"].partition(";")[0] for name in PLAIN} == {"text/plain"}
