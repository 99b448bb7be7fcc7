"""The workflows have an entry in the admin's menu, though they have no table."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.urls import reverse

from tests.admin.conftest import Person

ENTRY = "admin:django_durable_workflowentry_changelist"


@pytest.mark.parametrize("page", ["admin:index", "admin:django_durable_run_changelist"])
def test_the_entry_leads_to_the_page(person: Person, page: str) -> None:
    client = person("view_run")
    assert f'href="{reverse(ENTRY)}"' in client.get(reverse(page)).content.decode()
    answer = client.get(reverse(ENTRY), follow=True)
    assert answer.redirect_chain == [(reverse("admin:django_durable_workflows"), 302)]
    assert answer.status_code == 200


def test_who_may_not_look_at_runs_has_none(person: Person) -> None:
    client = person("view_worker")
    assert f'href="{reverse(ENTRY)}"' not in client.get(reverse("admin:index")).content.decode()
    assert client.get(reverse(ENTRY), follow=True).status_code == 403


def test_nobody_is_offered_to_add_or_change_one(person: Person) -> None:
    [entry] = [
        model
        for app in person(boss=True).get(reverse("admin:index")).context["app_list"]
        for model in app["models"]
        if model["object_name"] == "WorkflowEntry"
    ]
    assert entry["perms"] == {"add": False, "change": False, "delete": False, "view": True}
    assert entry["add_url"] is None


def test_nothing_of_it_is_in_the_database() -> None:
    names = {model._meta.model_name for model in apps.get_app_config("django_durable").get_models()}
    assert "workflowentry" not in names
    assert not ContentType.objects.filter(app_label="django_durable", model="workflowentry").exists()
    assert not Permission.objects.filter(codename__endswith="workflowentry").exists()
