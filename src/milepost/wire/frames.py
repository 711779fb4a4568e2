"""Cuts frames out of bytes, and builds them.

    simple      u32 total | u32 size | command
    with entry  u32 total | u32 size | command | entry                      (SEND and MESSAGE)
    entry       [0x0e02 | u32 size | broker entry metadata]
                [0x0e01 | u32 crc32c] | u32 size | metadata | payload

All integers are big-endian; `total` does not count itself. The checksum covers everything from the
metadata's size to the end. This module owns sizes, magics and the bytes that wait for the rest of
their frame. It knows no command, and never allocates by a number that a peer sent.

    >>> command_frame(b"\\x08\\x12").hex()
    '00000006000000020812'
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, cast

from google_crc32c import extend as _crc32c_extend

from milepost.errors import ProtocolError
from milepost.wire.reasons import Reason

Buffer = bytes | bytearray | memoryview

CHECKSUM_MAGIC: Final = 0x0E01
BROKER_ENTRY_MAGIC: Final = 0x0E02

# Official clients fill max_message_size with metadata and payload, then add the command and, to
# chunks, a few metadata fields they did not count: the protocol allows for 10 KiB of that.
FRAME_PADDING: Final = 10 * 1024

MESSAGE_SIZE_MAX_DEFAULT: Final = 5 * 1024 * 1024

# Before the handshake a peer is a stranger: enough for any credentials, too little to do harm.
HANDSHAKE_FRAME_MAX: Final = 64 * 1024

HEADER_SIZE: Final = 8

# How an answer or a request in HTTP begins, and an alert or a handshake of TLS: each stands for a frame
# that is larger than any that is allowed.
_HTTP: Final = frozenset({b"HTTP", b"GET ", b"PUT ", b"POST", b"HEAD", b"DELE", b"OPTI", b"PRI "})
_TLS: Final = frozenset({b"\x15\x03", b"\x16\x03"})
_header = struct.Struct(">II")
_unpack_header = cast("Callable[[bytes, int], tuple[int, int]]", _header.unpack_from)
pack_header = _header.pack


def crc32c(data: bytes, before: int = 0) -> int:
    """CRC-32C (Castagnoli), the checksum of entries; `before` is that of the bytes in front."""
    checksum: int = _crc32c_extend(before, data)
    return checksum


def frame_bounds(data: bytes, at: int, frame_max: int) -> tuple[int, int] | None:
    """Where the command and the frame that begins at `at` end; None while bytes are missing.

    Sizes are judged as soon as they can be read, so that a lie is found before its bytes come.
    """
    have = len(data) - at
    if have < HEADER_SIZE:
        if have >= 4:
            _check_total(int.from_bytes(data[at : at + 4], "big"), frame_max)
        return None
    total, size = _unpack_header(data, at)
    if not 4 < total <= frame_max or not 0 < size <= total - 4:
        _check_total(total, frame_max)
        raise ProtocolError(
            Reason.BAD_COMMAND_SIZE, f"a command of {size} bytes in a frame of {total}"
        )
    if have < 4 + total:
        return None
    return at + HEADER_SIZE + size, at + 4 + total


def _check_total(total: int, frame_max: int) -> None:
    """Refuse a frame by the size it states (which does not count the four bytes that state it)."""
    if total < 4:
        raise ProtocolError(Reason.FRAME_SHORT, f"a frame of {total} bytes has no command")
    if total > frame_max:
        other = _other_protocol(total.to_bytes(4, "big"))
        raise ProtocolError(
            Reason.FRAME_TOO_LARGE,
            f"the peer speaks {other} here, which has a port of its own"
            if other
            else f"a frame of {total} bytes where {frame_max} are allowed",
        )


def _other_protocol(beginning: bytes) -> str:
    """The name of what begins with these four bytes, if a client took one port for another.

    >>> _other_protocol(b"GET "), _other_protocol(bytes.fromhex("16030100"))
    ('HTTP', 'TLS')
    """
    if beginning in _HTTP:
        return "HTTP"
    return "TLS" if beginning[:2] in _TLS else ""


def command_frame(command: bytes) -> bytes:
    """A simple frame around one serialised BaseCommand."""
    size = len(command)
    return pack_header(size + 4, size) + command


def entry_frame(command: bytes, entry_size: int) -> bytes:
    """The beginning of a frame whose entry, `entry_size` bytes, is sent behind it uncopied."""
    size = len(command)
    return pack_header(size + 4 + entry_size, size) + command


class Unfinished:
    """The bytes of a frame whose rest has not come yet.

    Copies each byte at most a few times however the connection cuts them: bytes gather in one growing
    buffer, and are looked at again only when the frame they began can be complete.
    """

    __slots__ = ("_gathered", "_needed")

    def __init__(self) -> None:
        # What came of the unfinished frame; empty between frames.
        self._gathered = bytearray()
        # Looking again is useless below this many bytes. Grows by what was received, not by what
        # was promised. Invariant: 0 < _needed whenever bytes are gathered.
        self._needed = 0

    def __len__(self) -> int:
        return len(self._gathered)

    def join(self, data: bytes) -> bytes:
        """All bytes to look at now; empty while the unfinished frame cannot be complete."""
        if not self._gathered:
            return data
        self._gathered += data
        if len(self._gathered) < self._needed:
            return b""
        joined = bytes(self._gathered)
        self._gathered = bytearray()
        return joined

    def gather(self, data: bytes) -> None:
        """Put bytes behind what is kept, to be looked at later."""
        self._gathered += data
        self._needed = max(self._needed, 1)

    def keep(self, data: bytes, at: int, *, is_unread: bool = False) -> None:
        """Keep what begins at `at`: a frame that is not complete, or what was not looked at yet
        (`is_unread`), of which nothing is known."""
        assert not self._gathered, "kept bytes were not taken"
        have = len(data) - at
        if have == 0:
            return
        if is_unread:
            self._needed = 1
        elif have < 4:
            self._needed = 4
        elif have < HEADER_SIZE:
            self._needed = HEADER_SIZE
        else:
            self._needed = 4 + int.from_bytes(data[at : at + 4], "big")
        self._gathered += memoryview(data)[at:]

    def drop(self) -> None:
        self._gathered = bytearray()
