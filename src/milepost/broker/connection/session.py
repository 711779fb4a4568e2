"""One connection: routes events to handlers, and pauses reading.

It is the peer that topics write to.

It owns the producers and consumers of its connection and ends them with it. It moves no bytes: its
transport (server.py, or a test) feeds `receive` and is handed what is to be sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

from milepost.broker.auth.certificates import Certificate
from milepost.broker.auth.credentials import Verdict
from milepost.broker.connection.handlers import HANDLERS
from milepost.broker.connection.handlers.ack import ack
from milepost.broker.connection.handlers.flow import flow
from milepost.broker.connection.handlers.registry import Unfinished
from milepost.broker.connection.handlers.send import send
from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.limits.time_slices import REST_S, TimeSlices
from milepost.broker.monitoring import connection_log
from milepost.broker.peer import Buffer
from milepost.broker.topic.producer import Producer
from milepost.broker.topic.singles import Singles
from milepost.errors import MilepostError, PersistenceError, TooManyRequests
from milepost.positions.ranges import IndexRanges
from milepost.storage.ledgers.not_in_memory import NotInMemory
from milepost.storage.ledgers.paging import LOOKS_LIMIT, LOOKS_MAX, UNREADABLE, Failure
from milepost.wire import replies
from milepost.wire.commands import kind_name
from milepost.wire.events import (
    Ack,
    Command,
    Fault,
    Flow,
    Sends,
    ServerEvent,
    TransactionRequest,
)
from milepost.wire.protocol import ServerProtocol, State

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from milepost.broker.broker import Broker
    from milepost.broker.transactions.coordinator import Outcome
    from milepost.positions import TxnId

logger = logging.getLogger(__name__)

# Producers that were closed while their sends were under way: those are dropped, not an offence.
RECENTLY_CLOSED_MAX = 1000
# Requests of one connection that may be under way: who asks for more waits in its own socket.
COMMANDS_MAX = 1000
# Write buffers full of answers that may wait for a client to read them. Then it is not heard until it has.
UNREAD_BUFFERS_MAX = 4
# What a challenge says that only asks for newer credentials, as upstream says it.
REFRESH = b"PulsarAuthRefresh"
# How long a client may take to read the last bytes it was sent.
LINGER_S = 5.0


class Transport(Protocol):
    """What a session needs of its connection."""

    def send(self, buffers: Sequence[Buffer]) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def unsent_size(self) -> int: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Session:
    def __init__(
        self,
        broker: Broker,
        transport: Transport,
        address: str,
        *,
        certificate: Certificate | None = None,
        is_confidential: bool = False,
    ) -> None:
        """`certificate` is the client's, verified; `is_confidential`: the connection is encrypted."""
        self.broker = broker
        self.address = address
        self.certificate = certificate
        self.is_confidential = is_confidential
        self.credentials = broker.access_control.security.credentials()
        # Why every request is refused. None: the client has proved its role, or need not.
        self.refusal: MilepostError | None = None
        self.protocol = ServerProtocol(
            server_version=broker.server_version,
            max_message_size=broker.settings.max_message_size,
        )
        self.producers: dict[int, Producer] = {}
        self.consumers: dict[int, Consumer] = {}
        self.opening: dict[tuple[str, int], Message] = {}
        """Producers and consumers that are being made, by kind and id, with the command that asked
        for it."""
        self.is_writable = True
        self.unwritable_since = 0.0
        self.is_closed = False
        self.opened_at = broker.clock.monotonic()
        self._closed_at: float | None = None
        self._ping_sent = False
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._flush_scheduled = False
        # Bytes that were written and are not handed to the transport yet.
        self._unflushed_size = 0
        self._unflushed_size_max = broker.settings.write_buffer_size
        self.closed_producers: dict[int, None] = {}
        """Ids of producers that were closed lately, the oldest first."""
        self.told_ends: dict[TxnId, Outcome] = {}
        """Ends of transactions that this client was told lately, the oldest first."""
        self.pending_publishes = 0
        """Sends that have no receipt yet."""
        self.singles = Singles(self, broker.counters, broker.clock.wall_ms, broker.clock.monotonic)
        """Publishes its sends that come one by one."""
        self._pending_publishes_max = broker.settings.max_pending_publish_requests_per_connection
        self._is_reading = True
        self._holds = 0
        # Requests that have no answer yet. If they are too many, the socket is not read until half have one.
        self._commands = 0
        self._is_crowded = False
        # Events that wait for the disk, the first of them for what is being brought; None: none do. Bytes
        # that came nevertheless are kept behind them.
        self._unheard: Sequence[ServerEvent] | None = None
        self._late = b""
        # How often the first of them had to wait.
        self._brought = 0
        # Open while what is brought for it must not be dropped from memory.
        self._kept: ExitStack | None = None
        # There is more to be heard, and a call on its way for it.
        self._goes_on = False
        # It waits until the client has read, or its requests have been answered.
        self._is_put_off = False
        # Nothing is read until the client has read what waits for it.
        self._waits_for_reader = False
        # The time that parts of what was received may take before a rest.
        self._slices: TimeSlices | None = None
        self.released = IndexRanges()
        """What the parts of a long REDELIVER that were heard name."""
        # The connection is gone, and what came whole before that is still being obeyed.
        self._is_gone = False
        self.ack_failures: list[MilepostError] | None = None
        """What was wrong with the parts of an ACK that came in several; None between two ACKs."""

    def __repr__(self) -> str:
        return f"<Session {self.address} {self.client_version}>"

    @property
    def client_version(self) -> str:
        peer = self.protocol.peer
        return peer.software if peer is not None else "unknown"

    @property
    def role(self) -> str | None:
        identity = self.credentials.identity
        return None if identity is None else identity.speaks_as

    @property
    def wants_broker_entry(self) -> bool:
        peer = self.protocol.peer
        return peer is not None and peer.reads_broker_entry

    @property
    def has_consumers(self) -> bool:
        return bool(self.consumers)

    def understands(self, kind: int) -> bool:
        peer = self.protocol.peer
        return peer is not None and peer.understands(kind)

    # -- in ----------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Bytes from the client: handle all that they mean, then send what there is to be sent."""
        if self._unheard is not None:
            self._late += data
            return
        self._hear(self.protocol.receive(data))

    def _hear(
        self, events: Sequence[ServerEvent], *, waits: bool = True, failure: Failure | None = None
    ) -> None:
        """Obey events in order. Where one needs what is on disk only, it and those behind it wait until
        that was brought; unless nothing may wait any more. `failure` is why it cannot be brought. What is
        behind an event that ends the connection is dropped, as if another read had brought it."""
        before, closed_at = self.pending_publishes, self._closed_at
        self.singles.read_begins()
        files, obeyed_count = self.broker.engine.loop_files, 0
        files.is_strict, files.failure = waits, failure
        try:
            for event in events:
                if isinstance(event, Sends):  # nearly all of them: without one more call
                    send(self, event)
                else:
                    self._obey(event)
                obeyed_count += 1
                if self._closed_at is not closed_at:
                    break
        except NotInMemory as missing:
            self._unheard = events[obeyed_count:]
            self.hold()
            self.broker.spawn(self._bring(missing))
        except Unfinished as unfinished:
            self._unheard = [unfinished.rest, *events[obeyed_count + 1 :]]
            self.hold()
            self._loop.call_soon(self._hear_unheard)
        finally:
            files.is_strict, files.failure = False, None
        pending, memory = self.pending_publishes, self.broker.memory
        if pending > before and (
            memory.has_too_many(pending, self._pending_publishes_max) or memory.is_short
        ):
            # What a client sends faster than the disk takes it waits in its own socket, not in our memory.
            self._pause()
        transactions = self.broker.transactions
        if transactions.is_due:
            transactions.submit_gathered()
        self.flush()
        if not self.is_writable and not self._waits_for_reader and self._is_unread:
            self._waits_for_reader = True
            self.hold()
        if self.protocol.has_more and not self._goes_on and self._unheard is None:
            self._goes_on = True
            self.hold()
            self._schedule_part()

    def _obey(self, event: Ack | Flow | Fault | Command | TransactionRequest) -> None:
        if isinstance(event, Ack):
            ack(self, event)
        elif isinstance(event, Flow):
            flow(self, event)
        elif isinstance(event, Fault):
            self._fault(event)
        else:
            self._command(event)

    async def _bring(self, missing: NotInMemory) -> None:
        """Bring what an event needs, then go on with it. If it cannot be brought, the event is told why."""
        failure: Failure | None = None
        self._brought += 1
        if self._brought == LOOKS_MAX:
            self._kept = ExitStack()
            self._kept.enter_context(self.broker.engine.loop_files.keeping())
        try:
            await self.broker.engine.bring(missing)
        except UNREADABLE as error:
            failure = error
        if failure is None and self._brought > LOOKS_LIMIT:
            failure = TooManyRequests("a command that needs too much of the disk; send it in parts")
        self._hear_unheard(failure=failure)

    def _hear_unheard(self, *, waits: bool = True, failure: Failure | None = None) -> None:
        """Go on with the event that had to wait, and with what came behind it."""
        events, self._unheard = self._unheard, None
        if events is None:
            return  # the broker is stopping, and `hear_all` has heard them
        closed_at = self._closed_at
        self._hear(events[:1], waits=waits, failure=failure)
        if self._closed_at is not closed_at:
            events = events[:1]
        if self._unheard is None:
            self._brought = 0
            if self._kept is not None:
                self._kept.close()
                self._kept = None
            self._hear(events[1:])
        else:
            self._unheard = [*self._unheard, *events[1:]]
        self.release()
        if self._unheard is None:
            late, self._late = self._late, b""
            if late or self.protocol.has_more:
                self.receive(late)
            if self._is_gone and not self.protocol.has_more and self._unheard is None:
                self._end()

    def _schedule_part(self) -> None:
        """Hear the next part of a long command, or of very many, in a turn to come, and rest before that
        if the parts so far took a while. A turn alone would leave the journal's thread hardly any time."""
        if self._slices is None:
            self._slices = TimeSlices(self.broker.clock)
        if self._slices.is_over:
            self._slices = None
            self._loop.call_later(REST_S, self._go_on)
        else:
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Hear the next part of what was received; not while the answers to the parts before it are too
        many for the client, or for us."""
        if self._is_crowded or self._is_unread:
            self._is_put_off = True
            return
        self._goes_on = False
        if self._slices is None:
            self._slices = TimeSlices(self.broker.clock)
        self.receive(b"")
        self.release()
        if self._is_gone and not self.protocol.has_more and self._unheard is None:
            self._end()

    def _put_on(self) -> None:
        """What kept the next part from being heard is over."""
        if self._is_put_off:
            self._is_put_off = False
            self._loop.call_soon(self._go_on)

    @property
    def _is_unread(self) -> bool:
        """Does more wait for the client than should, because it does not read?"""
        if self.is_writable or self._is_gone:
            return False
        return self.unsent_size() >= UNREAD_BUFFERS_MAX * self._unflushed_size_max

    def hear_all(self) -> None:
        """Hear all that was received and is not heard yet, without a pause: the server is stopping."""
        self.broker.engine.loop_files.may_block = True
        while self._unheard is not None and not self.is_closed:
            self._hear_unheard(waits=False)
        while self.protocol.has_more and not self.is_closed:
            self.receive(b"")

    def _pause(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self.broker.counters.reads_paused += 1
            self._transport.pause_reading()

    @property
    def is_reading(self) -> bool:
        """Is what its client sends heard now?"""
        return self._is_reading

    def hold(self) -> None:
        self._holds += 1
        self._pause()

    def release(self) -> None:
        self._holds -= 1
        self.resume()

    def began(self, publishes: int) -> None:
        """So many sends are under way now."""
        self.pending_publishes += publishes
        self.broker.memory.pending_publishes += publishes

    def settled(self, publishes: int) -> None:
        self.pending_publishes -= publishes
        self.broker.memory.pending_publishes -= publishes
        if not self._is_reading:
            self.resume()

    def resume(self) -> None:
        """Read again, if what stopped it is over."""
        memory = self.broker.memory
        if (
            not self._is_reading
            and not self.is_closed
            and not self._holds
            and memory.has_few(self.pending_publishes, self._pending_publishes_max)
            and not memory.is_short
        ):
            self._is_reading = True
            self._transport.resume_reading()

    def _command(self, command: Command | TransactionRequest) -> None:
        handler = HANDLERS.get(command.kind)
        if handler is None:
            self.refuse(command, MilepostError(f"command {command.kind} has no handler"))
            return
        if self.refusal is not None:
            self.refuse(command, self.refusal)
            return
        asked = command.message if isinstance(command, Command) else command
        access_control = self.broker.access_control
        rights = access_control.changes
        try:
            access_control.check_command(self, handler.needs, asked)
            work = handler.handle(self, asked)
        except NotInMemory:
            raise
        except Exception as error:
            self._failed(command, error)
            return
        if work is not None:
            self._commands += 1
            if self._commands == COMMANDS_MAX and not self._is_crowded:
                self._is_crowded = True
                self.hold()
            self.broker.spawn(self._finish(command, work, rights))

    async def _finish(
        self,
        command: Command | TransactionRequest,
        work: Coroutine[Any, Any, None],
        rights: int,
    ) -> None:
        try:
            await work
        except Exception as error:
            self._failed(command, error)
        finally:
            self._commands -= 1
            if self._is_crowded and self._commands <= COMMANDS_MAX // 2:
                self._is_crowded = False
                self.release()
                self._put_on()
        # If the right was revoked while this command opened something, what it opened is closed.
        self.broker.access_control.look_again(self, rights)

    def _failed(self, command: Command | TransactionRequest, error: Exception) -> None:
        if isinstance(error, OSError):  # of the disk
            error = PersistenceError(str(error))
        elif not isinstance(error, MilepostError):  # a bug of ours: log it, and answer the client
            logger.exception("%s: %s failed", self, kind_name(command.kind))
            error = MilepostError(f"internal error: {type(error).__name__}")
        self.refuse(command, error)

    def turn_away(self, error: MilepostError) -> None:
        """Refuse a client that could not prove who it is, and end the connection.

        A client that would not hear it yet is let in first, to be told at whatever it asks; nothing
        that it says is heard, and the connection ends when a handshake would have had to.
        """
        self.broker.access_control.refused(self, error)
        self.refusal = error
        if self.is_closed:
            return
        peer = self.protocol.peer
        if self.protocol.state is State.CONNECTING and peer and not peer.hears_handshake_errors:
            self.protocol.accept()
            self.flush()
        else:
            self.protocol.refuse(error.wire_code, str(error))
            self.close()

    def refuse(self, command: Command | TransactionRequest, error: MilepostError) -> None:
        """Answer a request that failed, in the reply that its kind of request waits for."""
        peer = self.protocol.peer
        code = error.wire_code if peer is None else peer.error_code(error.wire_code)
        answer = replies.refusal(command, code, str(error))
        if answer is not None:
            self.write((answer,))

    def _fault(self, fault: Fault) -> None:
        self.broker.counters.frames_refused[str(fault.error.reason)] += 1
        logger.warning("%s: closing: %s", self, fault.error)
        self.close()

    # -- out ---------------------------------------------------------------------------------------

    def write(self, buffers: Sequence[Buffer]) -> None:
        if self.is_closed or not buffers:
            return
        self.protocol.writelines(buffers)
        for buffer in buffers:  # mostly one
            self._unflushed_size += len(buffer)
        if self._unflushed_size >= self._unflushed_size_max:
            # Many subscriptions may write to this client in one turn. Only the transport knows when it is
            # too much, and the next subscription must see that.
            self.flush()
        elif not self._flush_scheduled:
            self._flush_scheduled = True
            self.broker.round.flush(self)

    def flush(self) -> None:
        """Hand everything written to the transport, in one piece."""
        self._flush_scheduled = False
        self._unflushed_size = 0
        if self.is_closed:
            return
        if buffers := self.protocol.data_to_send():
            self._transport.send(buffers)

    def writable(self, is_writable: bool) -> None:
        """The client reads slower than it is written to, or has caught up."""
        self.is_writable = is_writable
        self.unwritable_since = self.broker.clock.monotonic()
        if is_writable:
            if self._waits_for_reader:
                self._waits_for_reader = False
                self.release()
            self._put_on()
            for consumer in self.consumers.values():
                consumer.subscription.rescan()

    def unsent_size(self) -> int:
        """Bytes that wait for the client to read them."""
        return self._transport.unsent_size()

    # -- producers and consumers -------------------------------------------------------------------

    def is_opening(self, key: tuple[str, int], command: Message) -> bool:
        """Is what this command asked for still wanted? Not if it was closed meanwhile, or another command
        opens it, or the connection is gone; that may be before the command's work begins."""
        return self.opening.get(key) is command and not self.is_closed

    def restart_producer(self, producer: Producer) -> None:
        self.broker.admissions.restart(producer)

    def forget_producer(self, producer: Producer) -> None:
        if self.producers.get(producer.producer_id) is producer:
            del self.producers[producer.producer_id]
            connection_log.produced(producer)
        self.closed_producers[producer.producer_id] = None
        if len(self.closed_producers) > RECENTLY_CLOSED_MAX:
            del self.closed_producers[next(iter(self.closed_producers))]

    def add_producer(self, producer: Producer) -> None:
        self.closed_producers.pop(producer.producer_id, None)
        self.producers[producer.producer_id] = producer
        connection_log.produces(producer)

    def add_consumer(self, consumer: Consumer) -> None:
        self.consumers[consumer.consumer_id] = consumer
        connection_log.consumes(consumer)

    def forget_consumer(self, consumer: Consumer) -> None:
        if self.consumers.get(consumer.consumer_id) is consumer:
            del self.consumers[consumer.consumer_id]
            connection_log.consumed(consumer)

    # -- the end -----------------------------------------------------------------------------------

    def fail(self, reason: str) -> None:
        if not self.is_closed:
            logger.warning("%s: closing: %s", self, reason)
            self.close()

    def abort(self, reason: str) -> None:
        """End the connection now; what waits to be sent is dropped."""
        logger.warning("%s: ending: %s", self, reason)
        self._hear_no_more()
        self._transport.abort()

    def close(self) -> None:
        """Send what waits, then end the connection; `lost` follows."""
        self.flush()
        self._hear_no_more()
        self._transport.close()

    def part(self) -> None:
        """Send what waits, and hear nothing more; the client is to go by itself. What it still sends is read
        and dropped: a connection that ends with unread bytes is reset, and what was sent here last might be
        lost with it."""
        self.flush()
        self._hear_no_more()
        self._transport.resume_reading()

    def _hear_no_more(self) -> None:
        self.protocol.close()
        if self._closed_at is None:
            self._closed_at = self.broker.clock.monotonic()

    def lost(self) -> None:
        """The connection is gone: so are its producers and consumers, when everything is obeyed that
        had been received."""
        if self.is_closed or self._is_gone:
            return
        if self.protocol.has_more or self._unheard is not None:
            self._is_gone = True
            self.is_writable = False  # dispatch passes it by
            self._put_on()
        else:
            self._end()

    def _end(self) -> None:
        self.is_closed = True
        self.protocol.close()
        self.opening.clear()
        if self.protocol.peer is not None:
            connection_log.disconnected(self, by_broker=self._closed_at is not None)
        for producer in list(self.producers.values()):
            self.broker.admissions.remove(producer)
        for consumer in list(self.consumers.values()):
            self.broker.remove_consumer(consumer)
        self.producers.clear()
        self.consumers.clear()
        self.broker.sessions.discard(self)
        self.broker.watchers.forget(self)

    def _judge_credentials(self) -> None:
        """Ask for new credentials when the old ones expire; close the connection if the client gives none."""
        identity, peer = self.credentials.identity, self.protocol.peer
        if identity is None or peer is None:
            return
        now_ms = self.broker.clock.wall_ms()
        if not self._is_reading:
            self.credentials.excuse(now_ms)
        can_refresh = peer.refreshes_auth and self.broker.access_control.security.can_refresh(
            identity
        )
        verdict = self.credentials.judge(now_ms, can_refresh=can_refresh)
        if verdict is Verdict.CHALLENGE:
            self.protocol.write(
                replies.auth_challenge(
                    self.broker.server_version, peer.protocol_version, identity.method, REFRESH
                )
            )
            self.flush()
        elif verdict is Verdict.END:
            self.broker.counters.connections_closed["credentials_expired"] += 1
            self.fail(f"the credentials of role {identity} have expired")

    def tick(self, *, keep_alive: bool) -> None:
        """Once a second: is the handshake done? And with `keep_alive`: does the client answer?"""
        now = self.broker.clock.monotonic()
        if self._closed_at is not None:
            if now - self._closed_at >= LINGER_S:
                self.abort("it does not read what it was sent last")
            return
        if self.protocol.state is not State.READY or self.refusal is not None:
            if now - self.opened_at >= self.broker.settings.handshake_timeout_s:
                self.broker.counters.connections_closed["handshake_timeout"] += 1
                self.close()
            return
        self._judge_credentials()
        if not keep_alive:
            return
        if self.protocol.heard or not (self._is_reading or self._waits_for_reader):
            self._ping_sent = False
        elif self._ping_sent:
            # The client is gone: it will not read what waits for it, and what it holds goes to others.
            self.broker.counters.connections_closed["keep_alive_timeout"] += 1
            self.abort("it does not answer")
            return
        self.protocol.heard = False
        self._ping_sent = True
        self.protocol.ping()
        self.flush()
