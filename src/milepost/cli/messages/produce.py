"""`milepost produce`: publishes messages.

    milepost produce orders -m "one coffee" -k guest-7
    tail -f app.log | milepost produce logs
    milepost consume orders --exit --json | milepost produce copy --json

    milepost produce orders --schema -m '{"id": 7}'

It returns when every message has its receipt: on disk, then.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.input_files import InputFile
from milepost.cli.messages.lines import Cutter, Line, read_line, repeated
from milepost.cli.messages.messaging_client import run
from milepost.cli.messages.values import NO_VALUE, TopicSchemas, ValueCodec
from milepost.cli.output import note
from milepost.cli.quantities import Number, Property
from milepost.errors import InvalidInput

if TYPE_CHECKING:
    from milepost.client.client import Client
    from milepost.positions.ids import MessageId

READ_SIZE_BYTES = 64 * 1024
PENDING_MAX = 1000
# Without a receipt for so long, the command says that it waits.
TELL_AFTER_S = 2.0
COMPRESSIONS = ("none", "lz4", "zlib", "zstd", "snappy")


@click.command(cls=RemoteCommand, has_output=False)
@click.argument("topic")
@click.option("-m", "--messages", multiple=True, help="A message; repeatable.")
@click.option(
    "-f",
    "--files",
    type=InputFile(),
    multiple=True,
    metavar="FILE",
    help="A file as one message; - is the standard input.",
)
@click.option("-s", "--separator", help="Cut each -m at this text.")
@click.option("-n", "--num-produce", type=click.IntRange(min=1), default=1, help="So many times.")
@click.option("-k", "--key", help="The key of every message that has none.")
@click.option("-p", "--properties", "properties", type=Property(), multiple=True, help="key=value.")
@click.option("-K", "--key-separator", help="A line is KEY, this, and the payload.")
@click.option("-D", "--delimiter", default="\\n", help="What ends a line of input.  [\\n]")
@click.option(
    "-J", "--json", "is_json", is_flag=True, help="A line is a JSON object, as consume's."
)
@click.option("-S", "--schema", "by_schema", is_flag=True, help="JSON to bytes, by the schema.")
@click.option("-r", "--rate", type=Number(min=0), default=0.0, help="Messages a second.")
@click.option("-db", "--disable-batching", is_flag=True, help="Send each message by itself.")
@click.option("-c", "--chunking", is_flag=True, help="Cut what is too large into chunks.")
@click.option(
    "--compression",
    type=click.Choice(COMPRESSIONS),
    default="none",
    help="Of batches and single messages.  [none]",
)
@click.option("--producer-name", metavar="NAME", help="Else the broker gives it one.")
@click.option("-I", "--ids", is_flag=True, help="Print the id of each message.")
def produce(
    topic: str,
    messages: tuple[str, ...],
    files: tuple[bytes, ...],
    separator: str | None,
    num_produce: int,
    key: str | None,
    properties: tuple[tuple[str, str], ...],
    key_separator: str | None,
    delimiter: str,
    is_json: bool,
    by_schema: bool,
    rate: float,
    ids: bool,
    **options: Any,
) -> None:
    """Publish to TOPIC: -m and -f, or the lines of standard input.

    With --schema each is a value in JSON, which the topic's schema makes bytes of."""
    codec = TopicSchemas(connection(), topic).latest() if by_schema else None

    def as_line(data: bytes) -> Line:
        line = read_line(data, key_separator=key_separator, is_json=is_json)
        line = line._replace(data=payload_of(line, codec, is_json=is_json), value=NO_VALUE)
        merged = {**dict(properties), **(line.properties or {})}
        return line._replace(key=key if line.key is None else line.key, properties=merged)

    source: AsyncIterator[Line]
    if messages or files:
        texts = [
            part for one in messages for part in (one.split(separator) if separator else [one])
        ]
        payloads = [text.encode("utf-8", "surrogateescape") for text in texts]
        payloads += files
        source = _listed(repeated([as_line(data) for data in payloads], num_produce))
    else:
        cut = delimiter.encode().decode("unicode_escape").encode() or b"\n"
        source = _streamed(sys.stdin.buffer, Cutter(cut), as_line)
    client = connection().client(topic)
    sending = publish(
        client,
        topic,
        source,
        producer_options(options) | schema_option(codec),
        rate=rate,
        show_ids=ids,
        checks_first=is_json or by_schema or key_separator is not None,
    )
    count = run(sending)
    note(f"{count} {'message' if count == 1 else 'messages'} published to {topic}")


def payload_of(line: Line, codec: ValueCodec | None, *, is_json: bool) -> bytes | None:
    """The bytes of a line; `InvalidInput` or `SchemaMismatch` names what is wrong with it."""
    if codec is None:
        if line.value is not NO_VALUE:
            raise InvalidInput(
                'a line has a "value": --schema makes bytes of it by the topic\'s schema'
            )
        return line.data
    if line.value is not NO_VALUE:
        return codec.encode(line.value)
    if is_json or line.data is None:  # bytes, or null, as they are
        return line.data
    text = line.data.decode("utf-8", "replace")
    if codec.info.type.name == "STRING":
        return codec.encode(text)
    try:
        value = json.loads(line.data)
    except (ValueError, RecursionError):
        kind = codec.info.type.name
        raise InvalidInput(f"{text!a:.60}: expected JSON, for the topic's {kind} schema") from None
    return codec.encode(value)


