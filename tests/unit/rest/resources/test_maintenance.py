"""Unload, terminate, truncate, trim, and what a backlog weighs, over REST."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from stage.frames import batch, message
from stage.heard import deliveries, got, id_of
from stage.http import Web
from stage.stage import Stage
from stage.talk import SHARED, error_of, produce

from milepost.broker.monitoring.progress import progress_of
from milepost.cursor.group import Start
from milepost.storage.header import HEADER_SIZE
from milepost.storage.journal.records import FACT, RECORD_HEADER_SIZE, scan, seed_of
from milepost.storage.ledgers.ledger import ledger_path
from milepost.testing.damage import flip_bit
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import WireId


def stats(web: Web, name: str = "s") -> dict[str, Any]:
    found: dict[str, Any] = web("GET t/stats").json["subscriptions"][name]
    return found


def test_unloading_changes_nothing_that_is_known(web: Web) -> None:
    stage = web.stage
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0), batch(1, 3), message(4))
    consumer = stage.consumer(stage.subscription(topic), permits=3)
    before = stats(web)
    assert web("PUT t/unload").status == 204
    assert topic.is_closed
    assert consumer.is_closed
    assert stage.topic() is not topic
    after = stats(web)
    kept = ("messagesBacklog", "messagesAcked", "markDeleteIndex", "epoch", "msgBacklog")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    assert web("PUT none/unload").status == 404


def test_a_terminated_topic_takes_no_more(web: Web) -> None:
    stage = web.stage
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0), batch(1, 3))
    answer = web("POST t/terminate")
    assert (answer.status, answer.json["ledgerId"], answer.json["entryId"]) == (200, 1, 1)
    assert not topic.producers
    assert web("POST t/terminate").json == answer.json
    again = stage.restarted()
    assert error_of(produce(again, again.client())) == "TopicTerminatedError"
    assert Web(again)("GET t/internalStats").json["state"] == "Terminated"


def test_all_partitions_are_terminated_at_once(web: Web) -> None:
    web("PUT many/partitions", 2)
    assert web("POST many/terminate").status == 405
    last = web("POST many/terminate/partitions").json
    assert {key: one["partitionIndex"] for key, one in last.items()} == {"0": 0, "1": 1}
    assert web("POST t/terminate/partitions").status == 405


def test_truncating_leaves_nothing(web: Web) -> None:
    stage = web.stage
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0), batch(1, 3))
    stage.consumer(stage.subscription(topic), permits=3)
    lost = web("DELETE t/truncate?dryRun=true").json
    assert (lost["messages"], lost["ledgers"], topic.log.end_index) == (4, 1, 4)
    assert web("DELETE t/truncate").status == 204
    assert (topic.log.first_index, topic.log.end_index) == (4, 4)
    found = stats(web)
    assert (found["messagesBacklog"], found["firstIndex"], found["endIndex"]) == (0, 4, 4)
    assert web("DELETE t/truncate").status == 204
    stage.publish(stage.producer(topic, "q"), message(0, producer="q"))
    again = Web(stage.restarted())
    assert again("GET t/getMessageIdByIndex?index=3").json["entryId"] == -1
    assert again("GET t/getMessageIdByIndex?index=4").json["entryId"] == 0
    assert stats(again)["messagesBacklog"] == 1


def test_trimming_takes_what_all_are_done_with(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(ledger_entries_max=2)
    web = Web(stage)
    topic = stage.topic()
    producer = stage.producer(topic)
    for sequence_id in range(7):
        stage.publish(producer, message(sequence_id))
    stage.subscription(topic, "fast", 5)
    slow = stage.subscription(topic, "slow", 3)
    assert web("POST t/trim?dryRun=true").json["messages"] == 2
    assert web("POST t/trim").json["ledgers"] == 1
    assert topic.log.first_index == slow.cursor.first == 2
    web("POST t/subscription/slow/skip_all")
    assert web("POST t/trim").json["messages"] == 2
    web("DELETE t/subscription/slow")
    web("DELETE t/subscription/fast")
    web("POST t/trim")
    assert (topic.log.first_index, topic.log.end_index) == (6, 7)


@pytest.mark.parametrize(
    ("ledger_id", "entry_id", "entries"),
    [(-1, -1, 4), (1, 0, 3), (1, 2, 1), (1, 100, 0), (9, 0, 0)],
)
def test_what_lies_behind_a_position_weighs(
    web: Web, ledger_id: int, entry_id: int, entries: int
) -> None:
    stage = web.stage
    topic = stage.topic()
    stage.publish(stage.producer(topic), *(message(number, b"x" * 100) for number in range(4)))
    body = {"ledgerId": ledger_id, "entryId": entry_id}
    whole = web("GET t/stats").json["storageSize"]
    assert web("PUT t/backlogSize", body).json == whole // 4 * entries


def cut_ledger(stage: Stage, size: int) -> None:
    path = ledger_path(1)
    stage.files.damage(path, stage.files.contents()[path][:size])


@pytest.mark.parametrize("left", ["some", "nothing"])
def test_a_ledger_that_is_cut_while_the_broker_runs_is_told_when_it_is_read(
    make_stage: Callable[..., Stage], left: str
) -> None:
    """The topic takes no messages until it is accepted, and says why; the others are served."""
    stage = make_stage(tail_size=0, ledger_entries_max=3)
    topic, other = stage.topic(), stage.topic("persistent://public/default/other")
    subscription = stage.subscription(topic)
    producer = stage.producer(topic)
    for number in range(5):
        stage.publish(producer, message(number))
    stage.checkpoint()
    assert topic.log.ledgers[0].sealed
    cut_ledger(stage, topic.log.ledgers[0].size_bytes - 1 if left == "some" else 0)
    web = Web(stage)
    assert web("GET t/losses").json == []
    consumer = stage.consumer(subscription, permits=10)
    first_lost = 2 if left == "some" else 0
    assert got(consumer) == [str(number) for number in (*range(first_lost), 3, 4)]
    (lost,) = web("GET t/losses").json
    assert (lost["ledgerId"], lost["firstIndex"], lost["endIndex"]) == (1, first_lost, 3)
    assert "are left of the" in web("GET t/stats").json["refusal"]
    health = web("GET /admin/v2/brokers/health")
    assert (health.status, "are left of the" in health.json["reason"]) == (503, True)
    assert produce(stage, stage.client()).error == pb.NotAllowedError
    stage.publish(stage.producer(other), message(0))
    assert other.log.end_index == 1
    assert web("POST t/acceptLoss").json == [lost]
    assert web("GET /admin/v2/brokers/health").status == 200
    assert web("GET t/losses").json == []
    again = Web(stage.restarted())
    assert again("GET t/losses").json == []


def facts_of(stage: Stage, state_id: int | None) -> list[tuple[str, int]]:
    """Journal file and first byte of the body of each fact of a state."""
    seed = seed_of(stage.store.catalog.meta().incarnation)
    found = []
    for path, data in sorted(stage.files.contents().items()):
        if path.endswith(".journal"):
            first = int.from_bytes(data[52:60], "little")
            for record in scan(data, HEADER_SIZE, path, first, seed, whole=False).records:
                if record.kind == FACT and record.owner == state_id:
                    found.append((path, record.offset + RECORD_HEADER_SIZE))
    return found


def damage_payload(stage: Stage, path: str, payload: bytes) -> None:
    place = stage.files.contents()[path].index(payload)
    flip_bit(stage.files, path, 8 * place)


def test_a_damaged_entry_is_a_loss_that_can_be_accepted(make_stage: Callable[..., Stage]) -> None:
    """The topic takes messages all the time. A consumer meets it; then it is known, and backlog no more."""
    stage = make_stage(tail_size=0)
    topic = stage.topic()
    subscription, other = stage.subscription(topic, "s"), stage.subscription(topic, "other")
    producer = stage.producer(topic)
    for number in range(5):
        stage.publish(producer, message(number, b"payload-%d" % number))
    stage.checkpoint()
    damage_payload(stage, ledger_path(1), b"payload-2")
    web = Web(stage)
    assert web("POST t/acceptLoss").status == 412, "no read has met it"
    consumer = stage.consumer(subscription, permits=10)
    assert [payload[-1:] for payload in got(consumer)] == ["0", "1", "3", "4"]
    (lost,) = web("GET t/losses").json
    assert (lost["ledgerId"], lost["firstIndex"], lost["endIndex"]) == (1, 2, 3)
    assert "entry 1:2 (last index 2) is damaged" in lost["reason"]
    stage.publish(producer, message(5))
    assert [one["firstIndex"] for one in web("POST t/acceptLoss").json] == [2]
    assert web("GET t/losses").json == []
    assert (subscription.cursor.backlog, other.cursor.backlog) == (5, 5)
    again = stage.restarted()
    assert again.topic().subscriptions["other"].cursor.backlog == 5


def test_a_ledger_in_which_no_entry_can_be_found_is_one_loss(
    make_stage: Callable[..., Stage],
) -> None:
    """Its file is another ledger's: it is met once, not once for each of its messages."""
    stage = make_stage(tail_size=0, ledger_entries_max=3)
    topic = stage.topic()
    stage.subscription(topic)
    producer = stage.producer(topic)
    for number in range(5):
        stage.publish(producer, message(number))
    stage.checkpoint()
    contents = stage.files.contents()
    first, second = contents[ledger_path(1)], contents[ledger_path(2)]
    stage.files.damage(ledger_path(1), second[:HEADER_SIZE] + first[HEADER_SIZE:])
    stage = stage.restarted()
    web = Web(stage)
    subscription = stage.topic().subscriptions["s"]
    consumer = stage.consumer(subscription, permits=10)
    assert got(consumer) == ["3", "4"]
    asked = stage.files.faults.calls["read"]
    stage.flow(consumer, 10)
    assert stage.files.faults.calls["read"] == asked
    (lost,) = web("GET t/losses").json
    assert (lost["ledgerId"], lost["firstIndex"], lost["endIndex"]) == (1, 0, 3)
    assert "belongs to ledger" in lost["reason"]
    assert web("POST t/acceptLoss").json[0]["endIndex"] == 3
    assert subscription.cursor.mark_delete_index == 2


