"""A consumer made of bytes, for a load under kills: it asks for an answer to most of its acks.

It acks whole entries, parts of batches and up to a message; keeps some for later, so that a kill finds
them with it; and knows for certain which broker process it talks to. See load.py.
"""

from __future__ import annotations

import itertools
import socket
import time
from collections import deque
from typing import Any

from compat.broker_process import BrokerProcess
from compat.history import LoadHistory, Place
from compat.load import LOOK_S, RECEIVER_QUEUE, Worker, key_of
from stage.acksets import is_pending

from milepost.positions.ackset import AckSet
from milepost.positions.ids import Position
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import split_batch
from milepost.wire.chunks import ChunkAssembler, Whole
from milepost.wire.commands import Kind
from milepost.wire.events import Command, Delivery
from milepost.wire.metadata import chunk_info, is_batch, split_entry
from milepost.wire.protocol import ClientProtocol

# Entries that a raw consumer keeps before it acks the oldest of them.
KEPT_MAX = 50


class RawConsumer(Worker):
    """Acks with and without a request id, whole entries and parts of batches, and knows for certain
    which broker it talks to."""

    def __init__(
        self,
        broker: BrokerProcess,
        topic: str,
        subscription: str,
        sub_type: pb.CommandSubscribe.SubType,
        history: LoadHistory,
        seed: int,
    ) -> None:
        super().__init__(f"{subscription}-raw", history, seed)
        self.subscription = subscription
        self._broker, self._topic, self._sub_type = broker, topic, sub_type
        self._is_ordered = sub_type in (pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Failover)
        self.acks_all = False
        self._comes_again = False
        self._link: _Link | None = None

    def come_again(self) -> None:
        """Leave and come back, to be given once more what it holds."""
        self._comes_again = True

    def step(self) -> None:
        try:
            if self._comes_again:
                self._comes_again = False
                self.disconnect()
            if self._link is None:
                self._link = self._connect()
            link = self._link
            if link is not None:
                for event in link.receive():
                    self._handle(link, event)
        except (ConnectionError, TimeoutError):
            self.disconnect()

    def end(self) -> None:
        self.disconnect()

    def disconnect(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def _connect(self) -> _Link | None:
        generation = self.history.generation
        if not self._broker.is_running:
            with self.history.changed:
                self.history.changed.wait(LOOK_S)
            return None
        link = _Link(self._broker.port_of(self._topic), generation)
        self.history.joined(self.subscription, self.name, "connection")
        try:
            link.handshake()
            link.subscribe(self._topic, self.subscription, self._sub_type, self.name)
        except BaseException:
            link.close()
            raise
        if self.history.generation != generation:
            link.close()
            return None
        self.reach(generation)
        return link

    def _handle(self, link: _Link, event: Any) -> None:
        if isinstance(event, Delivery):
            self._delivered(link, event)
        elif isinstance(event, Command) and event.kind == Kind.ACK_RESPONSE:
            answer: Any = event.message
            assert not answer.HasField("error"), answer
            self.history.ok(link.unanswered.pop(answer.request_id))
            self.history.progress()

    def _delivered(self, link: _Link, delivery: Delivery) -> None:
        parts = split_entry(delivery.entry)
        assert parts.is_intact
        assert parts.broker is not None
        assert parts.broker.index is not None
        position = delivery.ledger_id, delivery.entry_id
        last_index = parts.broker.index
        chunk = chunk_info(parts.metadata)
        if chunk is not None:
            link.take_permits(1)
            whole = link.chunks.add(chunk, Position(*position), parts.payload, now_ms=0)
            if isinstance(whole, Whole):
                place = (*position, -1)
                self._note(link, place, whole.payload, last_index)
                self._ack(link, position, [place], None, 1)
            return
        if not is_batch(parts.metadata):
            link.take_permits(1)
            place = (*position, -1)
            self._note(link, place, parts.payload, last_index)
            self._ack(link, position, [place], None, 1)
            return
        messages = split_batch(parts.payload, parts.metadata.num_messages_in_batch)
        size = len(messages)
        shown = AckSet.from_message_words(delivery.ack_set, size)
        places = []
        for batch_index, message in enumerate(messages):
            if is_pending(shown, batch_index):
                places.append((*position, batch_index))
                self._note(link, places[-1], message.payload, last_index - size + 1 + batch_index)
        link.take_permits(len(places))
        self._ack(link, position, places, shown, size)

    def _note(self, link: _Link, place: Place, payload: bytes, index: int) -> None:
        key, _ = key_of(payload)
        self.history.delivered(
            self.subscription, self.name, key, place, index=index, life=link.generation
        )

    def _ack(
        self,
        link: _Link,
        position: tuple[int, int],
        places: list[Place],
        shown: AckSet | None,
        size: int,
    ) -> None:
        """Ack the entry, or a part of it; or keep it for later, so that a kill finds it with us."""
        if len(link.kept) >= KEPT_MAX:
            self._say_ack(link, *link.kept.popleft(), is_cumulative=False)
        dice = 0.0 if self.acks_all else self.random.random()
        if dice > 0.8:
            link.kept.append((position, places, []))
            return
        words: list[int] = []
        is_cumulative = self._is_ordered and (self.acks_all or self.random.random() < 0.7)
        if shown is not None and dice > 0.5 and len(places) > 1:
            # A part of the batch: the bits that stay set are still to be acked.
            pending = AckSet.full(size)
            if is_cumulative:
                part = places[: self.random.randrange(1, len(places))]
                pending = pending.without_before(part[-1][2] + 1)
            else:
                part = self.random.sample(places, self.random.randrange(1, len(places)))
                for _, _, batch_index in part:
                    pending = pending.without(batch_index)
            link.kept.append((position, places, []))  # the rest
            places, words = part, pending.to_ack_words()
        self._say_ack(link, position, places, words, is_cumulative=is_cumulative)

    def _say_ack(
        self,
        link: _Link,
        position: tuple[int, int],
        places: list[Place],
        words: list[int],
        *,
        is_cumulative: bool,
    ) -> None:
        wants_answer = self.acks_all or self.random.random() < 0.8
        ack = self.history.ack_of(
            self.subscription,
            self.name,
            places[-1:] if is_cumulative else places,
            is_cumulative=is_cumulative,
        )
        asked = self.history.invoke("ack", **ack) if wants_answer else None
        link.ack(asked, position, words, is_cumulative=is_cumulative)
        if asked is None:
            self.history.note("ack", **ack, t=time.monotonic(), life=link.generation)


class _Link:
    """One connection of a raw consumer to one broker process."""

    def __init__(self, port: int, generation: int) -> None:
        self.generation = generation
        self.chunks = ChunkAssembler(waiting_max=100)
        self.unanswered: dict[int, int] = {}
        self.kept: deque[tuple[tuple[int, int], list[Place], list[int]]] = deque()
        """What is to be acked later: position, places, ack set."""
        self._request_ids = itertools.count(1)
        self._taken = 0
        self._heard: list[Any] = []
        self._protocol = ClientProtocol()
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def handshake(self) -> None:
        self._protocol.connect(
            pb.CommandConnect(
                client_version="Raw-1",
                protocol_version=21,
                feature_flags=pb.FeatureFlags(supports_broker_entry_metadata=True),
            )
        )
        self._await(Kind.CONNECTED)

    def subscribe(
        self, topic: str, name: str, sub_type: pb.CommandSubscribe.SubType, consumer: str
    ) -> None:
        self._protocol.send(
            pb.CommandSubscribe(
                topic=topic,
                subscription=name,
                subType=sub_type,
                consumer_id=0,
                request_id=0,
                consumer_name=consumer,
                initialPosition=pb.CommandSubscribe.Earliest,
            )
        )
        self._await(Kind.SUCCESS)
        self._protocol.send(pb.CommandFlow(consumer_id=0, messagePermits=RECEIVER_QUEUE))
        self._flush()
        self._socket.settimeout(LOOK_S)

    def take_permits(self, count: int) -> None:
        self._taken += count
        if self._taken >= RECEIVER_QUEUE // 2:
            self._protocol.send(pb.CommandFlow(consumer_id=0, messagePermits=self._taken))
            self._taken = 0

    def ack(
        self,
        asked: int | None,
        position: tuple[int, int],
        words: list[int],
        *,
        is_cumulative: bool,
    ) -> None:
        """`asked`: the number of the ack in the history, if an answer is wanted."""
        command = pb.CommandAck(
            consumer_id=0,
            ack_type=pb.CommandAck.Cumulative if is_cumulative else pb.CommandAck.Individual,
            message_id=[pb.MessageIdData(ledgerId=position[0], entryId=position[1], ack_set=words)],
        )
        if asked is not None:
            command.request_id = next(self._request_ids)
            self.unanswered[command.request_id] = asked
        self._protocol.send(command)
        self._flush()

    def receive(self) -> list[Any]:
        """What has come; nothing, if nothing came for a while."""
        heard, self._heard = self._heard, []
        if not heard:
            try:
                heard = self._receive()
            except TimeoutError:
                heard = []
        self._flush()
        return heard

    def _receive(self) -> list[Any]:
        data = self._socket.recv(1 << 18)
        if not data:
            raise ConnectionResetError("the broker is gone")
        events = self._protocol.receive(data)
        if self._protocol.error is not None:
            raise self._protocol.error
        return list(events)

    def _await(self, kind: int) -> None:
        self._flush()
        while True:
            self._heard += self._receive()
            for event in self._heard:
                if isinstance(event, Command):
                    assert event.kind != Kind.ERROR, event
                    if event.kind == kind:
                        self._heard.remove(event)
                        return

    def _flush(self) -> None:
        for buffer in self._protocol.data_to_send():
            self._socket.sendall(buffer)

    def close(self) -> None:
        self._socket.close()
