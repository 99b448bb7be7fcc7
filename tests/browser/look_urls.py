"""The admin with a row of a project's own, whose runs stand on the page that the project's ModelAdmin makes."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from django_durable.admin import RunsInline
from tests.app.models import Counter


@admin.register(Counter)
class CounterAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "value")
    search_fields = ("name",)
    readonly_fields = ("value",)
    inlines = (RunsInline,)


# After it: what is registered later has no addresses.
urlpatterns = [path("admin/", admin.site.urls)]
