"""The test project with the workflows of this folder, for worker processes that the tests here start.

DURABLE_TEST_BEHIND_PGBOUNCER  what Django itself needs there
DURABLE_TEST_ADDRESS_SPACE     how many bytes the process may map, as `ulimit -v` says it
"""

import os
import resource

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES as OF_ALL_DATABASES
from tests.settings import INSTALLED_APPS as OF_ALL

INSTALLED_APPS = [*OF_ALL, "tests.system"]
DATABASES = {"default": dict(OF_ALL_DATABASES["default"])}

if "DURABLE_TEST_BEHIND_PGBOUNCER" in os.environ:
    DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True

if "DURABLE_TEST_ADDRESS_SPACE" in os.environ:
    space = int(os.environ["DURABLE_TEST_ADDRESS_SPACE"])
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
