"""Resets: an operator moves a subscription, with consumers connected or not.

The same verb as a client's seek (`Cursor.seek`), with what an operator needs around it: a target said in
one of six ways, a check of the position it is moved from, a dry run, all partitions or none, and a
history. `decide` is pure and says what would happen; `perform` makes it happen in one step, without
suspending, for all partitions; `reset` waits until that is on disk.

    moves = await reset(broker, name, "sub", Reset(Target(time_ms=yesterday)), by="ann")
    moves = await reset(broker, name, "sub", Reset(Target(by=-100), dry_run=True), by="ann")

All or nothing, also across a crash: the resets of all partitions are one record of the journal, and what
`create` makes is made at its target, by one transaction of the catalog. (Where some partitions have the
subscription and others not, those are two steps, and a crash may come between them.) A consumer
that follows in place is told and goes on under a higher epoch; any other is closed and comes back at the
target. What an ack, flow or read of an older epoch may still do is decided by the cursor: nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from milepost.broker.limits.subscription_limits import SubscriptionLimits
from milepost.broker.messages.entry_view import time_text
from milepost.broker.messages.ids_to_indexes import start_index, start_index_at
from milepost.broker.subscription import documents
from milepost.broker.subscription.ack_journal import Done
from milepost.broker.subscription.documents import NewSubscription
from milepost.broker.subscription.reset_history import ResetHistory, ResetRecord
from milepost.broker.subscription.subscription import Subscription
from milepost.cursor.cursor import Cursor
from milepost.errors import (
    AlreadyExists,
    IndexNotFound,
    InvalidInput,
    MilepostError,
    PersistenceError,
    SubscriptionNotFound,
    TopicNotFound,
    UnexpectedPosition,
)
from milepost.positions.ids import MessageId
from milepost.positions.labels import check_label
from milepost.positions.names import TopicName
from milepost.storage.ledgers.entry import CHUNK, LAST_CHUNK

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.dispatch.consumer import Consumer
    from milepost.broker.topic.topic import Topic

EARLIEST, LATEST = "earliest", "latest"

# How far behind a chunk the last one of its message is looked for: other messages may lie between.
LAST_CHUNK_WITHIN: Final = 10_000


@dataclass(frozen=True, slots=True)
class Target:
    """Where to: exactly one of the fields."""

    index: int | None = None
    id: MessageId | None = None
    time_ms: int | None = None
    """The first message that came not before it; in the future, the end."""
    edge: str | None = None
    """`earliest`, the first that is retained, or `latest`, behind the last."""
    by: int | None = None
    """So many indexes on, or back, from the first that is not acked."""
    last: int | None = None
    """So many indexes before the end, of each partition its own; all that there are if it has fewer."""

    def __post_init__(self) -> None:
        named = [name for name in self.__slots__ if getattr(self, name) is not None]
        if len(named) != 1:
            said = ", ".join(named) or "nothing"
            raise InvalidInput(
                f"a reset to {said}; say one of index, id, time, earliest, latest, by how many, or "
                "how many before the end"
            )
        if self.edge not in (None, EARLIEST, LATEST):
            raise InvalidInput(f"a reset to {self.edge!a}; say earliest or latest")

    def __str__(self) -> str:
        if self.index is not None:
            return f"index {self.index}"
        if self.id is not None:
            return f"id {self.id}"
        if self.time_ms is not None:
            return f"time {time_text(self.time_ms)}"
        if self.last is not None:
            return f"the last {self.last}"
        return str(self.edge) if self.edge is not None else f"{self.by:+d}"


@dataclass(frozen=True, slots=True)
class Reset:
    target: Target
    after: bool = False
    """Behind the message that the target names, not at it."""
    expected: int | None = None
    """Only if this is the first index that is not acked."""
    dry_run: bool = False
    """Say what would happen, and change nothing."""
    create: bool = False
    """Make the subscription where it is not there yet. Without it that is an error: a name that no client
    knows is mostly one that was mistyped."""
    exact: bool = False
    """Refuse a message that is no longer there, and a time behind the last message, instead of going to
    the nearest that is."""

    def __post_init__(self) -> None:
        if self.create and self.expected is not None:
            raise InvalidInput(
                "a reset with both create and expected: what does not exist has no position"
            )

    def __str__(self) -> str:
        return f"after {self.target}" if self.after else str(self.target)


class Move(NamedTuple):
    """What a reset does, or would do, to one partition."""

    topic: str
    partition: int
    """-1 for a topic without partitions."""
    first: int
    end: int
    """The messages that are retained: `[first, end)`."""
    was: int
    """The first index that is not acked; `end` if all are."""
    to: int
    epoch: int
    """The cursor's, from then on."""
    redelivered: int
    """Acked messages that become ready again."""
    skipped: int
    """Messages not acked that will be."""
    released: int
    """Messages taken from consumers that hold them."""
    note: str
    """Why `to` is not what was asked for; empty if it is."""


