"""What publishing to one topic feels of clients that are stuck, or mean ill, on another.

    python -m bench attacks
    python -m bench --full attacks      # more rounds
    python -m bench steps               # how long the broker's loop is held, in processor time

An attack is something that a client can do with a few frames and that makes work. Each is prepared on a topic
of its own, by a process of its own (`bench/load/attacker.py`). Then one connection publishes to another topic
at a steady rate, with the attack going on and without it, in turns (`bench/load/beside.py`); what counts is
how much the p99 of publishing grows. On a disk that others use too that says little of the broker: `steps`
shows the longest steps of its loop meanwhile (`bench/load/step_times.py`).

A new attack is a function that prepares itself and returns how it goes on, and a line in `ATTACKS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress

import uvloop

import bench
from bench import Result, at_most
from bench.load.attacker import Attacker
from bench.load.beside import SETTLE_S, Disturbance, compare
from bench.load.link import Frames, Link
from bench.load.target import started
from bench.load.workloads import Load
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, join_batch
from milepost.wire.commands import Kind
from milepost.wire.replies import reply
from milepost.wire.scanners.encode import send_frame

GROWTH_MAX = 3.0
ROUNDS, ROUNDS_FULL = 4, 16
WINDOW_FRAMES = 500

KEYS = 100
STUCK_MESSAGES = 40_000
FLOWS_PER_SECOND = 1000

ACKED_MESSAGES = 200_000

HELD_MESSAGES = 40_000

DELAYED_MESSAGES = 20_000
FAR_AWAY_MS = 4_000_000_000_000

# As many as a topic takes, of producers that have as many as one may.
UNFINISHED_PRODUCERS, UNFINISHED_EACH = 10, 100
UNFINISHED_CHUNKS = 5
CHUNKS_PER_SECOND = 500

SHARED, KEY_SHARED = pb.CommandSubscribe.Shared, pb.CommandSubscribe.Key_Shared

Attack = Callable[[Load], Awaitable[Disturbance]]


# -- a consumer that is stuck ------------------------------------------------------------------------


async def stuck_consumer(load: Load) -> Disturbance:
    """One of four Key_Shared consumers takes nothing, and the others ask for one message after another:
    what is for the stuck one lies between all that is for them."""
    topic = load.topic("stuck")
    link = await load.link()
    await link.produce(topic, 0)
    for number in range(4):
        await _subscribe(link, topic, "s", number, KEY_SHARED)
    link.hot[Kind.MESSAGE] = _ignored
    await _send(link, [_keyed(number) for number in range(STUCK_MESSAGES)])
    for number in (1, 2, 3):
        link.flow(number, STUCK_MESSAGES)
    await asyncio.sleep(1.0)

    def ask() -> None:
        for number in (1, 2, 3):
            link.flow(number, 1)

    return _again_and_again(ask, FLOWS_PER_SECOND)


def _keyed(number: int) -> bytes:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=number, publish_time=1, partition_key=f"k{number % KEYS}"
    )
    return b"".join(send_frame(0, number, metadata.SerializeToString(), bytes(100)))


# -- commands that name very much --------------------------------------------------------------------


async def huge_ack(load: Load) -> Disturbance:
    """An ACK of every second message of a very large batch: as many ranges as a frame can name."""
    topic = load.topic("acked")
    link = await load.link()
    await link.produce(topic, 0)
    await _subscribe(link, topic, "s", 0, SHARED)
    ids = _collect(link)
    single = SingleMessage(pb.SingleMessageMetadata(payload_size=0), b"")
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=ACKED_MESSAGES
    ).SerializeToString()
    batch = join_batch([single] * ACKED_MESSAGES)
    await _send(link, [b"".join(send_frame(0, 0, metadata, batch, num_messages=ACKED_MESSAGES))])
    link.flow(0, 1)
    while not ids:
        await asyncio.sleep(0.01)
    ack = pb.CommandAck(consumer_id=0, ack_type=pb.CommandAck.Individual)
    word = 0x5555_5555_5555_5555
    ack.message_id.add(
        ledgerId=ids[0][0], entryId=ids[0][1], ack_set=[word] * (ACKED_MESSAGES // 64)
    )
    return _once(lambda: link.request(ack))


async def huge_redeliver(load: Load) -> Disturbance:
    """A REDELIVER of everything that a consumer holds, each message by its id; all is sent again."""
    topic = load.topic("redelivered")
    link = await load.link()
    await link.produce(topic, 0)
    await _subscribe(link, topic, "s", 0, SHARED)
    ids = _collect(link)
    await _send(link, [_keyed(number) for number in range(HELD_MESSAGES)])
    link.flow(0, HELD_MESSAGES)
    while len(ids) < HELD_MESSAGES:
        await asyncio.sleep(0.01)
    command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0)
    for ledger_id, entry_id in ids:
        command.message_ids.add(ledgerId=ledger_id, entryId=entry_id)
    frame = reply(command)

    came = 0

    def received(data: bytes, frames: Frames) -> None:
        nonlocal came
        came += len(frames)

    link.hot[Kind.MESSAGE] = received

    async def redeliver() -> None:
        nonlocal came
        came = 0
        link.write(frame)
        link.flow(0, HELD_MESSAGES)
        while came < HELD_MESSAGES:
            await asyncio.sleep(0.01)

    return _once(redeliver)


# -- messages that wait ------------------------------------------------------------------------------


async def delayed_messages(load: Load) -> Disturbance:
    """Subscriptions that come one after another, and meet very many messages whose time is far away."""
    topic = load.topic("delayed")
    link = await load.link()
    await link.produce(topic, 0)
    link.hot[Kind.MESSAGE] = _ignored
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, deliver_at_time=FAR_AWAY_MS
    )
    frames = []
    for number in range(DELAYED_MESSAGES):
        metadata.sequence_id = number
        metadata.deliver_at_time = FAR_AWAY_MS + number * 7919 % 1000
        frames.append(b"".join(send_frame(0, number, metadata.SerializeToString(), bytes(100))))
    await _send(link, frames)
    came = 0

    @asynccontextmanager
    async def meet() -> AsyncIterator[None]:
        nonlocal came
        came += 1
        await _subscribe(link, topic, f"s{came}", came, SHARED)
        link.flow(came, DELAYED_MESSAGES)
        yield
        await link.close_consumer(came)

    return meet


# -- messages that are never finished ------------------------------------------------------------------


async def unfinished_chunks(load: Load) -> Disturbance:
    """As many chunked messages as a topic takes, none of them finished, with messages between their
    chunks. A consumer has got all that it can get; others come one after another and meet all of it; and
    the producers go on."""
    topic = load.topic("unfinished")
    link = await load.link()
    link.hot[Kind.MESSAGE] = _ignored
    for producer in range(UNFINISHED_PRODUCERS):
        await link.produce(topic, producer)
    await _subscribe(link, topic, "s", 0, SHARED)
    link.flow(0, 1_000_000)
    for chunk_id in range(UNFINISHED_CHUNKS):
        for number in range(UNFINISHED_EACH):
            frames = []
            for producer in range(UNFINISHED_PRODUCERS):
                frames += [_chunk(producer, number, chunk_id), _keyed(number)]
            await _send(link, frames)
    came = 0
    sent = 0

    def go_on() -> None:
        nonlocal sent
        turn, number = divmod(sent, UNFINISHED_EACH)
        sent += 1
        link.write(_chunk(turn % UNFINISHED_PRODUCERS, number, UNFINISHED_CHUNKS))

    @asynccontextmanager
    async def attack() -> AsyncIterator[None]:
        nonlocal came
        came += 1
        async with _again_and_again(go_on, CHUNKS_PER_SECOND)():
            await _subscribe(link, topic, f"s{came}", came, SHARED)
            link.flow(came, 1_000_000)
            yield
            await link.close_consumer(came)

    return attack


def _chunk(producer: int, number: int, chunk_id: int) -> bytes:
    metadata = pb.MessageMetadata(
        producer_name=f"p{producer}",
        sequence_id=number,
        publish_time=1,
        uuid=f"p{producer}-{number}",
        chunk_id=chunk_id,
        num_chunks_from_msg=1000,
        total_chunk_msg_size=1_000_000,
    ).SerializeToString()
    return b"".join(send_frame(producer, number, metadata, bytes(100), is_chunk=True))


ATTACKS: dict[str, Attack] = {
    "a stuck Key_Shared consumer": stuck_consumer,
    "a huge ACK": huge_ack,
    "a huge REDELIVER": huge_redeliver,
    "many delayed messages": delayed_messages,
    "many unfinished chunked messages": unfinished_chunks,
}


# -- what attacks are made of ------------------------------------------------------------------------


def _again_and_again(act: Callable[[], None], per_second: float) -> Disturbance:
    """An attack that goes on: something done so many times a second."""

    async def go_on() -> None:
        while True:
            act()
            await asyncio.sleep(1 / per_second)

    @asynccontextmanager
    async def attack() -> AsyncIterator[None]:
        task = asyncio.get_running_loop().create_task(go_on())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    return attack


def _once(act: Callable[[], Awaitable[object]]) -> Disturbance:
    """An attack of one command; what it makes the broker do is over when the attack is."""

    async def later() -> None:
        await asyncio.sleep(2 * SETTLE_S)
        await act()

    @asynccontextmanager
    async def attack() -> AsyncIterator[None]:
        task = asyncio.ensure_future(later())
        yield
        await task

    return attack


def _ignored(data: bytes, frames: Frames) -> None:
    """What the attacker is sent is of no interest to it."""


def _collect(link: Link) -> list[tuple[int, int]]:
    """The positions of the entries that come from now on."""
    positions: list[tuple[int, int]] = []

    def received(data: bytes, frames: Frames) -> None:
        for first, _ in frames:
            size = int.from_bytes(data[first + 4 : first + 8], "big")
            command = pb.BaseCommand.FromString(data[first + 8 : first + 8 + size])
            found = command.message.message_id
            positions.append((found.ledgerId, found.entryId))

    link.hot[Kind.MESSAGE] = received
    return positions


async def _subscribe(link: Link, topic: str, name: str, consumer_id: int, sub_type: int) -> None:
    await link.request(
        pb.CommandSubscribe(
            topic=topic,
            subscription=name,
            subType=sub_type,  # type: ignore[arg-type]
            consumer_id=consumer_id,
            consumer_name=f"c{consumer_id}",
            initialPosition=pb.CommandSubscribe.Earliest,
        )
    )


async def _send(link: Link, made: list[bytes]) -> None:
    """Publish, and wait for all receipts."""
    receipts = 0

    def received(data: bytes, found: Frames) -> None:
        nonlocal receipts
        receipts += len(found)

    link.hot[Kind.SEND_RECEIPT] = received
    for first in range(0, len(made), WINDOW_FRAMES):
        link.writelines(made[first : first + WINDOW_FRAMES])
        while receipts < min(first + WINDOW_FRAMES, len(made)):
            await asyncio.sleep(0.001)


async def measure(names: list[str] | None = None) -> list[Result]:
    rounds = ROUNDS_FULL if bench.FULL else ROUNDS
    results = []
    for name in names or ATTACKS:
        async with started() as target:
            async with Attacker(__name__, name, target.url) as attacker:
                beside = await compare(Load(target), "beside", attacker.attack, rounds=rounds)
            results.append(
                at_most(
                    f"{name}: p99 of publishing {beside.quiet_ms:.2f} ms, "
                    f"beside it {beside.busy_ms:.2f}",
                    beside.growth,
                    "x",
                    GROWTH_MAX,
                )
            )
    return results


def run() -> Iterator[Result]:
    yield from uvloop.run(measure())
