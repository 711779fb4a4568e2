"""A whole broker, and clients that say a little of everything in any order, some of it spoiled.

Whatever comes, nothing in the broker fails: no exception reaches the loop, nothing is logged as an error,
every cursor keeps its invariants, and when the clients are gone nothing of them is left. Frames that a
client could not read are failures too. `MILEPOST_FUZZ_SECONDS` and `MILEPOST_FUZZ_SEED` as in test_fuzz.py;
the frames of the round that failed are printed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from fuzz import seeds
from fuzz.mutations import mutate
from milepost.broker.broker import Broker
from milepost.broker.limits.time_slices import REST_S
from milepost.testing.broker import broker
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import encode_command
from milepost.wire.events import Delivery, Receipt
from milepost.wire.frames import command_frame
from milepost.wire.scanners.encode import send_frame

SECONDS = float(os.environ.get("MILEPOST_FUZZ_SECONDS", "2"))
SEED = int(os.environ.get("MILEPOST_FUZZ_SEED", "1"))

TOPICS = ("a", "b", "non-persistent://public/default/c", "persistent://public/nowhere/d")
NAMES = ("s", "t")
ROUND_S_MAX = 5.0

# `Any`: the generated types want the enum's own, and take its numbers.
SUB_TYPES: Any = (*pb.CommandSubscribe.SubType.values(), pb.CommandSubscribe.Shared)
POSITIONS: Any = pb.CommandSubscribe.InitialPosition.values()
ACK_TYPES: Any = (*pb.CommandAck.AckType.values(), pb.CommandAck.Individual)
ACCESS_MODES: Any = (*pb.ProducerAccessMode.values(), pb.Shared, pb.Shared, pb.Shared)

# A broker that answers nobody is not told from one that waits; so rounds wait for the journal only.
SETTINGS: dict[str, Any] = {
    "max_message_size": 16 * 1024,
    "ledger_entries_max": 50,
    "max_unacked_messages_per_consumer": 40,
    "max_unacked_messages_per_subscription": 60,
    "max_consumers_per_subscription": 3,
    "max_producers_per_topic": 4,
}


class Speaker:
    """Makes what a client might say, of the few things that there are."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.places: list[tuple[int, int]] = [(0, 0), (1, 0)]
        """Where messages are, as far as was heard."""
        self._who = 0
        self._request_id = 0
        self._sequence_id = 0
        self._sayings: tuple[Callable[[], bytes], ...] = (
            *(self._producer, self._send, self._send, self._send, self._send),
            *(self._subscribe, self._flow, self._flow, self._ack, self._ack, self._ack),
            *(self._redeliver, self._seek, self._close, self._ask),
        )

    def begin(self, who: int) -> list[bytes]:
        """What a client says first: it has producers to send with, and somebody to hear."""
        self._who = who
        producers = [
            self._framed(
                pb.CommandProducer(
                    topic=self.dice.choice(TOPICS[:2]),
                    producer_id=number,
                    request_id=self._request(),
                    producer_name=self._name(number),
                )
            )
            for number in range(3)
        ]
        return [*producers, self._subscribe(), self._subscribe(), self._flow(), self._flow()]

    def _name(self, producer_id: int) -> str:
        return f"p{self._who}{producer_id}"

    def say(self, who: int) -> bytes:
        self._who = who
        frame = self.dice.choice(self._sayings)()
        if self.dice.random() < 0.1:
            frame = mutate(frame, [frame, *self._spoils()], self.dice)
        return frame

    def _spoils(self) -> list[bytes]:
        return _CLIENT_FRAMES

    def _request(self) -> int:
        self._request_id += 1
        return self._request_id

    def _small(self) -> int:
        return self.dice.choice((0, 0, 1, 2))

    def _framed(self, command: Any) -> bytes:
        return command_frame(encode_command(command))

    def _place(self) -> pb.MessageIdData:
        ledger_id, entry_id = self.dice.choice(self.places[-40:])
        entry_id += self.dice.choice((0, 0, 0, 0, -1, 1, 1000))
        place = pb.MessageIdData(ledgerId=ledger_id % 2**64, entryId=entry_id % 2**64)
        if self.dice.random() < 0.3:
            place.ack_set.extend(
                self.dice.choice((0, 1, 5, -1, 28, -(2**63))) for _ in range(self.dice.randrange(3))
            )
        if self.dice.random() < 0.1:
            place.batch_index = self.dice.choice((-5, 0, 1, 4, 100))
        if self.dice.random() < 0.05:
            place.first_chunk_message_id.CopyFrom(pb.MessageIdData(ledgerId=1, entryId=0))
        return place

    # -- publishing --------------------------------------------------------------------------------

    def _producer(self) -> bytes:
        producer_id = self._small()
        command = pb.CommandProducer(
            topic=self.dice.choice(TOPICS[: self.dice.choice((2, 2, 2, 4))]),
            producer_id=producer_id,
            request_id=self._request(),
            producer_name=self.dice.choice((self._name(producer_id), "", "p")),
            epoch=self._small(),
            producer_access_mode=self.dice.choice(ACCESS_MODES),
        )
        if self.dice.random() < 0.1:
            command.initial_subscription_name = self.dice.choice((*NAMES, "bad\nname"))
        if self.dice.random() < 0.1:
            command.topic_epoch = self._small()
        return self._framed(command)

    def _send(self) -> bytes:
        self._sequence_id += self.dice.choice((0, 1, 1, 1))
        producer_id = self._small()
        metadata = pb.MessageMetadata(
            producer_name=self._name(producer_id) if self.dice.random() < 0.95 else "q",
            sequence_id=self._sequence_id,
            publish_time=1_700_000_000_000,
        )
        payload = b"x" * self.dice.randrange(60)
        if self.dice.random() < 0.3:
            metadata.partition_key = f"k{self._small()}"
        kind = self.dice.random()
        if kind < 0.3:
            metadata.num_messages_in_batch = self.dice.choice((1, 2, 5, 70))
            payload = seeds.batch_payload(metadata.num_messages_in_batch)
        elif kind < 0.5:
            metadata.uuid = f"u-{self._small()}"
            metadata.num_chunks_from_msg = self.dice.choice((1, 2, 3))
            metadata.chunk_id = self._small()
            metadata.total_chunk_msg_size = 200
        elif kind < 0.55:
            metadata.marker_type = 10
        elif kind < 0.6:
            metadata.deliver_at_time = self.dice.choice((0, 1, 2**40, 2**62))
        head, data = send_frame(
            producer_id, self._sequence_id, metadata.SerializeToString(), payload
        )
        return head + data

    # -- consuming ---------------------------------------------------------------------------------

    def _subscribe(self) -> bytes:
        command = pb.CommandSubscribe(
            topic=self.dice.choice(TOPICS[: self.dice.choice((2, 2, 2, 4))]),
            subscription=self.dice.choice(NAMES),
            subType=self.dice.choice(SUB_TYPES),
            consumer_id=self._small(),
            request_id=self._request(),
            priority_level=self._small(),
            durable=self.dice.random() < 0.8,
            initialPosition=self.dice.choice(POSITIONS),
            force_topic_creation=self.dice.random() < 0.9,
        )
        if not command.durable and self.dice.random() < 0.7:
            command.start_message_id.CopyFrom(self._place())
        if self.dice.random() < 0.3:
            command.consumer_epoch = self._small()
        if command.subType == pb.CommandSubscribe.Key_Shared and self.dice.random() < 0.3:
            first = self.dice.choice((0, 100, 40_000, 70_000))
            command.keySharedMeta.keySharedMode = pb.STICKY
            command.keySharedMeta.hashRanges.add(start=first, end=first + 20_000)
        return self._framed(command)

    def _flow(self) -> bytes:
        permits = self.dice.choice((0, 1, 3, 10, 1000, 2**32 - 1))
        return self._framed(pb.CommandFlow(consumer_id=self._small(), messagePermits=permits))

    def _ack(self) -> bytes:
        command = pb.CommandAck(
            consumer_id=self._small(),
            ack_type=self.dice.choice(ACK_TYPES),
            message_id=[self._place() for _ in range(self.dice.choice((1, 1, 1, 0, 2, 30)))],
        )
        if self.dice.random() < 0.7:
            command.request_id = self._request()
        return self._framed(command)

    def _redeliver(self) -> bytes:
        command = pb.CommandRedeliverUnacknowledgedMessages(
            consumer_id=self._small(),
            message_ids=[self._place() for _ in range(self.dice.choice((0, 1, 5)))],
        )
        if self.dice.random() < 0.3:
            command.consumer_epoch = self._small()
        return self._framed(command)

    def _seek(self) -> bytes:
        command = pb.CommandSeek(consumer_id=self._small(), request_id=self._request())
        if self.dice.random() < 0.8:
            command.message_id.CopyFrom(self._place())
        else:
            command.message_publish_time = self.dice.choice((0, 2**40, 2**64 - 1))
        if self.dice.random() < 0.5:
            command.consumer_epoch = self._small()
        return self._framed(command)

    def _close(self) -> bytes:
        number, request_id = self._small(), self._request()
        return self._framed(
            self.dice.choice(
                (
                    pb.CommandCloseConsumer(consumer_id=number, request_id=request_id),
                    pb.CommandCloseProducer(producer_id=number, request_id=request_id),
                    pb.CommandUnsubscribe(
                        consumer_id=number, request_id=request_id, force=self.dice.random() < 0.5
                    ),
                )
            )
        )

    def _ask(self) -> bytes:
        number, request_id = self._small(), self._request()
        return self._framed(
            self.dice.choice(
                (
                    pb.CommandGetLastMessageId(consumer_id=number, request_id=request_id),
                    pb.CommandConsumerStats(consumer_id=number, request_id=request_id),
                    pb.CommandPing(),
                    pb.CommandLookupTopic(topic=TOPICS[number], request_id=request_id),
                    pb.CommandPartitionedTopicMetadata(topic=TOPICS[number], request_id=request_id),
                    pb.CommandGetSchema(topic=TOPICS[number], request_id=request_id),
                )
            )
        )


