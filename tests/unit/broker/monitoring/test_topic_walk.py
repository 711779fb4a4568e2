"""A walk through many topics: their reads are made together, and one topic's trouble is its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from stage.frames import message
from stage.http import Request, call
from stage.overview import overview
from stage.stage import Stage

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.monitoring import stats
from milepost.broker.monitoring.topic_walk import listed, walk_topics
from milepost.broker.topic.topic import Topic
from milepost.positions.names import TopicName
from milepost.rest.app import create_app
from milepost.storage.ledgers.ledger import ledger_path, mileposts_path

MakeStage = Callable[..., Stage]

TOPICS = 20
MESSAGES = 10
ACKED = 3


@pytest.fixture
def stage(make_stage: MakeStage) -> Stage:
    """A restarted broker with topics of which nothing is in memory."""
    stage = make_stage(tail_size=0)
    for number in range(TOPICS):
        topic = stage.topic(name(number))
        subscription = stage.subscription(topic)
        producer = stage.producer(topic)
        for sequence_id in range(MESSAGES):
            stage.publish(producer, message(sequence_id))
            stage.clock.advance(1)
        subscription.skip(ACKED)
    stage = stage.restarted(checkpoint=True)
    for number in range(TOPICS):
        stage.topic(name(number))
    return stage


def name(number: int) -> str:
    return f"persistent://public/default/t{number}"


def names() -> list[TopicName]:
    return [TopicName.parse(name(number)) for number in range(TOPICS)]


def ways_to_the_disk(stage: Stage) -> list[int]:
    """Count them from now on."""
    count = [0]
    perform = stage.engine.perform

    async def counted(work: Any) -> Any:
        count[0] += 1
        return await perform(work)

    stage.engine.perform = counted  # type: ignore[method-assign]
    return count


def test_the_reads_of_many_topics_are_made_in_one_go(stage: Stage) -> None:
    count = ways_to_the_disk(stage)
    lines = stage.run(overview(stage.broker, names()))
    assert len(lines) == TOPICS
    assert {(line.backlog, line.behind_ms > 0) for line in lines} == {(MESSAGES - ACKED, True)}
    assert count[0] <= 3  # the mileposts of all of them, then a page of each


def test_metrics_and_stats_of_all_topics_too(stage: Stage) -> None:
    app = create_app(stage.broker)
    count = ways_to_the_disk(stage)
    answer = stage.run(call(app, Request("GET", "/metrics")))
    assert answer.body.count(b"pulsar_storage_backlog_age_seconds{") == TOPICS
    found = stage.run(call(app, Request("GET", "/admin/v2/broker-stats/topics"))).json
    (topics,) = found["public/default"].values()
    assert {one["subscriptions"]["s"]["msgBacklog"] for one in topics["persistent"].values()} == {7}
    assert count[0] <= 6


def test_others_have_their_turn_between_slices(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice that is over brings what its own topics lack, and nothing is left out at its end."""
    rests = []

    async def rest(slices: TimeSlices) -> None:
        rests.append(1)

    monkeypatch.setattr(TimeSlices, "is_over", property(lambda slices: True))
    monkeypatch.setattr(TimeSlices, "rest", rest)
    assert len(stage.run(overview(stage.broker, names()))) == TOPICS
    assert len(rests) >= TOPICS


def test_a_topic_that_is_closed_meanwhile_is_left_out(stage: Stage) -> None:
    topics = list(stage.broker.topics.values())
    stage.engine.holds_reads = True
    seen: list[str] = []

    async def walk() -> None:
        slices = TimeSlices(stage.clock)
        async for topic, _ in walk_topics(stage.engine, listed(topics), stats.touch, slices):
            seen.append(str(topic.name))

    task = stage.loop.begin(walk())
    stage.turn()
    topics[4].is_closed = True
    stage.engine.holds_reads = False
    stage.turn()
    task.result()
    assert seen == [name(number) for number in range(TOPICS) if number != 4]


def test_a_disk_that_gives_errors_costs_exactness_and_nothing_else(stage: Stage) -> None:
    """Of the ledger that cannot be read it is known what the catalog says: the age and the size are no
    less than they are, and the other topics are exact."""
    topic = stage.topic(name(5))
    (ledger,) = [one for one in topic.log.ledgers if one.entries]
    for path in (ledger_path(ledger.ledger_id), mileposts_path(ledger.ledger_id)):
        stage.files.faults.fail("read", error=5, under=path, forever=True)
    now_ms = stage.clock.wall_ms()
    lines = {line.topic: line for line in stage.run(overview(stage.broker, names()))}
    assert len(lines) == TOPICS
    assert lines[name(5)].behind_ms == now_ms - ledger.first_time_ms
    assert lines[name(6)].backlog == lines[name(5)].backlog == MESSAGES - ACKED

    app = create_app(stage.broker)
    path = "/admin/v2/persistent/public/default/t"
    broken = stage.run(call(app, Request("GET", f"{path}5/stats"))).json
    whole = stage.run(call(app, Request("GET", f"{path}6/stats"))).json
    assert broken["backlogSize"] == broken["storageSize"] > whole["backlogSize"]
    assert broken["subscriptions"]["s"]["msgBacklog"] == MESSAGES - ACKED
    metrics = stage.run(call(app, Request("GET", "/metrics"))).body
    assert metrics.count(b"pulsar_storage_backlog_age_seconds{") == TOPICS


def test_a_step_that_cannot_be_taken_leaves_its_topic_out(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    topics = list(stage.broker.topics.values())

    def step(topic: Topic) -> int:
        if topic is topics[3]:
            raise OSError(5, "Input/output error")
        return topic.log.end_index

    async def walk() -> list[int]:
        slices = TimeSlices(stage.clock)
        return [found async for _, found in walk_topics(stage.engine, listed(topics), step, slices)]

    assert stage.run(walk()) == [MESSAGES] * (TOPICS - 1)
    assert "t3> is left out: [Errno 5] Input/output error" in caplog.text
