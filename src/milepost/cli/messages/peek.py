"""`milepost peek`: prints messages without consuming them.

    milepost peek orders -s billing -n 5          # the next of a subscription
    milepost peek orders --from index:100 -n 20   # by place, of no subscription

Nothing is acked, delivered or counted: consumers do not notice. A table shows values by their schemas, and
cuts what is long; `--json` prints whole messages, as `milepost consume --json` does.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from milepost.cli.admin.topic_messages import show_messages
from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.messages.messaging_client import run
from milepost.cli.messages.templates import json_line
from milepost.cli.messages.values import NO_VALUE, TopicSchemas
from milepost.cli.messages.where import ABSENT, Condition, Subject, parse_where
from milepost.cli.output import chosen, note, table_cell
from milepost.cli.progress.places import Kind, Place, parse_place
from milepost.cli.tables import Column, fit, lines, text_width
from milepost.cli.terminal import terminal
from milepost.errors import SchemaMismatch
from milepost.positions.names import TopicName

if TYPE_CHECKING:
    from milepost.admin import Admin, StoredMessage
    from milepost.client.client import Client
    from milepost.positions.ids import MessageId

# Of a payload a table shows so much; `-o json`, `--json` and `milepost consume` print all.
BRIEF_SIZE = 1000
# Messages that are looked through for those that `--where` wants.
LOOKED_AT_MAX = 10_000
# Entries that are looked through for the end of a chunked message: others may lie between its chunks.
LOOKS_MAX = 1000
# What was peeked is stored: a reader that does not get it within this time never will.
READ_TIMEOUT_MS = 10_000


@click.command(cls=RemoteCommand)
@click.argument("topic")
@click.option("-s", "--subscription", help="What it would get next.")
@click.option("--from", "begin", metavar="PLACE", help="Or begin here: index:100, 3:7, a time.")
@click.option(
    "-n",
    "--count",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="How many, of each partition.",
)
@click.option("-J", "--json", "is_json", is_flag=True, help="A line of JSON for each message.")
@click.option("-S", "--schema", "by_schema", is_flag=True, help="With --json: values, by schema.")
@click.option(
    "-w",
    "--where",
    multiple=True,
    metavar="CONDITION",
    help="Only these: key=…, property.NAME=…, $.PATH>…; also != < <= >= and ~, a part.",
)
def peek(
    topic: str,
    subscription: str | None,
    begin: str | None,
    count: int,
    is_json: bool,
    by_schema: bool,
    where: tuple[str, ...],
) -> None:
    """Print messages and leave them where they are. Batches are unpacked; nothing is acked.

    Of a partitioned topic it shows so many of each partition, by that partition's own numbers."""
    if subscription and begin:
        raise click.UsageError("give either --subscription or --from")
    place = parse_place(begin or "earliest")
    conditions = [parse_where(one) for one in where]
    at = connection()
    schemas = TopicSchemas(at, topic)
    found: list[StoredMessage] = []
    with at.admin() as admin:
        parts, shorter = partitions_of(admin, topic), []
        for one in parts:
            try:
                messages = (
                    next_of(admin, one, subscription)
                    if subscription
                    else messages_from(admin, one, place)
                )
                found += wanted_of(messages, conditions, schemas, count)
            except CommandFailed as refusal:  # this partition is shorter than others
                shorter.append(refusal)
        if len(shorter) == len(parts):
            raise shorter[0]
        if is_json:
            firsts = {one.message_id: first_id(admin, topic, one) for one in found}
    if is_json:
        shown_by = schemas if by_schema else None
        run(print_again(at.client(topic), TopicName.parse(topic), firsts, shown_by))
    elif chosen() not in (None, "table"):
        show_messages(found)
    else:
        show_briefly(topic, found, schemas, is_partitioned=len(parts) > 1)


