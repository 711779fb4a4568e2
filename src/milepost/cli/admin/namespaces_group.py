"""The table of all commands of `milepost namespaces`."""

from __future__ import annotations

from milepost.cli.admin.policy_group import PolicyGroup
from milepost.cli.groups import table_of

_NAMESPACES = {
    "list": ("list_namespaces", "Names of the namespaces of a tenant."),
    "topics": (None, "Names of the topics of a namespace."),
    "create": (None, "Create a namespace."),
    "delete": (None, "Delete a namespace."),
    "policies": (None, "Everything that is set for a namespace."),
    "unload": (None, "Close every topic here; clients come back."),
    "clear-backlog": (None, "Skip what was not acked, in every topic."),
    "unsubscribe": (None, "Delete a subscription from every topic."),
    "bundles": (None, "The ranges of hashes that a namespace is divided by."),
    "get-clusters": (None, "The clusters that a namespace lies on."),
    "get-properties": (None, "A namespace's own properties."),
    "get-property": (None, "One property of a namespace."),
    "set-properties": (None, "Set some properties of a namespace."),
    "set-property": (None, "Set one property of a namespace."),
    "remove-property": (None, "Remove one property of a namespace, and print it."),
    "clear-properties": (None, "Remove every property of a namespace."),
}
_PLACEMENT = {
    "split-bundle": (None, "Divide a bundle in two, or where it is said."),
    "get-topic-positions": (None, "The hashes of a bundle's topics."),
    "set-clusters": (None, "Say which clusters a namespace lies on."),
    "get-allowed-clusters": (None, "The clusters that a namespace may lie on."),
    "set-allowed-clusters": (None, "Say which clusters a namespace may lie on."),
    "update-migration-state": (None, "Note whether a namespace was migrated."),
    "get-anti-affinity-namespaces": (None, "The namespaces of an anti-affinity group."),
    "get-offload-threshold": (None, "Bytes and seconds at which ledgers would be offloaded."),
    "set-offload-threshold": (None, "Set them; -1 is never."),
    "get-offload-deletion-lag": (
        "get_offload_deletion",
        "How long offloaded ledgers would stay on disk.",
    ),
    "set-offload-deletion-lag": ("set_offload_deletion", "Set it."),
    "clear-offload-deletion-lag": ("clear_offload_deletion", "Set nothing."),
    "get-schema-autoupdate-strategy": (None, "How schemas are judged, in older words."),
    "set-schema-autoupdate-strategy": (None, "Set it."),
    "get-subscription-auth-mode": (None, "What a subscription's name must begin with."),
    "set-subscription-auth-mode": (None, "Set it."),
}
_PERMISSIONS = {
    "permissions": ("namespace_permissions", "Who may do what in a namespace."),
    "grant-permission": ("grant_namespace", "Let a role use a namespace."),
    "revoke-permission": ("revoke_namespace", "Take a role's rights on a namespace."),
    "subscription-permission": (None, "Which roles may use which subscriptions."),
    "grant-subscription-permission": (None, "Let roles, and no others, use a subscription."),
    "revoke-subscription-permission": (None, "Take a role's right to a subscription."),
}

TABLE = table_of(
    {
        "milepost.cli.admin.namespaces": _NAMESPACES,
        "milepost.cli.admin.namespace_placement": _PLACEMENT,
        "milepost.cli.admin.permissions": _PERMISSIONS,
    }
)

namespaces = PolicyGroup(
    "namespaces",
    level="namespace",
    table=TABLE,
    help="Namespaces and their policies: the words of `pulsar-admin namespaces`.",
)
