"""Frames of RocketMQ's remoting protocol: bytes to commands and back. Reads no socket.

    int32 length │ int8 serialisation, int24 header length │ header │ body            big-endian

The header is JSON (0) or RocketMQ's own binary form (1); an answer is written in the form of its request.

    >>> decoder = Decoder()
    >>> decoder.feed(encode(Command(105, opaque=7, fields={"topic": "orders"})))
    >>> found = decoder.next()
    >>> found.code, found.opaque, found.fields
    (105, 7, {'topic': 'orders'})
    >>> decoder.next() is None
    True

What a peer may make this side keep is bounded: a longer header ends the connection, a longer body is dropped
while it comes, and its command says so. So a client of RocketMQ 4 that sends a large message is told why it
is refused.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from enum import IntFlag
from typing import Any, NamedTuple, NoReturn

from milepost.errors import ProtocolError

# Upstream's own limit.
FRAME_SIZE_MAX = 16 * 1024 * 1024
HEADER_SIZE_MAX = 64 * 1024
# What is kept of a body. The largest that is read here tells the settings of a group.
BODY_SIZE_MAX = 64 * 1024

JSON, BINARY = 0, 1

# Why a frame was refused, for counting.
BAD_LENGTH, BAD_HEADER = "remoting_length", "remoting_header"

# What answers say of their sender: another language than upstream's, and the version whose requests it knows.
LANGUAGE, LANGUAGE_NUMBER = "OTHER", 7
VERSION = 479

_LENGTHS = struct.Struct(">iI")
_BINARY_HEAD = struct.Struct(">hBhii")
_INT32 = range(-(2**31), 2**31)
_INT16 = range(-(2**15), 2**15)


class Flag(IntFlag):
    ANSWER = 1
    ONE_WAY = 2
    """The sender waits for no answer."""


class Command(NamedTuple):
    """A request or an answer."""

    code: int
    opaque: int = 0
    """The number of a request; its answer has it too."""
    flag: int = 0
    fields: Mapping[str, str] = {}
    body: bytes = b""
    remark: str = ""
    is_binary: bool = False
    dropped: int = 0
    """The size of a body that was too large to be kept."""


def encode(command: Command) -> bytes:
    """A command as a frame."""
    header = _binary_header(command) if command.is_binary else _json_header(command)
    kind = BINARY if command.is_binary else JSON
    lengths = _LENGTHS.pack(4 + len(header) + len(command.body), kind << 24 | len(header))
    return lengths + header + command.body


def _json_header(command: Command) -> bytes:
    header: dict[str, Any] = {
        "code": command.code,
        "flag": command.flag,
        "language": LANGUAGE,
        "opaque": command.opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": VERSION,
    }
    if command.fields:
        header["extFields"] = command.fields
    if command.remark:
        header["remark"] = command.remark
    return json.dumps(header, separators=(",", ":")).encode()


def _binary_header(command: Command) -> bytes:
    remark = command.remark.encode()
    fields = b"".join(
        struct.pack(">h", len(key)) + key + struct.pack(">i", len(value)) + value
        for key, value in ((k.encode(), v.encode()) for k, v in command.fields.items())
    )
    head = _BINARY_HEAD.pack(command.code, LANGUAGE_NUMBER, VERSION, command.opaque, command.flag)
    return b"".join(
        (head, struct.pack(">i", len(remark)), remark, struct.pack(">i", len(fields)), fields)
    )


class Decoder:
    """Takes bytes as they come, and gives the commands in them one at a time."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._to_drop = 0

    def feed(self, data: bytes) -> None:
        if self._to_drop:
            dropped = min(self._to_drop, len(data))
            self._to_drop -= dropped
            data = data[dropped:]
        self._buffer += data

    @property
    def is_within_frame(self) -> bool:
        """Is the rest of a frame to come?"""
        return bool(self._buffer or self._to_drop)

    @property
    def size(self) -> int:
        """Bytes that wait here."""
        return len(self._buffer)

    def next(self) -> Command | None:
        """The next command; None until more has come; `ProtocolError` for what is none."""
        buffer = self._buffer
        if len(buffer) < _LENGTHS.size:
            return None
        size, word = _LENGTHS.unpack_from(buffer)
        kind, header_size = word >> 24, word & 0xFFFFFF
        if not 4 <= size <= FRAME_SIZE_MAX:
            raise ProtocolError(
                BAD_LENGTH, f"a frame of {size} bytes; 4 to {FRAME_SIZE_MAX} are allowed"
            )
        if kind not in (JSON, BINARY):
            raise ProtocolError(
                BAD_LENGTH, f"a header of the form {kind}; 0 (JSON) and 1 (binary) are known"
            )
        if header_size > min(size - 4, HEADER_SIZE_MAX):
            raise ProtocolError(
                BAD_LENGTH,
                f"a header of {header_size} bytes in a frame of {size}; "
                f"{HEADER_SIZE_MAX} are allowed",
            )
        body_size = size - 4 - header_size
        is_kept = body_size <= BODY_SIZE_MAX
        at = _LENGTHS.size
        end = at + header_size + (body_size if is_kept else 0)
        if len(buffer) < end:
            return None
        header, body = bytes(buffer[at : at + header_size]), bytes(buffer[at + header_size : end])
        del buffer[:end]
        if not is_kept:
            dropped = min(body_size, len(buffer))
            del buffer[:dropped]
            self._to_drop = body_size - dropped
        command = read_binary(header) if kind == BINARY else read_json(header)
        return command._replace(body=body, dropped=0 if is_kept else body_size)


