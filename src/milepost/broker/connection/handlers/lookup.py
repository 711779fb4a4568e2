"""LOOKUP and PARTITIONED_METADATA: which broker serves a topic, and how many partitions it has.

Errors go into the replies' own fields: a generic ERROR would leave the C++ client waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import Work, handles
from milepost.errors import TopicNotFound
from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session


@handles(Kind.PARTITIONED_METADATA, needs=Operation.LOOK_UP)
async def partitioned_metadata(
    session: Session, command: pb.CommandPartitionedTopicMetadata
) -> None:
    """How many partitions a topic has, 0 for one that is not partitioned. Where topics are created
    partitioned by default, asking creates one unless `metadata_auto_creation_enabled` is false; then a
    topic that is not there is `TopicNotFound` (PIP-344), as an unknown tenant or namespace always is."""
    name = TopicName.parse(command.topic)
    may_create = command.metadata_auto_creation_enabled
    count = await session.broker.partitions_of(name, create=may_create)
    if not may_create and not count and not session.broker.exists(name):
        # From this the Java client knows the names of its retry and dead letter topics.
        raise TopicNotFound(f"topic {name} does not exist")
    session.write((replies.partitions(command.request_id, count),))


@handles(Kind.LOOKUP, needs=Operation.LOOK_UP)
def lookup(session: Session, command: pb.CommandLookupTopic) -> Work:
    """Which broker serves a topic: always this one, authoritatively, with its address for TLS if it has
    one, on the listener that the client names. One that is not there is `ServiceNotReady`."""
    session.broker.directory.check_namespace(TopicName.parse(command.topic))
    listener = command.advertised_listener_name
    urls = session.broker.lookup_url(listener), session.broker.lookup_url_tls(listener)
    session.broker.counters.lookups += 1
    session.write((replies.lookup_connect(command.request_id, *urls),))
    return None
