"""Half messages on a broker whose time and disk are turned by hand.

The machine at the end sends, commits and rolls back in any order, with crashes, checkpoints and a disk that
refuses between, beside a model that a reader can check: what is open, and what the topic has.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from stage.counts import examples
from stage.frames import message
from stage.stage import Stage

from milepost.broker.messages.browse import message_of
from milepost.broker.operations import topic_lifecycle
from milepost.errors import MilepostError
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.calls import Call, Callers
from milepost.rocketmq.clients import Clients, Stream
from milepost.rocketmq.codes import Code, Refused, code_of
from milepost.rocketmq.consuming.receiving import Receiving
from milepost.rocketmq.message_check import TRANSACTION
from milepost.rocketmq.routes import Routes
from milepost.rocketmq.sending import Sending
from milepost.rocketmq.transactions import transactions
from milepost.rocketmq.transactions.halves import QUESTIONS_MAX
from milepost.rocketmq.transactions.transactions import AGE_S_MAX, CHECK_S, EVERY_S, Transactions

TOPIC = pb.Resource(name="t")
NAME = "persistent://public/default/t"
CALLER = Call("/c", None, "127.0.0.1", None)
OK = Code.OK


class Edge:
    """The calls of the edge, without gRPC."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.topic = stage.topic()
        self._streams = ExitStack()

        def make() -> Transactions:
            broker = stage.broker
            callers, self.clients = Callers(broker), Clients(broker)
            self.routes = Routes(broker, callers)
            sending = Sending(broker, callers, self.routes)
            self.receiving = Receiving(broker, callers, self.routes, self.clients, sending)
            return Transactions(
                broker, callers, self.routes, self.clients, sending, self.receiving.signer
            )

        self.transactions = stage.loop.do(make)
        stage.run(self.receiving.load())
        self.transactions.signer = self.receiving.signer
        stage.run(self.transactions.load())

    def send(self, body: bytes = b"half", first_s: int | None = None) -> str:
        """The id of the transaction of a half message."""
        system = pb.SystemProperties(
            message_id=f"id-{body[:9].decode()}", message_type=pb.TRANSACTION
        )
        if first_s is not None:
            system.orphaned_transaction_recovery_duration.FromSeconds(first_s)
        asked = pb.Message(topic=TOPIC, system_properties=system, body=body)
        answer = self.stage.run(
            self.transactions.send_message(CALLER, pb.SendMessageRequest(messages=[asked]))
        )
        assert answer.status.code == OK
        return str(answer.entries[0].transaction_id)

    def end(self, transaction_id: str, resolution: pb.TransactionResolution) -> int:
        """The code of the answer."""
        request = pb.EndTransactionRequest(
            topic=TOPIC, transaction_id=transaction_id, resolution=resolution
        )
        try:
            answer = self.stage.run(self.transactions.end_transaction(CALLER, request))
        except MilepostError as error:
            return code_of(error)
        return int(answer.status.code)

    def commit(self, transaction_id: str) -> int:
        return self.end(transaction_id, pb.COMMIT)

    def roll_back(self, transaction_id: str) -> int:
        return self.end(transaction_id, pb.ROLLBACK)

    def bodies(self) -> list[bytes]:
        """What consumers of the topic see, by index."""
        found = []
        for index in range(self.topic.log.first_index, self.topic.visible_end):
            view = self.stage.run(message_of(self.topic, index, self.stage.broker.engine))
            assert view is not None  # no index is taken by anything else
            found.append(view.payload)
        return found

    def ask(self, seconds: float) -> None:
        """Time passes, and the timer of the questions fires."""
        self.stage.clock.advance(seconds)
        self.stage.run(self.transactions.ask(self.stage.clock.monotonic()))

    def stream(self, client: str = "/c", topic: str = NAME, language: str = "") -> Stream:
        """A producer of the topic has its stream open."""
        call = Call(client, None, "127.0.0.1", None, language)
        stream = self.stage.loop.do(lambda: self._streams.enter_context(self.clients.stream(call)))
        self.clients.sends_to(client, topic)
        return stream

    def restarted(self, **how: object) -> Edge:
        return Edge(self.stage.restarted(**how))  # type: ignore[arg-type]

    @property
    def open(self) -> int:
        return len(self.transactions.halves)


def questions(stream: Stream) -> list[str]:
    """The transactions that the producer was asked about since the last time."""
    found = []
    while not stream._told.empty():
        told = stream._told.get_nowait()
        assert told is not None
        asked = pb.TelemetryCommand.FromString(told).recover_orphaned_transaction_command
        found.append(asked.transaction_id)
    return found