# -- deciding ----------------------------------------------------------------------------------------


def decide(subscriptions: Sequence[Subscription], reset: Reset) -> list[Move]:
    """What it does to each partition; an error that says why not, for any of them, is one for all."""
    _check_reach(subscriptions, reset)
    return [_decide_one(subscription, reset) for subscription in subscriptions]


def _check_reach(subscriptions: Sequence[Subscription], reset: Reset) -> None:
    """Raise if a relative amount or an exact time reaches outside of every partition: where one of
    several is shorter, it goes as far as it can."""
    target = reset.target
    if target.by is not None:
        reaches = [
            _reached(one.topic, one.cursor, one.position, target.by) + reset.after
            for one in subscriptions
        ]
        there = [
            0 <= index <= one.cursor.end for one, index in zip(subscriptions, reaches, strict=True)
        ]
        if subscriptions and not any(there):
            one, index = subscriptions[0], reaches[0]
            raise IndexNotFound(
                f"{one.topic.name}: a reset by {target.by:+d} from index {one.position} to {index}; "
                f"{_what_is_there(one.cursor)}"
            )
    if reset.exact and target.time_ms is not None and subscriptions:
        starts = [start_index_at(one.topic, target.time_ms + reset.after) for one in subscriptions]
        if all(at >= one.cursor.end for one, at in zip(subscriptions, starts, strict=True)):
            raise IndexNotFound(
                f"{subscriptions[0].topic.name.base}: no message came at {time_text(target.time_ms)} or "
                f"later; {_last_time(subscriptions)}"
            )


def _what_is_there(cursor: Cursor) -> str:
    if cursor.first == cursor.end:
        return f"no message is kept, and the end is {cursor.end}"
    return f"indexes {cursor.first} to {cursor.end - 1} are kept, and the end is {cursor.end}"


def _last_time(subscriptions: Sequence[Subscription]) -> str:
    times = [
        one.topic.log.at(last[0]).timestamp_ms
        for one in subscriptions
        if (last := one.topic.last_dispatchable()) is not None
    ]
    return f"the last came at {time_text(max(times))}" if times else "there are no messages"


def _decide_one(subscription: Subscription, reset: Reset) -> Move:
    topic, cursor = subscription.topic, subscription.cursor
    was = subscription.position
    if reset.expected is not None and reset.expected != was:
        raise UnexpectedPosition(
            f"{subscription.name} of {topic.name} is at index {was}, not at {reset.expected}"
        )
    to, note = resolve(topic, cursor, reset.target, was, after=reset.after, exact=reset.exact)
    # Of a broadcast group, what happens to all its members.
    cursors = subscription.cursors()
    backlogs = [one.backlog_ranges() for one in cursors]
    return Move(
        topic=str(topic.name),
        partition=topic.name.partition,
        first=cursor.first,
        end=cursor.end,
        was=was,
        to=to,
        epoch=cursor.epoch + 1,
        redelivered=sum(
            topic.visible_count(to, cursor.end) - one.count_within(to, cursor.end)
            for one in backlogs
        ),
        skipped=sum(one.count_within(cursor.first, to) for one in backlogs),
        released=sum(one.counts().inflight for one in cursors),
        note=note,
    )


