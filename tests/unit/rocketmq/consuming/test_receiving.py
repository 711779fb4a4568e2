"""Polls, acks and leases on a broker whose time and disk are turned by hand.

The machine at the end does them in any order, with crashes and resets between, beside a model that a reader
can check: which messages are acked, which are leased by which handle, and nothing else.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from stage.counts import examples
from stage.frames import batch, chunk, frame_of, message, metadata
from stage.rocketmq_edge import (
    GROUP,
    INVISIBLE_S,
    OK,
    TOPIC,
    VOID,
    Edge,
    attempts,
    bodies,
    caller,
    handle_of,
)
from stage.stage import Stage

from milepost.broker.messages import browse
from milepost.broker.messages.browse import message_of, stored_bytes
from milepost.broker.operations import leases as broker_leases
from milepost.broker.operations import moving, topic_lifecycle
from milepost.errors import OutcomeUnknown, ServiceNotReady
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.clients import ALIVE_S, BACKOFF_S
from milepost.rocketmq.codes import Code, Refused
from milepost.rocketmq.consuming import groups, queues, receiving
from milepost.rocketmq.consuming.groups import BURIAL_S, IDLE_S
from milepost.rocketmq.consuming.queues import FIFO, RETRIES, Manner
from milepost.wire.metadata import entry_metadata_and_end


@pytest.fixture(autouse=True, scope="module")
def time_by_hand() -> Iterator[None]:
    """What has arrived is given back when a test says so, and not when a busy machine takes a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "KEPT_S", 1e6)
        yield


@pytest.fixture
def edge(stage: Stage) -> Iterator[Edge]:
    made = Edge(stage)
    yield made
    if not stage.loop.is_closed():
        made.hang_up()


def test_a_batch_is_given_out_message_by_message(edge: Edge) -> None:
    edge.publish(batch(0, 5))
    first, rest = edge.poll(2), edge.poll(9)
    assert (bodies(first), bodies(rest)) == ([b"0.0", b"0.1"], [b"0.2", b"0.3", b"0.4"])
    assert {edge.ack(handle_of(one)) for one in first + rest} == {OK}
    assert edge.subscription.cursor.counts().acked == 5


def test_what_no_poll_takes_is_given_back_and_not_counted(edge: Edge) -> None:
    edge.publish(batch(0, 3))
    (first,) = edge.poll(1)
    assert edge.subscription.cursor.counts().inflight == 3
    edge.stage.loop.do(edge.group.give_back_arrived)
    edge.stage.turn()
    assert edge.subscription.cursor.counts()[:2] == (2, 1)
    again = edge.poll(9)
    assert (bodies(again), attempts(again)) == ([b"0.1", b"0.2"], [1, 1])
    assert edge.ack(handle_of(first)) == OK


def test_one_message_of_a_batch_comes_again_and_its_siblings_stay(edge: Edge) -> None:
    edge.publish(batch(0, 3))
    one, two, three = edge.poll(9)
    status, handle = edge.change(handle_of(two), 60)
    assert status == OK
    edge.time_passes(INVISIBLE_S)
    again = edge.poll(9)
    assert (bodies(again), attempts(again)) == ([b"0.0", b"0.2"], [2, 2])
    assert [edge.ack(handle_of(old)) for old in (one, three)] == [VOID, VOID]
    assert edge.ack(handle) == OK  # it had more time
    assert [edge.ack(handle_of(new)) for new in again] == [OK, OK]


def test_one_message_of_a_batch_comes_again_alone(edge: Edge) -> None:
    edge.publish(batch(0, 3))
    one, two, three = edge.poll(9)
    assert [edge.ack(handle_of(two)), edge.ack(handle_of(three))] == [OK, OK]
    edge.time_passes(INVISIBLE_S)
    assert edge.ack(handle_of(one)) == VOID
    (again,) = edge.poll(9)
    assert (again.body, attempts([again])) == (b"0.0", [2])
    assert edge.ack(handle_of(again)) == OK


def test_a_batch_that_cannot_be_split_is_one_message(edge: Edge) -> None:
    edge.publish(batch(0, 3, encryption_keys=[{"key": "k", "value": b"v"}]), message(3))
    whole, single = edge.poll(9)
    assert whole.user_properties["milepost.fault"] == "it is encrypted"
    assert single.body == b"3"
    assert edge.ack(handle_of(single)) == OK
    edge.time_passes(INVISIBLE_S)
    (again,) = edge.poll(9)
    assert again.body == whole.body
    assert edge.ack(handle_of(again)) == OK
    assert edge.subscription.cursor.counts().acked == 4


def test_a_poll_that_waits_gets_what_comes_back(edge: Edge) -> None:
    edge.publish(message(0))
    edge.poll(1)
    waiting = edge.begin(1, "other")
    assert not waiting.done()
    edge.time_passes(INVISIBLE_S - 1)
    assert not waiting.done()
    edge.time_passes(1)
    assert attempts(edge.messages(waiting)) == [2]
    assert edge.stage.broker.counters.rocketmq_leases_over == 1


