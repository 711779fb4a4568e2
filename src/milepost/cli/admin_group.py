"""`milepost admin`: what `pulsar-admin` has, by its names. `main.py` sees to the exit codes."""

from __future__ import annotations

from milepost.cli.groups import Lazy, LazyGroup

TABLE = {
    "topics": Lazy("milepost.cli.topics_group:topics", "Topics, subscriptions, messages."),
    "persistent": Lazy("milepost.cli.topics_group:topics", "The same.", is_hidden=True),
    "topicPolicies": Lazy("milepost.cli.topics_group:topic_policies", "Policies of topics."),
    "namespaces": Lazy(
        "milepost.cli.namespaces_group:namespaces", "Namespaces and their policies."
    ),
    "tenants": Lazy("milepost.cli.tenants:tenants", "Tenants."),
    "schemas": Lazy("milepost.cli.schemas:schemas", "Schemas of topics."),
    "clusters": Lazy("milepost.cli.tenants:clusters", "Clusters."),
    "resourcegroups": Lazy(
        "milepost.cli.resource_groups:resourcegroups", "Rates that topics share."
    ),
    "broker-stats": Lazy("milepost.cli.resource_groups:broker_stats", "The broker's numbers."),
    "non-persistent": Lazy(
        "milepost.cli.topic_placement:non_persistent", "Non-persistent topics.", is_hidden=True
    ),
    "brokers": Lazy("milepost.cli.brokers:brokers", "The broker's health, version and settings."),
}

admin = LazyGroup("admin", table=TABLE, help="`pulsar-admin` by another name.")
