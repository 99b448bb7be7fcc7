"""How the text of a statement is written that comes again and again."""

from __future__ import annotations

import re

_INDENTATION = re.compile(r"\n\s+")


class Typed(str):
    """A statement by which the database sees of which type each of its parameters is (``%(name)s::text``), all of them
    texts, numbers or None. So it can be sent without a look at each value first."""

    __slots__ = ()


def typed(sql: str) -> Typed:
    """Such a statement, without its indentation: what is longer than 4,096 characters psycopg parses anew each time.

    Of a literal with a new line in it nothing changes unless that is followed by white space.
    """
    return Typed(_INDENTATION.sub(" ", sql))
