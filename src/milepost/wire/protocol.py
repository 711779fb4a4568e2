"""`ServerProtocol` and `ClientProtocol`: bytes in, events out.

A protocol object knows what may be said when, and nothing of sockets, clocks, topics or rights. It
never raises for what a peer sends: bytes that are not the protocol end in one `Fault`, the last event,
and a protocol that is closed. How the bytes were cut on their way changes nothing but the grouping of
`Sends`.

                      CONNECT                accept()
    server:    NEW ────────────► CONNECTING ──────────► READY        AUTH_RESPONSE may come between
                      connect()              CONNECTED
    client:    NEW ────────────► CONNECTING ──────────► READY        AUTH_CHALLENGE may come between

    any state ── Fault, refuse() or close() ──► CLOSED

All of a session's thinking, as broker/connection/server.py does it:

    def data_received(self, data: bytes) -> None:
        for event in self.protocol.receive(data):
            self.session.handle(event)
        self.transport.writelines(self.protocol.data_to_send())
        if self.protocol.state is State.CLOSED:
            self.transport.close()

PING is answered in here, ahead of everything that waits to be sent: a client that hears no PONG because
a backlog is being written to it would give the connection up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Final

from google.protobuf.message import Message

from milepost.errors import ProtocolError
from milepost.positions import signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import (
    FROM_BROKER,
    FROM_CLIENT,
    Kind,
    TooManyParts,
    UnknownValue,
    decode_command,
    kind_name,
)
from milepost.wire.events import Ack, ClientEvent, Command, Fault, ServerEvent, TransactionRequest
from milepost.wire.frames import (
    FRAME_PADDING,
    HANDSHAKE_FRAME_MAX,
    HEADER_SIZE,
    MESSAGE_SIZE_MAX_DEFAULT,
    Buffer,
    Unfinished,
    frame_bounds,
)
from milepost.wire.peer import Peer, peer_of
from milepost.wire.reasons import Reason
from milepost.wire.replies import (
    PING,
    PONG,
    UNSOLICITED,
    ServerError,
    connected,
    error,
    refusal,
    reply,
)
from milepost.wire.scanners.ack_scan import read_ack, read_flow, scan_ack, scan_flow
from milepost.wire.scanners.ack_slices import WORDS_SMALL, sliced
from milepost.wire.scanners.long_command import SIZE_MIN as LONG_SIZE_MIN
from milepost.wire.scanners.long_command import LongCommand
from milepost.wire.scanners.message_scan import (
    read_message,
    read_receipt,
    scan_message,
    scan_receipt,
)
from milepost.wire.scanners.send_scan import add_send, read_send, scan_sends
from milepost.wire.scanners.transaction_scan import KINDS as TRANSACTION_KINDS
from milepost.wire.scanners.transaction_scan import (
    read_transaction,
    scan_long_addition,
    scan_transaction,
    scan_transactions,
)

# A client's command without an entry; only lists of message ids grow with what a client holds.
COMMAND_SIZE_MAX: Final = 1024 * 1024
_SIZED_BY_IDS: Final = frozenset((Kind.ACK, Kind.REDELIVER_UNACKNOWLEDGED_MESSAGES))

# What is heard in one go: so many ACKs, or fewer FLOWs and commands of transactions, or a few other commands,
# which cost more to read and much more to obey. What was received behind them is heard when others have had
# their turn.
HEARD_MAX: Final = 1024
FLOW_WEIGHT: Final = 16
TRANSACTION_WEIGHT: Final = 16
# Of one that the library reads, as that of an encrypted message is: those as clients mostly write them cost
# a tenth of it, and have no weight.
SEND_WEIGHT: Final = 8
COMMAND_WEIGHT: Final = 128
# Each of these may go through a whole namespace, or through all that a consumer holds: one is enough.
_HEAVY: Final = frozenset(
    (
        Kind.GET_TOPICS_OF_NAMESPACE,
        Kind.WATCH_TOPIC_LIST,
        Kind.REDELIVER_UNACKNOWLEDGED_MESSAGES,
    )
)

# What a client accepts of a broker that it chose to trust: message, ack set and lists of topics.
CLIENT_FRAME_MAX: Final = 64 * 1024 * 1024

# Ids of a command that is not written as official clients write it: those name a few thousand at most,
# and it is obeyed in one go.
UNUSUAL_IDS_MAX: Final = 10_000

_TYPE_TAG: Final = 1 << 3
# Looking a kind up by its name takes the library half a microsecond.
_ACK: Final[int] = Kind.ACK
_FLOW: Final[int] = Kind.FLOW
_SEND: Final[int] = Kind.SEND
_SEND_BYTE: Final = bytes((_SEND,))
_TRANSACTION_BYTES: Final = frozenset(bytes((kind,)) for kind in TRANSACTION_KINDS)
_MESSAGE: Final[int] = Kind.MESSAGE
_SEND_RECEIPT: Final[int] = Kind.SEND_RECEIPT
_CONNECT: Final[int] = Kind.CONNECT
_PING: Final[int] = Kind.PING
_PONG: Final[int] = Kind.PONG

# Java clients need them to ask for a topic's partitions without creating it, and to watch a pattern
# instead of asking again and again; our own asks for indexes; the rest is the broker's.
DEFAULT_FLAGS: Final = pb.FeatureFlags(
    supports_get_partitioned_metadata_without_auto_creation=True,
    supports_topic_watchers=True,
    supports_message_index=True,
    supports_txn_series=True,
)


RunReader = Callable[[bytes, int], int]
"""Takes whole MESSAGE frames at the front of what was received, none larger than the second argument, and
returns where the first begins that it leaves. It keeps what it takes: there are no events of it. For who
reads many at once."""


class State(Enum):
    NEW = "new"
    CONNECTING = "connecting"
    READY = "ready"
    CLOSED = "closed"


class Connection:
    """What both ends do alike: gather bytes into frames, keep what is to be sent."""

    def __init__(self, frame_max: int) -> None:
        self.state = State.NEW
        # What the peer said of itself; None until it did.
        self.peer: Peer | None = None
        # Why the connection ended; None while it has not, or if nothing was wrong.
        self.error: ProtocolError | None = None
        # Set by every whole frame. The keep-alive clears it at each tick.
        self.heard = False
        # The largest frame the peer may send now.
        self._frame_max = frame_max
        self._unfinished = Unfinished()
        # Whole frames, to be sent in this order: first all urgent ones, then the rest.
        self._urgent: list[Buffer] = []
        self._waiting: list[Buffer] = []

    def write(self, frame: Buffer) -> None:
        """Send one whole frame, after what was written before."""
        self._waiting.append(frame)

    def writelines(self, buffers: Iterable[Buffer]) -> None:
        """Send whole frames, each in one or several buffers."""
        self._waiting.extend(buffers)

    def ping(self) -> None:
        """Send PING, ahead of what waits."""
        self._urgent.append(PING)

    def data_to_send(self) -> list[Buffer]:
        """Take all that waits to be sent; the caller sends it now and in this order."""
        data, self._waiting = self._waiting, []
        if self._urgent:
            data, self._urgent = self._urgent + data, []
        return data

    def close(self) -> None:
        """Hear nothing more. What waits may still be sent."""
        self.state = State.CLOSED
        self._unfinished.drop()

    def _fail(self, failure: ProtocolError) -> Fault:
        self.error = failure
        self.close()
        return Fault(failure)

    def _hear(self, kind: int) -> bool:
        """Whether the command was only about being alive, and is dealt with."""
        if kind == _PING:
            self._urgent.append(PONG)
            return True
        return kind == _PONG


class ServerProtocol(Connection):
    """The broker's end."""

    def __init__(
        self,
        *,
        server_version: str,
        max_message_size: int = MESSAGE_SIZE_MAX_DEFAULT,
        feature_flags: pb.FeatureFlags | None = None,
    ) -> None:
        super().__init__(HANDSHAKE_FRAME_MAX)
        self._server_version = server_version
        self._max_message_size = max_message_size
        self._feature_flags = feature_flags or DEFAULT_FLAGS
        # A command that is read in parts; nothing behind it is read meanwhile.
        self._long: LongCommand | None = None
        # The slice of an ACK that is heard next, and those behind it; nothing else is read meanwhile.
        self._slice: Ack | None = None
        self._slices: Iterator[Ack] = iter(())
        self.part = 0
        """Which part of a long command was heard last; 0: the first one, or a whole command."""
        self._next_part = 0
        # What may still be heard in this go.
        self._left = 0
        self.has_more = False
        """There is more to be heard of what was received: call `receive` again, with nothing, when
        others have had their turn."""

    def receive(self, data: bytes) -> list[ServerEvent]:
        """What the bytes mean, in order."""
        events: list[ServerEvent] = []
        if self._slice is not None or self._long is not None:
            # What was received whole is heard whole, also when nothing behind it is.
            if self.state is not State.CLOSED:
                self._unfinished.gather(data)
            if self._slice is None and self._long is not None:
                self._take_part(self._long, events)
            if self._slice is not None:
                events.append(self._slice)
                self._slice = next(self._slices, None)
            if self._slice is None and self._long is None:
                self.has_more = self.state is not State.CLOSED
            return events
        self.has_more = False
        self.part = 0
        if self.state is State.CLOSED:
            return events
        data = self._unfinished.join(data)
        if not data:
            return events
        at = 0
        self._left = HEARD_MAX
        try:
            while self._long is None and self._slice is None:
                if self._left <= 0:
                    self.has_more = True
                    break
                if self.state is State.READY:
                    # Where official clients write what kind of command it is.
                    kind = data[at + 9 : at + 10]
                    if kind == _SEND_BYTE:
                        at = scan_sends(data, at, self._frame_max, events)
                    elif kind in _TRANSACTION_BYTES:
                        most = (self._left - 1) // TRANSACTION_WEIGHT + 1
                        at, count = scan_transactions(data, at, events, most)
                        self._left -= count * TRANSACTION_WEIGHT
                        if self._left <= 0:
                            continue
                if at == len(data):
                    break
                bounds = frame_bounds(data, at, self._frame_max)
                if bounds is None:
                    break
                command_end, end = bounds
                self._take(data, at + HEADER_SIZE, command_end, end, events)
                at = end
        except ProtocolError as failure:
            if failure.reason in (Reason.UNKNOWN_COMMAND, Reason.UNKNOWN_VALUE):
                # The one case where the peer may be right and we too old: say so.
                code = ServerError.UnsupportedVersionError
                self.write(error(UNSOLICITED, code, str(failure)))
            events.append(self._fail(failure))
        else:
            # A size that was not looked at may be one that is refused: it is not waited for.
            if at < len(data):
                self._unfinished.keep(data, at, is_unread=self.has_more)
        if at:
            self.heard = True
        return events

    def _take_part(self, long: LongCommand, events: list[ServerEvent]) -> None:
        """The next part of a long command, as a command of its own."""
        goes_on = False
        try:
            if not long.is_looked_through:
                long.look()
                if not long.is_unusual:
                    return
            if long.is_unusual:
                command = long.whole()
            else:
                command, goes_on = long.take()
                self.part = self._next_part
                self._next_part += 1
            self._take(command, 0, len(command), len(command), events)
            if long.is_cut:
                events[:] = [e._replace(is_cut=True) if isinstance(e, Ack) else e for e in events]
        except ProtocolError as failure:
            goes_on = False
            events.append(self._fail(failure))
        if not goes_on:
            self._long = None
        else:
            events[:] = [_going_on(e) if isinstance(e, Ack) else e for e in events]
            if self._slice is not None:
                self._slice, self._slices = _going_on(self._slice), map(_going_on, self._slices)

    def accept(self) -> None:
        """Answer CONNECTED: the peer is who it says. Commands may come from now on."""
        assert self.state is State.CONNECTING, f"accepted while {self.state.value}"
        assert self.peer is not None
        self.write(
            connected(
                self._server_version,
                self.peer.protocol_version,
                self._max_message_size,
                self._feature_flags,
            )
        )
        self._frame_max = self._max_message_size + FRAME_PADDING
        self.state = State.READY

    def refuse(self, code: int, message: str) -> None:
        """Answer ERROR to the handshake, and hear nothing more."""
        self.write(error(UNSOLICITED, code, message))
        self.close()

    def _take(
        self, data: bytes, at: int, command_end: int, end: int, events: list[ServerEvent]
    ) -> None:
        """One frame that is not a SEND in its usual form."""
        # Official clients write the type first; other clients' commands go the long way.
        hint = data[at + 1] if data[at] == _TYPE_TAG and at + 1 < command_end else 0
        if command_end == end and (self.state is State.READY or self._long is not None):
            event: ServerEvent | None = None
            if (
                end - at > LONG_SIZE_MIN
                and hint in _SIZED_BY_IDS
                and self._long is None
                and (long := LongCommand.of(data, at, end)) is not None
            ):
                self._long, self._next_part, self.has_more = long, 0, True
                return
            if hint == _ACK:
                self._left -= 1
                ack = scan_ack(data, at, end)
                if ack is not None:
                    self._add_ack(ack, events)
                    return
            elif hint == _FLOW:
                self._left -= FLOW_WEIGHT
                event = scan_flow(data, at, end)
            elif hint in TRANSACTION_KINDS:
                event = scan_transaction(data, at, end)
                self._left -= 0 if event is None else TRANSACTION_WEIGHT
            if event is not None:
                events.append(event)
                return
        if command_end - at > COMMAND_SIZE_MAX:
            too_long = ProtocolError(
                Reason.BAD_COMMAND_SIZE,
                f"a command of {command_end - at} bytes; allowed are {COMMAND_SIZE_MAX}",
            )
            addition = scan_long_addition(data, at, end) if command_end == end else None
            self._left -= COMMAND_WEIGHT
            self._refuse(addition, ServerError.TooManyRequests, too_long)
            return
        try:
            command = decode_command(data[at:command_end])
        except UnknownValue as unknown:
            self._left -= COMMAND_WEIGHT
            self._refuse(unknown.command, ServerError.UnsupportedVersionError, unknown)
            return
        except TooManyParts as many:
            self._left -= HEARD_MAX  # a megabyte of names takes some 30 ms to read
            is_whole = command_end == end and many.command.message.IsInitialized()
            asked = many.command if is_whole else None
            self._refuse(asked, ServerError.TooManyRequests, many)
            return
        if command.kind == _SEND:
            self._left -= SEND_WEIGHT
        else:
            self._left -= HEARD_MAX if command.kind in _HEAVY else COMMAND_WEIGHT
        if command_end != end and command.kind != _SEND:
            raise ProtocolError(
                Reason.BAD_COMMAND_SIZE,
                f"{end - command_end} bytes behind {kind_name(command.kind)}",
            )
        self._handle(command, data, command_end, end, events)

    def _handle(
        self, command: Command, data: bytes, entry_at: int, end: int, events: list[ServerEvent]
    ) -> None:
        kind, message = command
        if self.state is not State.READY and self._long is None:
            self._handshake(command, events)
        elif isinstance(message, pb.CommandSend):
            send = read_send(message, data, entry_at, end)
            add_send(events, signed64(message.producer_id), send)
        elif isinstance(message, pb.CommandAck):
            _check_count(kind, len(message.message_id))
            self._add_ack(read_ack(message), events)
        elif isinstance(message, pb.CommandFlow):
            events.append(read_flow(message))
        elif kind in TRANSACTION_KINDS and (asked := read_transaction(message)) is not None:
            events.append(asked)
        elif kind == _CONNECT:
            raise ProtocolError(Reason.SECOND_CONNECT, "CONNECT on a connection that has one")
        elif kind not in FROM_CLIENT:
            raise ProtocolError(Reason.UNEXPECTED_COMMAND, f"{kind_name(kind)} from a client")
        elif not self._hear(kind):
            if isinstance(message, pb.CommandRedeliverUnacknowledgedMessages):
                _check_count(kind, len(message.message_ids))
            events.append(command)

    def _handshake(self, command: Command, events: list[ServerEvent]) -> None:
        kind, message = command
        if self.state is State.NEW:
            if not isinstance(message, pb.CommandConnect):
                raise ProtocolError(Reason.BEFORE_CONNECT, f"{kind_name(kind)} before CONNECT")
            self.peer = peer_of(
                message.client_version, message.protocol_version, message.feature_flags
            )
            self.state = State.CONNECTING
            events.append(command)
        elif kind == _CONNECT:
            raise ProtocolError(Reason.SECOND_CONNECT, "CONNECT while the first is answered")
        elif kind == Kind.AUTH_RESPONSE:
            events.append(command)
        elif not self._hear(kind):
            raise ProtocolError(Reason.BEFORE_CONNECT, f"{kind_name(kind)} before CONNECTED")

    def _add_ack(self, ack: Ack, events: list[ServerEvent]) -> None:
        ids = ack.ids
        if len(ids) == 1 and len(ids[0].ack_set) <= WORDS_SMALL:
            events.append(ack)  # most are
            return
        slices = sliced(ack)
        first = next(slices)
        if first.goes_on:
            self._slice, self._slices = first, slices
            self.has_more = True
        else:
            events.append(first)

    def _refuse(
        self, asked: Command | TransactionRequest | None, code: int, failure: ProtocolError
    ) -> None:
        """Answer a request that is not obeyed, so that the connection stays; raise `failure` if there is no
        request, or no reply to one of its kind."""
        answer = None
        if self.state is State.READY and asked is not None and asked.kind in FROM_CLIENT:
            answer = refusal(asked, code, str(failure))
        if answer is None:
            raise failure
        self.write(answer)


