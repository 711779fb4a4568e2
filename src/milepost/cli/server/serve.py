"""`milepost serve`: the options of the broker process.

What the process does is in `process.py`, which is loaded once the settings are known to be good.
"""

from __future__ import annotations

import gc
import logging
from pathlib import Path
from typing import Any

import click

from milepost.broker.settings.settings import ONE_WORKER
from milepost.cli.exits import Exit
from milepost.cli.server import logs
from milepost.cli.server.settings_options import load_settings, settings_options

logger = logging.getLogger(__name__)


@click.command(
    help="Run the broker until SIGTERM or Ctrl-C. Official Pulsar clients connect to the binary "
    "port; REST, HTTP lookup and metrics are on the HTTP port."
)
@settings_options
@click.option("--check-config", is_flag=True, help="Check the settings, and start nothing.")
@click.option(
    "--ready-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write ports and process id there, as JSON, once clients can connect.",
)
@click.option(
    "--log-format",
    type=click.Choice(logs.FORMATS),
    default="text",
    show_default=True,
    help="How a line of the log looks.",
)
@click.option(
    "--log-level",
    type=click.Choice(logs.LEVELS),
    default="info",
    show_default=True,
    help="What is logged: this, and what is worse.",
)
def serve(
    check_config: bool, ready_file: Path | None, log_format: str, log_level: str, **flags: Any
) -> int:
    loaded = load_settings(**flags)
    if check_config:
        from milepost.broker.auth.security import Security

        for warning in (*loaded.warnings, *Security.check(loaded.settings)):
            click.echo(f"milepost: {warning}", err=True)
        click.echo("the settings are good")
        return Exit.OK
    logs.set_up(log_format, log_level)
    for warning in loaded.warnings:
        logger.warning(warning)
    if loaded.settings.shards:
        from milepost.cli.server.cluster import serve_cluster

        return serve_cluster(loaded.settings, ready_file=ready_file)
    if loaded.settings.workers != ONE_WORKER:
        from milepost.cli.server.supervisor import count_of, supervise

        count = count_of(loaded.settings)
        if count > 1:
            return supervise(loaded.settings, count, ready_file=ready_file)
    gc.disable()  # `run` enables it when the broker is up
    from milepost.cli.server.process import run

    run(loaded.settings, ready_file=ready_file)
    return Exit.OK
