"""What a subscription has acked, as the source tells it and as the target is told.

Milepost tells it for every index. Apache Pulsar tells the mark-delete position and whole entries behind it;
single messages of a batch that are acked it tells nowhere.

On the target a subscription is moved by acks, not by a reset: they say single messages of a batch, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

from milepost.admin.progress import STATES
from milepost.admin.pulsar_entries import Places, acked_entries, pulsar_ranges
from milepost.cli.migrate.entries import Entry
from milepost.cli.migrate.side import Side
from milepost.client.connection.connection import Connection
from milepost.errors import MilepostError
from milepost.positions import AckSet, Position, unsigned64
from milepost.positions.ids import EARLIEST
from milepost.positions.ranges import IndexRanges
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery

COLUMNS: Final = 2000
IDS_MAX: Final = 1000


class Standing(Protocol):
    """What a subscription of the source has acked."""

    def bits_of(self, entry: Entry) -> int:
        """Bit i is set if message i of the entry is acked."""
        ...


class ByIndex:
    """As Milepost tells it."""

    def __init__(self, acked: IndexRanges, first: int) -> None:
        self._acked = acked
        # What is below is trimmed, and so it is acked.
        self._first = first

    def bits_of(self, entry: Entry) -> int:
        assert entry.index is not None, "Milepost tells the index of every entry"
        begin = entry.index - entry.count + 1
        if entry.index < self._first:
            return (1 << entry.count) - 1
        return self._acked.bits(begin, entry.index + 1)


class ByPosition:
    """As Apache Pulsar tells it.

    >>> standing = ByPosition.of("3:1", "[(3:2..3:4],(5:-1..5:0]]")
    >>> [standing.is_acked(Position(*one)) for one in [(2, 9), (3, 1), (3, 2), (3, 3), (3, 5), (5, 0)]]
    [True, True, False, True, False, True]
    """

    def __init__(self, mark: tuple[int, int], ranges: Iterable[tuple[Any, Any]]) -> None:
        self._mark = mark
        self._ranges = sorted(ranges)
        # Entries come in order: ranges that end before the last one asked for are passed.
        self._passed = 0

    @classmethod
    def of(cls, mark: str, ranges: str) -> ByPosition:
        ledger, entry = mark.split(":")
        return cls((int(ledger), int(entry)), pulsar_ranges(ranges))

    def is_acked(self, position: Position) -> bool:
        if position <= self._mark:
            return True
        while self._passed < len(self._ranges) and self._ranges[self._passed][1] < position:
            self._passed += 1
        if self._passed == len(self._ranges):
            return False
        return bool(self._ranges[self._passed][0] < position)

    def bits_of(self, entry: Entry) -> int:
        return (1 << entry.count) - 1 if self.is_acked(entry.position) else 0


async def acked_indexes(side: Side, topic: str, subscription: str) -> tuple[IndexRanges, int]:
    """What a subscription has acked, and the first index that is retained. Of an Apache Pulsar these are
    entries, numbered from the first that is kept."""
    if not side.is_milepost:
        internal = await side.admin.get_internal_stats(topic)
        return acked_entries(Places.of(internal), internal["cursors"][subscription]), 0
    strip = await side.admin.get_strip(topic, subscription, columns=COLUMNS)
    # Ranges with holes in them: neighbours are one, so that they are asked for together.
    acked, mixed = IndexRanges(), IndexRanges()
    first, end, columns = strip["first"], strip["end"], strip["columns"]
    for column in range(columns):
        begin, behind = (first + (end - first) * at // columns for at in (column, column + 1))
        counts = [strip[state][column] for state in STATES]
        done = counts[0] + counts[-1]
        if done == behind - begin:
            acked.add(begin, behind)
        elif done:
            mixed.add(begin, behind)
    for begin, behind in mixed:
        await _add_pages(side, topic, subscription, begin, behind, acked)
    return acked, first


async def _add_pages(
    side: Side, topic: str, subscription: str, begin: int, behind: int, acked: IndexRanges
) -> None:
    """The same with a column for each index."""
    for page in range(begin, behind, COLUMNS):
        end = min(page + COLUMNS, behind)
        strip = await side.admin.get_strip(
            topic, subscription, first=page, end=end, columns=end - page
        )
        for index, one in enumerate(strip["acked"], page):
            if one:
                acked.add(index, index + 1)


class Acks:
    """What a subscription of the target has to ack, gathered from the first entry to the last."""

    def __init__(self) -> None:
        self.expected = IndexRanges()
        """Indexes of the target."""
        self._until: Position | None = None
        self._is_leading = True
        self._single: list[pb.MessageIdData] = []

    def add(self, entry: Entry, bits: int) -> None:
        """`entry` is the target's, with its index, or with its number in an Apache Pulsar."""
        assert entry.index is not None, f"entry {entry.position} has neither index nor number"
        begin, full = entry.index - entry.count + 1, (1 << entry.count) - 1
        if bits == full:
            self.expected.add(begin, entry.index + 1)
            if self._is_leading:
                self._until = entry.position
            else:
                self._single.append(_id(entry.position))
            return
        self._is_leading = False
        if not bits:
            return
        for at in range(entry.count):
            if bits >> at & 1:
                self.expected.add(begin + at, begin + at + 1)
        pending = AckSet(full & ~bits, entry.count)
        self._single.append(_id(entry.position, pending.to_ack_words()))

    def commands(self, consumer_id: int) -> Iterable[pb.CommandAck]:
        if self._until is not None:
            yield pb.CommandAck(
                consumer_id=consumer_id,
                ack_type=pb.CommandAck.Cumulative,
                message_id=[_id(self._until)],
            )
        for at in range(0, len(self._single), IDS_MAX):
            yield pb.CommandAck(
                consumer_id=consumer_id,
                ack_type=pb.CommandAck.Individual,
                message_id=self._single[at : at + IDS_MAX],
            )


