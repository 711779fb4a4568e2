"""`get-…`, `set-…` and `remove-…` of policies: what each line asks, at both levels."""

from __future__ import annotations

from typing import Any

import pytest
from unit.cli.conftest import Line

from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import TABLE
from milepost.cli.admin.policy_commands import command_of, names

N = "/admin/v2/namespaces/acme/shop"
T = "/admin/v2/persistent/acme/shop/orders"
QUOTA = {"limitSize": 10_485_760, "limitTime": -1, "policy": "producer_exception"}
RATE = {
    "dispatchThrottlingRateInMsg": 5,
    "dispatchThrottlingRateInByte": -1,
    "ratePeriodInSecond": 2,
    "relativeToPublishRate": True,
}

# Behind `namespaces`, on acme/shop.
OF_NAMESPACE: list[tuple[str, str, Any]] = [
    ("set-retention -t 3h -s 1G", f"POST {N}/retention",
     {"retentionTimeInMinutes": 180, "retentionSizeInMB": 1024}),
    ("set-retention --time -1 --size -1", f"POST {N}/retention",
     {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}),
    ("set-message-ttl -ttl 2m", f"POST {N}/messageTTL", 120),
    ("set-deduplication --enable", f"POST {N}/deduplication", True),
    ("set-deduplication -d", f"POST {N}/deduplication", False),
    ("get-retention", f"GET {N}/retention", None),
    ("remove-retention", f"DELETE {N}/retention", None),
    ("set-compaction-threshold -t 100M", f"PUT {N}/compactionThreshold", 104_857_600),
    ("set-max-producers-per-topic -p 3", f"POST {N}/maxProducersPerTopic", 3),
    ("set-schema-compatibility-strategy -c full", f"PUT {N}/schemaCompatibilityStrategy", "FULL"),
    ("remove-schema-compatibility-strategy", f"PUT {N}/schemaCompatibilityStrategy", "UNDEFINED"),
    ("remove-deduplication-snapshot-interval", f"POST {N}/deduplicationSnapshotInterval", None),
    ("set-subscription-types-enabled -t Shared,Failover", f"POST {N}/subscriptionTypesEnabled",
     ["Shared", "Failover"]),
    ("set-delayed-delivery -e -t 2s -md 1h", f"POST {N}/delayedDelivery",
     {"active": True, "tickTime": 2000, "maxDeliveryDelayInMillis": 3_600_000}),
    ("set-dispatch-rate -md 5 -dt 2 -rp", f"POST {N}/dispatchRate", RATE),
    ("set-auto-topic-creation -e -t partitioned -n 3", f"POST {N}/autoTopicCreation",
     {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3}),
    ("set-encryption-required -e", f"POST {N}/encryptionRequired", True),
    ("set-dispatcher-pause-on-ack-state-persistent",
     f"POST {N}/dispatcherPauseOnAckStatePersistent", True),
    ("get-backlog-quotas", f"GET {N}/backlogQuotaMap", None),
    ("set-backlog-quota -l 10M -p producer_exception",
     f"POST {N}/backlogQuota?backlogQuotaType=destination_storage", QUOTA),
    ("remove-backlog-quota -t message_age",
     f"DELETE {N}/backlogQuota?backlogQuotaType=message_age", None),
]  # fmt: skip

