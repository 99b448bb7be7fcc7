from django.apps import AppConfig


class ReleasedConfig(AppConfig):
    """In the place of `tests.app`, with its label and so with its tables, where that needs what came later."""

    name = "tests.chaos.released"
    label = "app"
    default_auto_field = "django.db.models.BigAutoField"
