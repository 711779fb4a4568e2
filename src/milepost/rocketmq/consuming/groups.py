"""A consumer group on a topic: polls that wait, and the queues that serve them.

A poll names a topic and a group; which queue serves it is decided here, each in its turn. A poll waits until
something has arrived or its time is over: new messages, messages whose lease is over and a reset all wake it.
The subscription has a consumer only while clients poll or hold messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from milepost.broker.dispatch.dispatchers import SHARED
from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.errors import (
    ConsumerBusy,
    MilepostError,
    NotAllowed,
    ServiceNotReady,
)
from milepost.positions.names import TopicName
from milepost.rocketmq.clients import Clients
from milepost.rocketmq.consuming import subscriptions
from milepost.rocketmq.consuming.queues import Held, Queue
from milepost.rocketmq.filters.expressions import Filter

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

# What has arrived and no poll has taken is kept so long.
KEPT_S = 1.0
# A group without polls and leases leaves its subscriptions after so long.
IDLE_S = 30.0
# Messages that a queue may be asked for at once, however many polls wait.
WANTED_MAX = 1024

# Who holds a message that no client may have any more: every client's name has a slash.
NO_CLIENT = ""
# A message on its way to the dead letters is held so long. If it cannot be stored there, it is tried again
# then, and not before.
BURIAL_S = 30.0

Bury = Callable[[Held, "Group"], Coroutine[Any, Any, None]]


@dataclass(slots=True, eq=False)
class Poll:
    """One ReceiveMessage that waits."""

    client: str
    wanted: Filter
    count: int
    """How many messages it takes at most."""
    invisible_s: float
    renews_s: float
    check: Callable[[], None]
    """Raises if the client has lost its right in the meantime."""
    took: Callable[[list[Held]], None]
    """Hears what it gets, at once."""
    keeps_order: bool = True
    """The client works off in order what comes in one answer."""
    taken: asyncio.Future[list[Held]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Group:
    def __init__(
        self,
        broker: Broker,
        clients: Clients,
        topic: TopicName,
        name: str,
        numbers: Iterator[int],
        bury: Bury,
    ) -> None:
        """`numbers` are those of leases. `bury` moves a message that was delivered too often to the dead
        letters."""
        self._broker = broker
        self._clients = clients
        self._bury = bury
        self._numbers = numbers
        self.topic = topic
        self.name = name
        self.queues: dict[int, Queue] = {}
        # Those that wait, the first come first.
        self._polls: dict[Poll, None] = {}
        self._turn = 0
        self.used = broker.clock.monotonic()
        self._loop = asyncio.get_running_loop()
        self._is_pumping = self._again = False
        # A filter may be slow, and leave out thousands of messages: other clients have their turn.
        self._slices = TimeSlices(broker.clock)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    @property
    def is_idle(self) -> bool:
        return not self._polls and all(queue.is_idle for queue in self.queues.values())

    # -- polls -------------------------------------------------------------------------------------

    async def receive(self, poll: Poll, wait_s: float) -> list[Held]:
        """Messages, as soon as there are any; none when the time is over."""
        self.used = self._broker.clock.monotonic()
        self._polls[poll] = None
        self._wake()
        try:
            await asyncio.wait({poll.taken}, timeout=wait_s)
        except BaseException:
            if poll.taken.done() and not poll.taken.exception():
                self.give_back(poll.taken.result())
            raise
        finally:
            self.used = self._broker.clock.monotonic()
            if poll in self._polls:
                del self._polls[poll]
                self._wake()  # what was asked for it is not wanted any more
        return poll.taken.result() if poll.taken.done() else []

    def give_back(self, taken: list[Held]) -> None:
        """The client has not got them."""
        for queue, lease, _ in taken:
            if queue.leases.find(lease.index, lease.number) is lease:
                queue.end(lease, count=False)

    def withhold(self, held: Held, seconds: float) -> None:
        """The client cannot have it: it is ready again after a while, as one that has failed."""
        queue, lease, _ = held
        if queue.leases.find(lease.index, lease.number) is lease:
            queue.leases.move(lease, self._broker.clock.monotonic() + seconds)
            self.lease_moved()

    def close(self) -> None:
        """Answer waiting polls with nothing, and leave the subscriptions."""
        for poll in self._polls:
            if not poll.taken.done():
                poll.taken.set_result([])
        self._polls.clear()
        for queue in self.queues.values():
            queue.close()
        self.queues.clear()
        if self._timer is not None:
            self._timer.cancel()

    def look_for_partitions(self) -> None:
        """Polls that wait are for the messages of added partitions too."""
        if self._polls and len(self.queues) < (self._broker.directory.partitions(self.topic) or 1):
            self._wake()

    def client_left(self, client: str) -> None:
        """What a client held is ready again."""
        for queue in self.queues.values():
            for lease in queue.leases.of_client(client):
                queue.end(lease, count=True)

    # -- the pump: one step at a time, and again when something has changed meanwhile ---------------

    def _wake(self) -> None:
        self._again = True
        if not self._is_pumping:
            self._is_pumping = True
            self._broker.spawn(self._pump())

    async def _pump(self) -> None:
        try:
            self._slices = TimeSlices(self._broker.clock)
            while self._again:
                self._again = False
                if self._slices.is_over:
                    await self._slices.rest()
                try:
                    await self._step()
                except MilepostError as error:
                    self._refuse_all(error)
        finally:
            self._is_pumping = False

    async def _step(self) -> None:
        if self._polls:
            await self._open_queues()
        for queue in list(self.queues.values()):
            await queue.unpack()
        self._serve()
        self._ask()

    def _refuse_all(self, error: MilepostError) -> None:
        """The topic is gone, or the subscription is another client's: polls hear why."""
        polls, self._polls = self._polls, {}
        for poll in polls:
            if not poll.taken.done():
                poll.taken.set_exception(error)
        for queue in list(self.queues.values()):
            if queue.is_idle:
                queue.close()

    def _serve(self) -> None:
        """Give what has arrived to the polls, in their order, until nothing is left."""
        for poll in list(self._polls):
            if not self._may_wait(poll):
                continue
            taken = self._take(poll)
            if not taken:
                break  # nothing that could go has arrived: those behind get nothing either
            del self._polls[poll]
            poll.took(taken)
            poll.taken.set_result(taken)
        self._set_timer()

    def check_polls(self) -> None:
        """End polls whose clients have lost their right."""
        for poll in list(self._polls):
            self._may_wait(poll)

    def _may_wait(self, poll: Poll) -> bool:
        try:
            poll.check()
        except MilepostError as error:
            del self._polls[poll]
            if not poll.taken.done():
                poll.taken.set_exception(error)
            return False
        return True

    def _take(self, poll: Poll) -> list[Held]:
        taken: list[Held] = []
        now = self._broker.clock.monotonic()
        until = now + poll.invisible_s
        numbers = sorted(self.queues)
        self._turn += 1
        skipped = 0
        for step in range(len(numbers)):
            queue = self.queues[numbers[(self._turn + step) % len(numbers)]]
            mine: set[int] = set()
            while len(taken) < poll.count:
                if skipped and self._slices.is_over:
                    self._again = True  # after a rest
                    return taken
                arrived = queue.next_arrived(mine)
                if arrived is None:
                    break
                if not poll.wanted.wants(arrived.view.properties):
                    queue.skip(arrived)
                    skipped += 1
                elif queue.is_worn_out(arrived):
                    held = queue.lease(arrived, NO_CLIENT, until=now + BURIAL_S, renews_s=0.0)
                    self._broker.spawn(self._bury(held, self))
                else:
                    taken.append(queue.lease(arrived, poll.client, until, poll.renews_s))
                    if poll.keeps_order:
                        mine.add(arrived.view.index)
        return taken

    def _ask(self) -> None:
        """Have as much arrive as polls wait for."""
        wanted = 0
        for poll in self._polls:
            if wanted >= WANTED_MAX:
                break
            wanted += poll.count
        wanted = min(wanted, WANTED_MAX)
        for queue in self.queues.values():
            # In order, what has arrived may have to wait for what clients hold.
            is_full = len(queue.arrived) >= WANTED_MAX or not queue.is_writable
            if is_full and queue.is_fifo and not queue.leases:
                queue.give_back()  # it waits for what has not arrived
                is_full = False
            queue.want(0 if is_full else wanted)
        if not self._polls and any(queue.arrived for queue in self.queues.values()):
            self._loop.call_later(KEPT_S, self.give_back_arrived)

    def give_back_arrived(self) -> None:
        """No poll has come for what has arrived: other consumers of the subscription may have it."""
        # While entries are being unpacked only a part of them could be given back, and what is behind it
        # would come first. When they are, this is asked for again.
        if not self._polls and not self._is_pumping:
            for queue in self.queues.values():
                queue.give_back()

    # -- leases ------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        ends = [end for queue in self.queues.values() if (end := queue.leases.next_end) is not None]
        if not ends:
            return
        end = min(ends)
        if self._timer is not None:
            if self._timer_at <= end:
                return
            self._timer.cancel()
        self._timer_at = end
        delay_s = max(end - self._broker.clock.monotonic(), 0)
        self._timer = self._loop.call_later(delay_s, self.end_leases)

    def end_leases(self) -> None:
        """Make messages ready again whose time is over."""
        self._timer = None
        now = self._broker.clock.monotonic()
        for queue in self.queues.values():
            for lease in queue.leases.take_over(now, self._clients.is_alive):
                self._broker.counters.rocketmq_leases_over += 1
                queue.make_ready(lease.ranges, count=True)
        self._set_timer()

    def lease_acked(self) -> None:
        """What has waited for it may go."""
        if any(queue.is_fifo and queue.arrived for queue in self.queues.values()):
            self._wake()

    def lease_moved(self) -> None:
        """A lease ends at another time than before."""
        self._set_timer()

    # -- queues ------------------------------------------------------------------------------------

    async def _open_queues(self) -> None:
        """A queue for each partition; what the broker has closed is opened again."""
        for number, queue in list(self.queues.items()):
            if queue.is_closed:
                del self.queues[number]
        count = self._broker.directory.partitions(self.topic)
        for number in range(count or 1):
            if number not in self.queues:
                name = self.topic if count is None else self.topic.partition_name(number)
                await self._open(number, name)

    async def _open(self, number: int, name: TopicName) -> None:
        broker = self._broker
        topic = await broker.topic(name, create=False)
        subscription = await subscriptions.find_or_make(broker, topic, self.name)
        settled = asyncio.Event()
        subscription.seeks.after(settled.set)
        await settled.wait()
        topic.check_open()
        if subscriptions.find(topic, self.name) is not subscription:
            raise ServiceNotReady(f"subscription {self.name} of {name} was deleted meanwhile")
        _check_limits(topic, subscription)
        queue = Queue(broker, number, subscription, self._numbers, self._wake)
        subscription.add_consumer(queue.consumer, SHARED)
        self.queues[number] = queue


