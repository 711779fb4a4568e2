"""One HTTP/2 connection as the server has it, without its socket: bytes in, events out, bytes to send.

    bytes ─▶ receive ─▶ next ─▶ Asked, Came, Reset, Drained
    answer, begin, write, end, reset ─▶ take ─▶ bytes for the client

What a client may make this side keep is bounded: headers by their size and the number of their frames, data
by the windows, what is to be sent by the call that writes it (`is_drained`). What costs work and brings
nothing (pings, settings, resets, empty frames) is counted: a client that sends much more of it than it gets
answers is told to be calm, and its connection ends.

A stream is a call. The dictionary has those that are open; one with a lower number than the last is closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from milepost.rocketmq.grpc import frames
from milepost.rocketmq.grpc.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    FRAME_SIZE_MAX,
    HEAD_SIZE,
    PADDED,
    PREFACE,
    STREAM_MAX,
    WINDOW_DEFAULT,
    WINDOW_MAX,
    ConnectionFault,
    ErrorCode,
    Setting,
    StreamFault,
)
from milepost.rocketmq.grpc.headers import LIST_SIZE_MAX, HeaderReader, Headers, Malformed

# Bytes of a call that come before they are read, and of all calls of a connection.
STREAM_WINDOW: Final = 256 * 1024
CONNECTION_WINDOW: Final = 1024 * 1024
# Frames that one header block may be cut into; its bytes are bounded too.
BLOCK_FRAMES_MAX: Final = 16
BLOCK_SIZE_MAX: Final = 2 * LIST_SIZE_MAX
# Frames that bring nothing: so many at once, so many a second, and some for every answer.
IDLE_FRAMES_MAX: Final = 2000
IDLE_FRAMES_A_SECOND: Final = 100
# Clients ping, and tell of room, as answers come.
IDLE_FRAMES_AN_ANSWER: Final = 8
# Calls that a client ends itself: the same. A consumer may end a thousand polls at once.
RESETS_MAX: Final = 4000
RESETS_A_SECOND: Final = 100
# Streams that this side has ended before the client did: what is on its way is passed over.
CUT_OFF_MAX: Final = 256


class Asked(NamedTuple):
    """A call begins."""

    stream: int
    headers: Headers
    is_last: bool
    """The client says nothing more."""


class Came(NamedTuple):
    """Bytes of a call."""

    stream: int
    data: bytes
    is_last: bool


class Reset(NamedTuple):
    """The call is over: the client has ended it, or has broken a rule."""

    stream: int
    code: int


class Drained(NamedTuple):
    """Everything that was written for a call is on its way."""

    stream: int


Event = Asked | Came | Reset | Drained


class _Stream:
    __slots__ = (
        "ends_with",
        "is_ended",
        "left",
        "owed",
        "received",
        "unsent",
        "window",
    )

    def __init__(self, window: int) -> None:
        self.window = window
        """What the client takes of it."""
        self.received = STREAM_WINDOW
        """What the client may send of it."""
        self.owed = 0
        """Bytes that have come, and whose room was not given back."""
        self.is_ended = False
        """The client says nothing more."""
        self.left: int | None = None
        """Bytes that are still to come, where the client has said how many."""
        self.unsent: deque[bytes | memoryview] = deque()
        self.ends_with: bytes | None = None
        """The header block behind the data; None: more follows."""


class _Patience:
    """How often something may happen: so many times at once, and so many a second."""

    __slots__ = ("_a_second", "_asked", "_left", "_most")

    def __init__(self, most: int, a_second: int) -> None:
        self._most = self._left = float(most)
        self._a_second = a_second
        self._asked = 0.0

    def is_over(self, now: float) -> bool:
        """Count one more; is it too much?"""
        self._left = min(self._most, self._left + (now - self._asked) * self._a_second)
        self._asked = now
        self._left -= 1
        return self._left < 0

    def rewarded(self, count: int) -> None:
        self._left = min(self._most, self._left + count)


class Http2:
    def __init__(self, streams_max: int) -> None:
        self._streams_max = streams_max
        self._buffer = bytearray()
        self._at = 0
        self._has_preface = self._has_settings = False
        self._reader = HeaderReader()
        self._streams: dict[int, _Stream] = {}
        self.last_stream = 0
        """The highest number of a stream that the client has opened."""
        self._is_leaving = False
        # The block that is being read: its stream, its flags, what has come of it, in how many frames.
        self._block: tuple[int, int, bytearray, int] | None = None
        # Windows of the connection, and what a new stream gets, as the client says it.
        self._window = WINDOW_DEFAULT
        self._stream_window = WINDOW_DEFAULT
        self._frame_size = FRAME_SIZE_MAX
        self._received = CONNECTION_WINDOW
        self._owed = 0
        self._cut_off: dict[int, None] = {}
        # Streams that wait for room in the window of the connection, in the order of their turns. Those that
        # wait for room in their own are not among them: nothing has to be tried that cannot go.
        self._waiting: dict[int, None] = {}
        self._idle_frames = _Patience(IDLE_FRAMES_MAX, IDLE_FRAMES_A_SECOND)
        self._resets = _Patience(RESETS_MAX, RESETS_A_SECOND)
        self._out: list[bytes | memoryview] = [
            frames.settings_frame(
                {
                    Setting.MAX_CONCURRENT_STREAMS: streams_max,
                    Setting.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                    Setting.MAX_HEADER_LIST_SIZE: LIST_SIZE_MAX,
                }
            ),
            frames.window_frame(0, CONNECTION_WINDOW - WINDOW_DEFAULT),
        ]
        self._events: list[Event] = []
        self._handlers: dict[int, Callable[[int, int, bytes, float], None]] = {
            frames.DATA: self._data,
            frames.HEADERS: self._headers,
            frames.PRIORITY: self._priority,
            frames.RST_STREAM: self._reset,
            frames.SETTINGS: self._settings,
            frames.PUSH_PROMISE: self._push,
            frames.PING: self._ping,
            frames.GOAWAY: self._goaway,
            frames.WINDOW_UPDATE: self._window_update,
            frames.CONTINUATION: self._continuation,
        }

    @property
    def is_greeted(self) -> bool:
        """Has the client said what it speaks?"""
        return self._has_settings

    @property
    def open_streams(self) -> int:
        return len(self._streams)

    def is_drained(self, stream: int) -> bool:
        """Is everything that was written for a call on its way?"""
        known = self._streams.get(stream)
        return known is None or not known.unsent

    def take(self) -> bytes:
        """What is to be sent."""
        if not self._out:
            return b""
        taken = b"".join(self._out)
        self._out.clear()
        return taken

    # -- bytes in ----------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Bytes have come; `next` says what they mean."""
        self._buffer += data

    def next(self, now: float, most: int) -> list[Event]:
        """Events of the frames that have come whole, of `most` at once; `has_more` if there are others.
        `ConnectionFault` if the connection must end; what is to be sent says so to the client."""
        events, self._events = self._events, []
        try:
            self._read(now, most, events)
        except ConnectionFault as fault:
            self._out.append(frames.goaway_frame(self.last_stream, fault.code, str(fault)[:200]))
            raise
        return events

    @property
    def has_more(self) -> bool:
        """Is there a frame that has come whole and was not read?"""
        buffer, at = self._buffer, self._at
        if len(buffer) - at < HEAD_SIZE:
            return False
        return len(buffer) - at - HEAD_SIZE >= int.from_bytes(buffer[at : at + 3], "big")

    def _read(self, now: float, most: int, events: list[Event]) -> None:
        buffer = self._buffer
        if not self._has_preface and not self._preface():
            return
        self._events = events  # handlers add to them
        at, end, handlers = self._at, len(buffer), self._handlers
        try:
            while most and end - at >= HEAD_SIZE:
                size = buffer[at] << 16 | buffer[at + 1] << 8 | buffer[at + 2]
                if size > FRAME_SIZE_MAX:
                    raise ConnectionFault(
                        ErrorCode.FRAME_SIZE_ERROR, f"a frame of {size} bytes; {FRAME_SIZE_MAX} are"
                    )
                if end - at - HEAD_SIZE < size:
                    break
                kind, flags = buffer[at + 3], buffer[at + 4]
                stream = int.from_bytes(buffer[at + 5 : at + 9], "big") & STREAM_MAX
                payload = bytes(buffer[at + HEAD_SIZE : at + HEAD_SIZE + size])
                at += HEAD_SIZE + size
                most -= 1
                handler = handlers.get(kind)
                self._check_order(kind, stream)
                if handler is None:
                    self._idle(now)  # a kind of a later time
                    continue
                try:
                    handler(flags, stream, payload, now)
                except StreamFault as fault:
                    self._end_wrongly(fault, now)
        finally:
            del buffer[:at]
            self._at = 0
            self._events = []
        if self._owed >= CONNECTION_WINDOW // 2:
            self._out.append(frames.window_frame(0, self._owed))
            self._received += self._owed
            self._owed = 0

    def _preface(self) -> bool:
        size = min(len(self._buffer), len(PREFACE))
        if self._buffer[:size] != PREFACE[:size]:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the client does not speak HTTP/2")
        if size < len(PREFACE):
            return False
        del self._buffer[:size]
        self._has_preface = True
        return True

    def _check_order(self, kind: int, stream: int) -> None:
        """Settings come first, and nothing comes within a header block."""
        if not self._has_settings:
            if kind != frames.SETTINGS:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "settings do not come first")
            self._has_settings = True
        if (self._block is not None) != (kind == frames.CONTINUATION):
            raise ConnectionFault(
                ErrorCode.PROTOCOL_ERROR, "a header block is interrupted, or continued by nothing"
            )
        if self._block is not None and stream != self._block[0]:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a header block of another stream")

    def _end_wrongly(self, fault: StreamFault, now: float) -> None:
        self._idle(now)
        self.reset(fault.stream, fault.code)
        self._events.append(Reset(fault.stream, fault.code))

    def _idle(self, now: float) -> None:
        """Count a frame that brings nothing."""
        if self._idle_frames.is_over(now):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many frames that bring nothing")

    # -- frames ------------------------------------------------------------------------------------

    def _headers(self, flags: int, stream: int, payload: bytes, now: float) -> None:
        _needs_stream(stream)
        payload = _unpadded(flags, payload)
        if flags & frames.HAS_PRIORITY:
            if len(payload) < 5:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "headers without their priority")
            if int.from_bytes(payload[:4], "big") & STREAM_MAX == stream:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")
            payload = payload[5:]
        if flags & END_HEADERS:
            self._whole_block(stream, flags, payload, now)
        else:
            self._block = stream, flags, bytearray(payload), 1

    def _continuation(self, flags: int, stream: int, payload: bytes, now: float) -> None:
        assert self._block is not None  # the order was checked
        _, first_flags, block, count = self._block
        block += payload
        if count >= BLOCK_FRAMES_MAX or len(block) > BLOCK_SIZE_MAX:
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "a header block that does not end")
        self._block = stream, first_flags, block, count + 1
        if flags & END_HEADERS:
            self._block = None
            self._whole_block(stream, first_flags, bytes(block), now)

    def _whole_block(self, stream: int, flags: int, block: bytes, now: float) -> None:
        is_last = bool(flags & END_STREAM)
        known = self._streams.get(stream)
        if known is not None or stream <= self.last_stream:
            self._trailers(stream, known, block, is_last=is_last)
            return
        if not stream % 2:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"a client opens stream {stream}")
        self.last_stream = stream
        if self._is_leaving:  # it was told, and asks elsewhere
            self._reader.pass_over(block)
            return
        if len(self._streams) >= self._streams_max:
            self._reader.pass_over(block)
            raise StreamFault(
                stream, ErrorCode.REFUSED_STREAM, f"{self._streams_max} calls are open already"
            )
        try:
            headers = self._reader.read(block)
        except Malformed as error:
            raise StreamFault(stream, ErrorCode.PROTOCOL_ERROR, str(error)) from None
        made = self._streams[stream] = _Stream(self._stream_window)
        made.is_ended = is_last
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and len(length) < 20:
            made.left = int(length)
            _count_down(stream, made, 0)
        self._events.append(Asked(stream, headers, is_last))

    def _trailers(self, stream: int, known: _Stream | None, block: bytes, *, is_last: bool) -> None:
        """Headers behind the data of a call. They say nothing here, but that it ends."""
        self._reader.pass_over(block)
        if known is None:
            if stream not in self._cut_off:
                text = f"headers on stream {stream}, which is closed"
                raise ConnectionFault(ErrorCode.STREAM_CLOSED, text)
            return
        if known.is_ended:
            raise StreamFault(stream, ErrorCode.STREAM_CLOSED, "headers behind the end of a call")
        if not is_last:
            raise StreamFault(stream, ErrorCode.PROTOCOL_ERROR, "headers in the middle of a call")
        known.is_ended = True
        _count_down(stream, known, 0)
        self._events.append(Came(stream, b"", True))

    def _data(self, flags: int, stream: int, payload: bytes, now: float) -> None:
        _needs_stream(stream)
        size = len(payload)
        self._received -= size
        if self._received < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more data than there is room for")
        self._owed += size
        known = self._streams.get(stream)
        if known is None:
            self._must_be_old(stream)
            self._idle(now)
            if stream not in self._cut_off:
                raise StreamFault(stream, ErrorCode.STREAM_CLOSED, "data on a closed stream")
            return
        if known.is_ended:
            raise StreamFault(stream, ErrorCode.STREAM_CLOSED, "data behind the end of a call")
        known.received -= size
        if known.received < 0:
            raise StreamFault(
                stream, ErrorCode.FLOW_CONTROL_ERROR, "more data than there is room for"
            )
        known.owed += size
        data = _unpadded(flags, payload)
        known.is_ended = bool(flags & END_STREAM)
        if known.left is not None:
            _count_down(stream, known, len(data))
        if not data and not known.is_ended:
            self._idle(now)
            return
        self._events.append(Came(stream, data, known.is_ended))

    def _priority(self, flags: int, stream: int, payload: bytes, now: float) -> None:
        _needs_stream(stream)
        self._idle(now)
        if len(payload) != 5:
            raise StreamFault(stream, ErrorCode.FRAME_SIZE_ERROR, "a priority of another size")
        if int.from_bytes(payload[:4], "big") & STREAM_MAX == stream:
            raise StreamFault(stream, ErrorCode.PROTOCOL_ERROR, "a stream depends on itself")

    def _reset(self, flags: int, stream: int, payload: bytes, now: float) -> None:
        _needs_stream(stream)
        code = frames.number(payload)
        if self._resets.is_over(now):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too many calls that are cut off")
        if self._streams.pop(stream, None) is None:
            self._must_be_old(stream)
            return
        self._waiting.pop(stream, None)
        self._events.append(Reset(stream, code))

    def _settings(self, flags: int, stream: int, payload: bytes, now: float) -> None:
        _needs_none(stream)
        self._idle(now)
        if flags & ACK:
            if payload:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "an answer to settings with some")
            return
        window = self._stream_window
        for number, value in frames.read_settings(payload):
            self._set(number, value)
        # Once for a frame, however often it names the window: thousands of streams may be open.
        if self._stream_window != window:
            self._grow_all(self._stream_window - window)
        self._out.append(frames.frame(frames.SETTINGS, ACK, 0))
        self._flush()

    def _set(self, number: int, value: int) -> None:
        if number == Setting.INITIAL_WINDOW_SIZE:
            if value > WINDOW_MAX:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, f"a window of {value} bytes")
            self._stream_window = value
        elif number == Setting.MAX_FRAME_SIZE:
            if not FRAME_SIZE_MAX <= value < 2**24:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"frames of {value} bytes")
            self._frame_size = min(value, 4 * FRAME_SIZE_MAX)
        elif number == Setting.ENABLE_PUSH and value > 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"pushes are {value}")

    def _grow_all(self, grown: int) -> None:
        """The window of every stream grows by so much; by less than nothing, it may be."""
        for stream, known in self._streams.items():
            known.window += grown
            if known.window > WINDOW_MAX:
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "a window is too large")
            if known.unsent and known.window > 0:
                self._waiting[stream] = None

    def _push(self, flags: int, stream: int, payload: bytes, now: float) -> None:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a client pushes")

    def _ping(self, flags: int, stream: int, payload: bytes, now: float) -> None:
        _needs_none(stream)
        if len(payload) != 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a ping of {len(payload)} bytes")
        self._idle(now)
        if not flags & ACK:
            self._out.append(frames.frame(frames.PING, ACK, 0, payload))

    def _goaway(self, flags: int, stream: int, payload: bytes, now: float) -> None:
        """The client opens no more streams, and waits for those that it has."""
        _needs_none(stream)
        if len(payload) < 8:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a goodbye of {len(payload)} bytes")
        self._idle(now)

    def _window_update(self, flags: int, stream: int, payload: bytes, now: float) -> None:
        grown = frames.number(payload)
        if not stream:
            self._window += grown
            if not grown or self._window > WINDOW_MAX:
                code = ErrorCode.FLOW_CONTROL_ERROR if grown else ErrorCode.PROTOCOL_ERROR
                raise ConnectionFault(code, f"a window grows by {grown} bytes")
        else:
            known = self._streams.get(stream)
            if known is None:
                self._must_be_old(stream)
                self._idle(now)
                return
            known.window += grown
            if not grown or known.window > WINDOW_MAX:
                code = ErrorCode.FLOW_CONTROL_ERROR if grown else ErrorCode.PROTOCOL_ERROR
                raise StreamFault(stream, code, f"a window grows by {grown} bytes")
            if known.unsent and known.window > 0:
                self._waiting[stream] = None
        window = self._window
        self._flush()
        if self._window == window:
            self._idle(now)  # nothing has waited for it

    def _must_be_old(self, stream: int) -> None:
        if stream > self.last_stream or not stream % 2:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"stream {stream} was never opened")

    # -- bytes out ---------------------------------------------------------------------------------

    def answer(self, stream: int, begins: bytes, data: bytes, ends: bytes) -> bool:
        """Answer a call at once: a header block, data, another block; whether it is all on its way."""
        known = self._streams.get(stream)
        if known is None:
            return True
        size = len(data)
        if size > known.window or size > self._window or size > self._frame_size:
            self.begin(stream, begins)
            is_sent = self.write(stream, data)
            self.end(stream, ends)
            return is_sent
        self._window -= size
        head = frames.head
        self._out += (
            head(len(begins), frames.HEADERS, END_HEADERS, stream),
            begins,
            head(size, frames.DATA, 0, stream),
            data,
            head(len(ends), frames.HEADERS, END_HEADERS | END_STREAM, stream),
            ends,
        )
        self._closed(stream, known)
        return True

    def begin(self, stream: int, block: bytes) -> None:
        """The headers of an answer."""
        if stream in self._streams:
            self._out.append(frames.frame(frames.HEADERS, END_HEADERS, stream, block))

    def write(self, stream: int, data: bytes) -> bool:
        """Data of an answer; whether it is all on its way, else `Drained` tells of it."""
        known = self._streams.get(stream)
        if known is None:
            return True
        # As a view: what is left of a large message is cut off again and again.
        known.unsent.append(data if len(data) <= FRAME_SIZE_MAX else memoryview(data))
        self._send(stream, known)
        return not known.unsent

    def end(self, stream: int, block: bytes) -> None:
        """The headers behind an answer, when all of it is on its way."""
        known = self._streams.get(stream)
        if known is None:
            return
        known.ends_with = block
        if not known.unsent:
            self._finish(stream, known)

    def reset(self, stream: int, code: ErrorCode) -> None:
        """End a call without an answer."""
        self._streams.pop(stream, None)
        self._waiting.pop(stream, None)
        self._cut(stream, code)

    def give_room(self, stream: int) -> None:
        """What has come of a call was read: the client may send as much again."""
        known = self._streams.get(stream)
        if known is None or known.is_ended or known.owed < STREAM_WINDOW // 2:
            return
        self._out.append(frames.window_frame(stream, known.owed))
        known.received += known.owed
        known.owed = 0

    def ping(self) -> None:
        """Ask whether the client is there."""
        self._out.append(frames.frame(frames.PING, 0, 0, bytes(8)))

    def leave(self) -> None:
        """Begin no more calls; those that are open can end."""
        if not self._is_leaving:
            self._is_leaving = True
            self._out.append(frames.goaway_frame(self.last_stream, ErrorCode.NO_ERROR))

    def _flush(self) -> None:
        """Send what there is room for now, each stream in its turn."""
        while self._window > 0 and self._waiting:
            stream = next(iter(self._waiting))
            known = self._streams[stream]
            self._send(stream, known)
            if not known.unsent:
                self._events.append(Drained(stream))

    def _send(self, stream: int, known: _Stream) -> None:
        """Send of a stream what there is room for, in frames that the client takes. What is left waits for
        the others' turns, or for room in the window of the stream."""
        unsent = known.unsent
        while unsent:
            data = unsent[0]
            size = min(len(data), known.window, self._window, self._frame_size)
            if size <= 0 and data:
                break
            if size == len(data):
                unsent.popleft()
            else:
                unsent[0] = data[size:]
                data = data[:size]
            known.window -= size
            self._window -= size
            self._out += (frames.head(size, frames.DATA, 0, stream), data)
            self._idle_frames.rewarded(IDLE_FRAMES_AN_ANSWER)
        self._waiting.pop(stream, None)
        if unsent:
            if known.window > 0:
                self._waiting[stream] = None
        elif known.ends_with is not None:
            self._finish(stream, known)

    def _finish(self, stream: int, known: _Stream) -> None:
        block = known.ends_with or b""
        self._out.append(frames.frame(frames.HEADERS, END_HEADERS | END_STREAM, stream, block))
        self._closed(stream, known)

    def _closed(self, stream: int, known: _Stream) -> None:
        """An answer is complete. What the client says behind it is not wanted."""
        del self._streams[stream]
        self._idle_frames.rewarded(IDLE_FRAMES_AN_ANSWER)
        self._resets.rewarded(1)
        if not known.is_ended:
            self._cut(stream, ErrorCode.NO_ERROR)

    def _cut(self, stream: int, code: ErrorCode) -> None:
        self._out.append(frames.reset_frame(stream, code))
        self._cut_off[stream] = None
        if len(self._cut_off) > CUT_OFF_MAX:
            del self._cut_off[next(iter(self._cut_off))]


def _needs_stream(stream: int) -> None:
    if not stream:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame of a call, without its stream")


def _count_down(stream: int, known: _Stream, size: int) -> None:
    """So many bytes have come of those that the client has announced."""
    if known.left is None:
        return
    known.left -= size
    if known.left < 0 or (known.left and known.is_ended):
        raise StreamFault(
            stream, ErrorCode.PROTOCOL_ERROR, "another number of bytes than was announced"
        )


def _needs_none(stream: int) -> None:
    if stream:
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame of the connection, with a stream")


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "a frame that is all padding")
    return payload[1 : len(payload) - payload[0]]
