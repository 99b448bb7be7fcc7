"""The pictures of the admin in the documentation: each page by light, by dark and on a phone, in three looks.

    python benchmarks/screens.py [--into FOLDER] [--runs N] [--only NAME ...] [--theme stock|unfold|jazzmin|shop]
        [--all]

Without options those that docs/tour.md shows, into docs/screens, and nothing else stays there; where it tells other
numbers of the overview's headlines than its pictures, that is said at the end, and the exit status is 1. ``--all``
takes every page in every variant, to be looked at one by one; then name another folder. A PostgreSQL of its own is
seeded (benchmarks/seed.py, and a night of trouble) and served for each look; Chromium looks at the pages (`make
test-browser` says which). ``shop`` is the example's own site, with an order of its own. What else is needed: pip
install ".[screens]". A look that is not installed is named and left out.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any
from zoneinfo import ZoneInfo

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import screen_pages, screen_shop, seed  # noqa: E402
from benchmarks.screen_pages import Look  # noqa: E402

RUNS = 5_000
TOUR, INTO = ROOT / "docs" / "tour.md", ROOT / "docs" / "screens"
COLOURS = 256
"""A page has few, and a picture of few is a third as large."""
SHOP = "shop"
THEMES = ("stock", "unfold", "jazzmin", SHOP)
DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 2,
    # A page that is too wide is then shown smaller, as a phone does, and not cut off.
    "is_mobile": True,
    "has_touch": True,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", **DESK},
    "dark": {"color_scheme": "dark", **DESK},
    "phone": {"color_scheme": "light", **PHONE},
    "phone-dark": {"color_scheme": "dark", **PHONE},
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
LONGEST = 4_000
TALLEST = {"light": 1_300, "dark": 1_300, "phone": 1_400, "phone-dark": 1_400}
CHOSEN: dict[str, Mapping[str, Sequence[str]]] = {
    "stock": {
        "overview": ("light", "phone-dark"),
        "overview-no-worker": ("light",),
        "overview-new": ("light",),
        "charts": ("light",),
        "overview-workers": ("light",),
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
        "run-log": ("light",),
        "run-claims": ("light",),
        "run-audit": ("light",),
        "workers": ("light",),
        "worker": ("light",),
        "workflows": ("dark",),
        "schedules": ("light",),
        "schedule": ("light",),
    },
    "unfold": {"overview": ("light",), "runs-failed": ("light",), "run-failed": ("dark",)},
    "jazzmin": {"overview": ("light",), "runs-failed": ("dark",), "run-failed": ("light",)},
    SHOP: {"order": ("light",), "page": ("light", "phone")},
}
"""Of each look the pages that the tour shows, and how."""


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
    if options.theme == SHOP:
        with screen_shop.opened() as site, taking(browser, site, options, screen_shop.sign_in) as take_all:
            take_all(screen_shop.pages())
        return 0
    if options.theme != "stock" and find_spec(options.theme) is None:
        print(f"there is no {options.theme} here: pip install django-{options.theme}", file=sys.stderr)
        return 1
    os.environ["BENCH_TIME_ZONE"] = zone_of_the_night(datetime.now(UTC))
    os.environ["BENCH_THEME"] = "" if options.theme == "stock" else options.theme
    # Playwright keeps a loop in this thread, in which Django would refuse to ask the database for anything.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with empty_database(), served() as site, taking(browser, site, options, signing_in(site)) as take_all:
        take_all(screen_pages.pages_of_nothing())
        trouble(options.runs)
        take_all(screen_pages.pages())
        silence()
        take_all(screen_pages.pages_without_workers())
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
def taking(
    browser: str, site: str, options: argparse.Namespace, sign_in: Callable[[Any], object]
) -> Iterator[Callable[[Mapping[str, Look]], None]]:
    """What takes those of the pictures that are wanted, in each variant, once ``sign_in`` has given a context of the
    browser what staff has."""
    from playwright.sync_api import sync_playwright

    chosen, left_out = CHOSEN[options.theme], set[str]()

    def take_all(looks: Mapping[str, Look]) -> None:
        for variant, how in VARIANTS.items():
            for name, look in looks.items():
                wanted = options.all or variant in chosen.get(name, ())
                if wanted and (not options.only or name in options.only):
                    # Of its own for each: what one page has folded up another finds so.
                    context = chromium.new_context(base_url=site, **how)
                    sign_in(context)
                    page = context.new_page()
                    take(page, look, options.into / f"{options.theme}-{name}-{variant}.png", variant)
                    if look.told and options.into.resolve() == INTO:
                        told = page.locator(look.told).all_inner_texts()
                        assert told, f"{look.url} has nothing that is {look.told}"
                        left_out.update(untold(told))
                    context.close()

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=browser, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        yield take_all
        chromium.close()
    assert not left_out, f"{TOUR} does not say what its pictures show: {sorted(left_out)}"


def untold(texts: Iterable[str]) -> set[str]:
    """Those that the tour does not have in words."""
    tour = " ".join(TOUR.read_text().split())
    said = (" ".join(text.split()) for text in texts)
    # 44 runs are none of 144.
    return {text for text in said if not re.search(rf"(?<!\d){re.escape(text)}", tour)}


def take(page: Any, look: Look, file: Path, variant: str) -> None:
    if look.is_live:
        live()
    with otherwise(look.durable):
        answer = page.goto(look.url)
        assert answer.ok, f"{look.url} was answered with {answer.status}"
        if look.then:
            look.then(page)
            page.wait_for_load_state()
    if look.of:
        page.locator(look.of).first.screenshot(path=file)
    else:
        _take_beginning(page, file, LONGEST if look.is_whole else TALLEST[variant])
    reduce(file)
    print(f"{file} {file.stat().st_size // 1024} kB", flush=True)


def otherwise(durable: Mapping[str, object]) -> AbstractContextManager[None]:
    """With these settings in place of what they are."""
    if not durable:
        return nullcontext()
    from django.conf import settings
    from django.test import override_settings

    return override_settings(DURABLE={**settings.DURABLE, **durable})


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


def signing_in(site: str) -> Callable[[Any], None]:
    cookie = logged_in() | {"url": site}

    def sign_in(context: Any) -> None:
        context.add_cookies([cookie])

    return sign_in


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
