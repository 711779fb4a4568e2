"""The ack set of a batch: which of its messages are not acked yet (PIP-54).

A set bit means *pending*, in every command and on disk; a cleared bit means acked. So two sets of
one batch merge by AND, in any order and any number of times. Kept as one integer; bits at or past
the batch size are never set. Knows no entry and no index; numbers given out are batch indexes,
unless the caller says from which index on they count.

On the wire a set is a list of signed 64-bit words, as Java's BitSet lays them out: word w holds the
batch indexes 64w to 64w + 63, least significant bit first. Words of zero at the end are left out,
so that a missing word means *acked*. What *no words at all* means depends on the command:

    ACK             the whole entry is acked               from_ack_words, to_ack_words
    MESSAGE, SEEK   nothing of the entry is acked yet      from_message_words, to_message_words

    >>> pending = AckSet.full(5).without(0).without(1)
    >>> pending.to_ack_words(), pending.acked_runs(first_index=100)
    ([28], [(100, 102)])
    >>> (pending & AckSet.from_ack_words([-5], 5)).acked_runs()        # bits past 4 mean nothing
    [(0, 3)]
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from milepost.errors import InvalidAckSet

# The smallest message in a batch takes six bytes, so that a batch of 5 MiB holds fewer than this.
BATCH_SIZE_MAX = 2**20


class AckSet:
    """The pending bits of one batch. A value: it does not change, what changes it makes another."""

    __slots__ = ("bits", "size")

    # Messages in the batch. Invariant: 1 <= size <= BATCH_SIZE_MAX.
    size: Final[int]

    # Bit i set: message i is pending. Invariant: 0 <= bits < 2**size.
    bits: Final[int]

    def __init__(self, bits: int, size: int) -> None:
        """From one integer; bits at or past the size are dropped, as PIP-54's peers expect."""
        _check_size(size)
        self.size = size
        self.bits = bits & ((1 << size) - 1)

    @classmethod
    def full(cls, size: int) -> AckSet:
        """Nothing acked."""
        return cls(-1, size)

    @classmethod
    def empty(cls, size: int) -> AckSet:
        """Everything acked."""
        return cls(0, size)

    @classmethod
    def from_ack_words(cls, words: Sequence[int], size: int) -> AckSet:
        """The set an ACK carries, and the form for storage: no words say that all is acked."""
        return cls(_bits(words, size), size)

    @classmethod
    def from_message_words(cls, words: Sequence[int], size: int) -> AckSet:
        """The set a MESSAGE or a SEEK carries: no words say that nothing is acked."""
        return cls(_bits(words, size) if words else -1, size)

    def to_ack_words(self) -> list[int]:
        """Words for an ACK or for storage; none when all is acked."""
        count = (self.bits.bit_length() + 63) // 64
        return list(struct.unpack(f"<{count}q", self.bits.to_bytes(8 * count, "little")))

    def to_message_words(self) -> list[int]:
        """Words for a MESSAGE or a SEEK; none when nothing is acked."""
        # It would go out as no words, and the client would see the whole batch again.
        assert self.bits, f"a batch of {self.size} with every message acked is not delivered"
        return [] if self.is_full else self.to_ack_words()

    @property
    def is_full(self) -> bool:
        """Nothing is acked."""
        return self.pending_count == self.size

    @property
    def is_empty(self) -> bool:
        """Everything is acked."""
        return not self.bits

    @property
    def pending_count(self) -> int:
        """How many messages are still to be acked."""
        return self.bits.bit_count()

    @property
    def acked_count(self) -> int:
        return self.size - self.bits.bit_count()

    def without(self, batch_index: int) -> AckSet:
        """The set after one message is acked."""
        return AckSet(self.bits & ~(1 << self._checked(batch_index)), self.size)

    def without_before(self, batch_index: int) -> AckSet:
        """The set after everything below a place is acked: what a seek to that place leaves.

        A cumulative ack of message i leaves `without_before(i + 1)`.
        """
        if not 0 <= batch_index <= self.size:
            raise InvalidAckSet(f"batch index {batch_index} in a batch of {self.size}")
        return AckSet(self.bits >> batch_index << batch_index, self.size)

    def __and__(self, other: AckSet) -> AckSet:
        """Both sets' acks together."""
        if self.size != other.size:
            raise InvalidAckSet(f"sets of a batch of {self.size} and one of {other.size} merged")
        return AckSet(self.bits & other.bits, self.size)

    @property
    def first_pending(self) -> int | None:
        """The lowest batch index that is still to be acked; None if none is."""
        return (self.bits & -self.bits).bit_length() - 1 if self.bits else None

    def acked_runs(self, first_index: int = 0) -> list[tuple[int, int]]:
        """What is acked, as ascending half-open runs counted from `first_index`."""
        return _runs(self.bits ^ ((1 << self.size) - 1), first_index)

    def _checked(self, batch_index: int) -> int:
        if not 0 <= batch_index < self.size:
            raise InvalidAckSet(f"batch index {batch_index} in a batch of {self.size}")
        return batch_index

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AckSet):
            return NotImplemented
        return self.bits == other.bits and self.size == other.size

    def __hash__(self) -> int:
        return hash((self.bits, self.size))

    def __repr__(self) -> str:
        return f"AckSet({self.bits:#x}, {self.size})"


def _check_size(size: int) -> None:
    if not 0 < size <= BATCH_SIZE_MAX:
        raise InvalidAckSet(f"a batch of {size} messages; allowed are 1 to {BATCH_SIZE_MAX}")


def _bits(words: Sequence[int], size: int) -> int:
    """One integer of the words that speak of the batch; those behind it say nothing."""
    _check_size(size)
    words = words[: (size + 63) // 64]
    try:
        return int.from_bytes(struct.pack(f"<{len(words)}q", *words), "little")
    except struct.error as error:
        raise InvalidAckSet(
            f"a word of an ack set is not a signed 64-bit number: {error}"
        ) from None


def _runs(bits: int, first_index: int) -> list[tuple[int, int]]:
    lowest = bits & -bits
    if bits and not bits & bits + lowest:  # one run, as most are: adding carries through all of it
        return [(first_index + lowest.bit_length() - 1, first_index + bits.bit_length())]
    # Searching a string of digits is linear and leaves the loop once a run. Taking the lowest bit
    # off again and again is quicker for a handful of runs, but quadratic.
    digits = f"{bits:b}"[::-1]
    runs = []
    first = digits.find("1")
    while first >= 0:
        end = digits.find("0", first)
        if end < 0:
            end = len(digits)
        runs.append((first_index + first, first_index + end))
        first = digits.find("1", end)
    return runs
