"""A broker on a stage: real topics, subscriptions, cursors and store; disk, clock and loop by hand.

    with Stage() as stage:
        topic = stage.topic()
        consumer = stage.consumer(stage.subscription(topic), permits=5)
        stage.publish(stage.producer(topic), message(0), batch(1, 3))
        consumer.peer.take()                    # what its client got
        stage.engine.holds_journal = True       # from now on nothing becomes durable
        stage = stage.restarted()               # the process died; a new one has its files

`turn` lets everything happen that can, and then checks what must hold after every step: each cursor's
invariants, that its four numbers add up (promise 4), and that consumers count what the cursor counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar, cast

from milepost.broker.broker import Broker
from milepost.broker.dispatch.consumer import NO_EPOCH, Consumer
from milepost.broker.dispatch.dispatchers import EXCLUSIVE
from milepost.broker.settings.settings import Settings
from milepost.broker.subscription.broadcast import BroadcastGroup, MemberSubscription
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.producer import Producer
from milepost.broker.topic.topic import Publication, Topic
from milepost.cursor.cursor import TRANSACTIONS
from milepost.positions.names import TopicName
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog
from milepost.storage.engine import StorageEngine
from milepost.storage.ledgers.log import RollPolicy
from milepost.storage.store import Store
from milepost.testing.bucket import MemoryBucket
from milepost.testing.clock import ManualClock
from milepost.testing.crash import power_loss
from milepost.testing.files import MemoryFiles
from milepost.testing.peer import Loopback, RecordingPeer
from milepost.wire.events import Ack, WireId
from stage.bucket import BucketStore, HandBucketEngine
from stage.engine import HandEngine
from stage.frames import sends
from stage.loop import TURNS_MAX, TurnLoop
from stage.only_worker import StageRegistry, leave, only_worker
from stage.tests_on import BUCKET, TESTS_ON, WORKERS

T = TypeVar("T")

TOPIC = "persistent://public/default/t"


class Stage:
    def __init__(
        self,
        *,
        files: MemoryFiles | None = None,
        catalog_image: Any = None,
        clock: ManualClock | None = None,
        tail_size: int = 1 << 20,
        ledger_entries_max: int = 1000,
        traced: bool = False,
        bucket: MemoryBucket | None = None,
        registry: StageRegistry | None = None,
        **settings: Any,
    ) -> None:
        """`tail_size` 0: what a checkpoint has stored is read from the disk. `traced`: the catalog is
        marked in the trace of the files at each commit, so that crash images of it can be opened.
        `bucket`, `registry`: of the process before; by `MILEPOST_TESTS_ON` a stage has one of its own."""
        self._made_with = dict(
            tail_size=tail_size, ledger_entries_max=ledger_entries_max, **settings
        )
        is_plain = files is None and not traced
        if TESTS_ON == BUCKET and is_plain and bucket is None:
            bucket = MemoryBucket()
        if TESTS_ON == WORKERS and is_plain and registry is None:
            registry = StageRegistry()
        self._bucket = bucket
        self._registry = registry
        self._bucket_store: BucketStore | None = None
        self.files = files or MemoryFiles()
        self.clock = clock or ManualClock()
        options = {
            "roll_policy": RollPolicy(entries_max=ledger_entries_max),
            "tail_size_max": tail_size,
        }
        if bucket is None:
            catalog = self._catalog(catalog_image, traced=traced)
            self.store = Store(self.files, catalog, self.clock, **options)
        else:
            self._bucket_store = BucketStore(bucket, self.clock, **options)
            self.store = self._bucket_store.store
        self._consumer_ids = itertools.count()
        self._successor: Stage | None = None

        def make() -> Broker:
            on = self._bucket_store
            self.engine = HandEngine(self.store) if on is None else HandBucketEngine(on)
            made = self._settings(settings)
            workers = None if registry is None else only_worker(registry)
            return Broker(made, cast("StorageEngine", self.engine), self.clock, workers)

        self.loop = self._loop()
        try:
            self.broker = self.loop.do(make)
            self.run(self.broker.start())
        except BaseException:
            self.loop.close()  # a disk that no broker starts on
            raise

    # What a stage that is made by the thousand makes at less expense.

    def _catalog(self, image: Any, *, traced: bool) -> Any:
        return SqliteCatalog(None, image=image, on_commit=self._mark if traced else None)

    def _settings(self, changed: dict[str, Any]) -> Settings:
        return Settings(data=Path("unused"), **changed)

    def _loop(self) -> Any:
        return TurnLoop()

    def _mark(self, catalog: SqliteCatalog) -> None:
        self.files.trace.mark("catalog", catalog.image())

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Take everything away, as a dying process does."""
        if self._successor is not None:
            self._successor.close()
        if self.loop.is_closed():
            return
        try:
            for topic in self.broker.topics.values():
                for subscription in topic.subscriptions.values():
                    subscription.dispatcher = None  # or a feed would begin its next read
            if self.broker.workers is not None:
                leave(self.broker.workers)
            while self.broker._tasks:
                for task in list(self.broker._tasks):
                    task.cancel()
                self.loop.turn()
        finally:
            self.store.journal.close()
            self.store.catalog.close()
            if self._bucket_store is not None:
                self._bucket_store.close()
            self.loop.close()

    # -- time --------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Let everything happen that can, then check what must hold."""
        for _ in range(TURNS_MAX):
            self.loop.turn()
            if not self.engine.work():
                self.check()
                return
        raise AssertionError(f"not quiet after {TURNS_MAX} turns")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something to its end, which must not wait for what is held."""
        task = self.loop.begin(work)
        self.turn()
        assert task.done(), f"it waits: {work}"
        return task.result()

    def tick(self, seconds: float = 1.0) -> None:
        """Let time pass in steps of one second, each with the broker's tick."""
        while seconds > 0:
            self.clock.advance(min(seconds, 1.0))
            seconds -= 1.0
            self.broker._tick()
            self.turn()

    def checkpoint(self) -> None:
        self.turn()
        if self._bucket_store is None:
            self.store.checkpoint()
        else:
            self.run(self.engine.checkpoint())
        self.turn()

    def restarted(self, *, checkpoint: bool = False, power_lost: str = "", seed: int = 0) -> Stage:
        """The process is gone; another one opens what the disk has. `power_lost`: so is the machine, with
        this outcome of what was not synced (milepost.testing.crash)."""
        if checkpoint:
            self.checkpoint()
        if self._bucket is not None:  # of the machine nothing is needed
            self.close()
            self._successor = type(self)(bucket=self._bucket, clock=self.clock, **self._made_with)
            return self._successor
        image = cast("SqliteCatalog", self.store.catalog).image()
        if power_lost:
            files = power_loss(self.files, power_lost, seed)
        else:
            files = MemoryFiles(self.files.contents(), self.files.folders())
        self.close()
        self._successor = type(self)(
            files=files,
            catalog_image=image,
            clock=self.clock,
            registry=self._registry,
            **self._made_with,
        )
        return self._successor

    @property
    def records(self) -> int:
        """Records of the journal, without changes of the catalog: those are there on a bucket only."""
        on = self._bucket_store
        return self.store.journal.last_sequence - (0 if on is None else on.changes)

    # -- who is on it ------------------------------------------------------------------------------

    def topic(self, name: str = TOPIC) -> Topic:
        return self.run(self.broker.topic(TopicName.parse(name)))

    def producer(
        self, topic: Topic, name: str = "p", peer: RecordingPeer | None = None, producer_id: int = 0
    ) -> Producer:
        producer = Producer(producer_id, name, peer or RecordingPeer(), topic)
        topic.producers[name] = producer
        if topic.dedup is not None:
            topic.dedup.opened(name)
        return producer

    def publish(self, producer: Producer, *frames: bytes) -> Publication:
        with self.engine.here():  # a connection would wait
            publication = producer.topic.publish(producer, sends(*frames))
        self.turn()
        return publication

    def subscription(
        self, topic: Topic, name: str = "s", at: int = 0, *, durable: bool = True
    ) -> Subscription:
        if name in topic.subscriptions:
            return topic.subscriptions[name]
        if durable:
            return self.run(self.broker.create_subscription(topic, name, at))
        return self.loop.do(lambda: self.broker.create_reader(topic, name, at))

    def consumer(
        self,
        subscription: Subscription,
        sub_type: int = EXCLUSIVE,
        *,
        name: str = "c",
        permits: int = 0,
        priority: int = 0,
        epoch: int = NO_EPOCH,
        key_ranges: list[tuple[int, int]] | None = None,
        peer: RecordingPeer | None = None,
        takes_runs: bool = False,
    ) -> Consumer:
        consumer = Consumer(
            self.broker.next_holder(),
            next(self._consumer_ids),
            name,
            peer or RecordingPeer(name),
            subscription,
            partition=subscription.topic.name.partition,
            priority=priority,
            epoch=epoch,
            key_ranges=key_ranges,
            takes_runs=takes_runs,
        )
        subscription.add_consumer(consumer, sub_type, sticky=key_ranges is not None)
        if permits:
            subscription.flow(consumer, permits)
        self.turn()
        return consumer

    def client(self, **options: Any) -> Loopback:
        """A connection without a socket; the handshake is done."""
        client = self.loop.do(lambda: Loopback(self.broker, **options))
        self.turn()
        if options.get("handshake", True):
            client.take()
        return client

    # -- what consumers do -------------------------------------------------------------------------

    def flow(self, consumer: Consumer, permits: int) -> None:
        consumer.subscription.flow(consumer, permits)
        self.turn()

    def ack(self, consumer: Consumer, *ids: WireId, cumulative: bool = False) -> list[Any]:
        """Ack, and give what it was answered: [None] when it is durable, [] while it waits."""
        answers: list[Any] = []
        ack = Ack(consumer.consumer_id, cumulative, list(ids), 1)
        with self.engine.here():  # a connection would wait
            consumer.subscription.ack(consumer, ack, answers.append)
        self.turn()
        return answers

    def seek(self, subscription: Subscription, index: int) -> list[Any]:
        """A seek without an epoch: the consumers are told to go, as the broker tells them."""
        answers: list[Any] = []
        for consumer in subscription.seek(index, answers.append):
            self.broker.tell_closed(consumer)
        self.turn()
        return answers

    def here(self, step: Callable[[], T]) -> T:
        """Take a step of the test, which may read the disk."""
        with self.engine.here():
            return step()

    # -- what must hold ----------------------------------------------------------------------------

    def check(self) -> None:
        for topic in self.broker.topics.values():
            for subscription in topic.subscriptions.values():
                for part in subscription.parts():
                    check_subscription(part)