def test_a_push_consumer_keeps_its_messages_while_it_is_heard(edge: Edge) -> None:
    edge.publish(message(0))
    edge.clients.heard(caller("push"))
    (held,) = edge.poll(1, "push", push=True)
    for _ in range(30):
        edge.time_passes(ALIVE_S / 3)
        edge.clients.heard(caller("push"))
    assert edge.poll(1) == []
    edge.time_passes(ALIVE_S)  # silence
    edge.time_passes(ALIVE_S)
    assert attempts(edge.poll(1)) == [2]
    assert edge.ack(handle_of(held)) == VOID


def test_a_client_that_says_goodbye_gives_back_what_it_held(edge: Edge) -> None:
    edge.publish(message(0), message(1))
    edge.poll(1, "leaver")
    edge.poll(1, "stayer")
    edge.stage.loop.do(lambda: edge.receiving.groups.client_left("leaver"))
    assert bodies(edge.poll(9)) == [b"0"]


def test_a_poll_that_is_cancelled_holds_nothing(edge: Edge) -> None:
    waiting = edge.begin(5)
    waiting.cancel()
    edge.publish(message(0))
    assert edge.subscription.cursor.counts()[:2] == (1, 0)
    # Cancelled in the moment in which it is served.
    waiting = edge.begin(5, "quick")
    assert waiting.done()
    edge.group.give_back(waiting.result()[1])
    edge.stage.turn()
    assert attempts(edge.poll(5)) == [1]


def test_a_group_without_polls_and_leases_leaves_its_subscription(edge: Edge) -> None:
    edge.publish(message(0))
    (held,) = edge.poll(1)
    groups, clock = edge.receiving.groups, edge.stage.clock

    def tick() -> int:
        clock.advance(IDLE_S)
        edge.stage.loop.do(lambda: groups.tick(clock.monotonic()))
        return len(edge.subscription.consumers)

    assert tick() == 1  # a client holds a message
    assert edge.ack(handle_of(held)) == OK
    assert tick() == 0
    assert edge.poll(1) == []


def test_a_filter_acks_what_it_leaves_out(edge: Edge) -> None:
    def tagged(number: int, tag: str) -> bytes:
        return message(number, properties=[{"key": "TAGS", "value": tag}])

    edge.publish(tagged(0, "a"), tagged(1, "b"), tagged(2, "a"), message(3))
    found = edge.poll(9, tags="b")
    assert bodies(found) == [b"1"]
    edge.poll(9, tags="b")
    assert edge.subscription.cursor.counts() == (0, 1, 0, 3)
    again = Edge(edge.stage.restarted())
    assert bodies(again.poll(9, tags="b")) == [b"1"]


def test_many_messages_that_a_filter_leaves_out_do_not_stop_a_poll(edge: Edge) -> None:
    edge.publish(*(message(number) for number in range(100)))
    edge.publish(message(100, properties=[{"key": "TAGS", "value": "b"}]))
    assert bodies(edge.poll(1, tags="b")) == [b"100"]


def test_an_unloaded_topic_ends_polls_and_leases_and_the_next_poll_opens_it(edge: Edge) -> None:
    edge.publish(message(0))
    (held,) = edge.poll(1)
    waiting = edge.begin(1)
    edge.stage.run(topic_lifecycle.close_topic(edge.stage.broker, edge.topic))
    assert isinstance(waiting.exception(), ServiceNotReady)  # clients poll again
    edge.topic = edge.stage.topic()
    assert edge.ack(handle_of(held)) == VOID
    assert bodies(edge.poll(1)) == [b"0"]


def test_an_ack_that_the_disk_refuses_is_told_and_may_come_again(edge: Edge) -> None:
    edge.publish(message(0))
    (held,) = edge.poll(1)
    edge.stage.files.faults.fail("sync", under="journal", error=errno.EIO)
    assert edge.ack(handle_of(held)) == Code.MASTER_PERSISTENCE_TIMEOUT
    assert edge.ack(handle_of(held)) == OK
    edge.hang_up()
    again = Edge(edge.stage.restarted())
    assert again.poll(1) == []


def keyed(number: int, key: str) -> bytes:
    return message(number, partition_key=key)


@pytest.fixture
def fifo(edge: Edge) -> Edge:
    """A FIFO group, of messages a0 a1 b2 a3."""
    edge.publish(keyed(0, "a"), keyed(1, "a"), keyed(2, "b"), keyed(3, "a"))
    make_fifo(edge)
    return edge


def make_fifo(edge: Edge) -> None:
    edge.stage.run(edge.stage.broker.create_subscription(edge.topic, "g", 0, {FIFO: "true"}))


