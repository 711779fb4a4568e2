"""Transactions on a stage: opens them, adds to them, acks and ends in them, as a client does."""

from __future__ import annotations

from typing import Any

from milepost.positions import TxnId
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import split_batch
from milepost.wire.events import Delivery
from milepost.wire.metadata import split_entry
from stage.stage import TOPIC, Stage
from stage.talk import ack_command, error_of, produce, request, subscribe

OTHER = "persistent://public/default/other"
COMMIT, ABORT = pb.COMMIT, pb.ABORT


def new(stage: Stage, client: Loopback, ttl_ms: int = 60_000) -> TxnId:
    reply = request(stage, client, pb.CommandNewTxn(txn_ttl_millis=ttl_ms))
    assert not error_of(reply), reply
    return TxnId(reply.txnid_most_bits, reply.txnid_least_bits)


def add_topics(stage: Stage, client: Loopback, txn: TxnId, *topics: str) -> Any:
    command = pb.CommandAddPartitionToTxn(
        txnid_least_bits=txn.least, txnid_most_bits=txn.most, partitions=topics or (TOPIC,)
    )
    return request(stage, client, command)


def add_subscription(
    stage: Stage, client: Loopback, txn: TxnId, name: str = "s", topic: str = TOPIC
) -> Any:
    command = pb.CommandAddSubscriptionToTxn(
        txnid_least_bits=txn.least,
        txnid_most_bits=txn.most,
        subscription=[pb.Subscription(topic=topic, subscription=name)],
    )
    return request(stage, client, command)


def end(stage: Stage, client: Loopback, txn: TxnId, action: Any = COMMIT) -> Any:
    command = pb.CommandEndTxn(
        txnid_least_bits=txn.least, txnid_most_bits=txn.most, txn_action=action
    )
    return request(stage, client, command)


def within(txn: TxnId) -> dict[str, int]:
    """Fields of a message's metadata."""
    return {"txnid_least_bits": txn.least, "txnid_most_bits": txn.most}


def ack_in(stage: Stage, client: Loopback, txn: TxnId, *ids: Any, **fields: Any) -> Any:
    command = ack_command(*ids, txnid_least_bits=txn.least, txnid_most_bits=txn.most, **fields)
    return request(stage, client, command)


def started(stage: Stage, **fields: Any) -> Loopback:
    """A client that produces, and consumes with room for many."""
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, permits=100, **fields)
    return client


def counts(stage: Stage, name: str = "s", topic: str = TOPIC) -> Any:
    return stage.topic(topic).subscriptions[name].cursor.counts()


def bodies(client: Loopback) -> list[str]:
    """The payloads of the messages that came, batches message by message."""
    return bodies_of(client.take())


def bodies_of(came: list[Any]) -> list[str]:
    found: list[str] = []
    for heard in came:
        if not isinstance(heard, Delivery):
            continue
        entry = split_entry(heard.entry)
        if entry.metadata.HasField("num_messages_in_batch"):
            count = entry.metadata.num_messages_in_batch
            found += [one.payload.decode() for one in split_batch(entry.payload, count)]
        else:
            found.append(entry.payload.decode())
    return found
