"""Transactions over HTTP: who has which open, on what, and the abort by an operator."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from stage.frames import batch, message
from stage.http import Answer, Web
from stage.security import SECURED, bearer, shown
from stage.stage import TOPIC, Stage
from stage.talk import SHARED, ack_command, error_of, produce, request, subscribe, wire_id
from stage.transactions import ack_in, add_subscription, end, new, started

from milepost.broker.auth.operations import Action
from milepost.broker.monitoring.progress import progress_of
from milepost.broker.operations import topic_lifecycle
from milepost.positions import TxnId
from milepost.positions.names import NamespaceName, TopicName
from milepost.rest.metrics.metric_table import SUBSCRIPTION_ROWS
from milepost.rest.resources import progress as resources_progress
from milepost.wire import pulsar_pb2 as pb

BASE = "/admin/v3/transactions"
HERE = "public/default/t"


def bits(txn: TxnId) -> dict[str, int]:
    return {"txnid_least_bits": txn.least, "txnid_most_bits": txn.most}


class Open:
    """A transaction that has written two entries and acked one message of the same topic."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.web = stage, Web(stage)
        self.client = client = stage.client()
        produce(stage, client)
        subscribe(stage, client, "s", SHARED, permits=100)
        client.say(message(0), batch(1, 2))
        stage.turn()
        reply = request(stage, client, pb.CommandNewTxn(txn_ttl_millis=60_000))
        self.txn = TxnId(reply.txnid_most_bits, reply.txnid_least_bits)
        for command in (
            pb.CommandAddPartitionToTxn(partitions=[TOPIC], **bits(self.txn)),
            pb.CommandAddSubscriptionToTxn(
                subscription=[pb.Subscription(topic=TOPIC, subscription="s")], **bits(self.txn)
            ),
        ):
            assert not error_of(request(stage, client, command))
        client.say(message(2, **bits(self.txn)), batch(3, 3, **bits(self.txn)))
        ack = ack_command(wire_id(1, 0), **bits(self.txn))
        assert not error_of(request(stage, client, ack))
        stage.turn()

    def get(self, target: str) -> Answer:
        return self.web(f"GET {BASE}/{target}")

    def end(self, action: Any) -> None:
        command = pb.CommandEndTxn(txn_action=action, **bits(self.txn))
        assert not error_of(request(self.stage, self.client, command))


@pytest.fixture
def opened(stage: Stage) -> Open:
    return Open(stage)


def test_a_transaction_says_whose_it_is_and_what_it_has_done(opened: Open) -> None:
    least = opened.txn.least
    answer = opened.get(f"transactionMetadata/0/{least}")
    assert answer.status == 200
    found = answer.json
    assert found.pop("openTimestamp") == opened.stage.clock.wall_ms()
    assert found == {
        "txnId": f"(0,{least})",
        "status": "OPEN",
        "timeoutAt": 60_000,
        "producedPartitions": {TOPIC: {"startPosition": "1:2", "aborted": False, "messages": 4}},
        "ackedPartitions": {TOPIC: {"s": {"messages": 1}}},
    }


def test_its_owner_is_the_role_that_opened_it(opened: Open) -> None:
    opened.stage.broker.transactions.coordinator.open[opened.txn.least].owner = "billing"
    found = opened.get(f"transactionMetadata/0/{opened.txn.least}").json
    assert found["owner"] == "billing"


@pytest.mark.parametrize(
    ("role", "status", "owner"),
    [
        ("billing", 200, "billing"),
        ("root", 200, "billing"),
        ("reader", 200, None),
        ("of-other", 403, None),
        (None, 401, None),
    ],
)
def test_who_may_look_at_a_transaction(role: str | None, status: int, owner: str | None) -> None:
    """Its owner, superusers, and roles that may look up all its topics."""
    other = "persistent://public/default/other"
    with Stage(**SECURED) as stage:
        grants = stage.broker.access_control.grants
        both = {Action.PRODUCE, Action.CONSUME}
        stage.run(
            grants.edit(
                NamespaceName.parse("public/default"),
                lambda found: (
                    found.with_namespace_role("billing", both)
                    .with_namespace_role("reader", {Action.CONSUME})
                    .with_topic_role(TopicName.parse(other), "of-other", both)
                ),
            )
        )
        for name in (TOPIC, other):
            stage.topic(name)
        client, headers = stage.client(**shown("billing")), {} if role is None else bearer(role)
        reply = request(stage, client, pb.CommandNewTxn(txn_ttl_millis=9_000))
        txn = TxnId(reply.txnid_most_bits, reply.txnid_least_bits)
        command = pb.CommandAddPartitionToTxn(partitions=[TOPIC, other], **bits(txn))
        assert not error_of(request(stage, client, command))
        answer = Web(stage)(f"GET {BASE}/transactionMetadata/0/{txn.least}", **headers)
        assert (answer.status, answer.json.get("owner")) == (status, owner)
        if role == "billing":  # everything else is for superusers
            for line in (
                f"GET {BASE}/slowTransactions/0",
                f"POST {BASE}/abortTransaction/0/{txn.least}",
            ):
                assert Web(stage)(line, **headers).status == 403


