"""The target of a seek: an id, a time or an index. Pure.

Exclusive, the default of the official client, means *behind* the message named. A position behind it is
sent, not the message itself, so that the broker's own count agrees and other consumers of a shared
subscription do not get it either; only where the next place cannot be named (a broker that knows no
batch index, chunks between others' entries) does the inbox drop what comes too early.

    >>> second = MessageId(3, 7, batch_index=1, batch_size=4)
    >>> " ".join(str(seek_data(Start(second, is_inclusive=True))).split())
    'ledgerId: 3 entryId: 7 batch_index: 1 ack_set: 14 batch_size: 4'
"""

from __future__ import annotations

from typing import NamedTuple

from milepost.client.messages.inbox import Start
from milepost.errors import InvalidInput
from milepost.positions import EARLIEST, LATEST, AckSet, ChunkMessageId, MessageId, unsigned64
from milepost.positions.ids import INT64_MAX
from milepost.wire import pulsar_pb2 as pb


class Target(NamedTuple):
    """One of the three is set."""

    start: Start | None = None
    timestamp: int | None = None
    index: int | None = None  # type: ignore[assignment]  # in place of tuple.index

    @staticmethod
    def of(
        message_id: MessageId | int | None,
        *,
        timestamp: int | None = None,
        index: int | None = None,
        inclusive: bool,
    ) -> Target:
        """From a user's arguments; `InvalidInput` unless exactly one says where."""
        given = [value for value in (message_id, timestamp, index) if value is not None]
        if len(given) != 1:
            raise InvalidInput(
                f"{len(given)} positions are given, of a message id, a timestamp and an index: give one, "
                "as MessageId.earliest"
            )
        if isinstance(message_id, MessageId):
            return Target(start=Start(message_id, inclusive))
        if index is not None:
            return Target(index=_number("index", index))
        if timestamp is not None:
            return Target(timestamp=_number("timestamp", timestamp))
        if not isinstance(message_id, int):
            raise InvalidInput(
                f"a position is a MessageId, as MessageId.earliest, or a time in milliseconds, "
                f"not {message_id!r}"
            )
        # The official client takes a number for a time.
        return Target(timestamp=_number("timestamp", message_id))

    @property
    def filter(self) -> Start | None:
        """What the inbox is to hold back."""
        if self.start is None:
            return None
        is_special = self.start.message_id in (EARLIEST, LATEST)
        return None if is_special and self.start.first_index is None else self.start

    def fill(self, seek: pb.CommandSeek) -> None:
        if self.start is not None:
            seek.message_id.CopyFrom(seek_data(self.start))
        elif self.timestamp is not None:
            seek.message_publish_time = self.timestamp
        else:
            assert self.index is not None
            seek.index = self.index

    def __str__(self) -> str:
        if self.start is not None:
            return str(self.start.message_id)
        return f"time {self.timestamp}" if self.index is None else f"index {self.index}"


def seek_data(start: Start) -> pb.MessageIdData:
    """The message id of a SEEK: the first message wanted, exact inside a batch (Java's ack set and
    a batch index say it twice, for brokers that read either)."""
    message_id = start.message_id
    if message_id in (EARLIEST, LATEST):
        return _data(message_id.ledger_id, message_id.entry_id)
    if isinstance(message_id, ChunkMessageId):
        # PIP-107: "In cosumer.seek, use the first chunk message-id of the chunk message-id." Also to
        # go behind it: others' chunks may lie between, and the inbox drops this message.
        first = message_id.first_chunk_message_id
        return _data(first.ledger_id, first.entry_id)
    batch_index, size = message_id.batch_index, message_id.batch_size
    if batch_index < 0:
        behind = 0 if start.is_inclusive else 1
        return _data(message_id.ledger_id, message_id.entry_id + behind)
    batch_index += not start.is_inclusive
    if size and batch_index >= size:
        return _data(message_id.ledger_id, message_id.entry_id + 1)
    data = _data(message_id.ledger_id, message_id.entry_id)
    data.batch_index = batch_index
    if size:
        pending = AckSet.full(size).without_before(batch_index)
        if not pending.is_full:
            data.ack_set.extend(pending.to_ack_words())
        data.batch_size = size
    return data


def reader_data(start: Start) -> pb.MessageIdData:
    """The start of a reader: brokers begin with the entry named, and the inbox drops the rest."""
    message_id = start.message_id
    if isinstance(message_id, ChunkMessageId) and start.is_inclusive:
        message_id = message_id.first_chunk_message_id
    data = _data(message_id.ledger_id, message_id.entry_id)
    if message_id.batch_index >= 0:
        data.batch_index = message_id.batch_index
    return data


def _data(ledger_id: int, entry_id: int) -> pb.MessageIdData:
    return pb.MessageIdData(ledgerId=unsigned64(ledger_id), entryId=unsigned64(entry_id))


def _number(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{name} {value!r} is not a number")
    if not 0 <= value <= INT64_MAX:
        raise InvalidInput(f"{name} {value} is not in 0 to 2^63 − 1")
    return value