@pytest.fixture
def edge(stage: Stage) -> Edge:
    return Edge(stage)


def test_a_topic_that_is_terminated_takes_no_half_message(edge: Edge) -> None:
    edge.stage.run(topic_lifecycle.terminate(edge.stage.broker, edge.topic))
    system = pb.SystemProperties(message_id="id", message_type=pb.TRANSACTION)
    asked = pb.Message(topic=TOPIC, system_properties=system, body=b"half")
    with pytest.raises(MilepostError, match="terminated"):
        edge.stage.run(
            edge.transactions.send_message(CALLER, pb.SendMessageRequest(messages=[asked]))
        )
    assert len(edge.transactions.halves) == 0


def test_a_half_message_is_not_there_before_its_commit_and_holds_nothing_back(edge: Edge) -> None:
    first, second = edge.send(b"one"), edge.send(b"two")
    edge.stage.publish(edge.stage.producer(edge.topic), message(0))
    assert edge.topic.visible_end == 1  # a message that was sent later is there at once
    assert edge.commit(second) == OK
    assert edge.roll_back(first) == OK
    assert edge.bodies()[1:] == [b"two"]
    assert (edge.topic.log.end_index, edge.open) == (2, 0)  # its index is new, and it takes one
    view = edge.stage.run(message_of(edge.topic, 1, edge.stage.broker.engine))
    assert view is not None
    assert view.properties[TRANSACTION] == "true"
    counted = edge.stage.broker.counters.rocketmq_transactions
    assert dict(counted) == {"committed": 1, "rolled_back": 1}


def test_an_end_that_is_asked_for_again_is_answered_the_same_way(edge: Edge) -> None:
    one, two = edge.send(b"one"), edge.send(b"two")
    assert [edge.commit(one), edge.commit(one)] == [OK, OK]
    assert [edge.roll_back(two), edge.roll_back(two)] == [OK, OK]
    assert edge.roll_back(one) == edge.commit(two) == Code.INVALID_TRANSACTION_ID
    assert edge.bodies() == [b"one"]
    again = edge.restarted()  # how they ended is not known any more, and nothing happens twice
    assert again.commit(one) == again.commit(two) == Code.INVALID_TRANSACTION_ID
    assert again.bodies() == [b"one"]


def test_two_ends_at_once_are_one(edge: Edge) -> None:
    one = edge.send(b"one")
    request = pb.EndTransactionRequest(topic=TOPIC, transaction_id=one, resolution=pb.COMMIT)
    other = pb.EndTransactionRequest(topic=TOPIC, transaction_id=one, resolution=pb.ROLLBACK)
    begin, end = edge.stage.loop.begin, edge.transactions.end_transaction
    tasks = [begin(end(CALLER, asked)) for asked in (request, request, other)]
    edge.stage.turn()
    assert [task.exception() is None for task in tasks] == [True, True, False]
    assert edge.bodies() == [b"one"]


def test_a_client_that_hangs_up_leaves_no_end_half_done(edge: Edge) -> None:
    one = edge.send(b"one")
    request = pb.EndTransactionRequest(topic=TOPIC, transaction_id=one, resolution=pb.COMMIT)
    edge.stage.engine.holds_journal = True
    task = edge.stage.loop.begin(edge.transactions.end_transaction(CALLER, request))
    edge.stage.turn()
    task.cancel()
    edge.stage.turn()
    edge.stage.engine.holds_journal = False
    edge.stage.turn()
    assert edge.commit(one) == OK
    assert edge.bodies() == [b"one"]


def test_a_half_message_whose_client_hangs_up_is_asked_about(edge: Edge) -> None:
    system = pb.SystemProperties(message_id="id", message_type=pb.TRANSACTION)
    asked = pb.Message(topic=TOPIC, system_properties=system, body=b"one")
    edge.roll_back(edge.send(b"first"))
    edge.stage.engine.holds_journal = True
    request = pb.SendMessageRequest(messages=[asked])
    task = edge.stage.loop.begin(edge.transactions.send_message(CALLER, request))
    edge.stage.turn()
    task.cancel()
    edge.stage.turn()
    edge.stage.engine.holds_journal = False
    edge.stage.turn()
    assert edge.open == 1
    stream = edge.stream()
    edge.ask(6)
    assert [edge.commit(one) for one in questions(stream)] == [OK]
    assert edge.bodies() == [b"one"]