def wanted_of(
    messages: Iterable[StoredMessage],
    conditions: list[Condition],
    schemas: TopicSchemas,
    count: int,
) -> list[StoredMessage]:
    """The first messages that fulfil all conditions; it says when it gives up looking."""
    found: list[StoredMessage] = []
    for number, one in enumerate(messages, 1):
        subject = Subject(one.key, one.properties, partial(json_of, one, schemas))
        if all(condition.holds(subject) for condition in conditions):
            found.append(one)
        if len(found) == count:
            break
        if conditions and number == LOOKED_AT_MAX:
            note(f"looked at {number} messages, up to index {one.index}; go on with --from")
            break
    return found


def json_of(message: StoredMessage, schemas: TopicSchemas) -> Any:
    """The value by its schema, or the payload if it is JSON; ABSENT if it is neither."""
    if message.is_null:
        return ABSENT
    try:
        value = schemas.value_of(message.data, message.schema_version, _key_of(message))
        return json.loads(message.data) if value is NO_VALUE else value
    except (ValueError, RecursionError, SchemaMismatch):
        return ABSENT


def _key_of(message: StoredMessage) -> bytes:
    return (message.key or "").encode()


def show_briefly(
    topic: str, found: list[StoredMessage], schemas: TopicSchemas, *, is_partitioned: bool
) -> None:
    """A table for people, and how to see what of it is cut."""
    place = terminal()
    width = BRIEF_SIZE if place.width is None else min(BRIEF_SIZE, 4 * place.width)
    columns = [
        Column("partition"),
        Column("index"),
        Column("id", rank=1),
        Column("key", cut_to=6),
        Column("data", cut_to=12),
    ]
    texts = [text_of(one, schemas) for one in found]
    rows = [
        (
            table_cell(one.message_id.partition),
            table_cell(one.index),
            str(one.message_id),
            table_cell(one.key),
            table_cell(in_brief(text, len(one.data), width)),
        )
        for one, text in zip(found, texts, strict=True)
    ]
    # Indexes are those of each partition; without partitions they need no number.
    begin = 0 if is_partitioned else 1
    table = fit(columns[begin:], [row[begin:] for row in rows], place.width)
    for line in lines(table, place):
        click.echo(line)
    data = table.widths[-1]
    if any(
        len(text) > width or text_width(row[-1]) > data
        for text, row in zip(texts, rows, strict=True)
    ):
        note(f"payloads are cut; `milepost peek {topic} --json` prints them whole")


def text_of(message: StoredMessage, schemas: TopicSchemas) -> str:
    """A payload for people: its value by its schema, or its text."""
    if message.is_null:
        return "(null)"
    try:
        value = schemas.value_of(message.data, message.schema_version, _key_of(message))
    except SchemaMismatch:  # its bytes are what there is to be seen
        value = NO_VALUE
    if value is NO_VALUE:
        return message.data.decode("utf-8", "backslashreplace")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def in_brief(text: str, size: int, width: int = BRIEF_SIZE) -> str:
    """A long text by its beginning, with the size of its payload in bytes."""
    return text if len(text) <= width else f"{text[:width]}… ({size} bytes)"


def first_id(admin: Admin, topic: str, message: StoredMessage) -> MessageId:
    """Where a reader has to begin to be given a message: at the first of its chunks."""
    if message.chunk_count <= 1:
        return message.message_id
    partition = message.message_id.partition
    name = TopicName.parse(topic)
    whole = name if partition < 0 or name.partition >= 0 else name.partition_name(partition)
    return first_chunk_id(admin, str(whole), message.message_id)


async def print_again(
    client: Client,
    topic: TopicName,
    firsts: dict[MessageId, MessageId],
    schemas: TopicSchemas | None,
) -> None:
    """Print messages by what a reader gets of each: REST tells less of them than there is."""
    async with client:
        for wanted, first in firsts.items():
            is_whole = wanted.partition < 0 or topic.partition >= 0
            name = topic if is_whole else topic.partition_name(wanted.partition)
            reader = await client.create_reader(
                str(name), first, start_message_id_inclusive=True, receiver_queue_size=10
            )
            try:
                message = await reader.read_next(READ_TIMEOUT_MS)
                while message.message_id().position < wanted.position:
                    message = await reader.read_next(READ_TIMEOUT_MS)
            finally:
                await reader.close()
            sys.stdout.buffer.write(json_line(message, schemas))
        sys.stdout.buffer.flush()


