"""Splits an ACK of large ack sets into several.

An ACK that is short in bytes may mean very many ranges, and each costs. So its sets are cut: no slice means
many more than `RANGES_MAX` ranges, which are done in less than half a millisecond. A slice of one set has a
`window`, the batch indexes that it speaks of. All slices but the last go on, as the parts of a long command
do; the answer comes behind the last one. An ACK of a transaction is obeyed as a whole or not at all, and is
not cut.

    >>> ack = Ack(7, False, [WireId(3, 1, ack_set=(0x5555_5555_5555_5555,) * 12)], request_id=None)
    >>> [(len(part.ids[0].ack_set), part.window) for part in sliced(ack)]
    [(4, (0, 256)), (4, (256, 512)), (4, (512, 1048576))]
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Final

from milepost.positions.ackset import BATCH_SIZE_MAX
from milepost.wire.events import Ack, WireId

# Ranges of batch indexes in one slice; a word of an ack set can mean half as many as it has bits.
RANGES_MAX: Final = 128
_RANGES_PER_WORD: Final = 32
# Ranges that one id may name. A set that names more is left whole, for the broker to refuse it.
ACKED_RANGES_MAX: Final = 250_000
_MASK_64: Final = (1 << 64) - 1

# Words of a set that is never cut.
WORDS_SMALL: Final = RANGES_MAX // _RANGES_PER_WORD

_ack_set = itemgetter(4)


def sliced(ack: Ack) -> Iterator[Ack]:
    """The ACK itself, or slices of it that mean the same one after the other. Each is cut when it is asked
    for, so that no step is long."""
    sets = list(map(_ack_set, ack.ids))
    is_small = sum(map(len, sets)) * _RANGES_PER_WORD <= RANGES_MAX
    if is_small or ack.is_cumulative or ack.transaction is not None:
        yield ack
        return
    if sum(map(ranges_in, sets)) <= RANGES_MAX:
        yield ack
        return
    slices = _cut(ack)
    before = next(slices)
    for one in slices:
        yield before._replace(goes_on=True)
        before = one
    yield before


def _cut(ack: Ack) -> Iterator[Ack]:
    whole: list[WireId] = []  # ids that share the next slice
    left = RANGES_MAX
    for message_id in distinct(ack.ids):
        ranges = ranges_in(message_id.ack_set)
        if ranges > left and whole:
            yield ack._replace(ids=whole)
            whole, left = [], RANGES_MAX
        if ranges > ACKED_RANGES_MAX:
            yield ack._replace(ids=[message_id])
        elif ranges > RANGES_MAX:
            yield from _windows(ack, message_id)
        else:
            whole.append(message_id)
            left -= ranges
    if whole:
        yield ack._replace(ids=whole)


def ranges_in(words: Sequence[int]) -> int:
    """How many ranges of acked messages a set names, or one less."""
    bits = int.from_bytes(array("q", words).tobytes(), sys.byteorder)
    return (bits ^ bits << 1).bit_count() >> 1


def _windows(ack: Ack, message_id: WireId) -> Iterator[Ack]:
    """Slices of one large set."""
    words = message_id.ack_set
    first = edges = before = 0
    for at, word in enumerate(words, 1):
        edges += ((word ^ (word << 1 | before)) & _MASK_64).bit_count()
        before = word >> 63 & 1
        # Words that are missing mean acked: those behind the last one are the last slice's.
        is_last = at == len(words)
        if is_last or edges > 2 * (RANGES_MAX - _RANGES_PER_WORD):
            only = message_id._replace(ack_set=words[first:at])
            window = (first * 64, BATCH_SIZE_MAX if is_last else at * 64)
            yield ack._replace(ids=[only], window=window)
            first, edges, before = at, 0, 0


def distinct(ids: Sequence[WireId]) -> list[WireId]:
    """The ids of an ACK, each entry once.

    Official clients name an entry once for each message of it that is acked, mostly with the same
    set. Sets of one entry are merged by AND, which is what acking one after the other does.
    """
    unique = dict.fromkeys(ids)
    if not any(map(_ack_set, unique)):
        return list(unique)
    merged: dict[tuple[int, int], WireId] = {}
    for message_id in unique:
        position = message_id[:2]
        other = merged.get(position)
        if other is None:
            merged[position] = message_id
        elif other.ack_set:
            # Words that are missing mean acked, as no words at all do.
            words = zip(other.ack_set, message_id.ack_set, strict=False)
            merged[position] = message_id._replace(ack_set=tuple(one & two for one, two in words))
    return list(merged.values())
