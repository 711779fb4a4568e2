"""The table of all commands of `milepost namespaces`."""

from __future__ import annotations

import click

from milepost.cli.admin.calls import Ask, Call, names
from milepost.cli.admin.options import BUNDLE, DESTINATION, KEY, NAMESPACE, SYSTEM, TENANT, split
from milepost.cli.admin.permissions import OF_NAMESPACES
from milepost.cli.admin.policy_group import PolicyGroup
from milepost.cli.groups import Lazy, Rows, table_of
from milepost.cli.output import show_pairs
from milepost.cli.quantities import Property, split_names


def _pairs(texts: tuple[str, ...]) -> dict[str, str]:
    return dict(Property().convert(one, None, None) for one in split_names(texts))


_MODE = click.option(
    "-m",
    "--mode",
    type=click.Choice(["persistent", "non_persistent", "all"]),
    callback=lambda *of: of[2].upper() if of[2] else None,
    help="Only these.",
)
_PROPERTIES = click.option(
    "-p",
    "--properties",
    multiple=True,
    required=True,
    callback=lambda *of: _pairs(of[2]),
    help="key=value,key=value.",
)
_CLUSTERS = split("-c", "--clusters", "value", required=True, help="a,b.")
_NAMESPACES: Rows = {
    "list": Ask(
        "list_namespaces", "Names of the namespaces of a tenant.", TENANT, show=names("namespace")
    ),
    "topics": Ask(
        "get_namespace_topics",
        "Names of the topics of a namespace.",
        NAMESPACE,
        _MODE,
        SYSTEM,
        show=names("topic"),
    ),
    "create": Call(
        "create_namespace",
        "Create a namespace.",
        NAMESPACE,
        split("-c", "--clusters", help="All of them if left out."),
        click.option("-b", "--bundles", type=click.IntRange(min=0), hidden=True),
    ),
    "delete": "Delete a namespace.",
    "policies": Ask("get_policies", "Everything that is set for a namespace.", NAMESPACE),
    "unload": Call(
        "unload_namespace",
        "Close every topic here; clients come back.",
        NAMESPACE,
        BUNDLE,
        DESTINATION,
    ),
    "clear-backlog": "Skip what was not acked, in every topic.",
    "unsubscribe": "Delete a subscription from every topic.",
    "bundles": Ask(
        "get_bundles", "The ranges of hashes that a namespace is divided by.", NAMESPACE
    ),
    "get-clusters": Ask(
        "get_policy",
        "The clusters that a namespace lies on.",
        NAMESPACE,
        name="replication",
        show=names("cluster"),
    ),
    "get-properties": Ask(
        "get_namespace_properties", "A namespace's own properties.", NAMESPACE, show=show_pairs
    ),
    "get-property": Ask("get_namespace_property", "One property of a namespace.", NAMESPACE, KEY),
    "set-properties": Call(
        "set_namespace_properties", "Set some properties of a namespace.", NAMESPACE, _PROPERTIES
    ),
    "set-property": "Set one property of a namespace.",
    "remove-property": Ask(
        "remove_namespace_property",
        "Remove one property of a namespace, and print it.",
        NAMESPACE,
        KEY,
    ),
    "clear-properties": Call(
        "clear_namespace_properties", "Remove every property of a namespace.", NAMESPACE
    ),
}
_PLACEMENT: Rows = {
    "split-bundle": "Divide a bundle in two, or where it is said.",
    "get-topic-positions": Ask(
        "get_topic_positions",
        "The hashes of a bundle's topics.",
        NAMESPACE,
        click.option("-b", "--bundle", required=True, help="The range of hashes."),
        split("-tl", "--topic-list", "topics", help="Of these only."),
    ),
    "set-clusters": Call(
        "set_policy",
        "Say which clusters a namespace lies on.",
        NAMESPACE,
        _CLUSTERS,
        name="replication",
    ),
    "get-allowed-clusters": Ask(
        "get_policy",
        "The clusters that a namespace may lie on.",
        NAMESPACE,
        name="allowedClusters",
        show=names("cluster"),
    ),
    "set-allowed-clusters": Call(
        "set_policy",
        "Say which clusters a namespace may lie on.",
        NAMESPACE,
        _CLUSTERS,
        name="allowedClusters",
    ),
    "update-migration-state": Call(
        "set_policy",
        "Note whether a namespace was migrated.",
        NAMESPACE,
        click.option("--migrated", "value", is_flag=True, help="It was."),
        name="migration",
    ),
    "get-anti-affinity-namespaces": Ask(
        "get_namespaces_of_group",
        "The namespaces of an anti-affinity group.",
        click.option("-p", "--tenant", required=True, help="Any tenant; Pulsar asks for one."),
        click.option("-c", "--cluster", required=True, help="The cluster."),
        click.option("-g", "--group", required=True, help="The name of the anti-affinity group."),
        show=names("namespace"),
    ),
    "get-offload-threshold": "Bytes and seconds at which ledgers would be offloaded.",
    "set-offload-threshold": "Set them; -1 is never.",
    "get-offload-deletion-lag": Lazy(
        "milepost.cli.admin.namespace_placement:get_offload_deletion",
        "How long offloaded ledgers would stay on disk.",
    ),
    "set-offload-deletion-lag": Lazy(
        "milepost.cli.admin.namespace_placement:set_offload_deletion", "Set it."
    ),
    "clear-offload-deletion-lag": Call(
        "remove_policy", "Set nothing.", NAMESPACE, name="offloadDeletionLagMs"
    ),
    "get-schema-autoupdate-strategy": "How schemas are judged, in older words.",
    "set-schema-autoupdate-strategy": "Set it.",
    "get-subscription-auth-mode": Ask(
        "get_policy",
        "What a subscription's name must begin with.",
        NAMESPACE,
        name="subscriptionAuthMode",
    ),
    "set-subscription-auth-mode": Call(
        "set_policy",
        "Set it: anything (None), or the role (Prefix).",
        NAMESPACE,
        click.option(
            "-m",
            "--subscription-auth-mode",
            "value",
            type=click.Choice(["None", "Prefix"]),
            required=True,
            help="None, or Prefix: the role.",
        ),
        name="subscriptionAuthMode",
    ),
}

TABLE = table_of(
    {
        "milepost.cli.admin.namespaces": _NAMESPACES,
        "milepost.cli.admin.namespace_placement": _PLACEMENT,
        "milepost.cli.admin.permissions": OF_NAMESPACES,
    }
)

namespaces = PolicyGroup(
    "namespaces",
    level="namespace",
    table=TABLE,
    help="Namespaces and their policies: the words of `pulsar-admin namespaces`.",
)
