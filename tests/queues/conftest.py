from __future__ import annotations

from django.conf import settings

# What only Redis has; its contract is in `test_contract.py`.
collect_ignore_glob = [] if settings.QUEUE == "redis" else ["test_redis_*.py"]
