"""UNSUBSCRIBE: a subscription is deleted with its position."""

from __future__ import annotations

from collections.abc import Callable

from stage.frames import marker, message
from stage.heard import got
from stage.stage import Stage
from stage.talk import (
    SHARED,
    answer,
    ask,
    error_of,
    produce,
    request,
    subscribe,
    subscribe_command,
    wire_id,
)

from milepost.errors import PersistenceError
from milepost.wire import pulsar_pb2 as pb

MakeStage = Callable[..., Stage]


def unsubscribe(**fields: bool) -> pb.CommandUnsubscribe:
    return pb.CommandUnsubscribe(consumer_id=0, request_id=0, **fields)


def test_it_is_gone_and_begins_anew(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, permits=10)
    client.say(message(0))
    stage.turn()
    assert isinstance(request(stage, client, unsubscribe()), pb.CommandSuccess)
    assert stage.topic().subscriptions == {}
    assert client.session.consumers == {}
    client.take()
    subscribe(stage, client, permits=10)
    assert got(client) == []  # at the latest, as a new one is
    stage = stage.restarted()
    assert stage.topic().subscriptions["s"].cursor.counts() == (0, 0, 0, 1)


def test_it_stays_gone_after_a_restart(stage: Stage) -> None:
    client = stage.client()
    subscribe(stage, client)
    request(stage, client, unsubscribe())
    assert stage.restarted().topic().subscriptions == {}


def test_others_keep_it(stage: Stage) -> None:
    client, other = stage.client(), stage.client()
    for one in (client, other):
        subscribe(stage, one, sub_type=SHARED)
    reply = request(stage, client, unsubscribe())
    assert error_of(reply) == "MetadataError"
    assert len(stage.topic().subscriptions["s"].consumers) == 2


def test_by_force_the_others_are_closed(stage: Stage) -> None:
    client, other = stage.client(), stage.client()
    for one in (client, other):
        subscribe(stage, one, sub_type=SHARED)
    assert error_of(request(stage, client, unsubscribe(force=True))) == ""
    (closed,) = other.take()
    assert isinstance(closed, pb.CommandCloseConsumer)
    assert client.take() == []
    assert stage.topic().subscriptions == {}


def test_a_reader_may_too(stage: Stage) -> None:
    client = stage.client()
    subscribe(stage, client, durable=False)
    assert error_of(request(stage, client, unsubscribe())) == ""
    assert stage.topic().subscriptions == {}


def test_a_stranger_is_refused(stage: Stage) -> None:
    assert error_of(request(stage, stage.client(), unsubscribe())) == "MetadataError"


def test_a_read_that_comes_back_afterwards_is_for_nobody(make_stage: MakeStage) -> None:
    """Not even a marker is acked any more: a fact behind the tombstone would be taken for damage."""
    stage = make_stage(tail_size=0)
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client)
    client.say(marker(0), message(1))
    stage.turn()
    stage.checkpoint()
    stage.engine.holds_reads = True
    client.say(pb.CommandFlow(consumer_id=0, messagePermits=5))
    stage.turn()
    assert stage.engine.reads_held == 1
    assert error_of(request(stage, client, unsubscribe())) == ""
    written = stage.store.journal.last_sequence
    stage.engine.holds_reads = False
    stage.turn()
    assert got(client) == []
    assert stage.store.journal.last_sequence == written


def test_whoever_waited_to_join_gets_a_new_one(stage: Stage) -> None:
    """A SUBSCRIBE waits for a seek to be durable; meanwhile the subscription is deleted."""
    first, second = stage.client(), stage.client()
    produce(stage, first)
    subscribe(stage, first, sub_type=SHARED, consumer_epoch=0)
    first.say(message(0))
    stage.turn()
    stage.engine.holds_journal = True
    first.say(
        pb.CommandSeek(consumer_id=0, request_id=1, message_id=wire_id(1, 0), consumer_epoch=1)
    )
    joining = ask(second, subscribe_command(sub_type=SHARED))
    stage.turn()
    assert answer(second, joining) is None
    leaving = ask(first, unsubscribe())
    stage.turn()
    assert error_of(answer(first, leaving)) == ""
    stage.engine.holds_journal = False
    stage.turn()
    assert error_of(answer(second, joining)) == ""
    (consumer,) = stage.topic().subscriptions["s"].consumers
    assert consumer.peer is second.session


def test_a_deletion_that_fails_leaves_it_as_it_was(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client)
    subscription = stage.topic().subscriptions["s"]
    client.say(message(0))
    stage.turn()

    def fail(state_id: int, sequence: int) -> None:
        raise PersistenceError("the catalog is full")

    catalog = stage.store.catalog
    whole = catalog.delete_state
    catalog.delete_state = fail  # type: ignore[method-assign]
    client.say(message(1))
    assert error_of(request(stage, client, unsubscribe())) == "PersistenceError"
    assert stage.topic().subscriptions == {"s": subscription}
    catalog.delete_state = whole  # type: ignore[method-assign]
    client.take()
    subscribe(stage, client, permits=10)
    assert got(client) == ["0", "1"]
    reply = request(
        stage,
        client,
        pb.CommandAck(consumer_id=0, ack_type=0, message_id=[wire_id(1, 0)]),
    )
    assert error_of(reply) == ""
    assert stage.restarted().topic().subscriptions["s"].cursor.counts() == (1, 0, 0, 1)
