"""Where one is stands on our pages as it does on Django's own, which of the versions that we know it may be."""

from __future__ import annotations

import pytest
from django.urls import reverse
from playwright.sync_api import Page

from tests.admin.pages import list_url, run_url
from tests.admin.world import make_run
from tests.browser.conftest import PHONE, Open

LOOK = """
(nav) => {
    const styles = (element, ...names) => names.map((name) => getComputedStyle(element)[name]);
    const place = (element) => {
        const { left, top, height } = element.getBoundingClientRect();
        return [left, top, height];
    };
    const [box] = nav.children, link = box.querySelector("a"), here = box.querySelector("[aria-current]") ?? box;
    return {
        box: [box.tagName, ...styles(box, "backgroundColor", "paddingLeft", "paddingTop"), ...place(box)],
        link: [link.parentElement.tagName, ...styles(link, "color", "fontSize", "textDecorationLine"), ...place(link)],
        here: [here.tagName, ...styles(here, "color", "fontSize")],
    };
}
"""


def look(page: Page, url: str) -> dict[str, list[object]]:
    page.goto(url)
    found: dict[str, list[object]] = page.locator("nav[aria-label=Breadcrumbs]").evaluate(LOOK)
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_they_look_like_djangos(open_page: Open, scheme: str) -> None:
    run = make_run("failed")
    page = open_page(color_scheme=scheme)
    djangos = look(page, reverse("admin:auth_user_changelist"))
    assert djangos["box"][1] != "rgba(0, 0, 0, 0)"
    ours = run_url(run), reverse("admin:django_durable_overview"), list_url()
    assert [look(page, url) for url in ours] == [djangos] * 3
    page.set_viewport_size(PHONE)
    our_run, our_list = look(page, run_url(run)), look(page, list_url())
    # A long one takes two lines there.
    assert our_run.pop("box")[:-1] == our_list.pop("box")[:-1]
    assert our_run == our_list
