"""A long ACK or REDELIVER, read as several: a client may name as many messages in one as a frame holds.

Looking up half a million ids takes a second, and everybody else would wait meanwhile. So a command of more
than `IDS_MAX` ids is cut into commands that say the same one after the other, for the broker to do other
things between them. The last part of an ACK has the request id; its answer answers for all. Every
part of a REDELIVER has the consumer's epoch, which counts from the first one on.

    long = LongCommand.of(command, 0, len(command))  # None: it is not long, or not as clients write it
    part, more_follow = long.take()                  # a command of the first ids

Cumulative acks name one message. What one of them means that names many, no part of it may say.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from milepost.wire.commands import Kind
from milepost.wire.varint import encode_varint, read_rest, read_varint

# Ids in one part: a few milliseconds.
IDS_MAX: Final = 5_000
# An id is not shorter than this: its tag and size, a ledger and an entry.
_ID_SIZE_MIN: Final = 6
# A shorter command needs no look.
SIZE_MIN: Final = IDS_MAX * _ID_SIZE_MIN

# Tags: field number << 3 | wire type.
_CONSUMER_ID: Final = 1 << 3
_ACK_TYPE: Final = 2 << 3


class _Shape(NamedTuple):
    """How official clients write one kind of command."""

    beginning: bytes
    """Its type, and the tag of its fields."""
    has_ack_type: bool
    id_tag: int
    tail: frozenset[int]
    """What may stand behind the ids. Anything else may change what they mean."""
    repeats_tail: bool
    """It holds from the first part on, not only at the end."""


_SHAPES: Final[dict[int, _Shape]] = {
    # Behind its ids: validation error and request id.
    Kind.ACK: _Shape(b"\x08\x0a\x52", True, 3 << 3 | 2, frozenset((4 << 3, 8 << 3)), False),
    # … the consumer's epoch (PIP-84).
    Kind.REDELIVER_UNACKNOWLEDGED_MESSAGES: _Shape(
        b"\x08\x14\xa2\x01", False, 2 << 3 | 2, frozenset((3 << 3,)), True
    ),
}


class LongCommand:
    __slots__ = ("_bounds", "_data", "_head", "_shape", "_tail")

    def __init__(
        self, shape: _Shape, data: bytes, head: bytes, bounds: list[int], tail: bytes
    ) -> None:
        self._shape = shape
        self._data = data
        # Consumer and ack type, and what stands behind the ids.
        self._head = head
        self._tail = tail
        # Where parts begin and end, the last one first.  Invariant: two or more.
        self._bounds = bounds

    @classmethod
    def of(cls, data: bytes, at: int, end: int) -> LongCommand | None:
        """The command in `data[at:end]`, if it is long and as official clients write it."""
        try:
            return cls._of(data, at, end)
        except IndexError:
            return None

    @classmethod
    def _of(cls, data: bytes, at: int, end: int) -> LongCommand | None:
        shape = _SHAPES.get(data[at + 1])
        if shape is None or end - at < SIZE_MIN or not data.startswith(shape.beginning, at):
            return None
        size, head_at = read_varint(data, at + len(shape.beginning))
        if head_at + size != end or data[head_at] != _CONSUMER_ID:
            return None
        _, at = read_varint(data, head_at + 1)
        is_cumulative = False
        if shape.has_ack_type:
            if data[at] != _ACK_TYPE or data[at + 1] > 1:
                return None
            is_cumulative = data[at + 1] == 1
            at += 2
        ids_at, id_tag = at, shape.id_tag
        bounds: list[int] = []
        count = next_bound = 0
        while at < end and data[at] == id_tag:
            if count == next_bound:
                bounds.append(at)
                next_bound += IDS_MAX
            size = data[at + 1]
            at += 2
            if size > 127:
                size, at = read_rest(data, at, size)
            at += size
            count += 1
        tail_at = at
        while at < end:
            if data[at] not in shape.tail:
                return None
            _, at = read_varint(data, at + 1)
        if count <= IDS_MAX or at != end:
            return None
        bounds.append(tail_at)
        if is_cumulative:
            del bounds[2:]
        bounds.reverse()
        return cls(shape, data, data[head_at:ids_at], bounds, data[tail_at:end])

    def take(self) -> tuple[bytes, bool]:
        """The next part, a command of its own, and whether more follow."""
        first = self._bounds.pop()
        end = self._bounds[-1]
        goes_on = len(self._bounds) > 1
        body = self._head + self._data[first:end]
        if not goes_on or self._shape.repeats_tail:
            body += self._tail
        return self._shape.beginning + encode_varint(len(body)) + body, goes_on
