"""Peer: what topics and subscriptions need is what a session is."""

from __future__ import annotations

import inspect

from stage.stage import Stage

from milepost.broker.peer import Peer
from milepost.testing.peer import RecordingPeer


def test_a_session_and_the_double_are_peers(stage: Stage) -> None:
    for peer in (stage.client().session, RecordingPeer()):
        as_peer: Peer = peer
        assert as_peer.is_writable
        assert as_peer.wants_broker_entry
        assert as_peer.address
        assert as_peer.client_version == "Loopback-1"


def test_a_peer_is_no_more_than_that() -> None:
    """Whatever grows here must be grown by every double."""
    names = {name for name, _ in inspect.getmembers(Peer) if not name.startswith("_")}
    assert names == {
        "address",
        "client_version",
        "wants_broker_entry",
        "is_writable",
        "write",
        "settled",
        "hold",
        "release",
        "fail",
    }
