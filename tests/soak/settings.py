"""Settings of a soak: those of the tests, with one app more."""

from tests import settings as tests_settings
from tests.settings import *  # noqa: F403

INSTALLED_APPS = [*tests_settings.INSTALLED_APPS, "tests.soak"]
