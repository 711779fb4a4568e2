"""A line to a broker that carries any bytes: for peers that do not follow the protocol.

Unlike `RawClient` it expects nothing. It sends what it is given, and hears answers, or that the broker has
hung up, within a time.

    with Line(broker.port) as line:
        line.say(b"GET / HTTP/1.1")
        assert line.is_hung_up()
"""

from __future__ import annotations

import socket
import time
from typing import Any, TypeVar

from google.protobuf.message import Message

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import encode_command
from milepost.wire.events import Command
from milepost.wire.frames import command_frame
from milepost.wire.protocol import ClientProtocol

T = TypeVar("T")

# Refusals come at once; this is for machines that are busy.
ANSWER_S = 60.0
# So does the end of a connection. Less than the handshake may take and a ping may wait: these end it, too.
HANG_UP_S = 5.0

CONNECT = pb.CommandConnect(
    client_version="Stranger-1",
    protocol_version=21,
    feature_flags=pb.FeatureFlags(supports_broker_entry_metadata=True),
)


def framed(command: Message) -> bytes:
    return command_frame(encode_command(command))


class Line:
    def __init__(self, port: int, *, handshake: bool = True, receive_buffer: int = 0) -> None:
        self._socket = socket.socket()
        if receive_buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(ANSWER_S)
        self._socket.connect(("127.0.0.1", port))
        self._protocol = ClientProtocol()
        self._protocol.connect(CONNECT)
        self._heard: list[Any] = []
        self._is_hung_up = False
        if handshake:
            self.flush()
            self.hear(pb.CommandConnected)
        else:
            self._protocol.data_to_send()

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._socket.close()

    # -- say ---------------------------------------------------------------------------------------

    def say(self, *data: bytes | Message) -> None:
        """Send bytes, or frames of commands. A broker that has hung up meanwhile is no surprise."""
        try:
            for one in data:
                self._socket.sendall(framed(one) if isinstance(one, Message) else one)
        except ConnectionError:
            self._is_hung_up = True

    def flush(self) -> None:
        for buffer in self._protocol.data_to_send():
            self.say(bytes(buffer))

    def hang_up(self) -> None:
        self._socket.close()

    # -- hear --------------------------------------------------------------------------------------

    def hear(self, kind: type[T], within_s: float = ANSWER_S) -> T:
        """The next command, receipt or delivery of a type; others stay where they are."""
        found = self.listen(kind, within_s)
        assert found is not None, f"no {kind.__name__}; heard {self._heard}, {self.state}"
        return found

    def listen(self, kind: type[T], within_s: float) -> T | None:
        deadline = time.monotonic() + within_s
        while True:
            for event in self._heard:
                said = event.message if isinstance(event, Command) else event
                if isinstance(said, kind):
                    self._heard.remove(event)
                    return said
            if not self._receive(deadline):
                return None

    def is_hung_up(self, within_s: float = HANG_UP_S) -> bool:
        """Whether the broker ends the connection in time; what it says before is kept."""
        deadline = time.monotonic() + within_s
        while not self._is_hung_up and self._receive(deadline):
            pass
        return self._is_hung_up

    def is_alive(self) -> bool:
        """Whether the broker still answers, and has said nothing else."""
        self.say(pb.CommandGetTopicsOfNamespace(request_id=999_999, namespace="public/none"))
        answer = self.listen(pb.CommandGetTopicsOfNamespaceResponse, ANSWER_S)
        return answer is not None and answer.request_id == 999_999

    @property
    def heard(self) -> list[Any]:
        return [event.message if isinstance(event, Command) else event for event in self._heard]

    @property
    def state(self) -> str:
        return "hung up" if self._is_hung_up else "silent"

    def _receive(self, deadline: float) -> bool:
        """Take in what comes; False when nothing does in time, or can any more."""
        left = deadline - time.monotonic()
        if self._is_hung_up or left <= 0:
            return False
        self._socket.settimeout(left)
        try:
            data = self._socket.recv(1 << 18)
        except TimeoutError:
            return False
        except ConnectionError:
            data = b""
        if not data:
            self._is_hung_up = True
            return False
        self._heard += self._protocol.receive(data)
        self.flush()
        return True
