"""`milepost consume`: prints messages.

    milepost consume orders --from index:100 --to index:200 --exit -f '%i %I %k %v\\n'
    milepost consume orders --exit --json | jq .data
    milepost consume orders -s billing -n 10          # as a subscription: printed, then acked
    milepost consume orders --exit --schema --where '$.total>=100'

It ends where a terminated topic ends. Without a subscription nothing is acked and no progress moves. Of
several partitions the messages of each come in order.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.messages.messaging_client import run, together
from milepost.cli.messages.peek import end_index, first_chunk_id, index_of, not_there, partitions_of
from milepost.cli.messages.templates import compile_template, json_line, value_of
from milepost.cli.messages.values import NO_VALUE, TopicSchemas
from milepost.cli.messages.where import ABSENT, Condition, Subject, parse_where
from milepost.cli.progress.places import Kind, Place, parse_place
from milepost.client.connection.endpoint import Endpoint
from milepost.errors import SchemaMismatch, Timeout
from milepost.positions.ids import EARLIEST, LATEST, MessageId

if TYPE_CHECKING:
    from milepost.admin import Admin
    from milepost.client.client import Client
    from milepost.client.consuming.consumer import Consumer
    from milepost.client.consuming.multi_consumer import MultiConsumer
    from milepost.client.consuming.reader import Reader
    from milepost.client.messages.message import Message

TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared")
DEFAULT_FORMAT = "%v\\n"

# A message is on its way to the reader of the output within this time.
FLUSH_S = 0.02
# How often the end is looked for while no message comes.
LOOK_AGAIN_MS = 500
LOOKS_MAX = 6


@dataclass(frozen=True)
class Wanted:
    """What of a topic is to be printed."""

    show: Callable[[Message], bytes]
    matches: Callable[[Message], bool]
    # By the partition's name: where it begins, and the first that is not wanted.
    begins: dict[str, MessageId]
    until: dict[str, Place | None]
    # What has a lower index is not wanted: Apache Pulsar begins with the entry that holds it.
    first_index: int
    count: int
    exits: bool
    subscription: str | None
    options: dict[str, Any]


@click.command(cls=RemoteCommand, has_output=False)
@click.argument("topic")
@click.option(
    "--from", "begin", metavar="PLACE", help="Where to begin.  [latest; earliest with -e]"
)
@click.option("--to", "until", metavar="PLACE", help="Where to end: the first not wanted.")
@click.option(
    "-n", "--num-messages", "count", type=click.IntRange(min=0), default=0, help="0: all."
)
@click.option("-e", "--exit", "exits", is_flag=True, help="End at the end of the topic.")
@click.option("-f", "--format", "template", default=DEFAULT_FORMAT, help="%i %I %k %v …  [%v\\n]")
@click.option("-J", "--json", "is_json", is_flag=True, help="A line of JSON for each message.")
@click.option("-S", "--schema", "by_schema", is_flag=True, help="Payloads as JSON, by schema.")
@click.option(
    "-w",
    "--where",
    multiple=True,
    metavar="CONDITION",
    help="Only these: key=…, property.NAME=…, $.PATH>…; also != < <= >= and ~, a part.",
)
@click.option("-s", "--subscription-name", "subscription", help="Consume as this, and ack.")
@click.option(
    "-t",
    "--subscription-type",
    type=click.Choice(TYPES, False),
    default="Exclusive",
    help="Of -s, how its messages are shared out.  [exclusive]",
)
@click.option(
    "-p",
    "--subscription-position",
    type=click.Choice(["Earliest", "Latest"], False),
    default="Latest",
    help="Where a new subscription begins.  [latest]",
)
@click.option(
    "-q",
    "--queue-size",
    type=click.IntRange(min=1),
    default=1000,
    help="Messages that are asked for in advance.  [1000]",
)
def consume(
    topic: str,
    begin: str | None,
    until: str | None,
    count: int,
    exits: bool,
    template: str,
    is_json: bool,
    by_schema: bool,
    where: tuple[str, ...],
    subscription: str | None,
    subscription_type: str,
    subscription_position: str,
    queue_size: int,
) -> None:
    """Print the messages of TOPIC, or of every partition of it. It ends where a terminated topic does.

    Letters of a format: %i index, %I id, %k key, %v payload, %s size, %t and %e publish and event
    time, %h properties, %T topic, %p partition, %n producer, %r redeliveries.
    """
    if subscription and begin:
        raise click.UsageError("a subscription begins where it stands; `milepost seek` moves it")
    if subscription and where:
        raise click.UsageError(
            "--where leaves messages out, which a subscription would have to hold or ack: give one of both"
        )
    conditions = [parse_where(one) for one in where]
    at = connection()
    schemas = TopicSchemas(at, topic)
    shown_by = schemas if by_schema else None
    compiled = compile_template(template, shown_by)
    place = parse_place(begin or ("earliest" if exits else "latest"))
    partitions, begins, ends = resolve(at, topic, place, until)
    from milepost import ConsumerType, InitialPosition

    wanted = Wanted(
        partial(json_line, schemas=shown_by) if is_json else compiled,
        partial(matches, conditions=conditions, schemas=schemas),
        begins,
        ends,
        max(place.number, 0) if place.kind is Kind.INDEX else 0,
        count,
        exits,
        subscription,
        {
            "consumer_type": ConsumerType[subscription_type.replace("_", "")],
            "initial_position": InitialPosition[subscription_position],
            "receiver_queue_size": queue_size,
        },
    )
    run(print_all(at.client(topic), partitions, wanted, sys.stdout.buffer))


def matches(message: Message, conditions: list[Condition], schemas: TopicSchemas) -> bool:
    """Does a message fulfil all conditions?"""
    if not conditions:
        return True
    key = message.partition_key() if message.has_key() else None
    subject = Subject(key, message.properties(), partial(_json_of, message, schemas))
    return all(one.holds(subject) for one in conditions)


def _json_of(message: Message, schemas: TopicSchemas) -> Any:
    """The value by its schema, or the payload if it is JSON; ABSENT if it is neither."""
    if message.has_null_value():
        return ABSENT
    try:
        value = value_of(message, schemas)
        return json.loads(message.data()) if value is NO_VALUE else value
    except (ValueError, RecursionError, SchemaMismatch):
        return ABSENT


def resolve(
    where: Endpoint, topic: str, first: Place, until: str | None
) -> tuple[list[str], dict[str, MessageId], dict[str, Place | None]]:
    """Partitions, and where each begins and ends: places become ids and indexes here."""
    last = parse_place(until) if until else None
    begins: dict[str, MessageId] = {}
    ends: dict[str, Place | None] = {}
    with where.admin() as admin:
        partitions = partitions_of(admin, topic)
        shorter: list[CommandFailed] = []
        for one in partitions:
            try:
                begins[one] = _begin(admin, one, first)
            except CommandFailed as refusal:  # this partition is shorter than others
                shorter.append(refusal)
                begins[one] = LATEST
            ends[one] = last
            if last is not None and (last.is_from_end or last.kind is Kind.LATEST):
                ends[one] = Place(Kind.INDEX, index_of(admin, one, last))
    if len(shorter) == len(partitions):
        raise shorter[0]
    return partitions, begins, ends


def _begin(admin: Admin, topic: str, place: Place) -> MessageId:
    from milepost.admin import Missing

    if place.kind is Kind.EARLIEST:
        return EARLIEST
    if place.kind is Kind.LATEST:
        return LATEST
    if place.message_id is not None:
        return _begin_at_id(admin, topic, place.message_id)
    if place.kind is Kind.TIME:
        return admin.get_message_id_by_timestamp(topic, place.number)
    index = index_of(admin, topic, place)
    try:
        at = admin.get_message_id_by_index(topic, index, precise=True)
    except Missing:
        end = end_index(admin, topic)
        if index > end:
            raise not_there(topic, index, end) from None
        return LATEST  # the next that is published
    return first_chunk_id(admin, topic, at) if at.entry_id >= 0 > at.batch_index else at


def _begin_at_id(admin: Admin, topic: str, at: MessageId) -> MessageId:
    """The id, or that of the first chunk of the message that it names: a reader that begins behind
    that never sees the message. What has expired is left to the broker: it begins with what is kept."""
    from milepost.admin import Missing

    if at.position in (EARLIEST.position, LATEST.position):
        return at
    try:
        return first_chunk_id(admin, topic, at)
    except Missing:
        last = admin.get_last_message_id(topic)
        if at.position > last.position:
            there = f"the last is {last}" if last.entry_id >= 0 else "it has no messages"
            text = f"{topic}: there is no id {at}; {there}"
            raise CommandFailed(text, Exit.NOT_FOUND) from None
        return at


async def print_all(client: Client, partitions: list[str], wanted: Wanted, out: BinaryIO) -> None:
    printer = Printer(out)
    left = Left(wanted.count)
    async with client:
        work = asyncio.create_task(
            together(*(_print_one(client, one, wanted, printer, left) for one in partitions))
        )
        ends = [work, asyncio.create_task(left.is_none.wait()), asyncio.create_task(printer.run())]
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await task
        finally:
            for task in ends:
                task.cancel()
            await asyncio.wait(ends)
        await printer.close()


class Printer:
    """Writes at once and flushes soon; a message is acked when it has been flushed."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._dirty = asyncio.Event()
        self._acks: list[Callable[[], asyncio.Future[None]]] = []
        self._receipts: set[asyncio.Future[None]] = set()

    def print(self, data: bytes, ack: Callable[[], asyncio.Future[None]] | None) -> None:
        self._out.write(data)
        if ack is not None:
            self._acks.append(ack)
        self._dirty.set()

    async def run(self) -> None:
        """Ends by an error only: the reader of the output has left, or an ack was refused."""
        while True:
            await self._dirty.wait()
            await asyncio.sleep(FLUSH_S)
            self._flush()
            for receipt in [one for one in self._receipts if one.done()]:
                self._receipts.remove(receipt)
                receipt.result()

    def _flush(self) -> None:
        self._dirty.clear()
        self._out.flush()
        acks, self._acks = self._acks, []
        self._receipts.update(ack() for ack in acks)

    async def close(self) -> None:
        """Everything is out, and every ack is answered."""
        self._flush()
        await asyncio.gather(*self._receipts)


