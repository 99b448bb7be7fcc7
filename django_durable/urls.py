"""For a project that shows runs on pages of its own: ``path("durable/", include("django_durable.urls"))``.

The admin needs none of it.
"""

from __future__ import annotations

from django.urls import path

from .views import run_fragment, run_json

app_name = "django_durable"

urlpatterns = [
    path("runs/<uuid:run_id>/", run_fragment, name="run_fragment"),
    path("runs/<uuid:run_id>.json", run_json, name="run_json"),
]
