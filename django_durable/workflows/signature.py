"""The input of a workflow: bound to its signature and checked against its annotations, at both ends of the queue."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Set
from functools import cached_property
from importlib import import_module
from types import SimpleNamespace
from typing import Any, get_type_hints

from ..core.payloads.codec import decode, encode
from ..exceptions import InvalidInput, PayloadUndecodable, WorkflowDefinitionError

try:
    pydantic: Any = import_module("pydantic")
except ImportError:  # optional: names and arity are checked without it
    pydantic = None

Arguments = dict[str, Any]


class Signature:
    """The parameters of a workflow after ``ctx``. Input is stored as a mapping from parameter to value."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn
        parameters = list(inspect.signature(fn).parameters.values())
        if not parameters or parameters[0].kind not in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        ):
            raise WorkflowDefinitionError(f"{fn.__qualname__} must take ctx as its first parameter.")
        self._signature = inspect.Signature(parameters[1:])
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        known = self._signature.parameters
        self._names: Set[str] = known.keys()
        self._by_name: Set[str] = known.keys() if all(one.kind in by_name for one in known.values()) else frozenset()
        """The parameters, where each can be given by name; else none."""
        self._positional = [(name, one.default) for name, one in known.items() if one.kind is by_name[0]]
        self._keyword_only = [(name, one.default) for name, one in known.items() if one.kind is by_name[1]]
        self._required = {name for name, one in known.items() if one.default is one.empty}

    def parameters(self) -> list[tuple[inspect.Parameter, Any]]:
        """Each parameter in order with its annotation, resolved where that can be; Any where there is none."""
        hints = _hints(self._fn)
        return [(one, hints.get(name, Any)) for name, one in self._signature.parameters.items()]

    def write(self, workflow: str, args: tuple[Any, ...], kwargs: Arguments, *, limit: int | None = None) -> str:
        """The input as text. Raises InvalidInput where it does not fit, PayloadError where it cannot be stored."""
        if not args and self._required <= kwargs.keys() <= self._by_name:
            # ``bind`` would come to the same, and takes as long as all that is left to do here.
            arguments = {name: kwargs[name] for name in self._by_name if name in kwargs}
        else:
            try:
                arguments = self._signature.bind(*args, **kwargs).arguments
            except TypeError as error:
                raise InvalidInput(workflow, [str(error)]) from None
        return encode(self._validated(workflow, arguments), limit=limit, root="input")

    def read(self, workflow: str, text: str) -> tuple[tuple[Any, ...], Arguments]:
        """Positional and keyword arguments from stored text. Raises PayloadUndecodable, InvalidInput."""
        if self._by_name:
            # As ``BoundArguments`` would give them, for a third of the time.
            given = self._arguments(workflow, text)
            args = tuple(given.get(name, default) for name, default in self._positional)
            return args, {name: given.get(name, default) for name, default in self._keyword_only}
        bound = self._bind(workflow, text)
        return bound.args, bound.kwargs

    def keywords(self, workflow: str, text: str) -> Arguments:
        """Every parameter by name from stored text, defaults too: for functions that look at the input.

        Raises as ``read`` does.
        """
        named = dict(self._bind(workflow, text).arguments)
        for name, parameter in self._signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                named |= named.pop(name)
        return named

    def check_takes_input(self, what: str, fn: Callable[..., Any]) -> None:
        """Raise WorkflowDefinitionError if ``fn`` cannot be called with ``keywords``."""
        several = inspect.Parameter.VAR_KEYWORD
        names = [name for name, parameter in self._signature.parameters.items() if parameter.kind is not several]
        try:
            inspect.signature(fn).bind(**dict.fromkeys(names))
        except ValueError:
            return  # some callables in C do not tell
        except TypeError as error:
            raise WorkflowDefinitionError(
                f"{what} of {self._fn.__qualname__} is called with the whole input as keywords "
                f"({', '.join(names) or 'none'}): {error}. It may take what it does not need as **others."
            ) from None

    def _bind(self, workflow: str, text: str) -> inspect.BoundArguments:
        bound = inspect.BoundArguments(self._signature, self._arguments(workflow, text))
        bound.apply_defaults()
        return bound

    def _arguments(self, workflow: str, text: str) -> Arguments:
        """What was given, by parameter. Raises as ``read`` does."""
        stored = decode(text)
        if type(stored) is not dict:
            raise PayloadUndecodable("the input is no mapping")
        if stored.keys() != self._names:
            known = self._signature.parameters
            missing = [
                name
                for name, parameter in known.items()
                if name not in stored
                and parameter.default is parameter.empty
                and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            ]
            problems = [f"missing a required argument: {name!r}" for name in missing]
            problems += [f"got an unexpected argument {name!r}" for name in stored if name not in known]
            if problems:
                raise InvalidInput(workflow, problems)
        # In the signature's order, which is what BoundArguments needs to tell positional arguments apart.
        return self._validated(workflow, {name: stored[name] for name in self._names if name in stored})

    def _validated(self, workflow: str, arguments: Arguments) -> Arguments:
        problems: list[str] = []
        checked = {}
        for name, value in arguments.items():
            adapter = self._adapters.get(name)
            try:
                checked[name] = value if adapter is None else adapter.validate_python(value)
            except pydantic.ValidationError as error:
                for problem in error.errors():
                    path = "".join(f"[{part!r}]" for part in problem["loc"])
                    problems.append(f"{name}{path}: {problem['msg']}")
        if problems:
            raise InvalidInput(workflow, problems)
        return checked

    @cached_property
    def _adapters(self) -> dict[str, Any]:
        if pydantic is None:
            return {}
        hints = _hints(self._fn)
        plain = (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.KEYWORD_ONLY,
        )
        config = pydantic.ConfigDict(arbitrary_types_allowed=True)
        adapters = {}
        for name, parameter in self._signature.parameters.items():
            if name in hints and parameter.kind in plain and hints[name] is not Any:
                adapters[name] = _adapter(hints[name], config)
        return {name: adapter for name, adapter in adapters.items() if adapter is not None}


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(fn, include_extras=True)
    except Exception:
        # A name that is imported for type checkers only: what can be resolved still is.
        return {name: hint for name in fn.__annotations__ if (hint := _hint(fn, name)) is not None}


def _hint(fn: Callable[..., Any], name: str) -> Any:
    alone = SimpleNamespace(__annotations__={name: fn.__annotations__[name]})
    try:
        return get_type_hints(alone, getattr(fn, "__globals__", {}), include_extras=True)[name]
    except Exception:
        return None


def _adapter(annotation: Any, config: Any) -> Any:
    try:
        return pydantic.TypeAdapter(annotation, config=config)
    except pydantic.PydanticUserError:
        return _adapter_of_its_own(annotation)


def _adapter_of_its_own(annotation: Any) -> Any:
    """For types that bring a configuration of their own (models, dataclasses) and refuse another. None for one that
    pydantic cannot make anything of, such as a dataclass that holds instances of any class: the codec judges these."""
    try:
        return pydantic.TypeAdapter(annotation)
    except pydantic.PydanticUserError:
        return None
