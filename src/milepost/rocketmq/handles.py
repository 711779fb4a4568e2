"""Receipt handles: texts that say which delivery of which message is meant.

A handle stands for itself: nothing has to be looked up to read one, also after a restart. It is signed with
a key of the data directory, over the group and the topic that it was made for, so that one that was changed,
made up or taken to another group is no handle.

    >>> signer = Signer(b"k" * 32)
    >>> handle = Handle(7, 0, 41, 2, b"process!", 1, 1_700_000_060_000)
    >>> text = signer.write(handle, "topic", "group")
    >>> signer.read(text, "topic", "group") == handle, signer.read(text, "topic", "other")
    (True, None)
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from struct import Struct
from typing import NamedTuple

KEY_SIZE = 32
PROCESS_SIZE = 8

_VERSION = 1
_FIELDS = Struct(">BQiQQ8sQQ")
_SIGNATURE_SIZE = 12
# Signatures make the whole a multiple of three bytes or not; a longer text is no handle.
_LENGTH_MAX = 128


class Handle(NamedTuple):
    topic_id: int
    """A topic that was deleted and made again has another."""
    partition: int
    """-1: the topic is not partitioned."""
    index: int  # type: ignore[assignment]  # in place of tuple.index, which has no use here
    epoch: int
    """Of the subscription: a reset makes handles of before void."""
    process: bytes
    """Which start of the broker delivered it."""
    lease: int
    """The number of the delivery, in that process."""
    until_ms: int
    """When the lease ends, by the wall clock."""


class Signer:
    def __init__(self, key: bytes) -> None:
        self._key = key

    def write(self, handle: Handle, topic: str, group: str) -> str:
        fields = _FIELDS.pack(_VERSION, *handle)
        signed = fields + self._signature(fields, topic, group)
        return base64.urlsafe_b64encode(signed).decode("ascii")

    def read(self, text: str, topic: str, group: str) -> Handle | None:
        """The handle; None for a text that was not made here for that group of that topic."""
        if len(text) > _LENGTH_MAX:
            return None
        try:
            signed = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        if len(signed) != _FIELDS.size + _SIGNATURE_SIZE or signed[0] != _VERSION:
            return None
        fields = signed[: _FIELDS.size]
        if not hmac.compare_digest(signed[_FIELDS.size :], self._signature(fields, topic, group)):
            return None
        return Handle(*_FIELDS.unpack(fields)[1:])

    def _signature(self, fields: bytes, topic: str, group: str) -> bytes:
        said = b"\0".join((fields, topic.encode(), group.encode()))
        # Made and checked for every message: an HMAC takes ten times as long.
        return hashlib.blake2b(said, key=self._key, digest_size=_SIGNATURE_SIZE).digest()