@pytest.mark.parametrize("role", ["billing", "root", "reader"])
def test_every_role_may_look_at_a_transaction_without_topics(role: str) -> None:
    """There is no topic that it may not look up, and the suite of Go's client asks as another role."""
    with Stage(**SECURED) as stage:
        reply = request(
            stage, stage.client(**shown("billing")), pb.CommandNewTxn(txn_ttl_millis=9_000)
        )
        target = f"GET {BASE}/transactionMetadata/0/{reply.txnid_least_bits}"
        assert Web(stage)(target, **bearer(role)).status == 200


def test_a_damaged_topic_does_not_keep_the_metadata_back(opened: Open) -> None:
    """An operator who is about to abort the transaction looks at it first."""
    stage, topic = opened.stage, opened.stage.topic()
    stage.run(topic_lifecycle.close_topic(stage.broker, topic))
    log = stage.store._logs.pop(topic.row.topic_id)
    stage.store._damaged_topics[topic.row.topic_id] = "a byte of it has changed"
    try:
        answer = opened.get(f"transactionMetadata/0/{opened.txn.least}")
    finally:
        del stage.store._damaged_topics[topic.row.topic_id]
        stage.store._logs[topic.row.topic_id] = log
    assert answer.status == 200, answer.json
    assert answer.json["producedPartitions"] == {TOPIC: {"aborted": False}}
    assert answer.json["ackedPartitions"] == {TOPIC: {"s": {}}}


def test_topics_are_called_as_the_client_calls_them(stage: Stage) -> None:
    """The official Go client looks for the short name that it has added."""
    client = stage.client()
    subscribe(stage, client, "s", SHARED)
    reply = request(stage, client, pb.CommandNewTxn(txn_ttl_millis=60_000))
    txn = TxnId(reply.txnid_most_bits, reply.txnid_least_bits)
    pair = pb.Subscription(topic="t", subscription="s")
    for command in (
        pb.CommandAddPartitionToTxn(partitions=["t"], **bits(txn)),
        pb.CommandAddSubscriptionToTxn(subscription=[pair], **bits(txn)),
    ):
        assert not error_of(request(stage, client, command))
    found = Web(stage)(f"GET {BASE}/transactionMetadata/0/{txn.least}").json
    assert list(found["producedPartitions"]) == list(found["ackedPartitions"]) == ["t"]
    assert list(stage.broker.transactions.coordinator.open[txn.least].topics) == [TOPIC]


def test_what_a_restart_leaves_open_is_shown(opened: Open) -> None:
    restarted = opened.stage.restarted()
    found = Web(restarted)(f"GET {BASE}/transactionMetadata/0/{opened.txn.least}").json
    assert found["producedPartitions"][TOPIC]["startPosition"] == "1:2"
    assert found["ackedPartitions"] == {TOPIC: {"s": {"messages": 1}}}


