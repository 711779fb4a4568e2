"""Subscriptions over REST: which there are, skipping and expiring."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from itertools import product

import pytest
from stage.frames import batch, message
from stage.http import Request, Web, call
from stage.stage import Stage
from stage.transactions import add_topics, end, new, started, within

from milepost.broker.operations import partition_growth, topic_lifecycle
from milepost.broker.topic.topic import Topic
from milepost.positions.names import TopicName
from milepost.wire.events import WireId

SUB = "t/subscription"


def published(stage: Stage, *frames: bytes) -> None:
    stage.publish(stage.producer(stage.topic()), *frames)


def backlog(web: Web, name: str = "s") -> tuple[int, int]:
    """Entries and messages."""
    found = web("GET t/stats").json["subscriptions"][name]
    return found["msgBacklog"], found["messagesBacklog"]


def test_a_subscription_is_made_once_and_deleted_once(web: Web) -> None:
    web.stage.topic()
    assert web(f"PUT {SUB}/s", "earliest").status == 204
    assert web(f"PUT {SUB}/s", "earliest").status == 409
    assert web(f"PUT {SUB}/other").status == 204
    assert web("GET t/subscriptions").json == ["other", "s"]
    assert web.statuses(f"DELETE {SUB}/s", f"DELETE {SUB}/s") == [204, 404]
    assert web.statuses("GET none/subscriptions", "PUT made/subscription/s") == [404, 204]
    assert web("GET made/subscriptions").json == ["s"]
    assert web(f"PUT {SUB}/x", "middle").status == 400


OF_ALL_PARTITIONS = pytest.mark.parametrize(
    ("line", "body", "is_done"),
    [
        (
            "PUT many/subscription/s/properties",
            {"a": "b"},
            lambda topic: topic.subscriptions["s"].properties == {"a": "b"},
        ),
        ("DELETE many/subscription/s", None, lambda topic: not topic.subscriptions),
        ("POST many/terminate/partitions", None, lambda topic: topic.is_terminated),
    ],
)


@OF_ALL_PARTITIONS
def test_partitions_that_are_being_made_are_changed_too(
    web: Web, line: str, body: object, is_done: Callable[[Topic], bool]
) -> None:
    """They are made by what the others have when the growth is stored. A subscription that was deleted in
    that moment was left over on them alone, and kept all that was sent there."""
    stage, broker = web.stage, web.stage.broker
    web("PUT many/partitions", 2)
    web("PUT many/subscription/s")
    whole = TopicName.parse("persistent://public/default/many")
    stage.engine.holds_catalog = True
    growing = stage.loop.begin(partition_growth.grow(broker, whole, 4))
    stage.turn()
    method, _, target = line.partition(" ")
    data = b"" if body is None else json.dumps(body).encode()
    request = Request(method, f"/admin/v2/persistent/public/default/{target}", data)
    answer = stage.loop.begin(call(web.app, request))
    stage.turn()
    assert web("GET many/subscriptions").json == ["s"], "what only asks does not wait"
    stage.engine.holds_catalog = False
    stage.turn()
    assert growing.exception() is None
    assert answer.result().status in (200, 204)
    for number in range(4):
        assert is_done(stage.run(broker.topic(whole.partition_name(number)))), number


@OF_ALL_PARTITIONS
def test_a_partition_that_was_closed_while_another_was_opened_is_changed_too(
    web: Web, line: str, body: object, is_done: Callable[[Topic], bool]
) -> None:
    stage, broker = web.stage, web.stage.broker
    web("PUT many/partitions", 2)
    web("PUT many/subscription/s")
    first, second = (
        TopicName.parse(f"persistent://public/default/many-partition-{one}") for one in range(2)
    )
    stage.run(topic_lifecycle.close_topic(broker, broker.topics[str(second)]))
    opening = broker.opening[str(second)] = stage.loop.create_future()  # it takes a while
    method, _, target = line.partition(" ")
    data = b"" if body is None else json.dumps(body).encode()
    request = Request(method, f"/admin/v2/persistent/public/default/{target}", data)
    answer = stage.loop.begin(call(web.app, request))
    stage.turn()
    assert not answer.done()
    stage.run(topic_lifecycle.close_topic(broker, broker.topics[str(first)]))
    stage.run(broker.topic(first))  # for a client
    del broker.opening[str(second)]
    opening.set_result(stage.run(broker.topic(second)))
    stage.turn()
    assert answer.result().status in (200, 204)
    assert all(is_done(broker.topics[str(one)]) for one in (first, second))


@pytest.mark.parametrize(
    ("at", "left"),
    [
        (None, 0),
        ("latest", 0),
        ("earliest", 5),
        ({"ledgerId": 1, "entryId": 1}, 4),
        ({"ledgerId": 1, "entryId": 1, "batchIndex": 2}, 2),
        ({"ledgerId": 1, "entryId": 1, "batchIndex": 2, "excluded": True}, 1),
        ({"ledgerId": 1, "entryId": 1, "batchIndex": 2, "isExcluded": True}, 1),
        ({"ledgerId": -1, "entryId": -1}, 5),
        ({"ledgerId": 99, "entryId": 0}, 0),
        ({}, 0),
    ],
)
def test_where_it_begins(web: Web, at: object, left: int) -> None:
    published(web.stage, message(0), batch(1, 3), message(4))
    assert web(f"PUT {SUB}/s", at).status == 204
    assert backlog(web)[1] == left


def test_it_does_not_begin_behind_what_an_open_transaction_holds_back(web: Web) -> None:
    """It would stand before the id, and get what it was to pass over when the transaction ends."""
    stage = web.stage
    client = started(stage)
    txn = new(stage, client)
    add_topics(stage, client, txn)
    client.say(message(0), message(1, **within(txn)), message(2))
    stage.turn()

    def statuses(name: str) -> list[int]:
        begins = [{"ledgerId": 1, "entryId": entry} for entry in range(4)]
        return [
            web(f"PUT {SUB}/{name}{place}", {**at, "excluded": excluded}).status
            for place, (at, excluded) in enumerate(product(begins, (False, True)))
        ]

    # The last is behind the end: as ever it stands there.
    assert statuses("open") == [204, 204, 204, 404, 404, 404, 204, 204]
    assert [backlog(web, f"open{place}")[1] for place in range(3)] == [1, 0, 0]
    end(stage, client, txn)
    assert statuses("ended") == [204] * 8
    assert [backlog(web, f"open{place}")[1] for place in range(3)] == [3, 2, 2]
    assert [backlog(web, f"ended{place}")[1] for place in range(6)] == [3, 2, 2, 1, 1, 0]


def test_a_name_may_have_slashes_and_other_letters(web: Web) -> None:
    web.stage.topic()
    for name in ("team%2Freports", "%D0%BE%D1%82%D1%87%D1%91%D1%82", "a%20b"):
        assert web(f"PUT {SUB}/{name}").status == 204
        assert web(f"GET {SUB}/{name}/properties").json == {}
        assert web(f"DELETE {SUB}/{name}").status == 204
    assert web(f"PUT {SUB}/{'x' * 1025}").status == 400


def test_on_a_partitioned_topic_it_is_of_every_partition(web: Web) -> None:
    web("PUT many/partitions", 3)
    assert web("PUT many/subscription/s", "latest").status == 204
    assert web("PUT many/subscription/s", "latest").status == 409
    assert web("GET many-partition-2/subscriptions").json == ["s"]
    assert web("GET many/subscriptions").json == ["s"]
    assert web("POST many/subscription/s/skip_all").status == 204
    assert web("POST many/subscription/s/skip/1").status == 405
    assert web("DELETE many/subscription/s").status == 204
    assert web("DELETE many/subscription/s").status == 404


def test_what_is_skipped_on_every_partition_is_one_record(web: Web) -> None:
    web("PUT many/partitions", 3)
    assert web("PUT many/subscription/s", "earliest").status == 204
    stage = web.stage
    topics = [stage.topic(f"many-partition-{number}") for number in range(3)]
    for topic in topics:
        stage.publish(stage.producer(topic), message(0), message(1))
    before = stage.records
    assert web("POST many/subscription/s/skip_all").status == 204
    assert [topic.subscriptions["s"].cursor.backlog for topic in topics] == [0, 0, 0]
    assert stage.records == before + 1, "a crash leaves all of it or nothing"


def test_properties_survive_a_restart(web: Web) -> None:
    web.stage.topic()
    web(f"PUT {SUB}/s", {"ledgerId": -1, "entryId": -1, "properties": {"a": "1"}})
    assert web(f"GET {SUB}/s/properties").json == {"a": "1"}
    assert web(f"PUT {SUB}/s/properties", {"b": "2"}).status == 204
    assert web(f"GET {SUB}/none/properties").status == 404
    assert Web(web.stage.restarted())(f"GET {SUB}/s/properties").json == {"b": "2"}


def test_one_in_use_is_deleted_by_force_only(web: Web) -> None:
    stage = web.stage
    consumer = stage.consumer(stage.subscription(stage.topic()))
    assert web(f"DELETE {SUB}/s").status == 412
    assert web(f"DELETE {SUB}/s?force=true").status == 204
    assert consumer.is_closed


def test_skipping_counts_entries(web: Web) -> None:
    """As upstream: a batch is one. What was acked on its own is not counted again."""
    stage = web.stage
    published(stage, message(0), batch(1, 3), message(4), batch(5, 2), message(7))
    consumer = stage.consumer(stage.subscription(stage.topic()), permits=10)
    stage.ack(consumer, WireId(1, 2))
    assert backlog(web) == (4, 7)
    dry = web(f"POST {SUB}/s/skip/3?dryRun=true")
    assert (dry.status, dry.json) == (200, [{"firstIndex": 0, "endIndex": 7, "messages": 6}])
    assert backlog(web) == (4, 7)
    assert web(f"POST {SUB}/s/skip/3").status == 204
    assert backlog(web) == (1, 1)
    assert consumer.unacked == 1
    assert web(f"POST {SUB}/s/skip/0").status == 204
    assert web(f"POST {SUB}/s/skip/99").status == 204
    assert backlog(web) == (0, 0)
    assert web(f"POST {SUB}/none/skip/1").status == 404


def test_what_was_skipped_stays_skipped(web: Web) -> None:
    """Also what was delivered before a seek: an operator's word is not an ack that came late."""
    stage = web.stage
    published(stage, *(message(number) for number in range(6)))
    subscription = stage.subscription(stage.topic())
    consumer = stage.consumer(subscription, permits=10)
    stage.ack(consumer, WireId(1, 5), cumulative=True)
    stage.seek(subscription, 2)
    assert subscription.cursor.is_stale(3)
    assert web(f"POST {SUB}/s/skip/3").status == 204
    again = Web(stage.restarted())
    assert backlog(again) == (1, 1)


