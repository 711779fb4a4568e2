"""PIP-54: acknowledgement at batch index level. One test a sentence that promises something of the broker.

The client's are in test_pip54_client.py.
Nobody's: the managed ledger's data formats; ours are in docs/format.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from stage.frames import batch, message
from stage.heard import deliveries, got
from stage.stage import Stage
from stage.talk import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    ack_command,
    error_of,
    flow,
    produce,
    request,
    subscribe,
    wire_id,
)

from milepost.broker.settings.settings import PULSAR_KEYS, Settings
from milepost.wire import pulsar_pb2 as pb

MakeStage = Callable[..., Stage]
TYPES = [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED]


def opened(stage: Stage, sub_type: Any = EXCLUSIVE, *, permits: int = 100, size: int = 5) -> Any:
    """A consumer of one batch, which it has got."""
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, sub_type=sub_type, permits=permits)
    client.say(batch(0, size))
    stage.turn()
    client.take()
    return client


def ack_part(stage: Stage, client: Any, pending: int, **fields: Any) -> None:
    """Ack all of the batch but the pending bits, and wait for the answer."""
    command = ack_command(wire_id(1, 0, ack_set=[pending]), **fields)
    assert error_of(request(stage, client, command)) == ""


def reconnected(stage: Stage, client: Any, sub_type: Any = EXCLUSIVE, permits: int = 100) -> Any:
    client.hang_up()
    client = stage.client()
    subscribe(stage, client, sub_type=sub_type, permits=permits)
    return client


@pytest.mark.parametrize("sub_type", TYPES)
def test_acked_messages_of_a_batch_are_not_dispatched_again(stage: Stage, sub_type: Any) -> None:
    """ "So this PIP is to support the ability to track the ack status of each batch index to avoid
    dispatch acked messages to users." """
    client = opened(stage, sub_type)
    ack_part(stage, client, 0b10110)
    client = reconnected(stage, client, sub_type)
    assert got(client) == ["0.1", "0.2", "0.4"]


@pytest.mark.parametrize("sub_type", TYPES)
def test_a_dispatch_carries_the_batch_indexes_that_have_been_acked(
    stage: Stage, sub_type: Any
) -> None:
    """ "When the broker dispatch messages, it will carry the batch index that has been acked." """
    client = opened(stage, sub_type)
    ack_part(stage, client, 0b10110)
    client = reconnected(stage, client, sub_type)
    (delivery,) = deliveries(client)
    assert delivery.ack_set == (0b10110,)  # a set bit is still to be acked


def test_a_batch_of_which_nothing_is_acked_carries_no_set(stage: Stage) -> None:
    """The same sentence, for nothing acked: no words, as clients expect."""
    client = reconnected(stage, opened(stage))
    (delivery,) = deliveries(client)
    assert delivery.ack_set == ()


@pytest.mark.parametrize("checkpoint", [True, False])
def test_the_ack_status_survives_a_broker_crash(stage: Stage, checkpoint: bool) -> None:
    """ "The managed cursor maintains the batch index ack status in memory by using a BitSet and the BitSet
    can be persisted to a ledger and the metastore, so that can avoid broker crash." """
    client = opened(stage, size=130)
    bits = sum(1 << number for number in range(0, 130, 3))
    words = [(bits >> 64 * word) & (2**64 - 1) for word in range(3)]
    signed = [word - 2**64 if word >> 63 else word for word in words]
    reply = request(stage, client, ack_command(wire_id(1, 0, ack_set=signed)))
    assert error_of(reply) == ""
    stage = stage.restarted(checkpoint=checkpoint)
    client = stage.client()
    subscribe(stage, client, permits=200)
    assert got(client) == [f"0.{number}" for number in range(0, 130, 3)]


def test_acked_batch_indexes_are_added_to_those_before(stage: Stage) -> None:
    """ "When the broker receives the batch index ack request, the acked batch index will be adding to the
    BitSet." """
    client = opened(stage)
    for pending in (0b11110, 0b01111, 0b11011, 0b11110):
        ack_part(stage, client, pending)
    client = reconnected(stage, client)
    assert got(client) == ["0.1", "0.3"]