def test_acks_of_a_broadcast_group_are_those_of_its_members(stage: Stage) -> None:
    client, web = stage.client(), Web(stage)
    produce(stage, client)
    for number in range(2):
        words = {"milepost.mode": "broadcast", "milepost.member": f"m{number}"}
        metadata = [pb.KeyValue(key=key, value=value) for key, value in words.items()]
        subscribe(stage, client, "g", SHARED, number, metadata=metadata, permits=10)
    client.say(*[message(number) for number in range(3)])
    stage.turn()
    txn = new(stage, client)
    add_subscription(stage, client, txn, "g")
    for number in range(2):
        ids = [wire_id(1, entry) for entry in range(number + 1)]
        assert not error_of(ack_in(stage, client, txn, *ids, consumer_id=number))

    def told(target: str) -> Any:
        return web(f"GET {BASE}/{target}").json

    metadata = told(f"transactionMetadata/0/{txn.least}")
    assert metadata["ackedPartitions"] == {TOPIC: {"g": {"messages": 3}}}
    stats = f"transactionInPendingAckStats/{HERE}/g/0/{txn.least}"
    assert told(stats) == {"messages": 3}
    assert told(f"pendingAckStats/{HERE}/g")["ongoingTxnSize"] == 1
    states = [told(f"positionStatsInPendingAck/{HERE}/g/1/{entry}")["state"] for entry in range(3)]
    assert states == ["PendingAck", "PendingAck", "NotInPendingAck"]
    (group,) = stage.topic().subscriptions.values()
    read = {row.name: row.read for row in SUBSCRIPTION_ROWS}
    assert read["milepost_subscription_pending_in_transactions"](group) == 3
    assert not error_of(end(stage, client, txn))
    assert told(stats) == {}
    assert read["milepost_subscription_pending_in_transactions"](group) == 0
    assert read["pulsar_txn_tp_committed_count"](group) == 2


def test_what_was_acked_before_a_seek_is_in_no_transaction(stage: Stage) -> None:
    client = started(stage, sub_type=SHARED)
    client.say(message(0))
    stage.turn()
    before, since = new(stage, client), new(stage, client)
    for txn in (before, since):
        add_subscription(stage, client, txn)
    assert not error_of(ack_in(stage, client, before, wire_id(1, 0)))
    subscription = stage.topic().subscriptions["s"]
    stage.seek(subscription, 0)
    subscribe(stage, client, "s", SHARED, permits=10)
    assert Web(stage)(f"GET {BASE}/pendingAckStats/{HERE}/s").json["ongoingTxnSize"] == 0
    assert not error_of(ack_in(stage, client, since, wire_id(1, 0)))
    assert Web(stage)(f"GET {BASE}/pendingAckStats/{HERE}/s").json["ongoingTxnSize"] == 1
    assert f"1 acked in transaction {since}" in progress_of(subscription, 0).reason


def test_slow_ones_are_those_that_are_open_for_long(opened: Open) -> None:
    opened.stage.clock.advance(5)
    name = f"(0,{opened.txn.least})"
    assert list(opened.get("slowTransactions/4000").json) == [name]
    assert opened.get("slowTransactions/5000").json == {}
    assert list(opened.get("slowTransactions/1?coordinatorId=0").json) == [name]


def test_the_coordinator(opened: Open) -> None:
    least = opened.txn.least
    (coordinator,) = opened.get("coordinators").json
    assert coordinator["id"] == 0
    assert coordinator["brokerServiceUrl"].startswith("pulsar://")
    stats = opened.get("coordinatorStats").json["0"]
    assert stats == opened.get("coordinatorStats?coordinatorId=0").json
    assert (stats["leastSigBits"], stats["lowWaterMark"]) == (least, least - 1)
    assert (stats["ongoingTxnSize"], stats["state"]) == (1, "Ready")
    assert 0 < stats["recoverStartTime"] <= stats["recoverEndTime"]
    opened.end(pb.COMMIT)
    stats = opened.get("coordinatorStats?coordinatorId=0").json
    assert (stats["lowWaterMark"], stats["ongoingTxnSize"]) == (least, 0)


def test_a_topic_says_up_to_where_consumers_get_messages(opened: Open) -> None:
    found = opened.get(f"transactionBufferStats/{HERE}?lowWaterMarks=true&segmentStats=true").json
    assert (found["state"], found["maxReadPosition"]) == ("Ready", "1:1")
    assert (found["ongoingTxnSize"], found["totalAbortedTransactions"]) == (1, 0)
    assert found["lowWaterMarks"] == {}
    opened.end(pb.ABORT)
    found = opened.get(f"transactionBufferStats/{HERE}").json
    assert (found["maxReadPosition"], found["ongoingTxnSize"]) == ("1:4", 0)
    assert found["totalAbortedTransactions"] == 1
    stats = opened.web("GET t/stats").json
    assert [stats[f"{name}TxnCount"] for name in ("ongoing", "committed", "aborted")] == [0, 0, 1]