def resolve(
    topic: Topic, cursor: Cursor, target: Target, was: int, *, after: bool, exact: bool = False
) -> tuple[int, str]:
    """The index that a target means for a subscription that is at `was`, and what to say if it is not
    the one that was named. `exact` refuses an index or id that is no longer there."""
    first, end = cursor.first, cursor.end
    if target.edge is not None:
        return (first if target.edge == EARLIEST else end), ""
    if target.time_ms is not None:
        if target.time_ms < 0:
            raise InvalidInput(
                f"a reset to the time {target.time_ms}: expected milliseconds since 1970"
            )
        return _clamp(start_index_at(topic, target.time_ms + after), cursor), ""
    if target.id is not None:
        return _resolve_id(topic, cursor, target.id, after=after, exact=exact)
    if target.index is None:
        index, note = _resolve_amount(topic, cursor, target, was, after=after)
        return (index, note) if note else _whole(topic, index)
    index = _behind(topic, target.index) if after else target.index
    if not 0 <= index <= end:
        raise IndexNotFound(f"{topic.name}: there is no index {index}; {_what_is_there(cursor)}")
    if index < first:
        if exact:
            raise IndexNotFound(
                f"{topic.name}: index {index} is no longer retained; {_what_is_there(cursor)}"
            )
        return first, f"index {index} is no longer retained; the first is {first}"
    return _whole(topic, index)


def _resolve_amount(
    topic: Topic, cursor: Cursor, target: Target, was: int, *, after: bool
) -> tuple[int, str]:
    """So many from where it is, or before the end: as far as this partition goes."""
    if target.last is not None:
        index = _reached(topic, cursor, cursor.end, -target.last) + after
    else:
        index = _reached(topic, cursor, was, target.by or 0) + after
    reached = _clamp(index, cursor)
    if reached == index:
        return index, ""
    edge = "begins" if index < cursor.first else "ends"
    return reached, f"it {edge} at {reached}"


def _reached(topic: Topic, cursor: Cursor, index: int, by: int) -> int:
    """So many messages from an index: what consumers never see does not count. Past either edge, as far
    past it as messages are missing."""
    if topic.transactions is None or not by:
        return index + by
    first, end = (index, cursor.end) if by > 0 else (cursor.first, index)
    missing = abs(by) - topic.visible_count(first, end)
    if missing >= 0:
        return end + missing if by > 0 else first - missing
    low, high = first, end
    while low < high:
        middle = (low + high) // 2
        if by > 0:
            is_enough = topic.visible_count(first, middle) >= by
        else:
            is_enough = topic.visible_count(middle, end) <= -by
        low, high = (low, middle) if is_enough else (middle + 1, high)
    return low


def _resolve_id(
    topic: Topic, cursor: Cursor, message_id: MessageId, *, after: bool, exact: bool
) -> tuple[int, str]:
    position = message_id.position
    partition, own = message_id.partition, topic.name.partition
    if partition >= 0 and own >= 0 and partition != own:
        raise IndexNotFound(f"{topic.name}: id {message_id} is of partition {partition}")
    batch_index = message_id.batch_index
    try:
        first, end, flags = topic.lookup(*position)
    except LookupError:
        index = _clamp(topic.log.index_from(position), cursor)
        last = topic.log.last_position()
        if position.ledger_id >= 0 and (last is None or position > last):
            there = f"is behind the last, {last}" if last else "is not there; it has no messages"
            raise IndexNotFound(f"{topic.name}: id {message_id} {there}") from None
        if exact or is_foreign(topic, position.ledger_id):
            raise IndexNotFound(
                f"{topic.name}: id {message_id} is not there; {_ids_there(topic, cursor)}"
            ) from None
        return index, f"id {message_id} is no longer there; the next message has index {index}"
    if batch_index >= end - first:
        raise IndexNotFound(
            f"{topic.name}: id {message_id}, but its entry has {end - first} messages"
        )
    if after and flags & CHUNK:
        index = _behind(topic, first)
    elif after:
        index = end if batch_index < 0 else first + batch_index + 1
    else:
        index = start_index(topic, *position, batch_index=batch_index)
    if index > cursor.end:
        # At the end the subscription would get what lies between when the transaction is committed.
        raise IndexNotFound(
            f"{topic.name}: id {message_id} is not visible yet: an open transaction holds it back; "
            f"{_what_is_there(cursor)}"
        )
    index = _clamp(index, cursor)
    return _whole(topic, index) if after else (index, "")


def is_foreign(topic: Topic, ledger_id: int) -> bool:
    """Can a ledger not have been this topic's? Ledgers go from the front only, oldest first."""
    known = topic.log.ledger_ids
    if not known or ledger_id < 0 or ledger_id in known:
        return False
    return ledger_id > known[0] or topic.log.first_index == 0


