"""Random worlds in which transactions tear batches: consumers ack, late too, give back, come and go.

No message is acked that no consumer has acked, and none comes again that its consumer has acked. The
consumers are like Java's and Go's clients: their ack sets have what the delivery hid, or what they gave to
transactions.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from stage.acksets import is_pending
from stage.counts import examples
from stage.frames import batch, chunk, message
from stage.stage import Stage
from stage.talk import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    ack_command,
    error_of,
    flow,
    produce,
    request,
    subscribe,
    wire_id,
)
from stage.transactions import ABORT, COMMIT, ack_in, add_subscription, end, new

from milepost.broker.messages.ids_to_indexes import index_start
from milepost.cursor.cursor import TRANSACTIONS, Cursor
from milepost.positions import TxnId
from milepost.positions.ackset import AckSet
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery
from milepost.wire.metadata import chunk_info, is_batch, split_entry

WORLDS = examples(600)
BLOCKS = 4


class Entry:
    """One delivery of a message, a batch, or all chunks of a message."""

    def __init__(self, session: int, positions: list[tuple[int, int]], size: int) -> None:
        self.session, self.positions, self.size = session, positions, size
        self.indexes: list[int] = []
        self.shown: set[int] = set()
        self.left: set[int] = set()
        """What its client thinks is not acked."""
        self.before: set[int] = set()
        """What came on this connection before: an ack does not say which delivery it answers."""

    def indexes_of(self, numbers: set[int]) -> list[int]:
        whole = len(self.positions) > 1
        return self.indexes if whole else [self.indexes[number] for number in numbers]

    def ids(self, left: set[int]) -> list[pb.MessageIdData]:
        ids = [wire_id(*position) for position in self.positions]
        if left:
            pending = AckSet(sum(1 << number for number in left), self.size)
            ids[0].ack_set.extend(pending.to_ack_words())
        return ids


class Client:
    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.merges = world.random.random() < 0.5
        """Its sets have what the delivery hid; else what it has acked in transactions."""
        self.session = 0
        self.connection: Loopback | None = None
        self.entries: dict[tuple[int, int], Entry] = {}
        self.chunks: list[tuple[tuple[int, int], int]] = []

    def join(self) -> None:
        connection = self.world.stage.client()
        self.session += 1
        self.chunks.clear()
        permits = self.world.random.choice([2, 5, 100])
        self.connection = connection
        if error_of(
            subscribe(
                self.world.stage,
                connection,
                sub_type=self.world.sub_type,
                permits=permits,
                consumer_name=self.name,
                initialPosition=pb.CommandSubscribe.Earliest,
            )
        ):
            self.leave()  # another one has the Exclusive subscription

    def leave(self) -> None:
        assert self.connection is not None
        self.connection.hang_up()
        self.connection = None
        self.world.stage.turn()

    def hear(self) -> None:
        for heard in [] if self.connection is None else self.connection.take():
            if isinstance(heard, Delivery):
                self._received(heard)

    def _received(self, delivery: Delivery) -> None:
        parts = split_entry(delivery.entry)
        assert parts.broker is not None
        assert parts.broker.index is not None
        last, position = parts.broker.index, (delivery.ledger_id, delivery.entry_id)
        if (info := chunk_info(parts.metadata)) is not None:
            if info.is_first:
                self.chunks.clear()
            self.chunks.append((position, last))
            if len(self.chunks) < info.num_chunks:
                return
            entry = Entry(self.session, [one for one, _ in self.chunks], 1)
            entry.indexes, entry.shown = [index for _, index in self.chunks], {0}
        else:
            size = parts.metadata.num_messages_in_batch if is_batch(parts.metadata) else 1
            entry = Entry(self.session, [position], size)
            entry.indexes = list(range(last - size + 1, last + 1))
            bits = AckSet.from_message_words(delivery.ack_set, size)
            entry.shown = {number for number in range(size) if is_pending(bits, number)}
        entry.left = set(entry.shown) if self.merges else set(range(entry.size))
        before = self.entries.get(position)
        if before is not None and before.session == self.session:
            entry.before = before.shown | before.before
        self.entries[position] = entry
        for index in entry.indexes_of(entry.shown):
            assert index not in self.world.done, f"{index} came again to {self.name}"


class World:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.sub_type: Any = random.choice([SHARED, SHARED, KEY_SHARED, EXCLUSIVE, FAILOVER])
        self.stage = Stage()
        self.sent = 0
        self.transactions: dict[TxnId, set[int]] = {}
        self.given: set[int] = set()
        """What a transaction has ever acked: of an ack of it by an older delivery nothing is certain."""
        self.acked: set[int] = set()
        self.done: set[int] = set()
        """What may not come again."""
        self.producer = self._producer()
        self.clients = [Client(self, f"c{number}") for number in range(random.choice([1, 2, 3]))]
        for client in self.clients:
            client.join()

    def _producer(self) -> Loopback:
        client = self.stage.client()
        produce(self.stage, client)
        return client

    @property
    def cursor(self) -> Cursor:
        return self.stage.topic().subscriptions["s"].cursor

    def run(self) -> None:
        verbs = [self.publish, *[self.ack] * 4, *[self.give] * 2, *[self.end] * 2]
        verbs += [self.give_back, self.hang_up, self.join, self.permit]
        if self.random.random() < 0.3:
            verbs += [self.seek, self.restart]
        self.publish()
        self.publish()
        for _ in range(self.random.choice([6, 12, 25])):
            self.random.choice(verbs)()
            for client in self.clients:
                client.hear()
            self.check()
        self.drain()

    def check(self) -> None:
        acked = set(range(self.cursor.end))
        for first, end_index in self.cursor.backlog_ranges():
            acked -= set(range(first, end_index))
        assert acked <= self.acked | self.done, f"lost {acked - self.acked - self.done}"

    def publish(self) -> None:
        self.sent += 1
        key = {"partition_key": self.random.choice("ab")}
        kind = self.random.random()
        if kind < 0.1:
            self.producer.say(message(self.sent, **key))
        elif kind < 0.2:
            self.producer.say(*(chunk(self.sent, number, 2, **key) for number in range(2)))
        else:
            self.producer.say(batch(self.sent, self.random.choice([2, 3, 4]), **key))
        self.stage.turn()

    def _picked(self) -> tuple[Client, Loopback, Entry] | None:
        """A client that is there and something that it has received, on this connection or before."""
        client = self.random.choice(self.clients)
        client.hear()
        if client.connection is None or not client.entries:
            return None
        entry = client.entries[self.random.choice(sorted(client.entries))]
        return client, client.connection, entry

    def _able(self, entry: Entry) -> list[int]:
        """What no transaction has ever acked."""
        return [number for number in sorted(entry.shown) if entry.indexes[number] not in self.given]

    def _some(self, entry: Entry) -> set[int]:
        if not (able := self._able(entry)):
            return set()
        return set(self.random.sample(able, self.random.randint(1, len(able))))

    def ack(self) -> None:
        if (picked := self._picked()) is None:
            return
        client, connection, entry = picked
        if self.sub_type in (EXCLUSIVE, FAILOVER) and self.random.random() < 0.3:
            self._ack_up_to(client, connection, entry)
            return
        numbers = self._some(entry) or (entry.shown if entry.session == client.session else set())
        if not numbers:
            return
        entry.left -= numbers
        named = entry.indexes_of(numbers)
        self.acked.update(named, entry.indexes_of(entry.before))
        assert not error_of(request(self.stage, connection, ack_command(*entry.ids(entry.left))))
        if entry.session == client.session:
            self.done.update(index for index in named if index not in self.given)

    def _ack_up_to(self, client: Client, connection: Loopback, entry: Entry) -> None:
        if len(entry.positions) > 1 or not (able := self._able(entry)):
            return
        number = self.random.choice(able)
        entry.left = {one for one in entry.left if one > number}
        (up_to,) = entry.ids(entry.left)
        for one in client.entries.values():
            shown = one.indexes_of(one.shown)
            if len(one.positions) == 1 or one.indexes[-1] <= entry.indexes[number]:
                self.acked.update(index for index in shown if index <= entry.indexes[number])
        assert not error_of(request(self.stage, connection, ack_command(up_to, cumulative=True)))

    def give(self) -> None:
        """Ack in a transaction."""
        if (picked := self._picked()) is None or not (numbers := self._some(picked[2])):
            return
        client, connection, entry = picked
        if self.transactions and self.random.random() < 0.6:
            txn = self.random.choice(sorted(self.transactions))
        else:
            txn = new(self.stage, connection)
            assert not error_of(add_subscription(self.stage, connection, txn))
            self.transactions[txn] = set()
        # Java's client names nothing but these; others may merge here too.
        exact = client.merges and self.random.random() < 0.7
        left = (set(range(entry.size)) if exact else entry.left) - numbers
        if not error_of(ack_in(self.stage, connection, txn, *entry.ids(left))):
            if not client.merges:
                entry.left = left
            pending = self.cursor.inflight_of(TRANSACTIONS)
            named = entry.indexes_of(set(range(entry.size)) - left)
            given = {index for index in named if index in pending}
            self.transactions[txn] |= given
            self.given |= given
            self.done -= given

    def end(self) -> None:
        connections = [one.connection for one in self.clients if one.connection is not None]
        if not self.transactions or not connections:
            return
        txn = self.random.choice(sorted(self.transactions))
        action = self.random.choice([COMMIT, ABORT, ABORT])
        pending = self.cursor.inflight_of(TRANSACTIONS)
        assert not error_of(end(self.stage, connections[0], txn, action))
        named = self.transactions.pop(txn)
        if action == COMMIT:
            self.done.update(index for index in named if index in pending)

    def give_back(self) -> None:
        if (picked := self._picked()) is not None:
            _, connection, entry = picked
            ids = [wire_id(*one) for one in entry.positions]
            command = pb.CommandRedeliverUnacknowledgedMessages
            connection.say(command(consumer_id=0, message_ids=ids))
            self.stage.turn()

    def hang_up(self) -> None:
        client = self.random.choice(self.clients)
        if client.connection is not None:
            client.hear()
            client.leave()
            if self.random.random() < 0.7:
                client.join()

    def join(self) -> None:
        for client in self.clients:
            if client.connection is None:
                client.join()
                return

    def permit(self) -> None:
        for client in self.clients:
            if client.connection is not None:
                flow(self.stage, client.connection, self.random.choice([1, 5, 50]))

    def seek(self) -> None:
        target = self.random.randint(self.cursor.first, self.cursor.end)
        target = index_start(self.stage.topic(), target)
        self.stage.seek(self.stage.topic().subscriptions["s"], target)
        for client in self.clients:
            if client.connection is not None:
                client.leave()
            client.entries.clear()
            client.join()
        self.acked, self.done, self.given = set(range(target)), set(), set()
        self.transactions = {txn: set() for txn in self.transactions}

    def restart(self) -> None:
        """With no message that an abort has brought back: which those are is forgotten."""
        unshown = self.stage.topic().subscriptions["s"].unshown
        if unshown.torn != self.cursor.inflight_of(TRANSACTIONS):
            return
        self.stage = self.stage.restarted()
        self.producer = self._producer()
        for client in self.clients:
            client.join()

    def drain(self) -> None:
        """Everything ends, and one client acks all that is left."""
        self.join()
        while self.transactions:
            self.end()
        for client in self.clients:
            client.hear()
            if client.connection is not None:
                client.leave()
        last = Client(self, "last")
        last.merges = True
        last.join()
        assert last.connection is not None
        for _ in range(30):
            flow(self.stage, last.connection, 1000)
            last.hear()
            for entry in last.entries.values():
                self.acked.update(entry.indexes_of(entry.shown))
                acked = ack_command(*entry.ids(set()))
                assert not error_of(request(self.stage, last.connection, acked))
            last.entries.clear()
        self.check()
        subscription = self.stage.topic().subscriptions["s"]
        assert subscription.cursor.backlog == 0, subscription
        assert not subscription.unshown.torn


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_message_is_lost_and_none_comes_again(block: int) -> None:
    for seed in range(block, WORLDS, BLOCKS):
        world = World(seed)
        try:
            world.run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        finally:
            world.stage.__exit__(None, None, None)
