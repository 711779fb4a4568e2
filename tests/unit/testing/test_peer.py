"""The other end of a connection, in memory."""

from __future__ import annotations

import pytest
from stage.frames import message, metadata, payload_of
from stage.stage import TOPIC, Stage

from milepost.broker.connection.session import Transport
from milepost.broker.peer import Peer
from milepost.testing import Loopback, RecordingPeer
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.events import Delivery, Receipt
from milepost.wire.scanners.encode import send_receipt


def test_a_recording_peer_keeps_what_it_is_sent() -> None:
    peer: Peer = RecordingPeer()
    assert isinstance(peer, RecordingPeer)
    receipt = send_receipt(1, 2, 3, 4)
    peer.write([receipt[:5], receipt[5:]])
    peer.write([replies.success(7)])
    peer.write([receipt])
    assert peer.take_all(pb.CommandSuccess) == [pb.CommandSuccess(request_id=7)]
    assert peer.take() == [Receipt(1, 2, 0, 3, 4)] * 2
    assert peer.take() == []
    peer.settled(3)
    peer.fail("why")
    assert (peer.settled_count, peer.failures) == (3, ["why"])


def test_what_is_no_frame_is_noticed() -> None:
    with pytest.raises(AssertionError, match="the broker sent no frame"):
        RecordingPeer().write([b"\x00\x00\x00\x08\x00\x00\x00\xffabcd"])


@pytest.fixture
def stage():  # type: ignore[no-untyped-def]
    with Stage() as stage:
        yield stage


def opened(stage: Stage, client: Loopback) -> None:
    """A producer 0 and a consumer 0 with permits."""
    client.say(
        pb.CommandProducer(topic=TOPIC, producer_id=0, request_id=1, producer_name="p"),
        pb.CommandSubscribe(topic=TOPIC, subscription="s", subType=0, consumer_id=0, request_id=2),
    )
    stage.turn()
    client.say(pb.CommandFlow(consumer_id=0, messagePermits=100))
    client.take()


def test_a_loopback_is_a_connection(stage: Stage) -> None:
    client = stage.client(client_version="who")
    transport: Transport = client
    assert transport.unsent_size() == 0
    assert client.session in stage.broker.sessions
    assert client.session.client_version == "who"
    opened(stage, client)
    client.publish(0, metadata(5), b"hello")
    stage.turn()
    (receipt,) = client.take_all(Receipt)
    (delivery,) = client.take_all(Delivery)
    assert receipt.sequence_id == 5
    assert payload_of(delivery.entry) == "hello"
    client.hang_up()
    assert client.is_lost
    assert client.session not in stage.broker.sessions


def test_a_handshake_can_be_left_out(stage: Stage) -> None:
    client = stage.client(handshake=False)
    client.say(pb.CommandPing())
    stage.turn()
    assert client.is_lost
    assert stage.broker.counters.frames_refused["before_connect"] == 1


def test_a_client_that_does_not_read_is_not_writable(stage: Stage) -> None:
    client = stage.client(write_buffer_size=200)
    opened(stage, client)
    client.reads = False
    client.say(message(0, b"x" * 300))
    stage.turn()
    assert client.unsent_size() > 300
    assert not client.session.is_writable
    assert client.take() == []
    client.say(message(1))
    stage.turn()
    client.reads = True
    assert client.session.is_writable
    stage.turn()
    assert [payload_of(one.entry)[:1] for one in client.take_all(Delivery)] == ["x", "1"]


def test_a_close_sends_what_waits_and_an_abort_does_not(stage: Stage) -> None:
    for end, heard in (("close", 1), ("abort", 0)):
        client = stage.client()
        client.reads = False
        client.session.write([replies.success(7)])
        stage.turn()
        getattr(client, end)()
        stage.turn()
        assert client.is_closing
        assert client.is_lost is (end == "abort")
        client.reads = True
        stage.turn()
        assert client.is_lost
        assert len(client.take()) == heard


def test_a_client_that_is_not_read_waits(stage: Stage) -> None:
    client = stage.client()
    client.pause_reading()
    client.say(pb.CommandPing())
    stage.turn()
    assert not client.is_read
    assert client.take() == []
    client.resume_reading()
    stage.turn()
    assert client.is_read
    assert client.session.protocol.heard