def _id(position: Position, ack_set: Iterable[int] = ()) -> pb.MessageIdData:
    return pb.MessageIdData(
        ledgerId=unsigned64(position.ledger_id),
        entryId=unsigned64(position.entry_id),
        ack_set=ack_set,
    )


async def place(
    target: Side, topic: str, subscription: str, acks: Acks, properties: dict[str, str]
) -> None:
    """Let a subscription of the target have acked exactly what it should; make it if it is missing."""
    is_there = subscription in await target.admin.get_subscriptions(topic)
    if is_there:
        acked, first = await acked_indexes(target, topic, subscription)
        wrong = acked.copy()
        wrong.discard_all(acks.expected)
        wrong.discard(0, first)
        if not wrong and acked.count == acks.expected.count:
            return
        if wrong:
            # After a reset the broker would ignore acks of messages that it has not delivered again.
            await target.admin.delete_subscription(topic, subscription)
            is_there = False
    if not is_there:
        await target.admin.create_subscription(
            topic, subscription, EARLIEST, properties=properties or None
        )
    connection = await target.connection(topic)
    consumer_id = target.next_id()
    connection.consumers[consumer_id] = _Silent()
    await target.request(
        connection,
        pb.CommandSubscribe(
            topic=topic,
            subscription=subscription,
            subType=pb.CommandSubscribe.Exclusive,
            consumer_id=consumer_id,
            consumer_name="milepost-migrate",
            durable=True,
            initialPosition=pb.CommandSubscribe.Earliest,
            force_topic_creation=False,
        ),
    )
    try:
        for command in acks.commands(consumer_id):
            await target.request(connection, command)
    finally:
        connection.consumers.pop(consumer_id, None)
        if connection.is_open:
            await target.request(connection, pb.CommandCloseConsumer(consumer_id=consumer_id))


class _Silent:
    """A consumer that asks for no messages, and only acks."""

    def message(self, delivery: Delivery) -> None:
        pass

    def active_changed(self, is_active: bool) -> None:
        pass

    def end_of_topic(self) -> None:
        pass

    def reset(self, told: pb.CommandSeek) -> None:
        pass

    def detached(self, connection: Connection, reason: MilepostError, url: str | None) -> None:
        pass
