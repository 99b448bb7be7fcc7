"""The journal as a timeline: what lies in what, from when to when; its parts and folds."""

from __future__ import annotations

import html
import re
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.timezone import localtime

from django_durable import Break, Context, Continue, Retry, durable_workflow
from django_durable.admin import journal, timeline
from django_durable.admin.waterfall import BAR_LEAST
from django_durable.core.payloads.codec import encode
from django_durable.models import JournalEntry, Run
from django_durable.testing import run_until_idle, travel
from tests.admin.conftest import LOOK, Person
from tests.admin.pages import ROUNDED, judge, live_url, run_url, text_of, verb_url
from tests.admin.world import make_entry, make_line, make_run
from tests.app.workflows import doubling


@durable_workflow(name="timeline.part")
def part(ctx: Context, number: int) -> int:
    return ctx.step("double", _double, number)


@durable_workflow(name="timeline.whole", retry=Retry(max_attempts=1))
def whole(ctx: Context) -> None:
    """All that nests, in one run, which fails and undoes what it did."""
    ctx.step("reserve", _double, 1, compensate=_double)
    ctx.join("both", {"left": _pick, "right": lambda inner: inner.map("items", _double, [1, 2, 3])})
    ctx.race("first", {"quick": _pick, "slow": lambda inner: inner.sleep("nap", timedelta(hours=1))})
    ctx.loop("turns", _turn, state=0)
    ctx.run_workflow("kid", part, 4)
    ctx.map("kids", part, [1, 2])
    ctx.sleep("cool", timedelta(hours=3))
    ctx.step("pay", _fail, retry=Retry(max_attempts=2, initial=5, jitter=0))


def _double(number: int) -> int:
    return number * 2


def _fail() -> None:
    raise ValueError("no card")


def _pick(ctx: Context) -> int:
    return ctx.step("pick", _double, 1)


def _turn(ctx: Context, state: int) -> Continue | Break:
    ctx.step("read", _double, state, compensate=_double)  # so that the turn stays in the journal
    ctx.sleep("rest", timedelta(seconds=30))
    return Break(state) if state else Continue(state + 1)


def bars(page: str, seq: int) -> list[tuple[str, float, float]]:
    """Those of an entry's row: what, from where, how wide."""
    [row] = re.findall(rf'<tr id="entry-{seq}">.*?</tr>', page, re.DOTALL)
    found = re.findall(r'<rect class="durable-bar-([a-z]+)" x="([\d.]+)%" width="([\d.]+)%"/>', row)
    return [(what, float(x), float(width)) for what, x, width in found]


def test_bars_say_what_was_done_and_what_was_waited_for(boss: Client) -> None:
    now = timezone.now()
    run = make_run("waiting", created_at=now - timedelta(seconds=100), started_at=now - timedelta(seconds=90))

    def after(seconds: float) -> datetime:
        return now - timedelta(seconds=100 - seconds)

    make_entry(run, "work", 1, started_at=after(10), finished_at=after(60))
    make_entry(run, "again", 2, started_at=after(60), finished_at=after(80), attempts=3)
    make_entry(
        run, "rest", 3, kind="sleep", status="waiting", started_at=after(80), finished_at=None, wake_at=after(150)
    )
    make_entry(run, "work%undo", 4, kind="undo", started_at=after(80), finished_at=after(90))
    page = boss.get(run_url(run)).content.decode()
    [(what, x, width)] = bars(page, 1)
    assert (what, round(x), round(width)) == ("succeeded", 7, 33)
    assert [what for what, *_ in bars(page, 2)] == ["wait", "failed", "succeeded"]
    assert [what for what, *_ in bars(page, 3)] == ["wait", "planned"]
    assert [what for what, *_ in bars(page, 4)] == ["undo"]
    assert "3 attempts" in page and "until" in page


