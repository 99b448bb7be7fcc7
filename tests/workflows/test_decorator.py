"""``@durable_workflow``: its forms, its options and what it refuses, at import."""

from __future__ import annotations

import asyncio
import functools
from datetime import timedelta
from typing import Any

import pytest

from django_durable import Context, Cron, Retry, Workflow, durable_workflow, get_workflow
from django_durable.core import registry
from django_durable.exceptions import DuplicateWorkflow, UnknownWorkflow, WorkflowDefinitionError


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.definitions()
    monkeypatch.setattr(registry, "_named", dict(registry._named))
    monkeypatch.setattr(registry, "_duplicates", [])
    monkeypatch.setattr(registry, "_unnamed", [])


def plain(ctx: Context, number: int = 1) -> int:
    """What it does."""
    return number * 2


# --- forms -----------------------------------------------------------------------------------


def test_with_and_without_parentheses() -> None:
    for workflow in (durable_workflow(plain), durable_workflow()(plain), durable_workflow(queue="vip")(plain)):
        assert isinstance(workflow, Workflow)
        assert not workflow.is_async
        assert (workflow.__doc__, vars(workflow)["__name__"], vars(workflow)["__wrapped__"]) == (
            "What it does.",
            "plain",
            plain,
        )
    assert durable_workflow(queue="vip")(plain).options.queue == "vip"


def test_it_is_still_a_plain_function() -> None:
    workflow = durable_workflow(plain)
    ctx: Any = object()
    assert workflow(ctx, 4) == 8
    assert workflow(ctx, number=5) == 10


def test_async_functions() -> None:
    @durable_workflow(name="declared.awaited")
    async def awaited(ctx: Any) -> int:
        return 5

    assert awaited.is_async
    assert asyncio.run(awaited(None)) == 5


def test_in_a_unit_test_ctx_may_be_anything() -> None:
    class FakeContext:
        def step(self, name: str, fn: Any, *args: Any) -> Any:
            return [name, fn(*args)]

    @durable_workflow(name="declared.stepping")
    def stepping(ctx: Any) -> Any:
        return ctx.step("double", lambda number: number * 2, 4)

    assert stepping(FakeContext()) == ["double", 8]


# --- names -----------------------------------------------------------------------------------


def test_the_name_is_given_or_made_of_app_and_function() -> None:
    from tests.app.workflows import doubling

    assert doubling.name == "app.doubling"
    assert durable_workflow(name="shop.order")(plain).name == "shop.order"
    # In no app: the module's last part.
    assert durable_workflow(plain).name == "test_decorator.plain"


def test_names_are_resolved_when_they_are_first_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.apps import apps
    from django.core.exceptions import AppRegistryNotReady

    monkeypatch.setattr(apps, "apps_ready", False)
    workflow = durable_workflow(plain)
    with pytest.raises(AppRegistryNotReady):
        _ = workflow.name
    with pytest.raises(AppRegistryNotReady):
        get_workflow("test_decorator.plain")
    monkeypatch.setattr(apps, "apps_ready", True)
    assert get_workflow("test_decorator.plain") is workflow


@pytest.mark.behaviour("RUN-11a")
def test_unknown_names_are_refused_with_what_is_close() -> None:
    durable_workflow(name="zoo.feed_llamas")(plain)
    with pytest.raises(UnknownWorkflow, match=r"under 'zoo\.feed_lamas'\. Did you mean 'zoo\.feed_llamas'\?"):
        get_workflow("zoo.feed_lamas")
    with pytest.raises(UnknownWorkflow) as caught:
        get_workflow("zzz")
    assert str(caught.value) == "No workflow is registered under 'zzz'."


def test_duplicate_names_are_refused() -> None:
    def other(ctx: Context) -> None: ...

    durable_workflow(name="shop.order")(plain)
    durable_workflow(name="shop.order")(other)
    # Also whoever asks later is told: the first one to ask may have been nobody who listens.
    for _ in range(2):
        with pytest.raises(DuplicateWorkflow, match=r"Two workflows are called 'shop\.order': .*plain and .*other"):
            registry.definitions()


def test_a_module_that_is_imported_again_replaces_its_workflows() -> None:
    durable_workflow(name="shop.order")(plain)
    registry.definitions()
    again = durable_workflow(name="shop.order")(plain)
    assert get_workflow("shop.order") is again


def test_repr_and_where_are_for_people() -> None:
    assert repr(durable_workflow(plain)) == f"<Workflow {__name__}.plain>"


# --- options ---------------------------------------------------------------------------------


