"""Header blocks: HPACK (RFC 7541).

A client sends nearly the same headers with every call, and its side of the table soon has them all: the block
is the same bytes then. What bytes mean depends on the table alone, so they are read once for as long as the
table does not change. Official clients send an id of the request with each call, which changes the table; so
reading has to be quick too, and each header is judged when it comes into the table. The static table and
Huffman's code are those of the `hpack` package, whose own reader takes twice as long.

This side writes its few headers as they are, without a table, which needs no state.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from hpack.exceptions import HPACKDecodingError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from milepost.rocketmq.grpc.frames import ConnectionFault, ErrorCode

LIST_SIZE_MAX: Final = 16 * 1024
"""Of the headers of a call, with 32 bytes for each, as HTTP/2 counts them."""
TABLE_SIZE_MAX: Final = 4096
"""Of the client's table, counted in the same way. It is what HTTP/2 has where nothing else is said."""
# Blocks that are kept; a client with more kinds of calls than this has them read again. So are long ones: a
# client could fill the memory with them.
_KEPT_MAX: Final = 64
_KEPT_SIZE_MAX: Final = 1024
_KEPT_HEADERS_MAX: Final = 64
# What says something about one hop, and is not allowed in HTTP/2.
_OF_THE_HOP: Final = frozenset(
    ("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade")
)
_PSEUDO: Final = frozenset((":method", ":scheme", ":path", ":authority"))
_NEEDED: Final = (":method", ":scheme", ":path")
# What RFC 9113, 8.2.1, has in no name and in no value.
_NO_NAME: Final = re.compile(r"[\x00-\x20:A-Z\x7f-\xff]|^$")
_NO_VALUE: Final = re.compile(r"[\x00\r\n]")
# Bytes behind the first one of a number: larger ones are nonsense.
_NUMBER_SIZE_MAX: Final = 4

Headers = Mapping[str, str]


class Malformed(ValueError):
    """Headers that are no request."""


class Field(NamedTuple):
    """One header, as text in which each octet is a character."""

    name: str
    value: str
    size: int
    """As HTTP/2 counts it."""
    is_pseudo: bool
    """Is it one of those that begin with a colon, and stand before the others?"""
    fault: str
    """Why no request may have it; empty if one may."""


def _field(raw_name: bytes, raw_value: bytes) -> Field:
    name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
    size = len(raw_name) + len(raw_value) + 32
    if name.startswith(":"):
        fault = "" if name in _PSEUDO else f"header {name!a} is unknown"
        if _NO_VALUE.search(value):
            fault = f"header {name!a} has more than one line"
        return Field(name, value, size, True, fault)
    fault = ""
    if _NO_NAME.search(name) or name in _OF_THE_HOP:
        fault = f"header {name!a} is not allowed"
    elif _NO_VALUE.search(value):
        fault = f"header {name!a} has more than one line"
    elif name == "te" and value != "trailers":
        fault = f"header te is {value!a}"
    return Field(name, value, size, False, fault)


_STATIC: Final = tuple(_field(name, value) for name, value in HeaderTable.STATIC_TABLE)


