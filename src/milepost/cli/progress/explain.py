"""`milepost explain`: what an id or an index means, and where it lies.

    milepost explain 3:7:-1:2                     # in every form that a client may print
    milepost explain hex:08031007                 # bytes that an application has stored
    milepost explain index:120 orders             # and where that is in a topic

The first two ask no broker: an id can be read without its broker.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.messages.peek import end_index, first_chunk_id, index_of, last_chunk
from milepost.cli.output import show_rows
from milepost.cli.progress.places import Kind, Place, parse_place
from milepost.errors import InvalidInput, InvalidMessageId
from milepost.positions.ids import EARLIEST, LATEST, ChunkMessageId, MessageId

if TYPE_CHECKING:
    from milepost.admin import Admin

Facts = Iterator[tuple[str, object]]


# A place may begin with a minus, as -1:-1 and -10m do: it is not an option.
@click.command(cls=RemoteCommand, context_settings={"ignore_unknown_options": True})
@click.argument("place")
@click.argument("topic", required=False)
def explain(place: str, topic: str | None) -> None:
    """Decode PLACE: an id in any text form or as hex:… or base64:…, an index, a time.

    With a TOPIC, say which message that is, and how far the subscriptions are.
    """
    try:
        read = read_place(place)
    except InvalidInput:
        if topic is not None and _is_place(topic):
            raise click.UsageError(
                f"the place comes first: `milepost explain {topic} {place}`"
            ) from None
        raise
    rows = list(facts_of(read)) if read.message_id or not topic else []
    if topic:
        with connection().admin() as admin:
            rows += facts_in(admin, topic, read)
    show_rows(("what", "value"), rows)


def _is_place(text: str) -> bool:
    try:
        read_place(text)
    except InvalidInput:
        return False
    return True


def read_place(text: str) -> Place:
    """A place as everywhere, or the bytes of an id as `hex:…` or `base64:…`."""
    form, _, rest = text.partition(":")
    try:
        if form == "hex":
            return Place(Kind.ID, message_id=MessageId.deserialize(bytes.fromhex(rest)))
        if form == "base64":
            data = base64.b64decode(rest, validate=True)
            return Place(Kind.ID, message_id=MessageId.deserialize(data))
    except InvalidMessageId:
        raise
    except ValueError:
        raise InvalidMessageId(f"{text!a} is not {form}") from None
    return parse_place(text)


def facts_of(place: Place) -> Facts:
    """What can be said without asking a broker."""
    if place.message_id is None:
        yield place.kind.value, place.number if place.kind in (Kind.INDEX, Kind.TIME) else ""
        return
    one = place.message_id
    if one in (EARLIEST, LATEST):
        yield "stands for", "earliest" if one == EARLIEST else "latest"
    if isinstance(one, ChunkMessageId):
        yield "kind", "a chunked message: it orders as its last chunk and seeks as its first"
        yield "first chunk", str(one.first_chunk_message_id)
        yield "last chunk", str(one.last_chunk_message_id)
    elif one.batch_index >= 0:
        yield "kind", "one message of a batch"
    else:
        yield "kind", "an entry: one message, a chunk of one, or a whole batch"
    yield "ledger", one.ledger_id
    yield "entry", one.entry_id
    yield "partition", one.partition if one.partition >= 0 else "none"
    if one.batch_index >= 0:
        yield "batch index", one.batch_index
    if one.batch_size:
        yield "batch size", one.batch_size
    yield "Java prints", str(one)
    yield "C++ prints", f"({one.ledger_id},{one.entry_id},{one.partition},{one.batch_index})"
    yield "bytes", one.serialize().hex()


def facts_in(admin: Admin, topic: str, place: Place) -> Facts:
    """Which message of a topic it is, and who has acked it."""
    from milepost.admin import Missing

    index = index_of(admin, topic, place)
    end = end_index(admin, topic)
    yield "topic", topic
    yield "index", index
    yield "end of the topic", end
    if index >= end:
        yield "lies", f"{index - end} behind the end: no message has this index yet"
    else:
        try:
            at = admin.get_message_id_by_index(topic, index, precise=True)
        except Missing:
            yield "lies", "behind the last message"
        else:
            if at == EARLIEST:
                yield "lies", "before the first message that is kept: it has expired"
            else:
                yield "id", str(at)
                if at.batch_size:
                    yield "in its batch", f"{at.batch_index + 1} of {at.batch_size}"
                else:
                    yield from chunk_facts(admin, topic, at, end)
                yield "lies", f"{end - index} before the end"
    for name in admin.get_subscriptions(topic):
        try:
            (move, *_) = admin.reset_subscription(topic, name, by=0, dry_run=True).moves
        except Missing:
            return  # Apache Pulsar: it does not say
        where = "acked" if index < move.was else "not acked, or behind what is not"
        yield f"subscription {name}", f"{where}: the first not acked is {move.was}"


def chunk_facts(admin: Admin, topic: str, at: MessageId, end: int) -> Facts:
    """Of which message an entry is a chunk; nothing if it is none."""
    chunk = admin.get_message_by_id(topic, at.ledger_id, at.entry_id)[0]
    if chunk.chunk_count <= 1:
        return
    yield "chunk", f"{chunk.chunk_id + 1} of {chunk.chunk_count}"
    last = last_chunk(admin, topic, chunk, end)
    first = first_chunk_id(admin, topic, at)
    if last is None or (first == at and chunk.chunk_id):
        yield "its message", "is not whole: not all of its chunks are there"
    else:
        told = f"has the index {last.index}, that of its last chunk; its chunks are {first} to "
        yield "its message", f"{told}{last.message_id}"