def test_of_attempts_that_the_log_does_not_have_the_page_says_so(boss: Client) -> None:
    run = make_run("running")
    for seq, (path, more) in enumerate({
        "none": {"attempts": 3},
        "one": {"attempts": 3},
        "both": {"attempts": 3},
        "retrying": {"attempts": 2, "status": "retrying", "finished_at": None},
        "polled": {"attempts": 3, "kind": "poll"},
    }.items(), 1):  # fmt: skip
        make_entry(run, path, seq, **more)
    for number, path in enumerate(["one", "both", "both", "retrying"]):
        make_line(run, "attempt 1 failed, the next one comes in 5 s: OSError", number, scope=path, attempt=1, seconds=5)
    page = boss.get(run_url(run)).content.decode()
    rows = re.findall(r'<tr id="entry-\d">.*?</tr>', page, re.DOTALL)
    assert ["not all of them in the log" in row for row in rows] == [True, True, False, True, False]
    Run.objects.update(forked_from=run.pk)
    assert "not all of them" not in text_of(boss.get(run_url(run))), "of a fork nobody expects them there"


def test_an_entry_that_ended_before_it_began_took_no_time(boss: Client) -> None:
    """By a clock that was set back in between."""
    first = timezone.now() - timedelta(seconds=100)
    run = make_run("succeeded", created_at=first, started_at=first, finished_at=first + timedelta(seconds=100))
    for seq, (start, end) in enumerate([(0, 2), (50, 49.98), (50, 52), (98, 100)], 1):
        span = {"started_at": first + timedelta(seconds=start), "finished_at": first + timedelta(seconds=end)}
        make_entry(run, f"step {seq}", seq, **span)
    page = boss.get(run_url(run)).content.decode()
    assert len(re.findall('class="durable-gap"', page)) == 2 * 2, "in the picture and in its head"
    assert not re.findall(' (?:x|width)="-', page)
    [(what, x, width)] = bars(page, 2)
    assert (what, width) == ("succeeded", BAR_LEAST)
    assert abs(x - bars(page, 3)[0][1]) < BAR_LEAST
    [row] = re.findall(r'<tr id="entry-2">.*?</tr>', page, re.DOTALL)
    assert "0 ms" in row


@pytest.mark.parametrize("attempts", [1, 3])
def test_what_could_not_be_undone_is_drawn_as_failed(boss: Client, attempts: int) -> None:
    first = timezone.now() - timedelta(seconds=100)
    run = make_run("failed", created_at=first, started_at=first)
    span = {"started_at": first + timedelta(seconds=10), "finished_at": first + timedelta(seconds=20)}
    make_entry(run, "work%undo", 1, kind="undo", status="failed", attempts=attempts, **span)
    whats = [what for what, *_ in bars(boss.get(run_url(run)).content.decode(), 1)]
    assert whats == (["failed"] if attempts == 1 else ["wait", "failed", "failed"])


def test_attempts_stand_where_they_were_as_far_as_the_log_has_them(boss: Client) -> None:
    begun = timezone.now() - timedelta(seconds=100)

    def after(seconds: float) -> datetime:
        return begun + timedelta(seconds=seconds)

    run = make_run("succeeded", created_at=begun, started_at=begun, finished_at=after(100))
    make_entry(run, "pay", 1, started_at=after(0), finished_at=after(100), attempts=4)
    make_entry(run, "pack", 2, started_at=after(50), finished_at=after(60), attempts=2)
    first = "attempt 1 failed, the next one comes in 20 s: OSError: reset"
    make_line(run, first, 1, at=after(10), scope="pay", attempt=1, seconds=10)
    make_line(run, "pay says something", 2, at=after(20), scope="pay")
    make_line(run, "attempt 2 failed", 3, at=after(50), scope="pay", attempt=2, seconds=20)
    make_line(run, "attempt 3 failed by a clock that is wrong", 4, at=after(900), scope="pay", attempt=3, seconds=5)
    page = boss.get(run_url(run)).content.decode()
    drawn = [(what, round(x), round(width)) for what, x, width in bars(page, 1)]
    assert drawn[:3] == [("wait", 0, 100), ("failed", 0, 10), ("failed", 30, 20)]
    assert [what for what, *_ in drawn[3:]] == ["failed", "succeeded"]
    told = '4 attempts</span><span class="durable-unseen">: failed after 10.0 s, the next one due 20.0 s later; failed'
    assert f"{told} after 20.0 s, the next one due at once;" in page
    assert [what for what, *_ in bars(page, 2)] == ["wait", "failed", "succeeded"]


