"""LOOKUP and PARTITIONED_METADATA: which broker serves a topic, and how many partitions it has.

Errors go into the replies' own fields: a generic ERROR would leave the C++ client waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import Work, handles
from milepost.broker.workers import calls
from milepost.errors import TopicNotFound
from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session
    from milepost.broker.workers.workers import Workers


@handles(Kind.PARTITIONED_METADATA, needs=Operation.LOOK_UP)
def partitioned_metadata(session: Session, command: pb.CommandPartitionedTopicMetadata) -> Work:
    """How many partitions a topic has, 0 for one that is not partitioned. Where topics are created
    partitioned by default, asking creates one unless `metadata_auto_creation_enabled` is false; then a
    topic that is not there is `TopicNotFound` (PIP-344), as an unknown tenant or namespace always is."""
    name, broker = TopicName.parse(command.topic), session.broker
    if broker.workers is None or broker.workers.placement.has(name):
        count = broker.known_partitions(name, create=command.metadata_auto_creation_enabled)
        if count is not None:
            _tell_count(session, command, count, exists=bool(count) or broker.exists(name))
            return None
    return _count_later(session, command, name)


async def _count_later(
    session: Session, command: pb.CommandPartitionedTopicMetadata, name: TopicName
) -> None:
    """Another worker has the topic, or it is to be made first."""
    may_create = command.metadata_auto_creation_enabled
    count, exists = await calls.partitions(session.broker, name, create=may_create)
    _tell_count(session, command, count, exists=exists)


def _tell_count(
    session: Session, command: pb.CommandPartitionedTopicMetadata, count: int, *, exists: bool
) -> None:
    if not command.metadata_auto_creation_enabled and not exists:
        # From this the Java client knows the names of its retry and dead letter topics.
        raise TopicNotFound(f"topic {TopicName.parse(command.topic)} does not exist")
    session.write((replies.partitions(command.request_id, count),))


@handles(Kind.LOOKUP, needs=Operation.LOOK_UP)
def lookup(session: Session, command: pb.CommandLookupTopic) -> Work:
    """Which broker serves a topic: always this one, or the worker that has the topic, authoritatively,
    with its address for TLS if it has one, on the listener that the client names. One that is not there is
    `ServiceNotReady`, as is a topic that no broker of a cluster serves for some seconds."""
    name, workers = TopicName.parse(command.topic), session.broker.workers
    session.broker.directory.check_namespace(name)
    if workers is None or workers.placement.is_served(workers.placement.shard_of(name)):
        _tell(session, command, name)
        return None
    return _tell_later(session, command, name, workers)


async def _tell_later(
    session: Session, command: pb.CommandLookupTopic, name: TopicName, workers: Workers
) -> None:
    """The broker of the topic is gone, and another is taking over."""
    await workers.owned(workers.placement.shard_of(name))
    _tell(session, command, name)


def _tell(session: Session, command: pb.CommandLookupTopic, name: TopicName) -> None:
    broker, listener = session.broker, command.advertised_listener_name
    urls = broker.lookup_url(listener, name), broker.lookup_url_tls(listener, name)
    broker.counters.lookups += 1
    session.write((replies.lookup_connect(command.request_id, *urls),))