class ClientProtocol(Connection):
    """The client's end."""

    def __init__(
        self, *, frame_max: int = CLIENT_FRAME_MAX, read_run: RunReader | None = None
    ) -> None:
        super().__init__(frame_max)
        self._read_run = read_run
        # What the broker takes; what it does not announce is what C++ assumes then.
        self.max_message_size = MESSAGE_SIZE_MAX_DEFAULT - FRAME_PADDING

    def connect(self, connect: pb.CommandConnect) -> None:
        """Send CONNECT."""
        assert self.state is State.NEW, f"connected while {self.state.value}"
        self.write(reply(connect))
        self.state = State.CONNECTING

    def send(self, command: Message) -> None:
        """Send a command that has no encoder of its own."""
        self.write(reply(command))

    def receive(self, data: bytes) -> list[ClientEvent]:
        """What the bytes mean, in order."""
        events: list[ClientEvent] = []
        if self.state is State.CLOSED:
            return events
        data = self._unfinished.join(data)
        if not data:
            return events
        at = 0
        if self._read_run is not None and self.state is State.READY:
            at = self._read_run(data, self._frame_max)
        try:
            while (bounds := frame_bounds(data, at, self._frame_max)) is not None:
                command_end, end = bounds
                self._take(data, at + HEADER_SIZE, command_end, end, events)
                at = end
        except ProtocolError as failure:
            events.append(self._fail(failure))
        else:
            self._unfinished.keep(data, at)
        if at:
            self.heard = True
        return events

    def _take(
        self, data: bytes, at: int, command_end: int, end: int, events: list[ClientEvent]
    ) -> None:
        hint = data[at + 1] if data[at] == _TYPE_TAG and at + 1 < command_end else 0
        if self.state is State.READY:
            event: ClientEvent | None = None
            if hint == _MESSAGE:
                event = scan_message(data, at, command_end, end)
            elif hint == _SEND_RECEIPT and command_end == end:
                event = scan_receipt(data, at, end)
            if event is not None:
                events.append(event)
                return
        try:
            command = decode_command(data[at:command_end], repeated_max=end)
        except UnknownValue as unknown:
            command = _with_known_error(unknown)
        if command_end != end and command.kind != _MESSAGE:
            raise ProtocolError(
                Reason.BAD_COMMAND_SIZE,
                f"{end - command_end} bytes behind {kind_name(command.kind)}",
            )
        self._handle(command, data[command_end:end], events)

    def _handle(self, command: Command, entry: bytes, events: list[ClientEvent]) -> None:
        kind, message = command
        if self.state is not State.READY:
            self._handshake(command, events)
        elif isinstance(message, pb.CommandMessage):
            events.append(read_message(message, entry))
        elif isinstance(message, pb.CommandSendReceipt):
            events.append(read_receipt(message))
        elif kind == Kind.CONNECTED:
            raise ProtocolError(Reason.SECOND_CONNECT, "CONNECTED on a connection that has one")
        elif kind not in FROM_BROKER:
            raise ProtocolError(Reason.UNEXPECTED_COMMAND, f"{kind_name(kind)} from a broker")
        elif not self._hear(kind):
            events.append(command)

    def _handshake(self, command: Command, events: list[ClientEvent]) -> None:
        kind, message = command
        if self.state is State.NEW:
            raise ProtocolError(Reason.BEFORE_CONNECT, f"{kind_name(kind)} before CONNECT")
        if isinstance(message, pb.CommandConnected):
            self.peer = peer_of(
                message.server_version, message.protocol_version, message.feature_flags
            )
            if message.max_message_size > 0:
                self.max_message_size = message.max_message_size
            self.state = State.READY
            events.append(command)
        elif kind in (Kind.AUTH_CHALLENGE, Kind.ERROR):
            events.append(command)
        elif not self._hear(kind):
            raise ProtocolError(Reason.BEFORE_CONNECT, f"{kind_name(kind)} before CONNECTED")


def _going_on(ack: Ack) -> Ack:
    return ack._replace(goes_on=True)


def _with_known_error(unknown: UnknownValue) -> Command:
    """An error code of the future is still an error; any other unknown value is a fault."""
    command = unknown.command
    # The value may be one of a message inside the command, whose fields are none of the command's.
    field = command.message.DESCRIPTOR.fields_by_name.get(unknown.field_name)
    if field is None or field.enum_type is not ServerError.DESCRIPTOR:
        raise unknown
    setattr(command.message, unknown.field_name, ServerError.UnknownError)
    if not command.message.IsInitialized():
        raise unknown
    return command


def _check_count(kind: int, ids: int) -> None:
    if ids > UNUSUAL_IDS_MAX:
        raise ProtocolError(Reason.BAD_COMMAND, f"an unusual {kind_name(kind)} of {ids} ids")
