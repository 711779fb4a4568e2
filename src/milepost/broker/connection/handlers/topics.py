"""GET_TOPICS_OF_NAMESPACE: the topics that a pattern consumer matches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import handles
from milepost.broker.directory.topic_watchers import TopicPattern, topics_hash
from milepost.broker.workers import calls
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
    broker = session.broker
    list_names: Callable[[], Sequence[str]] = partial(
        broker.topics_of_namespace, command.namespace, mode
    )
    if broker.workers is not None:
        everywhere = await calls.topics(broker, command.namespace, mode)
        list_names = partial(list, everywhere)
    pattern: TopicPattern | None = None
    if command.topics_pattern:
        with suppress(InvalidInput):
            limit = broker.settings.subscription_pattern_length_max
            pattern = TopicPattern(command.topics_pattern, length_max=limit)
    if pattern is None:
        names: Sequence[str] = list_names()
    else:
        names = await broker.watchers.matching(pattern, list_names, broker.clock)
    digest = topics_hash(names)
    changed = digest != command.topics_hash
    answer = replies.topics(
        command.request_id,
        names if changed else (),
        filtered=pattern is not None,
        topics_hash=digest,
        changed=changed,
    )
    session.write((answer,))
