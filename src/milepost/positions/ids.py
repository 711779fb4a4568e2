"""Positions and message ids: their order, text and bytes.

Owns what an id means to an official Pulsar client: which of two ids is the greater, which two are
one, how an id reads in a log line and how it is stored by an application and brought back. It never
knows where an entry is, whether it exists, or which index it holds: that is the log's business.

    >>> last = MessageId(7, 12, partition=3)
    >>> chunked = ChunkMessageId(MessageId(7, 9, partition=3), last)
    >>> chunked == last, str(chunked), str(chunked.position)
    (True, '7:9:3;7:12:3', '7:12')
    >>> MessageId.deserialize(chunked.serialize()).first_chunk_message_id
    MessageId(ledger_id=7, entry_id=9, partition=3, batch_index=-1, batch_size=0)

The byte form is a `MessageIdData` protobuf. It is written and read by hand because this package has
no dependencies and the message has seven fields; the bytes are those of the official client.

    field  name                     type     written
    1      ledgerId                 int64    always (declared unsigned; −1 is ten bytes)
    2      entryId                  int64    always (the same)
    3      partition                int32    unless −1
    4      batch_index              int32    unless −1
    5      ack_set                  int64*   never; skipped when read
    6      batch_size               int32    unless 0
    7      first_chunk_message_id   message  by a chunk id (PIP-107): the first chunk's 1 to 3
"""

from __future__ import annotations

import copy
import re
from typing import Any, ClassVar, NamedTuple, NoReturn

from milepost.errors import InvalidMessageId

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

# A plain id is at most 63 bytes. More can only be an ack set, which is skipped, or fields of the
# future; the limit bounds the work that a stranger's bytes can ask for.
MESSAGE_ID_SIZE_BYTES_MAX = 64 * 1024

# Two ids with every number at its longest, brackets, commas and the semicolon: 2 × 67 + 1.
MESSAGE_ID_TEXT_LENGTH_MAX = 135


def signed64(value: int) -> int:
    """The number a client meant by an unsigned 64-bit field: ids of −1 travel as 2⁶⁴ − 1."""
    return value - 2**64 if value > INT64_MAX else value


def unsigned64(value: int) -> int:
    """What an unsigned 64-bit field must hold to mean `value`; the inverse of `signed64`."""
    return value + 2**64 if value < 0 else value


class Position(NamedTuple):
    """The address of an entry. Ordered by ledger, then entry."""

    ledger_id: int
    entry_id: int

    @classmethod
    def parse(cls, text: str) -> Position:
        """Read `ledger:entry`; `InvalidMessageId` for anything else."""
        match = _POSITION.fullmatch(text)
        if match is None:
            raise _not_text(text, "expected ledger:entry")
        return cls(*_numbers(text, match))

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"


class _Order(NamedTuple):
    """The numbers that compare two ids, most significant first."""

    ledger_id: int
    entry_id: int
    batch_index: int
    partition: int


