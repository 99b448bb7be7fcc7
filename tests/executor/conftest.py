from __future__ import annotations

from django.conf import settings

# What only PostgreSQL has: isolation levels.
collect_ignore_glob = ["test_postgres_*.py"] if settings.BACKEND == "sqlite" else []
