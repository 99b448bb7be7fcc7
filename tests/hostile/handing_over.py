"""How somebody hands a value over: by code, or in the admin's forms. In words beside it, all of them ``plain``."""

from __future__ import annotations

import json
from typing import Any, Protocol
from urllib.parse import urlencode
from uuid import uuid4

from django.test import Client
from django.urls import reverse

from django_durable import get_run
from django_durable.client import schedules
from django_durable.client.handle import RunHandle
from django_durable.models import Run, Schedule
from tests.admin.every import NEW
from tests.admin.pages import text_of, verb_url

YEARLY = "0 6 1 1 *"
"""It fires in no test; the worker plans it."""


class Hands(Protocol):
    def start(self, workflow: Any, **given: Any) -> RunHandle[Any]: ...

    def send(self, run: RunHandle[Any], name: str, payload: Any) -> None: ...

    def schedule(self, workflow: Any, first: dict[str, Any], then: dict[str, Any]) -> Schedule:
        """One whose runs are given ``then``; when it was made it was ``first``."""


class ByCode:
    def start(self, workflow: Any, **given: Any) -> RunHandle[Any]:
        run: RunHandle[Any] = workflow.using(tags=["plain"], idempotency_key="plain").enqueue(**given)
        return run

    def send(self, run: RunHandle[Any], name: str, payload: Any) -> None:
        run.send_event(name, payload, "plain", reason="plain", actor="ann")

    def schedule(self, workflow: Any, first: dict[str, Any], then: dict[str, Any]) -> Schedule:
        inputs = [workflow.signature.write(workflow.name, (), given) for given in (first, then)]
        row = Schedule(workflow=workflow.name, name="plain", expression=YEARLY, input=inputs[0])
        schedules.create(row, reason="plain", actor="ann")
        schedules.change(row, {"input": inputs[1]}, reason="plain", actor="ann")
        row.refresh_from_db()
        return row


class ByForms:
    """Who is logged in may do all of it, and ``ADMIN_START`` is on."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def start(self, workflow: Any, **given: Any) -> RunHandle[Any]:
        fields = {f"input:{name}": _typed(value) for name, value in given.items()}
        url = f"{reverse('admin:django_durable_workflows_start')}?{urlencode({'workflow': workflow.name})}"
        self._post(url, {**fields, "tags": "plain", "idempotency_key": "plain", "key": str(uuid4())})
        return get_run(Run.objects.get(workflow=workflow.name).pk)

    def send(self, run: RunHandle[Any], name: str, payload: Any) -> None:
        sent = {"name": name, "payload": json.dumps(payload), "key": str(uuid4())}
        self._post(verb_url(run.run, "event"), {"confirmed": "1", **sent})

    def schedule(self, workflow: Any, first: dict[str, Any], then: dict[str, Any]) -> Schedule:
        fields = {**NEW, "name": "plain", "expression": YEARLY}
        new = {"workflow": workflow.name, "enabled": "on", "input": json.dumps(first)}
        self._post(reverse("admin:django_durable_schedule_add"), {**fields, **new})
        row = Schedule.objects.get(workflow=workflow.name, name="plain")
        url = reverse("admin:django_durable_schedule_edit", args=[row.pk])
        self._post(url, {"confirmed": "1", **fields, "input": json.dumps(then)})
        row.refresh_from_db()
        return row

    def _post(self, url: str, fields: dict[str, str]) -> None:
        page = self._client.post(url, {**fields, "reason": "plain"}, follow=True)
        assert page.redirect_chain, text_of(page)


def _typed(value: Any) -> str:
    """What the form of a start sends for it; of a choice of yes and no its place."""
    return str(int(not value)) if isinstance(value, bool) else str(value)