# -- headers -----------------------------------------------------------------------------------------


def read_json(header: bytes) -> Command:
    """A command without its body; clients of other languages write numbers where upstream writes text."""
    try:
        found = json.loads(header, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise ProtocolError(
            BAD_HEADER, f"a header of {len(header)} bytes that is not JSON"
        ) from None
    if not isinstance(found, dict):
        raise ProtocolError(BAD_HEADER, "a header that is no JSON object")
    fields = found.get("extFields") or {}
    if not isinstance(fields, dict):
        raise ProtocolError(BAD_HEADER, "a header whose extFields are no JSON object")
    remark = found.get("remark") or ""
    if not isinstance(remark, str):
        raise ProtocolError(BAD_HEADER, "a header whose remark is no text")
    return Command(
        _number(found, "code", required=True),
        _number(found, "opaque"),
        _number(found, "flag"),
        {name: _text(name, value) for name, value in fields.items() if value is not None},
        remark=_checked(remark),
    )


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _number(header: dict[str, Any], name: str, *, required: bool = False) -> int:
    value = header.get(name)
    if value is None and not required:
        return 0
    if type(value) is not int or value not in _INT32:
        raise ProtocolError(BAD_HEADER, f"a header whose {name} is no 32-bit number")
    return value


def _text(name: str, value: object) -> str:
    _checked(name)
    if isinstance(value, str):
        return _checked(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise ProtocolError(
        BAD_HEADER, f"a header whose field {name[:80]!a} is neither text nor a number"
    )


def _checked(text: str) -> str:
    """Half of a surrogate pair is no text that could be answered, stored or logged."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ProtocolError(BAD_HEADER, "a header with text that is not Unicode") from None
    return text


def read_binary(header: bytes) -> Command:
    """The same for RocketMQ's own form."""
    try:
        code, _, _, opaque, flag = _BINARY_HEAD.unpack_from(header)
        remark, at = _sized(header, _BINARY_HEAD.size, ">i")
        packed, end = _sized(header, at, ">i")
        if end != len(header):
            raise ProtocolError(BAD_HEADER, f"a header of {len(header)} bytes that ends at {end}")
        fields: dict[str, str] = {}
        at = 0
        while at < len(packed):
            name, at = _sized(packed, at, ">h")
            value, at = _sized(packed, at, ">i")
            fields[name.decode()] = value.decode()
        return Command(code, opaque, flag, fields, remark=remark.decode(), is_binary=True)
    except struct.error:
        raise ProtocolError(
            BAD_HEADER, f"a binary header of {len(header)} bytes that is cut off"
        ) from None
    except UnicodeDecodeError:
        raise ProtocolError(BAD_HEADER, "a binary header with text that is not UTF-8") from None


def _sized(data: bytes, at: int, kind: str) -> tuple[bytes, int]:
    """Bytes behind their length, and where they end."""
    (size,) = struct.unpack_from(kind, data, at)
    at += struct.calcsize(kind)
    if not 0 <= size <= len(data) - at:
        raise ProtocolError(
            BAD_HEADER, f"a binary header with {size} bytes where {len(data) - at} are left"
        )
    return data[at : at + size], at + size
