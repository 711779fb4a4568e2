"""The table of all commands of `milepost topics`."""

from __future__ import annotations

from milepost.cli.admin.policy_group import PolicyGroup
from milepost.cli.groups import table_of

_TOPICS = {
    "list": ("list_topics", "Names of the topics of a namespace."),
    "list-partitioned-topics": (None, "Names of the partitioned topics of a namespace."),
    "create": (None, "Create a topic without partitions."),
    "create-partitioned-topic": (None, "Create a topic with partitions."),
    "create-missed-partitions": (None, "Create partitions that a topic should have."),
    "update-partitioned-topic": (None, "Give a partitioned topic more partitions."),
    "get-partitioned-topic-metadata": (None, "How many partitions a topic has."),
    "delete": (None, "Delete topics: one, those of a file, or by expression."),
    "delete-partitioned-topic": (None, "Delete a topic with all its partitions."),
    "truncate": (None, "Move every cursor to the end and delete what is read."),
    "accept-loss": (None, "Accept that messages are gone, so that a topic goes on."),
    "unload": (None, "Close a topic here; clients come back by themselves."),
    "trim-topic": (None, "Delete what retention no longer keeps."),
    "terminate": (None, "Let no message follow the last."),
    "partitioned-terminate": (None, "The same for every partition."),
    "stats": (None, "Rates, sizes, producers, subscriptions, consumers."),
    "partitioned-stats": (None, "The same, of all partitions together."),
    "stats-internal": (None, "Ledgers and cursors."),
    "partitioned-stats-internal": (None, "The same, of every partition."),
    "info-internal": (None, "What the catalog says of a topic."),
    "get-properties": (None, "A topic's own properties."),
    "update-properties": (None, "Set some properties of a topic."),
    "remove-properties": (None, "Remove one property of a topic."),
    "lookup": (None, "Which broker serves a topic."),
    "partitioned-lookup": (None, "Which brokers serve the partitions of a topic."),
    "bundle-range": (None, "The range of hashes that a topic's bundle has."),
    "compact": (None, "Start compaction."),
    "compaction-status": (None, "How compaction went."),
}
_SUBSCRIPTIONS = {
    "subscriptions": (None, "Names of a topic's subscriptions."),
    "create-subscription": (None, "Create a subscription."),
    "unsubscribe": (None, "Delete a subscription."),
    "get-subscription-properties": (None, "The properties of a subscription."),
    "update-subscription-properties": (None, "Replace the properties of a subscription."),
    "skip": (None, "Skip the next messages of a subscription."),
    "clear-backlog": (None, "Skip everything that a subscription has not acked."),
    "expire-messages": (None, "Skip messages older than a time or a position."),
    "expire-messages-all-subscriptions": (None, "The same for every subscription."),
    "reset-cursor": (None, "Move a subscription to a time or a message."),
    "analyze-backlog": (None, "Count what is in a subscription's backlog."),
}
_MESSAGES = {
    "peek-messages": (None, "The next messages of a subscription, not delivered."),
    "examine-messages": (None, "A message by its place from the earliest or the latest."),
    "get-message-by-id": (None, "The messages of one entry."),
    "get-message-id": (None, "The id of the first message at a time or later."),
    "get-message-id-by-index": (None, "The id of the message with an index."),
    "get-index-by-message-id": (None, "The index of the message with an id."),
    "last-message-id": (None, "The id of the last message."),
    "get-backlog-size": (None, "Bytes from a position to the end."),
}
_PLACEMENT = {
    "get-replicated-subscription-status": (None, "Whether a subscription was to be replicated."),
    "set-replicated-subscription-status": (None, "Say whether it is to be."),
    "offload": (None, "Offload what lies before a position."),
    "offload-status": (None, "How offloading went."),
}
_PERMISSIONS = {
    "permissions": ("topic_permissions", "Who may do what with a topic."),
    "grant-permission": ("grant_topic", "Let a role use a topic."),
    "revoke-permission": ("revoke_topic", "Take a role's rights on a topic."),
}

TABLE = table_of(
    {
        "milepost.cli.admin.topics": _TOPICS,
        "milepost.cli.admin.topic_subscriptions": _SUBSCRIPTIONS,
        "milepost.cli.admin.topic_messages": _MESSAGES,
        "milepost.cli.admin.topic_placement": _PLACEMENT,
        "milepost.cli.admin.permissions": _PERMISSIONS,
    }
)

topics = PolicyGroup(
    "topics",
    level="topic",
    table=TABLE,
    help="Topics, their subscriptions and messages: the words of `pulsar-admin topics`.",
)

topic_policies = PolicyGroup(
    "topicPolicies",
    level="topic",
    table=table_of(
        {
            "milepost.cli.admin.topic_placement": {
                "delete": ("delete_policies", "Remove all of them.")
            }
        }
    ),
    help="Policies of topics: the words of `pulsar-admin topicPolicies`.",
)
