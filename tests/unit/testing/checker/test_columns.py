"""Arrays by index."""

from __future__ import annotations

from itertools import count

from milepost.testing.checker.columns import Sparse


def test_indexes_far_from_0_are_found_without_looking_at_all_of_them() -> None:
    """A topic that was trimmed has all of its indexes there; each step took as long as the topic is."""
    sparse, base, size = Sparse(), 10**12, 20_000
    for index in range(size):
        sparse.put(base + index, index)
    looks = count()
    index = sparse.first_in(0, base + size)
    while index is not None:
        assert sparse.get(index) == next(looks)
        index = sparse.first_in(index + 1, base + size)
    assert next(looks) == size
    assert sparse.first_in(base + 5, base + 5) is None
    sparse.put(7, 1)
    assert sparse.first_in(-3, base) == 7
    assert sparse.get(-1) == -1
