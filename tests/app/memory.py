"""What a worker process has made of its memory."""

from __future__ import annotations

import gc
from typing import Any

from django_durable import Context, durable_workflow


@durable_workflow
def keeping(ctx: Context) -> dict[str, Any]:
    return {"young": gc.get_threshold()[0], "has_frozen": gc.get_freeze_count() > 0}
