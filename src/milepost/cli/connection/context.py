"""`milepost context`: named brokers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from milepost.cli.connection.connection import CONTEXT_VARIABLE
from milepost.cli.connection.contexts import (
    FILE_FIELDS,
    SECRET_FIELDS,
    load_contexts,
    save_contexts,
)
from milepost.cli.connection.offers import OfferedContext
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.groups import Group
from milepost.cli.output import chosen, output_option, show_object, show_rows
from milepost.client.connection.endpoint import Endpoint

# Stands where a secret would be shown.
HIDDEN = "(hidden)"

context = Group("context", help="Names for the brokers that you work with.")


@context.command(help="Add a context, or replace one. The first becomes the current one.")
@click.argument("name")
@click.option("--admin-url", metavar="URL", help="The HTTP port.")
@click.option("--url", metavar="URL", help="The binary port, pulsar://host:port.")
@click.option("--token", metavar="JWT", help="Kept in the file; --token-file is safer.")
@click.option("--token-file", metavar="FILE", help="A file that has the token.")
@click.option("--user", metavar="NAME", help="Who you are, with a password.")
@click.option("--password", metavar="TEXT", help="Kept in the file.")
@click.option(
    "--tls-trust-cert-path",
    "tls_trust_certs",
    metavar="FILE",
    help="The certificate authorities to trust.",
)
@click.option("--tls-cert", "tls_certificate", metavar="FILE", help="A certificate of your own.")
@click.option("--tls-key", "tls_key", metavar="FILE", help="The key of that certificate.")
@click.option("--tls-allow-insecure", is_flag=True, help="Trust any server.")
def add(name: str, **values: Any) -> None:
    for key in FILE_FIELDS:
        if values[key]:  # it will be used from other directories
            values[key] = str(Path(values[key]).expanduser().absolute())
    Endpoint(**values)  # refuses an address that is none
    contexts = load_contexts()
    contexts.add(name, values)
    save_contexts(contexts)


@context.command(help="Take what a command line leaves out from this context.")
@click.argument("name", type=OfferedContext())
def use(name: str) -> None:
    contexts = load_contexts()
    contexts.get(name)
    contexts.current = name
    save_contexts(contexts)


@context.command(help="What a context says, secrets hidden; the current one unless named.")
@click.argument("name", required=False, type=OfferedContext())
def show(name: str | None) -> None:
    contexts = load_contexts()
    name = name or os.environ.get(CONTEXT_VARIABLE) or contexts.current
    if name is None:
        raise CommandFailed(
            "no context is in use; `milepost context use NAME` chooses one", Exit.NOT_FOUND
        )
    one = contexts.get(name)
    hidden = {key: HIDDEN if key in SECRET_FIELDS else value for key, value in one.items()}
    shown = {"name": name, "is_current": name == contexts.current, **hidden}
    if chosen() is None:
        show_rows(("field", "value"), list(shown.items()))
    else:
        show_object(shown)


show.params.append(output_option())


@context.command("list", help="All contexts; a star marks the current one.")
def list_contexts() -> None:
    contexts = load_contexts()
    rows = [
        (
            "*" if name == contexts.current else "",
            name,
            one.get("admin_url"),
            one.get("url"),
            ", ".join(key for key in one if key in SECRET_FIELDS or key == "token_file"),
        )
        for name, one in contexts.named.items()
    ]
    show_rows(("current", "name", "admin_url", "url", "credentials"), rows)


list_contexts.params.append(output_option())


@context.command(help="Remove a context.")
@click.argument("name", type=OfferedContext())
def remove(name: str) -> None:
    contexts = load_contexts()
    contexts.remove(name)
    save_contexts(contexts)
