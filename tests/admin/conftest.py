from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from django_durable.admin import troubles
from tests.admin.world import make_worker

LOOK = ("view_run", "view_schedule", "view_worker")
Person = Callable[..., Client]


@pytest.fixture(autouse=True)
def _database(db: None) -> None:
    """Who asks for a page asks for rows."""


@pytest.fixture(autouse=True)
def _by_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """At whatever time the tests are run."""
    monkeypatch.setattr(troubles, "NIGHT_ENDS", 0)


@pytest.fixture
def person() -> Person:
    """Logs in a member of the staff with these permissions of ours; ``boss`` has all there are."""

    def make(*permissions: str, name: str = "ann", boss: bool = False) -> Client:
        user = User.objects.create_user(name, is_staff=True, is_superuser=boss)
        user.user_permissions.set(
            Permission.objects.filter(content_type__app_label="django_durable", codename__in=permissions)
        )
        client = Client(raise_request_exception=True)
        client.force_login(user)
        return client

    return make


@pytest.fixture
def boss(person: Person) -> Client:
    return person(boss=True)


@pytest.fixture
def worker() -> None:
    """One that serves the default queue: then nothing is said of it."""
    make_worker(queues=["default"])