def test_a_fifo_group_gets_a_message_when_those_before_it_are_acked(fifo: Edge) -> None:
    (first,) = fifo.poll(1)
    assert bodies(fifo.poll(9, "other")) == [b"2"]
    waiting = fifo.begin(9, "other")
    assert not waiting.done()
    assert fifo.ack(handle_of(first)) == OK
    assert bodies(fifo.messages(waiting)) == [b"1", b"3"]  # together, in order


def test_a_client_that_forgets_the_order_gets_one_message_of_a_message_group(fifo: Edge) -> None:
    """Go's goes on with the next message of an answer while one before it waits to be tried again."""
    request = pb.ReceiveMessageRequest(
        group=GROUP, message_queue=pb.MessageQueue(topic=TOPIC), batch_size=9
    )
    request.invisible_duration.FromSeconds(INVISIBLE_S)
    call = caller()._replace(language="GO")
    _, taken = fifo.stage.run(fifo.receiving.receive(call, request))
    assert [one.arrived.view.payload for one in taken] == [b"0", b"2"]


def test_a_failed_message_of_a_fifo_group_comes_before_those_behind_it(fifo: Edge) -> None:
    first, second, _, _ = fifo.poll(9)
    waiting = fifo.begin(9, "other")
    assert fifo.change(handle_of(second), 1)[0] == OK
    assert fifo.change(handle_of(first), 2)[0] == OK
    fifo.time_passes(1)
    assert not waiting.done()  # the first one is still with a client
    fifo.time_passes(1)
    again = fifo.messages(waiting)
    assert (bodies(again), attempts(again)) == ([b"0", b"1"], [2, 2])


def test_what_an_operator_skips_holds_no_fifo_group_back(fifo: Edge) -> None:
    fifo.poll(1)
    waiting = fifo.begin(9, "other")
    fifo.messages(waiting)  # b2
    waiting = fifo.begin(9, "other")
    fifo.stage.loop.do(lambda: fifo.subscription.skip(1))
    fifo.publish(keyed(4, "a"))  # something happens
    assert bodies(fifo.messages(waiting)) == [b"1", b"3", b"4"]


def test_a_fifo_group_that_waits_asks_for_no_more_than_it_can_keep(edge: Edge) -> None:
    make_fifo(edge)
    for start in range(0, 3000, 500):
        edge.publish(*(keyed(start + one, "a") for one in range(500)))
    edge.poll(1)
    assert not edge.begin(32, "other").done()
    assert edge.subscription.cursor.counts().inflight < 1200
    edge.publish(keyed(3000, "b"))
    assert edge.subscription.cursor.counts().inflight < 1200


def test_an_operator_may_skip_everything_that_a_fifo_group_keeps(edge: Edge) -> None:
    make_fifo(edge)
    for start in range(0, 2000, 500):
        edge.publish(*(keyed(start + one, "a") for one in range(500)))
    edge.poll(1)
    waiting = edge.begin(32, "other")
    edge.stage.loop.do(lambda: edge.subscription.skip(2000))
    edge.publish(keyed(2000, "a"))
    edge.begin(1, "third")  # something happens
    assert bodies(edge.messages(waiting)) == [b"2000"]


def test_a_burial_lets_the_next_message_of_a_fifo_group_go(edge: Edge) -> None:
    make_fifo(edge)
    edge.publish(keyed(0, "a"))
    edge.wear_out()
    sender = edge.held_dead_letters()
    edge.publish(keyed(1, "a"))
    waiting = edge.begin(2)
    assert not waiting.done()
    edge.stage.loop.do(sender.release)
    edge.stage.turn()
    assert bodies(edge.messages(waiting)) == [b"1"]


def test_settings_say_whether_a_group_is_fifo(fifo: Edge) -> None:
    def asked(group: str, topic: str = "t") -> Manner:
        told = pb.Subscription(group=pb.Resource(name=group))
        told.subscriptions.add(topic=pb.Resource(name=topic))
        return fifo.stage.run(fifo.receiving.manner(caller(), told))

    assert asked("g") == Manner(is_fifo=True)
    assert {asked("other"), asked("g", "unknown"), asked("g", "a/b")} == {Manner()}


def test_a_group_says_how_often_a_message_comes_again(edge: Edge) -> None:
    """Also while clients poll: the next delivery obeys."""
    edge.publish(message(0))
    (first,) = edge.poll(1)
    subscription = edge.topic.subscriptions["g"]
    subscription.properties = {RETRIES: "1"}
    assert edge.change(handle_of(first), 0)[0] == OK
    edge.time_passes(0)
    (second,) = edge.poll(1)
    assert second.system_properties.delivery_attempt == 2
    assert edge.change(handle_of(second), 0)[0] == OK
    edge.time_passes(0)
    assert edge.poll(1) == []
    told = pb.Subscription(group=GROUP)
    told.subscriptions.add(topic=TOPIC)
    assert edge.stage.run(edge.receiving.manner(caller(), told)) == Manner(attempts_max=2)
    there = edge.stage.topic("persistent://public/default/%DLQ%g")
    assert there.log.next_index == 1