# Behind `topics` and behind `topicPolicies`.
OF_TOPIC: list[tuple[str, str, Any]] = [
    ("set-message-ttl -t 10", f"POST {T}/messageTTL?messageTTL=10", None),
    ("get-message-ttl -ap", f"GET {T}/messageTTL?applied=true", None),
    ("remove-message-ttl -g", f"DELETE {T}/messageTTL?isGlobal=true", None),
    ("set-max-unacked-messages-on-consumer -m 5", f"POST {T}/maxUnackedMessagesOnConsumer", 5),
    ("set-max-unacked-messages-per-consumer -m 5", f"POST {T}/maxUnackedMessagesOnConsumer", 5),
    ("set-maxProducers -p 2", f"POST {T}/maxProducers", 2),
    ("set-max-message-size -m 1M", f"POST {T}/maxMessageSize", 1_048_576),
    ("set-deduplication -e", f"POST {T}/deduplicationEnabled", True),
    ("enable-deduplication", f"POST {T}/deduplicationEnabled", True),
    ("disable-deduplication", f"POST {T}/deduplicationEnabled", False),
    ("get-deduplication-enabled", f"GET {T}/deduplicationEnabled", None),
    ("set-inactive-topic-policies -e -t 2h -m delete_when_no_subscriptions",
     f"POST {T}/inactiveTopicPolicies",
     {"deleteWhileInactive": True, "maxInactiveDurationSeconds": 7200,
      "inactiveTopicDeleteMode": "delete_when_no_subscriptions"}),
    ("set-subscription-dispatch-rate -md 5 -dt 2 -rp -s s", f"POST {T}/s/dispatchRate", RATE),
    ("get-subscription-dispatch-rate -s s -ap", f"GET {T}/s/dispatchRate?applied=true", None),
    ("remove-subscription-dispatch-rate -s s", f"DELETE {T}/s/dispatchRate", None),
    ("set-schema-validation-enforce", f"POST {T}/schemaValidationEnforced", False),
    ("set-backlog-quota -l 10M -p producer_exception",
     f"POST {T}/backlogQuota?backlogQuotaType=destination_storage", QUOTA),
    ("get-backlog-quota -ap", f"GET {T}/backlogQuotaMap?applied=true", None),
]  # fmt: skip


@pytest.mark.parametrize(("words", "request_line", "body"), OF_NAMESPACE)
def test_of_a_namespace(line: Line, words: str, request_line: str, body: Any) -> None:
    line("namespaces", *words.split(), "acme/shop", answers=({},))
    assert (line.code, line.err) == (0, "")
    assert line.asked == [request_line]
    assert line.body == body


@pytest.mark.parametrize(("words", "request_line", "body"), OF_TOPIC)
@pytest.mark.parametrize("group", ["topics", "topicPolicies"])
def test_of_a_topic(line: Line, group: str, words: str, request_line: str, body: Any) -> None:
    line(group, *words.split(), "persistent://acme/shop/orders", answers=({},))
    assert (line.code, line.err) == (0, "")
    assert line.asked == [request_line]
    assert line.body == body


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("set-retention -t 30s -s 1G", "'30s': expected a minute or more, 0, or -1"),
        ("set-retention -t 1h -s 1K", "'1K': expected 1M or more, 0, or -1"),
        ("set-retention -t 3x -s 1G", "'3x': expected a time like"),
        ("set-retention -t 3h", "Missing option '-s' / '--size'"),
        ("set-deduplication", "give either --enable or --disable"),
        ("set-max-producers-per-topic -p many", "'many' is not a whole number"),
        ("set-backlog-quota -p producer_exception", "a quota of destination_storage needs --limit"),
        ("set-backlog-quota -p producer_exception -t message_age", "needs --limitTime"),
        ("set-backlog-quota -l 1G -p nonsense", "'nonsense' is not one of"),
    ],
)
def test_a_wrong_value_is_named_and_nobody_is_asked(line: Line, words: str, said: str) -> None:
    line("namespaces", *words.split(), "acme/shop")
    assert (line.code, line.asked) == (2, [])
    assert said in line.err


def test_what_is_printed(line: Line) -> None:
    assert line("namespaces", "get-retention", "acme/shop", answers=(b"",)) == "null\n"
    assert line("topics", "get-message-ttl", "orders", answers=(b"60",)) == "60\n"
    shown = line("topics", "get-publish-rate", "orders", "-o", "csv", answers=({"a": 1},))
    assert shown == "field,value\na,1\n"


@pytest.mark.parametrize("level", Level)
def test_every_policy_has_three_commands(level: Level) -> None:
    words = [word for word, _ in names(level)]
    singles = [one for one in TABLE if (route := one.route(level)) and not route.kind]
    assert len(words) == len(singles) + 1  # two quotas are one word
    for word in words:
        for verb in ("get", "set", "remove"):
            # To remove this one would be to set it to false.
            is_kept = (verb, word) == ("remove", "is-allow-auto-update-schema")
            assert (command_of(level, f"{verb}-{word}") is None) is is_kept
    assert command_of(level, "get-nonsense") is None
    assert command_of(level, f"mend-{words[0]}") is None
    assert command_of(level, "mend-backlog-quota") is None
