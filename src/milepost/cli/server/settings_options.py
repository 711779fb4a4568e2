"""The options by which commands are given settings.

A flag is text: the table in `broker/settings/settings.py` reads it, so that `--port x`, `MILEPOST_PORT=x` and
`port = "x"` are refused in the same words.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from milepost.broker.settings.settings import TABLE
from milepost.cli.connection.offers import OfferedSetting
from milepost.cli.server.sources import Loaded, load
from milepost.errors import InvalidSetting

# Settings with a flag of their own; `--set` reaches the others.
FLAGS = {
    "data": "DIRECTORY",
    "bucket": "URL",
    "host": "ADDRESS",
    "port": "PORT",
    "http_port": "PORT",
    "rocketmq_port": "PORT",
    "rocketmq_namesrv_port": "PORT",
    "workers": "COUNT",
    "shards": "COUNT",
}

_FILE = click.Path(path_type=Path)


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags; the command takes them as keywords and hands them to `load_settings`."""
    options = [
        *(
            click.option(f"--{name.replace('_', '-')}", name, metavar=metavar, help=_help(name))
            for name, metavar in FLAGS.items()
        ),
        click.option("--config", "toml", type=_FILE, metavar="FILE", help="Settings in TOML."),
        click.option(
            "--conf",
            type=_FILE,
            metavar="FILE",
            help="A broker.conf or standalone.conf of Pulsar; what is not used here is listed.",
        ),
        click.option(
            "--set",
            "assignments",
            multiple=True,
            type=OfferedSetting(),
            metavar="NAME=VALUE",
            help="Any setting, as often as needed; `milepost config show` lists them.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _help(name: str) -> str:
    """A setting's sentence, and its default if that is anything."""
    setting = TABLE[name]
    default = setting.show(setting.default)
    return f"{setting.doc}  [default: {default}]" if default else setting.doc


def load_settings(
    *,
    toml: Path | None = None,
    conf: Path | None = None,
    assignments: tuple[str, ...] = (),
    **flags: str | None,
) -> Loaded:
    """The settings of this command line, with the files and the environment behind them."""
    given = [
        (f"--{name.replace('_', '-')}", name, value)
        for name, value in flags.items()
        if value is not None
    ]
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise InvalidSetting(f"--set {assignment!a}: expected NAME=VALUE")
        given.append(("--set", name.strip(), value))
    return load(conf=conf, toml=toml, environ=os.environ, flags=given)
