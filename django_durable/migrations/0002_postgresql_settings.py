"""Table settings on PostgreSQL: room for HOT updates in the hot tables, and vacuum before they bloat."""

from collections.abc import Callable

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

# A run is updated two or three times while it is hot and never again: free space in its page lets PostgreSQL
# update in place, and scale factors for millions of rows would let the dead ones pile up.
SETTINGS = {
    "django_durable_run": {
        "fillfactor": "80",
        "autovacuum_vacuum_scale_factor": "0.02",
        "autovacuum_vacuum_insert_scale_factor": "0.1",
        "autovacuum_analyze_scale_factor": "0.02",
    },
    "django_durable_journalentry": {
        "autovacuum_vacuum_scale_factor": "0.05",
        "autovacuum_analyze_scale_factor": "0.05",
    },
    "django_durable_worker": {"fillfactor": "50"},
}


def change(schema_editor: BaseDatabaseSchemaEditor, sql: Callable[[dict[str, str]], str]) -> None:
    if schema_editor.connection.vendor == "postgresql":
        for table, settings in SETTINGS.items():
            schema_editor.execute(f"ALTER TABLE {table} {sql(settings)}")


def set_all(apps: object, schema_editor: BaseDatabaseSchemaEditor) -> None:
    change(schema_editor, lambda settings: f"SET ({', '.join(f'{k} = {v}' for k, v in settings.items())})")


def reset_all(apps: object, schema_editor: BaseDatabaseSchemaEditor) -> None:
    change(schema_editor, lambda settings: f"RESET ({', '.join(settings)})")


class Migration(migrations.Migration):
    dependencies = [("django_durable", "0001_initial")]
    operations = [migrations.RunPython(set_all, reset_all)]
