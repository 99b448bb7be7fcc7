"""Settings of the example shop. Everything that the demo changes comes from the environment."""

from __future__ import annotations

import os
from pathlib import Path

import django

from config.databases import cache, database
from config.secret import secret

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(os.environ.get("SHOP_DATA", BASE_DIR / ".data")).resolve()
DATA_DIR.mkdir(parents=True, exist_ok=True)

DATABASE_URL = os.environ.get("DATABASE_URL")
REDIS_URL = os.environ.get("REDIS_URL")

SECRET_KEY = os.environ.get("SECRET_KEY") or secret(DATA_DIR / "secret_key")
DEBUG = os.environ.get("SHOP_DEBUG") == "1"
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "testserver"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_durable",
    "shop",
    "demo",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
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

DATABASES = {"default": database(DATABASE_URL, DATA_DIR)}
CACHES = {"default": cache(REDIS_URL)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en"
TIME_ZONE = "Europe/Berlin"
USE_TZ = True
STATIC_URL = "static/"

MAIL_DIR = DATA_DIR / "mail"
_MAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
# Django 6.1 has settings of its own for each way to send mail, and warns of the ones from before.
if django.VERSION >= (6, 1):
    MAILERS = {"default": {"BACKEND": _MAIL_BACKEND, "OPTIONS": {"file_path": MAIL_DIR}}}
else:
    EMAIL_BACKEND = _MAIL_BACKEND
    EMAIL_FILE_PATH = MAIL_DIR
DEFAULT_FROM_EMAIL = "shop@example.com"

# A short lease: whoever watches wants to see a dead worker's runs move on in seconds.
DURABLE = {
    "QUEUE": "redis" if REDIS_URL else "database",
    "LEASE_SECONDS": 4,
    "HEARTBEAT_SECONDS": 1,
    "REAP_SECONDS": 0.5,
}

SHOP_GATEWAY_URL = os.environ.get("SHOP_GATEWAY_URL", "http://127.0.0.1:8001")
SHOP_GATEWAY_TIMEOUT_SECONDS = float(os.environ.get("SHOP_GATEWAY_TIMEOUT_SECONDS", "5"))
# After so many requests without an answer an order fails, and waits for somebody to resume it.
SHOP_GATEWAY_ATTEMPTS = int(os.environ.get("SHOP_GATEWAY_ATTEMPTS", "7"))
SHOP_WAREHOUSE_URL = os.environ.get("SHOP_WAREHOUSE_URL", "http://127.0.0.1:8002")
SHOP_SITE_URL = os.environ.get("SHOP_SITE_URL", "http://127.0.0.1:8000")
# What the warehouse shows when it calls back.
SHOP_WEBHOOK_TOKEN = os.environ.get("SHOP_WEBHOOK_TOKEN") or secret(DATA_DIR / "webhook_token")
SHOP_COOLING_OFF_SECONDS = float(os.environ.get("SHOP_COOLING_OFF_SECONDS", "1800"))
SHOP_PACKING_SECONDS = float(os.environ.get("SHOP_PACKING_SECONDS", "172800"))
SHOP_CLOSE_DAY = os.environ.get("SHOP_CLOSE_DAY", "0 23 * * *")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
}
