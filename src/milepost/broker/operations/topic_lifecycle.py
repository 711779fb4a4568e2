"""Creates, unloads, terminates, truncates, trims and deletes topics.

A topic that is closed, for good or to be opened again, is drained first: its producers are told to go,
what they sent is answered, acks are on disk; only then its states are closed. No client can
open it before that.

    close_topic(topic)  ─▶ producers out ─▶ journal empty ─▶ consumers out ─▶ states closed
    delete_topic(name)  ─▶ the same ─▶ catalog and files
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from milepost.broker.policies.policy import Level
from milepost.broker.subscription import documents, notices
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic import dedup_state
from milepost.broker.topic.non_persistent import NonPersistentTopic
from milepost.broker.topic.producer import Producer
from milepost.broker.topic.topic import Topic
from milepost.errors import (
    AlreadyExists,
    CorruptData,
    MilepostError,
    PersistenceError,
    PreconditionFailed,
    ServiceNotReady,
    TopicNotFound,
    TopicTerminated,
)
from milepost.positions.ids import Position
from milepost.positions.names import TopicName
from milepost.wire import replies

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.storage.catalog.catalog import TopicRow
    from milepost.storage.interface import Catalog, Log


logger = logging.getLogger(__name__)


class Loss(NamedTuple):
    """What a topic loses, or would lose."""

    messages: int
    size_bytes: int
    ledgers: int
    subscriptions: int


# -- making ------------------------------------------------------------------------------------------


async def create_topic(broker: Broker, name: TopicName, properties: dict[str, str]) -> None:
    directory = broker.directory
    directory.check_namespace(name)
    if broker.exists(name):
        raise AlreadyExists(f"topic {name} exists")
    if name.partition >= 0:
        raise PreconditionFailed(
            f"{name} would be a partition of {name.base}, which is not partitioned"
            if directory.partitions(name.base) is None
            else f"{name.base} has no partition {name.partition}: give it more partitions"
        )
    if name.is_persistent:
        await directory.create_topic(name, broker.first_doc(properties))
        return
    topic = await broker.topic(name)
    assert isinstance(topic, NonPersistentTopic), topic
    topic.is_kept = True


async def set_subscription_properties(
    broker: Broker, subscriptions: Sequence[Subscription], properties: dict[str, str]
) -> None:
    """Replace the properties of all of them, or of none."""
    before = [one.properties for one in subscriptions]
    for one in subscriptions:
        one.properties = properties

    def undo() -> None:
        for one, was in zip(subscriptions, before, strict=True):
            if one.properties is properties:  # else a later change holds
                one.properties = was

    await documents.save(broker.engine, subscriptions, undo)


async def set_subscription_replicated(
    broker: Broker, subscription: Subscription, replicated: bool
) -> None:
    before, subscription.is_replicated = subscription.is_replicated, replicated

    def undo() -> None:
        subscription.is_replicated = before

    await documents.save(broker.engine, [subscription], undo)


# -- closing -----------------------------------------------------------------------------------------


async def close_topic(broker: Broker, topic: Topic) -> None:
    """Unload: every client is told to go, and the next one opens the topic again.

    As upstream, it goes on in a new ledger: what is in the old one can then be trimmed.
    """
    broker.admissions.keep_place(topic)
    async with _closed(broker, topic):
        if _goes_on(topic):
            # The topic is closed in any case. A disk that refuses a new ledger now is asked again later.
            with suppress(PersistenceError):
                await _roll(topic)


def _goes_on(topic: Topic) -> bool:
    """Is there an open ledger with entries in it, for which more may come?"""
    if not topic.name.is_persistent or topic.is_terminated or topic.log.refusal is not None:
        return False
    ledgers = topic.log.ledgers
    return bool(ledgers) and ledgers[-1].entries > 0 and not ledgers[-1].sealed


async def _roll(topic: Topic) -> None:
    """Begin a new ledger, durably."""
    rolled = asyncio.get_running_loop().create_future()

    def done(error: PersistenceError | None) -> None:
        if not rolled.done():
            rolled.set_exception(error) if error else rolled.set_result(None)

    topic.log.roll(topic.now_ms(), done)
    await rolled


@asynccontextmanager
async def _closed(broker: Broker, topic: Topic) -> AsyncIterator[None]:
    """The topic is drained and closed; while the block runs, no client can open it again."""
    name = str(topic.name)
    topic.check_open()
    if name in broker.opening or broker.topics.get(name) is not topic:
        raise ServiceNotReady(f"{name} is being opened or closed")
    gate: asyncio.Future[Topic] = asyncio.get_running_loop().create_future()
    broker.opening[name] = gate
    del broker.topics[name]
    topic.is_closed = True
    try:
        await _drain(broker, topic)
        _close_states(broker, topic)
        yield
    finally:
        del broker.opening[name]
        # Clients that waited ask again, and get the topic as it is then.
        gate.set_exception(ServiceNotReady(f"{name} was being closed"))
        gate.exception()


async def _drain(broker: Broker, topic: Topic) -> None:
    await broker.policies.settled(topic)
    await _flush(broker)  # so that what was sent so far gets its receipts
    put_out_producers(broker, topic)
    if topic.throttle is not None:
        topic.throttle.end()  # no policy would ever free the connections that it holds
    # What was sent is stored or refused, and the log has nothing on its way: or it would become
    # visible to cursors that have been closed.
    await _flush(broker)
    for subscription in list(topic.subscriptions.values()):
        for consumer in list(subscription.consumers):
            broker.close_consumer(consumer)
        subscription.flush_acks()
    await _flush(broker)


async def _flush(broker: Broker) -> None:
    # Producers and consumers have been told what was refused; the states are closed as the journal has them.
    with suppress(PersistenceError):
        await broker.engine.flush()


def _close_states(broker: Broker, topic: Topic) -> None:
    """Give the states of its subscriptions back to the store. A read may still come back: what it
    brings is dropped."""
    for subscription in topic.subscriptions.values():
        for part in subscription.parts():
            part.dispatcher = part.journal = None
            if part.state_id is not None:
                broker.store.close_state(part.state_id)
    if topic.transactions is not None:
        broker.store.close_state(topic.transactions.state_id)
    if topic.dedup_state_id is not None:
        assert topic.dedup is not None
        # The checkpoint that would make their forgetting durable may fail; the topic may be open again then.
        topic.dedup.keep_let_go()
        broker.store.close_state(topic.dedup_state_id)


def put_out_producers(
    broker: Broker, topic: Topic, producers: Iterable[Producer] | None = None
) -> None:
    """All of them, or those that are named; their clients come back, and hear what is against it.

    First those in line: the one that has the topic alone would make room for them, and be fenced by a
    producer that never published.
    """
    going = list(topic.producers.values() if producers is None else producers)
    for producer in filter(topic.access.waits, going):
        broker.admissions.refuse_waiting(producer, _why_out(topic))
    for producer in going:
        if producer.is_closed:
            continue
        broker.admissions.remove(producer)
        producer.peer.write((replies.close_producer(producer.producer_id),))


def _why_out(topic: Topic) -> MilepostError:
    if topic.is_terminated:
        return TopicTerminated(f"{topic.name} is terminated")
    return ServiceNotReady(f"{topic.name} has put out its producers; come again")


# -- ending ------------------------------------------------------------------------------------------


async def terminate(broker: Broker, topic: Topic) -> Position:
    """No more messages, ever; what is there can be read. Returns the last position that a consumer can
    get now: open transactions may still be committed."""
    return (await terminate_all(broker, [topic]))[0]


async def terminate_all(broker: Broker, topics: Sequence[Topic]) -> list[Position]:
    """Terminate topics in one step: a crash leaves all of them terminated, or none."""
    lasting = [topic for topic in topics if not topic.is_terminated]
    await broker.change_topics(lasting, lambda doc: {**doc, "terminated": True})
    topics = [broker.topics.get(topic.row.name, topic) for topic in topics]
    for topic in topics:
        put_out_producers(broker, topic)
    await broker.engine.flush()
    for topic in topics:
        for subscription in topic.subscriptions.values():
            for part in subscription.parts():
                notices.tell_end(part)
    return [await _last_position(broker, topic) for topic in topics]


async def _last_position(broker: Broker, topic: Topic) -> Position:
    if (last := await broker.engine.look(topic.last_dispatchable)) is not None:
        return last[0]
    ledgers = topic.log.ledgers
    return Position(ledgers[-1].ledger_id if ledgers else -1, -1)


def check_unused(topic: Topic) -> None:
    """Raise `PreconditionFailed` while a producer or consumer is connected."""
    producers = len(topic.producers)
    consumers = sum(len(one.consumers) for one in topic.subscriptions.values())
    if producers or consumers:
        raise PreconditionFailed(
            f"{topic.name} has {producers} producers and {consumers} consumers connected; close "
            "them first, or say force"
        )


async def delete_topic(broker: Broker, topic: Topic, *, force: bool) -> None:
    """With everything in it."""
    if not force:
        check_unused(topic)
    # Nothing is awaited until it is closed: a client that comes finds this topic, or the next one.
    async with _closed(broker, topic):
        # First, so that whatever happens no later topic of that name inherits them.
        await broker.access_control.forget_topic(topic.name)
        if topic.name.is_persistent:
            await broker.engine.delete_topic(topic.row, topic.log, *_deletion(broker, topic.name))
        # And again: until the topic was gone, requests could set more of them.
        await _forget_rules(broker, topic.name)
        if topic.name.partition < 0:  # partitions share the schema of their topic
            await broker.schemas.forget(topic.name)


async def delete_damaged(broker: Broker, name: TopicName, reason: CorruptData) -> Loss:
    """Delete a topic that cannot be opened, with everything in it; what is lost with it, as far as the
    catalog knows."""
    row, log, loss = await _damaged(broker, name, reason)
    await broker.access_control.forget_topic(name)
    await broker.engine.delete_topic(row, log, *_deletion(broker, name))
    await _forget_rules(broker, name)
    if name.partition < 0:
        await broker.schemas.forget(name)
    return loss


async def _damaged(
    broker: Broker, name: TopicName, reason: CorruptData
) -> tuple[TopicRow, Log, Loss]:
    """What is to be deleted of a topic that cannot be opened, and what is lost with it."""
    row = broker.directory.row(name)
    if row is None:
        raise TopicNotFound(f"topic {name} does not exist") from reason
    ledgers, states = await broker.engine.catalog(
        lambda catalog: (catalog.ledgers(row.topic_id), catalog.states(row.topic_id))
    )
    if broker.directory.row(name) is not row:
        raise ServiceNotReady(f"{name} was changed meanwhile") from reason
    logger.warning("%s cannot be opened and is deleted: %s", name, reason)
    kept = [one for one in ledgers if one.entries]
    loss = Loss(
        sum(one.end_index - one.first_index for one in kept),
        sum(one.size_bytes for one in kept),
        len(kept),
        sum(one.kind == documents.CURSOR_STATE for one in states),
    )
    return row, broker.store.log_to_delete(row, ledgers), loss


def _deletion(
    broker: Broker, name: TopicName
) -> tuple[Callable[[Catalog], None], Callable[[], None]]:
    """What goes in the change that deletes a topic, or a partitioned one: its policies and schemas, which
    partitions have of their topic. A process that ends before it leaves all as it was; one that ends behind
    it leaves nothing to the next topic of the name. And what makes it known once it is durable, also if the
    caller is gone by then."""
    book, schemas, directory = broker.policies.book, broker.schemas, broker.directory
    is_partitioned = directory.partitions(name) is not None

    def erase(catalog: Catalog) -> None:
        if name.partition < 0:
            book.erase(catalog, name)
            schemas.erase(catalog, name)
        if is_partitioned:
            directory.delete_partitioned(catalog, name)

    def told() -> None:
        if name.partition < 0:
            book.erased(name)
            schemas.erased(name)
        if is_partitioned:
            directory.forget_partitioned(name)
        else:
            directory.forget_topic(name)

    return erase, told


async def _forget_rules(broker: Broker, name: TopicName) -> None:
    """Forget what was granted on a topic and set for it."""
    await broker.access_control.forget_topic(name)
    if name.partition < 0:
        await broker.policies.book.forget(Level.TOPIC, str(name))


async def delete_partitioned(broker: Broker, name: TopicName, *, force: bool) -> None:
    """All partitions or, while one is in use, none; and none if this process ends on the way."""
    partitions = broker.directory.partitions(name)
    if partitions is None:
        if broker.exists(name):
            raise AlreadyExists(f"{name} is not partitioned; delete it as a topic")
        raise TopicNotFound(f"partitioned topic {name} does not exist")
    with broker.directory.deleting(name):
        topics = []
        damaged: list[tuple[TopicName, CorruptData]] = []
        for number in range(partitions):
            partition = name.partition_name(number)
            found = broker.topics.get(str(partition))
            # One that a client is opening has no row yet, and would outlive the rest.
            is_opening = str(partition) in broker.opening
            if found is not None or is_opening or broker.directory.row(partition) is not None:
                try:
                    topics.append(found or await broker.topic(partition, create=False))
                except CorruptData as error:
                    if not force:
                        raise
                    damaged.append((partition, error))
        if not force:
            for topic in topics:
                check_unused(topic)
        async with AsyncExitStack() as closed:
            for topic in topics:
                if not force:
                    check_unused(topic)  # clients came while those before were closed
                await closed.enter_async_context(_closed(broker, topic))
            going = [(topic.row, topic.log) for topic in topics if name.is_persistent]
            for partition, reason in damaged:
                row, log, _ = await _damaged(broker, partition, reason)
                going.append((row, log))
            names = [*(one.name for one in topics), *(one for one, _ in damaged), name]
            for one in names:
                await broker.access_control.forget_topic(one)
            await broker.engine.delete_topics(going, *_deletion(broker, name))
            for one in names:
                await _forget_rules(broker, one)
            await broker.schemas.forget(name)


# -- trimming ----------------------------------------------------------------------------------------


async def truncate(broker: Broker, topic: Topic) -> None:
    """Drop all messages, read or not; every subscription is at the end."""
    log = topic.log
    if log.next_index == log.first_index:
        return
    await _roll(topic)
    end_index = log.ledgers[-1].first_index
    for subscription in topic.subscriptions.values():
        # Messages of open transactions go with the log: until then a crash may bring them back.
        subscription.trim(min(end_index, subscription.cursor.end))
        subscription.flush_acks()
    await broker.engine.flush()
    await trim_to(broker, topic, end_index)


async def trim(broker: Broker, topic: Topic) -> int:
    """Drop ledgers that no durable subscription needs any more; returns how many. A topic without
    subscriptions needs none."""
    return await trim_to(broker, topic, trimmable_index(topic))


async def trim_to(broker: Broker, topic: Topic, before_index: int) -> int:
    """Drop ledgers that lie wholly before an index; returns how many."""
    await dedup_state.keep(topic, broker.store, before_index)
    dropped = await broker.engine.trim(topic.log, before_index)
    _forget_trimmed(topic)
    return dropped


def _forget_trimmed(topic: Topic) -> None:
    """Neither subscriptions nor transactions know of messages that are gone."""
    for subscription in topic.subscriptions.values():
        subscription.trim(topic.log.first_index)
    if topic.transactions is not None:
        topic.transactions.trim(topic.log.first_index)
        topic.show()


def trimmable_index(topic: Topic) -> int:
    needed = [
        one.cursor.mark_delete_index + 1 for one in topic.subscriptions.values() if one.is_durable
    ]
    compacted = topic.compacted
    if compacted is not None:  # messages that it keeps are read from their old ledgers
        kept = compacted.kept.first
        needed.append(compacted.horizon if kept is None else kept)
    # Messages of open transactions have not been seen by a consumer yet.
    return min([topic.visible_end, *needed])


def loss_of(topic: Topic, before_index: int, *, subscriptions: bool = False) -> Loss:
    """What is lost when everything below an index goes."""
    log = topic.log
    ledgers = [one for one in log.ledgers if one.entries and one.end_index <= before_index]
    end_index = ledgers[-1].end_index if ledgers else log.first_index
    messages = topic.visible_count(log.first_index, end_index)
    size = log.size_from(log.first_index) - log.size_from(end_index)
    durable = sum(one.is_durable for one in topic.subscriptions.values())
    return Loss(messages, size, len(ledgers), durable if subscriptions else 0)
