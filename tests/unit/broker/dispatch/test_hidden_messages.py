"""What no consumer may see: it is passed over, however much it is, in no time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from stage.calls import counted
from stage.frames import batch, chunk, message
from stage.stage import Stage
from stage.talk import FAILOVER, KEY_SHARED, SHARED, error_of, subscribe, wire_id
from stage.transactions import (
    ABORT,
    COMMIT,
    ack_in,
    add_subscription,
    add_topics,
    bodies,
    counts,
    end,
    new,
    started,
    within,
)

from milepost.broker.dispatch import hidden_messages
from milepost.broker.dispatch.hidden_messages import FEW
from milepost.broker.subscription.broadcast import BroadcastGroup
from milepost.positions import pages
from milepost.wire import pulsar_pb2 as pb


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as one:
        yield one


@pytest.mark.parametrize("before", [0, 1])
def test_the_last_message_is_found_at_once(stage: Stage, before: int) -> None:
    """Readers ask for it before each message, also where a large write that was aborted lies behind."""
    client = started(stage)
    client.say(*[message(number) for number in range(before)])
    txn = new(stage, client)
    add_topics(stage, client, txn)
    client.say(*[batch(number, 1000, **within(txn)) for number in range(10, 30)])
    stage.turn()
    end(stage, client, txn, ABORT)
    topic, found = stage.topic(), []
    assert counted(lambda: found.append(topic.last_dispatchable())) < 200
    assert found == [((1, 0), -1) if before else None]


def test_a_subscription_passes_over_many_at_once(stage: Stage) -> None:
    """A topic of many small transactions has a marker behind each message."""
    client = started(stage)
    client.say(*[message(number) for number in range(4000)])
    txn = new(stage, client)
    add_topics(stage, client, txn)
    topic = stage.topic()
    assert topic.transactions is not None
    for index in range(0, 4000, 2):
        topic.transactions.hide(index, index + 1)
    subscription = stage.subscription(topic, "late")
    cost = counted(lambda: subscription.pass_over_hidden(0))
    assert counts(stage, "late") == (2000, 0, 0, 2000)
    assert cost < 500
    stage.seek(subscription, 0)
    assert counts(stage, "late") == (2000, 0, 0, 2000)
    assert counts(stage.restarted(), "late") == (2000, 0, 0, 2000)


def test_what_is_new_costs_nothing_of_what_was_passed_over_before(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large batch that becomes visible has each subscription pass over what is hidden in it."""
    monkeypatch.setattr(pages, "PAGE_SHIFT", 3)
    monkeypatch.setattr(hidden_messages, "FEW", 8)
    client = started(stage)
    client.say(*[batch(number, 1000) for number in range(16)])
    txn = new(stage, client)
    add_topics(stage, client, txn)
    topic = stage.topic()
    assert topic.transactions is not None
    for index in range(0, 16_000, 2):
        topic.transactions.hide(index, index + 1)
    subscription = stage.subscription(topic, "late")
    stage.seek(subscription, 0)
    cursor = subscription.cursor
    for first in (15_990, 8000):
        cursor.seek(first)
        cost = counted(lambda first=first: subscription.pass_over_hidden(first))  # type: ignore[misc]
        assert cursor.counts().ready == (16_000 - first) // 2
        assert cost < 300 + 8 * (16_000 - first)


@pytest.mark.parametrize("few", [0, FEW])
@pytest.mark.parametrize("sub_type", [SHARED, FAILOVER, KEY_SHARED])
def test_they_are_passed_over_however_many_they_are(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, few: int, sub_type: Any
) -> None:
    monkeypatch.setattr(hidden_messages, "FEW", few)
    client = started(stage, sub_type=sub_type)
    txns = [new(stage, client) for _ in range(2)]
    for txn in txns:
        add_topics(stage, client, txn)
    kept, dropped = map(within, txns)
    due_ms = stage.clock.wall_ms() + 1000
    client.say(
        message(0, partition_key="k"),
        chunk(1, 0, 2, partition_key="k", **dropped),
        batch(2, 2, partition_key="k", **kept),
        chunk(1, 1, 2, partition_key="k", **dropped),
        message(3, deliver_at_time=due_ms, partition_key="k", **dropped),
        chunk(4, 0, 2, partition_key="k", **kept),
        chunk(5, 0, 2, partition_key="k", **dropped),
        chunk(4, 1, 2, partition_key="k", **kept),
    )
    stage.turn()
    assert not error_of(end(stage, client, txns[1], ABORT))
    assert not error_of(end(stage, client, txns[0], COMMIT))
    shown = ["0", "2.0", "2.1", "4/0", "4/1"]
    assert bodies(client) == shown
    subscription = stage.topic().subscriptions["s"]
    for index in (0, 2):
        stage.seek(subscription, index)
        subscribe(stage, client, "s", sub_type, permits=100)
        assert bodies(client) == shown[1 if index else 0 :]
    assert counts(stage) == (0, 4, 0, stage.topic().log.end_index - 4)
    stage = stage.restarted()
    client = started(stage, sub_type=sub_type)
    assert bodies(client) == shown[1:]
    earliest = pb.CommandSubscribe.Earliest
    words = {"milepost.mode": "broadcast", "milepost.member": "m", "milepost.start": "earliest"}
    metadata = [pb.KeyValue(key=key, value=value) for key, value in words.items()]
    for _ in range(2):
        member = stage.client()
        subscribe(
            stage, member, "g", SHARED, metadata=metadata, initialPosition=earliest, permits=100
        )
        assert bodies(member) == shown
        group = stage.topic().subscriptions["g"]
        assert isinstance(group, BroadcastGroup)
        assert group.members["m"].cursor.counts() == (0, 5, 0, group.cursor.end - 5)
        stage.seek(group, 0)


@pytest.mark.parametrize("few", [0, FEW])
def test_what_is_hidden_is_in_no_transaction_and_of_no_chunked_message(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """However many they are, they are forgotten wherever acked messages are."""
    monkeypatch.setattr(hidden_messages, "FEW", few)
    client = started(stage, sub_type=SHARED)
    client.say(message(0), chunk(1, 0, 2), message(2))
    stage.turn()
    txn = new(stage, client)
    assert not error_of(add_subscription(stage, client, txn))
    assert not error_of(ack_in(stage, client, txn, wire_id(1, 0)))
    topic = stage.topic()
    assert topic.transactions is not None
    subscription = topic.subscriptions["s"]
    assert subscription.gate.knows_chunks
    assert subscription.unacked == 1
    topic.transactions.hide(0, 3)
    subscription.pass_over_hidden(0)
    assert not subscription.gate.knows_chunks
    assert not subscription.unshown.torn
    assert subscription.unacked == 0
    assert counts(stage) == (0, 0, 0, 3)
