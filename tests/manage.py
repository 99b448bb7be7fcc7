#!/usr/bin/env python
"""Django's commands with the settings of the tests; `tests/processes.py` starts workers by it."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # The folder of this file shadows nothing useful, the root of the checkout has `tests` and `django_durable`.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)
