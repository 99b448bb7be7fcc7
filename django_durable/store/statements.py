"""How the text of a statement is written that comes again and again."""

from __future__ import annotations

import re

_INDENTATION = re.compile(r"\n\s+")


class Typed(str):
    """A statement that says of which type each of its parameters is (``%(name)s::text``), all of them texts, numbers or
    None, and that returns no instants. So it can be sent without a look at each value first."""

    __slots__ = ()


def in_one_line(sql: str) -> str:
    """A statement without its indentation: what is longer than 4,096 characters psycopg parses anew each time.

    Of a literal with a new line in it nothing changes unless that is followed by white space.
    """
    return _INDENTATION.sub(" ", sql)
