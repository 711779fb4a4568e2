"""PIP-194: an epoch in the seek command. One test a sentence that promises something of the broker.

The client's are in test_pip194_client.py.

The proposal's reader is not durable and acks cumulatively as soon as it has read; so it is here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from stage.frames import message
from stage.heard import deliveries
from stage.stage import Stage
from stage.talk import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    ack_command,
    answer,
    ask,
    error_of,
    flow,
    produce,
    request,
    seek_command,
    subscribe,
    wire_id,
)

from milepost.wire import pulsar_pb2 as pb

MakeStage = Callable[..., Stage]
TYPES = [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED]


@pytest.fixture
def stage(make_stage: MakeStage) -> Stage:
    """Everything stored is read from the disk, so that reads can be under way."""
    return make_stage(tail_size=0)


def opened(stage: Stage, count: int = 6, sub_type: Any = EXCLUSIVE, **fields: Any) -> Any:
    """A consumer with epoch 0 of messages that are on disk only; it has no permits."""
    client = stage.client()
    produce(stage, client)
    client.say(*[message(number) for number in range(count)])
    stage.turn()
    stage.checkpoint()
    fields.setdefault("consumer_epoch", 0)
    fields.setdefault("initialPosition", pb.CommandSubscribe.Earliest)
    subscribe(stage, client, sub_type=sub_type, **fields)
    client.take()
    return client


def heard(client: Any) -> list[tuple[int, int]]:
    """Entry and epoch of what came."""
    return [(one.entry_id, one.consumer_epoch) for one in deliveries(client)]


def cursor(stage: Stage) -> Any:
    return stage.topic().subscriptions["s"].cursor


@pytest.mark.parametrize("durable", [True, False])
def test_a_flow_that_comes_after_the_seek_finds_the_cursor_where_the_seek_put_it(
    stage: Stage, durable: bool
) -> None:
    """ "Therefore, it is possibile that flowPermits will execute after seek from the client side ..." """
    client = opened(stage, durable=durable)
    flow(stage, client, 4)
    heard(client)
    client.say(seek_command(wire_id(1, 1), consumer_epoch=1, consumer_id=0))
    flow(stage, client, 3)
    assert heard(client) == [(1, 1), (2, 1), (3, 1)]


@pytest.mark.parametrize("durable", [True, False])
def test_a_late_cumulative_ack_does_not_move_the_mark_delete_position(
    stage: Stage, durable: bool
) -> None:
    """ "When handleSeek processing is delay from the server side, the MarkDelete position is modified in a
    wrong way." """
    client = opened(stage, durable=durable)
    flow(stage, client, 6)
    heard(client)
    assert error_of(request(stage, client, seek_command(wire_id(1, 2), consumer_epoch=1))) == ""
    for entry_id in (3, 4, 5):  # read before, acked as soon as it was read
        reply = request(stage, client, ack_command(wire_id(1, entry_id), cumulative=True))
        assert error_of(reply) == ""
    assert cursor(stage).mark_delete_index == 1


@pytest.mark.parametrize("durable", [True, False])
def test_a_reader_consumes_again_from_where_it_sought(stage: Stage, durable: bool) -> None:
    """ "The expected result is that Reader can re-consume messages from mark delete:(1,1) after seek." """
    client = opened(stage, durable=durable)
    flow(stage, client, 6)
    client.say(ack_command(wire_id(1, 5), cumulative=True))
    stage.turn()
    heard(client)
    client.say(seek_command(wire_id(1, 2), consumer_epoch=1, consumer_id=0))
    flow(stage, client, 10)
    assert heard(client) == [(2, 1), (3, 1), (4, 1), (5, 1)]


@pytest.mark.parametrize("sub_type", TYPES)
def test_a_read_in_process_does_not_outlive_the_seek(stage: Stage, sub_type: Any) -> None:
    """ "Pulsar read message and seek position is not a synchronous operation, the seek request can't
    prevent an in-process entry reading operation."

    Here it does: what comes back was read under an older epoch of the cursor, and is dropped.
    """
    client = opened(stage, sub_type=sub_type)
    stage.engine.holds_reads = True
    flow(stage, client, 3)
    assert stage.engine.reads_held == 1
    assert error_of(request(stage, client, seek_command(wire_id(1, 4), consumer_epoch=1))) == ""
    stage.engine.holds_reads = False
    stage.turn()
    assert heard(client) == []  # nor were its permits spent: it has none in the new epoch
    flow(stage, client, 10)
    assert heard(client) == [(4, 1), (5, 1)]


@pytest.mark.parametrize("sub_type", TYPES)
def test_the_epoch_of_the_server_consumer_is_updated(stage: Stage, sub_type: Any) -> None:
    """ "After client reader consumer invoke seek, the epoch increase 1 and send seek command carry the epoch
    and then server consumer will update the epoch." """
    client = opened(stage, sub_type=sub_type)
    for epoch in (1, 2, 3):
        reply = request(stage, client, seek_command(wire_id(1, 0), consumer_epoch=epoch))
        assert error_of(reply) == ""
        assert client.session.consumers[0].epoch == epoch


@pytest.mark.parametrize("sub_type", TYPES)
def test_messages_carry_the_epoch_in_which_they_were_read(stage: Stage, sub_type: Any) -> None:
    """ "When dispatcher messages to client will carry the epoch which the cursor read at the time." """
    client = opened(stage, sub_type=sub_type)
    flow(stage, client, 2)
    client.say(seek_command(wire_id(1, 1), consumer_epoch=7, consumer_id=0))
    flow(stage, client, 2)
    assert heard(client) == [(0, 0), (1, 0), (1, 7), (2, 7)]


