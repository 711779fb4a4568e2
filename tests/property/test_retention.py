"""Retention against a twin that deletes one ledger after the other, and asks every time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from milepost.broker.operations.retention import Kept, trim_index
from milepost.broker.policies.effective import Retention

limits = st.none() | st.integers(0, 40)


@st.composite
def logs(draw: st.DrawFn) -> list[Kept]:
    ledgers: list[Kept] = []
    end = time = 0
    for _ in range(draw(st.integers(0, 6))):
        end += draw(st.integers(0, 5))
        time += draw(st.integers(0, 10))
        ledgers.append(Kept(end, draw(st.integers(0, 20)), time))
    return ledgers


def may_go(ledgers: list[Kept], acked: set[int], retention: Retention, now_ms: int) -> bool:
    """May the first of these be deleted?"""
    if len(ledgers) < 2:
        return False
    oldest, *rest = ledgers
    if not all(index in acked for index in range(oldest.end_index)):
        return False
    if retention.time_ms is not None and now_ms - oldest.last_time_ms >= retention.time_ms:
        return True
    if retention.size_bytes is None:
        return False
    return sum(ledger.size_bytes for ledger in rest) >= retention.size_bytes


@given(
    ledgers=logs(),
    acked_index=st.integers(0, 40),
    time_ms=limits,
    size=limits,
    now_ms=st.integers(0, 100),
)
def test_it_deletes_what_the_twin_deletes(
    ledgers: list[Kept], acked_index: int, time_ms: int | None, size: int | None, now_ms: int
) -> None:
    retention = Retention(time_ms, size)
    index = trim_index(ledgers, acked_index, retention, now_ms)
    left = list(ledgers)
    gone_index = 0
    while may_go(left, set(range(acked_index)), retention, now_ms):
        gone_index = left.pop(0).end_index
    assert index == gone_index
    # Nothing that is not acked, never the last, and asked again it has nothing more to say.
    assert index <= acked_index
    assert trim_index(left, acked_index, retention, now_ms) == 0 or not left