def test_everything_is_skipped(web: Web) -> None:
    published(web.stage, message(0), batch(1, 3))
    web(f"PUT {SUB}/s", "earliest")
    assert web(f"POST {SUB}/s/skip_all?dryRun=true").json[0]["messages"] == 4
    assert web(f"POST {SUB}/s/skip_all").status == 204
    assert backlog(Web(web.stage.restarted())) == (0, 0)


def test_what_is_old_expires(web: Web, caplog: pytest.LogCaptureFixture) -> None:
    stage = web.stage
    topic = stage.topic()
    producer = stage.producer(topic)
    for sequence_id in range(4):
        stage.publish(producer, message(sequence_id))
        stage.clock.advance(10)
    web(f"PUT {SUB}/s", "earliest")
    web(f"PUT {SUB}/r", "earliest")
    with caplog.at_level(logging.INFO, "milepost.audit"):
        assert web(f"POST {SUB}/s/expireMessages/25").status == 204
    assert "expire persistent://public/default/t" in caplog.text
    assert "first_index=0 end_index=2 count=2" in caplog.text
    assert (backlog(web), backlog(web, "r")) == ((2, 2), (4, 4))
    assert web("GET t/stats").json["subscriptions"]["s"]["totalMsgExpired"] == 2
    assert web("POST t/all_subscription/expireMessages/15").status == 204
    assert (backlog(web), backlog(web, "r")) == ((1, 1), (1, 1))
    assert web(f"POST {SUB}/none/expireMessages/1").status == 404


def test_a_position_expires_with_what_is_before_it(web: Web) -> None:
    published(web.stage, message(0), batch(1, 3), message(4), message(5))
    web(f"PUT {SUB}/s", "earliest")
    at = {"ledgerId": 1, "entryId": 1}
    assert web(f"POST {SUB}/s/expireMessages", {**at, "excluded": True}).status == 204
    assert backlog(web) == (3, 5)
    assert web(f"POST {SUB}/s/expireMessages", at).status == 204
    assert backlog(web) == (2, 2)
