"""`IndexRanges`: a set of indexes as half-open ranges.

What a cursor is made of. It owns the arithmetic of such sets and nothing else: no index means
anything here, none has a state, and no clock, file or socket is known. Ranges go in and come out as
`(first, end)`; how they are kept is in `pages.py` and invisible here.

    >>> acked = IndexRanges([(0, 3), (5, 8)])
    >>> acked.add(2, 6), acked.count, list(acked)       # how many of them were new
    (2, 8, [(0, 8)])
    >>> acked.discard(1, 3), list(acked), 2 in acked    # how many of them were there
    (2, [(0, 1), (3, 8)], False)
    >>> list(acked.gaps(0, 10)), acked.next_range(4)
    ([(1, 3), (8, 10)], (4, 8))

The byte form knows no pages, so that their size may change: see `to_bytes`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from milepost.errors import CorruptData, InvalidRange
from milepost.positions.pages import Pages
from milepost.positions.spans import INDEX_MAX
from milepost.positions.varints import read_varint, write_varint

# `[first, end)`. A `Span` is a pair of numbers too, but of first index and *count*: where a range
# is wanted, say its `end_index`.
Range: TypeAlias = tuple[int, int]

# No encoder writes a longer bitmap; a longer one in the input is damage, not a reason to allocate.
BITMAP_SIZE_BYTES_MAX = 8192


class IndexRanges(Pages):
    """A set of indexes. Every range given must satisfy `0 <= first <= end`."""

    __slots__ = ()

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        super().__init__()
        for first, end in ranges:
            self.add(first, end)

    # ── one range ─────────────────────────────────────────────────────────────────────────────

    def add(self, first: int, end: int) -> int:
        """Put `[first, end)` in; how many were not there before."""
        if not 0 <= first < end:
            return _nothing(first, end)
        shift, mask = self._shift, self._mask
        page, last_page = first >> shift, (end - 1) >> shift
        if page == last_page:
            return self._add_bits(page, ((1 << (end - first)) - 1) << (first & mask))
        added = 0
        if first & mask:
            added += self._add_bits(page, self._full >> (first & mask) << (first & mask))
            page += 1
        if end & mask:
            added += self._add_bits(last_page, (1 << (end & mask)) - 1)
            last_page -= 1
        return added + self._add_pages(page, last_page + 1)

    def discard(self, first: int, end: int) -> int:
        """Take `[first, end)` out; how many were there."""
        if not 0 <= first < end:
            return _nothing(first, end)
        shift, mask = self._shift, self._mask
        page, last_page = first >> shift, (end - 1) >> shift
        if page == last_page:
            return self._discard_bits(page, ((1 << (end - first)) - 1) << (first & mask))
        removed = 0
        if first & mask:
            removed += self._discard_bits(page, self._full >> (first & mask) << (first & mask))
            page += 1
        if end & mask:
            removed += self._discard_bits(last_page, (1 << (end & mask)) - 1)
            last_page -= 1
        return removed + self._discard_pages(page, last_page + 1)

    def count_within(self, first: int, end: int) -> int:
        """How many of `[first, end)` are in the set."""
        if not 0 <= first < end:
            return _nothing(first, end)
        shift, mask = self._shift, self._mask
        page, last_page = first >> shift, (end - 1) >> shift
        if page == last_page:
            return (self._page(page) >> (first & mask) & ((1 << (end - first)) - 1)).bit_count()
        count = 0
        if first & mask:
            count += (self._page(page) >> (first & mask)).bit_count()
            page += 1
        if end & mask:
            count += (self._page(last_page) & ((1 << (end & mask)) - 1)).bit_count()
            last_page -= 1
        return count + self._count_pages(page, last_page + 1)

    def covers(self, first: int, end: int) -> bool:
        """Whether all of `[first, end)` is in the set."""
        if not 0 <= first < end:
            return not _nothing(first, end)
        return self.next_absent(first, end) == end

    def bits(self, first: int, end: int) -> int:
        """`[first, end)` as one integer: bit i is set if `first + i` is in the set."""
        if not 0 <= first < end:
            return _nothing(first, end)
        page, last_page = first >> self._shift, (end - 1) >> self._shift
        if page == last_page:
            bits = self._page(page)
        else:
            size_bytes = (self._mask + 1) // 8
            pages = [self._page(inner) for inner in range(page, last_page + 1)]
            joined = b"".join(bits.to_bytes(size_bytes, "little") for bits in pages)
            bits = int.from_bytes(joined, "little")
        return bits >> (first & self._mask) & ((1 << (end - first)) - 1)

    # ── looking around ────────────────────────────────────────────────────────────────────────

    def __contains__(self, index: object) -> bool:
        if not isinstance(index, int) or index < 0:
            return False
        return bool(self._page(index >> self._shift) >> (index & self._mask) & 1)

    def __bool__(self) -> bool:
        return self.count > 0

    def __iter__(self) -> Iterator[Range]:
        """All ranges, ascending, none touching the next."""
        return self.within(0, INDEX_MAX)

    @property
    def first(self) -> int | None:
        """The lowest index in the set, if there is any."""
        return self.next_index(0)

    @property
    def end(self) -> int | None:
        """The end of the last range, if there is any."""
        if not self._bounds:
            return None
        last_page = self._bounds[-1] - 1
        return (last_page << self._shift) + self._page(last_page).bit_length()

    def next_index(self, index: int) -> int | None:
        """The lowest index in the set that is not below `index`."""
        bounds, shift = self._bounds, self._shift
        page = index >> shift
        at = bisect_right(bounds, page)
        if at & 1:
            rest = self._partial.get(page, self._full) >> (index & self._mask)
            if rest:
                return index + _trailing_zeros(rest)
            page += 1
            at += page == bounds[at]
        if not at & 1:
            if at == len(bounds):
                return None
            page = bounds[at]
        return (page << shift) + _trailing_zeros(self._partial.get(page, self._full))

    def next_absent(self, index: int, end: int) -> int:
        """The lowest index of `[index, end)` that is not in the set, or `end`."""
        bounds, shift = self._bounds, self._shift
        while index < end:
            page = index >> shift
            bits = self._partial.get(page)
            if bits is not None:
                bit = index & self._mask
                run = _trailing_ones(bits >> bit)
                index += run
                if bit + run <= self._mask:
                    break
            else:
                at = bisect_right(bounds, page)
                if not at & 1:
                    break
                index = self._next_partial(page + 1, min(bounds[at], (end >> shift) + 1)) << shift
        return min(index, end)

    def last_absent(self, first: int, end: int) -> int | None:
        """The highest index of `[first, end)` that is not in the set, if there is any."""
        bounds, shift, mask = self._bounds, self._shift, self._mask
        while first < end:
            page = (end - 1) >> shift
            bits = self._partial.get(page)
            if bits is None:
                if not bisect_right(bounds, page) & 1:
                    return end - 1
            elif absent := ~bits & ((2 << ((end - 1) & mask)) - 1):
                index = (page << shift) + absent.bit_length() - 1
                return index if index >= first else None
            end = page << shift
        return None

    def next_range(self, first: int, end: int = INDEX_MAX) -> Range | None:
        """The first range that reaches into `[first, end)`, as far as it is inside."""
        found = self.next_index(first)
        if found is None or found >= end:
            return None
        return found, self.next_absent(found, end)

    def range_count(self) -> int:
        """How many ranges there are, none touching the next: counted by page, however many.

        >>> IndexRanges([(0, 3), (3, 4), (5, 8)]).range_count()
        2
        """
        count, before, was_last = 0, -1, 0
        for page, page_end, bits in self._pages():
            joins = was_last if page == before else 0
            if bits is None:
                count += 1 - joins
                was_last = 1
            else:
                count += (bits & ~(bits << 1)).bit_count() - (joins & bits & 1)
                was_last = bits >> self._mask & 1
            before = page_end
        return count

    def within(self, first: int, end: int) -> Iterator[Range]:
        """The ranges that reach into `[first, end)`, as far as they are inside."""
        while (found := self.next_range(first, end)) is not None:
            yield found
            first = found[1]

    def gaps(self, first: int, end: int) -> Iterator[Range]:
        """The ranges of `[first, end)` that are not in the set."""
        while (first := self.next_absent(first, end)) < end:
            found = self.next_index(first)
            gap_end = end if found is None else min(found, end)
            yield first, gap_end
            first = gap_end

    # ── whole sets, a page at a time ──────────────────────────────────────────────────────────

    def copy(self) -> IndexRanges:
        """The same indexes in a set of their own."""
        other = IndexRanges.__new__(IndexRanges)
        other.count = self.count
        other._shift, other._mask, other._full = self._shift, self._mask, self._full
        other._bounds = self._bounds.copy()
        other._partial = self._partial.copy()
        return other

    def clear(self) -> None:
        """Take everything out."""
        if self.count:
            self.count = 0
            self._bounds.clear()
            self._partial.clear()

    def add_all(self, other: IndexRanges) -> int:
        """Put all of another set in; how many were not there before."""
        assert self._shift == other._shift
        if not other.count:
            return 0
        added = 0
        for page, page_end, bits in other._pages():
            if bits is None:
                added += self._add_pages(page, page_end)
            else:
                added += self._add_bits(page, bits)
        return added

    def discard_all(self, other: IndexRanges) -> int:
        """Take all of another set out; how many were there."""
        assert self._shift == other._shift
        if not other.count or not self.count:
            return 0
        removed = 0
        for page, page_end, bits in other._pages():
            if bits is None:
                removed += self._discard_pages(page, page_end)
            else:
                removed += self._discard_bits(page, bits)
        return removed

    def __and__(self, other: IndexRanges) -> IndexRanges:
        """What is in both."""
        assert self._shift == other._shift
        few, many = self, other
        if len(few._partial) + len(few._bounds) > len(many._partial) + len(many._bounds):
            few, many = many, few
        both = IndexRanges()
        for page, page_end, bits in few._pages():
            if bits is not None:
                if common := bits & many._page(page):
                    both._add_bits(page, common)
                continue
            for inner, inner_end, inner_bits in many._pages(page, page_end):
                if inner_bits is None:
                    both._add_pages(inner, inner_end)
                else:
                    both._add_bits(inner, inner_bits)
        return both

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexRanges):
            return NotImplemented
        assert self._shift == other._shift
        # One set has one form: a full page is never in `_partial`, an empty one in neither.
        return self._bounds == other._bounds and self._partial == other._partial

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        shown: list[str] = []
        for first, end in self:
            if len(shown) == 8:
                shown.append("…")
                break
            shown.append(f"({first}, {end})")
        return f"IndexRanges([{', '.join(shown)}])"

    # ── bytes ─────────────────────────────────────────────────────────────────────────────────

    def to_bytes(self) -> bytes:
        """The durable form: parts, ascending, each

            varint   gap: indexes between the end of the part before and this one
            varint   2 × length: a range of that length;
                     2 × size + 1: a bitmap of that many bytes follows, lowest index first

        A page with few ranges is written as ranges, one with many as a bitmap. A set and the set of
        its gaps are about equally long in this form: there is no need to store "the smaller one".
        """
        if not self.count:
            return b""
        out = bytearray()
        part_end = run_first = run_end = 0

        def write_run() -> None:
            nonlocal part_end, run_first
            if run_first < run_end:
                write_varint(out, run_first - part_end)
                write_varint(out, (run_end - run_first) << 1)
                part_end = run_first = run_end

        for page, page_end, bits in self._pages():
            first = page << self._shift
            if bits is not None and _is_scattered(bits):
                write_run()
                bitmap = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
                write_varint(out, first - part_end)
                write_varint(out, len(bitmap) << 1 | 1)
                out += bitmap
                part_end = first + 8 * len(bitmap)
                continue
            runs = [(first, page_end << self._shift)] if bits is None else _runs(bits, first)
            for first, end in runs:
                if first != run_end:
                    write_run()
                    run_first = first
                run_end = end
        write_run()
        return bytes(out)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> IndexRanges:
        """The set that `to_bytes` wrote, or `CorruptData`."""
        ranges = cls()
        end = at = 0
        while at < len(data):
            gap, at = read_varint(data, at)
            header, at = read_varint(data, at)
            first, length = end + gap, header >> 1
            if not header & 1:
                end = first + length
                if length and end <= INDEX_MAX:
                    ranges.add(first, end)
                    continue
            elif 0 < length <= min(BITMAP_SIZE_BYTES_MAX, len(data) - at):
                end = first + 8 * length
                bits = int.from_bytes(data[at : at + length], "little")
                at += length
                if first + bits.bit_length() <= INDEX_MAX:
                    ranges._add_bitmap(first, bits)
                    continue
            raise CorruptData(f"a part of {length} from index {first} before byte {at}")
        return ranges

    def _add_bitmap(self, first: int, bits: int) -> None:
        """Put `first + i` in for every bit i that is set, across page borders."""
        while bits:
            bit = first & self._mask
            if here := bits << bit & self._full:
                self._add_bits(first >> self._shift, here)
            bits >>= self._mask + 1 - bit
            first += self._mask + 1 - bit


def joined(indexes: Sequence[int]) -> list[Range]:
    """Ascending indexes as ranges.

    >>> joined([3, 4, 5, 9])
    [(3, 6), (9, 10)]
    """
    ranges: list[Range] = []
    for index in indexes:
        if ranges and ranges[-1][1] == index:
            ranges[-1] = ranges[-1][0], index + 1
        else:
            ranges.append((index, index + 1))
    return ranges


def _nothing(first: int, end: int) -> int:
    """What an empty range changes; anything else that holds no index is a mistake."""
    if 0 <= first == end:
        return 0
    raise InvalidRange(f"no range is [{first}, {end})")


def _trailing_zeros(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _trailing_ones(bits: int) -> int:
    return (bits ^ (bits + 1)).bit_length() - 1


def _is_scattered(bits: int) -> bool:
    """Whether a page is shorter as a bitmap than as ranges, at about three bytes a range."""
    run_count = (bits & ~(bits << 1)).bit_count()
    return 3 * run_count > 3 + bits.bit_length() // 8


def _runs(bits: int, first: int) -> list[Range]:
    """The runs of ones in a page's bits, counted from `first`."""
    runs = []
    while bits:
        zeros = _trailing_zeros(bits)
        bits >>= zeros
        ones = _trailing_ones(bits)
        bits >>= ones
        runs.append((first + zeros, first + zeros + ones))
        first += zeros + ones
    return runs
