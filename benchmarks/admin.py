"""How fast the admin's pages come beside a million runs: each is asked for as a browser would, by a superuser.

    python benchmarks/admin.py [--runs N] [--asks N] [--goal MS] [--explain]

A PostgreSQL of the benchmark's own is seeded (benchmarks/seed.py), and Django's test client asks for the list of runs,
what its filters and pages link to, searches, a run with 2,000 journal entries, and all pages that there are beside
them, with the fragments that they refresh themselves by; and for what the overview and the workflows lead to, which is
one choice within another. What is printed of a filter is its slowest choice. Exit status 1 where the median of a page
is over the goal, or where it takes more queries than it may.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import chain, product
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import seed  # noqa: E402

GOAL_MS = 200.0
QUERIES_MOST = 12
ASKS = 20
ROOMY = {"max_wal_size": "8GB", "checkpoint_timeout": "1h"}
"""For the making: no checkpoint in the middle of a million inserts."""
LABEL = 44

UNSERVED = {"trouble": ["unserved"], "queue": []}
AT_NIGHT: list[dict[str, list[str]]] = [
    {"trouble": ["today", "day"], "workflow": []},
    {"trouble": ["overdue"], "status": ["scheduled", "waiting"]},
    {"status": ["blocked"], "reason": []},
    {"status": ["queued", "running", "waiting", "scheduled"], "queue": []},
    {"workflow": [], "status": ["queued", "running", "waiting", "scheduled", "paused", "blocked"]},
    {"workflow": [], "created": ["1d"]},
    {"worker": []},
    UNSERVED,
]
"""What the overview and the workflows lead to, and no link of the list by itself; an empty one: see ``choices``. It is
not looked up there: which of these links there are depends on what is wrong just then."""
ENDS = 2
"""So many of the workflows and queues that have most runs, and of those that have fewest, which are looked for longest:
each of them with each status takes minutes."""


@dataclass(frozen=True)
class Page:
    label: str
    url: str
    posted: dict[str, str] = field(default_factory=dict)
    """What is sent; nothing: it is got."""


@dataclass(frozen=True)
class Measured:
    page: Page
    ms: list[float]
    queries: int
    slowest_sql: str = ""

    @property
    def median(self) -> float:
        return median(self.ms)

    def meets(self, goal: float) -> bool:
        return self.median <= goal and self.queries <= QUERIES_MOST

    def line(self, goal: float) -> str:
        figures = f"{self.median:8.1f} {min(self.ms):8.1f} {max(self.ms):8.1f} {self.queries:8}"
        return f"{self.page.label[:LABEL]:{LABEL}} {figures}{'' if self.meets(goal) else '   missed'}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=seed.RUNS)
    parser.add_argument("--asks", type=int, default=ASKS, help="of which the median is taken")
    parser.add_argument("--goal", type=float, default=GOAL_MS, help="milliseconds")
    parser.add_argument("--explain", action="store_true", help="show the plan of the slowest query of what missed")
    options = parser.parse_args(arguments)
    with seeded(options.runs):
        return report(measure_all(options.asks), options)


@contextmanager
def seeded(runs: int) -> Iterator[None]:
    from tests.servers import Folder, PostgresServer

    with Folder() as folder, PostgresServer(folder, options=ROOMY) as postgres:
        seed.set_up(postgres.settings())
        from benchmarks.seeding.history import beat
        from benchmarks.seeding.history import seed as make

        began = time.monotonic()
        made = make(runs)
        beat()
        print(f"{made['runs']:,} runs, {made['journal entries']:,} journal entries: {time.monotonic() - began:.0f} s")
        yield


def report(found: Iterable[Measured], options: argparse.Namespace) -> int:
    """A line for each page as it comes; 1 where one of them misses."""
    print(f"{f'at most {options.goal:g} ms, {QUERIES_MOST} queries':{LABEL}}   median      min      max  queries")
    missed = []
    for measured in found:
        print(measured.line(options.goal), flush=True)
        if not measured.meets(options.goal):
            missed.append(measured)
    if options.explain:
        for measured in missed:
            print(f"\n{measured.page.label}: {measured.page.url}\n{explained(measured.slowest_sql)}")
    print(f"{len(missed)} missed")
    return int(bool(missed))


def measure_all(asks: int) -> Iterator[Measured]:
    from django.contrib.auth.models import User
    from django.test import Client

    from benchmarks.seeding.history import beat

    client, boss = Client(headers={"host": "127.0.0.1"}), User.objects.create_superuser("boss")
    client.force_login(boss)
    write_down(boss)
    # The first page of a process loads what all of them need.
    ask(client, Page("runs", runs_url()))
    for group in pages(client):
        # Half a minute after it the pages would be those of a site that nobody works for.
        beat()
        slowest = group[0] if len(group) == 1 else max(group, key=lambda page: ask(client, page))
        yield measure(client, slowest, asks)
        for fragment in fragments(client, slowest):
            yield measure(client, fragment, asks)


def write_down(user: Any) -> None:
    """Somebody has resumed all that failed once, and Django keeps a line of each: its log has no index of the rows."""
    from django.contrib.admin.models import CHANGE, LogEntry
    from django.contrib.contenttypes.models import ContentType
    from django.db import connection

    from django_durable.models import Run

    runs, kind = (
        Run.objects.filter(status="failed").values_list("pk", "workflow"),
        ContentType.objects.get_for_model(Run),
    )
    what = {"user": user, "content_type": kind, "action_flag": CHANGE, "change_message": "Resume: the gateway answers"}
    lines = (LogEntry(object_id=str(run_id), object_repr=workflow, **what) for run_id, workflow in runs.iterator())
    LogEntry.objects.bulk_create(lines, batch_size=2_000)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE) django_admin_log")


def measure(client: Any, page: Page, asks: int) -> Measured:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    ask(client, page)
    times = [ask(client, page) for _ in range(asks)]
    with CaptureQueriesContext(connection) as queries:
        ask(client, page)
    slowest = max(queries.captured_queries, key=lambda query: float(query["time"]), default={"sql": ""})
    return Measured(page, times, len(queries), slowest["sql"])


def ask(client: Any, page: Page) -> float:
    """Milliseconds from the request to the whole of its answer."""
    began = time.perf_counter()
    response = client.post(page.url, page.posted) if page.posted else client.get(page.url)
    taken = 1000 * (time.perf_counter() - began)
    if response.status_code != 200:
        raise AssertionError(f"{page.label}: {page.url} was answered with {response.status_code}")
    return taken


# --- which pages there are -----------------------------------------------------------------------


def runs_url(query: str = "") -> str:
    from django.urls import reverse

    return reverse("admin:django_durable_run_changelist") + query


def pages(client: Any) -> Iterator[list[Page]]:
    """Groups, of each of which the slowest counts."""
    from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME

    yield [Page("runs", runs_url())]
    yield from linked(client)
    yield from ([page] for page in searches())
    one = newest("succeeded")
    for verb in ("cancel", "pause", "resume", "rerun", "export"):
        every = {"action": f"{verb}_selected", "select_across": "1", ACTION_CHECKBOX_NAME: str(one)}
        yield [Page(f"runs: {verb} all that match, asked", runs_url(), every)]
    parent = newest("succeeded", workflow__startswith="imports.", parent=None)
    yield [Page("runs: of a parent", runs_url(f"?parent={parent}"))]
    long = run_url(newest("succeeded", workflow="reports.yearly"))
    yield [Page("a run with 2,000 entries", long)]
    yield [Page("a run with 2,000 entries: the last", f"{long}?until=last")]
    yield [
        Page(f"a run: {status}", run_url(newest(status))) for status in ("succeeded", "failed", "running", "waiting")
    ]
    yield [Page("a run with children", run_url(parent))]
    yield [Page("a run's history", history_url(newest("failed")))]
    yield from at_night(client)
    yield from ([page] for page in others())


def linked(client: Any) -> Iterator[list[Page]]:
    """What the list of runs links to within itself, by what it is that a link chooses."""
    groups: dict[str, list[Page]] = {}
    for href in seen(client, runs_url(), "href"):
        match parse_qsl(urlsplit(href).query, keep_blank_values=True) if href.startswith("?") else []:
            case [(name, value)]:
                groups.setdefault(name, []).append(Page(f"runs: {name} = {value}", runs_url(href)))
    yield from groups.values()


def at_night(client: Any) -> Iterator[list[Page]]:
    """What one follows who is told that something is wrong, by what it is that such a link chooses."""
    offered = choices(client)
    for kind in AT_NIGHT:
        values = [fixed or offered[name] for name, fixed in kind.items()]
        found = [dict(zip(kind, chosen, strict=True)) for chosen in product(*values)]
        with nobody_serving() if kind is UNSERVED else nullcontext():
            yield [Page(f"at night: {' + '.join(kind)}", runs_url("?" + urlencode(each))) for each in found]


def choices(client: Any) -> dict[str, list[str]]:
    """What the list of runs offers, by the name of its filter, and the workers that live; of very many those at the
    ends."""
    from django.db.models import Count

    from django_durable.models import Run, Worker

    offered = {"worker": [str(pk) for pk in Worker.objects.filter(stopped_at=None).values_list("pk", flat=True)]}
    for page in chain.from_iterable(linked(client)):
        for name, value in parse_qsl(urlsplit(page.url).query):
            offered.setdefault(name, []).append(value)
    for name in ("workflow", "queue"):
        counts = dict(Run.objects.order_by().values_list(name).annotate(Count("pk")))
        most_first = sorted(offered[name], key=lambda value: -counts.get(value, 0))
        offered[name] = list(dict.fromkeys([*most_first[:ENDS], *most_first[-ENDS:]]))
    return offered


@contextmanager
def nobody_serving() -> Iterator[None]:
    """As if the workers were started for another queue than any that there is."""
    from django_durable.models import Worker

    workers = list(Worker.objects.filter(stopped_at=None))
    Worker.objects.filter(stopped_at=None).update(queues=["elsewhere"])
    try:
        yield
    finally:
        Worker.objects.bulk_update(workers, ["queues"])


def searches() -> Iterator[Page]:
    from django_durable.models import IdempotencyKey

    key = IdempotencyKey.objects.order_by("-pk").values_list("key", flat=True)[0]
    terms = {"an id": newest("succeeded"), "a key": key, "a tag of few": "customer-1", "a tag of many": "web",
             "a tag of the waiting and their like": "vip", "what is not there": "nobody"}  # fmt: skip
    for what, term in terms.items():
        yield Page(f"runs: search for {what}", runs_url("?" + urlencode({"q": str(term)})))


def others() -> Iterator[Page]:
    """Those that are there beside the runs. Raises NoReverseMatch where one of them is not."""
    from django.urls import reverse

    from django_durable.models import Schedule, Worker

    schedule, worker = Schedule.objects.all()[0].pk, Worker.objects.order_by("-heartbeat_at")[0].pk
    named: dict[str, list[Any]] = {
        "admin:index": [],
        "admin:app_list": ["django_durable"],
        "admin:django_durable_overview": [],
        "admin:django_durable_workflows": [],
        "admin:django_durable_schedule_changelist": [],
        "admin:django_durable_schedule_change": [schedule],
        "admin:django_durable_worker_changelist": [],
        "admin:django_durable_worker_change": [worker],
    }
    for name, arguments in named.items():
        yield Page(name.removeprefix("admin:").removeprefix("django_durable_"), reverse(name, args=arguments))


def newest(status: str, **more: Any) -> Any:
    from django_durable.models import Run

    return Run.objects.filter(status=status, **more).order_by("-pk").values_list("pk", flat=True)[0]


def run_url(run_id: Any) -> str:
    from django.urls import reverse

    return reverse("admin:django_durable_run_change", args=[run_id])


def history_url(run_id: Any) -> str:
    from django.urls import reverse

    return reverse("admin:django_durable_run_history", args=[run_id])


def fragments(client: Any, page: Page) -> Iterator[Page]:
    """The parts of a page that are asked for anew while one looks at it."""
    if not page.posted:
        for url in seen(client, page.url, "data-durable-refresh"):
            yield Page(f"{page.label}: its fragment", url)


def seen(client: Any, url: str, attribute: str) -> list[str]:
    """The values of an attribute on a page, each once."""
    reader = _Attributes(attribute)
    reader.feed(client.get(url).content.decode())
    return list(dict.fromkeys(reader.found))


class _Attributes(HTMLParser):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name == self.name and value]


def explained(sql: str) -> str:
    from django.db import connection

    if not sql.lstrip("( ").upper().startswith(("SELECT", "WITH")):
        return sql[:2_000]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS) {sql}".replace("%", "%%"), [])
        return "\n".join([sql[:2_000], *(line for (line,) in cursor.fetchall())])


if __name__ == "__main__":
    sys.exit(main())
