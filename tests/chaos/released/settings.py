"""Settings of a process that works with the released version.

Settings are read before anything of django_durable is: from here on that is found in the released version's folder, and
nowhere else.
"""

import os
import sys
from pathlib import Path

from tests.chaos.released.unpacking import RELEASED, VERSION

sys.path.insert(0, os.environ[RELEASED])

import django_durable
from tests.chaos.settings import *  # noqa: F403
from tests.chaos.settings import INSTALLED_APPS
from tests.settings import DURABLE

if not Path(django_durable.__file__).is_relative_to(os.environ[RELEASED]):
    raise RuntimeError(f"{django_durable.__file__} is not of the released version.")

INSTALLED_APPS = ["tests.chaos.released" if app == "tests.app" else app for app in INSTALLED_APPS]
# Each worker writes it beside its name: so the tables tell who is who.
DURABLE = {**DURABLE, "VERSION": VERSION}