def test_what_one_transaction_has_done_to_a_topic_and_a_subscription(opened: Open) -> None:
    least = opened.txn.least
    of_topic = f"transactionInBufferStats/{HERE}"
    of_subscription = f"transactionInPendingAckStats/{HERE}/s"
    assert opened.get(f"{of_topic}/0/{least}").json["startPosition"] == "1:2"
    assert opened.get(f"{of_subscription}/0/{least}").json == {"messages": 1}
    assert opened.get(f"{of_topic}/0/999").json == {"aborted": False}
    assert opened.get(f"{of_subscription}/0/999").json == {}
    assert opened.get(f"pendingAckStats/{HERE}/s").json["ongoingTxnSize"] == 1
    opened.end(pb.ABORT)
    assert opened.get(f"{of_topic}/0/{least}").json == {"aborted": True}
    assert opened.get(f"pendingAckStats/{HERE}/s").json["ongoingTxnSize"] == 0


def test_the_state_of_one_position(opened: Open) -> None:
    def state(position: str) -> str:
        return str(opened.get(f"positionStatsInPendingAck/{HERE}/s/{position}").json["state"])

    assert state("1/0") == "PendingAck"
    assert state("1/1") == state("1/1?batchIndex=1") == "NotInPendingAck"
    assert state("1/1?batchIndex=2") == state("9/9") == "InvalidPosition"
    opened.end(pb.COMMIT)
    assert state("1/0") == "MarkDelete"


def test_an_operator_aborts_it(opened: Open) -> None:
    line = f"POST {BASE}/abortTransaction/0/{opened.txn.least}"
    assert opened.web(line).status == 204
    assert opened.stage.topic().visible_end == opened.stage.topic().log.end_index
    assert opened.web(line).status == 204  # it is aborted
    assert opened.get(f"transactionMetadata/0/{opened.txn.least}").status == 404


def test_what_was_committed_is_not_aborted(opened: Open) -> None:
    opened.end(pb.COMMIT)
    answer = opened.web(f"POST {BASE}/abortTransaction/0/{opened.txn.least}")
    assert answer.status == 409
    assert "committed" in answer.reason


@pytest.mark.parametrize(
    ("line", "status", "word"),
    [
        ("POST abortTransaction/0/999", 404, "(0,999)"),
        ("POST abortTransaction/7/1", 404, "coordinator 7"),
        ("GET transactionMetadata/0/999", 404, "(0,999)"),
        ("GET transactionMetadata/7/1", 404, "coordinator 7"),
        ("GET transactionMetadata/0/x", 400, "leastSigBits"),
        ("GET transactionMetadata/0/9223372036854775808", 400, "leastSigBits"),
        ("GET coordinatorStats?coordinatorId=3", 404, "coordinator 3"),
        ("GET slowTransactions/-1", 400, "timeout"),
        ("GET slowTransactions/1?coordinatorId=3", 404, "coordinator 3"),
        ("GET transactionBufferStats/public/default/none", 404, "none"),
        (f"GET pendingAckStats/{HERE}/none", 404, "none"),
        ("GET coordinatorInternalStats/0", 405, "journal"),
        (f"GET pendingAckInternalStats/{HERE}/s", 405, "journal"),
        ("POST transactionCoordinator/replicas", 405, "number of transaction coordinators"),
    ],
)
def test_bad_requests_name_what_is_wrong(opened: Open, line: str, status: int, word: str) -> None:
    method, _, target = line.partition(" ")
    answer = opened.web(f"{method} {BASE}/{target}")
    assert answer.status == status, answer
    assert word in answer.reason


def test_everything_is_503_where_transactions_are_switched_off(
    make_stage: Callable[..., Stage],
) -> None:
    web = Web(make_stage(transaction_coordinator_enabled=False))
    assert web(f"GET {BASE}/coordinatorStats").status == 503
    assert web(f"POST {BASE}/abortTransaction/0/1").status == 503


