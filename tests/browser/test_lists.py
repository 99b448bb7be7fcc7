"""The list of runs where there is little room: nothing of it has to be scrolled to, and all of it can be ticked."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect

from django_durable.admin.look_only import LookOnlyAdmin
from django_durable.core.payloads.codec import encode
from django_durable.models import Payload, Run, Tag
from tests.admin.pages import list_url
from tests.admin.world import make_entry, make_run, make_worker
from tests.browser.conftest import PHONE, Open

RUNS = 3
NAME = "wholesale.order_for_partners_with_consignment_stock_and_deferred_invoicing"

HOST = "shop-worker-7d9f8c6b5-x2lkq"


@pytest.fixture(autouse=True)
def _runs(browser: Browser, transactional_db: None) -> None:
    # The browser first: from then on this thread's connection is another one.
    worker = make_worker(host=HOST, pid=4711)
    for _ in range(RUNS):
        run = make_run("running", workflow=NAME, queue="wholesale", leased_by=worker.pk)
        progress = {"done": 2, "total": 4, "message": "charged"}
        Payload.objects.create(run=run, kind="progress", data=encode(progress))
        Tag.objects.bulk_create([Tag(run=run, name=name) for name in ("customer-48211", "vip", "preorder")])


def headers(page: Page) -> list[str]:
    shown = page.locator("#result_list thead th:visible").all()
    return [told for header in shown if (told := header.inner_text().strip().lower())]


@pytest.mark.parametrize(("width", "gone"), [(1280, {"worker"}), (1440, set()), (1920, set()), (2200, set())])
def test_on_a_desk_columns_give_way(open_page: Open, width: int, gone: set[str]) -> None:
    page = open_page(viewport={"width": width, "height": 800})
    page.goto(reverse("admin:django_durable_run_changelist"))
    assert (
        page.evaluate("() => { const it = document.querySelector('.results'); return it.scrollWidth - it.clientWidth }")
        == 0
    )
    assert {"worker", "attempt", "queue", "tags"} - set(headers(page)) == gone
    row = page.locator("#result_list tbody tr").first
    assert row.locator("td:visible, th:visible").count() == page.locator("#result_list thead th:visible").count()


def make_failed() -> Run:
    run = make_run("failed", workflow="shop.checkout", queue="shop", max_attempts=3)
    make_entry(run, "charge", status="failed")
    error = {
        "type": "builtins.RuntimeError",
        "message": "the gateway did not answer while it was asked",
        "traceback": "",
    }
    Payload.objects.create(run=run, kind="error", data=encode(error))
    Tag.objects.create(run=run, name="customer-48211")
    return run


LINES = """
(cell, words) => words.split(" ").map((word) => {
    const nodes = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), range = document.createRange();
    while (nodes.nextNode() && !nodes.currentNode.data.includes(word));
    range.setStart(nodes.currentNode, nodes.currentNode.data.indexOf(word));
    range.setEnd(nodes.currentNode, nodes.currentNode.data.indexOf(word) + word.length);
    return range.getClientRects().length;
})
"""
"""In how many lines each of these words stands."""


@pytest.mark.parametrize("width", [1280, 1440, 1920])
def test_on_a_desk_no_word_is_broken_beside_a_long_name(open_page: Open, width: int) -> None:
    make_failed()
    page = open_page(viewport={"width": width, "height": 800})
    page.goto(list_url())
    row = page.locator("#result_list tbody tr").first
    assert row.locator(".field-step").evaluate(LINES, "charge RuntimeError: gateway") == [1, 1, 1]
    assert row.locator(".field-tags").evaluate(LINES, "customer-48211") == [1]
    assert page.locator(".results").evaluate("(it) => it.scrollWidth - it.clientWidth") == 0


def test_of_a_worker_whose_name_is_cut_one_sees_the_end_and_has_all_of_it_in_the_title(open_page: Open) -> None:
    page = open_page(viewport={"width": 1440, "height": 800})
    page.goto(list_url())
    cell = page.locator("#result_list .field-worker").first
    expect(cell.get_by_title(f"{HOST}:4711", exact=True)).to_have_text(f"{HOST}:4711")
    left, right, end = cell.evaluate(
        "(it) => [it.getBoundingClientRect(), it.querySelector('bdi').getBoundingClientRect()]"
        ".flatMap((box, at) => at ? [box.right] : [box.left, box.right])"
    )
    assert left < end <= right


def test_on_a_desk_a_column_in_which_there_is_nothing_gives_its_room_to_the_others(open_page: Open) -> None:
    make_failed()
    page = open_page(viewport={"width": 1280, "height": 800})
    wide = {}
    for query in ("", "?status=failed"):
        page.goto(list_url(query))
        wide[query] = page.locator("#result_list .field-step").first.bounding_box()["width"]
        assert ("progress" in headers(page)) is (query == "")
    assert wide["?status=failed"] > 1.2 * wide[""]


def test_on_a_desk_those_that_are_queued_push_nothing_out(open_page: Open) -> None:
    make_run("queued", workflow=NAME, queue="wholesale", queued_at=timezone.now() - timedelta(minutes=14))
    page = open_page(viewport={"width": 1280, "height": 800})
    page.goto(reverse("admin:django_durable_run_changelist"))
    expect(page.locator("#result_list .field-started").first).to_have_text("queued 14 min ago")
    assert page.locator(".results").evaluate("(it) => it.scrollWidth - it.clientWidth") == 0


def test_a_click_on_the_end_of_an_id_selects_all_of_it(open_page: Open) -> None:
    page = open_page(viewport={"width": 1920, "height": 800})
    page.goto(reverse("admin:django_durable_run_changelist"))
    run_id = page.locator("#result_list input.action-select").first.get_attribute("value")
    code = page.locator("#result_list .durable-whole-id").first
    assert code.bounding_box()["width"] < 150, "it is as wide as all of it"
    code.click()
    assert page.evaluate("() => getSelection().toString()") == run_id
    expect(page).to_have_url(re.compile("/run/$"))


def test_where_there_are_more_workflows_than_lines_half_of_one_says_so(open_page: Open) -> None:
    page = open_page(viewport={"width": 1440, "height": 800})
    page.goto(reverse("admin:django_durable_run_changelist"))
    box, lines = page.evaluate(
        """() => {
            const lists = [...document.querySelectorAll("#changelist-filter details[open] ul")];
            const list = lists.find((one) => one.scrollHeight > one.clientHeight);
            const bottom = list.getBoundingClientRect().bottom;
            const cut = [...list.children].map((item) => item.getBoundingClientRect())
                .filter((item) => item.top < bottom - 2 && item.bottom > bottom + 2);
            return [list.clientHeight, cut.length];
        }"""
    )
    assert box < 100 and lines > 0


def test_on_a_phone_all_can_be_ticked(open_page: Open) -> None:
    page = open_page(viewport=PHONE, is_mobile=True, has_touch=True)
    page.goto(reverse("admin:django_durable_run_changelist"))
    assert headers(page) == []
    expect(page.locator("#result_list .field-queue_name").first).to_have_text("wholesale")
    page.locator("#action-toggle").check()
    expect(page.locator("#result_list tbody input:checked")).to_have_count(RUNS)


def test_all_that_match_are_chosen_by_the_link_that_comes_when_a_page_of_them_is_ticked(open_page: Open) -> None:
    count = LookOnlyAdmin.list_per_page + 1
    for _ in range(count - RUNS):
        make_run("queued")
    page = open_page()
    page.goto(list_url())
    every = page.get_by_role("button", name="Select all that match")
    expect(every).to_be_hidden()
    page.locator("#action-toggle").check()
    expect(page.locator("#result_list tbody input:checked")).to_have_count(count - 1)
    every.click()
    expect(page.get_by_text("All that match are selected")).to_be_visible()
    page.locator("select[name=action]").select_option("cancel_selected")
    page.locator(".actions button[type=submit]").click()
    expect(page.get_by_text(f"This can be done to {count} runs.")).to_be_visible()
