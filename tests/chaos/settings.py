"""Settings of the workers and the client: of the tests' apps what they work with, and no more.

To start a process takes a core for 0.46 s with these and 0.63 s with those of the tests, which have the admin; and to
start processes is what two cores do much of the time under so many kills.
"""

from tests.settings import *  # noqa: F403

INSTALLED_APPS = ["django.contrib.contenttypes", "django_durable", "tests.app"]
MIDDLEWARE: list[str] = []
ROOT_URLCONF = "tests.chaos.settings"
urlpatterns: list[object] = []
"""No page of anybody's is asked for."""
