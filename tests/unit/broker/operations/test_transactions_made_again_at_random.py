"""Topics and subscriptions come and go under open transactions in any order, with kills and a refusing disk.

Beside the broker stands a model that a reader can check: which incarnations each transaction has added. A
message or an ack is taken if what it is for is one of them, and refused otherwise.
"""

from __future__ import annotations

import errno
import random
from contextlib import suppress
from typing import Any

import pytest
from stage.counts import examples
from stage.frames import metadata
from stage.stage import TOPIC, Stage
from stage.talk import SHARED, answer, ask, error_of, produce, subscribe, wire_id
from stage.transactions import (
    ABORT,
    COMMIT,
    OTHER,
    ack_in,
    add_subscription,
    add_topics,
    end,
    new,
    within,
)

from milepost.broker.operations import recalling, topic_lifecycle
from milepost.errors import PersistenceError
from milepost.positions import TxnId
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.scanners.encode import send_frame

TOPICS, SUBSCRIPTIONS = (TOPIC, OTHER), ("s", "u")
STEPS = 80
TRANSACTIONS_MAX = 2
# Those that are about what is made again come as often as those that use it.
ACTS = (
    *("opens", "adds_topic", "adds_topic", "adds_subscription", "adds_subscription", "ends"),
    *("sends", "sends", "sends", "acks", "acks", "acks", "acks"),
    *("topic_made_again", "subscription_made_again", "recalls", "two_add", "dies_while_one_adds"),
    *("disk_refuses", "restarts", "checkpoint"),
)


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.stage = Stage()
        self.client: Loopback | None = None
        self.connections = 0
        self.sequence = 0
        # What each open transaction has added: ids of topics and of subscriptions' states.
        self.added: dict[TxnId, set[tuple[str, int]]] = {}
        self.connect()

    def play(self) -> None:
        for _ in range(STEPS):
            act = self.random.choice(ACTS)
            topic, name = self.random.choice(TOPICS), self.random.choice(SUBSCRIPTIONS)
            if act == "opens" and len(self.added) < TRANSACTIONS_MAX:
                self.added[new(self.stage, self.heard)] = set()
            elif act != "opens" and self.added:
                getattr(self, act)(self.random.choice(list(self.added)), topic, name)
        for txn in list(self.added):
            self.ends(txn, "", "")

    # -- what is there -----------------------------------------------------------------------------

    @property
    def heard(self) -> Loopback:
        assert self.client is not None
        return self.client

    def connect(self) -> None:
        """A client that produces to both topics, and consumes from all subscriptions."""
        self.connections += 1
        self.client = self.stage.client()
        for number, topic in enumerate(TOPICS):
            assert not error_of(
                produce(self.stage, self.client, number, self.producer(topic), topic=topic)
            )
            for name in SUBSCRIPTIONS:
                consumer_id, permits = self.consumer_id(topic, name), 10 * STEPS
                subscribe(
                    self.stage, self.client, name, SHARED, consumer_id, topic=topic, permits=permits
                )

    def reconnect(self) -> None:
        self.heard.hang_up()
        self.stage.turn()
        self.connect()

    def producer(self, topic: str) -> str:
        return f"p{self.connections}-{TOPICS.index(topic)}"

    def consumer_id(self, topic: str, name: str) -> int:
        return 2 * TOPICS.index(topic) + SUBSCRIPTIONS.index(name)

    def of_topic(self, topic: str) -> tuple[str, int]:
        return "topic", self.stage.topic(topic).row.topic_id

    def of_subscription(self, topic: str, name: str) -> tuple[str, int]:
        state_id = self.stage.topic(topic).subscriptions[name].state_id
        assert state_id is not None
        return "subscription", state_id

    def send(self, topic: str, **fields: Any) -> list[str]:
        """The errors of a message."""
        self.heard.take()
        self.sequence += 1
        meta = metadata(self.sequence, self.producer(topic), **fields)
        options = {"txn_id": TxnId(meta.txnid_most_bits, meta.txnid_least_bits)} if fields else {}
        frame = send_frame(
            TOPICS.index(topic), self.sequence, meta.SerializeToString(), b"x", **options
        )
        self.heard.say(b"".join(frame))
        self.stage.turn()
        return [error_of(one) for one in self.heard.take() if isinstance(one, pb.CommandSendError)]

    def ask_to_add(self, txn: TxnId, topic: str) -> int:
        command = pb.CommandAddPartitionToTxn(partitions=[topic], **within(txn))
        return ask(self.heard, command)

    # -- acts --------------------------------------------------------------------------------------

    def adds_topic(self, txn: TxnId, topic: str, _: str) -> None:
        assert not error_of(add_topics(self.stage, self.heard, txn, topic))
        self.added[txn].add(self.of_topic(topic))

    def adds_subscription(self, txn: TxnId, topic: str, name: str) -> None:
        assert not error_of(add_subscription(self.stage, self.heard, txn, name, topic))
        self.added[txn].add(self.of_subscription(topic, name))

    def two_add(self, txn: TxnId, topic: str, _: str) -> None:
        """At once, a topic that may be new to both."""
        both = {txn, self.random.choice(list(self.added))}
        asked = [(one, self.ask_to_add(one, topic)) for one in both]
        self.stage.turn()
        for one, request_id in asked:
            assert not error_of(answer(self.heard, request_id))
            self.added[one].add(self.of_topic(topic))

    def sends(self, txn: TxnId, topic: str, _: str) -> None:
        refused = [] if self.of_topic(topic) in self.added[txn] else ["InvalidTxnStatus"]
        assert self.send(topic, **within(txn)) == refused

    def acks(self, txn: TxnId, topic: str, name: str) -> None:
        """A message that may be held back, or acked by another: that is another error."""
        assert self.send(topic) == []
        last, consumer_id = (
            self.stage.topic(topic).log.last_position(),
            self.consumer_id(topic, name),
        )
        assert last is not None
        found = ack_in(self.stage, self.heard, txn, wire_id(*last), consumer_id=consumer_id)
        is_added = self.of_subscription(topic, name) in self.added[txn]
        assert (error_of(found) != "InvalidTxnStatus") is is_added, found

    def ends(self, txn: TxnId, _topic: str, _name: str) -> None:
        del self.added[txn]
        action = self.random.choice([COMMIT, ABORT])
        assert not error_of(end(self.stage, self.heard, txn, action))

    def topic_made_again(self, _: TxnId, topic: str, _name: str) -> None:
        broker = self.stage.broker
        self.stage.run(topic_lifecycle.delete_topic(broker, self.stage.topic(topic), force=True))
        self.reconnect()

    def subscription_made_again(self, txn: TxnId, topic: str, name: str) -> None:
        if self.random.random() < 0.3:
            self.adds_subscription(txn, topic, name)
        found = self.stage.topic(topic).subscriptions[name]
        self.stage.run(self.stage.broker.delete_subscription(found))
        self.reconnect()
        self.acks(txn, topic, name)

    def recalls(self, _: TxnId, topic: str, _name: str) -> None:
        self.stage.run(recalling.prepare(self.stage.topic(topic), self.stage.broker))

    def dies_while_one_adds(self, txn: TxnId, topic: str, name: str) -> None:
        """What is new, at any moment."""
        self.topic_made_again(txn, topic, name)
        self.stage.engine.holds_journal = self.random.random() < 0.3
        self.stage.engine.holds_catalog = self.random.random() < 0.3
        asked = self.ask_to_add(txn, topic)
        self.stage.turn()
        answered = answer(self.heard, asked)
        if answered is not None and not error_of(answered):
            self.added[txn].add(self.of_topic(topic))
        self.restarts(txn, topic, name)

    def disk_refuses(self, txn: TxnId, topic: str, name: str) -> None:
        if self.random.random() < 0.5:
            self.topic_made_again(txn, topic, name)
        self.stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
        if not error_of(add_topics(self.stage, self.heard, txn, topic)):
            self.added[txn].add(self.of_topic(topic))
        self.send(topic)  # it is refused if nothing was before
        with suppress(PersistenceError):
            self.stage.run(self.stage.broker.engine.flush())
        self.reconnect()

    def restarts(self, _: TxnId, _topic: str, _name: str) -> None:
        self.stage = self.stage.restarted()
        self.connect()

    def checkpoint(self, _: TxnId, _topic: str, _name: str) -> None:
        self.stage.checkpoint()


@pytest.mark.parametrize("seed", range(examples(60)))
def test_a_transaction_has_a_part_in_what_it_added_and_in_no_other_of_the_name(seed: int) -> None:
    world = World(seed)
    try:
        world.play()
    finally:
        world.stage.close()