def _check_limits(topic: Topic, subscription: Subscription) -> None:
    if SHARED not in topic.policies.subscription_types:
        raise NotAllowed(f"{topic.name} allows no Shared subscriptions")
    limit = topic.policies.max_consumers_per_subscription
    if limit and len(subscription.consumers) >= limit:
        raise ConsumerBusy(f"subscription {subscription.name} has {limit} consumers already")
    limit = topic.policies.max_consumers
    if limit and sum(len(one.consumers) for one in topic.subscriptions.values()) >= limit:
        raise ConsumerBusy(f"topic {topic.name} has {limit} consumers already")


class Groups:
    """The groups that clients use now."""

    def __init__(self, broker: Broker, clients: Clients, bury: Bury) -> None:
        self._broker = broker
        self._clients = clients
        self._bury = bury
        self._groups: dict[tuple[str, str], Group] = {}
        self._numbers = count(1)

    def group(self, topic: TopicName, name: str) -> Group:
        key = topic.text, name
        if key not in self._groups:
            self._groups[key] = Group(
                self._broker, self._clients, topic, name, self._numbers, self._bury
            )
        return self._groups[key]

    def find(self, topic: TopicName, name: str) -> Group | None:
        return self._groups.get((topic.text, name))

    def client_left(self, client: str) -> None:
        for group in self._groups.values():
            group.client_left(client)

    def tick(self, now: float) -> None:
        """Leave subscriptions that no client uses, and join those of added partitions."""
        for key, group in list(self._groups.items()):
            if group.is_idle and now - group.used >= IDLE_S:
                del self._groups[key]
                group.close()
            else:
                group.look_for_partitions()
                group.check_polls()

    def close(self) -> None:
        for group in self._groups.values():
            group.close()
        self._groups.clear()