def partitions_of(admin: Admin, topic: str) -> list[str]:
    """The topic, or the name of each of its partitions."""
    name = TopicName.parse(topic)
    number = int(admin.get_partitioned_topic_metadata(topic).get("partitions", 0))
    return [str(name.partition_name(n)) for n in range(number)] or [str(name)]


def next_of(admin: Admin, topic: str, subscription: str) -> Iterator[StoredMessage]:
    """The next messages of a subscription. Of a batch that is acked in part, a broker shows the
    whole: what it says is acked up to is left out here."""
    acked: int | None = None
    chunks = Chunks()
    for entry in _backlog(admin, topic, subscription):
        if acked is None:
            acked = -1
            if entry[0].batch_size:
                stats = admin.get_stats(topic).get("subscriptions", {}).get(subscription, {})
                acked = stats.get("markDeleteIndex", -1)
        for one in entry:
            whole = chunks.add(one)
            if whole is not None and (whole.index is None or whole.index > acked):
                yield whole


def _backlog(admin: Admin, topic: str, subscription: str) -> Iterator[list[StoredMessage]]:
    """The entries that a subscription has not acked; `Missing` if it, or the topic, is not there."""
    from milepost.admin import Missing

    for place in itertools.count(1):
        try:
            yield admin.peek_entry(topic, subscription, place)
        except Missing:
            if place == 1 and subscription not in admin.get_subscriptions(topic):
                raise
            return


def messages_from(admin: Admin, topic: str, place: Place) -> Iterator[StoredMessage]:
    """Messages from a place on, entry by entry, until there are no more."""
    end = end_index(admin, topic)
    index = index_of(admin, topic, place)
    if place.kind is Kind.INDEX and index > end:
        raise not_there(topic, index, end)
    first, chunks = index, Chunks()
    while index < end:
        entry = _entry_at(admin, topic, index)
        if not entry:
            return
        for one in entry:
            if one.chunk_id and not chunks.knows(one):
                for before in _chunks_before(admin, topic, one):
                    chunks.add(before)
            whole = chunks.add(one)
            if whole is not None and (whole.index is None or whole.index >= first):
                yield whole
        if entry[-1].index is None:
            return
        index = entry[-1].index + 1


def _entry_at(admin: Admin, topic: str, index: int) -> list[StoredMessage]:
    """The messages of the entry with an index; of the first that is kept, if that has expired; none if
    all have."""
    from milepost.admin import Missing, PreconditionFailed

    while True:
        at = admin.get_message_id_by_index(topic, index)
        if at.entry_id < 0:
            try:
                return admin.examine_message(topic, "earliest", 1)
            except (Missing, PreconditionFailed):  # the topic is empty
                return []
        try:
            return admin.get_message_by_id(topic, at.ledger_id, at.entry_id)
        except Missing:  # retention took it in this moment, and then it has expired
            if admin.get_message_id_by_index(topic, index) == at:
                raise


def first_chunk_id(admin: Admin, topic: str, at: MessageId) -> MessageId:
    """Where the message begins that an entry is a chunk of; the entry itself, if it is none."""
    chunk = admin.get_message_by_id(topic, at.ledger_id, at.entry_id)[0]
    if not chunk.chunk_id:
        return at
    before = _chunks_before(admin, topic, chunk)
    return before[0].message_id if len(before) == chunk.chunk_id else at


def _chunks_before(admin: Admin, topic: str, chunk: StoredMessage) -> list[StoredMessage]:
    """The chunks before one in the middle of its message, in order: other messages may lie between."""
    index = chunk.index
    before: list[StoredMessage] = []
    while index and len(before) < chunk.chunk_id:
        index -= 1
        entry = _entry_at(admin, topic, index)
        if not entry or entry[-1].index is None or entry[-1].index < index:
            break  # it has expired
        before += [one for one in entry if one.chunk_uuid == chunk.chunk_uuid]
        index = entry[0].index
    return before[::-1]


