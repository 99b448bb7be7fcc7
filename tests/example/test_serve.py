"""`make serve`: what it prints can be used, and nothing of it is left."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

from loopback.client import post
from tests.example.conftest import PROJECT
from tests.example.leftovers import leftovers
from tests.example.waiting import wait_for


def test_serve_prints_a_user_who_may_look_at_runs_and_sigterm_ends_it_all(
    tmp_path: Path, example_environment: Callable[..., dict[str, str]]
) -> None:
    environment, printed = example_environment(PYTHONUNBUFFERED="1"), tmp_path / "printed"
    command = [sys.executable, "manage.py", "serve", "--port", "0", "--seed", "7"]
    with printed.open("wb") as file, subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=file) as serve:
        try:
            wait_for(lambda: "Ctrl-C ends all of them." in printed.read_text() or serve.poll() is not None, 60)
            text = printed.read_text()
            assert "gateway    http://127.0.0.1:" in text
            assert "seed 7" in text
            assert "<title>Runs |" in log_in(text)
            assert [answer_after("break", text), answer_after("repair", text)] == [503, 200]
            assert any("durable_worker" in command for command in leftovers(environment["SHOP_DATA"]))
        finally:
            serve.terminate()
        assert serve.wait(60) == 0
    assert printed.read_text().endswith("all processes ended\n")
    assert leftovers(environment["SHOP_DATA"]) == []


def answer_after(what: str, printed: str) -> int:
    """How the gateway answers once the printed command was run, as it stands and in another folder."""
    [command] = re.findall(rf"^  (\S.* gateway {what})$", printed, re.MULTILINE)
    subprocess.run(shlex.split(command), cwd="/", env={"PATH": os.environ["PATH"]}, check=True, timeout=60)
    [gateway] = re.findall(r"^gateway +(http\S+),", printed, re.MULTILINE)
    return post(f"{gateway}/refunds", {"reference": "nobody's"}, headers={"Idempotency-Key": "nobody's"}).status


def log_in(printed: str) -> str:
    """The list of runs, as the printed user sees it; where the password is wrong it is the form again."""
    found = re.search(r"^admin +(\S+)  user (\S+), password (\S+)$", printed, re.MULTILINE)
    assert found, printed
    admin, user, password = found.groups()
    cookies = CookieJar()
    browser = build_opener(HTTPCookieProcessor(cookies))
    browser.open(f"{admin}login/", timeout=60).close()
    token = next(str(cookie.value) for cookie in cookies if cookie.name == "csrftoken")
    form = {"username": user, "password": password, "csrfmiddlewaretoken": token}
    wanted = f"{admin}django_durable/run/"
    with browser.open(f"{admin}login/?next={wanted}", urlencode(form).encode(), timeout=60) as answer:
        assert not answer.url.startswith(f"{admin}login/"), "the printed user may not log in"
    with browser.open(wanted, timeout=60) as answer:
        return str(answer.read().decode())
