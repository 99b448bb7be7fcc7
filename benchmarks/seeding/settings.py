"""The Django project of the seeded database: the admin, and workflows that nobody starts any more."""

import json
import os

THEME = os.environ.get("BENCH_THEME", "")
"""A package that gives the admin other templates: ``unfold`` or ``jazzmin``."""

SECRET_KEY = "for benchmarks only"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "benchmarks.seeding.urls"
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = os.environ.get("BENCH_TIME_ZONE", "UTC")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    *([THEME] if THEME else []),
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_durable",
    "benchmarks.seeding",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {"default": json.loads(os.environ["BENCH_DATABASE"])}
DURABLE = {"QUEUE": "database"}
# What the workflows say is kept with their runs, as far as the logger is enabled for it; nobody prints it.
LOGGING = {"version": 1, "disable_existing_loggers": False, "loggers": {"django_durable.workflow": {"level": "INFO"}}}
JAZZMIN_UI_TWEAKS = {"default_theme_mode": "auto"}
JAZZMIN_SETTINGS = {"site_brand": "The shop", "site_title": "The shop"}