def _ids_there(topic: Topic, cursor: Cursor) -> str:
    if cursor.first >= cursor.end:
        return "there are no messages"
    log = topic.log
    first, last = log.locate(log.first_index).position, log.last_position()
    return f"there are {first} to {last}"


def _whole(topic: Topic, index: int) -> tuple[int, str]:
    """Where the message begins that the index is part of; with a note if it is chunked and that is
    elsewhere."""
    if index < topic.log.end_index:
        position, _, _, flags = topic.log.locate(index)
        if flags & CHUNK:
            begins = max(topic.first_chunk_index(*position), topic.log.first_index)
            if begins != index:
                return begins, f"index {index} is part of a chunked message"
    return index, ""


def _behind(topic: Topic, index: int) -> int:
    """Behind the message that the index is part of: behind its last chunk, if it is chunked."""
    log = topic.log
    if not log.first_index <= index < log.end_index:
        return index + 1
    position, _, _, flags = log.locate(index)
    if not flags & CHUNK:
        return index + 1
    first = topic.first_chunk_index(*position)
    at, until = index, min(log.end_index, index + LAST_CHUNK_WITHIN)
    while at < until:
        position, span, _, flags = log.locate(at)
        if flags & LAST_CHUNK and topic.first_chunk_index(*position) == first:
            return span.end_index
        at = span.end_index
    return index + 1  # the message was never finished


def _clamp(index: int, cursor: Cursor) -> int:
    return min(max(index, cursor.first), cursor.end)


# -- performing --------------------------------------------------------------------------------------


async def reset(
    broker: Broker, name: TopicName, subscription: str, reset: Reset, *, by: str
) -> list[Move]:
    """Reset a subscription of a topic, or of all partitions of one; durable when this returns."""
    if reset.create:
        check_label("subscription", subscription)
        if not subscription:
            raise InvalidInput("a subscription without a name")
    topics = await topics_of(broker, name, create=reset.create)
    known = [topic.subscriptions.get(subscription) for topic in topics]
    if not reset.create:
        _check_there(topics, known, subscription)
    # A subscription that is to be made is judged as if it stood at the beginning: an error makes none.
    judged = [
        one or _newcomer(broker, topic, subscription)
        for topic, one in zip(topics, known, strict=True)
    ]
    moves = await broker.engine.look(lambda: decide(judged, reset))
    if reset.dry_run:
        return [
            move._replace(note=_note(move, one)) for move, one in zip(moves, known, strict=True)
        ]
    missing = {
        topic: move for topic, one, move in zip(topics, known, moves, strict=True) if one is None
    }
    made = await _make(broker, subscription, missing, asked=str(reset), by=by) if missing else []
    try:
        known = [topic.subscriptions.get(subscription) for topic in topics]
        found = _check_there(topics, known, subscription)
        there = [one for one in found if one not in made]
        moved = await broker.engine.look(lambda: decide(there, reset))
        # Nothing was awaited since the decision: it still holds.
        done = perform(broker, there, moved, asked=str(reset), by=by)
    except BaseException:
        if undone := [one for one in made if not one.topic.is_closed]:
            await broker.delete_subscriptions(undone)
        raise
    await done
    others = iter(moved)
    return [
        move._replace(note=_note(move, None)) if one in made else next(others)
        for move, one in zip(moves, found, strict=True)
    ]


async def topics_of(broker: Broker, name: TopicName, *, create: bool = False) -> list[Topic]:
    """A topic, or each of its partitions, opened. With `create` also those that were never used;
    nothing else is made on the way."""
    partitions = broker.directory.partitions(name)
    names = [name] if not partitions else [name.partition_name(n) for n in range(partitions)]
    found = []
    for one in names:
        broker.directory.check_partition(one)
        is_unused = create and broker.directory.partitions(one.base) is not None
        if broker.directory.row(one) is None and not is_unused:
            raise TopicNotFound(f"topic {one} does not exist")
        found.append(await broker.topic(one, create=is_unused))
    return found


