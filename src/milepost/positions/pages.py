"""How `IndexRanges` stores a set of indexes. `IndexRanges` is what it means.

The indexes are cut into pages of `2**PAGE_SHIFT`. A page with nothing in it costs nothing. A page
with everything in it costs nothing either: the pages that hold anything at all are kept as one flat
sorted list of bounds, so that a backlog of a thousand million is two numbers. Only a page that
holds some indexes and not others has an object of its own, an integer with a bit for each.

So the cost does not depend on how scattered a set is: every second index of ten million takes about
2 MB, and a change is one lookup and one operation on 128 bytes, wherever it falls. In order it is
the same: the last page grows or the first one shrinks, and the list of bounds is short.

    pages of 8:       0         1         2         3         4         5
    the set           00000000  11111111  11111111  11010000  11111111  00000000
    _bounds           [1, 5]                        _partial  {3: 0b00001011}

Whole pages and bits of one page are all it knows; ranges that begin and end anywhere are cut up by
`IndexRanges`. The methods are for that class alone.
"""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from milepost.positions.spans import INDEX_MAX

# A larger page makes each change dearer, a smaller one adds objects; at 1,024 bits both are small.
# Read when a set is made, so that tests may shrink it and cross page borders all the time.
PAGE_SHIFT = 10


class Pages:
    """A set of indexes, addressed by page."""

    __slots__ = ("_bounds", "_full", "_mask", "_partial", "_shift", "count")

    # How many indexes are in the set.
    count: int

    # An index is in page `index >> _shift`, at bit `index & _mask`; `_full` is a page of ones.
    _shift: int
    _mask: int
    _full: int

    # Bounds of the ranges of pages that hold anything: [first, end, first, end, …].
    # Invariant: strictly ascending and even in number. So a page holds something if and only if
    # an odd number of bounds is not above it.
    _bounds: list[int]

    # Page → its bits, for pages that hold some indexes but not all.
    # Invariant: each page is within the bounds, and 0 < bits < _full.
    _partial: dict[int, int]

    def __init__(self) -> None:
        self.count = 0
        self._shift = PAGE_SHIFT
        self._mask = (1 << PAGE_SHIFT) - 1
        self._full = _page_of_ones(PAGE_SHIFT)
        self._bounds = []
        self._partial = {}

    def _page(self, page: int) -> int:
        """The bits of a page, whatever it is kept as."""
        bits = self._partial.get(page)
        if bits is None:
            return self._full if bisect_right(self._bounds, page) & 1 else 0
        return bits

    # ── bits of one page ──────────────────────────────────────────────────────────────────────

    def _add_bits(self, page: int, bits: int) -> int:
        """Put some indexes of a page in; how many were not there before."""
        old = self._partial.get(page)
        if old is None:
            if bisect_right(self._bounds, page) & 1:
                return 0
            _splice(self._bounds, page, page + 1, True)
            if bits != self._full:
                self._partial[page] = bits
            added = bits.bit_count()
        else:
            new = old | bits
            added = (new ^ old).bit_count()
            if new == self._full:
                del self._partial[page]
            else:
                self._partial[page] = new
        self.count += added
        return added

    def _discard_bits(self, page: int, bits: int) -> int:
        """Take some indexes of a page out; how many were there."""
        old = self._partial.get(page)
        if old is None:
            if not bisect_right(self._bounds, page) & 1:
                return 0
            old = self._full
        gone = old & bits
        if not gone:
            return 0
        if gone != old:
            self._partial[page] = old ^ gone
        else:
            self._partial.pop(page, None)
            _splice(self._bounds, page, page + 1, False)
        removed = gone.bit_count()
        self.count -= removed
        return removed

    # ── whole pages ───────────────────────────────────────────────────────────────────────────

    def _add_pages(self, page: int, page_end: int) -> int:
        """Fill pages; how many indexes were not there before."""
        if page >= page_end:
            return 0
        added = ((page_end - page) << self._shift) - self._count_pages(page, page_end)
        for inner in self._partial_pages(page, page_end):
            del self._partial[inner]
        _splice(self._bounds, page, page_end, True)
        self.count += added
        return added

    def _discard_pages(self, page: int, page_end: int) -> int:
        """Empty pages; how many indexes were there."""
        if page >= page_end:
            return 0
        removed = self._count_pages(page, page_end)
        for inner in self._partial_pages(page, page_end):
            del self._partial[inner]
        _splice(self._bounds, page, page_end, False)
        self.count -= removed
        return removed

    def _count_pages(self, page: int, page_end: int) -> int:
        """How many indexes are there."""
        if page >= page_end:
            return 0
        held = sum(end - first for first, end in self._page_ranges(page, page_end))
        partial = self._partial_pages(page, page_end)
        count = (held - len(partial)) << self._shift
        return count + sum(self._partial[inner].bit_count() for inner in partial)

    @property
    def page_count(self) -> int:
        """Pages that have an object of their own: what walking through the set costs."""
        return len(self._partial)

    # ── walking ───────────────────────────────────────────────────────────────────────────────

    def _pages(
        self, page: int = 0, page_end: int = INDEX_MAX
    ) -> Iterator[tuple[int, int, int | None]]:
        """What `[page, page_end)` holds, ascending: a page, the next and its bits; or the first
        and the end of full pages, and None."""
        for first, end in self._page_ranges(page, page_end):
            for partial in self._partial_pages(first, end):
                if first < partial:
                    yield first, partial, None
                yield partial, partial + 1, self._partial[partial]
                first = partial + 1
            if first < end:
                yield first, end, None

    def _page_ranges(self, page: int, page_end: int) -> Iterator[tuple[int, int]]:
        """The ranges of pages that hold anything, as far as inside `[page, page_end)`."""
        bounds = self._bounds
        at = bisect_right(bounds, page) & ~1
        while at < len(bounds) and bounds[at] < page_end:
            yield max(bounds[at], page), min(bounds[at + 1], page_end)
            at += 2

    def _partial_pages(self, page: int, page_end: int) -> list[int]:
        """The pages of `[page, page_end)` that have an object, ascending."""
        if page_end - page <= len(self._partial):
            return [inner for inner in range(page, page_end) if inner in self._partial]
        return sorted(inner for inner in self._partial if page <= inner < page_end)

    def _next_partial(self, page: int, page_end: int) -> int:
        """The lowest page of `[page, page_end)` that has an object, or `page_end`."""
        partial = self._partial
        if page_end - page > len(partial):
            # Fewer objects than pages between: a long backlog is not walked page by page.
            return min((inner for inner in partial if page <= inner < page_end), default=page_end)
        for inner in range(page, page_end):
            if inner in partial:
                return inner
        return page_end

    def check(self) -> None:
        """Assert every `Invariant:` above."""
        bounds = self._bounds
        assert len(bounds) % 2 == 0, bounds
        assert all(a < b for a, b in itertools.pairwise(bounds)), bounds
        for page, bits in self._partial.items():
            assert bisect_right(bounds, page) & 1, f"page {page} outside {bounds}"
            assert 0 < bits < self._full, f"page {page} is kept as {bits:#x}"
        assert self.count == self._count_pages(0, INDEX_MAX), f"count is {self.count}"


@functools.cache
def _page_of_ones(shift: int) -> int:
    # Shared: a broker has ten thousand of these sets, most of them empty.
    return (1 << (1 << shift)) - 1


def _splice(bounds: list[int], first: int, end: int, present: bool) -> None:
    """Put `[first, end)` into a flat list of bounds, or take it out."""
    at, at_end = bisect_left(bounds, first), bisect_right(bounds, end)
    # An even place is outside every range. Going in, a bound is needed where it was outside;
    # going out, where it was inside.
    new = [first] if at & 1 != present else []
    if at_end & 1 != present:
        new.append(end)
    bounds[at:at_end] = new
