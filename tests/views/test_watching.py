"""Runs on a project's own pages: the tag that shows one, and the views that it is asked for anew by."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.contrib.staticfiles import finders
from django.core import signing
from django.http import HttpRequest
from django.template import Context, RequestContext, Template
from django.test import AsyncClient, Client, RequestFactory
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from django_durable import get_run
from django_durable.checks.settings import check_watching
from django_durable.client.listing import EXCERPT
from django_durable.core.payloads.codec import encode
from django_durable.models import Payload, Run, Tag
from django_durable.watching import TOKEN_SECONDS
from tests.admin.pages import judge, text_of
from tests.admin.test_hostile import CORPUS, DAMAGED
from tests.admin.world import make_entry, make_run
from tests.docs.reading import ROOT, blocks

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.views.urls")]
SECRET = "4111 1111"
KINDS = {"fragment": "run_fragment", "json": "run_json"}


def url_of(run: Any, kind: str = "fragment", token: str = "") -> str:
    url = reverse(f"django_durable:{KINDS[kind]}", args=[run.pk])
    return f"{url}?token={token}" if token else url


def page_for(user: Any, text: str, **context: Any) -> str:
    """A page of the project as this person gets it."""
    request = RequestFactory().get("/")
    request.user = user
    return Template("{% load django_durable %}" + text).render(RequestContext(request, context))


def shown(run: Any, user: Any = None) -> str:
    return page_for(user or AnonymousUser(), "{% durable_run_progress run %}", run=run)


def asked(page: str) -> str:
    """The address by which a page's part is asked for anew."""
    found = re.search(r'data-durable-refresh="([^"]*)"', page)
    assert found, page
    return unescape(found[1])


def progressing(done: Any = 3, total: Any = 10, status: str = "running") -> Run:
    run = make_run(status)
    Payload.objects.create(run=run, kind="progress", data=encode({"done": done, "total": total, "message": SECRET}))
    return run


def user(name: str = "ann", *permissions: str, **more: Any) -> User:
    made = User.objects.create_user(name, **more)
    made.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return made


def client_of(someone: User | None) -> Client:
    client = Client()
    if someone is not None:
        client.force_login(someone)
    return client


# --- who may watch ---------------------------------------------------------------------------

PEOPLE: dict[str, Callable[[], User | None]] = {
    "anonymous": lambda: None,
    "user": lambda: user(),
    "permitted, but no staff": lambda: user("bob", "view_run"),
    "staff": lambda: user("bob", is_staff=True),
    "staff that steers": lambda: user("bob", "cancel_run", "view_payload", is_staff=True),
    "staff that looks": lambda: user("bob", "view_run", is_staff=True),
    "staff that changes": lambda: user("bob", "change_run", is_staff=True),
    "superuser": lambda: user("bob", is_staff=True, is_superuser=True),
    "superuser, but no staff": lambda: user("bob", is_superuser=True),
}
LOOKING = {"staff that looks", "staff that changes", "superuser"}


