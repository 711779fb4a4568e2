"""Half messages at work: stores them, ends them, and asks producers about those that have not ended.

    send       ─▶ the half topic ─▶ durable ─▶ receipt with a transaction id
    commit     ─▶ one record: acked there, published to its topic with an index of its own ─▶ answer
    roll back  ─▶ acked there ─▶ answer
    no end     ─▶ a producer of the topic is asked, again and again; then it is rolled back

A transaction id names the half message and is signed, so that nothing has to be looked up to read one, also
after a restart. Half messages that were open then are asked about as before.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING

from google.protobuf.timestamp_pb2 import Timestamp

from milepost.broker.auth.operations import Operation
from milepost.broker.operations import leases
from milepost.broker.operations.leases import Standing
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.errors import MilepostError, NotFound, ServiceNotReady
from milepost.positions.names import TopicName
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.calls import Call, Callers
from milepost.rocketmq.clients import Clients
from milepost.rocketmq.codes import OK, Code, Refused
from milepost.rocketmq.consuming.answer_size import answer_limit, fitted
from milepost.rocketmq.durable import durable, moved
from milepost.rocketmq.handles import PROCESS_SIZE, Handle, Signer
from milepost.rocketmq.message_check import millis
from milepost.rocketmq.routes import Routes
from milepost.rocketmq.sending import Sending
from milepost.rocketmq.transactions import half_topic
from milepost.rocketmq.transactions.half_topic import HalfTopic, Stored, entries_of, open_indexes
from milepost.rocketmq.transactions.halves import Half, Halves

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

# A producer is asked about a half message after so long, unless the message or its topic says otherwise;
# then every so often.
FIRST_S, EVERY_S = 6.0, 30.0
# A half message that is older is given up, whether a producer was there to be asked or not.
AGE_S_MAX = 72 * 3600.0
OPEN_MAX = 100_000
# Bytes of a question around its message.
AROUND_QUESTION = 1024
# Ends that are remembered, so that one that is asked for again is answered the same way.
ENDED_MAX = 10_000
# A property of a topic: after how many seconds a producer is asked, first and again.
CHECK_S = "rocketmq.transaction.check_s"
# What transaction ids are signed for, in the place of a group: no group has a slash in its name.
_PURPOSE = "/transaction"

Resolution = pb.TransactionResolution
logger = logging.getLogger(__name__)


class Transactions:
    def __init__(
        self,
        broker: Broker,
        callers: Callers,
        routes: Routes,
        clients: Clients,
        sending: Sending,
        signer: Signer,
    ) -> None:
        self._broker = broker
        self._callers = callers
        self._routes = routes
        self._clients = clients
        self._sending = sending
        self.signer = signer
        self._there = HalfTopic(broker)
        self._topic_id = 0
        self.halves = Halves()
        # By index: how a half message is being ended, and what is done then.
        self._ending: dict[int, tuple[Resolution, asyncio.Task[None]]] = {}
        self._ended: OrderedDict[int, Resolution] = OrderedDict()
        # Those whose commit may be on the disk, though the disk did not say so: unknown until the next start.
        self._in_doubt: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_asking = self._is_closed = False

    async def load(self) -> None:
        """Know the half messages that are open from before."""
        found = await self._find()
        if found is None:
            return
        topic, subscription = found
        for index in open_indexes(subscription):
            try:
                self._add(index, await self._there.read(topic, index))
            except NotFound as error:  # another client has sent it there
                logger.warning("%s", error)
        self._set_timer()

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    # -- sending -----------------------------------------------------------------------------------

    async def send_message(
        self, call: Call, request: pb.SendMessageRequest
    ) -> pb.SendMessageResponse:
        """Messages of any type; a half message comes alone."""
        kinds = [one.system_properties.message_type for one in request.messages]
        if pb.TRANSACTION not in kinds:
            return await self._sending.send_message(call, request)
        if len(kinds) > 1:
            raise Refused(Code.BAD_REQUEST, "a half message is sent alone")
        name, (body,) = self._sending.checked(call, request)
        if len(self.halves) >= OPEN_MAX:
            raise Refused(Code.TOO_MANY_REQUESTS, f"{OPEN_MAX} transactions are open already")
        with self._sending.pending(len(body)):
            index, topic_id = await self._store(call, name, request.messages[0], body)
        self._clients.sends_to(call.client, name.text)
        message_id = request.messages[0].system_properties.message_id
        transaction_id = self._transaction_id(topic_id, index, name.text)
        entry = pb.SendResultEntry(
            status=OK, message_id=message_id, transaction_id=transaction_id, offset=0
        )
        return pb.SendMessageResponse(status=OK, entries=[entry])

    async def _store(
        self, call: Call, name: TopicName, message: pb.Message, body: bytes
    ) -> tuple[int, int]:
        """The index of the half message when it is on disk, and the id of the half topic."""
        half = _half(message, body)
        birth = await self._birth(name, to_publish=True)
        topic, _ = await self._there.make()
        self._know(topic)
        sender = await self._sending.sender(half_topic.NAME)
        first_s = self._first_s(name, message)
        index, done = sender.publish_entries(
            partial(
                entries_of,
                half,
                topic=name.text,
                birth=birth,
                role=call.role,
                first_s=first_s,
            )
        )

        def stored(done: asyncio.Future[None]) -> None:
            if not done.cancelled() and done.exception() is None:
                now_ms = self._broker.clock.wall_ms()
                self._add(index, Stored(half, name.text, birth, call.role, first_s, now_ms))
                self._set_timer()

        # Also when the client hangs up: what is on disk is asked about.
        done.add_done_callback(stored)
        await asyncio.shield(done)
        return index, topic.row.topic_id

    async def _birth(self, name: TopicName, *, to_publish: bool = False) -> int:
        """Which topic of that name it is: the number of its first queue. `to_publish`: `TopicTerminated`
        for one that takes no more messages."""
        topic = await self._broker.topic(self._routes.queue(name, 0), create=False)
        if to_publish:
            topic.check_published_to()
        return topic.row.topic_id

    def _first_s(self, name: TopicName, message: pb.Message) -> float:
        system = message.system_properties
        if system.HasField("orphaned_transaction_recovery_duration"):
            asked = system.orphaned_transaction_recovery_duration
            return max(asked.seconds + asked.nanos / 1e9, 0.0)
        return self._check_s(name.text) or FIRST_S

    def _check_s(self, topic: str) -> float | None:
        text = self._routes.properties(TopicName.parse(topic)).get(CHECK_S, "")
        try:
            seconds = float(text)
        except ValueError:
            return None
        return seconds if 0 < seconds < AGE_S_MAX else None

    def _add(self, index: int, stored: Stored) -> None:
        clock = self._broker.clock
        now, age_s = clock.monotonic(), max(clock.wall_ms() - stored.stored_ms, 0) / 1000
        self.halves.add(
            Half(
                index,
                stored.topic,
                stored.birth,
                stored.role,
                due=now + stored.first_s,  # after a restart producers need time to come back
                every_s=self._check_s(stored.topic) or EVERY_S,
                over=now + AGE_S_MAX - age_s,
            )
        )

    def _transaction_id(self, topic_id: int, index: int, topic: str) -> str:
        handle = Handle(topic_id, -1, index, 0, b"\0" * PROCESS_SIZE, 0, 0)
        return self.signer.write(handle, topic, _PURPOSE)

    # -- the end -----------------------------------------------------------------------------------

    async def end_transaction(
        self, call: Call, request: pb.EndTransactionRequest
    ) -> pb.EndTransactionResponse:
        """Commit or roll back, and answer when that is on disk. The same end again is answered the same
        way."""
        name = self._routes.name_of(request.topic)
        self._callers.check(call, Operation.PRODUCE, name)
        text, resolution = request.transaction_id, request.resolution
        handle = self.signer.read(text, name.text, _PURPOSE)
        if handle is None:
            raise Refused(
                Code.INVALID_TRANSACTION_ID,
                f"transaction id {text[:40]!a} is not one of {name}",
            )
        if resolution not in (pb.COMMIT, pb.ROLLBACK):
            raise Refused(Code.BAD_REQUEST, "a transaction ends with a commit or a rollback")
        found = await self._find()
        if found is None or found[0].row.topic_id != handle.topic_id:
            raise Refused(Code.INVALID_TRANSACTION_ID, "the half messages of then were deleted")
        await self._end(handle.index, resolution)
        return pb.EndTransactionResponse(status=OK)

    async def _end(self, index: int, resolution: Resolution) -> None:
        before = self._ended.get(index)
        under_way = self._ending.get(index)
        if before is None and under_way is not None:
            before = under_way[0]
        if before not in (None, resolution):
            raise Refused(
                Code.INVALID_TRANSACTION_ID,
                f"the transaction has ended: {pb.TransactionResolution.Name(before)}",
            )
        if index in self._ended:
            return
        if under_way is None:
            # It goes on when the client hangs up: no end is left half done.
            task = asyncio.get_running_loop().create_task(self._end_now(index, resolution))
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
            under_way = self._ending[index] = (resolution, task)
        await asyncio.shield(under_way[1])

    async def _end_now(self, index: int, resolution: Resolution) -> None:
        try:
            if resolution == pb.COMMIT:
                await self._commit(index)
            else:
                await self._roll_back(index)
        finally:
            del self._ending[index]
        self.halves.ended(index)
        self._ended[index] = resolution
        if len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)
        word = "committed" if resolution == pb.COMMIT else "rolled_back"
        self._broker.counters.rocketmq_transactions[word] += 1

    async def _commit(self, index: int) -> None:
        topic, subscription = await self._open(index)
        stored = await self._there.read(topic, index)
        name = TopicName.parse(stored.topic)
        self._routes.known_name(name)
        if await self._birth(name) != stored.birth:
            raise Refused(
                Code.INVALID_TRANSACTION_ID, f"topic {name} was deleted since the half message"
            )
        sender = await self._sending.next_sender(name)
        topic, subscription = await self._open(index)
        if sender.producer.is_closed:
            raise ServiceNotReady(f"{name} was closed meanwhile")
        # From here on nothing waits until both are on their way.
        await moved(
            self._broker,
            subscription,
            ((index, index + 1),),
            lambda: sender.publish(stored.message, stored.message.body),
            in_doubt=lambda: self._in_doubt.add(index),
        )

    async def _roll_back(self, index: int) -> None:
        _, subscription = await self._open(index)
        await durable(lambda done: leases.ack(subscription, None, ((index, index + 1),), done))

    async def _open(self, index: int) -> tuple[Topic, Subscription]:
        """The half topic, if this half message is open there."""
        if index in self._in_doubt:
            raise Refused(
                Code.MASTER_PERSISTENCE_TIMEOUT,
                "whether the transaction is committed is unknown until the broker is started again",
            )
        found = await self._find()
        if found is not None:
            standing = leases.standing(found[1], index, leases.epoch_of(found[1]))
            if standing is Standing.OPEN:
                return found
        self.halves.ended(index)
        raise Refused(
            Code.INVALID_TRANSACTION_ID, "the transaction has ended; how is not known any more"
        )

    async def _find(self) -> tuple[Topic, Subscription] | None:
        found = await self._there.find()
        if found is not None:
            self._know(found[0])
        return found

    def _know(self, topic: Topic) -> None:
        """What is known is of this half topic; an operator may have deleted the one before."""
        if topic.row.topic_id != self._topic_id:
            self._topic_id = topic.row.topic_id
            self.halves = Halves()
            self._ended.clear()
            self._in_doubt.clear()

    # -- questions ---------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        due = self.halves.next_due
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due is None or self._is_closed or self._is_asking:
            return
        delay_s = max(due - self._broker.clock.monotonic(), 0)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._begin_asking)

    def _begin_asking(self) -> None:
        self._is_asking = True
        self._broker.spawn(self._ask_due())

    async def _ask_due(self) -> None:
        try:
            await self.ask(self._broker.clock.monotonic())
        finally:
            self._is_asking = False
            self._set_timer()

    async def ask(self, now: float) -> None:
        """Ask about half messages whose time has come, and give up those that nothing is heard of."""
        for half in self.halves.take_due(now):
            try:
                await self._ask_about(half, now)
            except Exception as error:
                if isinstance(error, MilepostError):
                    logger.warning("half message %d of %s: %s", half.index, half.topic, error)
                else:
                    self._broker.unexpected("rocketmq", error)
                if self.halves.find(half.index) is half:
                    self.halves.put_off(half, now)

    async def _ask_about(self, half: Half, now: float) -> None:
        name = TopicName.parse(half.topic)
        is_there = self._broker.directory.exists(name)
        if half.is_given_up(now) or not is_there or await self._birth(name) != half.birth:
            logger.warning(
                "half message %d of %s is rolled back: asked about %d times",
                half.index,
                half.topic,
                half.questions,
            )
            await self._end(half.index, pb.ROLLBACK)
            self._broker.counters.rocketmq_transactions["given_up"] += 1
            return

        def may(call: Call) -> bool:
            """Rights may have changed since the producer came."""
            try:
                self._callers.check(call, Operation.PRODUCE, name)
            except MilepostError:
                return False
            return call.role == half.role

        stream = self._clients.producer_of(half.topic, may)
        if stream is None:
            self.halves.put_off(half, now)
            return
        topic, _ = await self._open(half.index)
        stored = await self._there.read(topic, half.index)
        limit = answer_limit(stream.call.language, stream.call.version)
        if limit is not None:
            limit = limit._replace(size_max=limit.size_max - AROUND_QUESTION)
        message = await fitted(self._asked(stored), limit)
        if message is None:  # it would end the producer's stream, and others may read more
            logger.warning(
                "half message %d of %s is too large to ask this producer about it",
                half.index,
                half.topic,
            )
            self.halves.put_off(half, now)
            return
        command = pb.RecoverOrphanedTransactionCommand(
            message=message,
            transaction_id=self._transaction_id(topic.row.topic_id, half.index, half.topic),
        )
        told = pb.TelemetryCommand(status=OK, recover_orphaned_transaction_command=command)
        if stream.tell(told):
            self._broker.counters.rocketmq_questions += 1
            self.halves.asked(half, now)
        else:
            self.halves.put_off(half, now)

    def _asked(self, stored: Stored) -> pb.Message:
        """A half message as a producer is shown it."""
        message = stored.message
        system = message.system_properties
        digest = hashlib.md5(message.body, usedforsecurity=False).hexdigest().upper()
        system.body_digest.CopyFrom(pb.Digest(type=pb.MD5, checksum=digest))
        at = Timestamp()
        at.FromMilliseconds(stored.stored_ms)
        system.store_timestamp.CopyFrom(at)
        if not system.HasField("born_timestamp"):
            system.born_timestamp.CopyFrom(at)
        return message


def _half(message: pb.Message, body: bytes) -> pb.Message:
    """What of a message is kept: all that was checked, and nothing else that a client may have added."""
    sent = message.system_properties
    system = pb.SystemProperties(
        keys=sent.keys,
        message_id=sent.message_id,
        message_type=pb.TRANSACTION,
        body_encoding=pb.IDENTITY,
        born_host=sent.born_host,
    )
    for name in ("tag", "trace_context"):
        if sent.HasField(name):
            setattr(system, name, getattr(sent, name))
    if sent.HasField("born_timestamp"):
        system.born_timestamp.FromMilliseconds(millis(sent.born_timestamp))
    topic = pb.Resource(
        name=message.topic.name, resource_namespace=message.topic.resource_namespace
    )
    return pb.Message(
        topic=topic,
        user_properties=message.user_properties,
        system_properties=system,
        body=body,
    )
