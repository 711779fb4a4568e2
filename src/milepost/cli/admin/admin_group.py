"""`milepost admin`: the groups of pulsar-admin. `main.py` sees to the exit codes."""

from __future__ import annotations

from milepost.cli.groups import Lazy, LazyGroup

TABLE = {
    "topics": Lazy("milepost.cli.admin.topics_group:topics", "Topics, subscriptions, messages."),
    "persistent": Lazy("milepost.cli.admin.topics_group:topics", "The same.", is_hidden=True),
    "topicPolicies": Lazy("milepost.cli.admin.topics_group:topic_policies", "Policies of topics."),
    "namespaces": Lazy(
        "milepost.cli.admin.namespaces_group:namespaces", "Namespaces and their policies."
    ),
    "tenants": Lazy("milepost.cli.admin.tenants:tenants", "Tenants."),
    "schemas": Lazy("milepost.cli.admin.schemas:schemas", "Schemas of topics."),
    "clusters": Lazy("milepost.cli.admin.tenants:clusters", "Clusters."),
    "resourcegroups": Lazy(
        "milepost.cli.admin.resource_groups:resourcegroups", "Rates that topics share."
    ),
    "broker-stats": Lazy(
        "milepost.cli.admin.resource_groups:broker_stats", "The broker's numbers."
    ),
    "non-persistent": Lazy(
        "milepost.cli.admin.topic_placement:non_persistent",
        "Non-persistent topics.",
        is_hidden=True,
    ),
    "transactions": Lazy(
        "milepost.cli.admin.transactions:transactions", "Which are open, and whose; abort one."
    ),
    "brokers": Lazy(
        "milepost.cli.admin.brokers:brokers", "The broker's health, version and settings."
    ),
}

admin = LazyGroup("admin", table=TABLE, help="`pulsar-admin` by another name.")
