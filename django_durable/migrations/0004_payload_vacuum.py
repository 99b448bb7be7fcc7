"""Payloads go as journals do, with their run: on PostgreSQL they are vacuumed as soon as these.

With the default of a fifth a delayed vacuum left twice as many dead rows, and the index kept the size that it took by them.
"""

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

SETTINGS = {"autovacuum_vacuum_scale_factor": "0.05", "autovacuum_analyze_scale_factor": "0.05"}
TABLE = "django_durable_payload"


def change(schema_editor: BaseDatabaseSchemaEditor, sql: str) -> None:
    connection = schema_editor.connection
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT relkind = 'p' FROM pg_class WHERE oid = %s::regclass", [TABLE])
        is_partitioned = cursor.fetchone()[0]
    # A project may have partitioned it by hand (docs/scaling.md): only each partition takes such settings then.
    if not is_partitioned:
        schema_editor.execute(f"ALTER TABLE {TABLE} {sql}")


def set_all(apps: object, schema_editor: BaseDatabaseSchemaEditor) -> None:
    change(schema_editor, f"SET ({', '.join(f'{name} = {value}' for name, value in SETTINGS.items())})")


def reset_all(apps: object, schema_editor: BaseDatabaseSchemaEditor) -> None:
    change(schema_editor, f"RESET ({', '.join(SETTINGS)})")


class Migration(migrations.Migration):
    dependencies = [("django_durable", "0003_control_flow")]
    operations = [migrations.RunPython(set_all, reset_all)]
