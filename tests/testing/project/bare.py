"""A project without Django, on a machine where django_durable is installed."""

import sys


def test_nothing_of_it_is_loaded():
    assert "django_durable.testing.plugin" in sys.modules
    assert not {"django_durable.models", "django_durable.testing.running"} & set(sys.modules)


def test_fixtures_are_skipped(run_until_idle):
    raise AssertionError("not skipped")


def test_the_clock_as_well(durable_clock):
    raise AssertionError("not skipped")
