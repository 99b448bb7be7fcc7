"""The test project with the workflows of this folder: for worker processes that the tests here start."""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS as OF_ALL

INSTALLED_APPS = [*OF_ALL, "tests.reliability"]