class Left:
    """How many messages may still be printed, over all partitions; 0 at first is without end."""

    def __init__(self, count: int) -> None:
        self._count = count or None
        self.is_none = asyncio.Event()

    def take(self) -> bool:
        """Whether one more may be printed; it counts as printed then."""
        if self._count is None:
            return True
        if self._count == 0:
            return False
        self._count -= 1
        if self._count == 0:
            self.is_none.set()
        return True


async def _print_one(
    client: Client, topic: str, wanted: Wanted, printer: Printer, left: Left
) -> None:
    source: Consumer | MultiConsumer | Reader
    consumer: Consumer | MultiConsumer | None = None
    receive: Callable[[int | None], Awaitable[Message]]
    if wanted.subscription:
        consumer = await client.subscribe(topic, wanted.subscription, **wanted.options)
        source, receive = consumer, consumer.receive
    else:
        source = await client.create_reader(
            topic,
            wanted.begins[topic],
            start_message_id_inclusive=True,
            receiver_queue_size=wanted.options["receiver_queue_size"],
        )
        receive = source.read_next
    end = wanted.until[topic]
    looks = 0
    while True:
        if wanted.exits and not await source.has_message_available():
            return
        try:
            message = await receive(LOOK_AGAIN_MS)
        except Timeout:
            if source.has_reached_end:  # terminated: nothing more can come
                return
            if not wanted.exits:
                continue
            looks += 1
            if looks == LOOKS_MAX:  # others hold what is left
                return
            continue
        looks = 0
        index = message.index()
        if index is not None and index < wanted.first_index:
            continue
        if end is not None and is_past(message, end):
            return
        is_last = end is not None and end.kind is Kind.INDEX and index == end.number - 1
        if not wanted.matches(message):
            if is_last:
                return
            continue
        if not left.take():
            return
        ack = None if consumer is None else partial(consumer.acknowledge_nowait, message)
        printer.print(wanted.show(message), ack)
        if is_last:
            return


def is_past(message: Message, end: Place) -> bool:
    """Whether a message is the first that is not wanted, or behind it."""
    if end.kind is Kind.TIME:
        return message.publish_timestamp() >= end.number
    if end.kind is Kind.ID:
        assert end.message_id is not None
        return message.message_id() >= end.message_id
    index = message.index()
    return index is not None and index >= end.number
