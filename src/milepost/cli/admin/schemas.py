"""`milepost schemas`."""

from __future__ import annotations

import json
from typing import Any

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.groups import Group
from milepost.cli.input_files import read_text
from milepost.cli.output import note, show_object

FILE = click.option(
    "-f",
    "--filename",
    "file",
    required=True,
    metavar="FILE",
    help='JSON with "type", "schema" and "properties"; - reads the standard input.',
)

schemas = Group("schemas", help="Schemas: the words of `pulsar-admin schemas`.")


@schemas.command(cls=RemoteCommand, help="The latest schema of a topic, one version, or all.")
@click.argument("topic")
@click.option("-v", "--version", type=click.IntRange(min=0), help="This version.")
@click.option("-a", "--all-version", is_flag=True, help="Every version.")
def get(topic: str, version: int | None, all_version: bool) -> None:
    if all_version and version is not None:
        raise click.UsageError("--version and --all-version exclude each other")
    with connection().admin() as admin:
        if all_version:
            show_object(admin.get_all_schemas(topic))
        else:
            show_object(admin.get_schema(topic, version))


@schemas.command(cls=RemoteCommand, help="Register a schema.")
@click.argument("topic")
@FILE
def upload(topic: str, file: str) -> None:
    schema = _read(file)
    with connection().admin() as admin:
        note(f"{topic} has it as version {admin.create_schema(topic, schema)}")


@schemas.command(cls=RemoteCommand, help="Could a schema be registered? Nothing is.")
@click.argument("topic")
@FILE
def compatibility(topic: str, file: str) -> None:
    schema = _read(file)
    with connection().admin() as admin:
        show_object(admin.get_schema_compatibility(topic, schema))


@schemas.command(cls=RemoteCommand, help="Delete every version of a topic's schema.")
@click.argument("topic")
@click.option("-f", "--force", is_flag=True, help="Erase the definitions as well.")
def delete(topic: str, force: bool) -> None:
    with connection().admin() as admin:
        admin.get_schema(topic)  # the broker deletes what is not there, as Pulsar does
        admin.delete_schema(topic, force=force)


def _read(file: str) -> dict[str, Any]:
    text = read_text(file)
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as failure:
        raise click.UsageError(f"{file}: not JSON: {failure}") from None
    if not isinstance(schema, dict) or not {"type", "schema"} <= schema.keys():
        raise click.UsageError(f'{file}: a JSON object with "type" and "schema" is expected')
    if not isinstance(schema["schema"], str):
        # A definition is JSON inside a text; written plainly it is as good.
        schema["schema"] = json.dumps(schema["schema"])
    return schema