@pytest.mark.parametrize(
    ("policy", "work"),
    [
        ({"message_ttl_s": 60}, "expire"),
        ({"subscription_expiration_minutes": 1}, "drop_idle"),
        (
            {"backlog_quota_s": 60, "backlog_quota_policy": "consumer_backlog_eviction"},
            "check_quotas",
        ),
    ],
)
def test_no_default_for_topics_of_users_drops_a_half_message(
    make_stage: Callable[..., Stage], policy: dict[str, object], work: str
) -> None:
    stage = make_stage(**policy)
    edge = Edge(stage)
    one = edge.send(b"one")
    for _ in range(3):
        stage.loop.do(getattr(stage.broker.housekeeping, work))
        stage.turn()
        stage.clock.advance(61)
    assert edge.commit(one) == OK
    assert edge.bodies() == [b"one"]


@pytest.mark.parametrize("power_lost", ["", "dropped"])
def test_what_was_answered_is_there_after_a_crash(edge: Edge, power_lost: str) -> None:
    open_one, committed, rolled_back = edge.send(b"open"), edge.send(b"yes"), edge.send(b"no")
    assert edge.commit(committed) == edge.roll_back(rolled_back) == OK
    again = edge.restarted(power_lost=power_lost)
    assert (again.bodies(), again.open) == ([b"yes"], 1)
    assert again.commit(open_one) == OK
    assert again.restarted().bodies() == [b"yes", b"open"]


def test_a_commit_that_the_disk_refuses_has_not_happened(edge: Edge) -> None:
    one = edge.send(b"one")
    edge.stage.files.faults.fail("sync", under="journal", error=errno.EIO)
    assert edge.commit(one) == Code.MASTER_PERSISTENCE_TIMEOUT
    assert (edge.bodies(), edge.open) == ([], 1)
    assert edge.commit(one) == OK
    assert edge.restarted().bodies() == [b"one"]


def test_a_commit_that_was_not_answered_is_whole_or_has_not_happened(edge: Edge) -> None:
    one = edge.send(b"one")
    request = pb.EndTransactionRequest(topic=TOPIC, transaction_id=one, resolution=pb.COMMIT)
    edge.stage.engine.holds_journal = True
    edge.stage.loop.begin(edge.transactions.end_transaction(CALLER, request))
    edge.stage.turn()
    again = edge.restarted()
    assert (again.bodies(), again.open) == ([], 1)
    assert again.commit(one) == OK
    assert (again.bodies(), again.open) == ([b"one"], 0)


def test_a_topic_that_was_made_again_gets_no_half_message_of_the_one_before(edge: Edge) -> None:
    one = edge.send(b"one")
    stage = edge.stage
    stage.run(topic_lifecycle.delete_topic(stage.broker, edge.topic, force=True))
    assert edge.commit(one) == Code.TOPIC_NOT_FOUND
    edge.topic = stage.topic()
    assert edge.commit(one) == Code.INVALID_TRANSACTION_ID
    edge.ask(6)
    assert (edge.bodies(), edge.open) == ([], 0)
    assert stage.broker.counters.rocketmq_transactions["given_up"] == 1


def test_a_producer_of_the_topic_is_asked_and_its_answer_counts(edge: Edge) -> None:
    edge.stream("/other", "persistent://public/default/elsewhere")
    stream = edge.stream()
    one = edge.send(b"one")
    edge.ask(5.9)
    assert questions(stream) == []
    edge.ask(0.1)
    assert questions(stream) == [one]
    edge.ask(EVERY_S - 0.1)
    assert questions(stream) == []
    edge.ask(0.1)
    assert questions(stream) == [one]
    assert edge.commit(one) == OK
    edge.ask(EVERY_S)
    assert questions(stream) == []
    assert edge.stage.broker.counters.rocketmq_questions == 2


def test_questions_show_the_message_and_go_to_producers_in_turn(edge: Edge) -> None:
    streams = [edge.stream("/a"), edge.stream("/b")]
    edge.send(b"one", first_s=1)
    edge.ask(1)
    (told,) = [edge.stage.loop.do(one._told.get_nowait) for one in streams if one._told.qsize()]
    assert told is not None
    asked = pb.TelemetryCommand.FromString(told).recover_orphaned_transaction_command
    shown = asked.message
    assert (shown.body, shown.topic.name) == (b"one", "t")
    assert shown.system_properties.message_id == "id-one"
    assert shown.system_properties.body_encoding == pb.IDENTITY
    assert shown.system_properties.body_digest.checksum
    edge.ask(EVERY_S)
    assert sum(len(questions(one)) for one in streams) == 1


