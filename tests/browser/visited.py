"""Which addresses of the admin a browser is to come by, and which of them are no pages. Needs no browser to be read."""

from __future__ import annotations

EXPECTED = {
    **{"app_list": 1, "overview": 1, "workflows": 1, "run_changelist": 2, "run_change": 9},
    **{f"{model}_{page}": 1 for model in ("schedule", "worker") for page in ("changelist", "change", "history")},
    **{f"run_{each}": 1 for each in ("history", "cancel", "pause", "resume", "rerun", "fork", "event")},
    **{f"schedule_{each}": 1 for each in ("add", "edit", "enable", "disable", "fire", "backfill", "remove")},
    **{f"workflows_{each}": 1 for each in ("hold", "release", "start")},
}
"""Pages that are seen at least so often."""
PARTS = {"overview_fragment", "overview_charts", "run_live", "schedule_preview"}
"""What pages ask for anew, and are seen with."""
PLAIN = {"run_value"}
"""Text without a look."""
LEADING_ON = {"run_old", "schedule_old", "worker_old", "workflowentry_changelist"}
FORBIDDEN = {"run_add", "run_delete", "schedule_delete", "worker_add", "worker_delete"}
"""Django's own, to everybody."""