def test_what_arrives_for_clients_is_bounded_in_bytes(
    make_stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polls that ask for many messages do not bring more of them into memory than there is room for,
    and one step of a read."""
    edge = Edge(make_stage(dispatch_read_entries=2))
    monkeypatch.setattr(queues, "ARRIVED_SIZE_MAX", 3000)
    make_fifo(edge)
    for number in range(20):
        edge.publish(message(number, b"%04d" % number * 250, partition_key="a"))
    found = edge.poll(1)
    queue = edge.group.queues[0]
    while len(found) < 20:
        waiting = edge.begin(32)  # it waits for the acks, and more comes for it
        assert 0 < queue._size <= 3000 + 2 * 1100
        assert {edge.ack(handle_of(one)) for one in found} == {OK}
        more = edge.messages(waiting)
        assert more
        found += more
    assert bodies(found) == [b"%04d" % number * 250 for number in range(20)]
    edge.hang_up()


def test_what_waits_in_order_does_not_keep_the_first_from_coming_again(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "WANTED_MAX", 4)
    make_fifo(edge)
    for number in range(20):
        edge.publish(keyed(number, "a"))
    (first,) = edge.poll(1)
    waiting = edge.begin(32, "other")
    assert not waiting.done()
    edge.time_passes(INVISIBLE_S)
    again = edge.messages(waiting)
    assert bodies(again)[:2] == [b"0", b"1"]
    assert (handle_of(first) != handle_of(again[0]), attempts(again)[0]) == (True, 2)


def test_a_large_message_goes_to_the_dead_letters_in_chunks(
    make_stage: Callable[..., Stage],
) -> None:
    """An entry that is larger than a frame may be could be read by no Pulsar consumer."""
    size_max = 128 * 1024
    edge = Edge(make_stage(max_message_size=size_max))
    stage, body = edge.stage, b"0123456789" * 15_000
    sender = stage.run(edge.sending.sender(edge.topic.name))
    sent = pb.Message(system_properties=pb.SystemProperties(message_id="large", tag="t"))
    _, stored = stage.loop.do(lambda: sender.publish(sent, body))
    stage.turn()
    assert stored.done()
    (held,) = edge.poll(1)
    assert held.body == body
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        topic=TOPIC, group=GROUP, receipt_handle=handle_of(held)
    )
    stage.run(edge.receiving.forward_to_dead_letters(caller(), request))
    there = stage.topic("persistent://public/default/%DLQ%g")
    plan = there.log.plan_read_from(0, there.log.end_index, entries_max=9, size_max=1 << 30)
    entries = stage.run(stage.broker.engine.read(plan))
    assert [len(entry.payload) <= size_max for entry in entries] == [True] * 3
    last = stage.run(message_of(there, there.log.end_index - 1, stage.broker.engine))
    assert last is not None
    assert (last.payload, last.properties["UNIQ_KEY"]) == (body, "large")
    edge.hang_up()


def test_chunks_that_are_larger_than_their_producer_says_are_not_joined(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browse, "UNPACKED_SIZE_MAX", 100)
    claim = {"uuid": "u", "num_chunks_from_msg": 3, "total_chunk_msg_size": 60}
    for number in range(3):
        said = metadata(0, chunk_id=number, **claim)
        edge.publish(frame_of(said, b"%d" % number * 50, is_chunk=True))
    (held,) = edge.poll(9)
    assert held.body == b"2" * 50  # as it lies
    assert "its 3 chunks are more than 100 bytes" in held.user_properties["milepost.fault"]
    assert edge.ack(handle_of(held)) == OK
    assert edge.subscription.cursor.counts().acked == 3


def read_by_rust(edge: Edge, task: asyncio.Task[Any]) -> list[pb.Message]:
    """The messages of an answer to a client that reads 4 MiB at once, and unpacks nothing."""

    async def read() -> list[pb.Message]:
        group, taken = task.result()
        call = caller("rust")._replace(language="RUST")
        with edge.receiving.answering(taken):
            return [one async for one in edge.receiving.messages(call, group, TOPIC, taken)]

    return edge.stage.run(read())


def test_a_message_that_a_client_cannot_read_takes_no_other_with_it(edge: Edge) -> None:
    edge.publish(message(0), message(1, os.urandom(4 * 1024 * 1024)), message(2))
    assert bodies(read_by_rust(edge, edge.begin(9))) == [b"0", b"2"]
    assert edge.poll(9) == []
    edge.time_passes(1)
    (again,) = edge.poll(9)  # by a client that can read it
    assert (len(again.body), attempts([again])) == (4 * 1024 * 1024, [2])
    assert edge.ack(handle_of(again)) == OK


def test_a_message_that_no_client_of_the_group_can_read_is_among_the_dead_letters(
    edge: Edge,
) -> None:
    edge.publish(message(0, os.urandom(4 * 1024 * 1024)))
    for step in BACKOFF_S[: Manner().attempts_max]:
        assert read_by_rust(edge, edge.begin(9)) == []
        edge.time_passes(step)
    assert edge.poll(9) == []
    there = edge.stage.topic("persistent://public/default/%DLQ%g")
    assert there.log.end_index > 0
    assert edge.subscription.cursor.counts().acked == 1


def test_in_order_what_follows_a_message_that_a_client_cannot_read_waits(edge: Edge) -> None:
    make_fifo(edge)
    large = os.urandom(4 * 1024 * 1024)
    edge.publish(keyed(0, "a"), message(1, large, partition_key="a"), keyed(2, "b"), keyed(3, "a"))
    (first, second) = read_by_rust(edge, edge.begin(9))
    assert bodies([first, second]) == [b"0", b"2"]
    assert [edge.ack(handle_of(first)), edge.ack(handle_of(second))] == [OK, OK]
    assert edge.poll(9) == []
    edge.time_passes(1)
    assert bodies(edge.poll(9)) == [large, b"3"]


def test_an_encrypted_dead_letter_can_be_read_with_its_key(edge: Edge) -> None:
    keys = [{"key": "k", "value": b"v"}]
    edge.publish(batch(0, 3, encryption_keys=keys, encryption_param=b"p", encryption_algo="a"))
    (held,) = edge.poll(9)
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        topic=TOPIC, group=GROUP, receipt_handle=handle_of(held)
    )
    edge.stage.run(edge.receiving.forward_to_dead_letters(caller(), request))
    there, engine = edge.stage.topic("persistent://public/default/%DLQ%g"), edge.stage.broker.engine
    assert there.log.end_index == 3  # it is the batch that it was
    (entry,) = edge.stage.run(stored_bytes(there, ((0, 3),), engine, size_max=1 << 20))
    found, view = (
        entry_metadata_and_end(entry)[0],
        edge.stage.run(message_of(there, 0, engine)),
    )
    assert [(one.key, one.value) for one in found.encryption_keys] == [("k", b"v")]
    assert (found.encryption_param, found.encryption_algo) == (b"p", "a")
    assert (found.num_messages_in_batch, view.payload) == (3, held.body)
    assert "milepost.fault" not in view.properties
    assert edge.subscription.cursor.counts().acked == 3


def test_an_encrypted_dead_letter_in_chunks_keeps_what_each_chunk_says(edge: Edge) -> None:
    """Producers encrypt each chunk by itself: with the nonce of another one it could not be read."""
    for number in range(2):
        keys = [{"key": "k", "value": b"v"}]
        edge.publish(chunk(0, number, 2, encryption_keys=keys, encryption_param=b"%d" % number))
    (held,) = edge.poll(9)
    assert "milepost.fault" in held.user_properties
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        topic=TOPIC, group=GROUP, receipt_handle=handle_of(held)
    )
    edge.stage.run(edge.receiving.forward_to_dead_letters(caller(), request))
    there, engine = edge.stage.topic("persistent://public/default/%DLQ%g"), edge.stage.broker.engine
    entries = edge.stage.run(
        stored_bytes(there, ((0, there.log.end_index),), engine, size_max=1 << 20)
    )
    heads = [entry_metadata_and_end(entry) for entry in entries]
    assert [(one.chunk_id, one.num_chunks_from_msg, one.encryption_param) for one, _ in heads] == [
        (0, 2, b"0"),
        (1, 2, b"1"),
    ]
    assert len({one.uuid for one, _ in heads}) == 1
    assert [one[at:] for one, (_, at) in zip(entries, heads, strict=True)] == [
        b"0/0",
        b"0/1",
    ]
    assert edge.subscription.cursor.counts().acked == 2


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("how", ["worn out", "forwarded"])
def test_a_crash_leaves_a_buried_message_in_one_place(edge: Edge, how: str, nth: int) -> None:
    """Whichever write to the disk is the last: it is among the dead letters and acked, or neither."""
    edge.publish(message(0))
    stage, held = edge.stage, list[pb.Message]()
    if how == "worn out":
        edge.wear_out()
    else:
        held = edge.poll(1)
    edge.held_dead_letters().release()  # the topic is there
    stage.files.faults.fail("sync", nth, under="journal", forever=True)
    if how == "worn out":
        edge.poll(1)
    else:
        request = pb.ForwardMessageToDeadLetterQueueRequest(
            topic=TOPIC, group=GROUP, receipt_handle=handle_of(held[0])
        )
        answer = stage.loop.begin(edge.receiving.forward_to_dead_letters(caller(), request))
        stage.turn()
        assert (answer.exception() is None) == (nth > 1)
    edge.hang_up()
    after = stage.restarted(power_lost="dropped")
    buried = after.topic("persistent://public/default/%DLQ%g").log.end_index
    acked = after.topic().subscriptions["g"].cursor.counts().acked
    assert buried == acked == (0 if nth == 1 else 1)


def test_a_burial_whose_outcome_is_unknown_is_not_tried_again(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record may be on the disk: a second one would be a second dead letter after the next start."""
    edge.publish(message(0))
    (held,) = edge.poll(1)
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        topic=TOPIC, group=GROUP, receipt_handle=handle_of(held)
    )

    def unknown(*arguments: Any, **options: Any) -> None:
        arguments[4](OutcomeUnknown("the disk has not said"))

    with monkeypatch.context() as patch:
        patch.setattr(moving, "move", unknown)
        with pytest.raises(OutcomeUnknown):
            edge.stage.run(edge.receiving.forward_to_dead_letters(caller(), request))
    with pytest.raises(Refused, match="unknown until the broker is started again"):
        edge.stage.run(edge.receiving.forward_to_dead_letters(caller(), request))


