"""The pictures of the admin in the documentation: each page by light, by dark and on a phone, in three looks.

    python benchmarks/screens.py [--into FOLDER] [--runs N] [--only NAME ...] [--theme stock|unfold|jazzmin] [--all]

Without options those that docs/tour.md shows, into docs/screens, and nothing else stays there. ``--all`` takes every
page in every variant, to be looked at one by one; then name another folder. A PostgreSQL of its own is seeded
(benchmarks/seed.py, and a night of trouble) and served for each look; Chromium looks at the pages (`make test-browser`
says which). What else is needed: pip install ".[screens]". A look that is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any
from zoneinfo import ZoneInfo

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import admin, seed  # noqa: E402

RUNS = 5_000
INTO = ROOT / "docs" / "screens"
COLOURS = 256
"""A page has few, and a picture of few is a third as large."""
THEMES = ("stock", "unfold", "jazzmin")
VARIANTS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 800}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}, "device_scale_factor": 2},
}
SILENCE = timedelta(minutes=10)
NIGHT = 3
"""The hour on the pictures, so that "today" is as old on each day that they are taken."""
CITIES = (
    "Pacific/Honolulu Pacific/Gambier America/Anchorage America/Los_Angeles America/Denver America/Chicago "
    "America/New_York America/Halifax America/Sao_Paulo Atlantic/South_Georgia Atlantic/Cape_Verde Africa/Abidjan "
    "Europe/London Europe/Berlin Europe/Helsinki Europe/Moscow Asia/Dubai Asia/Karachi Asia/Dhaka Asia/Bangkok "
    "Asia/Singapore Asia/Tokyo Australia/Brisbane Pacific/Noumea Pacific/Fiji Pacific/Tongatapu Pacific/Pago_Pago"
)
ORDERED = "shop.order"
"""The workflow of which a run is started by hand."""
FAILING = "shop.checkout"
TALLEST = {"light": 1_300, "dark": 1_300, "phone": 1_400}
CHOSEN: dict[str, Mapping[str, Sequence[str]]] = {
    "stock": {
        "overview": ("light", "phone"),
        "overview-no-worker": ("light",),
        "overview-new": ("light",),
        "charts": ("light",),
        "runs": ("light",),
        "runs-one": ("light",),
        "runs-none": ("light",),
        "runs-new": ("light",),
        "runs-long-named": ("light",),
        "runs-failed": ("light",),
        "run-failed": ("light", "phone"),
        "run-long-named": ("phone",),
        "send-event": ("light",),
        "start": ("light",),
        "resume-all": ("light",),
        "run-children": ("light",),
        "run-blocked": ("dark",),
        "workflows": ("dark",),
        "schedules": ("light",),
        "schedule": ("light",),
    },
    "unfold": {"overview": ("light",), "runs-failed": ("light",), "run-failed": ("dark",)},
    "jazzmin": {"overview": ("light",), "runs-failed": ("dark",), "run-failed": ("light",)},
}
"""Of each look the pages that the tour shows, and how."""


@dataclass(frozen=True)
class Look:
    url: str
    then: Callable[[Any], object] | None = None
    """What is done on that page before the picture is taken."""
    of: str = ""
    """The part of the page that the picture shows; empty: its beginning."""
    durable: Mapping[str, object] = field(default_factory=dict)
    """Settings that are not what they are on the other pictures."""
    is_live: bool = True
    """Its workers go on."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=INTO)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", nargs="*", default=[], help="names of pages")
    parser.add_argument("--theme", choices=THEMES, help="this look only")
    parser.add_argument("--all", action="store_true", help="every page in every variant")
    options = parser.parse_args(arguments)
    from tests.browser.__main__ import find

    if (browser := find()) is None:
        print("there is no browser here: see `make test-browser`", file=sys.stderr)
        return 1
    options.into.mkdir(parents=True, exist_ok=True)
    if options.theme is None:
        return take_each(options, sys.argv[1:] if arguments is None else arguments)
    if options.theme != "stock" and find_spec(options.theme) is None:
        print(f"there is no {options.theme} here: pip install django-{options.theme}", file=sys.stderr)
        return 1
    os.environ["BENCH_TIME_ZONE"] = zone_of_the_night(datetime.now(UTC))
    os.environ["BENCH_THEME"] = "" if options.theme == "stock" else options.theme
    # Playwright keeps a loop in this thread, in which Django would refuse to ask the database for anything.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with empty_database(), served() as site, taking(browser, site, options) as take_all:
        take_all(pages_of_nothing())
        trouble(options.runs)
        take_all(pages())
        silence()
        take_all(pages_without_workers())
    return 0


