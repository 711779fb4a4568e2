"""The shortcut: who may take it, and what closes it."""

from __future__ import annotations

import pytest

from milepost.storage.journal.loop_commit import (
    BUSY_MAX,
    CLOSED_S,
    HANDOVER_S,
    LOOK_S,
    RECORD_SIZE_MAX,
    RUN_MAX_S,
    SIZE_MAX,
    SLOW_FACTOR,
    STALL_FACTOR,
    Shortcut,
)

QUICK_S = 0.0002
# Quick enough for the short way, and slower than a handover.
NOT_SO_QUICK_S = 2 * HANDOVER_S
LIMIT_S = 0.001


class Day:
    """A shortcut and the readings it is given."""

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self.shortcut = Shortcut(limit_s)
        self.now = 100.0
        self.cpu_s = 7.0

    def allows(self, count: int = 1, size: int = 200) -> bool:
        return self.shortcut.allows(self.now, lambda: self.cpu_s, count, size)

    def commit(
        self, seconds: float = QUICK_S, *, on_loop: bool = True, times: int = 1, count: int = 1
    ) -> None:
        for _ in range(times):
            self.now += seconds
            self.shortcut.took(self.now, seconds, on_loop=on_loop, count=count)

    def warmed_up(self, seconds: float = QUICK_S) -> Day:
        """The disk was asked often enough, by the thread and by the loop."""
        self.commit(seconds, on_loop=False, times=20)
        self.commit(seconds, times=200)
        self.now += 1.0
        assert self.allows()
        return self


def test_a_disk_is_slow_until_it_was_seen_to_be_quick() -> None:
    day = Day()
    assert not day.allows()
    day.commit(on_loop=False, times=2)
    assert not day.allows()
    day.commit(on_loop=False, times=3)
    assert day.allows()


def test_nothing_is_allowed_with_a_limit_of_zero() -> None:
    day = Day(0.0)
    day.commit(0.0, on_loop=False, times=100)
    assert not day.allows()


@pytest.mark.parametrize(
    ("count", "size", "allowed"),
    [
        (1, RECORD_SIZE_MAX, True),
        (1, RECORD_SIZE_MAX + 1, False),
        (2, RECORD_SIZE_MAX + 1, True),
        (1000, SIZE_MAX, True),
        (1000, SIZE_MAX + 1, False),
    ],
)
def test_no_large_groups_and_no_large_records(count: int, size: int, allowed: bool) -> None:
    assert Day().warmed_up().allows(count, size) is allowed


def test_a_disk_that_became_slow_is_the_threads_until_it_is_quick_again() -> None:
    day = Day().warmed_up()
    day.commit(3 * LIMIT_S, times=8)
    assert not day.allows()
    day.commit(on_loop=False, times=30)
    assert day.allows()


def test_a_single_commit_that_is_not_quick_is_forgiven() -> None:
    day = Day().warmed_up()
    day.commit(4 * LIMIT_S)
    assert day.allows()


@pytest.mark.parametrize("on_loop", [True, False])
def test_a_stall_closes_the_way_for_a_while(on_loop: bool) -> None:
    day, stall_s = Day().warmed_up(), SLOW_FACTOR * LIMIT_S * 1.1
    day.commit(stall_s, on_loop=on_loop)
    for _ in range(50):  # however quick the disk is meanwhile
        day.shortcut.took(day.now, 0.0, on_loop=False)
    day.now += stall_s * STALL_FACTOR * 0.99
    assert not day.allows()
    day.now += stall_s * STALL_FACTOR * 0.02
    assert day.allows()


def test_a_long_stall_closes_the_way_for_no_longer_than_a_failure() -> None:
    day = Day().warmed_up()
    day.commit(100.0)
    for _ in range(100):
        day.shortcut.took(day.now, 0.0, on_loop=False)
    day.now += CLOSED_S * 0.99
    assert not day.allows()
    day.now += CLOSED_S * 0.02
    assert day.allows()


