"""For pytest with pytest-django: the fixtures."""

import sys

import pytest
from django.utils import timezone

from django_durable.testing import assert_fired
from shop.models import Order
from shop.workflows import count_orders, fulfil_order, remind_customer


def test_the_fixture_brings_the_database(run_until_idle):
    order = Order.objects.create()
    run = fulfil_order.enqueue(order.pk)
    run_until_idle(skip_waits=True)
    assert run.result() == f"charge-{order.pk}"


@pytest.mark.django_db(transaction=True)
def test_it_works_outside_of_a_transaction(run_until_idle):
    run = fulfil_order.enqueue(Order.objects.create().pk)
    assert run_until_idle() == 1
    run.send_event("packed")
    assert run_until_idle() == 1
    assert run.refresh().status == "succeeded"


def test_the_clock_is_moved_for_the_whole_test(durable_clock, run_until_idle):
    order = Order.objects.create()
    remind_customer.enqueue(order.pk)
    run_until_idle()
    durable_clock.advance(days=7)
    run_until_idle()
    assert_fired(count_orders)
    order.refresh_from_db()
    assert (timezone.now() - order.reminded_at).days == 0


def test_the_clock_needs_no_database(durable_clock):
    before = timezone.now()
    durable_clock.advance(days=1)
    assert (timezone.now() - before).days == 1


def test_and_is_put_back():
    from django_durable.core import clock

    assert not clock.offset()
    assert "django_durable.testing.plugin" in sys.modules
