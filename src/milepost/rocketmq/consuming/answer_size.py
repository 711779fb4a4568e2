"""How large an answer a client reads, and messages that are made to fit.

Every message is an answer of its own in the stream of a poll. gRPC reads 4 MiB of one unless the client has
said otherwise, and not every official client has: a larger one fails there, with all that came before it in
the poll. A body that is too large is sent to these clients as GZIP, which most of them unpack.

    >>> answer_limit("HTTP", "1.0.8")
    Limit(size_max=4194304, unpacks=True)
    >>> answer_limit("GO", "5.1.3") is None, answer_limit("GO", "5.1.4") is None
    (False, True)
"""

from __future__ import annotations

import asyncio
import gzip
import re
from typing import NamedTuple

from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.mapping import digest_of

SIZE_MAX = 4 * 1024 * 1024
# More is not packed: what is 16 times as large as an answer hardly fits.
PACKED_SIZE_MAX = 16 * SIZE_MAX
# Bytes of an answer around its message.
_AROUND = 8
# Go's clients read answers of any size from this version on.
_GO_UNLIMITED = (5, 1, 4)


class Limit(NamedTuple):
    size_max: int
    """Bytes of one answer."""
    unpacks: bool
    """The client unpacks GZIP bodies."""


_PACKS, _PLAIN = Limit(SIZE_MAX, unpacks=True), Limit(SIZE_MAX, unpacks=False)
_LIMITS = {"GO": _PACKS, "HTTP": _PACKS, "DOTNET": _PACKS, "RUST": _PLAIN, "PHP": _PLAIN}


def answer_limit(language: str, version: str) -> Limit | None:
    """What a client that says so of itself reads; None: answers of any size. Node's client calls itself
    HTTP."""
    if language == "GO" and _numbers(version) >= _GO_UNLIMITED:
        return None
    return _LIMITS.get(language)


async def fitted(message: pb.Message, limit: Limit | None) -> pb.Message | None:
    """The message as it fits into an answer; None if it does not."""
    if limit is None or _answer_size(message) <= limit.size_max:
        return message
    head_size = _answer_size(message) - len(message.body)
    if not limit.unpacks or head_size > limit.size_max or len(message.body) > PACKED_SIZE_MAX:
        return None
    # It takes tenths of a second.
    message.body = await asyncio.to_thread(gzip.compress, message.body, mtime=0)
    message.system_properties.body_encoding = pb.GZIP
    message.system_properties.body_digest.checksum = digest_of(message.body)
    return message if _answer_size(message) <= limit.size_max else None


def _answer_size(message: pb.Message) -> int:
    return message.ByteSize() + _AROUND


def _numbers(version: str) -> tuple[int, ...]:
    """
    >>> _numbers("5.1.4-rc1"), _numbers("none")
    ((5, 1, 4), ())
    """
    found = re.match(r"\d{1,6}(\.\d{1,6})*(?!\d)", version)
    return () if found is None else tuple(map(int, found[0].split(".")))