@pytest.mark.behaviour("STEP-06a")
def test_options_and_their_defaults() -> None:
    options = durable_workflow(plain).options
    assert (options.name, options.queue, options.priority, options.timeout) == (None, "default", 0, None)
    assert (options.retry, options.step_retry, options.on_failure, options.crons) == (Retry(), Retry(), None, [])
    given = durable_workflow(cron=["0 6 * * *", Cron("@daily", name="d")], timeout=timedelta(hours=1))(plain).options
    assert [cron.expression for cron in given.crons] == ["0 6 * * *", "@daily"]


@pytest.mark.parametrize("option", ["max_atempts", "compensate", "alias"])
def test_options_that_it_does_not_have_are_named(option: str) -> None:
    with pytest.raises(TypeError, match=rf"@durable_workflow: there is no option '{option}'"):
        durable_workflow(**{option: None})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"name": ""}, "workflow '': is empty"),
        ({"name": "a\nb"}, "control characters"),
        ({"name": "x" * 201}, "longer than 200"),
        ({"name": 5}, "must be a string"),
        ({"aliases": "shop.order"}, "aliases must be a list of names, not 'shop.order'"),
        ({"aliases": None}, "aliases must be a list of names"),
        ({"aliases": ["a\nb"]}, "alias .* has control characters"),
        ({"aliases": ["a", "a"]}, "each given once"),
        ({"name": "a", "aliases": ["a"]}, "must be other names than 'a'"),
        ({"queue": "a b"}, "queue must be 1 to 100 letters"),
        ({"queue": ""}, "queue"),
        ({"queue": None}, "queue"),
        ({"queue": "x" * 101}, "queue"),
        ({"queue": "größe"}, "queue"),
        ({"queue": "a\n"}, "queue"),
        ({"priority": 101}, "priority must be an integer from -100 to 100, not 101"),
        ({"priority": -101}, "priority"),
        ({"priority": True}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"retry": 3}, "retry must be a Retry, not 3"),
        ({"step_retry": None}, "step_retry must be a Retry"),
        ({"timeout": 0}, "timeout must be more than 0"),
        ({"timeout": timedelta(days=-1)}, "timeout must be more than 0"),
        ({"timeout": "1h"}, "timeout takes a timedelta or seconds"),
        ({"timeout": timedelta.max}, "timeout of .* is beyond what a date can hold"),
        ({"retention": -1}, "retention must be more than 0"),
        ({"on_failure": "call me"}, "on_failure must be callable"),
        ({"cron": "not a cron"}, "not a cron"),
        ({"cron": ["@daily", "61 * * * *"]}, "61"),
        ({"cron": 5}, "not iterable"),
    ],
)
def test_bad_options_are_refused_at_import(options: dict[str, Any], text: str) -> None:
    with pytest.raises(WorkflowDefinitionError, match=text):
        durable_workflow(**options)


# --- functions -------------------------------------------------------------------------------


def another(ctx: Context) -> None: ...


def no_parameters() -> None: ...
def only_keywords(*, ctx: Context) -> None: ...
def only_variable(*args: Any) -> None: ...
def generator(ctx: Context) -> Any:
    yield 1


async def async_generator(ctx: Context) -> Any:
    yield 1


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (no_parameters, "no_parameters must take ctx as its first parameter"),
        (only_keywords, "must take ctx"),
        (only_variable, "must take ctx"),
        (generator, "generator is a generator"),
        (async_generator, "async_generator is a generator"),
        (Context, "decorates functions"),
        (functools.partial(plain), "decorates functions"),
        ("shop.order", "decorates functions, not 'shop.order'"),
        (object(), "decorates functions"),
    ],
)
def test_what_is_no_workflow(function: Any, text: str) -> None:
    with pytest.raises(WorkflowDefinitionError, match=text):
        durable_workflow(function)
    assert registry._unnamed == []


def test_ctx_may_have_any_name() -> None:
    def positional(context: Context, /, x: int) -> int:
        return x

    assert durable_workflow(positional)(object(), 5) == 5


# --- fingerprint -----------------------------------------------------------------------------


def test_the_fingerprint_is_the_module_s_or_the_setting_s(settings: Any) -> None:
    settings.DURABLE = {**settings.DURABLE, "VERSION": None}
    one, two = durable_workflow(plain), durable_workflow(another)
    assert one.fingerprint == two.fingerprint
    assert len(one.fingerprint) == 16
    settings.DURABLE = {**settings.DURABLE, "VERSION": "v7-" + "x" * 100}
    assert durable_workflow(plain).fingerprint == ("v7-" + "x" * 100)[:64]
