"""`milepost version`."""

from __future__ import annotations

import platform

import click

from milepost import __version__


@click.command(help="Print the version.")
def version() -> None:
    click.echo(f"milepost {__version__} (Python {platform.python_version()}, {platform.system()})")
