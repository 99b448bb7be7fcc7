from __future__ import annotations

import os
import secrets
import shlex
import signal
import sys
import time
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from demo.processes import PROJECT, DiedEarly, Household
from demo.stage import Pace, Stage
from gateway.faults import FaultPlan

PACE = Pace(
    cooling_off=15, gateway_latency=0.5, gateway_timeout=4, pack=6, packing_timeout=120, close_day="*/5 * * * *"
)
USER = "admin"


class Command(BaseCommand):
    help = "Site, admin, gateway, warehouse and a worker, for a look. Ctrl-C ends them all."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="of the site on 127.0.0.1; 0 takes a free one")
        parser.add_argument("--seed", type=int, help="of the gateway's faults; default: a random one, printed")

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        call_command("load_catalogue", verbosity=0, stdout=self.stdout)
        password = _admin_password()
        seed = secrets.randbelow(10_000) if options["seed"] is None else options["seed"]
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            with Household(settings.DATA_DIR / "logs", {}) as household:
                stage = Stage(household, settings.DATA_DIR, PACE, seed=seed, port=options["port"])
                stage.start_worker()
                self._tell(stage, seed, password)
                while True:
                    household.check()
                    time.sleep(0.25)
        except DiedEarly as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            self.stdout.write("\nall processes ended")

    def _tell(self, stage: Stage, seed: int, password: str) -> None:
        self.stdout.write(
            f"\nshop       {stage.site_url}/\n"
            f"admin      {stage.site_url}/admin/  user {USER}, password {password}\n"
            f"gateway    {stage.gateway_url}, {FaultPlan(seed)}\n"
            f"warehouse  {stage.warehouse_url}\n"
            f"logs       {settings.DATA_DIR / 'logs'}\n"
            f"mail       {settings.MAIL_DIR}\n\n"
            "In another terminal, to see orders fail, and to resume them in the admin:\n"
            f"  {_command('gateway', 'break')}\n"
            f"  {_command('gateway', 'repair')}\n\n"
            "Ctrl-C ends all of them."
        )
        self.stdout.flush()


def _command(*arguments: str) -> str:
    """A line that works in any folder, also where the data are not in their usual place."""
    data = ["env", f"SHOP_DATA={settings.DATA_DIR}"] if "SHOP_DATA" in os.environ else []
    return shlex.join([*data, sys.executable, str(PROJECT / "manage.py"), *arguments])


def _admin_password() -> str:
    """A fresh password for the user of the admin, who is made where there is none."""
    password = secrets.token_urlsafe(9)
    user, _ = get_user_model().objects.get_or_create(
        username=USER, defaults={"is_staff": True, "is_superuser": True, "email": "admin@example.com"}
    )
    user.set_password(password)
    user.save()
    return password
