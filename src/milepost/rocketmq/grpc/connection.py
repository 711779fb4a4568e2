"""One socket: moves bytes between it and HTTP/2, starts calls, keeps the times.

    socket ─▶ Http2 ─▶ a call, when it has come as far as its method needs ─▶ a task
    socket ◀─ Http2 ◀─ its answer

Frames are read some at a time, so that a client that sends thousands at once does not keep the others
waiting. While a client does not take what is written for it, nothing is read from it.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final, cast

from milepost.rocketmq.grpc import statuses
from milepost.rocketmq.grpc.call import READ_S, GrpcCall, Unread
from milepost.rocketmq.grpc.frames import ConnectionFault, ErrorCode
from milepost.rocketmq.grpc.http2 import Asked, Came, Event, Http2, Reset
from milepost.rocketmq.grpc.statuses import Ended, Status

if TYPE_CHECKING:
    from milepost.rocketmq.grpc.server import GrpcServer

# Clients say something every ten seconds. One without calls is not needed any more.
IDLE_S: Final = 120.0
# A machine that is gone does not say so: it is asked after so much silence, and given up then.
SILENT_S: Final = 60.0
GONE_S: Final = 80.0
# The request of a call that has one message comes within so long.
STALLED_S: Final = 30.0
# Frames that are read before other clients have their turn.
FRAMES_A_TURN: Final = 64
# Calls of a client that waits for one answer: that call, and the stream that it keeps open.
ALONE: Final = 2
WRITE_BUFFER_SIZE: Final = 1024 * 1024
# A part of an answer that is written at once: only then is it known whether the client takes more.
LARGE: Final = 64 * 1024
# What an answer takes beside its bytes while the client does not take it.
ANSWER_SIZE: Final = 1024
# After its goodbye a connection stays open for so long. Calls that the client began before it heard of that
# are passed over, and it makes them elsewhere; a socket that is closed at once may take the goodbye with it.
LEAVE_S: Final = 1.0


class Connection(asyncio.Protocol):
    def __init__(self, server: GrpcServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._http2 = Http2(server.calls_max)
        self._calls: dict[int, GrpcCall] = {}
        # Answers for which the client gives no room: what they take, and since when. Their calls are over.
        self._untaken: dict[int, tuple[int, float]] = {}
        # Bytes of answers that were written while the client takes nothing.
        self._stuck_size = 0
        self.now = server.broker.clock.monotonic
        self.host = "?"
        self.is_encrypted = False
        self._is_counted = self._is_over = False
        self._is_working = self._is_flushing = False
        self._is_asked = False
        """The client was asked whether it is there."""
        self._unread_since: float | None = None
        self._opened = self._heard = self._busy_at = self._over_since = self.now()

    # -- what the transport says -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername") or ("?", 0)
        self.host = str(peer[0])
        counters = self._server.broker.counters
        refusal = self._server.refusal(self.host)
        if refusal is not None:
            counters.connections_refused[refusal] += 1
            self._is_over = True
            self._transport.abort()
            return
        self._is_counted = True
        self.is_encrypted = transport.get_extra_info("ssl_object") is not None
        self._server.open.add(self)
        counters.connections_opened += 1
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_SIZE)
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        self._heard = self.now()
        self._is_asked = False
        self._http2.receive(data)
        if not self._is_working:
            self._work()

    def eof_received(self) -> bool:
        return False  # clients of gRPC close both sides at once

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        for stream in list(self._calls):
            self._forget(stream, is_cut_off=True)
        for stream in list(self._untaken):
            self._took(stream)
        self._unstuck()
        if self._is_counted:
            self._server.open.discard(self)
            self._server.connections.leave(self.host)

    def pause_writing(self) -> None:
        self._unread_since = self.now()
        self._choose_reading()

    def resume_writing(self) -> None:
        self._unread_since = None
        self._unstuck()
        self._choose_reading()
        for call in list(self._calls.values()):
            call.went()

    def _choose_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._is_working or self._unread_since is not None:
            transport.pause_reading()
        else:
            transport.resume_reading()

    # -- what comes --------------------------------------------------------------------------------

    def _work(self) -> None:
        """Read some frames; others have their turn before the next."""
        if self._is_over:
            return
        try:
            for event in self._http2.next(self._heard, FRAMES_A_TURN):
                self._obey(event)
        except ConnectionFault as fault:
            self._server.broker.counters.frames_refused[fault.reason] += 1
            self.close("protocol", at_once=False)
            return
        except Exception as error:
            # Some of what has come was obeyed and some was not: the connection cannot go on.
            self._server.broker.unexpected("rocketmq", error)
            self.close("error")
            return
        self._flush()
        has_more = self._http2.has_more
        if has_more != self._is_working:
            self._is_working = has_more
            self._choose_reading()
        if has_more:
            asyncio.get_running_loop().call_soon(self._work)

    def _obey(self, event: Event) -> None:
        if isinstance(event, Came):
            self._came(event)
        elif isinstance(event, Asked):
            self._asked(event)
        elif isinstance(event, Reset):
            self._took(event.stream)
            self._forget(event.stream, is_cut_off=True)
        else:
            self._took(event.stream)
            if (call := self._calls.get(event.stream)) is not None:
                call.went()

    def _asked(self, asked: Asked) -> None:
        stream, headers, is_last = asked
        if not headers.get("content-type", "").startswith("application/grpc"):
            self._http2.end(stream, statuses.not_grpc(415))
            return
        if headers[":method"] != "POST":
            self._http2.end(stream, statuses.not_grpc(405))
            return
        method = self._server.methods.get(headers[":path"])
        if method is None:
            text = f"{headers[':path'][:200]!a} is not known here"
            self.finish(stream, Status.UNIMPLEMENTED, text, has_begun=False)
            return
        call = self._calls[stream] = GrpcCall(self, stream, method, headers, self._heard)
        if method.takes_stream:
            call.is_last = is_last
            self._start(call, b"")
        elif is_last:
            self.end(call, Status.INTERNAL, "0 messages; the call has one")
        else:
            self._server.comes(call)

    def _came(self, came: Came) -> None:
        stream, data, is_last = came
        call = self._calls.get(stream)
        if call is None:
            return  # it was answered
        try:
            call.came(data, is_last=is_last, size_max=self._server.message_size_max)
            if not call.method.takes_stream and (is_last or call.has_unread):
                request = call.only()
                if is_last:
                    self._server.keep(call, 0)
                    self._start(call, request)
                    return
                call.put_back(request)
            self._server.keep(call, call.size())
        except Ended as end:
            self.end(call, end.status, end.text)
            return
        # A stream's next message is asked for when this one was read.
        if not (call.method.takes_stream and call.has_unread):
            self._http2.give_room(stream)

    def was_read(self, call: GrpcCall) -> None:
        """The method has read a message of a call: there is room for more."""
        self._server.keep(call, call.size())
        if not call.has_unread:
            self._http2.give_room(call.stream)
            self._flush_soon()

    # -- calls -------------------------------------------------------------------------------------

    def _start(self, call: GrpcCall, request: bytes) -> None:
        if self._server.begin(call):
            call.task = asyncio.get_running_loop().create_task(self._run(call, request))
        else:
            text = f"{self._server.calls_max} calls are under way"
            self.end(call, Status.RESOURCE_EXHAUSTED, text)

    async def _run(self, call: GrpcCall, request: bytes) -> None:
        answering = call.method.run(call, request)
        del request  # the method keeps it for as long as it needs it
        try:
            await answering
        except Ended as end:
            call.finish(end.status, end.text)
        except Unread:
            self._server.broker.counters.rocketmq_refused["unread"] += 1
            call.drop()
        except Exception as error:
            self._server.broker.unexpected("rocketmq", error)
            call.finish(Status.INTERNAL, "an internal error; the broker's log has it")
        finally:
            self._forget(call.stream, is_cut_off=False)

    def _forget(self, stream: int, *, is_cut_off: bool) -> None:
        call = self._calls.pop(stream, None)
        if call is None:
            return
        self._server.forget(call)
        self._busy_at = self.now()
        if is_cut_off and call.task is not None:
            call.task.cancel()

    def end(self, call: GrpcCall, status: Status, text: str) -> None:
        """End a call with a status, whatever becomes of it."""
        call.finish(status, text)
        self._forget(call.stream, is_cut_off=True)

    def answer(self, stream: int, data: bytes) -> None:
        """Answer a call that has one answer. It is kept while the client does not take it, and dropped when
        clients leave too much."""
        is_sent = self._http2.answer(stream, statuses.BEGINS, data, statuses.ENDS_WELL)
        self._flush_soon(len(data))
        size = len(data) + ANSWER_SIZE
        if not is_sent:
            self._untaken[stream] = size, self.now()
            if not self._server.count_unread(size):
                self._drop_untaken(stream)
        elif self._unread_since is not None:
            self._stuck_size += size
            if not self._server.count_unread(size):
                self.close("unread_answer")

    def _took(self, stream: int) -> None:
        """An answer that was kept is on its way, or dropped."""
        found = self._untaken.pop(stream, None)
        if found is not None:
            self._server.count_unread(-found[0])

    def _unstuck(self) -> None:
        self._server.count_unread(-self._stuck_size)
        self._stuck_size = 0

    def _drop_untaken(self, stream: int) -> None:
        self._server.broker.counters.rocketmq_refused["unread"] += 1
        self._took(stream)
        self.reset(stream, ErrorCode.CANCEL)

    def write(self, stream: int, data: bytes, *, begins: bool) -> bool:
        """A part of an answer; whether there is room for the next."""
        if begins:
            self._http2.begin(stream, statuses.BEGINS)
        is_sent = self._http2.write(stream, data)
        self._flush_soon(len(data))
        return is_sent and self._unread_since is None

    def finish(self, stream: int, status: Status, text: str, *, has_begun: bool) -> None:
        """The end of an answer, or all of it. What the client has not taken of an answer is dropped: it would
        be kept for as long as the client likes."""
        if not self._http2.is_drained(stream):
            self.reset(stream, ErrorCode.CANCEL)
            return
        block = statuses.ends(status, text) if has_begun else statuses.nothing_but(status, text)
        self._http2.end(stream, block)
        self._flush_soon()

    def reset(self, stream: int, code: ErrorCode) -> None:
        self._http2.reset(stream, code)
        self._flush_soon()

    def is_taken(self, stream: int) -> bool:
        """Is everything that was written for a call with the client, or on its way?"""
        return self._unread_since is None and self._http2.is_drained(stream)

    def _flush_soon(self, size: int = 0) -> None:
        """Write what there is at the end of this turn: calls whose messages one sync has stored are answered
        together. A client that waits for one answer gets it at once, and so does one that gets much."""
        if len(self._calls) <= ALONE or size >= LARGE:
            self._flush()
        elif not self._is_flushing:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        transport = self._transport
        data = self._http2.take()
        if data and transport is not None and not transport.is_closing():
            transport.write(data)

    # -- its end -----------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """End what is over its time."""
        if self._is_over:
            if now - self._over_since >= READ_S:
                self.close("unread_answer")
        elif self._unread_since is not None and now - self._unread_since >= READ_S:
            self.close("unread_answer")
        elif not self._http2.is_greeted:
            if now - self._opened >= self._server.broker.settings.handshake_timeout_s:
                self.close("handshake_timeout")
        elif now - self._heard >= GONE_S and self._is_asked:
            self.close("silent")
        elif not self._calls and (idle_s := now - max(self._busy_at, self._opened)) >= IDLE_S:
            self.leave()
            if idle_s >= IDLE_S + LEAVE_S:
                self.close("idle", at_once=False)
        else:
            if now - self._heard >= SILENT_S and not self._is_asked:
                self._is_asked = True
                self._http2.ping()
                self._flush()
            for call in list(self._calls.values()):
                self._end_if_over(call, now)
            for stream, (_, since) in list(self._untaken.items()):
                if now - since < READ_S:
                    break  # they are in the order of their times
                self._drop_untaken(stream)

    def _end_if_over(self, call: GrpcCall, now: float) -> None:
        is_over = call.deadline is not None and now >= call.deadline
        if is_over or (call.task is None and now - call.began >= STALLED_S):
            self.end(call, Status.DEADLINE_EXCEEDED, "the time of the call is over")

    def leave(self) -> None:
        """Begin no more calls."""
        self._http2.leave()
        self._flush()

    @property
    def is_busy(self) -> bool:
        """Is there a call that ends by itself, or an answer that is not taken? A stream is kept open for as
        long as the client likes."""
        calls = self._calls.values()
        return bool(self._untaken) or any(not call.method.takes_stream for call in calls)

    def close(self, reason: str, *, at_once: bool = True) -> None:
        """End the connection; unless it is at once, what was written goes out first."""
        transport = self._transport
        if transport is None:
            return
        if not self._is_over:
            self._is_over = True
            self._over_since = self.now()
            self._server.broker.counters.connections_closed[reason] += 1
            self._flush()
        if at_once:
            transport.abort()
        else:
            transport.close()
