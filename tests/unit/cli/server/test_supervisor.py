from __future__ import annotations

from milepost.cli.server.supervisor import PAUSE_MAX_S, PAUSE_S, pause_after


def test_a_worker_that_dies_again_is_started_later_each_time() -> None:
    assert [pause_after(failures) for failures in range(4)] == [
        PAUSE_S,
        PAUSE_S,
        2 * PAUSE_S,
        4 * PAUSE_S,
    ]
    assert pause_after(8) == PAUSE_MAX_S


def test_a_worker_may_die_for_days() -> None:
    """No number of failures is too many: the others' supervisor lives on."""
    assert pause_after(10**6) == PAUSE_MAX_S
