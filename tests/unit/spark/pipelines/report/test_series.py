"""Ages and latencies from counts, against somebody who writes down every single message."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from milepost.spark.pipelines.report.series import eras, held_ages, inflight_ages, latencies


def array(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


class Day:
    """A topic and a consumer, message by message, and what samples of them would say."""

    def __init__(self, seed: int, *, in_order: bool) -> None:
        random = Random(seed)
        self.before = random.randrange(3)
        self.came: list[int] = [-1] * self.before
        """When each message came, by the sample that first has it; -1: before the first."""
        self.delivered: list[int] = []
        self.acked: dict[int, int] = {}
        """Index → the sample that first has it acked."""
        self.at: list[int] = []
        self.rows: list[tuple[int, int, int, int]] = []
        self.oldest: list[int] = []
        """Of each sample: how long ago the oldest message inflight was delivered."""
        for n in range(random.randrange(2, 12)):
            if n:
                self.came += [n] * random.randrange(4)
                waiting = len(self.came) - len(self.delivered)
                self.delivered += [n] * random.randint(0, waiting)
                held = [one for one in range(len(self.delivered)) if one not in self.acked]
                count = random.randint(0, len(held))
                done = held[:count] if in_order else random.sample(held, count)
                self.acked |= dict.fromkeys(done, n)
            self.at.append(100 * n + random.randrange(50))
            held = [one for one in range(len(self.delivered)) if one not in self.acked]
            self.rows.append(
                (len(self.came), len(self.came) - len(self.acked), len(self.delivered), len(held))
            )
            ages = [self.at[n] - self.at[self.delivered[one]] for one in held]
            self.oldest.append(max(ages, default=0))

    def column(self, n: int) -> np.ndarray:
        return array(*(row[n] for row in self.rows))


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("is_fresh", [False, True])
def test_in_order_every_latency_is_that_of_its_message(seed: int, is_fresh: bool) -> None:
    day = Day(seed, in_order=True)
    found: Counter[tuple[int, bool]] = Counter()
    for ms, count, is_timed in latencies(
        array(*day.at), day.column(0), day.column(1), is_fresh=is_fresh
    ):
        found[(ms, is_timed)] += count
    wanted: Counter[tuple[int, bool]] = Counter()
    for index, last in day.acked.items():
        first = max(day.came[index], 0)
        wanted[(day.at[last] - day.at[first], first > 0 or is_fresh)] += 1
    assert found == wanted


@pytest.mark.parametrize("seed", range(60))
def test_in_any_order_the_mean_latency_is_true(seed: int) -> None:
    day = Day(seed, in_order=False)
    found = latencies(array(*day.at), day.column(0), day.column(1), is_fresh=True)
    total = sum(ms * count for ms, count, _ in found)
    assert sum(count for _, count, _ in found) == len(day.acked)
    came = sorted(max(one, 0) for one in day.came)
    # Which of them are not acked yet is another question; the oldest are taken for acked.
    wanted = sum(day.at[n] for n in day.acked.values())
    assert total == wanted - sum(day.at[n] for n in came[: len(day.acked)])


@pytest.mark.parametrize("seed", range(60))
def test_the_inflight_age_is_a_lower_bound_and_true_in_order(seed: int) -> None:
    for in_order in (True, False):
        day = Day(seed, in_order=in_order)
        found = inflight_ages(array(*day.at), day.column(2), day.column(3)).tolist()
        if in_order:
            assert found == day.oldest
        else:
            assert all(age <= true for age, true in zip(found, day.oldest, strict=True))


def test_counts_begin_anew_with_a_reset_and_with_a_restart() -> None:
    epoch = array(0, 0, 1, 1, 1, 1)
    end = array(5, 6, 6, 6, 6, 2)
    out = array(3, 4, 4, 0, 1, 1)
    assert list(eras(epoch, end, out)) == [
        (slice(0, 2), False),
        (slice(2, 3), True),
        (slice(3, 5), False),
        (slice(5, 6), False),
    ]
    assert list(eras(array(), array(), array())) == []


def test_a_hole_is_as_old_as_it_was_seen_with_one_consumer() -> None:
    at = array(0, 10, 20, 30, 40, 50)
    hole = [7, 7, 7, 7, None, 8]
    holder = ["a", "a", "b", "b", None, ""]
    deliveries = [1, 1, 1, 2, None, 1]
    assert held_ages(at, hole, holder, deliveries).tolist() == [0, 10, 0, 0, 0, 0]