def test_the_ack_status_is_sent_with_every_dispatch(stage: Stage) -> None:
    """ "When broker dispatch messages to the client will get the batch message index ack status from the
    managed cursor and send it to the client." """
    client = opened(stage, SHARED)
    seen = []
    for pending in (0b11110, 0b11010, 0b10010):
        ack_part(stage, client, pending)
        client.say(
            pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0, message_ids=[wire_id(1, 0)])
        )
        stage.turn()
        seen += [one.ack_set for one in deliveries(client)]
    assert seen == [(0b11110,), (0b11010,), (0b10010,)]


@pytest.mark.parametrize("sub_type", TYPES)
def test_a_batch_whose_indexes_are_all_acked_is_done(stage: Stage, sub_type: Any) -> None:
    """ "When all indexes of the batch message are acked, the cursor will delete the batch message." """
    client = opened(stage, sub_type)
    cursor = stage.topic().subscriptions["s"].cursor
    for number in range(5):
        assert cursor.mark_delete_index < 4
        ack_part(stage, client, 0b11111 & ~(1 << number))
    assert cursor.mark_delete_index == 4
    client = reconnected(stage, client, sub_type)
    assert deliveries(client) == []


def test_permits_are_not_spent_on_what_the_client_filters_out(stage: Stage) -> None:
    """ "Be careful when calculating consumer permits because the client filter out the acked batch index,
    so the broker need to increase the available permits equals to acked batch indexes." """
    client = opened(stage)
    ack_part(stage, client, 0b10110)
    client = reconnected(stage, client, permits=4)
    assert client.session.consumers[0].permits == 1


def test_dispatch_goes_on_as_long_as_there_is_room_for_what_is_seen(stage: Stage) -> None:
    """ "Otherwise, the broker will stop dispatch messages to that consumer because it does not have enough
    available permits." """
    client = opened(stage, SHARED, permits=5)
    room = 5
    for number in range(1, 20):
        # Each batch comes again with one message left; the client gives permits for what it saw.
        ack_part(stage, client, 0b10000)
        client.say(
            pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0, message_ids=[wire_id(1, 0)])
        )
        flow(stage, client, 1)
        assert got(client) == ["0.4"], number
    client.say(message(1))
    flow(stage, client, room)
    assert got(client) == ["1"]


@pytest.mark.parametrize("cumulative", [False, True])
def test_a_flag_disables_it(make_stage: MakeStage, cumulative: bool) -> None:
    """ "Added a flag named acknowledgmentAtBatchIndexLevelEnabled in broker.conf to enable or disable the
    batch index acknowledgement" """
    stage = make_stage(batch_index_ack=False)
    client = opened(stage)
    ack_part(stage, client, 0b10110, cumulative=cumulative)  # ignored, and answered
    client = reconnected(stage, client)
    (delivery,) = deliveries(client)
    assert delivery.ack_set == ()
    assert error_of(request(stage, client, ack_command(wire_id(1, 0)))) == ""
    assert stage.topic().subscriptions["s"].cursor.mark_delete_index == 4


def test_the_flag_has_its_name_and_is_on() -> None:
    """The same sentence: an operator's file is read."""
    setting, _ = PULSAR_KEYS["acknowledgmentAtBatchIndexLevelEnabled"]
    assert setting.name == "batch_index_ack"
    assert Settings().batch_index_ack


def test_the_fields_are_where_the_proposal_puts_them() -> None:
    """CommandMessage.ack_set = 4 and MessageIdData.ack_set = 5, both repeated int64."""
    for message_type, number in ((pb.CommandMessage, 4), (pb.MessageIdData, 5)):
        field = message_type.DESCRIPTOR.fields_by_name["ack_set"]
        assert field.number == number
        assert field.type == field.TYPE_INT64
