#!/usr/bin/env python
"""``manage.py demo`` shows the shop survive a ``kill -9``; ``manage.py serve`` starts it for a look.

``manage.py gateway break`` and ``repair`` let the orders of the latter fail, for somebody to resume them.
"""

import os
import sys
from pathlib import Path


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    if sys.argv[1:2] == ["demo"]:
        # The demo counts from zero, so it has data of its own that it may throw away at each start.
        os.environ.setdefault("SHOP_DATA", str(Path(__file__).resolve().parent / ".data" / "demo"))
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
