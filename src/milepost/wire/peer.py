"""What the other side said of itself in the handshake.

>>> cpp = Peer("Pulsar-CPP-v4.2.0", 20, reads_broker_entry=True)
>>> cpp.understands(Kind.REACHED_END_OF_TOPIC), cpp.understands(Kind.ACTIVE_CONSUMER_CHANGE)
(False, True)
"""

from __future__ import annotations

from typing import Final, NamedTuple

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind

PROTOCOL_VERSION: Final = 21
"""The newest version of the protocol that Milepost speaks."""

# The version of the protocol that brought a command a broker may send unasked.
_SINCE: Final[dict[int, int]] = {
    Kind.PING: 1,
    Kind.CLOSE_PRODUCER: 5,
    Kind.CLOSE_CONSUMER: 5,
    Kind.REACHED_END_OF_TOPIC: 9,
    Kind.ACTIVE_CONSUMER_CHANGE: 12,
    Kind.AUTH_CHALLENGE: 14,
    Kind.ACK_RESPONSE: 17,
    Kind.TOPIC_MIGRATED: 20,
}

# The C++ client, and so the Python one, closes its connection on a command it does not list; 27
# came to it only after 4.2.0, and no release is known to have it.
_CPP: Final = "Pulsar-CPP-v"
_NOT_FOR_CPP: Final = frozenset(
    (
        Kind.REACHED_END_OF_TOPIC,
        Kind.GET_OR_CREATE_SCHEMA_RESPONSE,
        Kind.WATCH_TOPIC_LIST_SUCCESS,
        Kind.WATCH_TOPIC_UPDATE,
    )
)

# Milepost's own client. After a time-out it asks for the same end again, and may be told then what it was
# told when it did not listen any more.
_OWN: Final = "Milepost-Python-"

# Errors that C++ takes for passing trouble: it tries again until its time is up, half a minute later,
# and tells its user of a timeout. It is told the nearest error that it takes for final.
_FINAL_FOR_CPP: Final[dict[int, int]] = {
    pb.InvalidTopicName: pb.TopicNotFound,
    pb.SubscriptionNotFound: pb.NotAllowedError,
}

_BROKER_ENTRY_SINCE: Final = 18


class Peer(NamedTuple):
    software: str
    """As the peer names itself: client_version or server_version."""
    protocol_version: int
    """The lower of its version and ours."""
    reads_broker_entry: bool
    """Whether a MESSAGE may carry broker entry metadata (PIP-90)."""
    refreshes_auth: bool = False
    """Whether it answers AUTH_CHALLENGE after the handshake."""
    finds_indexes: bool = False
    """Whether it takes an index in a seek, and gives the id for one: a Milepost broker."""
    watches_topics: bool = False
    """Whether it can be asked to tell of topics that come and go (PIP-145)."""
    ends_together: bool = False
    """Whether it knows series of transactions, and ends several as one step: a Milepost broker."""

    def understands(self, kind: int) -> bool:
        """Whether a client may be sent this command unasked without dropping the connection."""
        if kind in _NOT_FOR_CPP and self.software.startswith(_CPP):
            return False
        return self.protocol_version >= _SINCE.get(kind, 0)

    @property
    def hears_handshake_errors(self) -> bool:
        """Whether ERROR in place of CONNECTED is understood. C++ takes it for a broken connection, tries
        again until its time is up, and tells its user of a timeout."""
        return not self.software.startswith(_CPP)

    @property
    def asks_for_ends_again(self) -> bool:
        """Whether it wants to be told of the end of a transaction as often as it asks. To others the
        transaction is not there any more, as upstream has it."""
        return self.software.startswith(_OWN)

    def error_code(self, code: int) -> int:
        """The `ServerError` to refuse a request with, so that the client takes it as it is meant."""
        return _FINAL_FOR_CPP.get(code, code) if self.software.startswith(_CPP) else code


def peer_of(software: str, version: int, flags: pb.FeatureFlags) -> Peer:
    """What a CONNECT or CONNECTED says. Any version is negotiated down to ours, none below 0."""
    protocol_version = max(0, min(PROTOCOL_VERSION, version))
    return Peer(
        software,
        protocol_version,
        flags.supports_broker_entry_metadata and protocol_version >= _BROKER_ENTRY_SINCE,
        flags.supports_auth_refresh,
        flags.supports_message_index,
        flags.supports_topic_watchers,
        flags.supports_txn_series,
    )