def test_of_very_many_attempts_the_last_are_told_in_words(boss: Client) -> None:
    run = make_run("running")
    make_entry(run, "pay", attempts=40)
    for number in range(1, 40):
        failed = f"attempt {number} failed, the next one comes in {number} s: OSError: reset"
        make_line(run, failed, number, scope="pay", attempt=number, seconds=1)
    text = text_of(boss.get(run_url(run)))
    assert "40 attempts : …; failed after 1.0 s, the next one due 28.0 s later; failed" in text
    assert "due 39.0 s later" in text and text.count("failed after 1.0 s") == 12


def test_an_attempt_lies_within_its_step_however_coarse_a_clock_is(boss: Client) -> None:
    """SQLite knows milliseconds, and rounds: its step begins after what a worker says of it, behind a long sleep."""
    begun = timezone.now().replace(microsecond=194_000) - timedelta(hours=4)
    later = begun + timedelta(hours=3)
    run = make_run("failed", created_at=begun, started_at=begun, finished_at=later + timedelta(seconds=5))
    make_entry(run, "load", 1, started_at=begun, finished_at=begun + timedelta(seconds=1))
    make_entry(run, "rest", 2, kind="sleep", started_at=begun + timedelta(seconds=1), finished_at=later)
    make_entry(run, "pay", 3, started_at=later, finished_at=later + timedelta(seconds=5), attempts=2)
    at = later - timedelta(microseconds=434)
    make_line(run, "attempt 1 failed", 1, at=at, scope="pay", attempt=1, seconds=0.000_007)
    wait, first, last = bars(boss.get(run_url(run)).content.decode(), 3)
    assert (wait[0], first[0], last[0]) == ("wait", "failed", "succeeded")
    assert wait[1] == first[1] and wait[2] > 2 * first[2]


def test_a_step_that_failed_at_first_has_its_attempts_and_the_wait_between(boss: Client) -> None:
    run = _run_it_whole()
    [pay] = run.journal.filter(path="pay")
    page = boss.get(run_url(run)).content.decode()
    wait, first, last = bars(page, pay.seq)
    assert (wait[0], first[0], last[0]) == ("wait", "failed", "failed")
    end = wait[1] + wait[2] + ROUNDED
    assert last[1] >= first[1] + first[2] - ROUNDED and end >= last[1]
    assert "attempt 1 failed, the next one comes in 5 s" in page


def test_a_wait_that_is_still_to_come_begins_where_the_present_one_ends(boss: Client) -> None:
    """Also where the picture is older than the entry: it stands still for a second and more."""
    now = (timezone.now() + timedelta(seconds=60)).replace(microsecond=900_000)
    begun = now - timedelta(milliseconds=500)
    run = make_run("waiting", created_at=begun, started_at=begun)
    make_entry(run, "work", 1, started_at=begun, finished_at=begun + timedelta(milliseconds=200))
    make_entry(
        run, "flaky", 2, status="retrying", started_at=now, finished_at=None, wake_at=now + timedelta(seconds=10)
    )
    found = {what: (x, x + width) for what, x, width in bars(boss.get(run_url(run)).content.decode(), 2)}
    assert set(found) == {"wait", "failed", "planned"}
    assert found["planned"][0] == found["failed"][0] > 0


def test_the_bar_of_a_moment_is_still_seen(boss: Client) -> None:
    now = timezone.now()
    run = make_run("succeeded", created_at=now - timedelta(days=9), started_at=now - timedelta(days=9))
    make_entry(run, "last", started_at=now, finished_at=now)
    [(_, x, width)] = bars(boss.get(run_url(run)).content.decode(), 1)
    assert width == BAR_LEAST and x + width <= 100


def test_a_timeline_comes_in_parts(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "ENTRIES_SHOWN", 3)
    monkeypatch.setattr(journal.Window, "__init__", _with_most(journal.Window.__init__, 3))
    run = make_run("succeeded")
    make_entry(run, "loop", 1, kind="loop", status="open", finished_at=None)
    for seq in range(2, 9):
        make_entry(run, f"loop[{seq}]/read {seq}", seq * 10)
    seen, url = [], ""
    while True:
        page = boss.get(run_url(run) + url)
        seen += re.findall(r"read (\d+)</bdi>", page.content.decode())
        assert "loop" in text_of(page)  # around the others it is there in every part
        following = re.search(r'href="(\?[^"]+)#durable-timeline" class="durable-next"', page.content.decode())
        if following is None:
            break
        url = following[1]
    assert seen == [str(number) for number in range(2, 9)]
    assert "The whole run" in text_of(page)