def test_two_forwards_at_once_bury_a_message_once(edge: Edge) -> None:
    edge.publish(message(0))
    (held,) = edge.poll(1)
    sender = edge.held_dead_letters()
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        topic=TOPIC, group=GROUP, receipt_handle=handle_of(held)
    )

    async def both() -> list[Any]:
        forward = edge.receiving.forward_to_dead_letters
        calls = [asyncio.ensure_future(forward(caller(), request)) for _ in range(2)]
        await asyncio.sleep(0)
        sender.release()
        return await asyncio.gather(*calls)

    assert [answer.status.code for answer in edge.stage.run(both())] == [OK, OK]
    assert edge.stage.topic("persistent://public/default/%DLQ%g").log.end_index == 1
    assert edge.stage.broker.counters.rocketmq_dead_letters == 1
    assert edge.subscription.cursor.counts().acked == 1


def test_polls_are_refused_while_answers_are_not_read(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that a poll has taken counts, from then on."""
    monkeypatch.setattr(receiving, "UNREAD_SIZE_MAX", 1)
    edge.publish(*(message(number) for number in range(8)))
    first = edge.begin(4)
    assert first.done()
    _, taken = first.result()
    with pytest.raises(Refused, match="not read yet"):
        edge.begin(4).result()
    with edge.receiving.answering(taken):
        pass  # it is written
    assert len(edge.poll(4)) == 4


def test_a_burial_that_fails_is_tried_again_after_a_while(edge: Edge) -> None:
    edge.publish(message(0))
    edge.wear_out()
    edge.held_dead_letters()  # so that the topic is there, and its producer
    edge.stage.loop.do(lambda: edge.sending.tick(edge.stage.clock.monotonic() + 60))
    counters = edge.stage.broker.counters
    edge.stage.files.faults.fail("sync", under="journal", error=errno.EIO)
    assert edge.poll(1) == edge.poll(1) == []
    assert (counters.unexpected_errors["rocketmq"], counters.rocketmq_dead_letters) == (1, 0)
    edge.time_passes(BURIAL_S)
    assert edge.poll(1) == []
    assert (counters.unexpected_errors["rocketmq"], counters.rocketmq_dead_letters) == (1, 1)
    assert edge.subscription.cursor.counts().acked == 1


def test_a_reset_while_a_message_is_buried_brings_it_again(edge: Edge) -> None:
    edge.publish(message(0))
    edge.wear_out()
    sender = edge.held_dead_letters()
    assert edge.poll(1) == []
    edge.stage.seek(edge.subscription, 0)
    edge.stage.loop.do(sender.release)
    edge.stage.turn()
    assert edge.stage.broker.counters.rocketmq_dead_letters == 0  # the group wants it again
    assert attempts(edge.poll(1)) == [1]


def test_a_reset_while_a_message_is_forwarded_brings_it_again(edge: Edge) -> None:
    edge.publish(message(0))
    (held,) = edge.poll(1)
    sender = edge.held_dead_letters()
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        topic=TOPIC, group=GROUP, receipt_handle=handle_of(held)
    )
    forward = edge.stage.loop.begin(edge.receiving.forward_to_dead_letters(caller(), request))
    edge.stage.turn()
    edge.stage.seek(edge.subscription, 0)
    edge.stage.loop.do(sender.release)
    edge.stage.turn()
    refusal = forward.exception()
    assert isinstance(refusal, Refused)
    assert refusal.code == VOID
    assert bodies(edge.poll(1)) == [b"0"]


@pytest.mark.parametrize(
    ("happens", "code"), [("reset", VOID), ("unloaded", OK), ("deleted", VOID)]
)
def test_an_ack_of_before_a_restart_is_judged_when_it_was_looked_up(
    edge: Edge, monkeypatch: pytest.MonkeyPatch, happens: str, code: int
) -> None:
    """What such an ack means is asked of the disk, and in the meantime the group is moved or deleted, or its
    topic is closed and opened again."""
    edge.publish(message(0))
    (held,) = edge.poll(1)
    restarted, ranges_of = Edge(edge.stage), broker_leases.ranges_of

    async def slow(*asked: Any) -> Any:
        found = await ranges_of(*asked)
        reached.set()
        await going_on.wait()
        return found

    reached, going_on = asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(broker_leases, "ranges_of", slow)
    entry = pb.AckMessageEntry(receipt_handle=handle_of(held))
    request = pb.AckMessageRequest(topic=TOPIC, group=GROUP, entries=[entry])
    ack = edge.stage.loop.begin(restarted.receiving.ack_message(caller(), request))
    edge.stage.turn()
    assert reached.is_set()
    if happens == "reset":
        edge.stage.seek(edge.subscription, 0)
    elif happens == "unloaded":
        edge.stage.run(topic_lifecycle.close_topic(edge.stage.broker, edge.topic))
        restarted.topic = edge.stage.topic()
    else:
        edge.stage.run(edge.stage.broker.delete_subscription(edge.subscription))
    edge.stage.loop.do(going_on.set)
    edge.stage.turn()
    assert ack.result().status.code == code
    assert bodies(restarted.poll(1)) == ([] if code == OK else [b"0"])
    restarted.hang_up()


class Machine(RuleBasedStateMachine):
    """The model: indexes that are acked, the handles of each that is leased, which a change of its time
    adds to, and handles of earlier processes, which are good until their message is leased anew or their
    time is over."""

    @initialize()
    def begin(self) -> None:
        self.stage = Stage()
        self.edge = Edge(self.stage)
        self.end = self.epoch = 0
        self.acked: set[int] = set()
        self.leased: dict[int, tuple[list[str], float]] = {}
        self.earlier: set[str] = set()
        # Every handle ever given, in order: its index, its epoch, and when its time is over.
        self.given: dict[str, tuple[int, int, float]] = {}
        self.waiting: list[asyncio.Task[Any]] = []

    def teardown(self) -> None:
        if hasattr(self, "edge"):
            self.edge.hang_up()
            self.stage.close()

    @property
    def now(self) -> float:
        return self.stage.clock.monotonic()

    def heard(self) -> None:
        """Take what polls have got."""
        for task in [task for task in self.waiting if task.done()]:
            self.waiting.remove(task)
            self.got(self.edge.messages(task))

    def got(self, messages: list[pb.Message]) -> None:
        for one in messages:
            index, handle = one.system_properties.queue_offset, handle_of(one)
            assert index not in self.acked, f"{index} is acked, and came again"
            assert index not in self.leased, f"{index} is with two clients"
            until = self.now + INVISIBLE_S
            self.leased[index] = [handle], until
            self.given[handle] = index, self.epoch, until

    @rule(count=st.integers(1, 4), together=st.booleans())
    def publish(self, count: int, together: bool) -> None:
        if together:
            self.edge.publish(batch(self.end, count))
        else:
            self.edge.publish(*(message(self.end + one) for one in range(count)))
        self.end += count
        self.heard()

    @rule(count=st.integers(1, 5))
    def poll(self, count: int) -> None:
        if len(self.waiting) < 3:
            self.waiting.append(self.edge.begin(count))
            self.heard()

    @rule()
    def a_poll_ends(self) -> None:
        if self.waiting:
            self.waiting.pop().cancel()
            self.stage.turn()

    @rule()
    def nobody_polls_for_a_while(self) -> None:
        found = self.edge.receiving.groups.find(self.edge.topic.name, "g")
        if found is not None:
            self.stage.loop.do(found.give_back_arrived)
            self.stage.turn()

    @precondition(lambda self: self.given)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        handle = list(self.given)[data.draw(st.integers(0, len(self.given) - 1))]
        index, epoch, until = self.given[handle]
        is_leased = index in self.leased and handle in self.leased[index][0]
        is_old = handle in self.earlier and index not in self.leased and self.now < until
        is_good = epoch == self.epoch and (is_leased or is_old or index in self.acked)
        assert self.edge.ack(handle) == (OK if is_good else VOID)
        if is_good:
            self.leased.pop(index, None)
            self.acked.add(index)
        self.heard()

    @precondition(lambda self: self.leased)
    @rule(data=st.data(), seconds=st.integers(0, 40))
    def change(self, data: st.DataObject, seconds: int) -> None:
        index = data.draw(st.sampled_from(sorted(self.leased)))
        handles, _ = self.leased[index]
        code, handle = self.edge.change(handles[-1], seconds)
        assert code == OK
        until = self.now + seconds
        self.leased[index] = [*handles, handle], until
        self.given[handle] = index, self.epoch, until
        self.time_passes(0)

    @rule(seconds=st.integers(0, 20))
    def time_passes(self, seconds: int) -> None:
        self.stage.clock.advance(seconds)
        over = [one for one, (_, until) in self.leased.items() if until <= self.now]
        for index in over:
            del self.leased[index]
        self.edge.time_passes(0)
        self.heard()

    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        if "g" not in self.edge.topic.subscriptions:
            return
        target = data.draw(st.integers(0, self.end))
        self.epoch += 1
        self.acked = set(range(target))
        self.leased.clear()
        self.earlier.clear()
        self.stage.seek(self.edge.subscription, target)
        self.heard()

    @rule(checkpoint=st.booleans())
    def crash(self, checkpoint: bool) -> None:
        # The broker forgets which of them had ended: each counts until the time that it names.
        self.earlier.update(self.given)
        self.leased.clear()
        self.waiting.clear()
        self.edge.hang_up()
        self.stage = self.stage.restarted(checkpoint=checkpoint)
        self.edge = Edge(self.stage)

    @invariant()
    def the_subscription_is_what_the_model_says(self) -> None:
        if not hasattr(self, "edge") or "g" not in self.edge.topic.subscriptions:
            return
        counts = self.edge.subscription.cursor.counts()
        assert counts.acked == len(self.acked)
        assert counts.inflight >= len(self.leased)
        if self.waiting:
            assert counts.ready == 0, "a poll waits, and messages are ready"


Machine.TestCase.settings = settings(max_examples=examples(25), stateful_step_count=40)
TestAnyOrder = Machine.TestCase


class FifoMachine(Machine):
    """The same, and no message comes while one before it of the same message group is not acked, but in
    one answer with it."""

    @initialize()
    def begin(self) -> None:
        super().begin()
        make_fifo(self.edge)
        self.keys: list[str] = []

    @rule(count=st.integers(1, 4), together=st.booleans())
    def publish(self, count: int, together: bool) -> None:
        first = len(self.keys)
        self.keys += [""] * count if together else ["ab"[one % 2] for one in range(count)]
        if together:
            self.edge.publish(batch(first, count))
        else:
            self.edge.publish(*(keyed(first + one, self.keys[first + one]) for one in range(count)))
        self.end += count
        self.heard()

    def got(self, messages: list[pb.Message]) -> None:
        here: set[int] = set()
        for one in messages:
            index = one.system_properties.queue_offset
            before = [at for at in range(index) if self.keys[at] == self.keys[index]]
            late = set(before) - self.acked - here
            assert not late, f"{index} came before {late}"
            here.add(index)
        super().got(messages)


FifoMachine.TestCase.settings = settings(max_examples=examples(20), stateful_step_count=40)
TestInOrder = FifoMachine.TestCase


def test_a_closed_group_answers_its_polls(edge: Edge) -> None:
    waiting = edge.begin(1)
    edge.stage.loop.do(edge.receiving.groups.close)
    edge.stage.turn()
    assert edge.messages(waiting) == []


def test_polls_that_wait_are_limited(make_stage: Callable[..., Stage]) -> None:
    edge = Edge(make_stage(rocketmq_calls_max=16))
    waiting = [edge.begin(1) for _ in range(9)]
    assert [task.done() for task in waiting] == [False] * 8 + [True]
    refusal = waiting[-1].exception()
    assert isinstance(refusal, Refused)
    assert refusal.code is Code.TOO_MANY_REQUESTS
    waiting[0].cancel()
    edge.stage.turn()
    assert not edge.begin(1).done()
    edge.hang_up()


def test_a_slow_filter_gives_others_their_turn(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter of some thousand characters takes milliseconds a message, and may fit none of them."""
    seen: list[Any] = []

    class Slow:
        def wants(self, properties: Any) -> bool:
            seen.append(properties)
            edge.stage.clock.advance(0.002)
            return False

    monkeypatch.setattr(receiving, "wanted_by", lambda expression: Slow())
    edge.publish(*(message(number) for number in range(200)))
    waiting = edge.begin(1)
    assert not waiting.done()
    assert 0 < len(seen) < 10
    edge.hang_up()


def test_what_has_arrived_is_looked_at_once_however_many_polls_wait(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = [edge.begin(1) for _ in range(50)]
    looks: list[Any] = []
    look = queues.Queue.next_arrived

    def counted(queue: queues.Queue, mine: Any) -> Any:
        looks.append(queue)
        return look(queue, mine)

    monkeypatch.setattr(queues.Queue, "next_arrived", counted)
    edge.publish(message(0))
    assert [task.done() for task in waiting] == [True] + [False] * 49
    assert len(looks) < 10
    edge.hang_up()


def test_a_poll_that_is_too_large_to_be_kept_is_refused(edge: Edge) -> None:
    request = pb.ReceiveMessageRequest(
        group=GROUP,
        message_queue=pb.MessageQueue(topic=TOPIC),
        batch_size=1,
        attempt_id="x" * 70_000,
    )
    request.invisible_duration.FromSeconds(INVISIBLE_S)
    with pytest.raises(Refused, match="more than 65536 bytes"):
        edge.stage.run(edge.receiving.receive(caller(), request))


def test_a_poll_for_nothing_makes_no_group(edge: Edge) -> None:
    assert edge.begin(0).result() == (None, [])
    assert edge.receiving.groups.find(edge.topic.name, "g") is None
