"""Members of a broadcast group that come, go, ack, are reset and forgotten, with kills in between, by a seed.

A member is never shown what it has acked; a stranger starts where the slowest member is; and at the end each
member gets exactly what it has not acked: promise 7.
"""

from __future__ import annotations

import pytest
from stage.counts import campaign_count

from milepost.broker.operations import broadcast_members
from milepost.broker.subscription.broadcast import BroadcastGroup
from rip.race import BroadcastRace, run_races

SEEDS = campaign_count("MILEPOST_RACES", 600, 20_000) // 10


@pytest.mark.parametrize("block", range(4))
def test_no_member_loses_anything(block: int) -> None:
    run_races(BroadcastRace, range(block, SEEDS, 4))


@pytest.mark.parametrize("off", [1, -1], ids=["ahead", "behind"])
def test_a_stranger_that_begins_elsewhere_is_caught(
    monkeypatch: pytest.MonkeyPatch, off: int
) -> None:
    def start_of(start: str, *, at: int, first: int, end: int) -> int:
        return min(max(at + off, first), end)

    monkeypatch.setattr(broadcast_members, "start_of", start_of)
    with pytest.raises(AssertionError, match=r"BroadcastRace \d+: \[Anomaly"):
        run_races(BroadcastRace, range(200))


def test_a_group_that_runs_ahead_of_its_slowest_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle(group: BroadcastGroup) -> None:
        group.catch_up()
        highest = max((member.position for member in group.members.values()), default=0)
        if highest > group.cursor.mark_delete_index + 1:
            super(BroadcastGroup, group).pass_over([(group.cursor.mark_delete_index + 1, highest)])

    monkeypatch.setattr(BroadcastGroup, "settle", settle)
    with pytest.raises(AssertionError, match=r"BroadcastRace \d+"):
        run_races(BroadcastRace, range(50))