_CLIENT_FRAMES = seeds.client_frames()


class Alarm(logging.Handler):
    """Whatever is logged as an error, or reaches the loop, is a failure."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(self.format(record))

    def unhandled(self, loop: object, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.found.append(f"{context['message']}: {type(error).__name__}: {error}")


def check(running: Broker) -> None:
    """Every cursor is sound, and its consumers hold what it says they hold."""
    for topic in running.topics.values():
        for subscription in topic.subscriptions.values():
            cursor = subscription.cursor
            cursor.check()
            assert cursor.end == topic.log.end_index, subscription
            assert subscription.unacked == cursor.counts().inflight, subscription
            for consumer in subscription.consumers:
                held = cursor.inflight_of(consumer.holder)
                assert consumer.unacked == held.count, consumer
                assert not consumer.is_closed


def check_gone(running: Broker) -> None:
    assert not running.sessions
    assert not len(running.watchers)
    for topic in running.topics.values():
        assert not topic.producers, topic.producers
        for subscription in topic.subscriptions.values():
            assert not subscription.consumers, subscription
            # A reader that a seek has closed has a while to come back.
            assert subscription.is_durable or subscription in running._orphans, subscription
            assert not subscription.cursor.counts().inflight, subscription


async def rounds(seconds: float, seed: int, deduplication: bool) -> int:
    dice = random.Random(seed)
    alarm = Alarm()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(alarm.unhandled)
    logger = logging.getLogger("milepost")
    logger.addHandler(alarm)
    level = logger.level
    logger.setLevel(logging.ERROR)
    count = 0
    try:
        async with broker(deduplication=deduplication, **SETTINGS) as made:
            running = made.running.broker
            speaker = Speaker(dice)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                count += 1
                said: list[str] = []
                began = time.thread_time()
                try:
                    await one_round(running, speaker, dice, said)
                except AssertionError as error:
                    alarm.found.append(f"{type(error).__name__}: {error}")
                if time.thread_time() - began > ROUND_S_MAX:
                    alarm.found.append(f"a round of {time.thread_time() - began:.1f} s")
                if alarm.found:
                    text = "\n".join((*said[-100:], *alarm.found[:3]))
                    raise AssertionError(f"seed {seed}, round {count}:\n{text}")
    finally:
        logger.removeHandler(alarm)
        logger.setLevel(level)
    return count


async def one_round(
    running: Broker, speaker: Speaker, dice: random.Random, said: list[str]
) -> None:
    clients = [Loopback(running, f"loopback:{n}") for n in range(dice.choice((1, 1, 2, 3)))]
    for who, client in enumerate(clients):
        client.say(*speaker.begin(who))
        await running.engine.flush()
    for _ in range(dice.randrange(5, 80)):
        at = dice.randrange(len(clients))
        client = clients[at]
        frame = speaker.say(at)
        said.append(f"{at} {frame.hex()}")
        client.say(frame)
        if dice.random() < 0.3:
            await asyncio.sleep(0)
        if dice.random() < 0.1:
            await running.engine.flush()
            check(running)
        if dice.random() < 0.02:
            client.reads = not client.reads
        for heard in client.take():
            if isinstance(heard, Delivery | Receipt) and heard.ledger_id >= 0:
                speaker.places.append((heard.ledger_id, heard.entry_id))
    await running.engine.flush()
    check(running)
    for client in clients:
        client.reads = True
        client.hang_up()
    # Handlers that wait for the disk find their session gone; what came whole before that is still
    # obeyed, a few requests at a time and with rests.
    for _ in range(2000):
        await asyncio.sleep(REST_S if running.sessions else 0)  # sleep: as a session rests
        if not running._tasks and not running.sessions:
            break
        await running.engine.flush()
    check(running)
    check_gone(running)


@pytest.mark.timeout(120 + 4 * SECONDS)
@pytest.mark.parametrize("deduplication", [True, False], ids=["deduplicated", "plain"])
def test_anything_in_any_order(deduplication: bool, summary: Callable[[str], None]) -> None:
    count = asyncio.run(rounds(SECONDS, SEED, deduplication))
    summary(f"{count} rounds")
    assert count > SECONDS
