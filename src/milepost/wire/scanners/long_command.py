"""Splits a long ACK or REDELIVER into several.

Looking up half a million ids takes a second, and every other client would wait for it. So a command of more
than `IDS_MAX` ids, or `PART_SIZE_MAX` bytes of them, is cut into commands that say the same one after the
other, for the broker to do other things between them. Where to cut is looked for in several steps too. The
last part of an ACK has the request id; its answer answers for all. Every part of a REDELIVER has the
consumer's epoch, which counts from the first one on.

    long = LongCommand.of(command, 0, len(command))  # None: it is not long, or not as clients write it
    part, more_follow = long.take()                  # a command of the first ids

Cumulative acks name one message. What one of them means that names many, no part of it may say. An ACK of a
transaction is obeyed as a whole or not at all, so it has no parts. Of one that is too long only as much is
read as its refusal needs (`is_cut`).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from milepost.errors import ProtocolError
from milepost.positions.ackset import BATCH_SIZE_MAX
from milepost.wire.commands import Kind
from milepost.wire.reasons import Reason
from milepost.wire.scanners.varint import encode_varint, read_rest, read_varint

# Ids in one part: about half a millisecond. With large ack sets there are fewer in as many bytes.
IDS_MAX: Final = 125
PART_SIZE_MAX: Final = 16 * 1024
# Ids that are stepped over in one look, to find where the parts begin: less than a millisecond.
IDS_PER_LOOK: Final = 2_500
# Parts that an ACK of a transaction may be as long as: 10,000 ids, read in about 50 ms.
TRANSACTION_PARTS_MAX: Final = 80
# An id with the set of the largest batch, each of its words written as long as a word can be.
ID_SIZE_MAX: Final = BATCH_SIZE_MAX // 64 * 11 + 128
# An id is not shorter than this: its tag and size, a ledger and an entry.
_ID_SIZE_MIN: Final = 6
# A shorter command needs no look.
SIZE_MIN: Final = IDS_MAX * _ID_SIZE_MIN

# Tags: field number << 3 | wire type.
_CONSUMER_ID: Final = 1 << 3
_ACK_TYPE: Final = 2 << 3
_TRANSACTION: Final = (6 << 3, 7 << 3)


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
    __slots__ = (
        "_at",
        "_bounds",
        "_data",
        "_end",
        "_head_at",
        "_ids_at",
        "_is_cumulative",
        "_shape",
        "_start",
        "_tail_at",
        "is_cut",
        "is_looked_through",
        "is_unusual",
    )

    def __init__(self, shape: _Shape, data: bytes, start: int, end: int) -> None:
        self._shape = shape
        self._data = data
        self._start = start
        self._end = end
        self._head_at = self._ids_at = self._at = self._tail_at = 0
        self._is_cumulative = False
        # Where parts begin and end; turned round when all are known, so that the last one is first.
        self._bounds: list[int] = []
        self.is_looked_through = False
        """Its parts are known, or that it has none."""
        self.is_unusual = False
        """It is not as official clients write it, has one part only, or is of a transaction: it is to be
        read as a whole."""
        self.is_cut = False
        """It is an ACK of a transaction that is too long: `whole` has its first ids only."""

    @classmethod
    def of(cls, data: bytes, at: int, end: int) -> LongCommand | None:
        """The command in `data[at:end]`, if it is long and, as far as was looked, as clients write it.

        `ProtocolError` for an id that is larger than any batch's.
        """
        try:
            shape = _SHAPES.get(data[at + 1])
            if shape is None or end - at < SIZE_MIN or not data.startswith(shape.beginning, at):
                return None
            found = cls(shape, data, at, end)
            if not found._read_head():
                return None
        except IndexError:
            return None
        found.look()
        return None if found.is_unusual else found

    def _read_head(self) -> bool:
        data, shape = self._data, self._shape
        size, head_at = read_varint(data, self._start + len(shape.beginning))
        if head_at + size != self._end or data[head_at] != _CONSUMER_ID:
            return False
        _, at = read_varint(data, head_at + 1)
        if shape.has_ack_type:
            if data[at] != _ACK_TYPE or data[at + 1] > 1:
                return False
            self._is_cumulative = data[at + 1] == 1
            at += 2
        self._head_at, self._ids_at, self._at = head_at, at, at
        self._bounds.append(at)
        return True

    def look(self) -> None:
        """Look through some more of its ids: how many there are is up to the client."""
        try:
            if self._look_at_ids():
                self._look_at_tail()
        except IndexError:
            self.is_looked_through = self.is_unusual = True

    def _look_at_ids(self) -> bool:
        """Whether all of them were seen."""
        data, at, end, bounds = self._data, self._at, self._end, self._bounds
        id_tag = self._shape.id_tag
        for _ in range(max(IDS_PER_LOOK // IDS_MAX, 1)):
            # The next part: so many ids, or so many bytes.
            size_end = bounds[-1] + PART_SIZE_MAX
            for _ in range(IDS_MAX):
                if at >= end or data[at] != id_tag or at >= size_end:
                    break
                size = data[at + 1]
                at += 2
                if size > 127:
                    size, at = read_rest(data, at, size)
                    if size > ID_SIZE_MAX and at + size <= end:
                        raise ProtocolError(
                            Reason.BAD_COMMAND_SIZE,
                            f"a message id of {size} bytes; allowed are {ID_SIZE_MAX}",
                        )
                at += size
            self._at = at
            if at >= end or data[at] != id_tag:
                return True
            bounds.append(at)
        return False

    def _look_at_tail(self) -> None:
        data, at, end, shape, bounds = self._data, self._at, self._end, self._shape, self._bounds
        self.is_looked_through = True
        self._tail_at = at
        is_transaction = False
        while at < end:
            if shape.has_ack_type and data[at] in _TRANSACTION:
                is_transaction = True
            elif data[at] not in shape.tail:
                self.is_unusual = True
                return
            _, at = read_varint(data, at + 1)
        if len(bounds) < 2 or at != end or is_transaction:
            self.is_unusual = True
            self.is_cut = at == end and is_transaction and len(bounds) > TRANSACTION_PARTS_MAX
            return
        bounds.append(self._tail_at)
        if self._is_cumulative:
            del bounds[2:]
        bounds.reverse()

    def whole(self) -> bytes:
        if not self.is_cut:
            return self._data[self._start : self._end]
        body = self._data[self._head_at : self._bounds[1]] + self._data[self._tail_at : self._end]
        return self._shape.beginning + encode_varint(len(body)) + body

    def take(self) -> tuple[bytes, bool]:
        """The next part, a command of its own, and whether more follow."""
        first = self._bounds.pop()
        end = self._bounds[-1]
        goes_on = len(self._bounds) > 1
        body = self._data[self._head_at : self._ids_at] + self._data[first:end]
        if not goes_on or self._shape.repeats_tail:
            body += self._data[self._tail_at : self._end]
        return self._shape.beginning + encode_varint(len(body)) + body, goes_on
