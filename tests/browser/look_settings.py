"""A site in the look that BENCH_THEME names."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from benchmarks.seeding.settings import *  # noqa: F403
from tests.csp import POLICY

MIDDLEWARE = ["tests.browser.look_settings.told_policy", *MIDDLEWARE]  # noqa: F405
INSTALLED_APPS = [*INSTALLED_APPS, "tests.app"]  # noqa: F405
ROOT_URLCONF = "tests.browser.look_urls"
DURABLE = {**DURABLE, "ADMIN_START": True}  # noqa: F405
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Nothing is asked of another site.
JAZZMIN_SETTINGS = {"use_google_fonts_cdn": False}


def told_policy(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """The policy is told and not held to: the looks' own scripts break it, and without them no menu opens."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["Content-Security-Policy-Report-Only"] = POLICY
        return response

    return answer