def schema_option(codec: ValueCodec | None) -> dict[str, Any]:
    """The producer's schema: what is sent must be of it, and bears its version."""
    if codec is None:
        return {}
    from milepost.schemas import AutoProduceSchema

    return {"schema": AutoProduceSchema(codec.info)}


def producer_options(options: dict[str, Any]) -> dict[str, Any]:
    from milepost import CompressionType

    names = {one.name.lower(): one for one in CompressionType}
    chunking = bool(options["chunking"])
    return {
        "producer_name": options["producer_name"],
        "batching_enabled": not (chunking or options["disable_batching"]),
        "chunking_enabled": chunking,
        "compression_type": names[options["compression"]],
        "block_if_queue_full": True,
    }


async def publish(
    client: Client,
    topic: str,
    lines: AsyncIterator[Line],
    options: dict[str, Any],
    *,
    rate: float = 0.0,
    show_ids: bool = False,
    checks_first: bool = False,
) -> int:
    """Publish every line; returns how many, when all of them have receipts. `checks_first`: a producer
    makes the topic, so there is none before the first line is read and good."""
    if checks_first:
        lines = await _begun(lines)
    async with client:
        producer = await client.create_producer(topic, **options)
        receipts: asyncio.Queue[Awaitable[MessageId] | None] = asyncio.Queue()
        window = Window(PENDING_MAX)
        printing = asyncio.create_task(_await_receipts(receipts, window, show_ids))
        telling = asyncio.create_task(_tell_of_waits(window))
        pace = Pace(rate)
        try:
            async for line in lines:
                await pace.wait()
                await window.enter()
                if printing.done():
                    break  # a message was refused: its error is raised below
                sent = await producer.enqueue(
                    line.data,
                    properties=line.properties,
                    partition_key=line.key,
                    event_timestamp=line.event_time,
                    ordering_key=line.ordering_key,
                )
                receipts.put_nowait(sent)
        finally:
            receipts.put_nowait(None)
            try:
                count = await printing
            finally:
                telling.cancel()
        return count


async def _tell_of_waits(window: Window) -> None:
    """Say so when no receipt comes for a while: a full disk or a quota holds messages back."""
    seen, silent_s = window.answered, 0.0
    while True:
        await asyncio.sleep(TELL_AFTER_S)
        silent_s = 0.0 if window.answered != seen or not window.waiting else silent_s + TELL_AFTER_S
        seen = window.answered
        if silent_s:
            note(
                f"no receipt for {silent_s:g} s, {window.waiting} messages wait; "
                "`milepost brokers healthcheck` says how the broker is"
            )


class Window:
    """How many messages may wait for receipts. Once full, half must be answered before the next:
    one by one, they would make batches of one."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._count = 0
        self._room = asyncio.Event()
        self.answered = 0

    @property
    def waiting(self) -> int:
        return self._count

    async def enter(self) -> None:
        if self._count >= self._size:
            self._room.clear()
            await self._room.wait()
        self._count += 1

    def open(self) -> None:
        """Let every waiting send in: no receipt will make room any more."""
        self._count = 0
        self._room.set()

    def leave(self) -> None:
        self._count -= 1
        self.answered += 1
        if self._count <= self._size // 2:
            self._room.set()


class Pace:
    """At most so many a second, evenly; 0 is as fast as can be."""

    def __init__(self, rate: float) -> None:
        self._step_s = 1 / rate if rate else 0.0
        self._next = time.perf_counter()

    async def wait(self) -> None:
        if not self._step_s:
            return
        ahead_s = self._next - time.perf_counter()
        if ahead_s > 0:
            await asyncio.sleep(ahead_s)
        self._next += self._step_s


async def _await_receipts(
    receipts: asyncio.Queue[Awaitable[MessageId] | None], window: Window, show_ids: bool
) -> int:
    count = 0
    try:
        while (sent := await receipts.get()) is not None:
            message_id = await sent
            count += 1
            window.leave()
            if show_ids:
                click.echo(str(message_id))
    finally:
        window.open()  # a send that waits for room finds out that this has ended
    return count


async def _begun(lines: AsyncIterator[Line]) -> AsyncIterator[Line]:
    """The same lines, when the first of them has been read."""
    first = await anext(lines, None)

    async def all_of_them() -> AsyncIterator[Line]:
        if first is not None:
            yield first
        async for line in lines:
            yield line

    return all_of_them()


async def _listed(lines: Iterable[Line]) -> AsyncIterator[Line]:
    for line in lines:
        yield line


async def _streamed(stream: BinaryIO, cutter: Cutter, as_line: Any) -> AsyncIterator[Line]:
    """Lines as they come: a slow writer's line is published when it is there, not when it ends."""
    read = getattr(stream, "read1", stream.read)
    while data := await asyncio.to_thread(read, READ_SIZE_BYTES):
        for piece in cutter.feed(data):
            yield as_line(piece)
    for piece in cutter.end():
        yield as_line(piece)
