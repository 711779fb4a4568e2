"""Progress and broadcast as the proposal should have them: invariants I15 to I26, race R11, by their numbers.

`Count` counts by hand what progress says: it goes through every message and asks where it is.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from stage.overview import overview
from stage.stage import TOPIC, Stage
from stage.talk import SHARED

from milepost.broker.monitoring.progress import Progress, progress_of
from milepost.broker.monitoring.verdicts import Verdict
from milepost.broker.operations.topic_lifecycle import delete_topic
from milepost.broker.subscription.broadcast import BroadcastGroup
from milepost.broker.subscription.subscription import Subscription
from milepost.positions.spans import Span
from rip.player import KINDS, MILEPOST, OFFICIAL, Player
from rip.race import Race, run_races
from rip.test_rip_reset import NAME, move_to, publish, subscription_of


def line_of(stage: Stage, subscription: Subscription | None = None) -> Progress:
    found, now_ms = subscription or subscription_of(stage), stage.clock.wall_ms()
    return stage.here(lambda: progress_of(found, now_ms))


def by_hand(subscription: Subscription) -> Counter[str]:
    """Where each message is, one at a time, by the cursor's smallest questions."""
    cursor = subscription.cursor
    found: Counter[str] = Counter()
    above_is_acked = False
    for index in reversed(range(cursor.first, cursor.end)):
        holder = cursor.holder_of(index)
        if cursor.is_acked(Span(index, 1)):
            state = "acked"
            above_is_acked = True
        elif holder is not None:
            state = "inflight"
            found[f"with {holder}"] += 1
        else:
            state = "ready" if cursor.is_waiting(index) else "delayed"
        found[state] += 1
        if state != "acked" and above_is_acked and cursor.is_acked(Span(index + 1, 1)):
            found["holes"] += 1
    return found


def agree(subscription: Subscription, line: Progress) -> None:
    counted = by_hand(subscription)
    for state in ("ready", "inflight", "delayed", "acked"):
        assert getattr(line, state) == counted[state], (state, line, counted)
    assert line.holes == counted["holes"], (line, counted)
    assert line.backlog == counted["ready"] + counted["inflight"] + counted["delayed"]
    for consumer, shown in zip(subscription.consumers, line.consumers, strict=True):
        assert shown.inflight == counted[f"with {consumer.holder}"]
    first = subscription.topic.log
    if line.backlog:
        lowest = next(
            index
            for index in range(line.first, line.end)
            if not subscription.cursor.is_acked(Span(index, 1))
        )
        assert line.mark_delete_index == lowest - 1
        age_ms = subscription.topic.now_ms() - first.locate(lowest).timestamp_ms
        assert line.behind_ms == max(age_ms, 0)
        if line.hole is not None:
            assert line.hole.index == lowest
    else:
        assert (line.behind_ms, line.mark_delete_index) == (0, line.end - 1)


@pytest.mark.parametrize("seed", range(40))
def test_i15_to_i17_progress_is_what_counting_gives_at_any_moment(seed: int) -> None:
    """I15, I16, I17, and the acceptance by brute force: number by number, under load, with resets."""

    class Counted(Race):
        def _turn(self) -> None:
            super()._turn()
            self.clock.advance(pick.random())
            topic = self.site.broker.topics.get(TOPIC)
            if topic is not None and (
                found := topic.subscriptions.get(self.dials.subscriptions[0])
            ):
                line = line_of(self.site, found)
                with self.site.engine.here():
                    agree(found, line)

    pick = Random(seed)
    run_races(Counted, [seed + 10_000])


@pytest.mark.parametrize("kind", KINDS)
def test_i17_inflight_is_ready_again_when_it_ends(stage: Stage, kind: str) -> None:
    """A session, a give-back, an epoch."""
    player = Player(stage, "p", kind, SHARED, permits=3)
    player.settle()
    publish(stage, 0, 4)
    player.settle()
    assert (line_of(stage).inflight, line_of(stage).ready) == (3, 1)
    move_to(stage, 0)
    assert line_of(stage).inflight == 0
    player.settle()
    assert line_of(stage).inflight == 3
    player.leave()
    stage.turn()
    assert (line_of(stage).inflight, line_of(stage).ready) == (0, 4)


def test_i18_after_a_restart_nothing_is_inflight(stage: Stage) -> None:
    player = Player(stage, "p", OFFICIAL, SHARED)
    player.settle()
    publish(stage, 0, 4)
    player.settle()
    player.ack(player.inbox[2])
    stage.turn()
    again = stage.restarted()
    line = line_of(again)
    assert (line.inflight, line.ready, line.acked, line.backlog) == (0, 3, 1, 3)


def test_i19_what_is_not_due_is_not_ready(stage: Stage) -> None:
    subscription = subscription_of(stage)
    publish(stage, 0, 4)
    subscription.cursor.delay(1, 3, due_ms=stage.clock.wall_ms() + 1000)
    line = line_of(stage)
    assert (line.ready, line.delayed, line.backlog) == (2, 2, 4)
    agree(subscription, line)
    stage.clock.advance(2)
    subscription.cursor.due(stage.clock.wall_ms())
    assert (line_of(stage).ready, line_of(stage).delayed) == (4, 0)


# -- broadcast ---------------------------------------------------------------------------------------


def member(stage: Stage, name: str, kind: str = OFFICIAL, **options: Any) -> Player:
    options.setdefault("permits", 50)
    return Player(stage, name, kind, SHARED, subscription="g", member=name, **options)


