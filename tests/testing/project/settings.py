"""A project of somebody who uses django_durable: it knows nothing of this checkout's tests.

Its Redis does not run, and its tests must not care. PROJECT_DATABASE is JSON for DATABASES["default"].
"""

import json
import os

SECRET_KEY = "for tests only"
USE_TZ = True
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_durable", "shop"]
DATABASES = {"default": json.loads(os.environ["PROJECT_DATABASE"])}
CACHES = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}}
DURABLE = {"QUEUE": "redis"}
