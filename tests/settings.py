"""Settings of the test project; the backend comes from the environment (`tests/plugin.py` sets it for pytest).

DURABLE_TEST_BACKEND         postgres-redis, postgres-database or sqlite (what `manage.py check` and mypy get)
DURABLE_TEST_DATABASE_URL    PostgreSQL that runs already
DURABLE_TEST_REDIS_URL       Redis that runs already; the database it names is flushed before every test
DURABLE_TEST_DATABASE_NAME   database to use as it is: for processes that a test starts on its test database
DURABLE_TEST_SETTINGS        JSON, merged over DURABLE below: likewise
DURABLE_TEST_FOLDER          the run's temporary folder
"""

import json
import os
from pathlib import Path

BACKEND = os.environ.get("DURABLE_TEST_BACKEND", "sqlite")
QUEUE = "redis" if BACKEND == "postgres-redis" else "database"

SECRET_KEY = "for tests only"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.urls"
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_durable",
    "tests.app",
]
MIDDLEWARE = [
    "tests.csp.content_security_policy",
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


def database() -> dict[str, object]:
    name = os.environ.get("DURABLE_TEST_DATABASE_NAME")
    if BACKEND == "sqlite":
        return sqlite(name)
    from tests.servers import database_settings

    return database_settings(os.environ["DURABLE_TEST_DATABASE_URL"], name)


def sqlite(name: str | None) -> dict[str, object]:
    """A file, because several processes open it; in memory only for commands outside of a test run."""
    folder = os.environ.get("DURABLE_TEST_FOLDER")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name or (Path(folder) / "db.sqlite3" if folder else ":memory:"),
        "TEST": {"NAME": str(Path(folder) / "test.sqlite3") if folder else None},
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 30,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        },
    }


def cache() -> dict[str, object]:
    if QUEUE == "redis":
        return {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": os.environ["DURABLE_TEST_REDIS_URL"]}
    return {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}


DATABASES = {"default": database()}
CACHES = {"default": cache()}
DURABLE = {"QUEUE": QUEUE, **json.loads(os.environ.get("DURABLE_TEST_SETTINGS", "{}"))}