def group_of(stage: Stage) -> BroadcastGroup:
    found = stage.topic().subscriptions["g"]
    assert isinstance(found, BroadcastGroup)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_i20_the_minimum_does_not_rise_because_somebody_is_silent(stage: Stage, kind: str) -> None:
    one, two = member(stage, "a", kind), member(stage, "b", kind)
    one.settle(), two.settle()
    publish(stage, 0, 5)
    one.settle()
    for delivery in list(one.inbox):
        one.ack(delivery)
    stage.turn()
    two.leave()
    stage.tick(3600)
    assert group_of(stage).position == 0
    group_of(stage).settle()
    assert group_of(stage).cursor.mark_delete_index == -1  # which is what retention looks at


@pytest.mark.parametrize("kind", KINDS)
def test_i21_known_ones_resume_and_strangers_start_at_the_minimum(stage: Stage, kind: str) -> None:
    one, two = member(stage, "a", kind), member(stage, "b", kind)
    one.settle(), two.settle()
    publish(stage, 0, 6)
    for player, count in ((one, 4), (two, 2)):
        player.settle()
        for delivery in player.inbox[:count]:
            player.ack(delivery)
        stage.turn()
        player.leave()
    again = stage.restarted()
    assert member(again, "a", kind).settle() == ["4", "5"]
    assert member(again, "c", kind).settle() == ["2", "3", "4", "5"]


def test_i22_what_counts_is_what_was_acked(stage: Stage) -> None:
    """Not what was handed out."""
    one = member(stage, "a")
    one.settle()
    publish(stage, 0, 4)
    assert len(one.settle()) == 4
    assert group_of(stage).position == 0


def test_i23_who_is_connected_is_never_forgotten(stage: Stage) -> None:
    member(stage, "a", permits=0).settle()
    stage.clock.advance(10 * 24 * 3600)
    stage.tick(2)
    assert set(group_of(stage).members) == {"a"}


def test_i24_each_member_is_shown(stage: Stage) -> None:
    one, two = member(stage, "a"), member(stage, "b", MILEPOST)
    one.settle(), two.settle()
    publish(stage, 0, 3)
    one.settle(), two.settle()
    one.ack(one.inbox[0])
    stage.turn()
    lines = stage.run(overview(stage.broker, [NAME], "g"))
    assert {(line.member, line.mark_delete_index, line.inflight) for line in lines} == {
        ("", -1, 0),
        ("a", 0, 2),
        ("b", -1, 3),
    }
    for line in lines:
        assert line.ready + line.inflight + line.delayed + line.acked == line.end - line.first


@pytest.mark.parametrize("name", ["s", "g"])
def test_i25_a_topic_made_again_starts_clean(stage: Stage, name: str) -> None:
    """I25, R11: positions, epochs, members and history belong to the topic that was deleted."""
    player = (
        member(stage, "a", permits=1)
        if name == "g"
        else Player(stage, "a", OFFICIAL, SHARED, permits=1)
    )
    player.settle()
    publish(stage, 0, 5)
    player.settle()
    late = player.ever[0]
    move_to(stage, 3, name)
    stage.topic().producers.clear()
    stage.run(delete_topic(stage.broker, stage.topic(), force=True))
    player.leave()
    publish(stage, 0, 2)
    back = member(stage, "a") if name == "g" else Player(stage, "a", OFFICIAL, SHARED, permits=50)
    assert back.settle() == ["0", "1"]
    cursor = stage.topic().subscriptions[name].cursor
    assert (cursor.epoch, stage.topic().subscriptions[name].resets.records) == (0, [])
    before = cursor.state()
    back.ack(late)
    stage.turn()
    assert cursor.state() == before  # an id of the old topic is nobody's


def test_i26_a_group_that_is_deleted_leaves_nothing(stage: Stage) -> None:
    one = member(stage, "a")
    one.settle()
    publish(stage, 0, 3)
    one.settle()
    one.ack(one.inbox[0])
    stage.turn()
    move_to(stage, 2, "g")
    stage.run(stage.broker.delete_subscription(group_of(stage)))
    topic_id = stage.topic().row.topic_id
    assert stage.store.catalog.states(topic_id) == []
    again = stage.restarted(checkpoint=True)
    assert again.topic().subscriptions == {}


# -- verdicts, as they come ----------------------------------------------------------------------------


def test_a_life_of_verdicts(stage: Stage) -> None:
    """From facts that come about: nobody there, asked for nothing, held and not acked, a hole, done."""

    def verdict() -> Verdict:
        return line_of(stage).verdict

    subscription_of(stage)
    assert verdict() is Verdict.CAUGHT_UP
    publish(stage, 0, 6)
    assert verdict() is Verdict.NO_CONSUMER
    player = Player(stage, "p", OFFICIAL, SHARED, permits=0)
    player.settle()
    stage.tick(6)
    assert verdict() is Verdict.STARVED
    player.flow(4)
    player.settle()
    stage.tick(70)
    assert verdict() is Verdict.STALLED
    for delivery in player.inbox[1:]:
        player.ack(delivery)
    stage.turn()
    stage.tick(10)
    assert verdict() is Verdict.BLOCKED_BY_HOLE
    assert line_of(stage).reason.startswith("index 0 (1:0:-1) is with p")
    player.ack(player.ever[0])
    player.flow(10)
    player.settle()
    stage.tick(6)
    assert verdict() is Verdict.CONSUMING
    for delivery in list(player.inbox):
        player.ack(delivery)
    stage.turn()
    assert verdict() is Verdict.CAUGHT_UP
    stage.tick(3600)
    assert verdict() is Verdict.CAUGHT_UP


def test_a_reset_is_pending_until_it_is_obeyed(stage: Stage) -> None:
    player = Player(stage, "p", MILEPOST, SHARED)
    player.settle()
    publish(stage, 0, 3)
    move_to(stage, 0)
    assert line_of(stage).verdict is Verdict.RESET_PENDING
    player.settle()
    assert line_of(stage).verdict is Verdict.CONSUMING
