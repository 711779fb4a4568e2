"""GET_TOPICS_OF_NAMESPACE: the topics that a pattern consumer matches."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import handles
from milepost.broker.directory.topic_watchers import TopicPattern, topics_hash
from milepost.errors import InvalidInput
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session


@handles(Kind.GET_TOPICS_OF_NAMESPACE, needs=Operation.LIST_TOPICS)
async def get_topics_of_namespace(
    session: Session, command: pb.CommandGetTopicsOfNamespace
) -> None:
    """The topics of a namespace, partitions each by its own name, with their hash: the answer is
    empty when `topics_hash` still holds. With a pattern only those that match it; a pattern that is too
    long, or that RE2 does not know, is left to the client. An unknown namespace has no topics."""
    mode = pb.CommandGetTopicsOfNamespace.Mode.Name(command.mode)
    names = await session.broker.topics_of_namespace(command.namespace, mode)
    is_filtered = False
    if command.topics_pattern:
        with suppress(InvalidInput):
            limit = session.broker.settings.subscription_pattern_length_max
            names = TopicPattern(command.topics_pattern, length_max=limit).matching(names)
            is_filtered = True
    digest = topics_hash(names)
    changed = digest != command.topics_hash
    answer = replies.topics(
        command.request_id,
        names if changed else (),
        filtered=is_filtered,
        topics_hash=digest,
        changed=changed,
    )
    session.write((answer,))
