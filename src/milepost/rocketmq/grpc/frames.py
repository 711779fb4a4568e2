"""The layout of HTTP/2's frames (RFC 9113): kinds, flags, settings, error codes.

length (24 bits) | kind (8) | flags (8) | stream (32, the highest bit means nothing) | payload
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final

from milepost.errors import ProtocolError

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""The first bytes of every client."""
HEAD_SIZE: Final = 9
FRAME_SIZE_MAX: Final = 16384
"""Of a payload, unless the other side says that it takes more. This one does not."""
WINDOW_DEFAULT: Final = 65535
WINDOW_MAX: Final = 2**31 - 1
STREAM_MAX: Final = 2**31 - 1

_HEAD: Final = struct.Struct(">BHBBI")
_NUMBER: Final = struct.Struct(">I")
_SETTING: Final = struct.Struct(">HI")

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = 0, 1, 2, 3, 4
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 5, 6, 7, 8, 9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20


class Setting(IntEnum):
    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ErrorCode(IntEnum):
    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class ConnectionFault(ProtocolError):
    """What was read cannot be: the connection ends with a code that says why."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(f"http2_{code.name.lower()}", text)
        self.code = code


class StreamFault(ProtocolError):
    """What was read cannot be on its stream: the stream ends, and the connection goes on."""

    def __init__(self, stream: int, code: ErrorCode, text: str) -> None:
        super().__init__(f"http2_{code.name.lower()}", text)
        self.stream = stream
        self.code = code


def head(size: int, kind: int, flags: int, stream: int) -> bytes:
    """The head of a frame.

    >>> head(5, DATA, END_STREAM, 3).hex()
    '000005000100000003'
    """
    return _HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return head(len(payload), kind, flags, stream) + payload


def settings_frame(settings: Mapping[Setting, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*one) for one in settings.items()))


def read_settings(payload: bytes) -> Iterator[tuple[int, int]]:
    """Numbers of settings and their values; `ConnectionFault` if it is no list of them."""
    if len(payload) % _SETTING.size:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"settings of {len(payload)} bytes")
    yield from _SETTING.iter_unpack(payload)


def reset_frame(stream: int, code: ErrorCode) -> bytes:
    return frame(RST_STREAM, 0, stream, _NUMBER.pack(code))


def window_frame(stream: int, size: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, _NUMBER.pack(size))


def goaway_frame(last_stream: int, code: ErrorCode, text: str = "") -> bytes:
    """Nothing behind the last stream is served."""
    payload = _NUMBER.pack(last_stream) + _NUMBER.pack(code) + text.encode()
    return frame(GOAWAY, 0, 0, payload)


def number(payload: bytes) -> int:
    """The number of a frame that has nothing else, its highest bit left out.

    >>> number(b"\\x80\\x00\\x00\\x07")
    7
    """
    if len(payload) != _NUMBER.size:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a number of {len(payload)} bytes")
    found: int = _NUMBER.unpack(payload)[0]
    return found & 0x7FFF_FFFF
