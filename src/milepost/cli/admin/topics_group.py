"""The tables of all commands of `milepost topics` and `milepost non-persistent`."""

from __future__ import annotations

from typing import Any

import click

from milepost.cli.admin.calls import Ask, Call, names
from milepost.cli.admin.options import (
    DESTINATION,
    GLOBAL,
    KEY,
    NAMESPACE,
    PROPERTIES,
    SUBSCRIPTION,
    SYSTEM,
    TOPIC,
)
from milepost.cli.admin.permissions import OF_TOPICS
from milepost.cli.admin.policy_group import PolicyGroup
from milepost.cli.groups import Lazy, LazyGroup, Rows, table_of
from milepost.cli.output import show_object, show_pairs


def _stats_options(command: Any) -> Any:
    for option in (
        click.option(
            "-etb",
            "--get-earliest-time-in-backlog",
            "earliest_time",
            is_flag=True,
            help="When the oldest message of each backlog was published.",
        ),
        click.option(
            "-sbs",
            "--get-subscription-backlog-size",
            is_flag=True,
            expose_value=False,
            help="Bytes of backlogs; always told.",
        ),
        click.option(
            "-gpb",
            "--get-precise-backlog",
            "precise_backlog",
            is_flag=True,
            help="Backlogs are always precise.",
        ),
    ):
        command = option(command)
    return command


_TOPICS: Rows = {
    "list": Lazy(
        "milepost.cli.admin.topic_list:list_topics", "Names of the topics of a namespace."
    ),
    "describe": Lazy(
        "milepost.cli.progress.describe:describe_topic",
        "A page about a topic: sizes, clients, groups and strips.",
    ),
    "list-partitioned-topics": Ask(
        "list_partitioned_topics",
        "Names of the partitioned topics of a namespace.",
        NAMESPACE,
        SYSTEM,
        show=names("topic"),
    ),
    "create": "Create a topic without partitions.",
    "create-partitioned-topic": "Create a topic with partitions.",
    "create-missed-partitions": Call(
        "create_missed_partitions", "Create partitions that a partitioned topic should have.", TOPIC
    ),
    "update-partitioned-topic": "Give a partitioned topic more partitions.",
    "get-partitioned-topic-metadata": Ask(
        "get_partitioned_topic_metadata", "How many partitions a topic has; 0 for none.", TOPIC
    ),
    "delete": "Delete topics: one, those of a file, or by expression.",
    "delete-partitioned-topic": "Delete a topic with all its partitions.",
    "truncate": "Move every cursor to the end and delete what is read.",
    "accept-loss": "Accept that messages or acks are gone, so that a topic goes on.",
    "unload": Call(
        "unload_topic", "Close a topic here; clients come back by themselves.", TOPIC, DESTINATION
    ),
    "trim-topic": "Delete what retention no longer keeps.",
    "terminate": Ask(
        "terminate_topic",
        "Let no message follow the last.",
        TOPIC,
        show=lambda last: click.echo(f"Topic successfully terminated at {last}"),
    ),
    "partitioned-terminate": "The same for every partition.",
    "stats": Ask(
        "get_stats", "Rates, sizes, producers, subscriptions, consumers.", TOPIC, _stats_options
    ),
    "partitioned-stats": Ask(
        "get_partitioned_stats",
        "The same, of all partitions together.",
        TOPIC,
        click.option("--per-partition", is_flag=True, help="And of each."),
        _stats_options,
    ),
    "stats-internal": Ask(
        "get_internal_stats",
        "Ledgers and cursors.",
        TOPIC,
        click.option("-m", "--metadata", is_flag=True, help="With the ledgers' metadata."),
    ),
    "partitioned-stats-internal": Ask(
        "get_partitioned_internal_stats", "The same, of every partition.", TOPIC
    ),
    "info-internal": Ask("get_internal_info", "What the catalog says of a topic.", TOPIC),
    "get-properties": Ask(
        "get_topic_properties", "A topic's own properties.", TOPIC, show=show_pairs
    ),
    "update-properties": Call(
        "update_topic_properties", "Set some properties of a topic.", TOPIC, PROPERTIES
    ),
    "remove-properties": Call(
        "remove_topic_property", "Remove one property of a topic.", TOPIC, KEY
    ),
    "lookup": Ask(
        "lookup_topic",
        "Which broker serves a topic.",
        TOPIC,
        show=lambda found: show_object(found.get("brokerUrl") or found.get("nativeUrl") or ""),
    ),
    "partitioned-lookup": "Which brokers serve the partitions of a topic.",
    "bundle-range": Ask(
        "get_bundle_range", "The range of hashes that a topic's bundle has.", TOPIC, show=click.echo
    ),
    "compact": "Start compaction.",
    "compaction-status": "How compaction went.",
}
_SUBSCRIPTIONS: Rows = {
    "subscriptions": Ask(
        "get_subscriptions", "Names of a topic's subscriptions.", TOPIC, show=names("subscription")
    ),
    "create-subscription": "Create a subscription.",
    "unsubscribe": "Delete a subscription.",
    "get-subscription-properties": "The properties of a subscription.",
    "update-subscription-properties": "Replace the properties of a subscription.",
    "skip": "Skip the next messages of a subscription.",
    "clear-backlog": "Skip everything that a subscription has not acked.",
    "expire-messages": "Skip messages older than a time or a position.",
    "expire-messages-all-subscriptions": "The same for every subscription.",
    "reset-cursor": "Move a subscription to a time or a message.",
    "analyze-backlog": "Count what is in a subscription's backlog.",
}
_MESSAGES: Rows = {
    "peek-messages": "The next messages of a subscription, not delivered.",
    "examine-messages": "A message by its place from the earliest or the latest.",
    "get-message-by-id": "The messages of one entry.",
    "get-message-id": "The id of the first message at a time or later.",
    "get-message-id-by-index": "The id of the message with an index.",
    "get-index-by-message-id": "The index of the message with an id.",
    "last-message-id": "The id of the last message.",
    "get-backlog-size": "Bytes from a position to the end.",
}
_PLACEMENT: Rows = {
    "get-replicated-subscription-status": Ask(
        "get_replicated_status", "Whether a subscription was to be replicated.", TOPIC, SUBSCRIPTION
    ),
    "set-replicated-subscription-status": "Say whether it is to be.",
    "offload": "Offload what lies before a position.",
    "offload-status": "How offloading went.",
}

