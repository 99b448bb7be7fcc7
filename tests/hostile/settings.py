"""Settings of the worker processes that these tests start: the workflows of the corpus, and a project's own logging.

A plain formatter, as most projects have one: what is to be no second line in their logs must be none by itself.
"""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.hostile.app"]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(levelname)s|%(name)s|%(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "loggers": {"django_durable": {"handlers": ["stderr"], "level": "DEBUG"}},
}