PAGES = re.compile(r'href="(\?[^"]+)#durable-timeline" class="durable-(before|last|next)"')


@pytest.mark.parametrize("inside", ["", "loop"])
def test_the_end_of_a_long_timeline_is_one_click_away_and_leads_back(
    boss: Client, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    monkeypatch.setattr(journal.Window, "__init__", _with_most(journal.Window.__init__, 3))
    run = make_run("running")
    for seq in range(1, 10):
        make_entry(run, f"loop/read {seq}", seq * 10)

    def look(query: str) -> tuple[str, dict[str, str], str]:
        page = boss.get(run_url(run) + query)
        assert judge(page) == []
        shown = page.content.decode()
        links = {name: html.unescape(url) for url, name in PAGES.findall(shown)}
        return "".join(re.findall(r"read (\d+)</bdi>", shown)), links, text_of(page)

    seen, first, _ = look(f"?in={inside}" if inside else "")
    assert (seen, first.keys()) == ("123", {"next", "last"})
    seen, last, told = look(first["last"])
    assert (seen, last.keys()) == ("789", {"before"}) and "The last entries." in told
    seen, middle, told = look(last["before"])
    assert (seen, middle.keys()) == ("456", {"before", "next", "last"}) and "Up to entry 69." in told
    seen, links, _ = look(middle["before"])
    assert (seen, links.keys()) == ("123", {"next", "last"})
    seen, links, _ = look(middle["next"])
    assert (seen, links.keys()) == ("789", {"before"})
    assert look(links["before"])[0] == "456"
    seen, links, _ = look("?from=900")
    assert (seen, links.keys()) == ("", {"last"}), "from where nothing is any more"
    make_entry(run, "loop/read 0", 100)
    assert look(first["last"])[0] == "890", "whoever looks at the last ones follows a run that goes on"
    assert "until=last" in boss.get(run_url(run) + first["last"]).context["refresh"]


def test_what_is_folded_on_a_later_page_is_where_its_link_leads(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal.Window, "__init__", _with_most(journal.Window.__init__, 20))
    run = make_run("running")
    make_entry(run, "loop", 1, kind="loop", status="open", finished_at=None)
    for turn in range(40):
        make_entry(run, f"loop[{turn}]/read {turn}", turn + 2)
    page = boss.get(run_url(run) + "?until=last").content.decode()
    [fold] = re.findall(r'<a href="([^"]+)"><bdi>\d+ more: ', page)
    page = boss.get(run_url(run) + html.unescape(fold)).content.decode()
    assert re.findall(r"read (\d+)</bdi>", page) == [str(turn) for turn in range(20, 40)]


@pytest.mark.parametrize(("count", "is_listed"), [(2, False), (9, True)])
def test_how_long_an_idle_time_was_is_told_whatever_room_it_has(boss: Client, count: int, is_listed: bool) -> None:
    first = timezone.now() - timedelta(days=2)
    moments = [first + n * timedelta(hours=1, seconds=1) for n in range(count)]
    run = make_run("succeeded", created_at=first, started_at=first, finished_at=moments[-1] + timedelta(seconds=1))
    for n, start in enumerate(moments):
        make_entry(run, f"read {n}", n + 1, started_at=start, finished_at=start + timedelta(seconds=1))
    page = boss.get(run_url(run)).content.decode()
    title = "<title>idle time, drawn short: 1 h</title></rect>"
    header = page.split('class="durable-axis')[1].split("</svg>")[0]
    assert header.count(title) == page.split('id="durable-grid"')[1].split("</g>")[0].count(title) == count - 1
    legend = text_of_part(page.split('class="durable-legend"')[1].split("</ul>")[0])
    assert ("idle time, drawn short: 1 h, 1 h, 1 h" in legend) is is_listed
    assert ("durable-gap-label" in header) is not is_listed


def text_of_part(part: str) -> str:
    return " ".join(re.sub("<.*?>", " ", part).split())


def test_what_comes_after_the_listed_entries_is_not_idle(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal.Window, "__init__", _with_most(journal.Window.__init__, 3))
    first = timezone.now() - timedelta(seconds=3_600)
    run = make_run("succeeded", created_at=first, started_at=first)
    for n in range(9):
        start = first + timedelta(seconds=n)
        make_entry(run, f"read {n}", n + 1, started_at=start, finished_at=start + timedelta(seconds=1))
    run.events.create(name="packed", payload="1")
    page = boss.get(run_url(run)).content.decode()
    assert "durable-next" in page and "durable-hatch" not in page.partition("</svg>")[0]
    assert [round(bars(page, seq)[0][2]) for seq in (1, 2, 3)] == [33, 33, 33]
    assert "<circle" not in page  # it was sent when the listed entries were over


def test_whoever_points_at_an_event_reads_which_it_was_and_when_it_came(boss: Client) -> None:
    run = make_run("running")
    make_entry(run, "reserve", 1)
    sent = run.events.create(name="packed <b>", payload="1").sent_at
    page = boss.get(run_url(run)).content.decode()
    (told,) = re.findall(r"<circle[^>]*><title>(.*?)</title></circle>", page)
    assert told == f"packed &lt;b&gt; was sent on {localtime(sent):%Y-%m-%d %H:%M:%S}"


def _with_most(init: Any, most: int) -> Any:
    def patched(self: Any, first: int = 0, inside: str = "", _most: int = most, **more: Any) -> None:
        init(self, first, inside, most, **more)

    return patched


def test_a_scope_is_looked_at_alone(boss: Client) -> None:
    run = make_run("succeeded")
    paths = ("race", "race/a/x", "race/b/y", "race/a%2Fz", "racer", "RACE/a/x", "race[1]", "race%undo")
    for seq, path in enumerate(paths, 1):
        make_entry(run, path, seq, kind="race" if path == "race" else "step")
    run.events.create(name="packed", payload="1")
    page = boss.get(run_url(run) + "?in=race")
    found = set(re.findall(r'id="entry-(\d+)"', page.content.decode()))
    # SQLite compares without regard to case.
    assert found == {"1", "2", "3", "4", "7", "8"} | ({"6"} if connection.vendor == "sqlite" else set())
    assert "Only what is in race ." in text_of(page)
    assert "packed" not in text_of(page)  # the rest is on the page of the whole run
    page = boss.get(run_url(run) + "?in=race/a")
    assert set(re.findall(r'id="entry-(\d+)"', page.content.decode())) - {"6"} == {"1", "2"}  # the race is around it


@pytest.mark.parametrize(
    "query", ["?from=x", "?from=-1", "?from=²", f"?from={'9' * 30}", "?in=%00", "?in=" + "a" * 900, "?at=%00"]
)
def test_nonsense_in_the_address_is_no_error(boss: Client, query: str) -> None:
    run = make_run("succeeded")
    make_entry(run, "a")
    response = boss.get(run_url(run) + query)
    assert response.status_code == 200
    assert judge(response) == []


def lines(page: str) -> list[str]:
    """What a timeline tells, a line for each row: set in, label, kind and status, and how many runs it leads to."""
    found = []
    for row in re.findall(r"<tr[^>]*>(<th scope=\"row\" class=\"durable-in-.*?)</tr>", page, re.DOTALL):
        depth = int(re.search(r"durable-in-(\d+)", row)[1])  # type: ignore[index]
        name, _, status = re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)[:3]
        seen = re.sub(r'<span class="durable-unseen">.*?</span>', "", name + status)
        words = " ".join(re.sub("<[^>]*>", " ", seen).split())
        found.append("  " * depth + words + " →" * row.count(">child run<"))
    return found