def last_chunk(admin: Admin, topic: str, chunk: StoredMessage, end: int) -> StoredMessage | None:
    """The last chunk of the message that one is of; None if it is not there before the end, or far away."""
    index = chunk.index
    for _ in range(LOOKS_MAX):
        if chunk.chunk_id == chunk.chunk_count - 1:
            return chunk
        if index is None or index + 1 >= end:
            return None
        entry = _entry_at(admin, topic, index + 1)
        if not entry:
            return None
        index = entry[-1].index
        chunk = next((one for one in entry if one.chunk_uuid == chunk.chunk_uuid), chunk)
    return None


class Chunks:
    """Joins the chunks of a message: to a person it is one message, with the index of its last."""

    def __init__(self) -> None:
        # By the chunks' common name, in order; only messages of which the first chunk was seen.
        self._begun: dict[str, list[StoredMessage]] = {}

    def knows(self, chunk: StoredMessage) -> bool:
        return chunk.chunk_uuid in self._begun

    def add(self, one: StoredMessage) -> StoredMessage | None:
        """The message that is whole with this; None for a chunk that others follow."""
        if one.chunk_count <= 1:
            return one
        if one.chunk_id == 0:
            self._begun[one.chunk_uuid] = []
        begun = self._begun.get(one.chunk_uuid)
        if begun is None or len(begun) != one.chunk_id:
            return None  # no consumer sees it either
        begun.append(one)
        if len(begun) < one.chunk_count:
            return None
        del self._begun[one.chunk_uuid]
        return replace(one, data=b"".join(chunk.data for chunk in begun))


def not_there(topic: str, index: int, end: int) -> CommandFailed:
    return CommandFailed(f"{topic}: there is no index {index}; the end is {end}", Exit.NOT_FOUND)


def index_of(admin: Admin, topic: str, place: Place) -> int:
    """The index that a place means; that of the end if there is nothing behind it."""
    from milepost.admin import Missing

    if place.kind is Kind.EARLIEST:
        return 0
    if place.kind is Kind.INDEX and not place.is_from_end:
        return place.number
    end = end_index(admin, topic)
    if place.kind is Kind.INDEX:
        return max(end + place.number, 0)
    if place.kind is Kind.LATEST:
        return end
    at = place.message_id
    if place.kind is Kind.TIME:
        at = admin.get_message_id_by_timestamp(topic, place.number)
        if at.entry_id < 0:
            return 0
    assert at is not None
    try:
        return index_at(admin, topic, at)
    except Missing:
        if place.kind is Kind.TIME:  # nothing is that young
            return end
        raise


def index_at(admin: Admin, topic: str, at: MessageId) -> int:
    """The index of a message. Apache Pulsar has no call for it, but shows it with the message."""
    from milepost.admin import Missing

    try:
        return admin.get_index_by_message_id(topic, at)
    except Missing as refusal:
        if admin.is_milepost():
            raise
        entry = admin.get_message_by_id(topic, at.ledger_id, at.entry_id)
        index = entry[min(max(at.batch_index, 0), len(entry) - 1)].index
        if index is None:
            raise refusal from None
        return index


def end_index(admin: Admin, topic: str) -> int:
    """One past the last index."""
    from milepost.admin import Missing

    last = admin.get_last_message_id(topic)
    if last.entry_id < 0:
        # Nothing is there; what was may have expired. Apache Pulsar does not say.
        return int(admin.get_stats(topic).get("endIndex", 0))
    try:
        return admin.get_index_by_message_id(topic, last) + 1
    except Missing as refusal:
        if admin.is_milepost():
            raise
        index = admin.get_message_by_id(topic, last.ledger_id, last.entry_id)[-1].index
        if index is None:
            raise refusal from None
        return index + 1
