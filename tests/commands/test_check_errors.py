"""How large an error may be, as `durable_check` says, and how large the engine makes one."""

from __future__ import annotations

from types import CodeType

from django_durable.core.payloads.codec import encode
from django_durable.core.payloads.failures import FRAMES_MAX, NOTES_MAX, RELATED_MAX, describe
from django_durable.store.sql.invariants.sizes import ERROR

WIDE = "\N{OWL}"
"""What takes the most bytes for a character."""
LONG = WIDE * 100_000


def failing() -> CodeType:
    """Code in a file with a name that fills a traceback."""
    calls = "def fail(error, depth):\n    if not depth:\n        raise error\n    fail(error, depth - 1)\n"
    return compile(calls, WIDE * 20_000, "exec")


def the_largest() -> BaseException:
    """All that is told of an error, each as long as it can be, and as many others that it came from."""
    names: dict[str, type[Exception]] = {}
    exec(failing(), names)  # noqa: S102  (its own text, right above)
    error: BaseException | None = None
    for _ in range(RELATED_MAX + 1):
        raised = type(WIDE * 1_000, (Exception,), {})(LONG)
        raised.__notes__ = [LONG] * (NOTES_MAX + 1)
        raised.__cause__ = error
        try:
            names["fail"](raised, FRAMES_MAX)
        except Exception as caught:
            error = caught
    assert error is not None
    return error


def test_the_largest_error_of_the_engine_is_just_allowed() -> None:
    told = describe(the_largest())
    assert 0.95 * ERROR < len(encode({**told, "step": WIDE * 500, "reason": "critical"})) < ERROR
