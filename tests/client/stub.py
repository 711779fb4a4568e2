"""A broker of a few lines: it says yes to everything, and sends what it is told.

async with scripted() as (client, stub):
    consumer = await client.subscribe("t", "s")
    stub.deliver(0, b"payload", epoch=4)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from milepost.aio import Client
from milepost.broker.connection.listener import stop_listening
from milepost.errors import PersistenceError
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.events import Command, Sends, ServerEvent
from milepost.wire.protocol import ServerProtocol
from milepost.wire.scanners.encode import MessageEncoder, encode_entry_head


class Stub(asyncio.Protocol):
    """Says yes to everything, and sends what it is told."""

    def __init__(self, shared: Stub | None = None) -> None:
        self.protocol = ServerProtocol(server_version="stub")
        self.transport: Any = None
        self.subscribes: list[Any] = shared.subscribes if shared else []
        self.seeks: list[Any] = shared.seeks if shared else []
        self.current: Stub = self
        self.shared = shared or self
        # How many more subscriptions are taken and closed at once, in one write.
        self.closes = 0
        # How many more questions about partitions cut their connection in place of an answer.
        self.cuts = 0
        # Why messages are refused; empty: they are not answered at all.
        self.disk_error = ""
        self.producers = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.shared.current = self

    def data_received(self, data: bytes) -> None:
        for event in self.events(data):
            if isinstance(event, Command):
                self.answer(event.message)
            elif isinstance(event, Sends) and self.shared.disk_error:
                self.refuse(event, self.shared.disk_error)
        self.flush()

    def events(self, data: bytes) -> Iterator[ServerEvent]:
        yield from self.protocol.receive(data)
        while self.protocol.has_more:
            yield from self.protocol.receive(b"")

    def refuse(self, event: Sends, why: str) -> None:
        code = PersistenceError.wire_code
        for one in event.sends:
            refusal = replies.send_error(event.producer_id, one.sequence_id, code, why)
            self.protocol.write(refusal)

    def flush(self) -> None:
        self.transport.writelines(self.protocol.data_to_send())

    def answer(self, message: Any) -> None:
        match message:
            case pb.CommandConnect():
                self.protocol.accept()
            case pb.CommandLookupTopic():
                self.protocol.write(replies.lookup_connect(message.request_id, "pulsar://stub"))
            case pb.CommandPartitionedTopicMetadata() if self.shared.cuts:
                self.shared.cuts -= 1
                self.transport.abort()
            case pb.CommandPartitionedTopicMetadata():
                self.protocol.write(replies.partitions(message.request_id, 0))
            case pb.CommandSubscribe():
                self.subscribes.append(message)
                self.protocol.write(replies.success(message.request_id))
                if self.shared.closes:
                    self.shared.closes -= 1
                    self.protocol.write(replies.close_consumer(message.consumer_id))
            case pb.CommandProducer():
                self.shared.producers += 1
                self.protocol.write(replies.producer_success(message.request_id, "p"))
            case pb.CommandCloseProducer():
                self.protocol.write(replies.success(message.request_id))
            case pb.CommandGetLastMessageId():
                last = replies.message_id_data(1, 5)
                self.protocol.write(replies.last_message_id(message.request_id, last))
            case pb.CommandSeek():
                self.seeks.append(message)
                self.protocol.write(replies.success(message.request_id))
            case pb.CommandCloseConsumer():
                self.protocol.write(replies.success(message.request_id))
            case _:
                self.answer_more(message)

    def answer_more(self, message: Any) -> None:
        """For stubs that know more commands."""

    def deliver(self, entry_id: int, payload: bytes, *, epoch: int) -> None:
        metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=0)
        entry = encode_entry_head(metadata.SerializeToString(), payload) + payload
        head = MessageEncoder(0).head(1, entry_id, len(entry), consumer_epoch=epoch)
        self.current.protocol.writelines([head, entry])
        self.current.flush()

    def hang_up(self) -> None:
        self.current.transport.abort()

    async def subscribed(self, count: int) -> None:
        while len(self.subscribes) < count:
            await asyncio.sleep(0.001)  # sleep: the client comes back


class scripted:  # used as a function
    """A client and the stub that it is connected to."""

    def __init__(self, kind: type[Stub] = Stub, **options: Any) -> None:
        self.kind = kind
        self.stub = kind()
        self.options = options

    async def __aenter__(self) -> tuple[Client, Any]:
        shared = self.stub
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: self.kind(shared), "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        url = f"pulsar://127.0.0.1:{port}"
        self.client = Client(url, follow_lookups=False, backoff_first_s=0.001, **self.options)
        return self.client, shared

    async def __aexit__(self, *exc_info: object) -> None:
        await self.client.close()
        await stop_listening(self.server)
