"""System checks: what can be known to be wrong before anything runs. Ids are stable and listed in docs/settings.md."""

from . import databases, deployment, redis, settings, workflows

__all__ = ["databases", "deployment", "redis", "settings", "workflows"]