WHOLE = """
the run
reserve step succeeded
both join succeeded
  left
    pick step succeeded
  right
    items map succeeded
      [0] step succeeded
      [1] step succeeded
      [2] step succeeded
first race succeeded
  quick winner
    pick step succeeded
turns loop succeeded
  [0]
    read step succeeded
    rest sleep succeeded
    read undo succeeded
  [1]
    read step succeeded
    rest sleep succeeded
    read undo succeeded
kid child succeeded →
kids map succeeded
  [0] child succeeded →
  [1] child succeeded →
cool sleep succeeded
pay step failed 2 attempts
reserve undo succeeded
"""


def _run_it_whole() -> Run:
    handle = whole.enqueue()
    with travel():
        run_until_idle(skip_waits=True)
    # Where nothing takes any time, as on a fast machine by the clock of SQLite, an axis is to scale.
    run, longer = handle.refresh().run, timedelta(milliseconds=200)
    Run.objects.filter(pk=run.pk).update(created_at=run.created_at - longer, started_at=run.started_at - longer)
    run.journal.filter(path="reserve").update(started_at=F("started_at") - longer)
    return handle.refresh().run


def test_a_run_with_all_that_nests_is_drawn_as_it_went(boss: Client) -> None:
    run = _run_it_whole()
    page = boss.get(run_url(run)).content.decode()
    assert lines(page) == WHOLE.strip().splitlines()

    for scope in ("both", "first", "turns", "kids"):
        # What is undone is so when its scope is long over; a turn's own entry has no row.
        inside = (
            run.journal.filter(path__startswith=scope).exclude(path__endswith="%undo").exclude(path__endswith="%turn")
        )
        (outer, *others) = [
            (x, x + width)
            for seq in inside.order_by("seq").values_list("seq", flat=True)
            for _, x, width in bars(page, seq)
        ]
        least = BAR_LEAST + 0.02
        assert others and all(outer[0] - least <= start and end <= outer[1] + least for start, end in others), scope


