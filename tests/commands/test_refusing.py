"""Checks that fail stop what starts runs; what looks at runs, stops or mends them is for when something is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.management import call_command, load_command_class
from django.core.management.base import SystemCheckError
from django.test import override_settings

from django_durable.worker.supervisor import Supervisor
from tests.commands.test_document import COMMANDS

STARTING = {"durable_backfill", "durable_enqueue", "durable_fire", "durable_fork", "durable_rerun"}


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    begun: list[str] = []
    monkeypatch.setattr(Supervisor, "run", lambda supervisor: begun.append("work"))
    yield begun


def test_a_worker_refuses_to_start_with_settings_that_are_wrong(begun: list[str]) -> None:
    with (
        override_settings(DURABLE={"QUEUE": "database", "LEASE_SECOND": 4}),
        pytest.raises(SystemCheckError, match=r"django_durable\.E002.*'LEASE_SECOND'"),
    ):
        call_command("durable_worker")
    assert begun == []
    call_command("durable_worker")
    assert begun == ["work"]


def test_the_commands_that_start_runs_ask_the_checks_and_the_others_do_not() -> None:
    # A worker asks by itself: its children need not do it again.
    commands = {name: load_command_class("django_durable", name) for name in COMMANDS}
    assert {name for name, command in commands.items() if command.requires_system_checks == "__all__"} == STARTING
    assert all(commands[name].requires_system_checks == () for name in set(COMMANDS) - STARTING)