class HeaderReader:
    """Reads the blocks of one connection, in the order in which they come."""

    def __init__(self) -> None:
        self._table: deque[Field] = deque()  # the newest last
        self._table_size = 0
        self._table_size_max = TABLE_SIZE_MAX
        self._kept: dict[bytes, Headers] = {}
        self._has_changed = False

    def read(self, block: bytes) -> Headers:
        """The headers of a request, the last of those that have one name; `Malformed` if they are none,
        `ConnectionFault` if the block is none."""
        found = self._kept.get(block)
        if found is not None:
            return found
        self._has_changed = False
        fields = self._fields(block)
        if self._has_changed:
            self._kept.clear()
        found = _request(fields)
        is_short = len(block) <= _KEPT_SIZE_MAX and len(found) <= _KEPT_HEADERS_MAX
        if is_short and not self._has_changed and len(self._kept) < _KEPT_MAX:
            self._kept[block] = found
        return found

    def pass_over(self, block: bytes) -> None:
        """Read a block that is of no use, for what it does to the table."""
        self._has_changed = False
        self._fields(block)
        if self._has_changed:
            self._kept.clear()

    def _fields(self, block: bytes) -> list[Field]:
        fields: list[Field] = []
        at, end, size = 0, len(block), 0
        while at < end:
            first = block[at]
            if first & 0x80:
                number, at = _number(block, at, 0x7F)
                field = self._at(number)
            elif first & 0xE0 == 0x20:
                if fields:
                    raise _unreadable("the size of the table is set behind headers")
                number, at = _number(block, at, 0x1F)
                self._set_size(number)
                continue
            else:
                number, at = _number(block, at, 0x3F if first & 0x40 else 0x0F)
                if number:
                    name = self._at(number).name.encode("latin-1")
                else:
                    name, at = _text(block, at)
                value, at = _text(block, at)
                field = _field(name, value)
                if first & 0x40:
                    self._add(field)
            fields.append(field)
            size += field.size
            if size > LIST_SIZE_MAX:
                raise ConnectionFault(
                    ErrorCode.ENHANCE_YOUR_CALM, f"headers of more than {LIST_SIZE_MAX} bytes"
                )
        return fields

    # -- the table ---------------------------------------------------------------------------------

    def _at(self, number: int) -> Field:
        if 0 < number <= len(_STATIC):
            return _STATIC[number - 1]
        place = number - len(_STATIC)
        if not 0 < place <= len(self._table):
            raise _unreadable(f"there is no header {number}")
        return self._table[-place]

    def _add(self, field: Field) -> None:
        self._has_changed = True
        self._table.append(field)
        self._table_size += field.size
        self._shrink()

    def _set_size(self, size: int) -> None:
        # Changed or not: bytes that say this are not the same when they come again.
        self._has_changed = True
        if size > TABLE_SIZE_MAX:
            raise _unreadable(f"a table of {size} bytes; {TABLE_SIZE_MAX} are allowed")
        self._table_size_max = size
        self._shrink()

    def _shrink(self) -> None:
        while self._table_size > self._table_size_max:
            self._table_size -= self._table.popleft().size


def _request(fields: list[Field]) -> Headers:
    """`Malformed` for what RFC 9113, 8.2 and 8.3, has as no request."""
    found: dict[str, str] = {}
    is_behind = False
    for name, value, _, is_pseudo, fault in fields:
        if fault:
            raise Malformed(fault)
        if not is_pseudo:
            is_behind = True
        elif is_behind or name in found:
            raise Malformed(f"header {name!a} is twice there, or behind others")
        found[name] = value
    for name in _NEEDED:
        if not found.get(name):
            raise Malformed(f"header {name} is missing")
    return found


def _number(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """A number that begins in the low bits of a byte, and what is behind it."""
    number = block[at] & mask
    at += 1
    if number < mask:
        return number, at
    for place in range(_NUMBER_SIZE_MAX):
        if at + place >= len(block):
            break
        octet = block[at + place]
        number += (octet & 0x7F) << 7 * place
        if octet < 0x80:
            return number, at + place + 1
    raise _unreadable("a number that does not end")


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    """A text, and what is behind it."""
    if at >= len(block):
        raise _unreadable("a header that is not whole")
    is_packed = block[at] & 0x80
    size, at = _number(block, at, 0x7F)
    text = block[at : at + size]
    if len(text) != size:
        raise _unreadable("a header that is not whole")
    if is_packed:
        try:
            text = decode_huffman(text)
        except HPACKDecodingError:
            raise _unreadable("a text that cannot be unpacked") from None
    return text, at + size


def _unreadable(text: str) -> ConnectionFault:
    return ConnectionFault(
        ErrorCode.COMPRESSION_ERROR, f"a header block that cannot be read: {text}"
    )


def written(*headers: tuple[str, str]) -> bytes:
    """A block of headers as they are: none is in a table.

    >>> written(("a", "b"))
    b'\\x00\\x01a\\x01b'
    """
    parts: list[bytes] = []
    for name, value in headers:
        parts += (b"\x00", *_counted(name.encode("ascii")), *_counted(value.encode("ascii")))
    return b"".join(parts)


def _counted(text: bytes) -> tuple[bytes, bytes]:
    """Its length, seven bits of it in the first byte, and itself."""
    size = len(text)
    if size < 127:
        return bytes((size,)), text
    size -= 127
    length = bytearray((127,))
    while size >= 128:
        length.append(size % 128 + 128)
        size //= 128
    length.append(size)
    return bytes(length), text