def test_a_consumer_without_an_epoch_is_sent_none(stage: Stage) -> None:
    """The field is optional: clients that know nothing of it are not told."""
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, permits=5)
    client.say(message(0))
    stage.turn()
    assert heard(client) == [(0, -1)]


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED])
def test_nothing_from_before_passes_the_filter_of_a_client_after_its_seek(
    stage: Stage, sub_type: Any
) -> None:
    """ "In this way, after the client consumer send seek command successfully, because it has passed the
    epoch filtering, the consumer will not receive a message with a messageID greater than the user
    previously seek position."

    Wherever the seek falls between reads, flows and acks.
    """
    client = opened(stage, 12, sub_type)
    for epoch, target in enumerate((7, 2, 9, 0, 5), 1):
        stage.engine.holds_reads = not epoch % 2
        flow(stage, client, 4)
        client.say(ack_command(wire_id(1, 11), cumulative=sub_type == EXCLUSIVE))
        seeking = ask(client, seek_command(wire_id(1, target), consumer_epoch=epoch))
        client.say(ack_command(wire_id(1, 10)))
        stage.turn()
        assert error_of(answer(client, seeking)) == ""
        stage.engine.holds_reads = False
        flow(stage, client, 2)
        passed = [entry for entry, stamped in heard(client) if stamped >= epoch]
        assert passed == [target, target + 1]


def test_the_consumer_epoch_becomes_that_of_the_command(stage: Stage) -> None:
    """ "... when client send seek command to server successfully, the server will change the server consumer
    epoch to the command epoch." """
    client = opened(stage)
    assert error_of(request(stage, client, seek_command(wire_id(1, 3), consumer_epoch=40))) == ""
    assert client.session.consumers[0].epoch == 40
    flow(stage, client, 1)
    assert heard(client) == [(3, 40)]


@pytest.mark.parametrize("epoch", [0, 4, 5])
def test_an_epoch_can_only_be_bigger(stage: Stage, epoch: int) -> None:
    """ "The epoch only can bigger than the old epoch in server." """
    client = opened(stage, consumer_epoch=5)
    before = cursor(stage).mark_delete_index
    reply = request(stage, client, seek_command(wire_id(1, 3), consumer_epoch=epoch))
    assert error_of(reply) == "NotAllowedError"
    assert client.session.consumers[0].epoch == 5
    assert cursor(stage).mark_delete_index == before


@pytest.mark.parametrize("sub_type", TYPES)
def test_a_flow_changes_nothing_but_permits(stage: Stage, sub_type: Any) -> None:
    """ "stage 1: Check the current cursor status when handling flowPermits from the server side." """
    client = opened(stage, sub_type=sub_type)
    stage.engine.holds_reads = True
    for permits in (1, 5, 2):
        before = (cursor(stage).epoch, cursor(stage).counts())
        flow(stage, client, permits)
        assert (cursor(stage).epoch, cursor(stage).counts()) == before


def test_a_seek_ends_every_read_before_it(stage: Stage) -> None:
    """ "stage 2: Add epoch into seek command, and server update the consumer epoch. It can prevent an
    in-process entry reading operation after the seek request." """
    client = opened(stage)
    stage.engine.holds_reads = True
    for epoch in (1, 2, 3):
        flow(stage, client, 2)
        client.say(seek_command(wire_id(1, epoch), consumer_epoch=epoch, consumer_id=0))
        stage.turn()
    flow(stage, client, 2)
    stage.engine.holds_reads = False
    stage.turn()
    assert heard(client) == [(3, 3), (4, 3)]


def test_a_consumer_that_reconnects_begins_with_the_epoch_it_says(stage: Stage) -> None:
    """ "Consumer reconnect need reset epoch." """
    client = opened(stage)
    assert error_of(request(stage, client, seek_command(wire_id(1, 3), consumer_epoch=9))) == ""
    client.hang_up()
    client = stage.client()
    subscribe(stage, client, consumer_epoch=1, permits=1)
    assert heard(client) == [(3, 1)]  # the seek stands, the count begins anew
    assert error_of(request(stage, client, seek_command(wire_id(1, 0), consumer_epoch=2))) == ""


def test_peers_without_epochs_are_closed_before_they_are_told(stage: Stage) -> None:
    """What the proposal leaves to those who do not speak it: no message follows the close."""
    client = opened(stage)
    consumer = client.session.consumers[0]
    consumer.epoch = -1
    stage.engine.holds_reads = True
    flow(stage, client, 3)
    seeking = ask(client, seek_command(wire_id(1, 1)))
    stage.turn()
    stage.engine.holds_reads = False
    stage.turn()
    closed, success = client.take()
    assert isinstance(closed, pb.CommandCloseConsumer)
    assert success == pb.CommandSuccess(request_id=seeking)


def test_a_seek_survives_a_crash_once_it_is_answered(stage: Stage) -> None:
    """Promise 3: answered means on disk."""
    client = opened(stage)
    flow(stage, client, 6)
    assert error_of(request(stage, client, seek_command(wire_id(1, 2), consumer_epoch=1))) == ""
    stage = stage.restarted()
    assert cursor(stage).mark_delete_index == 1


def test_the_field_is_where_the_proposal_puts_it() -> None:
    """CommandSeek.consumer_epoch = 5, an optional uint64."""
    field = pb.CommandSeek.DESCRIPTOR.fields_by_name["consumer_epoch"]
    assert field.number == 5
    assert field.type == field.TYPE_UINT64
    assert not field.is_required
