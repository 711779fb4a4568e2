"""A client of RocketMQ's remoting protocol, as plain as its bytes: it shares no code with the broker."""

from __future__ import annotations

import json
import re
import socket
import ssl
import struct
from typing import Any, NamedTuple

TIMEOUT_S = 30

# {"a":1}: or 0: in the place of a key, as upstream writes maps.
_OBJECT_KEY = re.compile(r'\{"topic":"([^"]*)","brokerName":"[^"]*","queueId":(\d+)\}:')
_NUMBER_KEY = re.compile(r"([{,])(\d+):")


class Answered(NamedTuple):
    code: int
    fields: dict[str, str]
    remark: str
    body: bytes
    header: dict[str, Any]

    @property
    def json(self) -> Any:
        """The body. A queue as a key becomes `topic/number`, a number its text."""
        text = _OBJECT_KEY.sub(r'"\1/\2":', self.body.decode())
        return json.loads(_NUMBER_KEY.sub(r'\1"\2":', text))


class Remoting:
    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.fields: dict[str, Any] = {}
        """Which every request has: credentials."""
        self._opaque = 0

    def ask(self, code: int, body: bytes = b"", **fields: Any) -> Answered:
        self.socket.sendall(self.request(code, body, **fields))
        answered = self.answer()
        assert answered.header["opaque"] == self._opaque
        return answered

    def request(self, code: int, body: bytes = b"", flag: int = 0, **fields: Any) -> bytes:
        self._opaque += 1
        header = {
            "code": code,
            "extFields": {**self.fields, **fields},
            "flag": flag,
            "language": "JAVA",
            "opaque": self._opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": 479,
        }
        return framed(json.dumps(header).encode(), body)

    def answer(self) -> Answered:
        (size,) = struct.unpack(">i", self._read(4))
        data = self._read(size)
        (word,) = struct.unpack(">I", data[:4])
        kind, end = word >> 24, 4 + (word & 0xFFFFFF)
        header = json.loads(data[4:end]) if kind == 0 else _binary(data[4:end])
        assert header["flag"] & 1, header
        fields = header.get("extFields", {})
        return Answered(header["code"], fields, header.get("remark", ""), data[end:], header)

    def is_closed(self) -> bool:
        """Has the other side hung up? Waits for it."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.socket.close()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the connection was closed")
            data += part
        return data


def framed(header: bytes, body: bytes = b"", kind: int = 0) -> bytes:
    size = 4 + len(header) + len(body)
    return struct.pack(">iI", size, kind << 24 | len(header)) + header + body


def _binary(header: bytes) -> dict[str, Any]:
    code, _, _, opaque, flag, size = struct.unpack_from(">hBhiii", header)
    at = 17 + size
    fields = {}
    remark, end = header[17:at].decode(), at + 4 + struct.unpack_from(">i", header, at)[0]
    at += 4
    while at < end:
        (size,) = struct.unpack_from(">h", header, at)
        name, at = header[at + 2 : at + 2 + size].decode(), at + 2 + size
        (size,) = struct.unpack_from(">i", header, at)
        fields[name], at = header[at + 4 : at + 4 + size].decode(), at + 4 + size
    return {"code": code, "opaque": opaque, "flag": flag, "remark": remark, "extFields": fields}
