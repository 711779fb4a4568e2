"""The names of `pulsar-admin namespaces` that scripts use are all there."""

from __future__ import annotations

import click

from milepost.cli.admin.namespaces_group import TABLE, namespaces

UPSTREAM = {
    "list", "topics", "create", "delete", "policies", "unload", "clear-backlog", "unsubscribe",
    "bundles", "get-clusters", "get-properties", "get-property", "set-properties", "set-property",
    "remove-property", "clear-properties", "permissions", "grant-permission", "revoke-permission",
    "subscription-permission", "grant-subscription-permission", "revoke-subscription-permission",
    "split-bundle", "get-topic-positions", "set-clusters", "get-allowed-clusters",
    "set-allowed-clusters", "update-migration-state", "get-anti-affinity-namespaces",
    "get-offload-threshold", "set-offload-threshold", "get-offload-deletion-lag",
    "set-offload-deletion-lag", "clear-offload-deletion-lag", "get-schema-autoupdate-strategy",
    "set-schema-autoupdate-strategy", "get-subscription-auth-mode", "set-subscription-auth-mode",
}  # fmt: skip


def test_every_name() -> None:
    assert set(TABLE) == UPSTREAM


def test_every_command_is_there_when_it_is_asked_for() -> None:
    ctx = click.Context(namespaces)
    for name in namespaces.list_commands(ctx):
        assert namespaces.get_command(ctx, name) is not None, name
