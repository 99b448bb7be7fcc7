"""I21: what `durable_check` finds in Redis."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from django_redis import get_redis_connection

from django_durable.store.pruning import id_at
from tests.commands.checking import sound
from tests.commands.conftest import Call
from tests.servers import RedisServer

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "durable:{default}:normal"


def push(*elements: object, key: str = LIST) -> None:
    get_redis_connection("default").rpush(key, *map(str, elements))


@pytest.mark.usefixtures("redis_server")
def test_ids_of_runs_are_all_that_should_be_there(call: Call) -> None:
    runs = [sound() for _ in range(5)]
    # Twice, which is harmless: the second claim finds nothing to do.
    push(*(run.pk for run in runs), runs[0].pk)
    found = call("durable_check", "--only", "I21", "--json", "--batch-size", 2).data["invariants"]["I21"]
    assert (found["holds"], found["rows"]) == (True, 6)


@pytest.mark.usefixtures("redis_server")
@pytest.mark.parametrize("made", [timedelta(0), None])
def test_an_id_of_no_run(call: Call, made: timedelta | None) -> None:
    gone = uuid4() if made is None else id_at(timezone.now() - made)
    push(sound().pk, gone, sound().pk)
    [found] = call("durable_check", "--json").data["invariants"]["I21"]["violations"]
    assert found == {"run": str(gone), "problem": "no run, but a list of the queue 'default' names it"}


@pytest.mark.usefixtures("redis_server")
def test_an_id_whose_run_retention_may_have_removed(call: Call) -> None:
    push(UUID(int=id_at(timezone.now() - timedelta(hours=2)).int + 1))
    assert call("durable_check").failed is None


@pytest.mark.usefixtures("redis_server")
def test_what_is_no_id_at_all(call: Call) -> None:
    push("spam", sound().pk, "{}")
    push(b"\xff\xfe", key="durable:{default}:low")
    found = call("durable_check", "--only", "I21", "--json").data["invariants"]["I21"]["violations"]
    assert [one["problem"] for one in found] == [
        "2 in a list of the queue 'default' that are no ids of runs",
        "1 in a list of the queue 'default' that are no ids of runs",
    ]


@pytest.mark.usefixtures("redis_server")
def test_a_key_that_is_no_list() -> None:
    get_redis_connection("default").set(LIST, "spam")
    with pytest.raises(CommandError, match="It could not be told whether these hold: I21") as error:
        call_command("durable_check")
    assert error.value.returncode == 2


def test_a_redis_that_does_not_answer(redis_server: RedisServer) -> None:
    redis_server.stop()
    with pytest.raises(CommandError, match="It could not be told whether these hold: I21") as error:
        call_command("durable_check")
    assert error.value.returncode == 2
