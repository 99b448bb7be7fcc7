"""What nobody sends who means well, and what programs send by mistake: one list for every door.

Texts, values and exceptions by a name, which can itself be sent anywhere. Values and exceptions are made anew by each
call: some of them change, or hold themselves.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable
from typing import Any

from tests.hostile import rude

Make = Callable[[], Any]

CAP = 2**20
"""MAX_PAYLOAD_BYTES of the tests that send these: what is just below and just above it would else take seconds."""
DEPTH_MAX = 200

# --- texts -----------------------------------------------------------------------------------

CORPUS = {
    "script": "<script>alert(1)</script>",
    "element": "<hostile onmouseover=alert(1)>",
    "image": "<img src=x onerror=alert(1)>",
    "out of an attribute": "\"><hostile onclick='x'>' autofocus onfocus=alert(1) x=\"",
    "out of a script": "</script></title></textarea></pre><hostile>",
    "comment": "<!--<hostile>--><![CDATA[<hostile>]]>",
    "address": "javascript:alert(1)",
    "template": "{{ request.user.password }}{% load static %}{0} %s %(count)d {name.__class__}",
    "entities": "&lt;hostile&gt;&#60;hostile&#62;&amp;",
    "right to left": "\u202egnp.exe\u202c \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "line breaks": "one\r\ntwo\nthree\u2028four",
    "escapes": "\\u0000 \\x00 %00 \x1b]0;x\x07 \x7f\x9b",
    "long": "w" * 5_000,
    "long words": "name of a step " * 300,
    "emoji": "\U0001f469\u200d\U0001f4bb\U0001f3f3\ufe0f" * 60,
    "quotes": "' OR 1=1 -- \" ` ; DROP TABLE runs; %_",
    "blank": " ",
}
"""What every page has to show and to escape: each of these is led past all of them."""

PAYLOADS_ONLY = {"nul": "a\x00b", "half a character": "\ud83d and \udc69", "all": "".join(map(chr, range(0x120)))}
"""What a payload may hold and no column of text."""

DAMAGED = ["", "{", "nonsense", '{"$":"gone","v":1}', '{"$":1}', "[" * 3_000, '{"a":NaN}', "1" * 10_000, "null", "[]"]
"""Stored payloads that are none."""

TEXTS = {
    **CORPUS,
    **PAYLOADS_ONLY,
    "empty": "",
    "white": " \t\u3000\u2003\u00a0",
    "200": "n" * 200,
    "201": "n" * 201,
    "200 of four bytes": "\U0001f600" * 200,
    "a megabyte": "m" * 1_000_000,
    "zero width": "ad\u200bmin\ufeff\u2060\u00ad",
    "header": "x\r\nSet-Cookie: a=b\r\n\r\n<hostile>",
    "forged line": "well\n2026-01-01 00:00:00 ERROR django_durable FORGED\r\x1b[2K\x1b]8;;http://x\x07",
    "c1 controls": "a\x80\x9b31mb\x85c",
    "path": "../../../../../../etc/passwd",
    "windows path": "..\\..\\C:\\con\\aux",
    "lookup": "${jndi:ldap://127.0.0.1/a} $(id) `id` ; id | id && id",
    "format bomb": "%999999999s %n {0:>999999999} {0.__class__.__init__.__globals__} {",
    "sql sleep": "x'; SELECT pg_sleep(9); --",
    "sql union": "') UNION SELECT password FROM auth_user --",
    "sql cast": "1::text || chr(0) || '\\'' $$ $tag$ :name ?1 @x",
    "like": "%%%___\\",
    "braces": "}{default}:normal",
    "joiners": "a/b[c]%2F%25now[0]",
    "ours": "%on_failure",
    "option": "--settings=tests.nowhere",
    "number": "0x1e400",
    "not a number": "NaN",
    "negative": "-1",
    "huge number": "9" * 400,
    "uuid": "{00000000-0000-0000-0000-000000000000}",
    "tag": '{"$":"tuple","v":[1]}',
    "dotted path": "os.system",
    "dunder": "__class__",
    "lookup of columns": "pk__in",
}
"""All texts. Which of them may be a name is for the engine to say; it has to say it before it stores anything."""

CRONS = {
    "never": "0 0 30 2 *",
    "leap day on a monday": "0 0 29 2 mon",
    "only in 2096": "0 0 29 2 wed#5",
    "every second": "* * * * * *",
    "seven fields": "* * * * * * *",
    "step of nought": "*/0 * * * *",
    "step of a million": "*/1000000 * * * *",
    "range backwards": "50-10/3 * * * *",
    "range of one": "5-5 * * * *",
    "out of range": "60 24 32 13 8",
    "negative minute": "-1 * * * *",
    "a long list": ",".join(["0"] * 95) + " * * * *",
    "long numbers": f"{'9' * 180} * * * *",
    "hashed": "H H * * *",
    "random": "R R * * *",
    "reboot": "@reboot",
    "unknown nickname": "@never",
    "nickname and more": "@daily; id",
    "many words": " ".join(["@daily"] * 20),
    "other digits": "\u0660 * * * *",
    "exponent": "1e1 * * * *",
    "underscore": "1_0 * * * *",
    "last of all": "L L L L L",
    "weekdays": "0 0 15W * mon#6",
    "tabs": "0\t0\v*\f*\x1c*",
}
"""Expressions of schedules that somebody means harm with, or has misread a manual for."""

ZONES = {
    "folder": "America",
    "file": "zone.tab",
    "absolute": "/etc/localtime",
    "up": "../zoneinfo/UTC",
    "up and down": "Europe/../Europe/Berlin",
    "module": "tzdata.zoneinfo",
    "slash": "/",
    "dot": ".",
}
"""Paths and modules that are no time zones."""

TYPED = {**TEXTS, **CRONS, **ZONES}
"""All that people type into a field for a text, and what stands in the rows of schedules."""

# --- values ----------------------------------------------------------------------------------


def nested(levels: int) -> list[Any]:
    """A list in so many lists."""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def _cyclic_list() -> Any:
    value: list[Any] = [1]
    value.append({"again": value})
    return value


def _cyclic_dict() -> Any:
    value: dict[str, Any] = {}
    value["self"] = (value,)
    return value


KEPT: dict[str, Make] = {
    "texts": lambda: list(TYPED.values()),
    "texts as keys": lambda: {text: name for name, text in TYPED.items()},
    "none": lambda: None,
    "nan": lambda: [float("nan"), -float("nan"), float("inf"), -float("inf"), -0.0, 5e-324, 1e308],
    "longest int": lambda: 10**4_299,
    "tuples": lambda: (1, (2, [(), {}])),
    "sets": lambda: {1, "1", (1,), frozenset({None})},
    "other keys": lambda: {1: "a", "1": "b", 1.5: "c", None: "d", (1, 2): "e", b"1": "f"},
    "keys that json makes one": lambda: {True: "a", "true": "b", None: "c", "null": "d", 2: "e", "2": "f"},
    "bytes": lambda: bytes(range(256)),
    "deep": lambda: nested(150),
    "wide": lambda: list(range(20_000)),
    "a megabyte": lambda: "m" * 1_000_000,
    "just below the cap": lambda: "c" * (CAP - 200),
    "our tag": lambda: {"$": "uuid", "v": "nothing of the kind"},
    "our tag in itself": lambda: {"$": {"$": {"$": 1, "v": 2}, "v": {"$": "tuple", "v": 5}}},
    "py/object": lambda: {"py/object": "os.system", "py/reduce": [{"py/type": "os.system"}, ["id"]]},
    "exception by path": lambda: {"exc_module": "os", "exc_type": "system", "exc_message": "id"},
    "constructor": lambda: {"lc": 2, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "id"}},
    "prototype": lambda: {"__proto__": {"a": 1}, "__class__": "x", "__reduce__": ["os.system", ["id"]]},
    "pickle": lambda: pickle.dumps({"a": 1}),
    "pickle as text": lambda: base64.b64encode(pickle.dumps(print)).decode(),
}
"""These come back exactly."""

REFUSED: dict[str, Make] = {
    "object": object,
    "function": lambda: nested,
    "lambda": lambda: lambda: None,
    "class": lambda: int,
    "module": lambda: base64,
    "exception": lambda: ValueError("x"),
    "generator": lambda: (one for one in "ab"),
    "bytearray": lambda: bytearray(b"x"),
    "complex": lambda: 1j,
    "too long an int": lambda: 10**5_000,
    "ints as keys, too long": lambda: {10**5_000: 1},
    "too deep": lambda: nested(DEPTH_MAX + 1),
    "depth 10,000": lambda: nested(10_000),
    "depth 100,000": lambda: nested(100_000),
    "cyclic list": _cyclic_list,
    "cyclic dict": _cyclic_dict,
    "above the cap": lambda: "c" * (CAP + 1),
    "far above the cap": lambda: ["c" * 100_000] * 200,
    "str of another class": lambda: rude.Text("x"),
    "int of another class": lambda: rude.Number(1),
    "dict of another class": lambda: rude.Mapping(a=1),
    "repr raises": rude.ReprRaises,
    "str raises": rude.StrRaises,
    "str exits": rude.StrExits,
    "eq raises": rude.EqRaises,
    "hash raises": rude.HashRaises,
    "bool raises": rude.BoolRaises,
    "reduce raises": rude.ReduceRaises,
    "every attribute raises": rude.EveryAttributeRaises,
    "claims to be an int": rude.ClaimsToBeAnInt,
    "iteration never ends": rude.NeverEnds,
    "deep inside": lambda: {"a": [(1, {"b": rude.ReprRaises()})]},
    "key that meets our mark": lambda: {rude.MeetsOurMark(): 1},
    "class that names itself badly": rude.BadlyNamed,
    "class of an unhashable class": lambda: rude.unhashable_class()(),
    "class whose attributes raise": lambda: rude.rude_class()(),
}
"""These are refused, with the path to the part that cannot be stored."""

VALUES = {**KEPT, **REFUSED}
BIG = {"a megabyte", "just below the cap", "wide", "texts", "texts as keys", "far above the cap", "depth 100,000"}
"""Of these, each of which takes its time."""

# --- exceptions ------------------------------------------------------------------------------

ERRORS: dict[str, Callable[[], BaseException]] = {
    **{f"text: {name}": lambda text=text: ValueError(text) for name, text in TEXTS.items()},  # type: ignore[misc]
    "10 MB": lambda: ValueError("x" * 10_000_000),
    "no arguments": ValueError,
    "arguments that raise": lambda: ValueError(rude.ReprRaises(), rude.StrRaises()),
    "too long an int": lambda: ValueError(10**5_000),
    **rude.ERRORS,
}
"""These are raised by steps, bodies, branches and compensations."""
EVERYWHERE = {
    *("str raises", "str exits", "eq raises", "attributes raise", "of a nameless class", "cyclic cause", "group"),
    *("group of what is no Exception", "no Exception", "KeyboardInterrupt", "SystemExit", "GeneratorExit"),
    *("StopIteration", "StopAsyncIteration", "CancelledError", "connection lost, it says", "forged: undecodable"),
    *("forged: cancelled", "forged: step failed of objects", "retry when nobody knows", "text: all", "10 MB"),
}
"""Each of these takes another way through the code: they are raised at every place, in a real worker."""
FORGING = {"text: forged line", "text: line breaks", "text: escapes", "text: c1 controls", "badly named"}
"""The messages or names of these would break a line of a log or steer a terminal: likewise."""
