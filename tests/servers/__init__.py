"""Real servers for tests and benchmarks, private to one run and gone with it.

`from tests.servers import Folder, PostgresServer, RedisServer` works from the root of the checkout and from anywhere in
its `.venv` (the editable install puts the root on the path), so `benchmarks/` uses the same code.
"""

from tests.servers.folder import Folder
from tests.servers.guarded import Guarded
from tests.servers.postgres import PostgresServer, database_settings
from tests.servers.redis import RedisServer
from tests.servers.session import Servers, servers_for

__all__ = [
    "Folder",
    "Guarded",
    "PostgresServer",
    "RedisServer",
    "Servers",
    "database_settings",
    "servers_for",
]
