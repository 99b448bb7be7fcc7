"""What the engine does by the hour or keeps for days, it does in a soak as often as retention is short."""

from django.apps import AppConfig

WALKS = 30
"""In the time of the retention: so that no walk deletes more than there is between two samples."""


class SoakConfig(AppConfig):
    name = "tests.soak"

    def ready(self) -> None:
        from django_durable.conf import durable_settings
        from django_durable.models import Tally
        from django_durable.store import pruning
        from django_durable.worker.loops import prune

        seconds = durable_settings().RETENTION_DAYS * pruning.DAY
        prune.BETWEEN_WALKS = seconds / WALKS
        # The details of ten minutes stand under the first of them, and are added to until the last is over.
        pruning.TALLIED = seconds + 60 * Tally.DETAIL_MINUTES
