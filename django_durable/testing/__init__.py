"""For the tests of people who use django_durable: no worker, no Redis, no real sleep, no thread."""

from .running import run_until_idle

__all__ = ["run_until_idle"]
