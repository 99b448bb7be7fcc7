from django.apps import AppConfig


class HostileConfig(AppConfig):
    name = "tests.hostile.app"
    label = "hostile"
