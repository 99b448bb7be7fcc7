"""The options of limits: checked where they are written, worked out where a run is started."""

from __future__ import annotations

from typing import Any

import pytest

from django_durable import durable_workflow
from django_durable.core.limits import START_KEY_MAX, Bounds, Rate, make_limit_key, make_start_key
from django_durable.core.names import NAME_MAX
from django_durable.exceptions import InvalidName, WorkflowDefinitionError


def work(ctx: Any, tenant: str, size: int = 1, *rest: int, **more: int) -> None: ...


def key_of(*names: str, **options: Any) -> Any:
    """A workflow whose runs are counted by these parameters."""

    def key(**given: Any) -> str:
        return "/".join(str(given[name]) for name in names)

    return durable_workflow(name="limits.work", max_concurrency=1, concurrency_key=key, **options)(work)


def limit_key(workflow: Any, *args: Any, **kwargs: Any) -> str | None:
    key: str | None = workflow.limit_key(workflow.signature.write(workflow.name, args, kwargs))
    return key


def test_without_a_limit_there_is_no_key() -> None:
    assert limit_key(durable_workflow(name="limits.work")(work), "acme") is None


def test_without_a_key_all_runs_of_the_workflow_count_together() -> None:
    assert limit_key(durable_workflow(name="limits.work", max_concurrency=3)(work), "acme") == "limits.work"


def test_the_key_gets_the_whole_input_by_name() -> None:
    assert limit_key(key_of("tenant"), "acme") == "limits.work:acme"
    assert limit_key(key_of("tenant", "size"), tenant="acme") == "limits.work:acme/1"
    assert limit_key(key_of("rest", "extra"), "acme", 1, 2, 3, extra=4) == "limits.work:(2, 3)/4"


def test_a_key_is_never_that_of_another_workflow() -> None:
    one = durable_workflow(name="a:b", max_concurrency=1)(work)
    other = durable_workflow(name="a", max_concurrency=1, concurrency_key=lambda **_: "b")(work)
    third = durable_workflow(name="a%3Ab", max_concurrency=1)(work)
    assert len({limit_key(workflow, "acme") for workflow in (one, other, third)}) == 3


def test_a_renamed_workflow_has_one_limit_with_its_former_name() -> None:
    now = key_of("tenant", aliases=["limits.first", "limits.second"])
    assert limit_key(now, "acme") == "limits.first:acme"


@pytest.mark.parametrize("key", [None, 5, "", "x" * 201, "a\x00b"])
def test_what_is_no_fit_key_is_refused_where_the_run_is_started(key: Any) -> None:
    workflow = durable_workflow(name="limits.work", max_concurrency=1, concurrency_key=lambda **_: key)(work)
    with pytest.raises(InvalidName, match="concurrency key"):
        limit_key(workflow, "acme")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_concurrency": 0}, "max_concurrency must be an integer from 1"),
        ({"max_concurrency": True}, "max_concurrency must be"),
        ({"max_concurrency": 1.0}, "max_concurrency must be"),
        ({"max_concurrency": 1_000_001}, "max_concurrency must be"),
        ({"max_concurrency": 1, "concurrency_key": "tenant"}, "concurrency_key must be callable"),
        ({"concurrency_key": lambda **_: "a"}, "give one of these as well"),
        ({"rate": "5"}, 'rate must be written like "100/m"'),
        ({"rate": 5}, "rate must be written"),
        ({"rate": "0/m"}, "rate must be written"),
        ({"rate": "5/0m"}, "rate must be written"),
        ({"rate": "5/w"}, "rate must be written"),
        ({"rate": "100001/d"}, "at most 100,000 starts"),
        ({"rate": "1/32d"}, "in at most 31 days"),
        ({"debounce": 0}, "debounce must be more than 0"),
        ({"debounce": "5"}, "debounce"),
        ({"singleton": True}, 'singleton must be "skip" or "cancel_running"'),
        ({"singleton": "skip", "max_concurrency": 2}, "leave max_concurrency=2 out"),
        ({"singleton": "skip", "debounce": 5}, "singleton and debounce each say"),
        ({"max_concurrency": 1, "concurrency_key": lambda tenant: tenant}, r"\(tenant, size, rest\).*\*\*others"),
        ({"max_concurrency": 1, "concurrency_key": lambda: "a"}, "concurrency_key of work"),
    ],
)
def test_options_that_cannot_work_are_refused_where_they_are_written(options: dict[str, Any], text: str) -> None:
    with pytest.raises(WorkflowDefinitionError, match=text):
        durable_workflow(**options)(work)


@pytest.mark.parametrize("options", [{"rate": "5/m"}, {"debounce": 5}, {"singleton": "skip"}])
def test_the_key_is_one_for_all_limits(options: dict[str, Any]) -> None:
    assert limit_key(durable_workflow(name="limits.work", **options)(work), "acme") == "limits.work"
    by_tenant = durable_workflow(name="limits.work", concurrency_key=lambda tenant, **_: tenant, **options)(work)
    assert limit_key(by_tenant, "acme") == "limits.work:acme"


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100/m", Rate(100, 60)),
        ("1/s", Rate(1, 1)),
        ("5/10m", Rate(5, 600)),
        ("100000/h", Rate(100_000, 3600)),
        ("3/31d", Rate(3, 31 * 86400)),
    ],
)
def test_rates_are_a_number_and_a_period(text: str, rate: Rate) -> None:
    assert durable_workflow(name="limits.work", rate=text)(work).bounds == Bounds(rate=rate)
    assert str(rate) == text


def test_a_singleton_is_worked_on_one_at_a_time() -> None:
    for options in ({"singleton": "skip"}, {"singleton": "cancel_running", "max_concurrency": 1}):
        assert durable_workflow(name="limits.work", **options)(work).bounds == Bounds(concurrency=1)
    assert durable_workflow(name="limits.work", debounce=1)(work).bounds == Bounds()
    assert durable_workflow(name="limits.work")(work).bounds is None


def test_a_key_of_starts_is_nobodys_limit_key() -> None:
    assert make_start_key("limits.work:acme") != make_limit_key("limits.work", "acme")
    assert make_limit_key("anything").lstrip(":") == make_limit_key("anything")
    assert make_limit_key(":").startswith("%3A")
    assert len(make_start_key(make_limit_key("%" * NAME_MAX, "x" * NAME_MAX))) <= START_KEY_MAX
