"""One queue of a consumer group: its consumer in the broker, what has arrived for it, and its leases.

    broker ─▶ delivered ─▶ unpack ─▶ arrived ─▶ lease ─▶ a client
                                        └▶ given back when no client asks for it

The broker delivers entries; clients get messages. A batch may bring more messages than a poll has asked for:
they wait here, for a short time, and are not leased before a client gets them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.messages.browse import message_of
from milepost.broker.messages.message_view import MessageView, delivered_views
from milepost.broker.operations import leases as broker_leases
from milepost.broker.operations.leases import Standing
from milepost.broker.subscription.subscription import Subscription
from milepost.errors import MilepostError
from milepost.positions.ackset import AckSet
from milepost.positions.ranges import Range
from milepost.rocketmq.consuming.leases import Lease, Leases, MessageGroups
from milepost.rocketmq.peer import EdgePeer
from milepost.wire.events import Delivery
from milepost.wire.metadata import (
    chunk_info,
    entry_metadata_and_end,
    message_count,
    split_broker_entry,
)

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

CONSUMER_NAME = "rocketmq"
# Properties of a subscription: "true" for a FIFO group, and how often a message that failed comes again.
FIFO, RETRIES = "rocketmq.fifo", "rocketmq.retries"
RETRIES_DEFAULT, RETRIES_MAX = 16, 10_000


class Manner(NamedTuple):
    """How a group gets its messages."""

    is_fifo: bool = False
    """Those of one message group come one after the other."""
    attempts_max: int = RETRIES_DEFAULT + 1
    """After so many deliveries a message goes to the dead letters."""


def manner_of(properties: Mapping[str, str]) -> Manner:
    """That of a group whose subscriptions have these properties.

    >>> manner_of({"rocketmq.retries": "2"}), manner_of({"rocketmq.retries": "many"}).attempts_max
    (Manner(is_fifo=False, attempts_max=3), 17)
    """
    said = properties.get(RETRIES, "")
    retries = int(said) if said.isascii() and said.isdigit() else RETRIES_DEFAULT
    return Manner(properties.get(FIFO) == "true", min(retries, RETRIES_MAX) + 1)


class Arrived(NamedTuple):
    """A message that the broker has delivered and no client has got yet."""

    view: MessageView
    ranges: Sequence[Range]
    """What it is to the subscription: its index, or those of all its chunks."""
    attempt: int
    """1 for the first delivery."""


class Held(NamedTuple):
    """A message that a client gets."""

    queue: Queue
    lease: Lease
    arrived: Arrived


# Bytes that have come and no client has got. While there are more, nothing else comes.
ARRIVED_SIZE_MAX = 16 * 1024 * 1024


class Queue(EdgePeer):
    has_consumers = True

    def __init__(
        self,
        broker: Broker,
        number: int,
        subscription: Subscription,
        numbers: Iterator[int],
        on_change: Callable[[], None],
    ) -> None:
        """`numbers` are those of its leases. `on_change` is called when something has come, or the broker
        has closed the consumer."""
        super().__init__()
        self._broker = broker
        self.number = number
        self.subscription = subscription
        self.topic = subscription.topic
        self._on_change = on_change
        self.consumer = Consumer(
            broker.next_holder(),
            0,
            CONSUMER_NAME,
            self,
            subscription,
            partition=self.topic.name.partition,
            connected_since_ms=broker.clock.wall_ms(),
            reads_any=True,
        )
        self.epoch = broker_leases.epoch_of(subscription)
        """Of all its leases: a reset closes the consumer, and another queue takes its place."""
        self._deliveries: deque[Delivery] = deque()
        self.arrived: deque[Arrived] = deque()
        self._size = 0
        self.leases = Leases(numbers)
        self.is_fifo = manner_of(subscription.owner.properties).is_fifo
        self._order = MessageGroups()

    @property
    def is_closed(self) -> bool:
        return self.consumer.is_closed

    @property
    def is_idle(self) -> bool:
        return not (self.leases or self.arrived or self._deliveries)

    @property
    def is_writable(self) -> bool:
        """Is there room for more of what the broker delivers?"""
        return self._size < ARRIVED_SIZE_MAX

    def _went(self, size: int) -> None:
        """So many bytes are with a client, or with the broker again."""
        was_full = not self.is_writable
        self._size -= size
        if was_full and self.is_writable and not self.is_closed:
            self.subscription.rescan()

    # -- what the broker says ----------------------------------------------------------------------

    def delivered(self, delivery: Delivery) -> None:
        self._deliveries.append(delivery)
        self._size += len(delivery.entry)
        self._on_change()

    def forget_consumer(self, consumer: Consumer) -> None:
        """The topic was unloaded, the subscription moved or deleted: what clients hold is void."""
        self._deliveries.clear()
        self.arrived.clear()
        self._size = 0
        self.leases.clear()
        self._order.clear()
        self._on_change()

    def fail(self, reason: str) -> None:
        self.close()

    def close(self) -> None:
        """Leave the subscription: everything that is not acked is ready again."""
        if not self.is_closed:
            self._broker.remove_consumer(self.consumer)

    # -- messages ----------------------------------------------------------------------------------

    def want(self, messages: int) -> None:
        """Have so many messages arrive; 0: none for now."""
        if not self.is_closed:
            broker_leases.want(self.consumer, messages)

    async def unpack(self) -> None:
        """Make messages of the entries that have come."""
        while self._deliveries:
            delivery = self._deliveries[0]
            try:
                found = await self._unpacked(delivery)
            except (
                MilepostError
            ) as error:  # it stays with the consumer, and comes again when that leaves
                self._broker.unexpected("rocketmq", error)
                found = []
            if self._deliveries and self._deliveries[0] is delivery:  # else it was closed meanwhile
                self._deliveries.popleft()
                self._end_void_leases(found)
                self.arrived += found
                self._size += sum(len(one.view.payload) for one in found)
                self._went(len(delivery.entry))

    async def _unpacked(self, delivery: Delivery) -> list[Arrived]:
        engine, topic = self._broker.engine, self.topic
        added, at = split_broker_entry(delivery.entry)
        metadata, _ = entry_metadata_and_end(delivery.entry[at:])
        if added is None or added.index is None:  # the operator has switched that off
            place = delivery.ledger_id, delivery.entry_id
            last_index = (await engine.look(lambda: topic.lookup(*place)))[1] - 1
        else:
            last_index = added.index
        attempt = delivery.redelivery_count + 1
        chunk = chunk_info(metadata)
        if chunk is not None:
            if not chunk.is_last:
                return []  # the last one speaks for all
            whole = await message_of(topic, last_index, engine)
            ranges = await broker_leases.ranges_of(topic, last_index, engine)
            return (
                []
                if whole is None
                else [Arrived(whole._replace(index=last_index), ranges, attempt)]
            )
        came_ms = metadata.publish_time if added is None else added.timestamp or 0
        views = delivered_views(
            delivery, last_index, came_ms, at, size_max=self._broker.settings.max_message_size
        )
        count = message_count(metadata)
        if count > 1 and len(views) == 1 and views[0].fault:
            # A batch that cannot be split is one message here: all of it that is not acked.
            first = last_index - count + 1
            shown = AckSet.from_message_words(delivery.ack_set, count).bits
            ranges = [(first + at, first + at + 1) for at in range(count) if shown >> at & 1]
            return [Arrived(views[0], ranges, attempt)]
        return [Arrived(one, ((one.index, one.index + 1),), attempt) for one in views]

    def next_arrived(self, mine: Collection[int]) -> Arrived | None:
        """The next message that can be given to a client, which gets the indexes `mine` too."""
        if self.is_fifo:
            return self._next_in_order(mine)
        while self.arrived:
            arrived = self.arrived.popleft()
            self._went(len(arrived.view.payload))
            # An operator, a policy or another client may have acked it in the meantime.
            if broker_leases.holds(self.consumer, arrived.ranges):
                return arrived
        return None

    def _next_in_order(self, mine: Collection[int]) -> Arrived | None:
        def is_done(index: int) -> bool:
            found = broker_leases.standing(self.subscription, index, self.epoch)
            return found is not Standing.OPEN

        place = 0
        while place < len(self.arrived):
            arrived = self.arrived[place]
            index, key = arrived.view.index, arrived.view.key or ""
            is_held = broker_leases.holds(self.consumer, arrived.ranges)
            if is_held and not self._order.may_go(key, index, mine, is_done):
                place += 1
                continue
            del self.arrived[place]
            self._went(len(arrived.view.payload))
            if is_held:
                return arrived
        return None

    def is_worn_out(self, arrived: Arrived) -> bool:
        """Was it delivered as often as the group wants it?"""
        if arrived.attempt == 1:
            return False
        return arrived.attempt > manner_of(self.subscription.owner.properties).attempts_max

    def lease(self, arrived: Arrived, client: str, until: float, renews_s: float) -> Held:
        index, key = arrived.view.index, arrived.view.key or ""
        self._end_void_leases([arrived])
        lease = self.leases.grant(index, arrived.ranges, client, until, renews_s, key)
        if self.is_fifo:
            self._order.went(key, index)
        return Held(self, lease, arrived)

    def _end_void_leases(self, arrived: Iterable[Arrived]) -> None:
        """What comes again while a client has it was taken from that client, by a transaction that was
        aborted."""
        for one in arrived:
            if (lease := self.leases.at(one.view.index)) is not None:
                self.leases.end(lease)

    def acked(self, lease: Lease) -> None:
        """A lease ends by an ack."""
        self.leases.end(lease)
        self._order.done(lease.key, lease.index)

    def skip(self, arrived: Arrived) -> None:
        """The group does not want it: it is acked without having been seen."""
        self.subscription.pass_over(arrived.ranges)

    def make_ready(self, ranges: Sequence[Range], *, count: bool) -> None:
        """Make messages ready again. With `count`: a client had its chance."""
        if not self.is_closed:
            broker_leases.release(self.consumer, ranges, count=count)
            if count and self.is_fifo:
                # What has come waits behind it, and would keep it from coming.
                self.give_back()
                self._on_change()

    def end(self, lease: Lease, *, count: bool) -> None:
        """A lease ends without an ack."""
        self.leases.end(lease)
        self.make_ready(lease.ranges, count=count)

    def give_back(self) -> None:
        """No client asks for what has arrived."""
        arrived = list(self.arrived)
        self.arrived.clear()
        self._went(sum(len(one.view.payload) for one in arrived))
        for one in arrived:
            self.make_ready(one.ranges, count=False)