@pytest.fixture(params=list(PEOPLE))
def who(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_word_of_the_project_only_staff_that_may_look_watches(who: str, kind: str) -> None:
    run, client = progressing(), client_of(PEOPLE[who]())
    for method in (client.get, client.head):
        assert method(url_of(run, kind)).status_code == (200 if who in LOOKING else 404)
    for method in (client.post, client.put, client.patch, client.delete):
        assert method(url_of(run, kind)).status_code == 405


@pytest.mark.parametrize("kind", KINDS)
def test_who_was_shown_a_run_may_ask_for_it_again(who: str, kind: str) -> None:
    run, someone = progressing(), PEOPLE[who]()
    token = asked(shown(run, someone)).partition("token=")[2]
    assert client_of(someone).get(url_of(run, kind, token)).status_code == 200


def test_a_token_is_for_one_run_and_one_person() -> None:
    run, other = progressing(), progressing()
    ann, eve = user("ann"), user("eve")
    url = asked(shown(run, ann))
    assert client_of(ann).get(url).status_code == 200
    assert client_of(eve).get(url).status_code == 404
    assert client_of(None).get(url).status_code == 404
    assert client_of(ann).get(url.replace(str(run.pk), str(other.pk))).status_code == 404
    nobodys = asked(shown(run))
    assert client_of(None).get(nobodys).status_code == 200
    assert client_of(ann).get(nobodys).status_code == 404


def test_a_token_ends() -> None:
    run = progressing()
    now = signing.time.time()
    url = asked(shown(run))
    for age, status in ((TOKEN_SECONDS - 60, 200), (TOKEN_SECONDS + 60, 404)):
        with patch.object(signing.time, "time", lambda age=age: now + age):
            assert Client().get(url).status_code == status


@pytest.mark.parametrize("token", ["x", ":", "a:b:c", "\x00", "%00", "é" * 300, "W10:1:x", "."])
def test_what_was_not_signed_here_is_none(token: str) -> None:
    run = progressing()
    assert Client().get(url_of(run), {"token": token}).status_code == 404
    forged = signing.dumps([str(run.pk), ""], salt="another")
    assert Client().get(url_of(run, token=forged)).status_code == 404


def test_a_run_that_is_not_there_looks_like_one_that_is_hidden() -> None:
    there, missing = url_of(progressing()), url_of(Run(pk=uuid4()))
    answers = [Client().get(url) for url in (there, missing)]
    assert [(one.status_code, one.content, one.headers["Cache-Control"]) for one in answers] == [
        (404, b"", "private, no-cache")
    ] * 2
    boss = client_of(user("bob", is_staff=True, is_superuser=True))
    assert boss.get(missing).status_code == 404


def own(someone: Any, run: Run) -> bool:
    return Tag.objects.filter(run=run, name=f"user:{someone.pk}").exists()


async def asynchronous(someone: Any, run: Run) -> bool:
    return True


def vague(someone: Any, run: Run) -> Any:
    return "yes"


@pytest.fixture
def may_watch(settings: Any) -> Callable[[str], None]:
    def use(name: str) -> None:
        settings.DURABLE = {**settings.DURABLE, "MAY_WATCH": f"{__name__}.{name}"}

    return use


def test_the_project_may_say_who_watches(who: str, may_watch: Callable[[str], None]) -> None:
    run, someone = progressing(), PEOPLE[who]()
    early = asked(shown(run, someone))
    may_watch("own")
    client = client_of(someone)
    allowed = 200 if who in LOOKING else 404
    assert client.get(url_of(run)).status_code == allowed
    assert client.get(early).status_code == allowed, "its function alone decides, not a token of before"
    if someone is not None:
        Tag.objects.create(run=run, name=f"user:{someone.pk}")
        assert "token" not in asked(shown(run, someone))
        assert client.get(asked(shown(run, someone))).status_code == 200
        Tag.objects.all().delete()
        assert client.get(url_of(run)).status_code == allowed


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("name", ["asynchronous", "vague"])
def test_nothing_but_true_lets_anybody_in(name: str, may_watch: Callable[[str], None]) -> None:
    may_watch(name)
    assert Client().get(url_of(progressing())).status_code == 404
    assert [message.id for message in check_watching()] == (["django_durable.E016"] if name == "asynchronous" else [])


# --- what is shown ---------------------------------------------------------------------------


def test_the_tag_shows_status_and_progress() -> None:
    run = progressing()
    page = shown(run)
    assert 'role="status">running<' in page
    assert '<progress max="100" value="30" aria-label="Progress">' in page
    assert "30 %" in page
    assert 'data-durable-every="5"' in page
    assert SECRET not in page


def test_what_it_shows_comes_again() -> None:
    run = progressing()
    page = shown(run)
    again = Client().get(asked(page)).content.decode()
    assert again
    assert again in page


def test_it_takes_a_run_however_it_is_given() -> None:
    run = progressing()
    pages = [re.sub('token=[^"]*', "", shown(given)) for given in (run, get_run(run.pk), run.pk, str(run.pk))]
    assert len(set(pages)) == 1
    assert "running" in pages[0]


@pytest.mark.parametrize("given", [None, "", "nonsense", 7, uuid4(), Run()], ids=repr)
def test_of_what_is_no_run_it_shows_nothing(given: object) -> None:
    assert shown(given).strip() == ""
    assert page_for(AnonymousUser(), "{% durable_run_json run %}", run=None) == ""


@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
def test_a_run_that_is_over_is_not_asked_for_again(status: str) -> None:
    run = progressing(status=status)
    assert "data-durable-refresh" not in shown(run)
    boss = client_of(user("bob", is_staff=True, is_superuser=True))
    for kind in KINDS:
        assert boss.get(url_of(run, kind)).headers["X-Durable-Done"] == "1"
        assert "X-Durable-Done" not in boss.get(url_of(progressing(), kind)).headers


@pytest.mark.urls("tests.urls")
def test_without_our_urls_it_stands_still() -> None:
    page = shown(progressing())
    assert "30 %" in page
    assert "data-durable-refresh" not in page
    assert page_for(AnonymousUser(), "{% durable_run_json run %}", run=progressing()) == ""


def test_without_a_request_there_is_nobody_to_ask_again() -> None:
    text = "{% load django_durable %}{% durable_run_progress run %}"
    page = Template(text).render(Context({"run": progressing()}))
    assert "30 %" in page
    assert "data-durable-refresh" not in page


def test_the_json_tells_how_far_the_run_is_and_nothing_of_its_values() -> None:
    run = progressing(3, 8)
    for kind in ("input", "output", "error", "notes", "retry"):
        Payload.objects.create(run=run, kind=kind, data=encode({"message": SECRET}))
    make_entry(run, SECRET, value=encode(SECRET))
    url = page_for(AnonymousUser(), "{% durable_run_json run %}", run=run)
    response = Client().get(unescape(url))
    assert response.headers["Content-Type"] == "application/json"
    assert response.json() == {
        "id": str(run.pk),
        "workflow": "app.doubling",
        "status": "running",
        "progress": {"done": 3, "total": 8, "percent": 37},
        "started_at": run.started_at.isoformat(),
        "finished_at": None,
        "is_over": False,
    }
    for kind in KINDS:
        assert (
            SECRET
            not in client_of(user("bob", is_superuser=True, is_staff=True)).get(url_of(run, kind)).content.decode()
        )
        User.objects.all().delete()


@pytest.mark.parametrize(
    ("done", "total", "percent"),
    [
        (0, 10, 0),
        (10, 10, 100),
        (20, 10, 100),
        (-5, 10, 0),
        (0.5, 1.5, 33),
        (199, 200, 99),
        (3, None, None),
        (3, 0, None),
    ],
)
def test_percentages_stay_between_none_and_all(done: float, total: float | None, percent: int | None) -> None:
    page = shown(progressing(done, total))
    assert ("<progress" in page) is (percent is not None)
    assert f'value="{percent}"' in page if percent is not None else f"{done} done" in page


STRANGE = [None, [], "text", 7, {"done": "x"}, {"done": True, "total": 2}, {"done": 10**30, "total": 1},
           {"total": 3}, {"done": float("nan"), "total": 1}, {"done": 1, "total": float("inf")}]  # fmt: skip


@pytest.mark.parametrize("text", [*map(encode, STRANGE), *DAMAGED, encode({"done": 1, "total": 2, "x": "y" * 5_000})])
def test_what_is_no_progress_shows_no_bar(text: str) -> None:
    run = make_run("running")
    Payload.objects.create(run=run, kind="progress", data=text)
    page = shown(run)
    assert "running" in page
    assert "<progress" not in page
    boss = client_of(user("bob", is_staff=True, is_superuser=True))
    for kind in KINDS:
        assert boss.get(url_of(run, kind)).status_code == 200


@pytest.mark.parametrize("what", CORPUS)
def test_it_escapes_whatever_anybody_called_anything(what: str) -> None:
    text = CORPUS[what]
    run = make_run("running", workflow=text[:200], queue=text[:100])
    Tag.objects.create(run=run, name=text[:200])
    said = encode({"done": 1, "total": 2, "message": text})
    Payload.objects.create(run=run, kind="progress", data=said)
    response = Client().get(asked(shown(run)))
    assert judge(response) == []
    assert text_of(response) == ("running 50 %" if len(said) <= EXCERPT else "running")
    answer = Client().get(unescape(page_for(AnonymousUser(), "{% durable_run_json run %}", run=run)))
    assert json.loads(answer.content)["workflow"] == text[:200]
    assert answer.headers["Content-Type"] == "application/json"


def halved(run: Run, kind: str, value: Any) -> Any:
    return {**value, "done": value["done"] / 2} if kind == "progress" else "wrong kind"


def raising(run: Run, kind: str, value: Any) -> Any:
    raise KeyError(value)


@pytest.mark.parametrize(("name", "bar"), [("halved", 'value="15"'), ("raising", None), ("nowhere", None)])
def test_what_the_staff_does_not_see_others_do_not(
    settings: Any, name: str, bar: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    settings.DURABLE = {**settings.DURABLE, "REDACT": f"{__name__}.{name}"}
    page = shown(progressing())
    assert bar in page if bar else "<progress" not in page
    assert SECRET not in caplog.text
    assert ("DURABLE['REDACT'] raised" in caplog.text) is (bar is None)


def test_the_documented_page_is_one() -> None:
    _, text = (block.text for block in blocks(ROOT / "docs" / "pages.md") if block.language == "html")
    page = page_for(AnonymousUser(), text, run=progressing(), order=Run(pk=uuid4()))
    assert "30 %" in page
    assert 'src="/static/django_durable/refresh.js"' in page
    assert finders.find("django_durable/refresh.js")
    assert Client().get(asked(page)).status_code == 200


# --- how it is answered ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_not_changed_is_not_sent_again(kind: str) -> None:
    run, boss = progressing(), client_of(user("bob", is_staff=True, is_superuser=True))
    first = boss.get(url_of(run, kind))
    known = {"If-None-Match": first.headers["ETag"]}
    second = boss.get(url_of(run, kind), headers=known)
    assert (second.status_code, second.content) == (304, b"")
    assert second.headers["ETag"] == first.headers["ETag"]
    for response in (first, second):
        assert response.headers["Cache-Control"] == "private, no-cache"
        assert "Cookie" in response.headers["Vary"]
    Payload.objects.update(data=encode({"done": 4, "total": 10}))
    third = boss.get(url_of(run, kind), headers=known)
    assert third.status_code == 200
    assert third.headers["ETag"] != first.headers["ETag"]
    assert client_of(user("eve")).get(url_of(run, kind), headers=known).status_code == 404


@pytest.mark.parametrize("kind", KINDS)
def test_the_run_is_one_query(kind: str, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    someone, run = user(), progressing()
    with django_assert_num_queries(1):
        page = shown(run, someone)
    token = asked(page).partition("token=")[2]
    client = client_of(someone)
    with django_assert_num_queries(3):  # session, user; our one
        client.get(url_of(run, kind, token))


def test_it_answers_under_asgi() -> None:
    run = progressing()
    url = asked(shown(run))
    response = async_to_sync(AsyncClient().get)(url)
    assert response.status_code == 200
    assert b"30 %" in response.content


def test_a_page_without_users_is_served_as_well() -> None:
    """A project may have no authentication at all."""
    from django_durable.views import run_fragment

    run, request = progressing(), HttpRequest()
    request.method = "GET"
    assert run_fragment(request, run.pk).status_code == 404
    request.GET = RequestFactory().get(asked(shown(run))).GET
    assert run_fragment(request, run.pk).status_code == 200
