"""Composition root: what happens when Django has loaded the app."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class DurableConfig(AppConfig):
    name = "django_durable"
    verbose_name = _("Durable workflows")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import checks  # noqa: F401  (importing them registers them)
        from .client import events  # noqa: F401  (its handles may be part of journals)

        autodiscover_modules("workflows")