def test_a_stall_opens_no_way_that_a_failure_closed() -> None:
    day = Day().warmed_up()
    day.shortcut.close(day.now)
    day.commit(SLOW_FACTOR * LIMIT_S * 1.1, on_loop=False)
    day.commit(0.0, on_loop=False, times=50)
    day.now += SLOW_FACTOR * LIMIT_S * 1.1 * STALL_FACTOR
    assert not day.allows()


def test_what_large_groups_take_says_nothing_of_others() -> None:
    day = Day().warmed_up()
    for _ in range(100):
        day.now += 4 * LIMIT_S
        day.shortcut.took(day.now, 4 * LIMIT_S, on_loop=False, count=1000, size=SIZE_MAX + 1)
    assert day.allows()


def test_a_thread_that_waits_for_a_busy_loop_does_not_make_the_disk_slow() -> None:
    """Behind the disk it waits for the interpreter, mostly and not always."""
    day = Day().warmed_up()
    for _ in range(100):
        day.commit(1.3 * LIMIT_S, on_loop=False, times=2)
        day.commit(on_loop=False)
        assert day.allows()


def test_a_failure_closes_the_way_for_a_while() -> None:
    day = Day().warmed_up()
    day.shortcut.close(day.now)
    day.now += CLOSED_S * 0.99
    assert not day.allows()
    day.now += CLOSED_S
    assert day.allows()


def test_groups_in_a_row_are_left_to_the_thread_if_a_handover_is_quicker() -> None:
    day = Day().warmed_up(NOT_SO_QUICK_S)
    taken = 0
    while day.allows():
        day.commit(NOT_SO_QUICK_S, count=2)
        taken += 1
    assert taken * NOT_SO_QUICK_S == pytest.approx(RUN_MAX_S / (1 - BUSY_MAX), rel=0.1)
    day.now += CLOSED_S
    assert day.allows()


def test_a_disk_that_is_quicker_than_a_handover_is_never_the_threads() -> None:
    day = Day().warmed_up()
    for _ in range(10_000):
        assert day.allows()
        day.commit(count=2)
        day.now += QUICK_S
        day.cpu_s += QUICK_S


def test_a_disk_that_became_slower_is_left_to_the_thread_while_the_loop_is_busy() -> None:
    day = Day().warmed_up()
    taken = 0
    while day.allows():
        day.commit(NOT_SO_QUICK_S, count=2)
        taken += 1
    assert taken < 200


def test_groups_now_and_then_may_go_on_for_ever() -> None:
    day = Day().warmed_up(NOT_SO_QUICK_S)
    for _ in range(10_000):
        assert day.allows()
        day.commit(NOT_SO_QUICK_S, count=10)
        day.now += 0.001 - NOT_SO_QUICK_S


def test_one_record_after_the_other_may_go_on_for_ever() -> None:
    """Somebody who waits for each answer: a thread could not do anything else meanwhile."""
    day = Day().warmed_up(NOT_SO_QUICK_S)
    for _ in range(10_000):
        assert day.allows()
        day.commit(NOT_SO_QUICK_S)
        day.now += NOT_SO_QUICK_S / 10
        day.cpu_s += NOT_SO_QUICK_S / 2


def test_a_loop_that_works_all_the_time_leaves_them_to_the_thread() -> None:
    day = Day().warmed_up(NOT_SO_QUICK_S)
    for _ in range(200):
        day.now += 0.001
        day.cpu_s += 0.001
        if not day.allows():
            break
    else:
        raise AssertionError("it was always allowed")


def test_work_of_long_ago_counts_no_more() -> None:
    day = Day().warmed_up(NOT_SO_QUICK_S)
    for _ in range(2):
        day.now += LOOK_S
        day.cpu_s += RUN_MAX_S * 0.9
        assert day.allows()
        day.now += 1.0
        assert day.allows()


def test_the_time_that_the_loop_has_used_is_asked_for_now_and_then() -> None:
    """It is a call of the kernel, and one message after the other would make it each time."""
    shortcut, asked = Shortcut(LIMIT_S), []

    def cpu_s() -> float:
        asked.append(now)
        return 0.0

    now = 100.0
    while now < 100.1:
        shortcut.allows(now, cpu_s, 1, 200)
        now += LOOK_S / 8
    assert len(asked) == pytest.approx(100, rel=0.15)