def test_a_subscription_whose_ack_the_journal_lost_goes_back_to_before_it(stage: Stage) -> None:
    """The topic cannot be opened until that is accepted; others are served, and the journal is kept."""
    topic = stage.topic()
    subscription = stage.subscription(topic)
    stage.publish(stage.producer(topic), *map(message, range(6)))
    consumer = stage.consumer(subscription, permits=10)
    for entry_id in range(3):
        stage.ack(consumer, WireId(1, entry_id))
        stage.turn()
    state_id = subscription.state_id
    path, offset = facts_of(stage, state_id)[-2]
    flip_bit(stage.files, path, 8 * offset)
    stage = stage.restarted()
    web = Web(stage)
    assert state_id in stage.store.damaged_states
    stage.publish(stage.producer(stage.topic("persistent://public/default/other")), message(0))
    (lost,) = web("GET t/losses").json
    assert (lost["ledgerId"], lost["firstIndex"], lost["endIndex"]) == (-1, 0, 0)
    assert "cursor s: what it did from there on is lost" in lost["reason"]
    assert path in lost["reason"]
    stage.checkpoint()
    assert stage.files.exists(path), "it has what is intact"
    assert web("POST t/acceptLoss").json[0]["reason"] == lost["reason"]
    assert not stage.files.exists(path)
    for _ in range(2):
        cursor = stage.topic().subscriptions["s"].cursor
        assert (cursor.mark_delete_index, cursor.backlog) == (0, 5)
        assert Web(stage)("GET t/losses").json == []
        stage = stage.restarted()


