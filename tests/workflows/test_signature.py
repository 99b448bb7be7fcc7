"""Input is bound to the signature at both ends of the queue: by name and arity, always."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest

from django_durable.core.payloads.codec import decode
from django_durable.exceptions import InvalidInput, PayloadError, PayloadUndecodable
from django_durable.workflows import signature as module
from django_durable.workflows.signature import Signature


@pytest.fixture(autouse=True)
def _without_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "pydantic", None)


def simple(ctx: Any, order_id: int, express: bool = False) -> None: ...
def positional(ctx: Any, a: int, /, b: int, *, c: int = 3) -> None: ...
def variable(ctx: Any, first: int, *rest: int, option: int = 0, **more: int) -> None: ...
def nothing(ctx: Any) -> None: ...


def through(function: Any, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the function is called with, after the input was written and read."""
    signature = Signature(function)
    return signature.read("w", signature.write("w", args, kwargs))


@pytest.mark.behaviour("DATA-01c")
@pytest.mark.parametrize(
    ("function", "args", "kwargs", "expected"),
    [
        (simple, (1,), {}, ((1, False), {})),
        (simple, (1, True), {}, ((1, True), {})),
        (simple, (), {"express": True, "order_id": 1}, ((1, True), {})),
        (simple, (1,), {"express": True}, ((1, True), {})),
        (positional, (1, 2), {}, ((1, 2), {"c": 3})),
        (positional, (1,), {"b": 2, "c": 5}, ((1, 2), {"c": 5})),
        (variable, (1,), {}, ((1,), {"option": 0})),
        (variable, (1, 2, 3), {"option": 4, "x": 5, "y": 6}, ((1, 2, 3), {"option": 4, "x": 5, "y": 6})),
        (variable, (1,), {"rest": 2, "more": 3}, ((1,), {"option": 0, "rest": 2, "more": 3})),
        (nothing, (), {}, ((), {})),
    ],
)
def test_what_the_function_is_called_with(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], expected: Any
) -> None:
    assert through(function, *args, **kwargs) == expected


def test_it_can_be_imported_where_pydantic_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)
    spec = spec_from_file_location(f"{module.__name__}_again", module.__file__)
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(again := module_from_spec(spec))
    assert again.pydantic is None
    assert decode(again.Signature(simple).write("w", ("any",), {})) == {"order_id": "any"}


def test_only_what_was_given_is_stored() -> None:
    """A default that changes counts for the runs that relied on it."""
    assert decode(Signature(simple).write("w", (1,), {})) == {"order_id": 1}


def test_order_and_types_are_kept() -> None:
    args, _ = through(simple, {2: (1, 2), 1: None}, express=True)
    assert repr(args[0]) == "{2: (1, 2), 1: None}"


@pytest.mark.behaviour("DATA-01a")
@pytest.mark.parametrize(
    ("function", "args", "kwargs", "problem"),
    [
        (simple, (), {}, "missing a required argument: 'order_id'"),
        (simple, (1, 2, 3), {}, "too many positional arguments"),
        (simple, (1,), {"oder_id": 1}, "got an unexpected keyword argument 'oder_id'"),
        (simple, (1,), {"order_id": 1}, "multiple values for argument 'order_id'"),
        (positional, (), {"a": 1, "b": 2}, "'a'"),
        (positional, (1, 2, 3), {}, "too many positional arguments"),
        (nothing, (1,), {}, "too many positional arguments"),
        (simple, (1,), {"ctx": 1}, "unexpected keyword argument 'ctx'"),
    ],
)
def test_what_does_not_fit_is_refused(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        Signature(function).write("shop.order", args, kwargs)
    assert problem in str(caught.value)
    assert str(caught.value).startswith("Input of shop.order: ")
    assert caught.value.workflow == "shop.order"
    assert isinstance(caught.value, TypeError)


def test_what_cannot_be_stored_is_refused_with_its_path() -> None:
    with pytest.raises(PayloadError, match=r"input\['order_id'\]\[1\]"):
        Signature(simple).write("w", ([1, object()],), {})
    with pytest.raises(PayloadError, match="the cap is 20"):
        Signature(simple).write("w", ("x" * 20,), {}, limit=20)


@pytest.mark.parametrize(
    ("stored", "problems"),
    [
        ("{}", ["missing a required argument: 'order_id'"]),
        ('{"order_id":1,"gone":2}', ["got an unexpected argument 'gone'"]),
        ('{"gone":2}', ["missing a required argument: 'order_id'", "got an unexpected argument 'gone'"]),
    ],
)
def test_stored_input_that_no_longer_fits(stored: str, problems: list[str]) -> None:
    with pytest.raises(InvalidInput) as caught:
        Signature(simple).read("w", stored)
    assert caught.value.problems == problems


@pytest.mark.parametrize("stored", ["{", "", "[]", "1", "null", '"order_id"', '{"$":"@gone","v":1}'])
def test_stored_input_that_cannot_be_read(stored: str) -> None:
    with pytest.raises(PayloadUndecodable):
        Signature(simple).read("w", stored)


def test_a_parameter_that_became_optional_or_was_added_with_a_default() -> None:
    assert Signature(simple).read("w", '{"order_id":1}') == ((1, False), {})
    assert Signature(positional).read("w", '{"b":2,"a":1}') == ((1, 2), {"c": 3})


def test_annotations_are_not_evaluated_without_pydantic() -> None:
    def annotated(ctx: Any, x: "no.such.Type") -> None: ...  # type: ignore[name-defined]  # noqa: F821, UP037

    assert through(annotated, "anything") == (("anything",), {})