class MessageId(_Order):
    """The address of one message: its entry, and its place in the entry if that is a batch.

    Equal, ordered and hashed by ledger, entry, batch index and partition, as in the official
    client; the batch size is carried along and never compared. Where two ids differ in nothing but
    the partition, the official client calls each greater than the other; here the lower partition
    comes first, so that the order is total. (No two partitions share a ledger: it takes invented
    ids to see the difference.)

    A tuple underneath, so that comparing and hashing never enter the interpreter: use the names,
    not the places. Numbers are not checked here, but where they become bytes.
    """

    # −1: not in a batch, or the whole of one.
    batch_index: int

    # The number in the topic's name; −1 if the topic is not a partition.
    partition: int

    # Messages in the batch; 0 if unknown or not a batch. In the instance only when it is not 0.
    batch_size: int = 0

    # The topic that it is of, where the caller said so; never compared. In the instance only then.
    topic_name: str = ""

    # EARLIEST and LATEST below, by the official client's names.
    earliest: ClassVar[MessageId]
    latest: ClassVar[MessageId]

    def __new__(
        cls,
        ledger_id: int,
        entry_id: int,
        partition: int = -1,
        batch_index: int = -1,
        batch_size: int = 0,
    ) -> MessageId:
        self = _new_tuple(cls, (ledger_id, entry_id, batch_index, partition))
        if batch_size:
            self.__dict__["batch_size"] = batch_size
        return self

    @property
    def position(self) -> Position:
        """The address of the entry that holds the message (for a chunk id: the last chunk)."""
        return Position(self[0], self[1])

    @classmethod
    def parse(cls, text: str) -> MessageId:
        """Read an id as Java or C++ prints it; `InvalidMessageId` for anything else.

        Java: `ledger:entry`, `ledger:entry:partition`, `ledger:entry:partition:batch`.
        C++: `(ledger,entry,partition,batch)`. A chunk id is two of them, `first;last`.
        """
        if len(text) > MESSAGE_ID_TEXT_LENGTH_MAX:
            raise _not_text(
                text, f"{len(text)} characters, the limit is {MESSAGE_ID_TEXT_LENGTH_MAX}"
            )
        first, semicolon, last = text.partition(";")
        if semicolon:
            return ChunkMessageId(_parse_one(text, first), _parse_one(text, last))
        return _parse_one(text, text)

    @classmethod
    def deserialize(
        cls, data: bytes | bytearray | memoryview, topic: str | None = None
    ) -> MessageId:
        """Read an id that this or an official client serialised; `InvalidMessageId` if none did.

        The bytes do not say of which topic it is: who consumes several adds it with `topic`.

        Bytes with a first chunk come back as a `ChunkMessageId`; bytes from before PIP-107 as a
        plain id. Fields that are not known here are skipped. A number too large for its field loses
        its upper bits, as everywhere in protobuf.
        """
        if len(data) > MESSAGE_ID_SIZE_BYTES_MAX:
            raise _not_bytes(0, f"{len(data)} bytes, the limit is {MESSAGE_ID_SIZE_BYTES_MAX}")
        found = _decode(bytes(data), 0, len(data), inside_chunk_id=False)
        return found if topic is None else found.of_topic(topic)

    def of_topic(self, topic: str) -> MessageId:
        """The same id, knowing its topic: for consumers of several topics."""
        named = copy.copy(self)
        named.__dict__["topic_name"] = topic
        return named

    def serialize(self) -> bytes:
        """The bytes that the official client writes for this id."""
        ledger_id, entry_id, batch_index, partition = self
        data = b"\x08" + _varint(ledger_id, INT64_MAX) + b"\x10" + _varint(entry_id, INT64_MAX)
        if partition != -1:
            data += b"\x18" + _varint(partition, INT32_MAX)
        if batch_index != -1:
            data += b"\x20" + _varint(batch_index, INT32_MAX)
        if self.batch_size:
            data += b"\x30" + _varint(self.batch_size, INT32_MAX)
        return data

    def __str__(self) -> str:
        ledger_id, entry_id, batch_index, partition = self
        if batch_index == -1:
            return f"{ledger_id}:{entry_id}:{partition}"
        return f"{ledger_id}:{entry_id}:{partition}:{batch_index}"

    def __repr__(self) -> str:
        return (
            f"MessageId(ledger_id={self.ledger_id}, entry_id={self.entry_id}, "
            f"partition={self.partition}, batch_index={self.batch_index}, "
            f"batch_size={self.batch_size})"
        )

    # The instance has a dictionary for what is not compared; no other code may write to it.
    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a message id does not change: {name} of {self} set to {value!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a message id does not change: {name} of {self} deleted")

    def __reduce__(self) -> tuple[Any, ...]:
        return MessageId, _arguments(self)

    def _replace(self, **changes: int) -> MessageId:
        # What a named tuple would do forgets the batch size.
        arguments = dict(zip(_ARGUMENTS, _arguments(self), strict=True))
        return MessageId(**{**arguments, **changes})

    __replace__ = _replace


class ChunkMessageId(MessageId):
    """The id of a message sent in chunks: PIP-107.

    To order, equality, hash and position it *is* the id of its last chunk, so that code from
    before PIP-107 goes on working; a seek takes the first chunk. The chunks between are not known
    to it: entries of other producers may lie among them.
    """

    # Invariant: not a chunk id, not in a batch, same partition, at or before the last chunk.
    first_chunk_message_id: MessageId

    def __new__(cls, first: MessageId, last: MessageId) -> ChunkMessageId:
        for name, chunk in (("first", first), ("last", last)):
            if isinstance(chunk, ChunkMessageId):
                raise InvalidMessageId(
                    f"the {name} chunk of a chunk id is itself a chunk id: {chunk}"
                )
            if chunk.batch_index != -1:
                raise InvalidMessageId(f"the {name} chunk of a chunk id is in a batch: {chunk}")
        if first.partition != last.partition:
            raise InvalidMessageId(
                f"the chunks of one message are in two partitions: {first};{last}"
            )
        if first > last:
            raise InvalidMessageId(f"the first chunk is after the last: {first};{last}")
        self = _new_tuple(cls, last)
        # A chunk has no batch size either; a plain copy drops one that came along.
        self.__dict__["first_chunk_message_id"] = _plain(first)
        return self

    @property
    def last_chunk_message_id(self) -> MessageId:
        """A plain id, equal to this one."""
        return _plain(self)

    def serialize(self) -> bytes:
        """The last chunk's bytes with the first chunk's nested in field 7."""
        first = self.first_chunk_message_id.serialize()
        return super().serialize() + b"\x3a" + _varint(len(first), INT32_MAX) + first

    def __str__(self) -> str:
        # PIP-107, item 5: the text shows both chunks.
        return f"{self.first_chunk_message_id};{super().__str__()}"

    def __repr__(self) -> str:
        return f"ChunkMessageId({self.first_chunk_message_id!r}, {self.last_chunk_message_id!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ChunkMessageId, (self.first_chunk_message_id, self.last_chunk_message_id)


_new_tuple = tuple.__new__

_ARGUMENTS = ("ledger_id", "entry_id", "partition", "batch_index", "batch_size")


def _arguments(message_id: MessageId) -> tuple[int, ...]:
    ledger_id, entry_id, batch_index, partition = message_id
    return ledger_id, entry_id, partition, batch_index, message_id.batch_size


def _plain(chunk: MessageId) -> MessageId:
    return MessageId(chunk.ledger_id, chunk.entry_id, chunk.partition)


EARLIEST = MessageId(-1, -1)
"""Before every message; a seek to it goes to the first message retained."""

LATEST = MessageId(INT64_MAX, INT64_MAX)
"""After every message; a seek to it goes to the end."""

# As official clients name them. Set here because they are of the class itself.
MessageId.earliest = EARLIEST
MessageId.latest = LATEST


# --- text -------------------------------------------------------------------------------------

_NUMBER = r"(-?[0-9]{1,19})"
_POSITION = re.compile(rf"{_NUMBER}:{_NUMBER}")
_JAVA = re.compile(rf"{_NUMBER}:{_NUMBER}(?::{_NUMBER}(?::{_NUMBER})?)?")
_CPP = re.compile(rf"\({_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER}\)")


def _parse_one(text: str, part: str) -> MessageId:
    match = _JAVA.fullmatch(part) or _CPP.fullmatch(part)
    if match is None:
        raise _not_text(
            text, "expected ledger:entry:partition[:batch] or (ledger,entry,partition,batch)"
        )
    return MessageId(*_numbers(text, match))


def _numbers(text: str, match: re.Match[str]) -> list[int]:
    """The groups of `match` as numbers that fit their fields: two int64, then int32."""
    numbers = [int(digits) for digits in match.groups() if digits is not None]
    for place, number in enumerate(numbers):
        maximum = INT64_MAX if place < 2 else INT32_MAX
        if not -maximum - 1 <= number <= maximum:
            raise _not_text(text, f"{number} does not fit {maximum.bit_length() + 1} bits")
    return numbers


def _not_text(text: str, reason: str) -> InvalidMessageId:
    shown = ascii(text if len(text) <= 80 else text[:80] + "…")
    return InvalidMessageId(f"not a message id: {shown}: {reason}")


# --- bytes ------------------------------------------------------------------------------------

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))


