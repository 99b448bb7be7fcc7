"""What is kept of a released version is whole, and its wheel is that version."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.scenes import scenes
from tests.upgrades.endings import ENDINGS
from tests.upgrades.released import V0_1, journals, read_journal

WHEEL = "django_durable-0.1.0-py3-none-any.whl"


def test_nothing_is_missing_and_nothing_is_strange() -> None:
    found = {path.relative_to(V0_1).as_posix() for path in V0_1.rglob("*") if path.is_file()}
    assert len(ENDINGS) == 20
    assert found == {
        WHEEL,
        "schema.postgresql.sql",
        "schema.sqlite.sql",
        *(f"journals/{name}.json" for name in ENDINGS),
    }


def test_every_scene_has_an_ending() -> None:
    assert {name: status for name, (status, _) in scenes.items()} == {n: end.found for n, end in ENDINGS.items()}


@pytest.mark.parametrize(
    ("table", "column", "values"),
    [
        ("run", "status", "blocked cancelled failed running scheduled succeeded waiting"),
        ("journalentry", "kind", "child event sleep step value"),
        ("journalentry", "status", "failed retrying succeeded waiting"),
        ("payload", "kind", "block error input output progress retry"),
        ("audit", "verb", "cancel send_event"),
        ("event", "consumed_by", " paid sent"),
        ("tag", "name", "inside train window"),
        ("idempotencykey", "key", "seat-14"),
    ],
)
def test_the_journals_show_everything(table: str, column: str, values: str) -> None:
    assert {value for journal in journals(V0_1) for value in journal.column(table, column)} == set(values.split(" "))


def test_each_journal_is_of_a_workflow_of_its_own() -> None:
    about = {journal.rows["django_durable_run"][0]["workflow"]: journal.shows for journal in journals(V0_1)}
    assert len(about) == len(set(about.values()) - {""}) == 20


def test_it_tells_nothing_of_the_machine_that_made_it() -> None:
    for path in (*V0_1.glob("*.sql"), *V0_1.glob("journals/*.json")):
        text = path.read_text()
        assert 'File \\\\\\"/' not in text, path
        assert str(Path(__file__).resolve().parent.parent.parent) not in text, path


def test_the_payloads_are_of_every_kind() -> None:
    """By their text, since the code that reads them could have lost a kind."""
    [made] = [
        row["value"]
        for row in read_journal(V0_1, "payloads").rows["django_durable_journalentry"]
        if row["path"] == "make"
    ]
    assert set(re.findall(r'"\$":"(@?[a-z.]+)"', made)) == {
        *("bytes", "date", "datetime", "decimal", "dict", "float", "frozenset", "model", "set", "str"),
        *("time", "timedelta", "tuple", "uuid", "@fixture.care", "@fixture.colour", "@fixture.parcel"),
    }


# --- the wheel -------------------------------------------------------------------------------

LOOK = """
import sys
sys.path.insert(0, sys.argv[1])

import importlib.metadata
from pathlib import Path

import django_durable
from django.conf import settings
from django.core.management import call_command
import django

assert Path(django_durable.__file__).is_relative_to(sys.argv[1]), django_durable.__file__
[distribution] = importlib.metadata.distributions(name="django-durable", path=[sys.argv[1]])
settings.configure(
    INSTALLED_APPS=["django_durable"],
    USE_TZ=True,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[2]}},
)
django.setup()
call_command("migrate", verbosity=0)
print(django_durable.__version__, distribution.version)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel in it and nothing else, from no index."""
    target = tmp_path_factory.mktemp("installed")
    quiet = ["--quiet", "--disable-pip-version-check", "--root-user-action=ignore", "--no-compile"]
    run("-m", "pip", "install", *quiet, "--no-index", "--no-deps", "--target", target, V0_1 / WHEEL)
    return target


def test_the_wheel_installs_and_makes_the_tables_of_the_fixture(installed: Path, tmp_path: Path) -> None:
    migrated = tmp_path / "migrated.sqlite3"
    assert run("-I", "-c", LOOK, installed, migrated).split() == ["0.1.0", "0.1.0"]
    with closing(sqlite3.connect(tmp_path / "loaded.sqlite3")) as loaded, closing(sqlite3.connect(migrated)) as other:
        loaded.executescript(V0_1.joinpath("schema.sqlite.sql").read_text())
        assert shape(loaded) == shape(other)


def test_the_wheel_brings_what_is_no_python(installed: Path) -> None:
    for name in ("py.typed", "static/django_durable/admin.css", "templates/admin/django_durable/run/page.html"):
        assert installed.joinpath("django_durable", name).is_file()


def shape(database: sqlite3.Connection) -> list[Any]:
    """Tables with their columns, indexes with what they say."""
    columns = "SELECT t.name, c.* FROM sqlite_master t, pragma_table_xinfo(t.name) c WHERE t.type = 'table'"
    # On SQLite Django writes a bare boolean as it is, and from 6.1 on as a comparison.
    indexes = "SELECT name, tbl_name, replace(sql, '\" = 1', '\"') FROM sqlite_master WHERE type = 'index'"
    kept = ("django_durable_", "durable_", "sqlite_autoindex_django_durable_")
    rows = [*database.execute(columns), *database.execute(indexes)]
    return sorted((row for row in rows if row[0].startswith(kept)), key=repr)


def run(*arguments: str | Path) -> str:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout
