"""The gRPC server of the edge: its ports, TLS, the table of calls, and the last resort for errors.

Every call is entered in the table below, with the type of its answer. A refusal is a status in that answer;
an error that no code foresaw is answered as an internal one, counted and logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from milepost.broker.auth.files import WatchedFile
from milepost.errors import InvalidSetting, MilepostError, NotAuthenticated
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.calls import Call, Callers
from milepost.rocketmq.clients import READ_S, Clients, Stream
from milepost.rocketmq.codes import OK, Code, Refused, code_of, status
from milepost.rocketmq.consuming.queues import Held
from milepost.rocketmq.consuming.receiving import Receiving
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
# Bytes of a call that come before they are asked for.
READ_AHEAD_SIZE = 256 * 1024
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
        self._grpc: Any = None
        self._ticker: asyncio.Task[None] | None = None

    async def listen(self) -> None:
        """Listen on the ports that the settings name; return when calls are answered."""
        broker, settings = self._broker, self._broker.settings
        await self._receiving.load()
        ports = [settings.rocketmq_port, settings.rocketmq_tls_port]
        # gRPC accepts connections by itself: what it may take is taken from the others.
        connections_max = broker.connections.set_aside(parts=sum(port >= 0 for port in ports))
        self._transactions.signer = self._recalls.signer = self._receiving.signer
        self._grpc = grpc.aio.server(
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", settings.max_message_size + _ROOM),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_allowed_incoming_connections", connections_max),
                # gRPC would let clients send some 5 MiB ahead of what is read, on each connection.
                ("grpc.http2.bdp_probe", 0),
                ("grpc.http2.lookahead_bytes", READ_AHEAD_SIZE),
                # Clients say something every ten seconds.
                ("grpc.max_connection_idle_ms", 120_000),
                # Of more calls that wait for the loop gRPC would cancel some: a thousand, unless told.
                ("grpc.server.max_pending_requests", settings.rocketmq_calls_max),
                ("grpc.server.max_pending_requests_hard_limit", 2 * settings.rocketmq_calls_max),
                # Java clients ask every five minutes whether the connection lives, with or without calls.
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
                # A machine that is gone does not say so.
                ("grpc.keepalive_time_ms", 60_000),
                ("grpc.keepalive_timeout_ms", 20_000),
            ],
            maximum_concurrent_rpcs=settings.rocketmq_calls_max,
        )
        table = self._table()
        self._grpc.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, table),))
        try:
            if settings.rocketmq_port >= 0:
                self._broker.rocketmq_port = self._open(settings.rocketmq_port, None)
            if settings.rocketmq_tls_port >= 0:
                self._broker.rocketmq_tls_port = self._open(
                    settings.rocketmq_tls_port, _tls(self._broker)
                )
            await self._grpc.start()
        except BaseException:
            await self._grpc.stop(None)
            raise
        self._ticker = asyncio.get_running_loop().create_task(self._tick())
        self._broker.spawn(self._transactions.load())

    async def close(self) -> None:
        """Answer nothing more, and let calls that are under way end."""
        if self._ticker is not None:
            self._ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticker
        self._receiving.groups.close()  # polls are answered
        self._transactions.close()
        if self._grpc is not None:
            await self._grpc.stop(CLOSE_TIMEOUT_S)

    def _open(self, port: int, credentials: Any) -> int:
        host = self._broker.settings.host
        _check_free(host, port)
        address = f"[{host}]:{port}" if ":" in host else f"{host or '0.0.0.0'}:{port}"  # noqa: S104
        if credentials is None:
            return int(self._grpc.add_insecure_port(address))
        return int(self._grpc.add_secure_port(address, credentials))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            now = self._broker.clock.monotonic()
            for part in (self.clients, self._sending, self._receiving.groups):
                self._broker.attempt("rocketmq", partial(part.tick, now))

    # -- the calls ---------------------------------------------------------------------------------

    def _table(self) -> dict[str, Any]:
        """The calls by name. What is not here is UNIMPLEMENTED, as it is in RocketMQ."""
        routes, transactions, receiving = self._routes, self._transactions, self._receiving
        recalls = self._recalls
        table = {
            "QueryRoute": self._unary(routes.query_route, pb.QueryRouteResponse),
            "QueryAssignment": self._unary(routes.query_assignment, pb.QueryAssignmentResponse),
            "SendMessage": self._unary(transactions.send_message, pb.SendMessageResponse),
            "ReceiveMessage": grpc.unary_stream_rpc_method_handler(
                self._receive,
                request_deserializer=pb.ReceiveMessageRequest.FromString,
                response_serializer=pb.ReceiveMessageResponse.SerializeToString,
            ),
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
            "Telemetry": grpc.stream_stream_rpc_method_handler(
                self._telemetry,
                request_deserializer=pb.TelemetryCommand.FromString,
                response_serializer=None,  # they are bytes
            ),
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

    async def _enter(self, context: Any, name: str) -> Call:
        self._broker.counters.rocketmq_calls[name] += 1
        call = await self._callers.enter(context)
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

    def _unary(self, handler: Handler, answer: Callable[..., Any]) -> Any:
        response: Any = answer
        name = response.DESCRIPTOR.name.removesuffix("Response")
        request = getattr(pb, f"{name}Request")

        async def run(asked: Any, context: Any) -> Any:
            try:
                return await handler(await self._enter(context, name), asked)
            except Exception as error:
                return response(status=self._refusal(error))

        return grpc.unary_unary_rpc_method_handler(
            run,
            request_deserializer=request.FromString,
            response_serializer=response.SerializeToString,
        )

    async def _receive(self, asked: pb.ReceiveMessageRequest, context: Any) -> None:
        """A status, the messages, the time: clients need the first and the last whatever happens."""
        group, taken, none = None, list[Held](), status(Code.MESSAGE_NOT_FOUND)
        try:
            call = await self._enter(context, "ReceiveMessage")
            group, taken = await self._receiving.receive(call, asked)
        except Exception as error:
            none = self._refusal(error)
        with self._receiving.answering(taken):
            try:
                is_empty = True
                if group is not None:
                    topic = asked.message_queue.topic
                    async for message in self._receiving.messages(call, group, topic, taken):
                        if is_empty:
                            await _write(context, pb.ReceiveMessageResponse(status=OK))
                        is_empty = False
                        await _write(context, pb.ReceiveMessageResponse(message=message))
                if is_empty:
                    await _write(context, pb.ReceiveMessageResponse(status=none))
                now = Timestamp()
                now.FromMilliseconds(self._broker.clock.wall_ms())
                await _write(context, pb.ReceiveMessageResponse(delivery_timestamp=now))
            except BaseException as error:
                if group is not None:
                    group.give_back(taken)  # the client is gone, or does not read
                taken.clear()
                if isinstance(error, TimeoutError):
                    await self._give_up(context)
                if not isinstance(error, grpc.aio.InternalError):
                    raise
                # gRPC had to give up a write: that is no error of this server, and needs no line in its
                # log.

    async def _telemetry(self, commands: AsyncIterator[pb.TelemetryCommand], context: Any) -> None:
        """The stream has no answer that could carry a refusal: it ends with a status of gRPC's."""
        try:
            call = await self._enter(context, "Telemetry")
            with self.clients.stream(call) as stream:
                try:
                    await self._talk(stream, commands, context)
                except TimeoutError:
                    await self._give_up(context)
        except grpc.aio.AbortError:
            raise
        except grpc.aio.InternalError:
            return  # the client has left, with answers on the way
        except Exception as error:
            refusal = self._refusal(error)
            with contextlib.suppress(grpc.aio.InternalError):  # the client is gone already
                await context.abort(_grpc_status(error), refusal.message)

    async def _give_up(self, context: Any) -> None:
        """End a call whose client does not read. gRPC cannot drop it: it ends when the client reads, hangs
        up, or its deadline is over, and counts until then."""
        self._broker.counters.rocketmq_refused["unread"] += 1
        text = f"the answer was not read for {READ_S:g} s"
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, text)

    async def _talk(
        self, stream: Stream, commands: AsyncIterator[pb.TelemetryCommand], context: Any
    ) -> None:
        """Hear and tell, until the client says that it is done or either fails."""
        manner, name_of = self._receiving.manner, self._routes.name_of
        hearing = asyncio.ensure_future(self.clients.listen(stream, commands, manner, name_of))
        telling = asyncio.ensure_future(stream.write(context.write))
        both = {hearing, telling}
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_EXCEPTION)
            for one in done:
                one.result()
        finally:
            for one in both:
                one.cancel()
            await asyncio.gather(*both, return_exceptions=True)


