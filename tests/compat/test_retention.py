"""Retention, expiry and backlog quotas seen to act, with the official client connected."""

from __future__ import annotations

import time
from typing import Any

import pulsar
import pytest
from compat.administer import make_topic, path_of, set_policy, stats, until
from compat.broker_process import BrokerProcess
from compat.talk import payloads, receive, send_all, silent
from pulsar import ConsumerType, InitialPosition

SETTINGS = {
    "retention_check_interval_s": 0.1,
    "expiry_check_interval_s": 0.1,
    "quota_check_interval_s": 0.1,
    "ledger_entries_max": 10,
}
EARLIEST = {"initial_position": InitialPosition.Earliest}
FOR_EVER = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}


def unbatched(client: pulsar.Client, topic: str, **options: Any) -> pulsar.Producer:
    return client.create_producer(topic, batching_enabled=False, **options)


def send_each(producer: pulsar.Producer, sent: list[bytes]) -> None:
    """One after the other: what comes together goes into one ledger, however much it is."""
    for payload in sent:
        producer.send(payload)


def ledgers(broker: BrokerProcess, topic: str) -> list[int]:
    status, answer = broker.rest("GET", f"{path_of(topic)}/internalStats")
    assert status == 200, answer
    return [ledger["ledgerId"] for ledger in answer["ledgers"]]


def test_only_acked_ledgers_go(client: pulsar.Client, broker: BrokerProcess, topic: str) -> None:
    slow = client.subscribe(topic, "slow")
    fast = client.subscribe(topic, "fast")
    producer = unbatched(client, topic)
    sent = [b"%d" % number for number in range(35)]
    send_each(producer, sent)
    for message in receive(fast, 35):
        fast.acknowledge(message)
    held = receive(slow, 35)
    assert payloads(held) == sent
    before = ledgers(broker, topic)
    assert len(before) >= 4
    for message in held[:20]:
        slow.acknowledge(message)
    until(lambda: len(ledgers(broker, topic)) <= len(before) - 2, "two ledgers are gone")
    # What is not acked is still there for a consumer that comes again.
    slow.close()
    again = client.subscribe(topic, "slow")
    assert payloads(receive(again, 15)) == sent[20:]


def test_retention_keeps_what_everyone_has_acked(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    make_topic(broker, topic)
    set_policy(broker, topic, "retention", FOR_EVER)
    sent = [b"%d" % number for number in range(35)]
    send_each(unbatched(client, topic), sent)
    consumer = client.subscribe(topic, "s", **EARLIEST)
    consumer.acknowledge_cumulative(receive(consumer, 35)[-1])
    count = len(ledgers(broker, topic))
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert [reader.read_next(8000).data() for _ in range(35)] == sent
    assert len(ledgers(broker, topic)) == count
    set_policy(broker, topic, "retention", None)
    until(lambda: len(ledgers(broker, topic)) == 1, "all but the open one are gone")


@pytest.mark.parametrize("kill", [True, False])
def test_what_was_trimmed_stays_so(own_broker: Any, connect: Any, topic: str, kill: bool) -> None:
    broker: BrokerProcess = own_broker(**SETTINGS)
    client = connect(broker)
    consumer = client.subscribe(topic, "s")
    producer = unbatched(client, topic)
    send_each(producer, [b"%d" % number for number in range(25)])
    for message in receive(consumer, 25)[:15]:
        consumer.acknowledge(message)
    until(lambda: len(ledgers(broker, topic)) == 2, "one ledger is gone")
    broker.restart(kill=kill)
    again = connect(broker).create_reader(topic, pulsar.MessageId.earliest)
    seen = [again.read_next(8000).data() for _ in range(15)]
    assert seen == [b"%d" % number for number in range(10, 25)]


def test_messages_expire_under_a_consumer(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    make_topic(broker, topic)
    set_policy(broker, topic, "retention", FOR_EVER)
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    client.subscribe(topic, "idle").close()
    producer = unbatched(client, topic)
    send_all(producer, [b"%d" % number for number in range(10)])
    receive(consumer, 5)
    status, _ = broker.rest("POST", f"{path_of(topic)}/messageTTL?messageTTL=1")
    assert status == 204
    for name in ("s", "idle"):
        until(lambda name=name: _backlog(broker, topic, name) == 0, f"{name} has no backlog")
    set_policy(broker, topic, "messageTTL", None)
    producer.send(b"fresh")
    consumer.close()
    again = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    assert payloads(receive(again, 1)) == [b"fresh"]
    assert silent(again)


def _backlog(broker: BrokerProcess, topic: str, subscription: str) -> int:
    return int(stats(broker, topic)["subscriptions"][subscription]["msgBacklog"])


def quota(limit: int, policy: str) -> dict[str, Any]:
    return {"limitSize": limit, "limitTime": -1, "policy": policy}


def test_past_the_quota_producers_wait(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = unbatched(client, topic, send_timeout_millis=0)
    send_all(producer, [b"x" * 1000] * 5)
    set_policy(broker, topic, "backlogQuota", quota(2000, "producer_request_hold"))
    until(lambda: not stats(broker, topic)["publishers"], "the producer is out")
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(topic)
    receipts: list[Any] = []
    producer.send_async(b"held", lambda result, message_id: receipts.append(result))
    for message in receive(consumer, 5):
        consumer.acknowledge(message)
    # The backlog is gone, and what was held comes.
    assert payloads(receive(consumer, 1)) == [b"held"]
    until(lambda: receipts, "it has its receipt")


def test_past_the_quota_producers_fail(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    client.subscribe(topic, "s")
    send_all(unbatched(client, topic), [b"x" * 1000] * 5)
    set_policy(broker, topic, "backlogQuota", quota(2000, "producer_exception"))
    with pytest.raises(pulsar.ProducerBlockedQuotaExceededException):
        client.create_producer(topic)
    set_policy(broker, topic, "backlogQuota", None)
    client.create_producer(topic).send(b"x")


def test_past_the_quota_the_oldest_go(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    client.subscribe(topic, "s").close()
    producer = unbatched(client, topic)
    send_all(producer, [b"%d" % number + b"x" * 1000 for number in range(10)])
    set_policy(broker, topic, "backlogQuota", quota(5000, "consumer_backlog_eviction"))
    until(lambda: _backlog(broker, topic, "s") < 5, "the backlog is below its quota")
    kept = _backlog(broker, topic, "s")
    assert kept >= 3
    consumer = client.subscribe(topic, "s")
    numbers = [int(data.rstrip(b"x")) for data in payloads(receive(consumer, kept))]
    assert numbers == list(range(10 - kept, 10))
    producer.send(b"goes on")
    assert payloads(receive(consumer, 1)) == [b"goes on"]


def test_a_backlog_that_is_too_old_goes(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    client.subscribe(topic, "s").close()
    unbatched(client, topic).send(b"x")
    began = time.monotonic()
    age = {"limitSize": -1, "limitTime": 1, "policy": "consumer_backlog_eviction"}
    path = f"{path_of(topic)}/backlogQuota?backlogQuotaType=message_age"
    assert broker.rest("POST", path, age)[0] == 204
    until(lambda: _backlog(broker, topic, "s") == 0, "it is gone")
    assert time.monotonic() - began >= 0.5
