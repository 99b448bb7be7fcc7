"""The settings in force, and what the system checks say."""

from __future__ import annotations

from dataclasses import asdict

from django.core.checks import ERROR, run_checks

from ....conf import durable_settings
from ....queues.current import queue_kind
from .section import Section


def examine_settings(section: Section) -> None:
    section.facts = {**asdict(durable_settings()), "QUEUE": queue_kind()}


def examine_checks(section: Section) -> None:
    messages = [message for message in run_checks(tags=["durable"]) if not message.is_silenced()]
    section.facts = {message.id or "": message.msg for message in messages}
    for message in messages:
        told = section.problems if message.level >= ERROR else section.notes
        told.append(f"{message.id}: {message.msg} {message.hint or ''}".strip())
