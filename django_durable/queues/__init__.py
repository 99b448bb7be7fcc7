"""How workers hear of ready runs. Ids only, and hints only: the database is the truth."""

from .base import Queue
from .ready import Ready

__all__ = ["Queue", "Ready"]
