from __future__ import annotations

import pytest

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind
from milepost.wire.peer import PROTOCOL_VERSION, Peer, peer_of

CPP = Peer("Pulsar-CPP-v4.2.0", 20, reads_broker_entry=True)
JAVA = Peer("Pulsar-Java-v4.2.4", 21, reads_broker_entry=True)


@pytest.mark.parametrize(
    ("theirs", "negotiated"), [(0, 0), (20, 20), (21, 21), (22, 21), (10_000, 21), (-3, 0)]
)
def test_versions_are_negotiated(theirs: int, negotiated: int) -> None:
    assert PROTOCOL_VERSION == 21
    assert peer_of("x", theirs, pb.FeatureFlags()).protocol_version == negotiated


def test_broker_entry_metadata_needs_the_flag_and_the_version() -> None:
    flag = pb.FeatureFlags(supports_broker_entry_metadata=True)
    assert peer_of("x", 18, flag).reads_broker_entry
    assert not peer_of("x", 17, flag).reads_broker_entry
    assert not peer_of("x", 21, pb.FeatureFlags()).reads_broker_entry


def test_auth_refresh() -> None:
    assert peer_of("x", 20, pb.FeatureFlags(supports_auth_refresh=True)).refreshes_auth
    assert not peer_of("x", 20, pb.FeatureFlags()).refreshes_auth


def test_cpp_is_never_told_of_the_end_of_a_topic() -> None:
    assert not CPP.understands(Kind.REACHED_END_OF_TOPIC)
    assert JAVA.understands(Kind.REACHED_END_OF_TOPIC)
    assert not CPP.understands(Kind.WATCH_TOPIC_UPDATE)


def test_old_clients_are_spared_what_came_after_them() -> None:
    old = Peer("Pulsar-Java-v1", 8, reads_broker_entry=False)
    assert not old.understands(Kind.REACHED_END_OF_TOPIC)
    assert not old.understands(Kind.ACTIVE_CONSUMER_CHANGE)
    assert old.understands(Kind.CLOSE_CONSUMER)
    assert not Peer("x", 4, reads_broker_entry=False).understands(Kind.CLOSE_CONSUMER)
    assert CPP.understands(Kind.ACTIVE_CONSUMER_CHANGE)
    assert CPP.understands(Kind.SUCCESS)


def test_cpp_is_told_errors_that_it_takes_for_final() -> None:
    assert CPP.error_code(pb.InvalidTopicName) == pb.TopicNotFound
    assert CPP.error_code(pb.SubscriptionNotFound) == pb.NotAllowedError
    assert CPP.error_code(pb.ConsumerBusy) == pb.ConsumerBusy
    for code in pb.ServerError.values():
        assert JAVA.error_code(code) == code
