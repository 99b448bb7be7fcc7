"""For `manage.py test`: nothing but Django's own test cases."""

from datetime import UTC, datetime, timedelta

from django.test import TestCase, TransactionTestCase
from django.utils import timezone

from django_durable.models import Schedule
from django_durable.testing import (
    NotDeterministic,
    arun_until_idle,
    assert_enqueued,
    assert_fired,
    assert_step_ran,
    crash_after,
    force_replay,
    run_until_idle,
    travel,
)
from shop.models import Order
from shop.workflows import careless, count_orders, fulfil_order, remind_customer


class OrderTests:
    def setUp(self):
        self.order = Order.objects.create()

    def test_a_packed_order_is_shipped(self):
        run = fulfil_order.enqueue(self.order.pk)
        assert_enqueued(fulfil_order, order_id=self.order.pk)
        run_until_idle()
        run.send_event("packed")
        run_until_idle()
        self.assertEqual(run.result(), f"charge-{self.order.pk}")
        self.order.refresh_from_db()
        self.assertEqual(self.order.status, "shipped")

    def test_nobody_packs(self):
        fulfil_order.enqueue(self.order.pk)
        run_until_idle(skip_waits=True)
        self.order.refresh_from_db()
        self.assertEqual(self.order.status, "refused")

    def test_a_crash_after_the_charge_charges_once(self):
        run = fulfil_order.enqueue(self.order.pk)
        with crash_after("charge card"):
            self.assertEqual(run_until_idle(), 2)
        self.order.refresh_from_db()
        self.assertEqual(self.order.charges, 1)
        assert_step_ran(run, "charge card")

    def test_time_is_moved(self):
        remind_customer.enqueue(self.order.pk)
        with travel() as clock:
            run_until_idle()
            clock.advance(days=6)
            run_until_idle()
            self.order.refresh_from_db()
            self.assertIsNone(self.order.reminded_at)
            clock.advance(days=1)
            run_until_idle()
            self.order.refresh_from_db()
            self.assertLess(abs(timezone.now() - self.order.reminded_at), timedelta(minutes=1))
        self.assertGreater(self.order.reminded_at - timezone.now(), timedelta(days=6))

    def test_the_orders_are_counted_every_morning(self):
        with travel() as clock:
            clock.move_to(datetime(2030, 1, 1, tzinfo=UTC))
            for _ in range(3):
                clock.advance(days=1)
                self.assertEqual(run_until_idle(), 1)
        self.assertEqual([run.result() for run in assert_fired(count_orders, times=3)], [1, 1, 1])

    def test_time_passes_for_runs_alone(self):
        remind_customer.enqueue(self.order.pk)
        with travel(schedules=False) as clock:
            self.assertEqual(run_until_idle(), 1)
            clock.advance(days=7)
            self.assertEqual(run_until_idle(), 1)
        self.assertFalse(Schedule.objects.exists())

    def test_replays(self):
        run = fulfil_order.enqueue(self.order.pk)
        with force_replay():
            run_until_idle(skip_waits=True)
        self.assertEqual(run.status, "succeeded")
        careless.enqueue()
        with force_replay(), self.assertRaises(NotDeterministic):
            run_until_idle()

    async def test_from_async(self):
        run = await fulfil_order.aenqueue(self.order.pk)
        await arun_until_idle(skip_waits=True)
        self.assertEqual(await run.aresult(), f"charge-{self.order.pk}")


class InATransaction(OrderTests, TestCase):
    pass


class OutsideOfOne(OrderTests, TransactionTestCase):
    pass