def zone_of_the_night(now: datetime) -> str:
    """That of a place where it is night."""
    return next(name for name in CITIES.split() if now.astimezone(ZoneInfo(name)).hour == NIGHT)


def take_each(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """One look after the other, each in a process of its own: Django has its templates for good."""
    command = [sys.executable, __file__, *arguments, "--theme"]
    failed = max(subprocess.run([*command, theme], check=False).returncode for theme in THEMES)
    if not failed and options.into == INTO:
        for left in {file.name for file in INTO.iterdir()} - kept():
            (INTO / left).unlink()
    return failed


def kept() -> set[str]:
    """The names of the pictures that the tour shows."""
    return {
        f"{theme}-{page}-{variant}.png"
        for theme, chosen in CHOSEN.items()
        for page, variants in chosen.items()
        for variant in variants
    }


@contextmanager
def empty_database() -> Iterator[None]:
    """Django on a database of its own, in which there is nothing yet."""
    from tests.servers import Folder, PostgresServer

    with Folder() as folder, PostgresServer(folder) as postgres:
        seed.set_up(postgres.settings())
        yield


def trouble(runs: int) -> None:
    """Five weeks of runs, and a night of trouble."""
    from benchmarks.seeding import history, night

    history.seed(runs, night.make_night)
    night.fall()


def silence() -> None:
    from benchmarks.seeding import night

    night.fall_silent(SILENCE)


def live() -> None:
    """The workers have said something just now, and taken up what was ready."""
    from benchmarks.seeding import history, night

    history.beat()
    night.pass_on()


@contextmanager
def served() -> Iterator[str]:
    """The address of the seeded site."""
    from django.contrib.staticfiles.handlers import StaticFilesHandler
    from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
    from django.core.wsgi import get_wsgi_application

    class Quiet(WSGIRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadedWSGIServer(("127.0.0.1", 0), Quiet)
    server.set_app(StaticFilesHandler(get_wsgi_application()))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def taking(browser: str, site: str, options: argparse.Namespace) -> Iterator[Callable[[Mapping[str, Look]], None]]:
    """What takes those of the pictures that are wanted, in each variant."""
    from playwright.sync_api import sync_playwright

    chosen, cookie = CHOSEN[options.theme], logged_in() | {"url": site}

    def take_all(looks: Mapping[str, Look]) -> None:
        for variant, how in VARIANTS.items():
            for name, look in looks.items():
                wanted = options.all or variant in chosen.get(name, ())
                if wanted and (not options.only or name in options.only):
                    # Of its own for each: what one page has folded up another finds so.
                    context = chromium.new_context(base_url=site, **how)
                    context.add_cookies([cookie])  # type: ignore[list-item]
                    take(context.new_page(), look, options.into / f"{options.theme}-{name}-{variant}.png", variant)
                    context.close()

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=browser, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        yield take_all
        chromium.close()


def take(page: Any, look: Look, file: Path, variant: str) -> None:
    from django.conf import settings
    from django.test import override_settings

    if look.is_live:
        live()
    with override_settings(DURABLE={**settings.DURABLE, **look.durable}):
        answer = page.goto(look.url)
        assert answer.ok, f"{look.url} was answered with {answer.status}"
        if look.then:
            look.then(page)
            page.wait_for_load_state()
    if look.of:
        page.locator(look.of).first.screenshot(path=file)
    else:
        _take_beginning(page, file, TALLEST[variant])
    reduce(file)
    print(f"{file} {file.stat().st_size // 1024} kB", flush=True)


def _take_beginning(page: Any, file: Path, tallest: int) -> None:
    # As tall a window as the page, so that what sticks to an edge of it stands where it belongs.
    tall = page.evaluate("() => document.documentElement.scrollHeight")
    page.set_viewport_size({"width": page.viewport_size["width"], "height": min(tall, tallest)})
    page.screenshot(path=file)


def reduce(file: Path) -> None:
    """To a palette of the most frequent colours, which stay exactly what they are; any other becomes the nearest."""
    from PIL import Image

    picture = Image.open(file).convert("RGB")
    found = sorted(picture.getcolors(picture.width * picture.height) or [], reverse=True)
    colours: list[tuple[int, ...]] = [colour for _, colour in found]  # type: ignore[misc]
    palette = colours[:COLOURS]
    place = {colour: nearest(palette, colour) for colour in colours}
    reduced = Image.new("P", picture.size)
    reduced.putpalette([part for colour in palette for part in colour])
    pixels = picture.tobytes()
    reduced.putdata([place[colour] for colour in zip(pixels[::3], pixels[1::3], pixels[2::3], strict=True)])
    reduced.save(file, optimize=True)


def nearest(palette: Sequence[tuple[int, ...]], colour: tuple[int, ...]) -> int:
    return min(range(len(palette)), key=lambda at: sum((a - b) ** 2 for a, b in zip(palette[at], colour, strict=True)))


def pages_of_nothing() -> dict[str, Look]:
    """Where to look by the name of the picture, while nothing has happened yet."""
    from django.urls import reverse

    found = {"overview-new": Look(reverse("admin:django_durable_overview")), "runs-new": Look(admin.runs_url())}
    return found | {"workflows-new": Look(reverse("admin:django_durable_workflows"))}


def pages() -> dict[str, Look]:
    """Likewise, in a night of trouble."""
    from django.urls import reverse

    from benchmarks.seeding.workflows import CHECKOUTS, LARGE, LONG_NAMED
    from django_durable.models import Schedule

    newest, run_url, runs_url = admin.newest, admin.run_url, admin.runs_url
    [(checkout, _)], [(large, _)], [(long_named, _)] = CHECKOUTS, LARGE, LONG_NAMED
    waiting = run_url(newest("waiting", queue="shop"))
    overview, start = reverse("admin:django_durable_overview"), reverse("admin:django_durable_workflows_start")
    found = {
        "charts": Look(overview, of=".durable-pair:has(.durable-chart)"),
        "runs": Look(runs_url()),
        "runs-failed": Look(overview, lambda page: page.click("#durable-need-failed a")),
        "runs-one": Look(runs_url(f"?q={newest('failed', workflow=checkout)}")),
        "runs-none": Look(runs_url("?q=nobody")),
        "runs-long-named": Look(runs_url(f"?workflow={long_named}")),
        "run-succeeded": Look(run_url(newest("succeeded", queue="shop"))),
        "run-failed": Look(run_url(newest("failed", workflow=checkout)), fold_traceback),
        "run-long-named": Look(run_url(newest("failed", workflow=long_named)), fold_traceback),
        "run-running": Look(run_url(newest("running"))),
        "run-waiting": Look(waiting),
        "run-blocked": Look(run_url(newest("blocked"))),
        "run-cancelled": Look(run_url(newest("cancelled"))),
        "run-queued": Look(run_url(newest("queued"))),
        "run-children": Look(run_url(newest("failed", workflow=large)), fold_traceback),
        "run-long": Look(run_url(newest("succeeded", workflow="reports.yearly"))),
        "cancel": Look(waiting, lambda page: press(page, "Cancel")),
        "send-event": Look(waiting, lambda page: press(page, "Send an event")),
        "resume-all": Look(overview, resume_all),
        "start": Look(f"{start}?workflow={ORDERED}", start_by_hand, durable={"ADMIN_START": True}),
    }
    named = {"schedule_changelist": "schedules", "schedule_change": "schedule", "worker_changelist": "workers"}
    named |= {"worker_change": "worker", "app_list": "app"}
    others = {named.get(page.label, page.label): Look(page.url) for page in admin.others()}
    failing = Schedule.objects.filter(workflow=large).latest("pk")
    return found | others | {"schedule": Look(reverse("admin:django_durable_schedule_change", args=[failing.pk]))}


def pages_without_workers() -> dict[str, Look]:
    """Likewise, after they have died."""
    from django.urls import reverse

    return {"overview-no-worker": Look(reverse("admin:django_durable_overview"), is_live=False)}


def press(page: Any, button: str) -> None:
    page.get_by_role("button", name=button).first.click()


def fold_traceback(page: Any) -> None:
    """So that the timeline comes on the picture."""
    for summary in page.locator(".durable-error details[open] > summary").all():
        summary.click()


def resume_all(page: Any) -> None:
    """To the question of the button beside the workflow that fails most."""
    press(page, f"Resume: {FAILING}")
    page.locator("input[name=reason]").fill("The payment gateway answers again.")


def start_by_hand(page: Any) -> None:
    page.get_by_label("number").fill("48211")
    page.get_by_label("lines").fill('[{"sku": "TEA-EARL-GREY-250", "quantity": 2}]')
    page.get_by_label("Tags").fill("customer-48211, vip")
    page.get_by_label("Reason").fill("Ordered by telephone.")


def logged_in() -> dict[str, str]:
    """The cookie of a superuser's session."""
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client()
    client.force_login(User.objects.create_superuser("boss"))
    return {"name": settings.SESSION_COOKIE_NAME, "value": client.cookies[settings.SESSION_COOKIE_NAME].value}


if __name__ == "__main__":
    sys.exit(main())