@pytest.mark.parametrize("scope", ["both", "first", "turns", "kid", "kids"])
def test_a_part_of_it_tells_the_same_as_the_whole(boss: Client, scope: str) -> None:
    run = _run_it_whole()
    page = boss.get(f"{run_url(run)}?in={scope}").content.decode()
    rows = WHOLE.strip().splitlines()
    first = next(number for number, row in enumerate(rows) if row.startswith(f"{scope} "))
    last = next(number for number, row in enumerate(rows) if number > first and not row.startswith(" "))
    assert lines(page) == rows[first:last]


@pytest.mark.parametrize("query", ["?in=items", "?from=2", "?from=2&near=1"])
def test_a_part_leads_to_children_and_has_their_times(boss: Client, query: str) -> None:
    now = timezone.now()
    run = make_run("failed", created_at=now - timedelta(seconds=100), started_at=now - timedelta(seconds=100))
    make_entry(run, "items", 1, kind="map", status="failed", started_at=now - timedelta(seconds=100), finished_at=now)
    for index, status in enumerate(("succeeded", "failed")):
        end = now - timedelta(seconds=50 * index)
        make_run(
            status,
            parent=run,
            parent_path=f"items[{index}]",
            created_at=end - timedelta(seconds=25),
            finished_at=end,
        )
        # A map writes the entry when it hears of the end.
        make_entry(run, f"items[{index}]", index + 2, kind="child", status=status, started_at=now, finished_at=now)
    page = boss.get(run_url(run) + query).content.decode()
    assert [page.count(run_url(child)) for child in Run.objects.filter(parent=run)] == [1, 1]
    assert "25.0 s" in page
    [(_, x, width)] = [bar for bar in bars(page, 2) if bar[0] == "wait"]
    assert width > 10 and x + width > 99


def test_a_map_tells_how_many_items_it_has_and_not_how_it_counts_them(boss: Client) -> None:
    run = make_run("waiting")
    told = {"started": 2, "count": 1_500, "digests": {"of": ["6b86b273"] * 90, "scheme": 1}}
    make_entry(run, "many", 1, kind="map", status="waiting", value=encode(told), finished_at=None)
    make_entry(run, "one", 2, kind="map", value=encode({"started": 0, "count": 1}))
    make_entry(run, "damaged", 3, kind="map", value="{")
    page = boss.get(run_url(run))
    text = text_of(page)
    assert "1,500 items" in text and "1 item " in text
    assert "digests" not in page.content.decode() and "characters in all" not in text


FOLDED = """
the run
loop loop open
  16 more: succeeded
  [5]
    read step failed
  [17]
    read step succeeded
  [18]
    read step succeeded
  [19]
    read step succeeded
"""


def make_loop(turns: int, failed: Collection[int]) -> Run:
    begun = timezone.now() - timedelta(minutes=10)
    run = make_run("running", created_at=begun, started_at=begun)
    make_entry(run, "loop", 1, kind="loop", status="open", started_at=begun, finished_at=None)
    for turn in range(turns):
        span = {"started_at": begun + timedelta(seconds=turn), "finished_at": begun + timedelta(seconds=turn + 1)}
        status = "failed" if turn in failed else "succeeded"
        make_entry(run, f"loop[{turn}]/read", turn + 2, status=status, **span)
    return run


