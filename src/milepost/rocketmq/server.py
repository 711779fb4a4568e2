"""The gRPC server of the edge: its ports, TLS, the table of calls, and the last resort for errors.

Every call is entered in the table below, with the type of its answer. A refusal is a status in that answer;
an error that no code foresaw is answered as an internal one, counted and logged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from milepost.errors import MilepostError, NotAuthenticated
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.calls import Call, Callers
from milepost.rocketmq.clients import SETTINGS_SIZE_MAX, Clients, Stream
from milepost.rocketmq.codes import OK, Code, Refused, code_of, status
from milepost.rocketmq.consuming.queues import Held
from milepost.rocketmq.consuming.receiving import Receiving
from milepost.rocketmq.grpc.call import GrpcCall
from milepost.rocketmq.grpc.server import GrpcServer, Method
from milepost.rocketmq.grpc.statuses import Ended, Status
from milepost.rocketmq.removals.recalls import Recalls
from milepost.rocketmq.routes import Routes
from milepost.rocketmq.sending import Sending
from milepost.rocketmq.transactions.transactions import Transactions

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

SERVICE = "apache.rocketmq.v2.MessagingService"
CALLS = (
    "QueryRoute",
    "QueryAssignment",
    "SendMessage",
    "ReceiveMessage",
    "AckMessage",
    "ChangeInvisibleDuration",
    "ForwardMessageToDeadLetterQueue",
    "Heartbeat",
    "NotifyClientTermination",
    "EndTransaction",
    "RecallMessage",
    "Telemetry",
)
"""The calls that are answered."""
TICK_S = 5.0
# Calls that are under way get this long when the server closes.
CLOSE_TIMEOUT_S = 1.0
# Of a request: a body, its properties, and what is around them.
_ROOM = 1024 * 1024
_INTERNAL = "an internal error; the broker's log has it"

Handler = Callable[[Call, Any], Awaitable[Any]]


class RocketMqServer:
    """An edge that listens."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._callers = Callers(broker)
        self.clients = Clients(broker)
        routes = Routes(broker, self._callers)
        self._sending = Sending(broker, self._callers, routes)
        self._receiving = Receiving(broker, self._callers, routes, self.clients, self._sending)
        self._recalls = Recalls(broker, self._callers, routes, self._receiving.signer)
        self._sending.recall_handle = self._recalls.handle
        self._routes = routes
        self._transactions = Transactions(
            broker, self._callers, routes, self.clients, self._sending, self._receiving.signer
        )
        settings = broker.settings
        self._grpc = GrpcServer(
            broker,
            {f"/{SERVICE}/{name}": method for name, method in self._table().items()},
            settings.rocketmq_calls_max,
            settings.max_message_size + _ROOM,
        )
        self._ticker: asyncio.Task[None] | None = None

    async def listen(self) -> None:
        """Listen on the ports that the settings name; return when calls are answered."""
        broker, settings = self._broker, self._broker.settings
        await self._receiving.load()
        self._transactions.signer = self._recalls.signer = self._receiving.signer
        try:
            if settings.rocketmq_port >= 0:
                broker.rocketmq_port = await self._grpc.listen(settings.rocketmq_port, None)
            if settings.rocketmq_tls_port >= 0:
                tls = broker.access_control.security.http2_tls
                port = await self._grpc.listen(settings.rocketmq_tls_port, tls)
                broker.rocketmq_tls_port = port
        except BaseException:
            await self._grpc.close(0)
            raise
        self._ticker = asyncio.get_running_loop().create_task(self._tick())
        broker.spawn(self._transactions.load())

    async def close(self) -> None:
        """Answer nothing more, and let calls that are under way end."""
        if self._ticker is not None:
            self._ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticker
        self._receiving.groups.close()  # polls are answered
        self._transactions.close()
        await self._grpc.close(CLOSE_TIMEOUT_S)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now = self._broker.clock.monotonic()
            for part in (self.clients, self._sending, self._receiving.groups):
                self._broker.attempt("rocketmq", partial(part.tick, now))

    # -- the calls ---------------------------------------------------------------------------------

    def _table(self) -> dict[str, Method]:
        """The calls by name. What is not here is UNIMPLEMENTED, as it is in RocketMQ."""
        routes, transactions, receiving = self._routes, self._transactions, self._receiving
        recalls = self._recalls
        table = {
            "QueryRoute": self._unary(routes.query_route, pb.QueryRouteResponse),
            "QueryAssignment": self._unary(routes.query_assignment, pb.QueryAssignmentResponse),
            "SendMessage": self._unary(transactions.send_message, pb.SendMessageResponse),
            "ReceiveMessage": Method(self._receive),
            "AckMessage": self._unary(receiving.ack_message, pb.AckMessageResponse),
            "ChangeInvisibleDuration": self._unary(
                receiving.change_invisible_duration, pb.ChangeInvisibleDurationResponse
            ),
            "ForwardMessageToDeadLetterQueue": self._unary(
                receiving.forward_to_dead_letters, pb.ForwardMessageToDeadLetterQueueResponse
            ),
            "Heartbeat": self._unary(self._heartbeat, pb.HeartbeatResponse),
            "NotifyClientTermination": self._unary(
                self._terminate, pb.NotifyClientTerminationResponse
            ),
            "EndTransaction": self._unary(transactions.end_transaction, pb.EndTransactionResponse),
            "RecallMessage": self._unary(recalls.recall_message, pb.RecallMessageResponse),
            "Telemetry": Method(self._telemetry, takes_stream=True),
        }
        assert table.keys() == set(CALLS)
        return table

    async def _heartbeat(self, call: Call, request: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
        return pb.HeartbeatResponse(status=OK)

    async def _terminate(
        self, call: Call, request: pb.NotifyClientTerminationRequest
    ) -> pb.NotifyClientTerminationResponse:
        self.clients.left(call.client)
        self._receiving.groups.client_left(call.client)
        return pb.NotifyClientTerminationResponse(status=OK)

    async def _enter(self, asked: GrpcCall, name: str) -> Call:
        self._broker.counters.rocketmq_calls[name] += 1
        call = await self._callers.enter(asked)
        self.clients.heard(call)
        return call

    def _refusal(self, error: Exception) -> pb.Status:
        """The status of an answer to a call that cannot be done."""
        if isinstance(error, MilepostError):
            code, text = code_of(error), str(error)
        else:
            code, text = Code.INTERNAL_SERVER_ERROR, _INTERNAL
        if code is Code.INTERNAL_SERVER_ERROR and not isinstance(error, Refused):
            self._broker.unexpected("rocketmq", error)
        self._broker.counters.rocketmq_refused[code.name.lower()] += 1
        return status(code, text)

    def _unary(self, handler: Handler, answer: Callable[..., Any]) -> Method:
        response: Any = answer
        name = response.DESCRIPTOR.name.removesuffix("Response")
        read = _reader(getattr(pb, f"{name}Request"))

        async def run(asked: GrpcCall, request: bytes) -> None:
            told = read(request)
            del request  # it is as large as what was read
            try:
                answer = await handler(await self._enter(asked, name), told)
            except Exception as error:
                answer = response(status=self._refusal(error))
            asked.answer(answer.SerializeToString())

        return Method(run)

    async def _receive(self, asked: GrpcCall, told: bytes) -> None:
        """A status, the messages, the time: clients need the first and the last whatever happens."""
        request: pb.ReceiveMessageRequest = _READ_POLL(told)
        del told
        group, taken, none = None, list[Held](), status(Code.MESSAGE_NOT_FOUND)
        try:
            call = await self._enter(asked, "ReceiveMessage")
            group, taken = await self._receiving.receive(call, request)
        except Exception as error:
            none = self._refusal(error)
            # It may be large, and the client may take its time to read why.
            request = pb.ReceiveMessageRequest()
        with self._receiving.answering(taken):
            try:
                is_empty = True
                if group is not None:
                    topic = request.message_queue.topic
                    async for message in self._receiving.messages(call, group, topic, taken):
                        if is_empty:
                            await _write(asked, pb.ReceiveMessageResponse(status=OK))
                        is_empty = False
                        await _write(asked, pb.ReceiveMessageResponse(message=message))
                if is_empty:
                    await _write(asked, pb.ReceiveMessageResponse(status=none))
                now = Timestamp()
                now.FromMilliseconds(self._broker.clock.wall_ms())
                await _write(asked, pb.ReceiveMessageResponse(delivery_timestamp=now))
            except BaseException:
                if group is not None:
                    group.give_back(taken)  # the client is gone, or does not read
                taken.clear()
                raise
            asked.finish(Status.OK)

    async def _telemetry(self, asked: GrpcCall, _: bytes) -> None:
        """The stream has no answer that could carry a refusal: it ends with a status of gRPC's."""
        try:
            call = await self._enter(asked, "Telemetry")
            with self.clients.stream(call) as stream:
                await self._talk(stream, asked)
        except MilepostError as error:
            raise Ended(_grpc_status(error), self._refusal(error).message) from None
        asked.finish(Status.OK)

    async def _talk(self, stream: Stream, asked: GrpcCall) -> None:
        """Hear and tell, until the client says that it is done or either fails."""
        manner, name_of = self._receiving.manner, self._routes.name_of
        hearing = asyncio.ensure_future(
            self.clients.listen(stream, _commands(asked), manner, name_of)
        )
        telling = asyncio.ensure_future(stream.write(asked.write))
        both = {hearing, telling}
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_EXCEPTION)
            for one in done:
                one.result()
        finally:
            for one in both:
                one.cancel()
            await asyncio.gather(*both, return_exceptions=True)


