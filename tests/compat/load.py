"""A mixed load that goes on while its broker is killed: producers and consumers that come back by themselves.

Producers are the official client's: batched, unbatched, keyed, chunked. Consumers are the official
client's, and raw ones (raw_consumer.py) that ask for an answer to their acks, which the official Python
client cannot. Everything that happens is noted in a `LoadHistory`.

Each payload says who sent it, its number, and in which generation; the rest of it follows from these, so
that no byte can change unseen. A consumer that has got a message of a generation is connected to that
broker or a later one, and the official client forgets what it held when it reconnects: that is how the
generation of a delivery is known.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from typing import Any

import _pulsar
import pulsar
from compat.history import Key, LoadHistory, Place

# Messages of one producer without a receipt. Small enough that the backlog stays short.
OUTSTANDING_MAX = 60
# Messages that the slowest subscription may be behind before producers wait for it.
WAITING_MAX = 2000
# Messages that a producer sends to each broker before it goes slow, until that broker is about to be killed:
# more of them would only take longer to judge.
FAST_MAX = 500
SLOW_S = 0.01
# A thread that waits looks this often whether it should end.
LOOK_S = 0.1
# The official client groups acks for this long before it sends them; there is no setting for it.
CLIENT_ACK_GROUPING_S = 0.1

RECEIVER_QUEUE = 200


def payload_of(key: Key, generation: int, size: int) -> bytes:
    producer, sequence = key
    head = b"%d:%d:%d:%d:" % (producer, sequence, generation, size)
    filler = b"%d." % (sequence * 4 + producer)
    return (head + filler * (size // len(filler) + 1))[:size]


def key_of(payload: bytes) -> tuple[Key | None, int]:
    """Key and generation of a payload; no key and no generation if no producer sent these bytes."""
    try:
        producer, sequence, generation, size = map(int, payload.split(b":", 4)[:4])
    except ValueError:
        return None, -1
    key = producer, sequence
    return (key, generation) if payload_of(key, generation, size) == payload else (None, -1)


class Worker(threading.Thread):
    """A thread that works until it is told to stop, and keeps what went wrong with it."""

    def __init__(self, name: str, history: LoadHistory, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.history = history
        self.random = random.Random(f"{seed} {name}")
        self.reached = -1
        """The latest generation in which it has certainly worked."""
        self.failure: BaseException | None = None
        self._stopping = threading.Event()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.step()
        except BaseException as error:
            self.failure = error
            self.history.progress()
        finally:
            self.end()

    def step(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """Leave nothing behind."""

    def stop(self) -> None:
        self._stopping.set()

    def reach(self, generation: int) -> None:
        if generation > self.reached:
            self.reached = generation
            self.history.progress()


# -- producers ---------------------------------------------------------------------------------------


class Producer(Worker):
    """Sends as fast as receipts come back; the client library sends again what a kill swallowed."""

    def __init__(
        self,
        number: int,
        client: pulsar.Client,
        topic: str,
        history: LoadHistory,
        seed: int,
        *,
        large_size: int = 0,
        keys: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(f"producer-{number}", history, seed)
        self.number = number
        self._large_size, self._keys = large_size, keys
        self._numbers = itertools.count()
        self._fast: Counter[int] = Counter()
        """By generation, how many were sent."""
        self._room = threading.Semaphore(OUTSTANDING_MAX)
        self._producer = client.create_producer(
            topic, producer_name=self.name, send_timeout_millis=0, **options
        )

    def step(self) -> None:
        if self.history.waiting > WAITING_MAX:
            self._stopping.wait(0.01)
            return
        if not self._room.acquire(timeout=LOOK_S):
            return
        generation = self.history.generation
        self._fast[generation] += 1
        if self._fast[generation] > FAST_MAX:
            self.history.hurry.wait(SLOW_S)
        key = self.number, next(self._numbers)
        options = {}
        if self._keys:
            options["partition_key"] = f"k{key[1] % self._keys}"
        size = self.random.choice((40, 60, 200, 900))
        if self._large_size and self.random.random() < 0.03:
            size = self.random.randrange(self._large_size // 3, self._large_size)
        payload = payload_of(key, generation, size)
        self.history.sent(key, lane=key[1] % (self._keys or 1))
        self._producer.send_async(payload, lambda *answer: self._answered(key, *answer), **options)

    def _answered(self, key: Key, result: Any, message_id: Any) -> None:
        if result == _pulsar.Result.Ok:
            place = message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()
            self.history.receipt(key, None if place[1] < 0 else place)
            self.reach(self.history.generations[key])
        else:
            self.history.gave_up(key)
        self._room.release()

    def await_receipts(self, timeout_s: float) -> None:
        """Everything that was sent has its receipt."""
        deadline = time.monotonic() + timeout_s
        for _ in range(OUTSTANDING_MAX):
            assert self._room.acquire(timeout=max(deadline - time.monotonic(), 0)), self.name


# -- the official client's consumers -----------------------------------------------------------------


class OfficialConsumer(Worker):
    def __init__(
        self,
        client: pulsar.Client,
        topic: str,
        subscription: str,
        sub_type: pulsar.ConsumerType,
        history: LoadHistory,
        seed: int,
        *,
        cumulative: bool = False,
    ) -> None:
        """`cumulative`: it may ack up to a message, also between two chunks of another."""
        super().__init__(f"{subscription}-official", history, seed)
        self.subscription = subscription
        self._cumulative = cumulative
        self._kept: list[pulsar.Message] = []
        self.acks_all = False
        history.joined(subscription, self.name, "queue")
        self._consumer = client.subscribe(
            topic,
            subscription,
            consumer_type=sub_type,
            consumer_name=self.name,
            initial_position=pulsar.InitialPosition.Earliest,
            receiver_queue_size=RECEIVER_QUEUE,
            batch_index_ack_enabled=True,
            max_pending_chunked_message=100,
        )

    def step(self) -> None:
        try:
            message = self._consumer.receive(int(LOOK_S * 1000))
        except pulsar.Timeout:
            if self.acks_all:
                self._ack_kept()
            return
        key, generation = key_of(message.data())
        self.reach(generation)
        self.history.delivered(
            self.subscription, self.name, key, _place_of(message), life=max(self.reached, 0)
        )
        self._kept.append(message)
        if len(self._kept) >= self.random.choice((1, 5, 40)):
            self._ack_kept()

    def _ack_kept(self) -> None:
        """Ack what was received, one by one or at once; some of it only the next time."""
        if not self._kept:
            return
        messages, self._kept = self._kept, []
        if self._cumulative and self.random.random() < 0.7:
            self._give([messages[-1]], is_cumulative=True)
            return
        if not self.acks_all and self.random.random() < 0.3:
            self.random.shuffle(messages)
            self._kept = [messages.pop() for _ in range(len(messages) // 3)]
        self._give(messages, is_cumulative=False)

    def _give(self, messages: list[pulsar.Message], *, is_cumulative: bool) -> None:
        is_current = self.reached == self.history.generation
        for message in messages:
            given_at = time.monotonic()
            if is_cumulative:
                self._consumer.acknowledge_cumulative(message)
            else:
                self._consumer.acknowledge(message)
            if is_current:  # or nobody knows to which broker the ack goes, if to any
                self.history.note(
                    "ack",
                    **self.history.ack_of(
                        self.subscription,
                        self.name,
                        [_place_of(message)],
                        is_cumulative=is_cumulative,
                    ),
                    t=given_at,
                    slack=CLIENT_ACK_GROUPING_S,
                    life=self.reached,
                )

    def end(self) -> None:
        if self.failure is None:
            self._consumer.close()


def _place_of(message: pulsar.Message) -> Place:
    message_id = message.message_id()
    return message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()
