"""One race: a consumer behind a bad network, a user who does things at random, and a history to be judged.

Everything follows from a seed but the order in which the network lets things happen. The user receives,
acks (and waits, or not), gives back, seeks, seeks twice at once, has an operator reset the subscription,
and the connection is cut in between. `milepost.testing.checker` says what may be received: nothing that was
acked, by an ack that was answered, unless a seek came after it; after a seek or reset to an index the message
that has it, whatever was on its way; in the end everything that was not acked, and a chunked message whole.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from milepost.aio import Client
from milepost.broker.operations.reset import Reset, Target, reset
from milepost.client.policies import ConsumerType, InitialPosition
from milepost.errors import MilepostError
from milepost.positions import TopicName
from milepost.testing import checker
from milepost.testing.broker import BrokerForTest
from milepost.testing.checker import History
from milepost.testing.proxy import Proxy, Weather

STEPS = 14
RECEIVE_MS = 5_000
USER = "user"


class Course:
    """A topic that many races are run on, each with a subscription of its own."""

    def __init__(self, client: Client, name: str, seed: int) -> None:
        self.client = client
        self.topic = TopicName.parse(name)
        self.payloads: dict[int, bytes] = {}
        self._random = Random(seed)

    async def publish(self) -> None:
        """A batch, a message, another batch, and a chunked message behind each."""
        topic = str(self.topic)
        rolled = self._random
        for size in (rolled.randint(2, 5), 1, rolled.randint(2, 6)):
            async with await self.client.create_producer(
                topic, batching_enabled=size > 1
            ) as producer:
                payloads = [b"m" * rolled.randint(1, 9) for _ in range(size)]
                for sent in [producer.send_nowait(payload) for payload in payloads]:
                    await sent
            async with await self.client.create_producer(
                topic, chunking_enabled=True, chunk_max_size=200
            ) as producer:
                await producer.send(rolled.randbytes(500))
        reader = await self.client.create_reader(topic, start_index=0)
        while await reader.has_message_available():
            message = await reader.read_next(RECEIVE_MS)
            index = message.index()
            assert index is not None
            self.payloads[index] = message.data()
        await reader.close()


class Race:
    def __init__(self, broker: BrokerForTest, course: Course, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.broker = broker
        self.course = course
        self.topic = course.topic
        self.subscription = f"s-{seed}"
        # Visible indexes in order: a chunked message has that of its last chunk.
        self.indexes = sorted(course.payloads)
        # What must still be received: neither acked, nor perhaps.
        self.left = set(self.indexes)
        self.history = History()
        self.group = {"topic": str(self.topic), "sub": self.subscription}
        self.held: list[Any] = []
        self.log: list[str] = []

    async def run(self) -> None:
        try:
            await self._run()
        except BaseException as error:
            error.add_note(f"seed {self.seed}: {', '.join(self.log)}")
            raise

    async def _run(self) -> None:
        for index in self.indexes:
            message = {"topic": str(self.topic), "message": str(index)}
            sent = self.history.invoke("publish", **message, by="course")
            self.history.ok(sent, id=None, index=index)
        kind = self.random.choice(
            [ConsumerType.Exclusive, ConsumerType.Failover, ConsumerType.Shared]
        )
        self.log.append(kind.name)
        weather = Weather(
            delay_ms_max=self.random.choice([0, 0, 0.5]),
            piece_max=self.random.choice([0, 60, 900]),
        )
        proxy = Proxy("127.0.0.1", self.broker.port, seed=self.seed, weather=weather)
        async with proxy:
            await self._through(proxy, kind)
        await self._settle(self.course.client)
        assert checker.judge(self.history.lines()).anomalies == []

    async def _through(self, proxy: Proxy, kind: ConsumerType) -> None:
        async with Client(
            proxy.url, follow_lookups=False, backoff_first_s=0.001, backoff_max_s=0.01
        ) as client:
            self.history.note("join", **self.group, by=USER, alone=True)
            self.consumer = await client.subscribe(
                str(self.topic),
                self.subscription,
                kind,
                initial_position=InitialPosition.Earliest,
                receiver_queue_size=self.random.choice([1, 3, 1000]),
                negative_ack_redelivery_delay_ms=2,
            )
            steps = [
                *[self._receive] * 5,
                *[self._ack] * 3,
                self._ack_later,
                self._cumulative,
                self._release,
                *[self._seek] * 2,
                self._seek_twice,
                self._reset,
            ]
            for _ in range(STEPS):
                if self.random.random() < 0.2:
                    self.log.append("cut")
                    proxy.cut()
                await self.random.choice(steps)()

    # -- what the user does --------------------------------------------------------------------------

    async def _receive(self) -> None:
        # What the user holds does not come again by itself.
        if not self.left - {message.index() for message in self.held}:
            return
        message = await self.consumer.receive(RECEIVE_MS)
        self.log.append(f"receive {message.index()}")
        self._note_received(message, USER)
        self.held.append(message)

    def _note_received(self, message: Any, by: str) -> None:
        index = message.index()
        is_whole = message.data() == self.course.payloads.get(index)
        named = {"message": str(index), "index": index, "id": _place_of(message)}
        self.history.note("receive", **self.group, by=by, **named, whole=is_whole)

    def _ack_of(self, message: Any) -> dict[str, Any]:
        return {**self.group, "by": USER, "ids": [_place_of(message)]}

    async def _ack(self) -> None:
        if not self.held:
            return
        message = self.held.pop(self.random.randrange(len(self.held)))
        named = message if self.random.random() < 0.7 else message.message_id()
        self.log.append(f"ack {message.index()}{'' if named is message else ' by id'}")
        asked = self.history.invoke("ack", **self._ack_of(message))
        await self.consumer.acknowledge(named)
        self.history.ok(asked)
        self.left.discard(message.index())

    async def _ack_later(self) -> None:
        if self.held:
            message = self.held.pop(self.random.randrange(len(self.held)))
            self.log.append(f"ack {message.index()} soon")
            self.history.note("ack", **self._ack_of(message))
            self.consumer.acknowledge_nowait(message)
            self.left.discard(message.index())

    async def _cumulative(self) -> None:
        if not self.held or self.consumer._options.is_shared:
            return
        message = self.held.pop(self.random.randrange(len(self.held)))
        self.log.append(f"ack to {message.index()}")
        asked = self.history.invoke("ack", **self._ack_of(message), cumulative=True)
        await self.consumer.acknowledge_cumulative(message)
        self.history.ok(asked)
        self.left = {one for one in self.left if one > message.index()}

    async def _release(self) -> None:
        if self.held:
            message = self.held.pop()
            self.log.append(f"release {message.index()}")
            self.history.note("release", **self.group, by=USER, ids=[_place_of(message)])
            self.consumer.negative_acknowledge(message)

    async def _seek(self) -> None:
        index = self.random.choice(self.indexes)
        self.log.append(f"seek {index}")
        await self._seek_to(index)
        self._moved(index)

    async def _seek_to(self, index: int) -> None:
        self.held.clear()
        asked = self.history.invoke("seek", **self.group, by=USER, index=index)
        await self.consumer.seek(index=index)
        self.history.ok(asked)

    def _moved(self, index: int) -> None:
        """What was acked before a seek, waited for or not, is not acked any more, however late it comes."""
        self.left = {one for one in self.indexes if one >= index}

    async def _seek_twice(self) -> None:
        first, second = self.random.choices(self.indexes, k=2)
        self.log.append(f"seek {first} and {second}")
        await asyncio.gather(self._seek_to(first), self._seek_to(second))
        self._moved(second)

    async def _reset(self) -> None:
        index = self.random.choice(self.indexes)
        self.log.append(f"reset {index}")
        asked = self.history.invoke("reset", **self.group, by="operator", index=index)
        self.held.clear()
        subscription = self.consumer._subscription
        before = (subscription.inbox.seek_epoch, subscription._attachments)
        broker = self.broker.running.broker
        await reset(broker, self.topic, self.subscription, Reset(Target(index=index)), by="race")
        self.history.ok(asked)
        # The operator's word is on its way to the consumer, or it comes back to find it.
        while (subscription.inbox.seek_epoch, subscription._attachments) == before:
            await asyncio.sleep(0.001)  # sleep: the frame travels through the proxy
        while not subscription.is_connected:
            await asyncio.sleep(0.001)  # sleep: it is coming back
        self.history.note("join", **self.group, by=USER, alone=True)
        self._moved(index)

    # -- in the end ----------------------------------------------------------------------------------

    async def _settle(self, direct: Client) -> None:
        """The next consumer receives what is left, and nothing that was acked."""
        self.history.note("join", **self.group, by="last")
        consumer = await direct.subscribe(
            str(self.topic), self.subscription, ConsumerType.Exclusive
        )
        received: set[int] = set()
        while not self.left <= received:
            message = await consumer.receive(RECEIVE_MS)
            self._note_received(message, "last")
            received.add(message.index())
        await consumer.close()
        self.history.note("drained", **self.group)


def _place_of(message: Any) -> list[int]:
    message_id = message.message_id()
    return [message_id.ledger_id, message_id.entry_id, message_id.batch_index]


async def settle_errors(race: Race) -> None:
    """Run a race; an error that a user would be told of is not a violation, but there is none here."""
    try:
        await race.run()
    except MilepostError as error:
        raise AssertionError(f"seed {race.seed}: {error!r}; {', '.join(race.log)}") from error
