"""The right to serve: shared by processes, lost in time, and another one after it was lost."""

from __future__ import annotations

import os

from milepost.storage.bucket.watched import RIGHT_S
from milepost.storage.cluster.right import SharedRight


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_lasts_from_when_the_notice_was_sent() -> None:
    time = Time()
    right = SharedRight(time)
    assert not right.has_right()
    right.renewed(99.0)
    assert right.has_right()
    assert right.idle_s() == 1.0
    time.now = 99.0 + RIGHT_S
    assert not right.has_right()


def test_renewed_in_time_it_is_the_same_and_else_another() -> None:
    time = Time()
    right = SharedRight(time)
    right.renewed(100.0)
    first = right.lapses
    time.now = 103.9
    right.renewed(103.5)
    assert right.lapses == first
    right.renewed(102.0)  # of a request that was answered late
    assert right.idle_s() < 0.5
    time.now = 103.5 + RIGHT_S
    right.renewed(103.6)
    assert right.lapses == first + 1, "the notice before was too old when this one was taken"


def test_another_process_sees_it() -> None:
    right = SharedRight()
    child = os.fork()
    if not child:
        right.renewed(1e9)
        os._exit(0)
    os.waitpid(child, 0)
    assert right.has_right()
