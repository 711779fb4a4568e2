"""Every command of policies, and those of brokers and namespaces, against a broker of its own process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.conftest import Serving
from milepost.broker.policies.policy import Level, Policy
from milepost.broker.policies.table import TABLE
from milepost.cli.admin.policy_options import OPTIONS, words_of
from milepost.cli.main import run

TOPIC = "persistent://public/default/orders"
TARGETS = {Level.NAMESPACE: ("namespaces", "public/default"), Level.TOPIC: ("topics", TOPIC)}

# What is given for options that must be, by policy; the others are set with their defaults.
GIVEN = {
    "retention": "-t 3h -s 1G",
    "message_ttl": "--ttl 1h",
    "subscription_expiration": "-t 5",
    "delayed_delivery": "-e -t 2s -md 1d",
    "deduplication": "-e",
    "deduplication_snapshot_interval": "-i 10",
    "max_message_size": "-m 1M",
    "max_producers": "-p 5",
    "max_consumers": "-c 5",
    "max_consumers_per_subscription": "-c 5",
    "max_subscriptions": "-m 5",
    "max_unacked_per_consumer": "-m 5",
    "max_unacked_per_subscription": "-m 5",
    "max_topics": "-t 10000",
    "auto_topic_creation": "-e -t partitioned -n 3",
    "auto_subscription_creation": "-e",
    "subscription_types": "-t Shared,Exclusive",
    "schema_compatibility": "-c full",
    "schema_validation": "-e",
    "schema_auto_update": "-d",
    "encryption_required": "-e",
    "compaction_threshold": "-t 1G",
    "inactive_topics": "-e -t 1h -m delete_when_no_subscriptions",
    "resource_group": "-rgn batch",
    "replication_clusters": "-c standalone",
    "offload": "-d aws-s3 -b bucket -oat 1G",
    "anti_affinity": "-g spread",
    "bookie_affinity": "-pg a",
    "metric_property_keys": "-k a,b",
}


class Line:
    def __init__(self, broker: Serving, capsys: pytest.CaptureFixture[str]) -> None:
        self._flags = ["--admin-url", broker.ready["http_url"], "-o", "json"]
        self._capsys = capsys

    def __call__(self, *words: str) -> Any:
        """Run it, which must succeed; what it printed, if that is anything."""
        code = run([*self._flags, *words])
        out, err = self._capsys.readouterr()
        assert (code, err) == (0, ""), words
        return json.loads(out) if out else None


@pytest.fixture
def line(serving: Serving, capsys: pytest.CaptureFixture[str]) -> Line:
    return Line(serving, capsys)


def policies(level: Level) -> list[Policy]:
    """Without filters of entries: none is installed, so none can be set."""
    return [
        one
        for one in TABLE
        if (route := one.route(level)) and not route.kind and one.name != "entry_filters"
    ]


def test_every_policy_is_set_read_and_removed(line: Line) -> None:
    line("topics", "create", TOPIC)
    line("resourcegroups", "create", "batch", "-mp", "1000")
    for level, (group, target) in TARGETS.items():
        for policy in policies(level):
            word = words_of(policy, level)[0]
            before = line(group, f"get-{word}", target)
            line(group, f"set-{word}", *GIVEN.get(policy.name, "").split(), target)
            found = line(group, f"get-{word}", target)
            assert found != before or not OPTIONS[policy.name], word
            if level is Level.TOPIC:
                assert line("topicPolicies", f"get-{word}", "-ap", target) == found, word
            if policy.name == "schema_auto_update":
                # There is no way to remove it, as in Apache Pulsar.
                line(group, f"set-{word}", "-e", target)
            else:
                line(group, f"remove-{word}", target)
            assert line(group, f"get-{word}", target) == before, word


def test_quotas_of_both_kinds(line: Line) -> None:
    line("topics", "create", TOPIC)
    for group, target in TARGETS.values():
        line(group, "set-backlog-quota", "-l", "10M", "-p", "producer_exception", target)
        line(
            *(group, "set-backlog-quota", "-lt", "1h", "-t", "message_age"),
            *("-p", "consumer_backlog_eviction", target),
        )
        found = line(group, "get-backlog-quotas", target)
        assert found["destination_storage"]["limitSize"] == 10 * 1024 * 1024
        assert found["message_age"]["limitTime"] == 3600
        for kind in found:
            line(group, "remove-backlog-quota", "-t", kind, target)
        assert line(group, "get-backlog-quotas", target) == {}


def test_what_is_done_to_a_whole_namespace(line: Line) -> None:
    line("topics", "create", TOPIC)
    line("topics", "create-subscription", "-s", "s", "-m", "earliest", TOPIC)
    line("namespaces", "unload", "public/default")
    line("namespaces", "clear-backlog", "-force", "public/default")
    line("namespaces", "set-properties", "-p", "a=b", "public/default")
    assert line("namespaces", "get-properties", "public/default") == {"a": "b"}
    found = line("topics", "analyze-backlog", "-s", "s", TOPIC)
    assert (found["entries"], found["aborted"]) == (0, False)
    assert set(line("topics", "info-internal", TOPIC)["cursors"]) == {"s"}
    line("namespaces", "unsubscribe", "-s", "s", "public/default")
    assert line("topics", "subscriptions", TOPIC) == []


def test_settings_change_while_it_runs(line: Line) -> None:
    assert "maxProducersPerTopic" in line("brokers", "list-dynamic-config")
    line("brokers", "update-dynamic-config", "-c", "maxProducersPerTopic", "-v", "9")
    assert line("brokers", "get-all-dynamic-config") == {"maxProducersPerTopic": "9"}
    assert line("brokers", "get-runtime-config")["maxProducersPerTopic"] == "9"
    line("brokers", "delete-dynamic-config", "-c", "maxProducersPerTopic")
    assert line("brokers", "get-all-dynamic-config") == {}