def test_what_is_lost_is_told_until_it_is_accepted(web: Web) -> None:
    """Through restarts and housekeeping, in every place where an operator looks."""
    stage = web.stage
    topic = stage.topic()
    stage.subscription(topic)
    stage.publish(stage.producer(topic), message(0), message(1), message(2))
    assert web("GET t/losses").json == []
    assert web("POST t/acceptLoss").status == 412
    stage.checkpoint()
    cut_ledger(stage, topic.log.ledgers[0].size_bytes - 1)
    for _ in range(3):
        stage = stage.restarted()
        web = Web(stage)
        topic = stage.topic()
        stage.clock.advance(10**6)
        stage.loop.do(stage.broker.housekeeping.trim)
        stage.checkpoint()
    (lost,) = web("GET t/losses").json
    assert (lost["ledgerId"], lost["firstIndex"], lost["endIndex"]) == (1, 2, 3)
    client = stage.client()
    refused = produce(stage, client)
    assert refused.error == pb.NotAllowedError
    assert "messages [2, 3) are lost" in refused.message
    assert "messages [2, 3) are lost" in web("GET t/stats").json["refusal"]
    assert progress_of(topic.subscriptions["s"], 0).verdict == "DAMAGED"
    health = web("GET /admin/v2/brokers/health")
    assert (health.status, "default/t: messages [2, 3)" in health.json["reason"]) == (503, True)
    metrics = web("GET /metrics").body.decode()
    assert 'milepost_lost_messages{cluster="standalone"} 1.0' in metrics
    assert 'milepost_damaged_topics{cluster="standalone"} 1.0' in metrics
    assert (
        'topic="persistent://public/default/t"} 1.0' in metrics.split("milepost_topic_damaged{")[1]
    )
    assert web("POST t/acceptLoss").json == [lost]
    produce(stage, client)
    client.say(message(1))
    stage.turn()
    assert web("GET t/losses").json == []
    assert web("GET /admin/v2/brokers/health").status == 200
    consumer = stage.consumer(stage.subscription(topic), permits=10)
    assert got(consumer) == ["0", "1", "1"], "what is lost is passed over"
    assert topic.log.end_index == 4, "and its number is not given again"
    again = Web(stage.restarted())
    assert again("GET t/losses").json == []
    assert "refusal" not in again("GET t/stats").json


