"""The example's own settings, under the policy that these tests hold the admin to."""

from config.settings import *  # noqa: F403

MIDDLEWARE = ["tests.csp.content_security_policy", *MIDDLEWARE]  # noqa: F405
