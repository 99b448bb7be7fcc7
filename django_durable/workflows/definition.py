"""A workflow: an ordinary function with a name, options, and verbs that start runs of it."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from datetime import datetime
from functools import cache, cached_property, update_wrapper
from types import ModuleType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from ..client.tagging import tags_of
from ..conf import durable_settings
from ..core.flow.executing import is_executing
from ..core.flow.run_info import RunInfo
from ..core.flow.stepping import running_step
from ..core.ids import uuid7
from ..core.journal.journal import NewRun
from ..core.kinds.sleeps import seconds_of
from ..core.limits import Bounds, Meeting, make_limit_key
from ..core.names import check_name
from ..core.sizes import note_size
from ..exceptions import CannotBeChild, ContextMisuse, WorkflowDefinitionError
from .options import StartOptions, WorkflowOptions
from .signature import Signature

if TYPE_CHECKING:
    from ..client.handle import RunHandle
    from .using import Using

P = ParamSpec("P")
R = TypeVar("R")
AS_DECLARED = StartOptions()


@cache
def _client() -> tuple[ModuleType, ModuleType]:
    """``client.handle`` and ``client.starting``, which cannot be imported before the apps are loaded."""
    from ..client import handle, starting

    return handle, starting


class Workflow(Generic[P, R]):
    """What ``@durable_workflow`` makes of a function. Called, it is still that function."""

    child_key: object = None

    def __init__(self, fn: Callable[Concatenate[Any, P], Any], options: WorkflowOptions) -> None:
        self.fn = fn
        self.options = options
        self.is_async = inspect.iscoroutinefunction(fn)
        if not self.is_async and not inspect.isroutine(fn):
            raise WorkflowDefinitionError(f"@durable_workflow decorates functions, not {fn!r}.")
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise WorkflowDefinitionError(f"{fn.__qualname__} is a generator; a workflow is a plain or async function.")
        self.signature = Signature(fn)
        if options.concurrency_key is not None:
            self.signature.check_takes_input("concurrency_key", options.concurrency_key)
        update_wrapper(self, fn)

    def __call__(self, ctx: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self.fn(ctx, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<Workflow {self.where}>"

    @property
    def where(self) -> str:
        """Module and function: for messages only, never stored."""
        return f"{self.fn.__module__}.{self.fn.__qualname__}"

    @cached_property
    def name(self) -> str:
        """The name that runs are stored under: as given, else ``<app label>.<function>``."""
        return self.options.name or f"{self.app_label}.{self.fn.__name__}"

    @property
    def aliases(self) -> tuple[str, ...]:
        """Names that it had: runs that were started under them go on with this function."""
        return tuple(self.options.aliases)

    @cached_property
    def bounds(self) -> Bounds | None:
        """How the runs with one ``limit_key`` are limited; None: they have no such key."""
        return self.options.bounds

    def limit_key(self, text: str) -> str | None:
        """With which runs one with this input (as stored) shares the limit; None where there is none.

        Raises InvalidName, and whatever ``concurrency_key`` raises.
        """
        options = self.options
        if self.bounds is None:
            return None
        # While a rename is deployed, code of before starts runs as well: their limit is one.
        name = next(iter(options.aliases), self.name)
        if options.concurrency_key is None:
            return make_limit_key(name)
        key = options.concurrency_key(**self.signature.keywords(self.name, text))
        return make_limit_key(name, check_name("concurrency key", key))

    @cached_property
    def app_label(self) -> str:
        """The label of the app that the function lives in, or its module where that is in no app."""
        from django.apps import apps

        config = apps.get_containing_app_config(self.fn.__module__)
        return config.label if config else self.fn.__module__.rpartition(".")[2]

    @cached_property
    def fingerprint(self) -> str:
        """What tells this code from other code under the same name: a setting, else a hash of the module."""
        configured = durable_settings().VERSION
        if configured is not None:
            return configured[:64]
        try:
            source = inspect.getsource(sys.modules[self.fn.__module__])
        except (OSError, KeyError, TypeError):
            source = self.fn.__code__.co_code.hex()
        return hashlib.sha256(source.encode()).hexdigest()[:16]

    # --- starting ------------------------------------------------------------------------------

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> RunHandle[R]:
        """Start a run in the caller's transaction. Raises InvalidInput, PayloadError, ContextMisuse (in a body)."""
        return self._start(AS_DECLARED, [(args, kwargs)])[0]

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> RunHandle[R]:
        """As ``enqueue``."""
        return await sync_to_async(self.enqueue)(*args, **kwargs)

    def enqueue_many(self, inputs: Iterable[dict[str, Any]]) -> list[RunHandle[R]]:
        """Start a run for each input (keyword arguments), all in one go: all or none."""
        return self._start(AS_DECLARED, [((), dict(given)) for given in inputs])

    def using(self, **options: Any) -> Using[P, R]:
        """This workflow with other options for the runs it starts: see ``StartOptions``."""
        from .using import Using

        known = [field.name for field in fields(StartOptions)]
        if unknown := [name for name in options if name not in known]:
            raise TypeError(f"using() has no option {', '.join(unknown)} in this version; it knows {', '.join(known)}.")
        return Using(self, StartOptions(**options))

    def _start(
        self, options: StartOptions, inputs: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]
    ) -> list[RunHandle[R]]:
        handles, starting = _client()
        if options.key is not None or options.detached:
            raise TypeError("using(key=…, detached=…) is for children: ctx.run_workflow() and ctx.start_workflow().")
        if is_executing() and running_step() is None:
            raise ContextMisuse(
                f"{self.name} was enqueued in a workflow's body, which would start another run at each replay. "
                "Start it as a child with ctx.start_workflow(), or enqueue it in a step."
            )
        runs = [self.new_run(options, args, kwargs) for args, kwargs in inputs]
        key = None
        if options.idempotency_key is not None:
            ttl = seconds_of(options.idempotency_ttl, "idempotency_ttl")
            key = starting.KeyRequest(options.idempotency_key, ttl, options.on_conflict)
        ids = starting.start(self, runs, key)
        # Who meets a run, or comes with its key again, has not started it.
        return [handles.RunHandle(run_id, is_new=run_id == run.id) for run_id, run in zip(ids, runs, strict=True)]

    def new_run(self, options: StartOptions, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewRun:
        """The run that ``options`` and input describe, not yet stored. Raises InvalidInput, PayloadError, and TypeError
        for options that ``debounce`` or ``singleton`` leave no sense."""
        self._check_meeting(options)
        settings = durable_settings()
        run = NewRun(
            id=uuid7(),
            workflow=self.name,
            input=self.signature.write(self.name, args, kwargs, limit=settings.MAX_PAYLOAD_BYTES),
            queue=options.queue or self.options.queue,
            priority=self.options.priority if options.priority is None else options.priority,
            max_attempts=options.max_attempts,
            tags=tuple(dict.fromkeys([*options.tags, *tags_of((*args, *kwargs.values()))])),
        )
        note_size(run.input, settings.WARN_PAYLOAD_BYTES, run.id, "input")
        if isinstance(options.run_after, datetime):
            run.run_at = options.run_after
        elif options.run_after is not None:
            run.run_after = seconds_of(options.run_after, "run_after")
        run.limit_key, run.meeting = self.limit_key(run.input), self.options.meeting
        if self.options.debounce is not None:
            run.run_after = seconds_of(self.options.debounce, "debounce")
        timeout = self.options.timeout if options.timeout is None else options.timeout
        if timeout is not None:
            run.deadline_after = seconds_of(timeout, "timeout")
        return run

    def _check_meeting(self, options: StartOptions) -> None:
        meeting = self.options.meeting
        if meeting is not None and options.idempotency_key is not None:
            raise TypeError(f"{meeting} of {self.name} says which run a start gives: it takes no idempotency_key.")
        if meeting in (Meeting.DEBOUNCE, Meeting.CANCEL_RUNNING) and options.run_after is not None:
            raise TypeError(f"{meeting} of {self.name} says when its runs start: it takes no run_after.")

    def new_child(self, parent: RunInfo, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewRun:
        """A child run for ``path`` in ``parent``; it inherits the parent's deadline."""
        return self.child(AS_DECLARED, parent, path, args, kwargs)

    def child(
        self, options: StartOptions, parent: RunInfo, path: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> NewRun:
        if options.idempotency_key is not None:
            raise TypeError("A child takes no idempotency_key: its name in the parent (and key=…) starts it once.")
        if self.options.meeting is not None:
            raise CannotBeChild(self.name, self.options.meeting)
        run = self.new_run(options, args, kwargs)
        return replace(
            run,
            parent_id=parent.run_id,
            parent_path=path,
            root_id=parent.root_id,
            detached=options.detached,
            deadline_at=None if options.detached else parent.deadline_at,
        )