def check_subscription(subscription: Subscription) -> None:
    cursor, end_index = subscription.cursor, subscription.topic.visible_end
    cursor.check()
    counts = cursor.counts()
    assert min(counts) >= 0, counts
    assert sum(counts) == cursor.end - cursor.first, counts
    if isinstance(subscription, MemberSubscription) and not any(
        consumer.permits > 0 for consumer in subscription.consumers
    ):
        assert cursor.end <= end_index  # it hears of the rest when it comes, or asks
    else:
        assert cursor.end == end_index, (cursor.end, end_index)
    if isinstance(subscription, BroadcastGroup):
        assert subscription.position > cursor.mark_delete_index, subscription
        assert counts.inflight == 0, counts
        return  # its consumers are its members'
    held = 0
    for consumer in subscription.consumers:
        assert not consumer.is_closed, consumer
        inflight = cursor.inflight_of(consumer.holder).count
        assert consumer.unacked == inflight, (consumer, consumer.unacked, inflight)
        held += inflight
    pended = cursor.inflight_count_of(TRANSACTIONS)
    assert held == subscription.unacked, (counts, held, subscription.unacked)
    assert counts.inflight == held + pended, (counts, held, pended)
    if subscription.dispatcher is not None:
        assert sorted(c.holder for c in subscription.dispatcher.consumers) == sorted(
            c.holder for c in subscription.consumers
        )
