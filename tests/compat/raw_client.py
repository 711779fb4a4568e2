"""A client that says exactly what it is told: for what the official one cannot be made to say.

Blocking, one connection. Frames are made and read by `milepost.wire`; what comes is kept in order until
somebody asks for it.

    with RawClient(broker.port_of(topic)) as raw:
        raw.request(pb.CommandSubscribe(topic=topic, subscription="s", subType=SHARED, ...))
        raw.say(pb.CommandFlow(consumer_id=0, messagePermits=10))
        delivery = raw.expect(Delivery)
"""

from __future__ import annotations

import itertools
import socket
import time
from typing import Any, TypeVar

from google.protobuf.message import Message

from milepost.positions import signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind
from milepost.wire.events import Command, Delivery, Receipt
from milepost.wire.protocol import ClientProtocol
from milepost.wire.scanners.encode import send_frame

T = TypeVar("T")

TIMEOUT_S = 60.0


class Refused(Exception):
    """The broker answered a request with an error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{pb.ServerError.Name(code)}: {text}")
        self.code = code


class RawClient:
    def __init__(self, port: int, *, client_version: str = "Raw-1", version: int = 21) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._protocol = ClientProtocol()
        self._heard: list[Any] = []
        self._request_ids = itertools.count(1)
        self.corrupt_next = False
        """Spoil the payload of the next send behind its checksum."""
        self._protocol.connect(
            pb.CommandConnect(
                client_version=client_version,
                protocol_version=version,
                feature_flags=pb.FeatureFlags(supports_broker_entry_metadata=True),
            )
        )
        self._flush()
        self._expect(lambda event: isinstance(event, Command) and event.kind == Kind.CONNECTED)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    # -- say ---------------------------------------------------------------------------------------

    def say(self, command: Message) -> None:
        """Send, and expect no answer."""
        self._protocol.send(command)
        self._flush()

    def say_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def request(self, command: Any) -> Any:
        """Send with a request id of its own and wait for the answer; `Refused` if it is an error."""
        return self.answer_to(self.ask(command))

    def ask(self, command: Any) -> int:
        """Send a request; `answer_to` waits for it."""
        command.request_id = next(self._request_ids)
        self.say(command)
        return int(command.request_id)

    def answer_to(self, request_id: int) -> Any:
        def is_answer(event: Any) -> bool:
            return (
                isinstance(event, Command)
                and hasattr(event.message, "request_id")
                and event.message.request_id == request_id
            )

        answer = self._expect(is_answer).message
        for field in ("error", "error_code"):
            if hasattr(answer, field) and answer.HasField(field):
                text = getattr(answer, "message", "") or getattr(answer, "error_message", "")
                raise Refused(getattr(answer, field), text)
        return answer

    def send(
        self, producer_id: int, metadata: pb.MessageMetadata, payload: bytes, **options: Any
    ) -> Receipt:
        """Publish one entry and wait for its receipt."""
        self.send_only(producer_id, metadata, payload, **options)
        return self.expect(Receipt)

    def send_only(
        self, producer_id: int, metadata: pb.MessageMetadata, payload: bytes, **options: Any
    ) -> None:
        head, data = send_frame(
            producer_id, metadata.sequence_id, metadata.SerializeToString(), payload, **options
        )
        if self.corrupt_next:
            data = bytes([data[0] ^ 1]) + data[1:]
            self.corrupt_next = False
        self._protocol.writelines([head, data])
        self._flush()

    # -- hear --------------------------------------------------------------------------------------

    def expect(self, kind: type[T]) -> T:
        """The next delivery, receipt, or command of a protobuf type; others stay where they are."""
        event = self._expect(lambda event: isinstance(getattr(event, "message", event), kind))
        found = event.message if isinstance(event, Command) else event
        assert isinstance(found, kind)
        return found

    def deliveries(self, count: int) -> list[Delivery]:
        return [self.expect(Delivery) for _ in range(count)]

    def next_answer(self) -> Any:
        """The next receipt, or refusal, of a send."""
        event = self._expect(
            lambda event: isinstance(
                getattr(event, "message", event), Receipt | pb.CommandSendError
            )
        )
        return event.message if isinstance(event, Command) else event

    def heard_of(self, kind: type[T]) -> list[T]:
        """Take what has come of a type, once the broker has answered a question asked now."""
        self._ping()
        found: list[T] = []
        for event in list(self._heard):
            message = getattr(event, "message", event)
            if isinstance(message, kind):
                self._heard.remove(event)
                found.append(message)
        return found

    def _ping(self) -> None:
        """A request that changes nothing: all that the broker wrote before its answer is here then."""
        self.request(pb.CommandGetTopicsOfNamespace(namespace="public/none"))

    def _expect(self, fits: Any) -> Any:
        deadline = time.monotonic() + TIMEOUT_S
        searched = 0
        while True:
            for at in range(searched, len(self._heard)):
                if fits(self._heard[at]):
                    return self._heard.pop(at)
            searched = len(self._heard)
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            data = self._socket.recv(1 << 16)
            assert data, f"the broker closed the connection; heard {self._heard}"
            self._heard += self._protocol.receive(data)
            self._flush()

    def _flush(self) -> None:
        self._socket.sendall(b"".join(self._protocol.data_to_send()))


def subscribe(
    raw: RawClient,
    topic: str,
    subscription: str,
    sub_type: pb.CommandSubscribe.SubType = pb.CommandSubscribe.Shared,
    *,
    consumer_id: int = 0,
    permits: int = 0,
    **options: Any,
) -> None:
    raw.request(
        pb.CommandSubscribe(
            topic=topic,
            subscription=subscription,
            subType=sub_type,
            consumer_id=consumer_id,
            request_id=0,
            **options,
        )
    )
    if permits:
        raw.say(pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits))


def stats(raw: RawClient, consumer_id: int = 0) -> pb.CommandConsumerStatsResponse:
    answer = raw.request(pb.CommandConsumerStats(request_id=0, consumer_id=consumer_id))
    assert isinstance(answer, pb.CommandConsumerStatsResponse)
    return answer


def message_metadata(sequence_id: int, **fields: Any) -> pb.MessageMetadata:
    return pb.MessageMetadata(
        producer_name="raw", sequence_id=sequence_id, publish_time=1, **fields
    )


def position(message_id: pb.MessageIdData) -> tuple[int, int]:
    return signed64(message_id.ledgerId), signed64(message_id.entryId)
