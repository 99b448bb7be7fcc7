from __future__ import annotations

from django.conf import settings

# The scenes are played on PostgreSQL: its dialect is the one whose clock can be stopped.
collect_ignore_glob = ["test_postgres_*.py"] if settings.BACKEND == "sqlite" else []
