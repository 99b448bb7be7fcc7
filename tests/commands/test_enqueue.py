from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from django_durable import get_run
from django_durable.models import Run
from django_durable.testing import run_until_idle
from tests import processes
from tests.commands.conftest import Call

pytestmark = [pytest.mark.django_db, pytest.mark.contract]


def test_starts_a_run_and_prints_its_id(call: Call) -> None:
    called = call("durable_enqueue", "app.doubling", "--input", '{"number": 21}')
    assert (called.failed, called.err) == (None, "")
    run_until_idle()
    assert get_run(called.out.strip()).result() == 42


def test_options(call: Call) -> None:
    called = call(
        "durable_enqueue", "app.doubling", "--input", '{"number": 1}', "--queue", "vip", "--priority", 7,
        "--delay", 60, "--tag", "blue", "--tag", "urgent",
    )  # fmt: skip
    run = Run.objects.get(pk=called.out.strip())
    assert (run.queue, run.priority, run.status) == ("vip", 7, "scheduled")
    assert run.wake_at is not None
    assert timedelta(seconds=50) < run.wake_at - timezone.now() < timedelta(seconds=61)
    assert set(run.tags.values_list("name", flat=True)) == {"blue", "urgent"}


def test_the_same_key_finds_the_run(call: Call) -> None:
    first = call("durable_enqueue", "app.doubling", "--input", '{"number": 1}', "--key", "one")
    second = call("durable_enqueue", "app.doubling", "--input", '{"number": 1}', "--key", "one")
    other = call("durable_enqueue", "app.doubling", "--input", '{"number": 2}', "--key", "one")
    assert second.out == first.out
    assert other.failed is not None
    assert "another input" in other.failed
    assert Run.objects.count() == 1


def test_what_json_has_no_word_for_is_tagged(call: Call) -> None:
    tagged = '{"number": {"$": "decimal", "v": "21"}}'
    called = call("durable_enqueue", "app.doubling", "--input", tagged)
    run_until_idle()
    assert get_run(called.out.strip()).result() == 42


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["app.doublin"], "No workflow is registered under 'app.doublin'. Did you mean 'app.doubling'"),
        (["app.doubling"], "missing a required argument: 'number'"),
        (["app.doubling", "--input", '{"number": 1, "nmber": 1}'], "'nmber'"),
        (["app.doubling", "--input", '{"number": 1'], "--input is no JSON: "),
        (["app.doubling", "--input", "[1]"], "--input must be a JSON object"),
        (["app.doubling", "--input", '{"number": NaN}'], "--input cannot be read"),
        (["app.doubling", "--input", '{"number": {"$": "pickle", "v": ""}}'], "--input cannot be read"),
        (["app.doubling", "--input", '{"number": 1}', "--queue", "a b"], "queue must be"),
        (["app.doubling", "--input", '{"number": 1}', "--priority", "101"], "priority must be"),
        (["app.doubling", "--input", '{"number": 1}', "--delay", "nan"], "run_after takes"),
        (["app.doubling", "--input", '{"number": 1}', "--tag", ""], "tag"),
        (["app.doubling", "--input", '{"number": 1}', "--key", "x" * 201], "idempotency key"),
        (["app.\x1b[31m"], "'app.\\x1b[31m'"),
    ],
)
def test_mistakes_are_told_in_a_sentence(call: Call, arguments: list[str], sentence: str) -> None:
    called = call("durable_enqueue", *arguments)
    assert called.failed is not None
    assert sentence in called.failed
    assert "\x1b" not in called.failed
    assert (called.out, Run.objects.count()) == ("", 0)


@pytest.mark.django_db(transaction=True)
def test_from_a_real_shell() -> None:
    with processes.Command("durable_enqueue", "app.doubling", "--input", '{"number": 21}') as command:
        assert command.wait() == 0
    [run] = Run.objects.all()
    assert command.log.split()[-1] == str(run.pk)
    with processes.Command("durable_enqueue", "app.doublin") as command:
        assert command.wait() == 1
    assert "Traceback" not in command.log