async def _write(context: Any, answer: pb.ReceiveMessageResponse) -> None:
    async with asyncio.timeout(READ_S):
        await context.write(answer)


async def start_rocketmq(broker: Broker) -> RocketMqServer:
    """Listen on `rocketmq_port` and `rocketmq_tls_port`, 0 for a free one."""
    server = RocketMqServer(broker)
    await server.listen()
    return server


def _grpc_status(error: Exception) -> Any:
    if isinstance(error, NotAuthenticated):
        return grpc.StatusCode.UNAUTHENTICATED
    if isinstance(error, Refused) and error.code is Code.TOO_MANY_REQUESTS:
        return grpc.StatusCode.RESOURCE_EXHAUSTED
    return (
        grpc.StatusCode.INVALID_ARGUMENT
        if isinstance(error, MilepostError)
        else grpc.StatusCode.INTERNAL
    )


def _check_free(host: str, port: int) -> None:
    """Raise what the system says of an address that cannot be had: gRPC only logs it."""
    if port == 0:
        return
    for family, kind, _, _, address in socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM
    ):
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)


def _tls(broker: Broker) -> Any:
    """The credentials of the TLS port: the files that the other TLS ports have, read again on change."""
    settings = broker.settings
    names = (settings.tls_key_file, settings.tls_certificate_file, settings.tls_trust_certs_file)
    files = [WatchedFile(Path(name)) for name in names if name]

    def load() -> Any:
        key, certificate, *trusted = [file.read() for file in files]
        return grpc.ssl_server_certificate_configuration(
            [(key, certificate)], root_certificates=trusted[0] if trusted else None
        )

    def reload() -> Any:
        """Called for each new connection, in a thread of gRPC's. None: as it was."""
        if not any(file.has_changed() for file in files):
            return None
        try:
            return load()
        except InvalidSetting as error:
            broker.unexpected("rocketmq", error)
            return None

    return grpc.dynamic_ssl_server_credentials(
        load(), reload, require_client_authentication=settings.tls_require_client_certificate
    )
