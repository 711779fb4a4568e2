"""Peer: what topics and subscriptions need is what a session is."""

from __future__ import annotations

import inspect

from stage.stage import Stage

from milepost.broker.peer import Peer
from milepost.testing.peer import RecordingPeer
from milepost.wire.commands import Kind


def test_a_session_and_the_double_are_peers(stage: Stage) -> None:
    for peer in (stage.client().session, RecordingPeer()):
        as_peer: Peer = peer
        assert as_peer.is_writable
        assert as_peer.wants_broker_entry
        assert as_peer.address
        assert as_peer.client_version == "Loopback-1"
        assert as_peer.understands(Kind.REACHED_END_OF_TOPIC)
        assert as_peer.unsent_size() == 0


def test_a_client_is_told_only_what_it_understands(stage: Stage) -> None:
    cpp = "Pulsar-CPP-v4.2.0"
    for peer in (stage.client(client_version=cpp).session, RecordingPeer(client_version=cpp)):
        assert not peer.understands(Kind.REACHED_END_OF_TOPIC)
    assert not stage.client(handshake=False).session.understands(Kind.PING)


def test_a_peer_is_no_more_than_that() -> None:
    """Whatever grows here must be grown by every double."""
    names = {name for name, _ in inspect.getmembers(Peer) if not name.startswith("_")}
    assert names == {
        "address",
        "client_version",
        "role",
        "wants_broker_entry",
        "is_writable",
        "unwritable_since",
        "has_consumers",
        "understands",
        "write",
        "settled",
        "hold",
        "release",
        "resume",
        "unsent_size",
        "restart_producer",
        "forget_producer",
        "forget_consumer",
        "fail",
        "abort",
    }