async def _commands(asked: GrpcCall) -> AsyncIterator[pb.TelemetryCommand]:
    """What a client says on its stream."""
    while (said := await asked.read()) is not None:
        if len(said) > SETTINGS_SIZE_MAX:
            del said  # the error knows this frame
            raise Refused(Code.BAD_REQUEST, f"settings of more than {SETTINGS_SIZE_MAX} bytes")
        command = _READ_COMMAND(said)
        del said  # nothing of it is kept while the client says nothing more
        yield command
        del command


async def _write(asked: GrpcCall, answer: pb.ReceiveMessageResponse) -> None:
    await asked.write(answer.SerializeToString())


def _reader(message: Any) -> Callable[[bytes], Any]:
    """Reads a message of a kind; `Ended` if it is none."""

    def read(said: bytes) -> Any:
        try:
            return message.FromString(said)
        except DecodeError:
            name = message.DESCRIPTOR.name
            raise Ended(Status.INTERNAL, f"what has come is no {name}") from None

    return read


_READ_POLL = _reader(pb.ReceiveMessageRequest)
_READ_COMMAND = _reader(pb.TelemetryCommand)


async def start_rocketmq(broker: Broker) -> RocketMqServer:
    """Listen on `rocketmq_port` and `rocketmq_tls_port`, 0 for a free one."""
    server = RocketMqServer(broker)
    await server.listen()
    return server


def _grpc_status(error: MilepostError) -> Status:
    if isinstance(error, NotAuthenticated):
        return Status.UNAUTHENTICATED
    if isinstance(error, Refused) and error.code is Code.TOO_MANY_REQUESTS:
        return Status.RESOURCE_EXHAUSTED
    return Status.INVALID_ARGUMENT
