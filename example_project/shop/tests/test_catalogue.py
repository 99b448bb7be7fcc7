from __future__ import annotations

import tempfile
from io import StringIO
from pathlib import Path

from django.core.management import CommandError, call_command
from django.test import SimpleTestCase, TestCase

from shop.catalogue import CatalogueError, load_catalogue, read_catalogue
from shop.models import Product, Stock

BAD_LINES = ["A,Cup,cheap,3", "A,Cup,1.00,-3", "A,Cup,1.00,many", "A,,1.00,3", "A,Cup,1.005,3", "A,Cup,1.00"]


class ReadCatalogueTests(SimpleTestCase):
    def test_the_file_that_ships_is_read_whole(self) -> None:
        rows = read_catalogue()
        self.assertGreater(len(rows), 50)
        self.assertEqual(len({row.sku for row in rows}), len(rows))

    def test_a_bad_line_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "catalogue.csv"
            for bad in BAD_LINES:
                path.write_text(f"sku,name,price,stock\nB,Bowl,2.00,5\n{bad}\n")
                with self.subTest(bad), self.assertRaisesRegex(CatalogueError, "line 3"):
                    read_catalogue(path)


class LoadCatalogueTests(TestCase):
    def test_loading_again_keeps_the_stock_and_updates_prices(self) -> None:
        rows = read_catalogue()
        self.assertEqual(load_catalogue(rows), len(rows))
        Stock.objects.update(quantity=1)
        Product.objects.update(price=0)
        self.assertEqual(load_catalogue(rows), 0)
        self.assertEqual(Stock.objects.filter(quantity=1).count(), len(rows))
        self.assertFalse(Product.objects.filter(price=0).exists())

    def test_the_command_says_what_it_did_and_what_is_wrong(self) -> None:
        out = StringIO()
        call_command("load_catalogue", stdout=out)
        self.assertIn("products", out.getvalue())
        with self.assertRaises(CommandError):
            call_command("load_catalogue", "no such file.csv")
