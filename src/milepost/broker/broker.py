"""The running broker: opens and closes topics, starts, stops and ticks.

Topics are opened on first use and stay open. Everything that waits for the disk is awaited here or in
the handlers; what happens to a topic or subscription is decided in theirs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from milepost import __version__
from milepost.broker import topic_loader
from milepost.broker.connection.access_control import AccessControl
from milepost.broker.connection.listener import stop_listening
from milepost.broker.connection.session import Session
from milepost.broker.directory.directory import Directory, StoredTopic, fetch_topic
from milepost.broker.directory.schema_registry import SchemaRegistry
from milepost.broker.directory.topic_watchers import TopicWatchers
from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.dynamic_settings import DynamicSettings
from milepost.broker.limits.connection_limits import ConnectionLimits
from milepost.broker.limits.memory import MemoryLimit
from milepost.broker.limits.sliced_steps import SlicedSteps, Step
from milepost.broker.limits.subscription_limits import SubscriptionLimits
from milepost.broker.messages import chunk_search
from milepost.broker.metrics.counters import Counters
from milepost.broker.metrics.rates import RateBoard
from milepost.broker.metrics.samples import SAMPLE_INTERVAL_MS
from milepost.broker.monitoring.progress import sample
from milepost.broker.operations import broadcast_members
from milepost.broker.operations.housekeeping import Housekeeping
from milepost.broker.operations.policy_enforcement import PolicyEnforcement
from milepost.broker.operations.transactions import Transactions
from milepost.broker.settings.settings import Settings
from milepost.broker.subscription.broadcast import BROADCAST, BroadcastGroup, MemberSubscription
from milepost.broker.subscription.documents import CURSOR_STATE, NewSubscription
from milepost.broker.subscription.flush_round import FlushRound
from milepost.broker.subscription.shared_reads import SharedReads
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic import non_persistent
from milepost.broker.topic.non_persistent import NonPersistentTopic
from milepost.broker.topic.producer_access import ProducerAccess
from milepost.broker.topic.producer_admission import ProducerAdmission
from milepost.broker.topic.topic import CREATED_MS, Topic
from milepost.broker.transactions.coordinator import is_coordinator_topic
from milepost.broker.workers import calls
from milepost.broker.workers.watched_topics import WatchedTopics
from milepost.broker.workers.workers import Workers
from milepost.clock import Clock
from milepost.cursor import snapshot
from milepost.cursor.cursor import Cursor
from milepost.cursor.group import Start
from milepost.errors import (
    CutOff,
    NotAllowed,
    PersistenceError,
    ServiceNotReady,
    TopicNotFound,
)
from milepost.positions.names import NamespaceName, TopicName
from milepost.storage.catalog.catalog import Doc, Snapshot, StateRow, TopicRow
from milepost.storage.interface import Catalog, ChangeCatalog, Engine
from milepost.storage.ledgers.entry import Entry
from milepost.storage.ledgers.ledger import ReadPlan
from milepost.wire import replies

logger = logging.getLogger(__name__)

TICK_S = 1.0
# How long a reader may take to come back after a seek closed it.
READER_ORPHAN_S = 60.0
# Of topics in a row that have nothing to be done for them; then the others on the loop have their turn.
QUIET_MAX = 256


class Broker:
    def __init__(
        self, settings: Settings, engine: Engine, clock: Clock, workers: Workers | None = None
    ) -> None:
        """`workers` is there if this is one of several processes that serve as one broker."""
        self.settings = settings
        self.engine = engine
        self.workers = workers
        self.registry: ChangeCatalog = engine.catalog if workers is None else workers.registry
        """Changes what all workers share."""
        self.store = engine.store
        self.clock = clock
        self.counters = Counters()
        self.server_version = f"Milepost-{__version__}"
        self.sessions: set[Session] = set()
        self.connections = ConnectionLimits(lambda: self.settings)
        self.topics: dict[str, Topic] = {}
        self.host, self.port, self.http_port = settings.host, settings.port, settings.http_port
        self.tls_port, self.https_port = settings.tls_port, settings.https_port
        self.rocketmq_port = settings.rocketmq_port
        self.rocketmq_tls_port = settings.rocketmq_tls_port
        self.rocketmq_namesrv_port = settings.rocketmq_namesrv_port
        self.rocketmq_namesrv_tls_port = settings.rocketmq_namesrv_tls_port
        self.read_entries_max = settings.dispatch_read_entries
        self.read_size_max = settings.dispatch_read_size
        self.reads, self.rates, self.round = (
            SharedReads(engine),
            RateBoard(),
            FlushRound(self.unexpected, clock.monotonic),
        )
        self.subscription_host = topic_loader.SubscriptionHost(self)
        engine.answer_within(self.round.during)
        engine.watch(on_error=self.unexpected, on_lapse=self._hang_up)
        self.opening: dict[str, asyncio.Future[Topic]] = {}
        """Topics that are being opened, or closed: a client that wants one waits."""
        self.policies = PolicyEnforcement(self)
        self.watchers = TopicWatchers(lambda tell: asyncio.get_running_loop().call_soon(tell))
        self.watched_topics = WatchedTopics(self)
        self.directory = Directory(
            engine.catalog,
            self.registry,
            topics_max=self.policies.book.max_topics,
            partitions_max=settings.max_partitions_per_topic,
            on_topics=self._topics_changed,
            count_elsewhere=partial(calls.count_elsewhere, self),
        )
        self.admissions = ProducerAdmission(self)
        self.schemas = SchemaRegistry(
            engine.catalog, settings, clock, self.counters, self.policies.book.of
        )
        self.access_control = AccessControl(self)
        self._tasks: set[asyncio.Task[None]] = set()
        # Readers' subscriptions that a seek has emptied, and until when they are kept.
        self._orphans: dict[Subscription, float] = {}
        self._next_holder = 0
        self._next_name = 0
        self._loop = asyncio.get_running_loop()
        self._last_keep_alive = clock.monotonic()
        self._sampled = float("-inf")
        self._ticker: asyncio.TimerHandle | None = None
        # What each tick does for every connection and topic.
        self._steps = SlicedSteps(clock, self.unexpected)
        self.is_closing = False
        self.memory = MemoryLimit(settings, self.store, self.sessions, self.counters)
        engine.watch(on_checkpoint=self.memory.resume_reading)
        self.dynamic = DynamicSettings(self)
        self.transactions = Transactions(self)
        self.housekeeping = Housekeeping(self)

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read what exists. Nothing is opened until a client asks for it."""
        await self.directory.load()
        await self.access_control.load()
        await self.schemas.load()
        await self.policies.book.load()
        await self.policies.groups.load()
        await self.dynamic.load()
        await self.transactions.load()
        if self.workers is not None:
            calls.answer(self)
            await self.workers.join(self)
        self._ticker = self._loop.call_later(TICK_S, self._tick)
        self.housekeeping.start()

    async def close(self) -> None:
        """Drain: no new work, receipts and acks that are on their way go out, then the storage."""
        self._stop_working()
        await self._flush_out()
        for session in list(self.sessions):
            session.close()
            session.lost()
        await self._end_tasks()
        await self.engine.close()
        if self.workers is not None:
            await self.workers.close(stop_listening)

    async def rest(self) -> None:
        """Hear nothing more, finish what was heard: afterwards the storage may have another owner. Clients
        keep their connections, and are told nothing yet."""
        for session in self.sessions:
            session.hold()
        self._stop_working()
        await self._flush_out()
        await self._end_tasks()
        await self._flush_out()

    def _stop_working(self) -> None:
        self.is_closing = True
        self.watched_topics.close()
        self.housekeeping.stop()
        if self._ticker is not None:
            self._ticker.cancel()
        self._steps.stop()

    async def _flush_out(self) -> None:
        for session in list(self.sessions):
            session.hear_all()
        for topic in self.topics.values():
            for subscription in topic.subscriptions.values():
                subscription.flush_acks()
        try:
            await self.engine.flush()
        except PersistenceError as error:  # the waiting caller has been told
            logger.warning("closing while the journal cannot be written: %s", error)

    async def _end_tasks(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def send_away(self, url: str, url_tls: str) -> None:
        """Another broker serves all topics from here on: tell the clients where. What they still send is not
        heard."""
        for session in list(self.sessions):
            frames = [
                *(
                    replies.close_producer(one, url=url, url_tls=url_tls)
                    for one in session.producers
                ),
                *(
                    replies.close_consumer(one, url=url, url_tls=url_tls)
                    for one in session.consumers
                ),
            ]
            if frames:
                session.write(frames)
            session.part()

    def check_served(self) -> None:
        """`CutOff` while another broker may serve: what this one knows may be old."""
        if not self.engine.may_serve:
            raise CutOff(
                "the broker cannot write to its bucket: another one may serve this by now; try again"
            )

    def _hang_up(self) -> None:
        """Another broker may serve these clients now: none of them may hear anything more from here."""
        logger.error("the bucket takes nothing: %d connections are closed", len(self.sessions))
        for session in list(self.sessions):
            session.close()
            session.lost()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something to its end, also when the caller is gone."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.unexpected("task", error)

    def unexpected(self, place: str, error: BaseException) -> None:
        """Count and log an error that no code foresaw. Only the step that met it has failed."""
        self.counters.unexpected_errors[place] += 1
        logger.error("contained, in %s: %s: %s", place, type(error).__name__, error, exc_info=error)

    def attempt(self, place: str, work: Callable[[], object]) -> None:
        """Do one of many things; if it breaks down, the others are done all the same."""
        try:
            work()
        except Exception as error:
            self.unexpected(place, error)

    def _tick(self) -> None:
        self._ticker = self._loop.call_later(TICK_S, self._tick)
        now = self.clock.monotonic()
        for place, work in (
            ("guard", partial(self.access_control.tick, now)),
            ("pressure", self.memory.resume_reading),
            ("pressure", self.memory.end_stalled),
            ("transactions", partial(self.transactions.tick, now)),
            ("producers", partial(self.admissions.tick, now)),
            ("tick", partial(self._drop_idle, now)),
        ):
            self.attempt(place, work)
        if not self._steps.is_under_way:  # else there are very many, and it takes longer
            self._steps.begin(self._tick_all(now))

    def _tick_all(self, now: float) -> Iterator[Step]:
        """What is done for every connection, topic and subscription."""
        keep_alive = now - self._last_keep_alive >= self.settings.keep_alive_interval_s
        if keep_alive:
            self._last_keep_alive = now
        for session in list(self.sessions):
            if session in self.sessions:
                yield "session", partial(session.tick, keep_alive=keep_alive)
        now_ms = self.clock.wall_ms()
        self.rates.begin(now)
        takes_samples = now - self._sampled >= SAMPLE_INTERVAL_MS / 1000
        if takes_samples:
            self._sampled = now
        for number, topic in enumerate(list(self.topics.values())):
            if topic.is_closed:
                continue
            if topic.subscriptions:
                yield "steward", partial(self.policies.tick, now_ms, topic)
            elif not number % QUIET_MAX:
                yield "steward", _nothing
            if self.rates.is_sampling:
                yield "rates", partial(self.rates.tick, now, topic)
            for subscription in list(topic.subscriptions.values()):
                if takes_samples or isinstance(subscription, BroadcastGroup):
                    yield "progress", partial(self._tick_subscription, subscription, now)

    def _tick_subscription(self, subscription: Subscription, now: float) -> None:
        for part in subscription.parts():
            sample(part, int(now * 1000))
        if isinstance(subscription, BroadcastGroup):
            broadcast_members.tick(self, subscription)

    def _drop_idle(self, now: float) -> None:
        for idle in non_persistent.idle(self.topics.values()):
            idle.is_closed = True  # a client that is on its way to it must not join it
            del self.topics[str(idle.name)]
        for subscription, until in list(self._orphans.items()):
            if subscription.consumers or now >= until:
                del self._orphans[subscription]
                self.drop_reader(subscription)

    # -- names -------------------------------------------------------------------------------------

    def lookup_url(self, listener: str = "", name: TopicName | None = None) -> str:
        """Where clients find this broker, or the worker that has a topic."""
        if name is not None and self.workers is not None:
            to = self.workers.placement.address_of(name)
            return self.settings.worker_url(listener, "pulsar", to.port, to.host, to.listeners)
        return self.settings.listener_url(listener, "pulsar", self.port)

    def lookup_url_tls(self, listener: str = "", name: TopicName | None = None) -> str:
        if name is not None and self.workers is not None:
            to = self.workers.placement.address_of(name)
            return self.settings.worker_url(
                listener, "pulsar+ssl", to.tls_port, to.host, to.listeners
            )
        return self.settings.listener_url(listener, "pulsar+ssl", self.tls_port)

    async def partitions_of(self, name: TopicName, *, create: bool = False) -> int:
        """How many partitions a topic has; 0 for one that is not partitioned, or not there."""
        count = self.known_partitions(name, create=create)
        if count is None:
            count = self.policies.book.auto_topics(name.namespace).partitions
            await self.create_partitioned_topic(name, count)
        return count

    def known_partitions(self, name: TopicName, *, create: bool = False) -> int | None:
        """The same at once; None for a topic that has to be made first."""
        self.directory.check_namespace(name)
        if name.partition >= 0:
            return 0
        if is_coordinator_topic(name):
            return self.transactions.coordinators
        count = self.directory.partitions(name)
        if count is not None:
            return count
        if not create or self.directory.row(name) is not None:
            return 0
        allowed, partitions = self.policies.book.auto_topics(name.namespace)
        return None if allowed and partitions else 0

    async def create_partitioned_topic(self, name: TopicName, partitions: int) -> None:
        await self.directory.create_partitioned(name, partitions)

    def topics_of_namespace(self, namespace: str, mode: str = "PERSISTENT") -> list[str]:
        stored = [] if mode == "NON_PERSISTENT" else self.directory.topics(namespace)
        return (
            stored
            if mode == "PERSISTENT"
            else [*non_persistent.names(self.topics, namespace), *stored]
        )

    def _topics_changed(self, namespace: str, added: Iterable[str], removed: Iterable[str]) -> None:
        """Tell clients that watch the namespace, here and at other workers."""
        self.watchers.changed(namespace, added, removed)
        self.watched_topics.changed(namespace)

    def new_producer_name(self) -> str:
        """A name that no producer of this broker, now or after a restart, is given again."""
        self._next_name += 1
        return f"{self.settings.cluster_name}-{self.clock.wall_ms():x}-{self._next_name}"

    def next_holder(self) -> int:
        self._next_holder += 1
        return self._next_holder

    # -- topics ------------------------------------------------------------------------------------

    def exists(self, name: TopicName) -> bool:
        """Is there such a topic? One that is not persistent is there while it is open, or a partition."""
        return str(name) in self.topics or self.directory.exists(name)

    def uses(self, namespace: NamespaceName) -> bool:
        """Is there a topic in the namespace, an open one that is not persistent included?"""
        is_open = bool(non_persistent.names(self.topics, str(namespace)))
        return is_open or self.directory.uses(namespace)

    async def topic(self, name: TopicName, *, create: bool = True) -> Topic:
        """The open topic; made if it may be."""
        topic = self.topics.get(str(name))
        if topic is not None:
            return topic
        if self.is_closing:
            raise ServiceNotReady("the broker is shutting down")
        if self.workers is not None:
            self.workers.placement.check(name)
        opening = self.opening.get(str(name))
        if opening is None:
            opening = self._loop.create_future()
            self.opening[str(name)] = opening
            try:
                topic = await self._open(name, create)
            except BaseException as error:
                # The callers that wait are not cancelled because this one was.
                was_cut = not isinstance(error, Exception)
                opening.set_exception(
                    ServiceNotReady(f"{name} was not opened") if was_cut else error
                )
                opening.exception()  # so that asyncio does not warn if no other caller waits
                raise
            else:
                self.topics[str(name)] = topic
                self.policies.adopt(topic)
                opening.set_result(topic)
            finally:
                del self.opening[str(name)]
        return await asyncio.shield(opening)

    async def _open(self, name: TopicName, create: bool) -> Topic:
        self.directory.check_namespace(name)
        self.directory.check_partition(name)
        if not name.is_persistent:
            if not self.settings.enable_non_persistent_topics:
                raise NotAllowed(f"{name}: non-persistent topics are switched off")
            return NonPersistentTopic(
                name,
                self._loop.call_soon,
                now_ms=self.clock.wall_ms,
                now_s=self.clock.monotonic,
                counters=self.counters,
            )
        row = self.directory.row(name)
        if row is None:
            # A partition of a partitioned topic exists before its first use; only its row is made now.
            if not self.directory.exists(name) and not (
                create and self.policies.book.auto_topics(name.namespace).allowed
            ):
                raise TopicNotFound(f"topic {name} does not exist")
            row = await self.directory.create_topic(name, self.first_doc())
            # Its id is new, and other callers, who could store something of it, wait until it is open.
            stored: StoredTopic = ([], [])
        else:
            stored = await self._stored(row)
            row = self.directory.row(name) or row  # a change was on its way
        ledgers, states = stored
        log = self.store.log(row, ledgers)
        topic = Topic(
            row,
            log,
            access=ProducerAccess(row.doc.get("epoch")),
            chunk_search=chunk_search,
            coordinator=self.transactions.coordinator,
            now_ms=self.clock.wall_ms,
            now_s=self.clock.monotonic,
            afterwards=self.round.afterwards,
            mark_dirty=self.store.mark_dirty,
            counters=self.counters,
        )
        topic.policies = self.policies.book.of(name)
        await topic_loader.open_states(self, topic, states)
        topic.row = self.directory.row(name) or row
        self.admissions.opened(topic)
        return topic

    async def change_topics(self, topics: Sequence[Topic], change: Callable[[Doc], Doc]) -> None:
        """Change what is known of topics beside their names, of all or of none. One that was closed
        meanwhile, and opened again, knows it too."""
        rows = await self.directory.change_docs([topic.row for topic in topics], change)
        for topic, row in zip(topics, rows, strict=True):
            for one in (topic, self.topics.get(row.name)):
                if one is not None and one.row.topic_id == row.topic_id:
                    one.row = row

    async def _stored(self, row: TopicRow) -> StoredTopic:
        """What the catalog has of a topic."""
        while True:
            # If a checkpoint was recorded in the meantime, what was read may be old: read again.
            checkpoints = self.store.checkpoints
            stored = await self.engine.catalog(lambda catalog: fetch_topic(catalog, row.topic_id))
            if checkpoints == self.store.checkpoints:
                return stored

    def first_doc(self, properties: dict[str, str] | None = None) -> Doc:
        """What is known of a topic when it is made, beside its name."""
        doc: Doc = {CREATED_MS: self.clock.wall_ms()}
        return {**doc, "properties": properties} if properties else doc

    # -- subscriptions -----------------------------------------------------------------------------

    async def create_subscription(
        self,
        topic: Topic,
        name: str,
        index: int,
        properties: dict[str, str] | None = None,
        *,
        broadcast: Start | None = None,
    ) -> Subscription:
        """Make a durable subscription at an index; `AlreadyExists` if there is one."""
        new = new_subscription(topic, name, index, properties, broadcast=broadcast)
        return (await self.create_subscriptions([new]))[0]

    async def create_subscriptions(self, news: Sequence[NewSubscription]) -> list[Subscription]:
        """Durable subscriptions, all of them or none; `AlreadyExists` if one does."""
        for topic in (one.topic for one in news):
            topic.check_open()
            limit = topic.policies.max_subscriptions
            if limit and len(topic.subscriptions.keys() | topic.being_made) >= limit:
                raise NotAllowed(f"topic {topic.name} has {limit} subscriptions already")
        sequence = self.store.journal.last_sequence
        stored = [Snapshot(sequence, snapshot.encode(one.cursor), []) for one in news]

        def create(catalog: Catalog) -> list[StateRow]:
            rows = []
            for one, first in zip(news, stored, strict=True):
                kind = CURSOR_STATE
                row = catalog.create_state(one.topic.row.topic_id, kind, one.name, one.doc)
                catalog.put_snapshot(row.state_id, first)
                rows.append(row)
            return rows

        for one in news:
            one.topic.being_made.add(one.name)
        try:
            await self._let_go_of_namesakes(news)
            rows = await self.engine.catalog(create)
        finally:
            for one in news:
                one.topic.being_made.discard(one.name)
        made = [
            self.open_made(one, row, first)
            for one, row, first in zip(news, rows, stored, strict=True)
            if not one.topic.is_closed  # else the next opening finds the subscription there
        ]
        for one in news:
            one.topic.check_open()
        return made

    async def _let_go_of_namesakes(self, news: Sequence[NewSubscription]) -> None:
        """What open transactions have added of these names were other subscriptions, which are deleted. One
        whose deletion the catalog refuses is there still."""
        for topic in {one.topic for one in news}:
            await self.transactions.namesakes.settle(topic)
        gone = [
            (one.topic.name.text, one.name)
            for one in news
            if one.name not in one.topic.subscriptions
        ]
        await self.transactions.namesakes.let_go(gone)
        for one in news:
            one.topic.check_open()

    def open_made(self, new: NewSubscription, row: StateRow, first: Snapshot) -> Subscription:
        """Open one that was made just now, on its open topic."""
        return topic_loader.open_subscription(self, new.topic, row, first, made=new.cursor)

    def create_reader(self, topic: Topic, name: str, index: int) -> Subscription:
        """A subscription that is not durable."""
        if name in topic.being_made:
            raise ServiceNotReady(f"subscription {name} of {topic.name} is being made")
        limits = SubscriptionLimits.of(self.settings, topic.policies)
        if isinstance(topic, NonPersistentTopic):
            return topic_loader.attach(self, topic.subscribe(name, limits, self.subscription_host))
        cursor = _new_cursor(topic, index)
        return topic_loader.attach(
            self,
            Subscription(
                topic,
                name,
                cursor,
                host=self.subscription_host,
                limits=limits,
                state_id=None,
                journal=None,
            ),
        )

    def drop_reader(self, subscription: Subscription) -> None:
        """A subscription that lives by its consumers is gone with the last of them."""
        subscriptions = subscription.topic.subscriptions
        if (
            not subscription.is_durable
            and not subscription.consumers
            and subscriptions.get(subscription.name) is subscription  # not another of that name
        ):
            del subscriptions[subscription.name]

    async def delete_subscription(self, subscription: Subscription) -> None:
        await self.delete_subscriptions([subscription])

    async def delete_subscriptions(self, subscriptions: Sequence[Subscription]) -> None:
        """Delete these, of one topic each, in one step: a crash leaves all of them or none."""
        for one in subscriptions:
            one.topic.check_open()  # another opening of the topic would go on with what is deleted
        for one in subscriptions:
            for consumer in list(one.consumers):
                self.close_consumer(consumer)
            if one.topic.subscriptions.get(one.name) is one:
                del one.topic.subscriptions[one.name]
        durable = [one for one in subscriptions if one.is_durable]
        if not durable:
            return
        for one in durable:
            one.flush_acks()
        journals = {part: part.journal for one in durable for part in one.parts()}
        for part in journals:
            # A read may still come back: nothing of it is delivered, and behind the tombstone a
            # fact would be taken for damage.
            part.dispatcher = part.journal = None
        sequence = self.store.journal.last_sequence
        state_ids = [part.state_id for part in journals if part.state_id is not None]

        def delete(catalog: Catalog) -> None:
            # A member may be joining just now: its state is deleted too.
            late = [broadcast_members.states_of(catalog, one.topic, one.name) for one in durable]
            for state_id in {*state_ids, *(state_id for states in late for state_id in states)}:
                catalog.delete_state(state_id, sequence)

        with ExitStack() as departing:
            for one in durable:
                departing.enter_context(self.transactions.namesakes.departing(one.topic))
            try:
                await self.engine.catalog(delete)
            except BaseException:
                for part, journal in journals.items():
                    part.journal = journal
                for one in durable:
                    one.topic.subscriptions[one.name] = one
                    one.extend(one.topic.visible_end)
                raise
        for state_id in state_ids:
            self.store.forget_state(state_id)

    # -- producers and consumers -------------------------------------------------------------------

    def remove_consumer(self, consumer: Consumer, *, keep: bool = False) -> None:
        """A consumer is gone, and a reader's subscription with it unless it is to be kept."""
        subscription = consumer.subscription
        consumer.peer.forget_consumer(consumer)
        subscription.remove_consumer(consumer)
        if not keep:
            self.drop_reader(subscription)

    async def join_group(self, group: BroadcastGroup, member: str) -> MemberSubscription:
        return await broadcast_members.join(self, group, member, topic_loader.open_member)

    async def forget_member(self, member: MemberSubscription) -> None:
        await broadcast_members.forget(self, member)

    def note_presence(self, member: MemberSubscription) -> None:
        """A member of a broadcast group has a consumer, or has none any more."""
        broadcast_members.note(self, member)

    def close_consumer(self, consumer: Consumer) -> None:
        """End a consumer from this side; its client subscribes again."""
        self.remove_consumer(consumer)
        urls = self.return_urls(consumer.subscription.topic.name)
        frame = replies.close_consumer(consumer.consumer_id, replies.UNSOLICITED, *urls)
        consumer.peer.write((frame,))

    def return_urls(self, name: TopicName) -> tuple[str, str]:
        """Where a client that is closed comes back to: at once with these, after a pause without. Where the
        broker has several addresses, only a lookup says which of them the client can reach."""
        if self.settings.advertised_listeners:
            return "", ""
        return self.lookup_url("", name), self.lookup_url_tls("", name)

    def tell_closed(self, consumer: Consumer) -> None:
        """A seek has taken the consumer out; tell its client, which comes back at the target.

        A reader's subscription is kept for it, without a consumer: the client subscribes without
        saying where, since the seek has said it.
        """
        consumer.peer.forget_consumer(consumer)
        subscription = consumer.subscription
        if not subscription.is_durable:
            self._orphans[subscription] = self.clock.monotonic() + READER_ORPHAN_S
        # Without an address the client pauses before it comes back, as it does with Apache Pulsar. It
        # needs that: C++ clients hear of their seek's success late and then empty their queue
        # (docs/decisions/0007-a-pause-after-a-seek.md).
        consumer.peer.write((replies.close_consumer(consumer.consumer_id),))

    # -- what read loops need ----------------------------------------------------------------------

    def perform(self, plan: ReadPlan) -> list[Entry]:
        return plan.perform(self.store.files)


def _nothing() -> None:
    """A step that only lets the loop rest, if it is time."""


def new_subscription(
    topic: Topic,
    name: str,
    index: int,
    properties: dict[str, str] | None = None,
    *,
    broadcast: Start | None = None,
) -> NewSubscription:
    """A durable subscription at an index, to be made."""
    doc: Doc = {"properties": properties or {}}
    if broadcast is not None:
        doc[BROADCAST] = {"start": broadcast.value}
    return NewSubscription(topic, name, _new_cursor(topic, index), doc)


def _new_cursor(topic: Topic, index: int) -> Cursor:
    """A cursor at an index; what open transactions keep from being visible, it begins behind."""
    end = topic.visible_end
    return Cursor(topic.log.first_index, end, at=min(index, end))