def test_a_deleted_topic_has_lost_nothing(web: Web) -> None:
    stage = web.stage
    stage.publish(stage.producer(stage.topic()), message(0))
    stage.checkpoint()
    cut_ledger(stage, 50)
    stage = stage.restarted()
    web = Web(stage)
    assert len(web("GET t/losses").json) == 1
    assert web("DELETE t").status == 204
    stage = stage.restarted()
    assert stage.store.losses == {}
    assert Web(stage)("GET /admin/v2/brokers/health").status == 200


def test_a_damaged_topic_can_be_unloaded(web: Web) -> None:
    """It begins no ledger then: what is lost of the old one is not accepted yet."""
    stage = web.stage
    stage.publish(stage.producer(stage.topic()), message(0))
    stage.checkpoint()
    cut_ledger(stage, 50)
    web = Web(stage.restarted())
    assert web("PUT t/unload").status == 204
    assert len(web("GET t/losses").json) == 1
    assert len(web("GET t/internalStats").json["ledgers"]) == 1


def test_what_only_a_topic_has_is_not_found_for_a_whole_partitioned_one(web: Web) -> None:
    """As at upstream, whose Java client has a class of its own for it."""
    assert web("PUT many/partitions", 2).status == 204
    before = {"ledgerId": 1, "entryId": 0}
    assert web.statuses("GET many/compaction", "GET many/offload") == [404, 404]
    assert web("PUT many/offload", before).status == 404


def test_types_of_subscriptions_that_no_policy_names_are_no_list(web: Web) -> None:
    web.stage.topic()
    assert web("GET t/subscriptionTypesEnabled").body == b""
    assert web("POST t/subscriptionTypesEnabled", ["Shared"]).status == 204
    assert web("GET t/subscriptionTypesEnabled").json == ["Shared"]
    assert web("DELETE t/subscriptionTypesEnabled").status == 204
    assert web("GET t/subscriptionTypesEnabled").body == b""


def test_what_is_lost_and_accepted_is_no_backlog(web: Web) -> None:
    """No consumer could ever ack it: nothing behind it could be trimmed, for good."""
    stage = web.stage
    topic = stage.topic()
    stage.subscription(topic, "plain")
    stage.run(stage.broker.create_subscription(topic, "group", 0, broadcast=Start.MINIMUM))
    stage.publish(stage.producer(topic), *(message(number) for number in range(4)))
    stage.checkpoint()
    cut_ledger(stage, topic.log.ledgers[0].size_bytes * 3 // 4)
    stage = stage.restarted()
    assert Web(stage)("POST t/acceptLoss").status == 200
    consumer = stage.consumer(stage.topic().subscriptions["plain"], SHARED, permits=10)
    received = deliveries(consumer)
    stage.ack(consumer, *map(id_of, received))
    for _ in range(2):
        lost = 4 - len(received)
        assert lost > 0
        backlogs = {one.name: one.cursor.backlog for one in stage.topic().subscriptions.values()}
        assert backlogs == {"plain": 0, "group": len(received)}
        stage = stage.restarted()