def test_the_metrics_of_transactions_have_upstreams_names(opened: Open) -> None:
    def values() -> dict[str, float]:
        lines = opened.web("GET /metrics").body.decode().splitlines()
        return {
            line.partition("{")[0]: float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith(
                ("pulsar_txn_", "milepost_topic_visible", "milepost_subscription_pen")
            )
        }

    found = values()
    assert found["pulsar_txn_active_count"] == found["pulsar_txn_created_total"] == 1
    assert found["pulsar_txn_append_log_total"] == 3  # opened, a topic, a subscription
    assert found["pulsar_txn_tb_active_total"] == 1
    assert found["milepost_topic_visible_end_index"] == 3
    assert found["milepost_subscription_pending_in_transactions"] == 1
    opened.stage.tick()
    opened.stage.clock.advance(0.3)
    opened.end(pb.COMMIT)
    opened.stage.tick(61)
    found = values()
    assert found["pulsar_txn_active_count"] == found["pulsar_txn_aborted_total"] == 0
    assert found["pulsar_txn_timeout_total"] == found["pulsar_txn_tb_aborted_total"] == 0
    assert found["pulsar_txn_committed_total"] == found["pulsar_txn_tb_committed_total"] == 1
    assert found["pulsar_txn_tp_committed_count"] == 1
    assert found["milepost_topic_visible_end_index"] == 8
    latencies = {name: n for name, n in found.items() if "execution_latency" in name}
    assert {name for name, count in latencies.items() if count} == {
        "pulsar_txn_execution_latency_le_5000"
    }
    assert len(latencies) == 14


# -- progress ----------------------------------------------------------------------------------------


def progress(opened: Open) -> Any:
    now_ms = opened.stage.clock.wall_ms()
    return progress_of(opened.stage.topic().subscriptions["s"], now_ms)


def test_progress_says_which_transaction_holds_a_topic_back(opened: Open) -> None:
    opened.stage.broker.transactions.coordinator.open[opened.txn.least].owner = "billing"
    acks = [wire_id(1, 1)]
    assert not error_of(request(opened.stage, opened.client, ack_command(*acks)))
    opened.stage.clock.advance(200)
    line = progress(opened)
    assert (line.backlog, line.inflight, line.pending) == (1, 1, 1)
    held = line.held_back_by
    assert held is not None
    assert (held.transaction, held.owner, held.messages) == (str(opened.txn), "billing", 4)
    assert (held.open_ms, held.topics) == (200_000, (TOPIC,))
    assert line.verdict == "CAUGHT_UP"  # nothing is left to do for its consumer
    who = f"transaction {opened.txn} of role billing, open for 3 min"
    assert line.reason == (
        f"1 acked in {who}, which has not ended; 4 behind the end wait for {who}"
    )
    line_of_abort = f"POST {BASE}/abortTransaction/0/{opened.txn.least}"
    assert opened.web(line_of_abort).status == 204
    line = progress(opened)
    assert (line.pending, line.held_back_by) == (0, None)


def test_a_pending_ack_is_held_by_its_transaction_and_by_no_consumer(opened: Open) -> None:
    request(opened.stage, opened.client, ack_command(wire_id(1, 1)))
    hole = progress(opened).hole
    assert hole is not None
    assert hole.holder == f"transaction {opened.txn}, open for 0 s"


def test_progress_over_http_has_it(opened: Open) -> None:
    answer = resources_progress._json(progress(opened))
    assert json.loads(answer)["held_back_by"]["transaction"] == str(opened.txn)


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("transactionMetadata/0/{least}", "OPEN"),
        ("slowTransactions/0", "OPEN"),
        (f"transactionInBufferStats/{HERE}/0/{{least}}", "1:2"),
        (f"transactionBufferStats/{HERE}", "1:1"),
        (f"positionStatsInPendingAck/{HERE}/s/1/0", "PendingAck"),
    ],
)
def test_nothing_is_read_by_the_loop(
    make_stage: Callable[..., Stage], target: str, status: str
) -> None:
    """Where entries lie may be on the disk alone, behind a restart."""
    stage = make_stage(tail_size=0, ledger_entries_max=3)
    opened = Open(stage)
    opened.stage = stage.restarted(checkpoint=True)
    opened.web = Web(opened.stage)
    opened.stage.tick()
    answer = opened.get(target.format(least=opened.txn.least))
    assert answer.status == 200
    assert status in json.dumps(answer.json)
