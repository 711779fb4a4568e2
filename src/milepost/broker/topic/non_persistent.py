"""Non-persistent topics: messages go to the connected consumers and are not stored.

The same topic, cursor and dispatch as everywhere, over a log that has no journal: what is appended is
visible in the next turn of the loop, what was sent is done, and what no consumer took in time is dropped and
counted. A receipt says that the message was seen, no more. Nothing of it survives its last client, but for
the name of one that an operator has made: that stays until the topic is unloaded.

    publish ─▶ log, in memory ─▶ next turn: receipt, dispatch ─▶ sent: acked
                             └─▶ more than BACKLOG_SIZE_MAX waits: the oldest are dropped

Upstream drops what a consumer has no permit for at that moment; here it may wait a little.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from milepost.broker.messages import chunk_search, ids_to_indexes
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.producer_access import ProducerAccess
from milepost.broker.topic.topic import Topic
from milepost.cursor.cursor import Cursor
from milepost.errors import NotAllowed
from milepost.positions.names import TopicName
from milepost.storage.catalog.catalog import TopicRow
from milepost.storage.ledgers.log import Log, RollPolicy

if TYPE_CHECKING:
    from milepost.broker.dispatch.consumer import Consumer
    from milepost.broker.limits.subscription_limits import SubscriptionLimits
    from milepost.broker.metrics.counters import Counters
    from milepost.broker.peer import Buffer
    from milepost.broker.subscription.ack_journal import Done
    from milepost.broker.subscription.host import Host
    from milepost.cursor.outcomes import Delivered
    from milepost.errors import MilepostError
    from milepost.storage.files import Files
    from milepost.storage.ledgers.ledger import Ledger
    from milepost.wire.events import Ack, WireId

# What of one topic may wait in memory for slow consumers.
BACKLOG_SIZE_MAX = 4 * 1024 * 1024
# What is dropped at a time, and what stays when everybody has everything.
_ROLL = RollPolicy(size_bytes_max=128 * 1024, entries_max=200, age_ms_max=2**62)


class MemoryLog:
    """A log's owner that writes nothing down. `schedule` calls a function in the next turn."""

    roll_policy = _ROLL
    refused_through = -1

    def __init__(
        self,
        schedule: Callable[[Callable[[], None]], object],
        on_visible: Callable[[], None],
    ) -> None:
        """`on_visible` is called when everything that waited has been answered."""
        # Its ledgers never leave memory: they never ask for a file.
        self.files = cast("Files", None)
        self._on_visible = on_visible
        self._schedule = schedule
        self._waiting: list[Done] = []
        self._sequence = 0
        self._ledger_id = 0

    def submit(self, kind: int, owner: int, body: Sequence[bytes], done: Done) -> int:
        if not self._waiting:
            self._schedule(self._answer)
        self._waiting.append(done)
        self._sequence += 1
        return self._sequence

    def _answer(self) -> None:
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(None)
        self._on_visible()

    def at_once(self, work: Callable[[], None]) -> None:
        """Receipts do not wait for consumers: who sent is told that the message was seen, no more."""
        work()

    def mark_dirty(self, state_id: int) -> None:
        raise AssertionError(f"state {state_id} of a topic that stores nothing")

    def next_ledger_id(self) -> int:
        self._ledger_id += 1
        return self._ledger_id

    def touched(self, ledger: Ledger) -> None:
        """No checkpoint wants it."""


class NonPersistentTopic(Topic):
    def __init__(
        self,
        name: TopicName,
        schedule: Callable[[Callable[[], None]], object],
        *,
        now_ms: Callable[[], int],
        now_s: Callable[[], float],
        counters: Counters,
    ) -> None:
        memory = MemoryLog(schedule, self._make_room)
        super().__init__(
            TopicRow(0, str(name), {}),
            Log(0, str(name), [], memory),
            access=ProducerAccess(None),
            chunk_search=chunk_search,
            now_ms=now_ms,
            now_s=now_s,
            afterwards=memory.at_once,
            mark_dirty=memory.mark_dirty,
            counters=counters,
        )
        self.is_kept = False
        """An operator has made it: it stays without a client, until it is unloaded or deleted."""

    @property
    def is_idle(self) -> bool:
        return not (self.producers or self.subscriptions or self.is_kept)

    def subscribe(
        self, name: str, limits: SubscriptionLimits, host: Host
    ) -> NonPersistentSubscription:
        """A subscription to what comes from now on."""
        cursor = Cursor(self.log.first_index, self.log.end_index, at=self.log.end_index)
        return NonPersistentSubscription(
            self, name, cursor, host=host, limits=limits, state_id=None, journal=None
        )

    def _make_room(self) -> None:
        """Forget what everybody has; and if that is not enough, the oldest."""
        log, wanted = self.log, self.log.end_index
        for subscription in self.subscriptions.values():
            wanted = min(wanted, subscription.wanted_index)
        gone = len(log.trimmable(wanted))
        size_left = log.size_bytes - sum(ledger.size_bytes for ledger in log.ledgers[:gone])
        for ledger in log.ledgers[gone:-1]:
            if size_left <= BACKLOG_SIZE_MAX:
                break
            size_left -= ledger.size_bytes
            gone += 1
        if not gone:
            return
        log.trimmed(gone)
        for subscription in self.subscriptions.values():
            before = subscription.cursor.counts().ready
            subscription.trim(log.first_index)
            dropped = before - subscription.cursor.counts().ready
            subscription.counts.dropped += dropped
            self.messages_dropped += dropped
            self.counters.messages_dropped += dropped


class NonPersistentSubscription(Subscription):
    """A subscription that waits for no acks: what was sent is done."""

    def _took(
        self, consumer: Consumer, went: Delivered, buffers: Sequence[Buffer] = (), permits: int = 0
    ) -> None:
        super()._took(consumer, went, buffers, permits)
        self.note_acked(self.cursor.ack(went.ranges, consumer.holder))

    def ack(
        self, consumer: Consumer, ack: Ack, done: Callable[[MilepostError | None], None]
    ) -> None:
        done(None)

    def redeliver(
        self,
        consumer: Consumer,
        ids: Sequence[WireId],
        epoch: int,
        named: ids_to_indexes.Named = None,
    ) -> None:
        """There is nothing left to send again."""

    def seek(
        self, index: int, done: Done, *, by: Consumer | None = None, everyone: bool = False
    ) -> list[Consumer]:
        raise NotAllowed(f"{self.topic.name} is not persistent: there is nothing to go back to")


def names(topics: Mapping[str, Topic], namespace: str) -> list[str]:
    """The non-persistent topics of a namespace that are open."""
    prefix = f"non-persistent://{namespace}/"
    return sorted(name for name in topics if name.startswith(prefix))


def idle(topics: Iterable[Topic]) -> list[NonPersistentTopic]:
    """Topics without a client: nothing is left of them."""
    return [topic for topic in topics if isinstance(topic, NonPersistentTopic) and topic.is_idle]