def test_after_all_questions_it_is_rolled_back(edge: Edge) -> None:
    stream = edge.stream()
    one = edge.send(b"one")
    edge.ask(6)
    for _ in range(QUESTIONS_MAX - 1):
        edge.ask(EVERY_S)
    assert len(questions(stream)) == QUESTIONS_MAX
    assert edge.open == 1  # the last answer may come
    edge.ask(EVERY_S)
    assert (edge.open, questions(stream)) == (0, [])
    assert edge.commit(one) == Code.INVALID_TRANSACTION_ID
    assert edge.bodies() == []
    assert edge.restarted().open == 0


def test_without_a_producer_it_waits_and_is_given_up_when_it_is_old(edge: Edge) -> None:
    edge.send(b"one")
    edge.ask(6)
    for _ in range(QUESTIONS_MAX + 5):
        edge.ask(EVERY_S)
    assert edge.open == 1
    again = edge.restarted()
    stream = again.stream()
    again.ask(6)
    assert len(questions(stream)) == 1
    again.ask(AGE_S_MAX)
    assert again.open == 0


def test_a_producer_that_does_not_read_is_not_asked_without_end(edge: Edge) -> None:
    stream = edge.stream()
    for number in range(100):
        edge.send(b"%d" % number, first_s=0)
    edge.ask(0)
    edge.ask(0)
    assert stream._told.full()
    assert edge.stage.broker.counters.rocketmq_questions == stream._told.maxsize


def test_a_producer_that_cannot_read_the_question_is_not_asked(edge: Edge) -> None:
    """Its stream would end with an error each time."""
    stream = edge.stream("/rust", language="RUST")
    edge.send(b"x" * 4 * 1024 * 1024, first_s=1)
    edge.ask(1)
    assert questions(stream) == []
    able = edge.stream("/java", language="JAVA")
    edge.ask(EVERY_S)
    edge.ask(EVERY_S)
    assert (questions(stream), len(questions(able))) == ([], 1)


def test_the_topic_says_when_to_ask(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage()
    edge = Edge(stage)
    change = stage.broker.change_topics(
        [edge.topic], lambda doc: {**doc, "properties": {CHECK_S: "1.5"}}
    )
    stage.run(change)
    stream = edge.stream()
    edge.send(b"one")
    edge.ask(1.5)
    edge.ask(1.5)
    assert len(questions(stream)) == 2


def test_too_many_open_ones_are_refused(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "OPEN_MAX", 1)
    one = edge.send(b"one")
    with pytest.raises(Refused) as caught:
        edge.send(b"two")
    assert caught.value.code is Code.TOO_MANY_REQUESTS
    assert edge.commit(one) == OK
    edge.send(b"two")


@settings(max_examples=examples(30), stateful_step_count=25, deadline=None)
class Machine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.edge = Edge(Stage())
        self.sent = 0
        self.open: dict[bytes, str] = {}
        self.seen: list[bytes] = []

    def teardown(self) -> None:
        if hasattr(self, "edge"):
            self.edge.stage.close()

    @rule()
    def send(self) -> None:
        body = b"%d" % self.sent
        self.sent += 1
        self.open[body] = self.edge.send(body)

    @rule()
    def publish(self) -> None:
        stage, topic = self.edge.stage, self.edge.topic
        producer = topic.producers.get("p") or stage.producer(topic)
        self.seen.append(b"%d" % self.sent)
        stage.publish(producer, message(self.sent))
        self.sent += 1

    @precondition(lambda self: self.open)
    @rule(data=st.data(), commits=st.booleans())
    def end(self, data: st.DataObject, commits: bool) -> None:
        body = data.draw(st.sampled_from(sorted(self.open)))
        transaction_id = self.open.pop(body)
        assert self.edge.end(transaction_id, pb.COMMIT if commits else pb.ROLLBACK) == OK
        if commits:
            self.seen.append(body)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def commit_on_a_bad_disk(self, data: st.DataObject) -> None:
        body = data.draw(st.sampled_from(sorted(self.open)))
        self.edge.stage.files.faults.fail("sync", under="journal", error=errno.EIO)
        assert self.edge.commit(self.open[body]) == Code.MASTER_PERSISTENCE_TIMEOUT

    @rule(checkpoint=st.booleans(), power_lost=st.sampled_from(["", "dropped"]))
    def crash(self, checkpoint: bool, power_lost: str) -> None:
        self.edge = self.edge.restarted(checkpoint=checkpoint, power_lost=power_lost)

    @rule()
    def checkpoint(self) -> None:
        self.edge.stage.checkpoint()

    @invariant()
    def the_topic_has_what_was_committed_once_and_densely(self) -> None:
        if hasattr(self, "edge"):
            assert self.edge.bodies() == self.seen
            assert self.edge.open == len(self.open)


TestAnyOrder = Machine.TestCase
