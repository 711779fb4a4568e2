"""`milepost perf`: measures publishing and consuming.

    milepost perf produce orders -n 100000 -s 1024
    milepost perf consume orders -n 100000

A line a second goes to standard error, the result to standard output: rates, and for produce the latency
from send to receipt. For consume it is the age of a message when it arrives, by both clocks: of messages
that lay there before, how long ago they were published.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.groups import Group
from milepost.cli.messages.latencies import Latencies
from milepost.cli.messages.messaging_client import run, together
from milepost.cli.messages.peek import partitions_of
from milepost.cli.messages.produce import COMPRESSIONS, Pace, Window, producer_options
from milepost.cli.output import note, show_rows
from milepost.cli.quantities import MESSAGE_SIZE, Number
from milepost.errors import Timeout

if TYPE_CHECKING:
    from milepost.client.client import Client

QUANTILES = ("p50", "p95", "p99", "p99.9", "max")
RATES = ("messages", "seconds", "msg/s", "MB/s")
COLUMNS = (*RATES, *(f"{one} ms" for one in QUANTILES))
AGE_COLUMNS = (*RATES, *(f"age {one} ms" for one in QUANTILES))
INTERVAL_S = 1.0
IDLE_MS = 10_000

perf = Group("perf", help="Measure publishing and consuming.")


class Meter:
    """Counts of one run, and of the second that passes."""

    def __init__(self, figure: str = "p99") -> None:
        self._figure = figure
        self.count = 0
        self.size_bytes = 0
        self.latencies = Latencies()
        self.start()

    def start(self) -> None:
        self.began = self.ended = time.perf_counter()
        self._last = (self.began, 0)

    def add(self, size: int, latency_s: float) -> None:
        self.count += 1
        self.size_bytes += size
        self.latencies.add(latency_s)
        self.ended = time.perf_counter()

    def line(self) -> str:
        then, before = self._last
        now = time.perf_counter()
        self._last = (now, self.count)
        rate = (self.count - before) / max(now - then, 1e-9)
        p99 = self.latencies.quantile_ms(0.99)
        return f"{self.count} messages, {rate:,.0f} msg/s, {self._figure} {p99:.1f} ms"

    def row(self) -> tuple[Any, ...]:
        took = max(self.ended - self.began, 1e-9)
        quantiles = self.latencies.summary()
        return (
            self.count,
            round(took, 3),
            round(self.count / took),
            round(self.size_bytes / took / 1e6, 2),
            *(quantiles[name] for name in QUANTILES),
        )


@asynccontextmanager
async def _told(meter: Meter) -> AsyncIterator[None]:
    """Tell how it goes, once a second."""

    async def tell() -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            note(meter.line())

    task = asyncio.create_task(tell())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@perf.command(cls=RemoteCommand, help="Publish as fast as it goes, or at a rate.")
@click.argument("topic")
@click.option(
    "-n",
    "--num-messages",
    "count",
    type=click.IntRange(min=1),
    default=100_000,
    help="How many in all.  [100000]",
)
@click.option("-s", "--size", type=MESSAGE_SIZE, default="1024", help="Bytes of a message.  [1024]")
@click.option("-r", "--rate", type=Number(min=0), default=0.0, help="Messages a second.")
@click.option(
    "--max-outstanding",
    "outstanding",
    type=click.IntRange(min=1),
    default=1000,
    help="Messages without a receipt, at most.  [1000]",
)
@click.option("-db", "--disable-batching", is_flag=True, help="Send each message by itself.")
@click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS),
    default="none",
    help="Of batches and single messages.  [none]",
)
def produce(
    topic: str, count: int, size: int, rate: float, outstanding: int, **options: Any
) -> None:
    settings = producer_options({"chunking": False, "producer_name": None, **options})
    settings["max_pending_messages"] = outstanding
    meter = Meter()
    client = connection().client(topic)
    _measure(_publish(client, topic, count, bytes(size), rate, settings, meter), meter, COLUMNS)


def _measure(work: Coroutine[Any, Any, None], meter: Meter, columns: Sequence[str]) -> None:
    """Run it, and show the result; after Ctrl-C that of what was done until then."""
    try:
        run(work)
    except KeyboardInterrupt:
        if meter.count:
            show_rows(columns, [meter.row()])
        raise
    show_rows(columns, [meter.row()])


async def _publish(
    client: Client,
    topic: str,
    count: int,
    payload: bytes,
    rate: float,
    options: dict[str, Any],
    meter: Meter,
) -> None:
    async with client:
        producer = await client.create_producer(topic, **options)
        pace = Pace(rate)
        meter.start()
        window = Window(options["max_pending_messages"])
        sent: asyncio.Queue[tuple[float, Awaitable[Any]] | None] = asyncio.Queue()

        async def answered() -> None:
            """Receipts come in the order of a partition's messages: one task is enough for all."""
            try:
                while (one := await sent.get()) is not None:
                    began, receipt = one
                    await receipt
                    window.leave()
                    meter.add(len(payload), time.perf_counter() - began)
            finally:
                window.open()

        async with _told(meter):
            answering = asyncio.create_task(answered())
            for _ in range(count):
                await pace.wait()
                await window.enter()
                if answering.done():
                    break  # a message was refused: its error is raised below
                sent.put_nowait((time.perf_counter(), producer.send_nowait(payload)))
            sent.put_nowait(None)
            await answering


@perf.command(
    cls=RemoteCommand,
    help="Read, from the beginning, as fast as it goes, until none has come for ten seconds.",
)
@click.argument("topic")
@click.option(
    "-n",
    "--num-messages",
    "count",
    type=click.IntRange(min=1),
    default=100_000,
    help="How many in all.  [100000]",
)
@click.option("-s", "--subscription", help="As this subscription, with acks.")
@click.option(
    "-q",
    "--queue-size",
    type=click.IntRange(min=1),
    default=1000,
    help="Messages that are asked for in advance.  [1000]",
)
def consume(topic: str, count: int, subscription: str | None, queue_size: int) -> None:
    where = connection()
    names: list[str] = []
    if where.admin_url is not None or where.url is None:
        with where.admin() as admin:
            names = partitions_of(admin, topic)
            for name in names:  # a topic that is not there must not be made by looking at it
                admin.get_subscriptions(name)
    meter, client = Meter("p99 age"), where.client(topic)
    _measure(
        _receive(client, topic, names, count, subscription, queue_size, meter), meter, AGE_COLUMNS
    )


async def _receive(
    client: Client,
    topic: str,
    names: list[str],
    count: int,
    subscription: str | None,
    queue_size: int,
    meter: Meter,
) -> None:
    from milepost import InitialPosition
    from milepost.positions.ids import EARLIEST

    meter.start()

    async def receive(name: str) -> None:
        if subscription:
            consumer = await client.subscribe(
                name,
                subscription,
                initial_position=InitialPosition.Earliest,
                receiver_queue_size=queue_size,
            )
            take = consumer.receive
        else:
            reader = await client.create_reader(name, EARLIEST, receiver_queue_size=queue_size)
            take = reader.read_next
        while meter.count < count:
            try:
                message = await take(IDLE_MS)
            except Timeout:
                return  # there are no more
            meter.add(len(message.data()), time.time() - message.publish_timestamp() / 1000)
            if subscription:
                consumer.acknowledge_nowait(message)

    async with client, _told(meter):
        found = names or await client.get_topic_partitions(topic)
        await together(*(receive(name) for name in found))
