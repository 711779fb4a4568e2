"""A long ACK, read as several: a client may name as many messages in one command as a frame holds.

Looking up half a million ids takes a second, and everybody else would wait meanwhile. So an ACK of more
than `IDS_MAX` is cut into commands that say the same one after the other, for the broker to do other things
between them. The last one has the request id; whoever answers it answers for all.

    >>> long = LongAck.of(command, 0, len(command))     # None: it is not long, or not as clients write it
    >>> long.take()                                     # (an ACK of the first ids, more follow)
    (b'...', True)

Cumulative acks name one message. What one of them means that names many, no part of it may say.
"""

from __future__ import annotations

from typing import Final

from milepost.wire.varint import encode_varint, read_rest, read_varint

# Ids in one part: a few milliseconds.
IDS_MAX: Final = 5_000
# An id is not shorter than this: its tag and size, a ledger and an entry.
_ID_SIZE_MIN: Final = 6
# A shorter command needs no look.
SIZE_MIN: Final = IDS_MAX * _ID_SIZE_MIN

# How an ACK begins: type, and tag of its fields. Then tags: field number << 3 | wire type.
_BEGINNING: Final = b"\x08\x0a\x52"
_CONSUMER_ID: Final = 1 << 3
_ACK_TYPE: Final = 2 << 3
_MESSAGE_ID: Final = 3 << 3 | 2
# Validation error and request id. What else an ACK may say changes what its ids mean.
_TAIL: Final = frozenset((4 << 3, 8 << 3))


class LongAck:
    __slots__ = ("_bounds", "_data", "_head", "_tail")

    def __init__(self, data: bytes, head: bytes, bounds: list[int], tail: bytes) -> None:
        self._data = data
        # Consumer and ack type, and what stands behind the ids.
        self._head = head
        self._tail = tail
        # Where parts begin and end, the last one first.  Invariant: two or more.
        self._bounds = bounds

    @classmethod
    def of(cls, data: bytes, at: int, end: int) -> LongAck | None:
        """The ACK in `data[at:end]`, if it is long and as official clients write it."""
        try:
            return cls._of(data, at, end)
        except IndexError:
            return None

    @classmethod
    def _of(cls, data: bytes, at: int, end: int) -> LongAck | None:
        if end - at < SIZE_MIN or not data.startswith(_BEGINNING, at):
            return None
        size, head_at = read_varint(data, at + len(_BEGINNING))
        if head_at + size != end or data[head_at] != _CONSUMER_ID:
            return None
        _, at = read_varint(data, head_at + 1)
        if data[at] != _ACK_TYPE or data[at + 1] > 1:
            return None
        is_cumulative = data[at + 1] == 1
        ids_at = at = at + 2
        bounds: list[int] = []
        count = next_bound = 0
        while at < end and data[at] == _MESSAGE_ID:
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
            if data[at] not in _TAIL:
                return None
            _, at = read_varint(data, at + 1)
        if count <= IDS_MAX or at != end:
            return None
        bounds.append(tail_at)
        if is_cumulative:
            del bounds[2:]
        bounds.reverse()
        return cls(data, data[head_at:ids_at], bounds, data[tail_at:end])

    def take(self) -> tuple[bytes, bool]:
        """The next part, a command of its own, and whether more follow."""
        first = self._bounds.pop()
        end = self._bounds[-1]
        goes_on = len(self._bounds) > 1
        body = self._head + self._data[first:end]
        if not goes_on:
            body += self._tail
        return _BEGINNING + encode_varint(len(body)) + body, goes_on
