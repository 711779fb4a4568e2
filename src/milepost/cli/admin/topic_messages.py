"""`milepost topics`: peek, examine, ids by index and time, sizes."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from milepost.cli.admin.options import SUBSCRIPTION, TOPIC
from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.output import chosen, show_object, show_rows
from milepost.cli.progress.places import position_of
from milepost.cli.quantities import time_ms

if TYPE_CHECKING:
    from milepost.admin import StoredMessage
    from milepost.positions.ids import MessageId

_RULE = "-" * 73
_DUMP_WIDTH = 16


@click.command(cls=RemoteCommand, help="The next messages of a subscription, not delivered.")
@TOPIC
@SUBSCRIPTION
@click.option(
    "-n", "--count", type=click.IntRange(min=0), default=1, show_default=True, help="How many."
)
@click.option(
    "-ssm", "--show-server-marker", "show_markers", is_flag=True, help="Markers of the broker too."
)
@click.option("-til", "--transaction-isolation-level", hidden=True)
def peek_messages(topic: str, subscription: str, count: int, show_markers: bool, **_: Any) -> None:
    with connection().admin() as admin:
        found = admin.peek_messages(topic, subscription, count)
    show_messages(one for one in found if show_markers or one.marker_type is None)


@click.command(cls=RemoteCommand, help="A message by its place from the earliest or the latest.")
@TOPIC
@click.option(
    "-i",
    "--initialPosition",
    "initial_position",
    type=click.Choice(["earliest", "latest"]),
    default="latest",
    show_default=True,
    help="From which end to count.",
)
@click.option(
    "-m",
    "--messagePosition",
    "message_position",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Which message from there; 1 is the first.",
)
def examine_messages(topic: str, initial_position: str, message_position: int) -> None:
    with connection().admin() as admin:
        show_messages(admin.examine_message(topic, initial_position, message_position))


@click.command(cls=RemoteCommand, help="The messages of one entry.")
@TOPIC
@click.option(
    "-l", "--ledgerId", "ledger_id", type=int, required=True, help="The ledger of its id."
)
@click.option("-e", "--entryId", "entry_id", type=int, required=True, help="The entry of its id.")
def get_message_by_id(topic: str, ledger_id: int, entry_id: int) -> None:
    with connection().admin() as admin:
        show_messages(admin.get_message_by_id(topic, ledger_id, entry_id))


@click.command(cls=RemoteCommand, help="The id of the first message at a time or later.")
@TOPIC
@click.option("-d", "--datetime", "when", required=True, help="2026-11-15T14:00:00Z.")
def get_message_id(topic: str, when: str) -> None:
    moment = time_ms(when, now_ms=int(time.time() * 1000))
    with connection().admin() as admin:
        show_message_id(admin.get_message_id_by_timestamp(topic, moment))


@click.command(cls=RemoteCommand, help="The id of the message with an index (PIP-415).")
@TOPIC
@click.option("-i", "--index", type=int, required=True, help="From 0.")
@click.option("--precise", is_flag=True, help="With the place in the batch.")
def get_message_id_by_index(topic: str, index: int, precise: bool) -> None:
    with connection().admin() as admin:
        found = admin.get_message_id_by_index(topic, index, precise=precise)
    if chosen() is None:
        click.echo(str(found))
    else:
        show_message_id(found)


@click.command(cls=RemoteCommand, help="The index of the message with an id: the way back.")
@TOPIC
@click.option(
    "-m", "--messageId", "message_id", required=True, help="ledger:entry[:partition:batch]"
)
def get_index_by_message_id(topic: str, message_id: str) -> None:
    from milepost.positions.ids import MessageId

    with connection().admin() as admin:
        found = admin.get_index_by_message_id(topic, MessageId.parse(message_id))
    show_object(found)


@click.command(cls=RemoteCommand, help="The id of the last message.")
@TOPIC
def last_message_id(topic: str) -> None:
    with connection().admin() as admin:
        show_message_id(admin.get_last_message_id(topic))


@click.command(cls=RemoteCommand, help="Bytes from a position to the end.")
@TOPIC
@click.option("-m", "--messageId", "message_id", default="-1:-1", help="ledger:entry.")
def get_backlog_size(topic: str, message_id: str) -> None:
    with connection().admin() as admin:
        show_object(
            admin.get_backlog_size(topic, position_of(admin, topic, message_id, is_id=True))
        )


def show_message_id(message_id: MessageId) -> None:
    """As Jackson writes it: what an official admin client prints."""
    show_object(
        {
            "ledgerId": message_id.ledger_id,
            "entryId": message_id.entry_id,
            "partitionIndex": message_id.partition,
            "batchIndex": message_id.batch_index,
            "batchSize": message_id.batch_size,
        }
    )


def message_json(message: StoredMessage) -> dict[str, Any]:
    """A message as JSON: text if it is text, base64 if it is not."""
    try:
        data: dict[str, str] = {"data": message.data.decode()}
    except UnicodeDecodeError:
        data = {"data_base64": base64.b64encode(message.data).decode()}
    return {
        "id": str(message.message_id),
        "index": message.index,
        "key": message.key,
        "publish_time": message.publish_time,
        "event_time": message.event_time,
        "properties": message.properties,
        **data,
    }


def show_messages(messages: Iterable[StoredMessage]) -> None:
    """As pulsar-admin prints them, with a dump of the payload; or one row each."""
    form = chosen()
    if form == "json":
        click.echo(
            json.dumps([message_json(one) for one in messages], indent=2, ensure_ascii=False)
        )
    elif form is not None:
        columns = ("id", "index", "key", "publish_time", "data")
        show_rows(
            columns,
            [
                (
                    str(one.message_id),
                    one.index,
                    one.key,
                    one.publish_time,
                    one.data.decode("utf-8", "backslashreplace"),
                )
                for one in messages
            ],
        )
    else:
        for number, one in enumerate(messages):
            if number:
                click.echo(f"{_RULE}\n")
            for line in message_lines(one):
                click.echo(line)


def message_lines(message: StoredMessage) -> Iterator[str]:
    place = message.message_id
    if place.batch_index >= 0:
        yield f"Batch Message ID: {place.ledger_id}:{place.entry_id}:{place.batch_index}"
    else:
        yield f"Message ID: {place.ledger_id}:{place.entry_id}"
    yield f"Publish time: {message.publish_time}"
    yield f"Event time: {message.event_time}"
    if message.deliver_at_time:
        yield f"Deliver at time: {message.deliver_at_time}"
    if message.marker_type is not None:
        yield f"Marker Type: {message.marker_type}"
    if message.broker_time:
        yield f"Broker entry metadata timestamp: {message.broker_time}"
    if message.index is not None:
        yield f"Broker entry metadata index: {message.index}"
    if message.properties:
        yield "Properties:"
        for key, value in message.properties.items():
            yield f"{key}    {value}"
    yield from dump_lines(message.data)


def dump_lines(data: bytes) -> Iterator[str]:
    """Bytes in hexadecimal and as characters, boxed as Netty does it."""
    bar = f"+--------+{'-' * 49}+{'-' * 16}+"
    yield f"         +{'-' * 49}+"
    yield f"         |  {'  '.join(f'{n:x}' for n in range(_DUMP_WIDTH))} |"
    yield bar
    for at in range(0, len(data), _DUMP_WIDTH):
        row = data[at : at + _DUMP_WIDTH]
        numbers = "".join(f" {byte:02x}" for byte in row).ljust(48)
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        yield f"|{at:08x}|{numbers} |{text.ljust(_DUMP_WIDTH)}|"
    yield bar