def _varint(value: int, maximum: int) -> bytes:
    """A signed number of at most `maximum` as protobuf writes it: a negative one in 10 bytes."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if not -maximum - 1 <= value <= maximum:
        raise InvalidMessageId(
            f"{value} does not fit {maximum.bit_length() + 1} bits of a message id"
        )
    value = unsigned64(value)
    # Ledgers and entries mostly have two or three bytes: a loop for them takes three times as long.
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    data = bytearray()
    while value >= 0x80:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)


def _decode(data: bytes, offset: int, end: int, *, inside_chunk_id: bool) -> MessageId:
    """The id in `data[offset:end]`. A field whose wire type is not its own is skipped."""
    ledger_id: int | None = None
    entry_id: int | None = None
    partition = batch_index = -1
    batch_size = 0
    first: MessageId | None = None
    first_offset = 0
    while offset < end:
        tag_offset = offset
        # Nearly every tag and most values are one byte: not worth a call.
        tag = data[offset]
        offset += 1
        if tag >= 0x80:
            tag, offset = _read_varint(data, tag_offset, end)
        if not 0x08 <= tag < 2**32:
            raise _not_bytes(tag_offset, f"tag {tag} has no field number of protobuf")
        wire_type = tag & 7
        if wire_type == _VARINT:
            if offset < end and data[offset] < 0x80:
                value = data[offset]
                offset += 1
            else:
                value, offset = _read_varint(data, offset, end)
            if tag == 0x08:
                ledger_id = signed64(value)
            elif tag == 0x10:
                entry_id = signed64(value)
            elif tag == 0x18:
                partition = _signed32(value)
            elif tag == 0x20:
                batch_index = _signed32(value)
            elif tag == 0x30:
                batch_size = _signed32(value)
            continue
        field_offset = offset
        if wire_type == _LENGTH:
            size, field_offset = _read_varint(data, offset, end)
            offset = field_offset + size
        elif wire_type == _FIXED64:
            offset += 8
        elif wire_type == _FIXED32:
            offset += 4
        else:
            # 3 and 4 are protobuf's groups, which no Pulsar message ever had; 6 and 7 are nothing.
            raise _not_bytes(tag_offset, f"wire type {wire_type} of field {tag >> 3}")
        if offset > end:
            raise _not_bytes(tag_offset, f"field {tag >> 3} ends {offset - end} bytes past the end")
        if tag == 0x3A:
            if inside_chunk_id:
                raise _not_bytes(tag_offset, "the first chunk of a chunk id is itself a chunk id")
            if first is not None:
                raise _not_bytes(tag_offset, "a second first chunk")
            first = _decode(data, field_offset, offset, inside_chunk_id=True)
            first_offset = tag_offset
    if ledger_id is None or entry_id is None:
        raise _not_bytes(offset, f"{'ledgerId' if ledger_id is None else 'entryId'} is missing")
    if first is None:
        return MessageId(ledger_id, entry_id, partition, batch_index, batch_size)
    # A chunk is never in a batch: like the official client, drop what claims otherwise. A first
    # chunk without a partition is in that of the last.
    first_partition = partition if first.partition == -1 else first.partition
    first = MessageId(first.ledger_id, first.entry_id, first_partition)
    try:
        return ChunkMessageId(first, MessageId(ledger_id, entry_id, partition))
    except InvalidMessageId as error:
        raise _not_bytes(first_offset, str(error)) from None


def _read_varint(data: bytes, offset: int, end: int) -> tuple[int, int]:
    """The unsigned 64-bit number at `offset`, and the offset behind it."""
    limit = min(end, offset + 10)
    value = shift = 0
    place = offset
    while place < limit:
        byte = data[place]
        place += 1
        if byte < 0x80:
            return (value | byte << shift) & (2**64 - 1), place
        value |= (byte & 0x7F) << shift
        shift += 7
    if end - offset >= 10:
        raise _not_bytes(offset, "a number of more than 10 bytes")
    raise _not_bytes(offset, "a number is cut off by the end")


def _signed32(value: int) -> int:
    value &= 2**32 - 1
    return value - 2**32 if value > INT32_MAX else value


def _not_bytes(offset: int, reason: str) -> InvalidMessageId:
    return InvalidMessageId(f"not the bytes of a message id: at offset {offset}: {reason}")
