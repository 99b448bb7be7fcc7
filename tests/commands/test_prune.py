from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import override_settings

from django_durable import durable_workflow
from django_durable.core import registry
from django_durable.models import Run, Worker
from tests.app.workflows import doubling
from tests.commands.conftest import Call
from tests.commands.rows import a_process, a_run

pytestmark = [pytest.mark.django_db, pytest.mark.contract]
DAYS = timedelta(days=1)


def test_command(call: Call) -> None:
    a_run(age=31 * DAYS)
    a_run(age=8 * DAYS)
    assert call("durable_prune", "--dry-run").out.startswith("Would delete 1 run, 0 idempotency keys")
    assert Run.objects.count() == 2
    assert call("durable_prune").out == "Deleted 1 run, 0 idempotency keys, 0 workers, 0 fires.\n"
    data = call("durable_prune", "--older-than", "7d", "--batch-size", 1, "--json").data
    assert data == {"dry_run": False, "runs": 1, "idempotency_keys": 0, "workers": 0, "fires": 0}


def test_dry_run_counts_everything_and_locks_nothing(call: Call) -> None:
    root = a_run(age=31 * DAYS)
    for _ in range(5):
        a_run(age=31 * DAYS, parent=root)
    for _ in range(3):
        a_process(2 * DAYS)
    data = call("durable_prune", "--dry-run", "--batch-size", 2, "--json").data
    assert data == {"dry_run": True, "runs": 6, "idempotency_keys": 0, "workers": 3, "fires": 0}
    assert (Run.objects.count(), Worker.objects.count()) == (6, 3)


@override_settings(DURABLE={"RETENTION_DAYS": 0.5})
def test_retention_days(call: Call) -> None:
    a_run(age=timedelta(hours=13))
    a_run(age=timedelta(hours=11))
    assert call("durable_prune", "--json").data["runs"] == 1


def test_a_workflows_option_goes_before_the_command_line(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_named", dict(registry.definitions()))

    @durable_workflow(name="app.kept", retention=timedelta(days=90))
    def kept(ctx: Any) -> None: ...

    a_run(age=31 * DAYS, workflow="app.kept")
    a_run(age=31 * DAYS, workflow=doubling.name)
    assert call("durable_prune", "--older-than", "1h", "--json").data["runs"] == 1


@pytest.mark.parametrize("text", ["7", "d", "-1d", "7 days", "1e3d"])
def test_what_is_no_duration(call: Call, text: str) -> None:
    failed = call("durable_prune", f"--older-than={text}").failed
    assert failed is not None
    assert "is no duration" in failed
