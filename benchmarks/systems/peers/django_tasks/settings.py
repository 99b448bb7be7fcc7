"""The smallest project: https://github.com/RealOrangeOne/django-tasks-db#installation."""

import os

from psycopg.conninfo import conninfo_to_dict

SECRET_KEY = "bench"
USE_TZ = True
INSTALLED_APPS = ["django_tasks", "django_tasks_db"]
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend", "QUEUES": ["default"]}}

_options = conninfo_to_dict(os.environ["BENCH_POSTGRES"])
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _options.pop("dbname"),
        # Persistent connections: by default the worker opens one for each task, which costs more than the rest.
        "CONN_MAX_AGE": None,
        "OPTIONS": _options,
    }
}