async def subscriptions_of(
    broker: Broker, name: TopicName, subscription: str
) -> list[Subscription]:
    """A subscription of a topic, or of each of its partitions; none is made on the way."""
    topics = await topics_of(broker, name)
    known = [topic.subscriptions.get(subscription) for topic in topics]
    return _check_there(topics, known, subscription)


def _check_there(
    topics: Sequence[Topic], known: Sequence[Subscription | None], name: str
) -> list[Subscription]:
    found = []
    for topic, one in zip(topics, known, strict=True):
        topic.check_open()  # what was closed while another was opened must not be moved
        if one is None or topic.subscriptions.get(name) is not one:
            raise SubscriptionNotFound(f"topic {topic.name} has no subscription {name}")
        found.append(one)
    return found


def _newcomer(broker: Broker, topic: Topic, name: str) -> Subscription:
    """A subscription as it would be if it were made now; it is not registered."""
    cursor = Cursor(topic.log.first_index, topic.visible_end)
    limits = SubscriptionLimits.of(broker.settings, topic.policies)
    return Subscription(
        topic,
        name,
        cursor,
        host=broker.subscription_host,
        limits=limits,
        state_id=None,
        journal=None,
    )


async def _make(
    broker: Broker, name: str, moves: Mapping[Topic, Move], *, asked: str, by: str
) -> list[Subscription]:
    """Make it where the reset goes, on all these topics in one step: a crash leaves all of them, with
    the reset in their history, or none. Those are left out where another reset was first."""
    now_ms = broker.clock.wall_ms()
    news = []
    for topic, move in moves.items():
        cursor = Cursor(topic.log.first_index, topic.visible_end)
        cursor.seek(_clamp(move.to, cursor))
        record = ResetRecord(
            now_ms, by, asked, move.was, move.to, cursor.epoch, move.redelivered, move.skipped
        )
        assert cursor.epoch == move.epoch, f"{move} came to {cursor}"
        news.append(
            NewSubscription(topic, name, cursor, {"resets": ResetHistory([record]).to_doc()})
        )
    while True:
        news = [one for one in news if name not in one.topic.subscriptions]
        try:
            made = await broker.create_subscriptions(news) if news else []
        except AlreadyExists:
            if all(name not in one.topic.subscriptions for one in news):
                raise
        else:
            broker.counters.seeks += len(made)
            return made


def _note(move: Move, known: Subscription | None) -> str:
    notes = [move.note, "" if known is not None else "the subscription is new"]
    return "; ".join(filter(None, notes))


def perform(
    broker: Broker,
    subscriptions: Sequence[Subscription],
    moves: Sequence[Move],
    *,
    asked: str,
    by: str,
) -> asyncio.Future[list[None]]:
    """Move every cursor now; the future is done when all of it is on disk, or says why not."""
    loop = asyncio.get_running_loop()
    now_ms = broker.clock.wall_ms()
    durable: list[asyncio.Future[None]] = []
    with broker.store.together():
        for subscription, move in zip(subscriptions, moves, strict=True):
            done: asyncio.Future[None] = loop.create_future()
            durable.append(done)
            record = ResetRecord(
                now_ms, by, asked, move.was, move.to, move.epoch, move.redelivered, move.skipped
            )
            record.waiting = subscription.waiting_labels()
            for consumer in subscription.seek(move.to, _settler(done), everyone=True):
                broker.tell_closed(consumer)
            assert subscription.cursor.epoch == move.epoch, f"{move} came to {subscription}"
            subscription.resets.add(record)
            broker.counters.seeks += 1
    return asyncio.gather(*durable, loop.create_task(documents.save(broker.engine, subscriptions)))


def _settler(done: asyncio.Future[None]) -> Done:
    def settle(error: PersistenceError | None) -> None:
        if not done.done():
            done.set_exception(error) if error else done.set_result(None)

    return settle


def obeyed(broker: Broker, consumer: Consumer) -> None:
    """A consumer is at the position of the last reset: it came back and asked for messages, or said
    so."""
    owner = consumer.subscription.owner
    if owner.resets.obeyed(consumer.subscription.label_of(consumer)):
        broker.spawn(_save_quietly(broker, owner))


async def _save_quietly(broker: Broker, subscription: Subscription) -> None:
    with suppress(MilepostError):  # the list of who obeyed is for people to read, and memory has it
        await documents.save(broker.engine, [subscription])
