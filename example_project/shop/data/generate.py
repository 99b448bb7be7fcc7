"""Writes catalogue.csv and orders.csv next to itself. They are committed; a test holds them to this script.

Only ``Random.random()`` is used: it is the one method whose values are promised to stay the same from version to
version of Python.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TypeVar

T = TypeVar("T")
Row = dict[str, object]

SEED = 20240229
ORDERS = 400
FOLDER = Path(__file__).parent

TEAS = ["Assam", "Darjeeling", "Earl Grey", "Genmaicha", "Gunpowder", "Jasmine", "Keemun", "Lapsang", "Matcha",
        "Oolong", "Rooibos", "Sencha", "White Peony", "Yunnan"]  # fmt: skip
WARES = ["Bowl", "Cup", "Kettle", "Jar", "Spoon", "Strainer", "Teapot", "Tray", "Warmer", "Whisk"]
COLOURS = ["blue", "celadon", "white"]
SCARCE = [("LIM-01", "Teapot of the year", "149.00", 12), ("LIM-02", "First flush, 25 g", "39.50", 20),
          ("LIM-03", "Signed print", "75.00", 8), ("LIM-04", "Last tin of 1998", "310.00", 3)]  # fmt: skip

PEOPLE = {
    "DE": (["Anna", "Jürgen", "Leni", "Björn"], ["Groß", "Müller", "Schäfer", "Vogt"]),
    "AT": (["Franzi", "Lukas"], ["Gruber", "Pichler"]),
    "CH": (["Reto", "Ursina"], ["Bünzli", "Caflisch"]),
    "FR": (["Chloé", "Jérôme", "Noël"], ["Lefèvre", "Dubois", "Garçon"]),
    "ES": (["Begoña", "Iñigo"], ["Núñez", "Ibáñez"]),
    "IT": (["Niccolò", "Giulia"], ["D'Angelo", "Ricci"]),
    "NL": (["Joost", "Femke"], ["de Vries", "van 't Hoff"]),
    "PL": (["Łukasz", "Zofia"], ["Wiśniewski", "Żak"]),
    "SE": (["Åsa", "Göran"], ["Öberg", "Lindström"]),
    "DK": (["Søren", "Freja"], ["Kjær", "Nørgaard"]),
    "CZ": (["Jiří", "Šárka"], ["Dvořák", "Černá"]),
    "GB": (["Nigel", "Priya"], ["O'Brien", "Smythe-Jones"]),
    "PT": (["João", "Inês"], ["Gonçalves", "Simões"]),
    "BE": (["Anaïs", "Wout"], ["Peeters", "Claes"]),
}
COUNTRIES = ["DE"] * 10 + ["FR", "GB", "NL"] * 3 + ["AT", "CH", "ES", "IT", "PL"] * 2 + ["BE", "CZ", "DK", "PT", "SE"]
CARDS = ["tok_visa_4242", "tok_visa_1881", "tok_mc_4444", "tok_mc_5100", "tok_amex_8431"]
DECLINED = "tok_mc_0002"


def main() -> None:
    catalogue = make_catalogue(Random(SEED))
    write(FOLDER / "catalogue.csv", catalogue)
    write(FOLDER / "orders.csv", make_orders(Random(SEED + 1), catalogue))


def make_catalogue(random: Random) -> list[Row]:
    rows: list[Row] = []
    for index, tea in enumerate(TEAS, start=1):
        price = Decimal(450 + 50 * int(random.random() * 30)) / 100
        for size, factor in (("100", 1), ("250", 2)):
            rows.append(_product(f"TEA-{index:02}-{size}", f"{tea}, {size} g", price * factor, random))
    for index, ware in enumerate(WARES, start=1):
        price = Decimal(690 + 100 * int(random.random() * 60)) / 100
        for colour in COLOURS:
            rows.append(_product(f"POT-{index:02}-{colour[:2].upper()}", f"{ware}, {colour}", price, random))
    rows += [{"sku": sku, "name": name, "price": price, "stock": stock} for sku, name, price, stock in SCARCE]
    return rows


def make_orders(random: Random, catalogue: list[Row]) -> list[Row]:
    rows: list[Row] = []
    for index in range(1, ORDERS + 1):
        order = _order(random, f"S-{index:04}", catalogue)
        # Which orders are broken is written by their number, so that every kind is there in any part of the file.
        _break(order, index)
        rows += order
    return rows


def write(path: Path, rows: list[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _product(sku: str, name: str, price: Decimal, random: Random) -> Row:
    return {"sku": sku, "name": name, "price": f"{price:.2f}", "stock": 40 + int(random.random() * 60)}


def _order(random: Random, number: str, catalogue: list[Row]) -> list[Row]:
    country = _pick(random, COUNTRIES)
    first, last = (_pick(random, names) for names in PEOPLE[country])
    head: Row = {
        "order": number,
        "customer": f"{first} {last}",
        "email": f"customer{number[2:]}@example.com",
        "country": country,
        "card_token": _pick(random, CARDS),
        "changes_mind": "no",
    }
    return [{**head, **line} for line in _lines(random, catalogue)]


def _lines(random: Random, catalogue: list[Row]) -> list[Row]:
    ordinary, scarce = catalogue[: -len(SCARCE)], catalogue[-len(SCARCE) :]
    chosen: dict[object, Row] = {}
    for _ in range(_pick(random, [1, 1, 1, 2, 2, 3, 4])):
        product = _pick(random, ordinary)
        chosen[product["sku"]] = _line(product, 1 + int(random.random() ** 3 * 6))
    # A sixth of all customers wants one of the few pieces: more than there are, so somebody must go without.
    if random.random() < 1 / 6:
        product = _pick(random, scarce)
        chosen[product["sku"]] = _line(product, 1)
    return list(chosen.values())


def _break(order: list[Row], index: int) -> None:
    last = order[-1]
    if index % 25 == 7:
        last["sku"] = f"OLD-{index:03}"
    elif index % 40 == 13:
        last["quantity"] = 5000
    elif index % 20 == 4:
        for row in order:
            row["card_token"] = DECLINED
    elif index % 80 == 21:
        last["unit_price"] = f"{Decimal(str(last['unit_price'])) - 1:.2f}"
    elif index % 100 == 36:
        for row in order:
            row["country"] = "AQ"
    elif index % 30 == 11:
        for row in order:
            row["changes_mind"] = "yes"


def _line(product: Row, quantity: int) -> Row:
    return {"sku": product["sku"], "quantity": quantity, "unit_price": product["price"]}


def _pick(random: Random, choices: Sequence[T]) -> T:
    return choices[int(random.random() * len(choices))]


if __name__ == "__main__":
    main()
