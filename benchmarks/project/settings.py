"""The Django project that the benchmarks run: nothing but django_durable and a few workflows."""

import json
import os

SECRET_KEY = "for benchmarks only"
USE_TZ = True
INSTALLED_APPS = ["django_durable", "benchmarks.project"]
DATABASES = {"default": json.loads(os.environ["BENCH_DATABASE"])}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
QUEUE = os.environ.get("BENCH_QUEUE", "database")
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
if QUEUE == "redis":
    CACHES = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": os.environ["BENCH_REDIS"]}}
DURABLE = {"QUEUE": QUEUE, **json.loads(os.environ.get("BENCH_DURABLE", "{}"))}
LOGGING = {
    "version": 1,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "loggers": {"django_durable": {"handlers": ["stderr"], "level": "WARNING"}},
}
