"""Transactions: what they cost beside the same messages without, how many a second, how much memory.

    python -m bench transactions
    MILEPOST_PEER=… python -m bench transactions             # the rate of Apache Pulsar too (bench/peers.py)
    python -m bench.transactions pulsar://127.0.0.1:6650     # … or of another broker that runs already

The rate is that of the broker and its disk: the load is one process of prepared bytes
(`bench/load/transactor.py`), a sixth of the broker's CPU or less, and the report says how much it took. Each
transaction is six requests, and each is on disk before the next is sent. So its time is at least six syncs,
however little it costs, and 32 at once are bound by 32 / (6 × the time of a sync) a second.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

import uvloop

import bench
from bench import Result, at_least, at_most, peers
from bench.load.link import Frames, Link
from bench.load.target import Target, started
from bench.load.transactor import TTL_MS, Transactor
from milepost.positions import TxnId
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind
from milepost.wire.scanners.encode import send_frame

# One message and one ack in each.
AT_ONCE = 32
SMALL, SMALL_FULL = 4000, 20_000
RATE_MIN = 2000.0

# Messages of 100 bytes, in transactions of a hundred, as many at once as of the small ones. A lone producer
# pays alone for three more turns of the loop and commits of the journal; that row has no target.
LARGE_EACH = 100
LARGE, LARGE_FULL = 6720, 26_880
LONE, LONE_FULL = 420, 1680
COST_MAX = 1.3
# Of a transaction: it is opened, gets its topic, its messages, and its end.
ROUND_TRIPS = 4
# Many short turns: the speed of a shared machine changes by the second.
ROUNDS = 21

OPEN = 10_000
OPEN_MIB_MAX = 64.0


class Client:
    """One connection that opens transactions, publishes in them, and ends them."""

    def __init__(self, link: Link) -> None:
        self._link = link
        # By producer and sequence id.
        self._receipts: dict[tuple[int, int], asyncio.Future[None]] = {}
        self._sequence_ids: Counter[int] = Counter()
        link.hot[Kind.SEND_RECEIPT] = self._received

    async def open(self) -> TxnId:
        command = pb.CommandNewTxn(txn_ttl_millis=TTL_MS, tc_id=0)
        answer: Any = await self._link.request(command)
        return TxnId(answer.txnid_most_bits, answer.txnid_least_bits)

    async def add_topic(self, txn: TxnId, topic: str) -> None:
        await self._link.request(
            pb.CommandAddPartitionToTxn(
                txnid_least_bits=txn.least, txnid_most_bits=txn.most, partitions=[topic]
            )
        )

    async def end(self, txn: TxnId) -> None:
        await self._link.request(
            pb.CommandEndTxn(
                txnid_least_bits=txn.least, txnid_most_bits=txn.most, txn_action=pb.COMMIT
            )
        )

    async def publish(
        self, payloads: Sequence[bytes], txn: TxnId | None = None, producer_id: int = 0
    ) -> None:
        """Send messages, and wait for the last receipt."""
        frames: list[bytes] = []
        now_ms = int(time.time() * 1000)
        sequence_id = self._sequence_ids[producer_id]
        for payload in payloads:
            metadata = pb.MessageMetadata(
                producer_name="bench", sequence_id=sequence_id, publish_time=now_ms
            )
            if txn is not None:
                metadata.txnid_least_bits, metadata.txnid_most_bits = txn.least, txn.most
            data = metadata.SerializeToString()
            frames += send_frame(producer_id, sequence_id, data, payload, txn_id=txn)
            sequence_id += 1
        self._sequence_ids[producer_id] = sequence_id
        last = asyncio.get_running_loop().create_future()
        self._receipts[producer_id, sequence_id - 1] = last
        self._link.writelines(frames)
        await self._link.finished(last, 30)

    def _received(self, data: bytes, frames: Frames) -> None:
        for first, _ in frames:
            size = int.from_bytes(data[first + 4 : first + 8], "big")
            receipt = pb.BaseCommand.FromString(data[first + 8 : first + 8 + size]).send_receipt
            waiting = self._receipts.pop((receipt.producer_id, receipt.sequence_id), None)
            if waiting is not None:
                waiting.set_result(None)


class Rate(NamedTuple):
    per_s: float
    broker_us: float | None
    """CPU of the broker for one transaction."""
    client_us: float
    """The same of the load beside it: how far it is from being what is measured."""


async def small(target: Target, count: int) -> Rate:
    """Transactions one behind the other, 32 at once, each with one message and one ack, every step
    answered before the next."""
    name = f"persistent://public/default/bench-{time.time_ns()}"
    source, sink = f"{name}-in", f"{name}-out"
    link, feeder = await Link.open(target.address), await Link.open(target.address)
    positions: list[tuple[int, int]] = []

    def received(data: bytes, frames: Frames) -> None:
        for first, _ in frames:
            size = int.from_bytes(data[first + 4 : first + 8], "big")
            found = pb.BaseCommand.FromString(data[first + 8 : first + 8 + size]).message
            positions.append((found.message_id.ledgerId, found.message_id.entryId))

    await link.subscribe(source, "s", 0, shared=True)
    await feeder.produce(source, 0)
    filler = Client(feeder)
    for _ in range(0, count, 1000):
        await filler.publish([b"x" * 100] * 1000)
    link.hot[Kind.MESSAGE] = received
    link.flow(0, count)
    while len(positions) < count:
        await asyncio.sleep(0.01)
    await link.produce(sink, 0)
    await link.connect_coordinator()
    before, own, began = target.cpu_seconds(), time.process_time(), time.perf_counter()
    transactor = Transactor(link, AT_ONCE, source, sink, iter(positions[:count]))
    await link.finished(transactor.done, 120)
    took = time.perf_counter() - began
    own, after = time.process_time() - own, target.cpu_seconds()
    link.close()
    feeder.close()
    broker_us = None if before is None or after is None else (after - before) / count * 1e6
    return Rate(count / took, broker_us, own / count * 1e6)


class Cost(NamedTuple):
    """CPU seconds of the broker for a million messages."""

    alone: float
    within: float
    """In transactions of a hundred."""
    ratio: float
    """Of the two ways in turns that follow each other."""
    apart: float
    """The same ratio of messages without a transaction that are sent in as many round trips as one has."""


async def large(target: Target, count: int, producers: int) -> Cost:
    """What messages cost alone, in transactions, and in the round trips of a transaction without one.

    Producers of one client, which share its connection and its writes, as those of the Java client
    do. Each sends a hundred messages and waits for their receipts, again and again. The ways take turns,
    and which comes first does so, too: a checkpoint, or what others do on the machine, strikes a turn of
    any. What counts is the median of the ratios, so that no lucky turn decides. A turn of each comes
    before, in which the topics get their states.
    """
    name = f"persistent://public/default/bench-{time.time_ns()}"
    link = await Link.open(target.address)
    link.consolidates = True
    client = Client(link)
    for number in range(producers):
        await link.produce(f"{name}-{number}", number)
    payloads = [b"z" * 100] * LARGE_EACH
    each = max(count // ROUNDS // producers, 1)

    async def alone(number: int) -> None:
        await client.publish(payloads, None, number)

    async def within(number: int) -> None:
        txn = await client.open()
        await client.add_topic(txn, f"{name}-{number}")
        await client.publish(payloads, txn, number)
        await client.end(txn)

    async def apart(number: int) -> None:
        for first in range(0, LARGE_EACH, LARGE_EACH // ROUND_TRIPS):
            await client.publish(payloads[first : first + LARGE_EACH // ROUND_TRIPS], None, number)

    async def again(way: Callable[[int], Awaitable[None]], number: int) -> None:
        for _ in range(each):
            await way(number)

    async def cost(way: Callable[[int], Awaitable[None]]) -> float:
        before = target.cpu_seconds()
        await asyncio.gather(*[again(way, number) for number in range(producers)])
        after = target.cpu_seconds()
        assert before is not None
        assert after is not None
        return (after - before) / (each * producers * LARGE_EACH) * 1e6

    ways = (alone, within, apart)
    turns: list[list[float]] = []
    for number in range(1 + ROUNDS):
        first = number % len(ways)
        found = {way: await cost(way) for way in (*ways[first:], *ways[:first])}
        turns.append([found[way] for way in ways])
    link.close()
    median, counted = statistics.median, turns[1:]
    return Cost(
        median([alone_s for alone_s, _, _ in counted]),
        median([within_s for _, within_s, _ in counted]),
        median([within_s / alone_s for alone_s, within_s, _ in counted]),
        median([apart_s / alone_s for alone_s, _, apart_s in counted]),
    )


async def opened(target: Target) -> float:
    """MiB of memory for many transactions that are open, each with a topic."""
    name = f"persistent://public/default/bench-{time.time_ns()}"
    link = await Link.open(target.address)
    await link.produce(name, 0)
    client = Client(link)
    await client.add_topic(await client.open(), name)
    before = target.rss_mib()

    async def some() -> None:
        for _ in range(OPEN // AT_ONCE):
            await client.add_topic(await client.open(), name)

    await asyncio.gather(*[some() for _ in range(AT_ONCE)])
    after = target.rss_mib()
    link.close()
    assert before is not None
    assert after is not None
    return after - before


async def measure(other: Target | None = None) -> list[Result]:
    results = []
    async with started() as target:
        count = SMALL_FULL if bench.FULL else SMALL
        ours = await small(target, count)
        name = f"transactions with a message and an ack, {AT_ONCE} at once"
        results.append(at_least(name, ours.per_s, "/s", RATE_MIN))
        name = f"the broker's CPU for one; the load beside it takes {ours.client_us:.0f} µs"
        results.append(Result(name, ours.broker_us or 0.0, "µs"))
        if other is not None:
            theirs = await small(other, count)
            name = f"the same against {theirs.per_s:,.0f}/s there"
            results.append(at_least(name, ours.per_s / theirs.per_s, "x", 1))
        many, lone = (LARGE_FULL, LONE_FULL) if bench.FULL else (LARGE, LONE)
        alone, within, ratio, apart = await large(target, many, AT_ONCE)
        name = f"a million messages: {alone:.1f} CPU s alone, {within:.1f} in transactions of 100"
        results.append(at_most(name, ratio, "x", COST_MAX))
        name = f"without transactions, in {ROUND_TRIPS} round trips as they have"
        results.append(Result(name, apart, "x"))
        alone, within, ratio, _ = await large(target, lone, 1)
        name = f"of one producer: {alone:.1f} CPU s alone, {within:.1f} in transactions of 100"
        results.append(Result(name, ratio, "x"))
        grown = await opened(target)
        results.append(at_most(f"{OPEN:,} open transactions", grown, "MiB", OPEN_MIB_MAX))
    return results


def run() -> Iterator[Result]:
    try:
        with peers.running("pulsar") as peer:
            yield from uvloop.run(measure(Target(f"pulsar://{peer.address}", peer.pid)))
    except peers.Unavailable as reason:
        print(f"  not compared with Apache Pulsar: {reason}", flush=True)
        yield from uvloop.run(measure())


if __name__ == "__main__":
    from bench.__main__ import show

    there = Target(sys.argv[1]) if len(sys.argv) > 1 else None
    show(uvloop.run(measure(there)))