def test_a_row_tells_of_the_turns_that_are_folded_and_leads_to_them(boss: Client) -> None:
    """All but the last and the one that failed."""
    run = make_loop(20, failed=[5])
    page = boss.get(run_url(run)).content.decode()
    assert lines(page) == FOLDED.strip().splitlines()
    [row] = [row for row in page.split("<tr") if "16 more" in row]
    assert '<a href="?in=loop#durable-timeline"><bdi>16 more: succeeded</bdi></a>' in row
    assert "17.0 s" in row, "from the beginning of the first to the end of the last"


def test_what_is_folded_is_counted_by_status(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many that failed only so many are shown one by one."""
    monkeypatch.setattr(timeline, "TROUBLED_SHOWN", 1)
    page = boss.get(run_url(make_loop(20, failed=[0, 5, 9]))).content.decode()
    assert lines(page)[2] == "  16 more: 14 succeeded, 2 failed"


@pytest.mark.parametrize("kind", ["join", "race", "poll"])
def test_what_is_not_decided_yet_has_no_result(boss: Client, kind: str) -> None:
    run = make_run("waiting")
    made = {"kind": kind, "value": encode(["bookkeeping"])}
    make_entry(run, "one", 1, status="open", finished_at=None, **made)
    make_entry(run, "two", 2, status="failed", **made)
    assert "bookkeeping" not in text_of(boss.get(run_url(run)))
    make_entry(run, "three", 3, **made)
    assert "bookkeeping" in text_of(boss.get(run_url(run)))


def link_of(page: str, seq: int) -> str:
    """Where an entry's name leads to."""
    [href] = re.findall(rf'<tr id="entry-{seq}"><th(?:(?!</th>).)*?<a href="([^"#]*)#durable-timeline">', page)
    return html.unescape(href)


def make_uneven_run() -> Run:
    """Of two hours, in a loop, of which a step has ten seconds; what it did is undone at the end."""
    begun = timezone.now() - timedelta(hours=2)

    def after(seconds: float) -> datetime:
        return begun + timedelta(seconds=seconds)

    run = make_run("failed", created_at=begun, started_at=begun, finished_at=after(7_200))
    make_entry(run, "turns", 1, kind="loop", started_at=begun, finished_at=after(7_200))
    make_entry(run, "turns[0]/read", 2, started_at=begun, finished_at=after(2))
    make_entry(run, "turns[0]/pay", 3, started_at=after(2), finished_at=after(12), attempts=2)
    make_entry(run, "turns[0]/pack", 4, started_at=after(12), finished_at=after(7_000))
    make_entry(run, "turns[0]/pay%undo", 5, kind="undo", started_at=after(7_000), finished_at=after(7_200))
    failed = "attempt 1 failed, the next one comes in 5 s: OSError: reset"
    make_line(run, failed, 1, at=after(7), scope="turns[0]/pay", attempt=1, seconds=5)
    return run


def test_a_step_is_looked_at_closely(boss: Client) -> None:
    """However short it is beside what is around it and after it."""
    run = make_uneven_run()
    page = boss.get(run_url(run)).content.decode()
    assert bars(page, 3)[0][2] == BAR_LEAST
    assert link_of(page, 3) == "?at=turns%5B0%5D%2Fpay"
    page = boss.get(run_url(run) + link_of(page, 3)).content.decode()
    wait, first, last = bars(page, 3)
    assert wait == ("wait", 0, 100)
    assert first == ("failed", 0, 50)
    assert last == ("succeeded", 100 - BAR_LEAST, BAR_LEAST)
    assert bars(page, 1) == [("scope", 0, 100)], "of what is around it as much as there is room for"
    assert bars(page, 5) == [], "what was done at another time is told and not drawn"
    page = boss.get(run_url(run) + link_of(page, 5)).content.decode()
    assert bars(page, 5) == [("undo", 0, 100)]


def test_a_step_that_is_looked_at_has_its_neighbours_and_the_whole_beside_it(boss: Client) -> None:
    run = make_run("succeeded")
    make_entry(run, "loop", 99, kind="loop")
    for seq in range(1, 60):
        make_entry(run, f"step {seq}", seq)
    page = boss.get(f"{run_url(run)}?at=step+20").content.decode()
    assert re.findall(r'id="entry-(\d+)"', page) == ["20"]
    part = page.split('durable-part">')[1].partition("</p>")[0]
    whole, neighbours = re.findall(r'<a href="([^"]*)">', part)
    assert (whole, neighbours) == (run_url(run), "?from=8&amp;near=1#durable-timeline")
    page = boss.get(run_url(run) + "?from=8&near=1").content.decode()
    assert re.findall(r'id="entry-(\d+)"', page) == [str(seq) for seq in range(8, 33)]
    assert '"?from=1&amp;near=1#' in boss.get(f"{run_url(run)}?at=step+3").content.decode()
    for query in ("", "?from=3", "?in=loop", "?in=nowhere", "?at=nowhere"):
        assert "near=1" not in boss.get(run_url(run) + query).content.decode()


def test_a_step_that_is_looked_at_is_alone_whatever_calls_have_its_name_and_a_key(boss: Client) -> None:
    run = make_run("succeeded")
    for seq, path in enumerate(["save", "save[1]", "save[2]", "save%undo"], 1):
        make_entry(run, path, seq)
    page = boss.get(run_url(run)).content.decode()
    page = boss.get(run_url(run) + link_of(page, 1)).content.decode()
    assert re.findall(r'id="entry-(\d+)"', page) == ["1", "4"]


@pytest.mark.parametrize("query", ["", "?from=200", "?in=loop"])
def test_a_part_takes_few_queries(person: Person, query: str) -> None:
    client = person(*LOOK, "view_payload")
    run = make_run("running")
    make_entry(run, "loop", 1, kind="loop", status="open", finished_at=None)
    rows = [JournalEntry(run=run, path=f"loop[{n}]/read", seq=n, kind="step", status="succeeded", attempts=1,
        started_at=run.created_at, finished_at=run.created_at, token=run.pk) for n in range(2, 600)]  # fmt: skip
    JournalEntry.objects.bulk_create(rows)
    with CaptureQueriesContext(connection) as queries:
        page = client.get(run_url(run) + query)
    assert page.content.count(b"<tr") < 2 * journal.ENTRIES_SHOWN + 20
    assert len(queries) <= 12


# --- fork from here ----------------------------------------------------------------------------


def test_a_fork_begins_at_an_entry(boss: Client) -> None:
    done = doubling.enqueue(4)
    run_until_idle()
    page = boss.get(run_url(done.run)).content.decode()
    button = '<button form="durable-fork" name="from_step" value="double" class="durable-fork">'
    assert button in page
    assert f'<form id="durable-fork" method="post" action="{verb_url(done.run, "fork")}">' in page
    assert 'value="double"' in boss.post(verb_url(done.run, "fork"), {"from_step": "double"}).content.decode()
    assert Run.objects.count() == 1  # it only asks


def test_only_who_may_is_offered_a_fork(person: Person) -> None:
    run = make_run("failed")
    for seq, path in enumerate(("step", "step%undo", "\u202eturned"), 1):
        make_entry(run, path, seq)
    page = person(*LOOK, "rerun_run", name="forker").get(run_url(run)).content.decode()
    assert page.count('name="from_step"') == 1  # none at what is ours, or reads otherwise than it is
    assert "durable-fork" not in person(*LOOK).get(run_url(run)).content.decode()


def test_what_a_fork_sends_is_there_before_the_first_entry(boss: Client) -> None:
    """What comes to be listed while the page is open brings buttons, and no form."""
    run = make_run("queued", claims=0)
    assert '<form id="durable-fork"' in (page := boss.get(run_url(run)).content.decode())
    assert 'form="durable-fork"' not in page
    Run.objects.filter(pk=run.pk).update(claims=1)
    make_entry(run, "step")
    assert 'form="durable-fork"' in boss.get(live_url(run)).content.decode()


def test_values_of_entries_are_cut_short(boss: Client) -> None:
    run = make_run("succeeded")
    make_entry(run, "short", 1, value=encode(42))
    make_entry(run, "long", 2, value=encode("y" * 5_000))
    page = boss.get(run_url(run)).content.decode()
    assert "<code>42</code>" in page
    assert "5,002 characters in all" in page and page.count("y" * 200) == 1
