"""Overview: every subscription, opened if need be, trouble first."""

from __future__ import annotations

import pytest
from stage.frames import message, sends
from stage.overview import overview
from stage.stage import Stage
from stage.talk import ack_command, wire_id

from broker.subscription.test_broadcast import join, publish
from milepost.broker.limits.time_slices import TimeSlices
from milepost.positions.names import TopicName


def name(number: int) -> TopicName:
    return TopicName.parse(f"persistent://public/default/t{number}")


def fill(stage: Stage, topics: int) -> None:
    for number in range(topics):
        topic = stage.topic(str(name(number)))
        stage.subscription(topic, "s")
        stage.subscription(topic, "other")
        producer = stage.producer(topic)
        stage.publish(producer, *(message(n) for n in range(number)))


def test_the_most_troubled_comes_first(stage: Stage) -> None:
    fill(stage, 3)
    lines = stage.run(overview(stage.broker, [name(n) for n in range(3)], "s"))
    assert [(line.topic[-2:], line.backlog, line.verdict.value) for line in lines] == [
        ("t2", 2, "NO_CONSUMER"),
        ("t1", 1, "NO_CONSUMER"),
        ("t0", 0, "CAUGHT_UP"),
    ]


def test_all_subscriptions_of_all_topics_after_a_restart(stage: Stage) -> None:
    fill(stage, 20)
    again = stage.restarted()
    names = [TopicName.parse(one) for one in again.broker.directory.all_topics()]
    lines = again.run(overview(again.broker, names))
    assert len(lines) == 40


def test_what_is_not_there_is_passed_over(stage: Stage) -> None:
    fill(stage, 1)
    assert len(stage.run(overview(stage.broker, [name(7), name(0)]))) == 2
    assert stage.run(overview(stage.broker, [name(0)], "none")) == []


def test_a_group_is_as_well_as_its_worst_member_and_each_has_its_line(stage: Stage) -> None:
    one = join(stage, "a")
    join(stage, "b").hang_up()
    publish(stage, 0, 4)
    one.say(ack_command(*(wire_id(1, number) for number in range(3))))
    stage.turn()
    lines = stage.run(overview(stage.broker, [stage.topic().name]))
    shown = {
        line.member: (
            line.type,
            line.mark_delete_index,
            line.ready,
            line.inflight,
            line.verdict.value,
        )
        for line in lines
    }
    assert shown == {
        "": ("Broadcast", -1, 4, 0, "NO_CONSUMER"),
        "a": ("Broadcast", 2, 0, 1, "CONSUMING"),
        "b": ("Broadcast", -1, 4, 0, "NO_CONSUMER"),
    }
    (group,) = [line for line in lines if not line.member]
    assert group.reason.startswith("b: 4 ready")


def test_others_have_their_turn_between_topics(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line is of the moment at which it is made: what happens in a rest is in those behind it."""
    fill(stage, 3)
    last = stage.broker.topics[str(name(2))]
    rests: list[int] = []

    async def rest(slices: TimeSlices) -> None:
        rests.append(last.log.end_index)
        last.publish(last.producers["p"], sends(message(10 + len(rests))))
        await stage.engine.flush()

    monkeypatch.setattr(TimeSlices, "is_over", property(lambda slices: True))
    monkeypatch.setattr(TimeSlices, "rest", rest)
    lines = stage.run(overview(stage.broker, [name(n) for n in range(3)], "s"))
    assert rests == [2, 3, 4]
    assert [(line.topic[-2:], line.end) for line in lines] == [("t2", 4), ("t1", 1), ("t0", 0)]
