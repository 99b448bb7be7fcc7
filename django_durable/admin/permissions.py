"""Who may do what: Django's model permissions, the built-in ones to look and our own for the verbs."""

from __future__ import annotations

from django.http import HttpRequest


def may(request: HttpRequest, permission: str) -> bool:
    """Whether the user has this permission of ours: ``cancel_run``, ``view_payload``, …"""
    return request.user.has_perm(f"django_durable.{permission}")


def may_look(request: HttpRequest, model: str) -> bool:
    """Whether the user may look at rows of this model of ours: who may change them may, as everywhere in the admin."""
    return may(request, f"view_{model}") or may(request, f"change_{model}")
