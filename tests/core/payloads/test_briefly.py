"""The errors of many are one stored value, which has a bound."""

from __future__ import annotations

from typing import Any

import pytest

from django_durable.core.payloads.briefly import encode_failures, in_brief
from django_durable.core.payloads.codec import decode, encode


def failure(message: str, **more: Any) -> dict[str, Any]:
    return {"type": "ValueError", "message": message, "traceback": "frames" * 200, **more}


def test_what_is_within_the_bound_stays_as_it_is() -> None:
    failures = {"a": failure("short", notes=["n"]), 1: failure("x" * 1000)}
    assert decode(encode_failures(failures, 4000)) == failures


@pytest.mark.parametrize("letter", ["x", "ü", "\U0001f600"])
@pytest.mark.parametrize("count", [1, 10, 100])
def test_together_they_take_no_more_than_the_bound(letter: str, count: int) -> None:
    failures = {index: failure(letter * 50_000, cause=failure("why")) for index in range(count)}
    text = encode_failures(failures, 40_000)
    assert len(text) <= 40_000
    assert [(key, told["cut"]) for key, told in decode(text).items()] == [(index, True) for index in range(count)]


def test_those_that_are_short_keep_all() -> None:
    short = failure("short", traceback="", cause="why")
    told = decode(encode_failures({"long": failure("x" * 5000), "short": short}, 2000))
    assert told["short"] == short
    assert told["long"] == {"type": "ValueError", "message": "x" * 500 + "…", "traceback": "", "cut": True}


def test_what_a_program_decides_by_is_kept_whatever_the_bound() -> None:
    told = failure("x" * 5000, culprits=["a", "b"], reason="rollback", run="7", status="failed")
    brief = in_brief(told, 10)
    assert {key: brief[key] for key in ("type", "culprits", "reason", "run", "status")} == {
        "type": "ValueError", "culprits": ["a", "b"], "reason": "rollback", "run": "7", "status": "failed",
    }  # fmt: skip
    assert len(encode(brief)) < 200


def test_of_a_long_traceback_the_end_is_kept() -> None:
    brief = in_brief(failure("why", traceback="a" * 5000 + "the end"), 1500)
    assert brief["message"] == "why"
    assert brief["traceback"].endswith("the end")
