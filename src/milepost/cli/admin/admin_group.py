"""`milepost admin`: the groups of pulsar-admin. `main.py` sees to the exit codes."""

from __future__ import annotations

from milepost.cli.groups import LazyGroup
from milepost.cli.main import COMMANDS

GROUPS = (
    "topics", "topicPolicies", "namespaces", "tenants", "schemas", "clusters", "resourcegroups",
    "broker-stats", "transactions", "brokers",
)  # fmt: skip

TABLE = {name: COMMANDS[name]._replace(is_hidden=False) for name in GROUPS} | {
    "persistent": COMMANDS["topics"]._replace(is_hidden=True),
    "non-persistent": COMMANDS["non-persistent"],
}

admin = LazyGroup("admin", table=TABLE, help="`pulsar-admin` by another name.")
