from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from shop.catalogue import CATALOGUE_FILE, CatalogueError, load_catalogue, read_catalogue


class Command(BaseCommand):
    help = "Load products, prices and first stock from the catalogue file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", type=Path, default=CATALOGUE_FILE)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            rows = read_catalogue(options["file"])
        except (OSError, CatalogueError) as error:
            raise CommandError(str(error)) from error
        new = load_catalogue(rows)
        self.stdout.write(f"{len(rows)} products, {new} of them new")
