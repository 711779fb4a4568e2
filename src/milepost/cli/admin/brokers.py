"""`milepost brokers`: health, version, dynamic settings."""

from __future__ import annotations

import click

from milepost.cli.admin.calls import Ask, Call, names
from milepost.cli.connection.offers import Offered, dynamic_settings
from milepost.cli.groups import LazyGroup
from milepost.cli.output import show_pairs

CLUSTER = click.argument("cluster")
CONFIG = click.option(
    "-c",
    "--config",
    "name",
    required=True,
    type=Offered(dynamic_settings),
    help="Its name in `broker.conf`.",
)
BROKER = click.option(
    "-u", "--url", "broker", required=True, help="The broker, as `brokers list` shows it."
)
TOPIC_VERSION = click.option("-tv", "--topic-version", hidden=True, expose_value=False)

TABLE = {
    "healthcheck": Ask(
        "check_health",
        "Is it well? A round trip through its storage.",
        TOPIC_VERSION,
        show=click.echo,
    ),
    "list": Ask(
        "list_brokers",
        "Addresses of the brokers of a cluster, this one's unless named.",
        click.argument("cluster", required=False, default=""),
        show=names("broker"),
    ),
    "version": Ask("get_version", "The version of the broker.", show=click.echo),
    "leader-broker": Ask("get_leader_broker", "The broker that leads its cluster."),
    "namespaces": Ask("get_owned_namespaces", "The bundles that a broker serves.", CLUSTER, BROKER),
    "list-dynamic-config": Ask(
        "list_dynamic_settings",
        "Names of the settings that may change while it runs.",
        show=names("setting"),
    ),
    "get-all-dynamic-config": Ask(
        "get_dynamic_settings", "Those that were changed, and to what.", show=show_pairs
    ),
    "get-runtime-config": Ask(
        "get_runtime_settings", "Every setting as it is now.", show=show_pairs
    ),
    "get-internal-config": Ask(
        "get_internal_configuration", "Where the broker keeps what it knows."
    ),
    "update-dynamic-config": Call(
        "set_dynamic_setting",
        "Change a setting, now and for every start that follows.",
        CONFIG,
        click.option("-v", "--value", required=True, help="What it is to be."),
    ),
    "delete-dynamic-config": Call(
        "remove_dynamic_setting", "Back to what the broker was started with.", CONFIG
    ),
    "backlog-quota-check": Call("check_backlog_quotas", "Look for backlogs past their quota now."),
}

brokers = LazyGroup("brokers", table=TABLE, help="The broker itself, and its settings.")