TABLE = table_of(
    {
        "milepost.cli.admin.topics": _TOPICS,
        "milepost.cli.admin.topic_subscriptions": _SUBSCRIPTIONS,
        "milepost.cli.admin.topic_messages": _MESSAGES,
        "milepost.cli.admin.topic_placement": _PLACEMENT,
        "milepost.cli.admin.permissions": OF_TOPICS,
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
    table={
        "delete": Call(
            "remove_topic_policy",
            "Remove everything that is set for a topic.",
            TOPIC,
            GLOBAL,
            name="policies",
        )
    },
    help="Policies of topics: the words of `pulsar-admin topicPolicies`.",
)

# pulsar-admin has a group for non-persistent topics, with some commands of `topics`.
non_persistent = LazyGroup(
    "non-persistent",
    table={
        "list": Ask(
            "list_topics",
            "The open topics of a namespace.",
            NAMESPACE,
            domain="non-persistent",
            show=names("topic"),
        ),
        "list-in-bundle": Ask(
            "list_topics_in_bundle",
            "The open topics of a bundle.",
            NAMESPACE,
            click.option("-b", "--bundle", required=True, help="The range of hashes."),
            show=names("topic"),
        ),
        **{
            name: TABLE[name]
            for name in (
                "create",
                "create-partitioned-topic",
                "get-partitioned-topic-metadata",
                "lookup",
                "stats",
                "stats-internal",
                "unload",
                "delete",
            )
        },
    },
    help="Non-persistent topics, by `pulsar-admin`'s older words.",
)
