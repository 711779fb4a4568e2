"""The names of `pulsar-admin topics` that scripts use are all there."""

from __future__ import annotations

import click

from milepost.cli.admin.topics_group import TABLE, topic_policies, topics

UPSTREAM = {
    "list", "list-partitioned-topics", "permissions", "grant-permission", "revoke-permission",
    "lookup", "partitioned-lookup", "bundle-range", "delete", "truncate", "unload",
    "subscriptions", "unsubscribe", "create-subscription", "update-subscription-properties",
    "get-subscription-properties", "stats", "stats-internal", "info-internal", "partitioned-stats",
    "partitioned-stats-internal", "skip", "clear-backlog", "expire-messages",
    "expire-messages-all-subscriptions", "create-partitioned-topic", "create-missed-partitions",
    "create", "update-partitioned-topic", "get-partitioned-topic-metadata", "get-properties",
    "update-properties", "remove-properties", "delete-partitioned-topic", "peek-messages",
    "examine-messages", "get-message-by-id", "get-message-id", "reset-cursor", "terminate",
    "partitioned-terminate", "compact", "compaction-status", "last-message-id", "get-backlog-size",
    "analyze-backlog", "trim-topic", "get-message-id-by-index", "offload", "offload-status",
    "get-replicated-subscription-status", "set-replicated-subscription-status",
}  # fmt: skip

OURS = {"get-index-by-message-id", "accept-loss", "describe"}


def test_every_name() -> None:
    assert set(TABLE) == UPSTREAM | OURS


def test_the_policies_have_a_group_of_their_own() -> None:
    ctx = click.Context(topic_policies)
    own = set(topic_policies.list_commands(ctx))
    assert own - {"delete"} == set(topics.list_commands(ctx)) - set(TABLE)
    assert "delete" in own, "all of them at once"
    assert "set-retention" in own
