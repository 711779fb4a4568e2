"""WATCH_TOPIC_LIST and its CLOSE: a pattern consumer is told of new topics (PIP-145)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import handles
from milepost.broker.directory.topic_watchers import TopicPattern, topics_hash
from milepost.positions import signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session


@handles(Kind.WATCH_TOPIC_LIST, needs=Operation.LIST_TOPICS)
async def watch_topic_list(session: Session, command: pb.CommandWatchTopicList) -> None:
    """Answers with the topics of a namespace that match a pattern (none, if `topics_hash` says that the
    client knows them), and sends WATCH_TOPIC_UPDATE whenever some come or go. Patterns are RE2's and
    match whole names; `subscription_pattern_length_max` bounds them. Where several workers serve as one
    broker, or several brokers, it hears of topics of the others some tenths of a second later."""
    broker = session.broker
    pattern = TopicPattern(
        command.topics_pattern, length_max=broker.settings.subscription_pattern_length_max
    )
    watcher_id = signed64(command.watcher_id)
    async with broker.watched_topics.joining(command.namespace) as list_names:
        matching = await broker.watchers.matching(pattern, list_names, broker.clock)
        if session.is_closed:
            return
        broker.watchers.add(session, watcher_id, command.namespace, pattern, matching)
    digest = topics_hash(matching)
    known = digest == command.topics_hash
    told = () if known else matching
    session.write((replies.watch_topic_list(command.request_id, watcher_id, told, digest),))


@handles(Kind.WATCH_TOPIC_LIST_CLOSE, needs=Operation.HELD)
def watch_topic_list_close(session: Session, command: pb.CommandWatchTopicListClose) -> None:
    """Ends a watcher. One that is not there was closed already: SUCCESS."""
    session.broker.watchers.remove(session, signed64(command.watcher_id))
    session.write((replies.success(command.request_id),))
