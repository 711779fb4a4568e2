"""Gathers messages into batches by count, size and time. Pure.

    batcher = Batcher(messages_max=1000, size_max=128 * 1024, by_key=False)
    full = batcher.add(outgoing, make_entry)    # batches that are ready, in order
    left = batcher.take_all()                   # when their time is up

With `by_key` each key has a batch of its own (Key_Shared routes a batch by its key). When one is full all
are sent, so that sequence ids go out in order of their batches' first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from milepost.client.producing.outgoing import Outgoing, PendingEntry, Sent
from milepost.client.transactions.transaction import Transaction
from milepost.wire.scanners.varint import encode_varint

# u32 size | 18 payload_size | 40 sequence_id: what stands before a message that is only a payload.
_PAYLOAD_SIZE: Final = b"\x18"
_SEQUENCE_ID: Final = b"\x40"
_HEADS_MAX: Final = 4096
_payload_heads: dict[int, bytes] = {}


class Batch:
    """One batch: its payload in parts, and the entry that it will be."""

    __slots__ = ("entry", "key", "ordering_key", "parts", "size_bytes")

    def __init__(self, entry: PendingEntry, first: Outgoing, *, keyed: bool) -> None:
        self.entry = entry
        self.parts: list[bytes] = []
        self.size_bytes = 0
        self.key = first.partition_key if keyed else None
        self.ordering_key = first.ordering_key if keyed else None
        entry.is_batch = True
        entry.count = 0

    def add(self, message: Outgoing) -> Sent:
        entry = self.entry
        payload = message.payload
        if message.is_plain:
            head = _plain_head(len(payload), message.sequence_id)
        else:
            single = message.single_metadata().SerializeToString()
            head = len(single).to_bytes(4, "big") + single
        self.parts += (head, payload)
        self.size_bytes += len(head) + len(payload)
        sent = Sent(entry, entry.count)
        entry.count += 1
        entry.highest_sequence_id = max(entry.highest_sequence_id, message.sequence_id)
        return sent

    def payload(self) -> bytes:
        return b"".join(self.parts)


class Batcher:
    def __init__(self, *, messages_max: int, size_max: int, by_key: bool) -> None:
        self._messages_max = messages_max
        self._size_max = size_max
        self._by_key = by_key
        # By key, in the order in which they were begun; all under None without keys.
        self._batches: dict[bytes | str | None, Batch] = {}
        self._count = 0
        self._size_bytes = 0
        # The transaction of all that is gathered: an entry belongs to one, or to none.
        self._transaction: Transaction | None = None

    def __len__(self) -> int:
        return self._count

    def is_room_for(self, message: Outgoing) -> bool:
        """Whether the batches stay within their size with this message, and in one transaction."""
        if not self._count:
            return True
        if message.transaction is not self._transaction:
            return False
        return self._size_bytes + len(message.payload) <= self._size_max

    def add(self, message: Outgoing, begin: Callable[[], PendingEntry]) -> Sent:
        """`begin` makes the entry of a batch that is new."""
        key = None
        if self._by_key:
            key = message.ordering_key if message.ordering_key else message.partition_key
        batch = self._batches.get(key)
        if batch is None:
            batch = self._batches[key] = Batch(begin(), message, keyed=self._by_key)
        self._transaction = message.transaction
        before = batch.size_bytes
        sent = batch.add(message)
        self._count += 1
        self._size_bytes += batch.size_bytes - before
        return sent

    @property
    def is_full(self) -> bool:
        return self._count >= self._messages_max or self._size_bytes >= self._size_max

    def take_all(self) -> list[Batch]:
        """All batches, and begin anew."""
        taken = list(self._batches.values())
        self._batches.clear()
        self._count = self._size_bytes = 0
        return taken


def _plain_head(payload_size: int, sequence_id: int) -> bytes:
    """The bytes that protobuf writes for a message without key, properties or times."""
    head = _payload_heads.get(payload_size)
    if head is None:
        head = _PAYLOAD_SIZE + encode_varint(payload_size) + _SEQUENCE_ID
        if len(_payload_heads) < _HEADS_MAX:
            _payload_heads[payload_size] = head
    single = head + encode_varint(sequence_id)
    return len(single).to_bytes(4, "big") + single
