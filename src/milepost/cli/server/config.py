"""`milepost config`: shows the settings and where each comes from.

The output is a TOML file that gives the same settings again.
"""

from __future__ import annotations

from typing import Any

import click

from milepost.broker.settings.setting import Kind
from milepost.broker.settings.settings import GROUPS, TABLE
from milepost.cli.groups import Group
from milepost.cli.output import chosen, output_option, show_object
from milepost.cli.server.reference import page
from milepost.cli.server.settings_options import load_settings, settings_options
from milepost.cli.server.sources import Loaded

config = Group("config", help="Show the settings and where they come from.")


@config.command(help="Every setting, as `milepost serve` with the same flags would take it.")
@settings_options
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
def show(origin: bool, **flags: Any) -> None:
    loaded = load_settings(**flags)
    if chosen() is None:
        for line in lines(loaded, origin=origin):
            click.echo(line)
    else:
        show_object(document(loaded, origin=origin))
    for warning in loaded.warnings:
        click.echo(f"milepost: {warning}", err=True)


show.params.append(output_option())


@config.command(help="The settings as a page of documentation, in Markdown.")
def reference() -> None:
    click.echo(page(), nl=False)


def document(loaded: Loaded, *, origin: bool) -> dict[str, Any]:
    """The settings by name, as JSON has values; with `origin`, each with where it comes from."""
    found: dict[str, Any] = {}
    for name, setting in TABLE.items():
        value = getattr(loaded.settings, name)
        is_text = setting.secret or not isinstance(value, bool | int | float)
        shown = setting.show(value) if is_text else value
        found[name] = {"value": shown, "from": loaded.origins[name]} if origin else shown
    return found


def lines(loaded: Loaded, *, origin: bool) -> list[str]:
    """The settings as a TOML document, in the order of the table."""
    shown: list[str] = []
    for name, setting in TABLE.items():
        if name in GROUPS:
            shown += ["", f"# {GROUPS[name]}"] if shown else [f"# {GROUPS[name]}"]
        value = setting.show(getattr(loaded.settings, name))
        quoted = setting.kind in (Kind.TEXT, Kind.CHOICE, Kind.PATH) or not _is_bare(value)
        line = f"{name} = {_quote(value) if quoted else value}"
        shown.append(f"{line:<55} # {loaded.origins[name]}" if origin else line)
    return shown


def _is_bare(value: str) -> bool:
    """Numbers and switches stand as they are in TOML; a size with a unit is text."""
    return value in ("true", "false") or value.removeprefix("-").replace(".", "", 1).isdecimal()


def _quote(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
