"""One producer of a topic, and the publications whose receipts it waits for (`receipts.py`)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from milepost.broker.metrics.rates import Rates
from milepost.broker.peer import Peer
from milepost.wire.frames import CHECKSUM_MAGIC
from milepost.wire.metadata import split_entry
from milepost.wire.scanners.varint import encode_varint

if TYPE_CHECKING:
    from milepost.broker.topic.receipts import Awaited
    from milepost.broker.topic.topic import Topic


# In front of an entry's metadata and its size stand the checksum's magic and the checksum.
_CHECKSUM_MAGIC = CHECKSUM_MAGIC.to_bytes(2, "big")
_CHECKSUM_SIZE = 6


class Producer:
    __slots__ = (
        "_stamp",
        "address",
        "bytes_in",
        "connected_since_ms",
        "encrypts",
        "epoch",
        "is_closed",
        "messages_in",
        "metadata",
        "mode",
        "must_resend",
        "name",
        "name_is_given",
        "peer",
        "pending",
        "producer_id",
        "rates",
        "schema_version",
        "topic",
        "waiting_request_id",
    )

    def __init__(
        self,
        producer_id: int,
        name: str,
        peer: Peer,
        topic: Topic,
        *,
        name_is_given: bool = True,
        epoch: int = 0,
        mode: int = 0,
        metadata: dict[str, str] | None = None,
        connected_since_ms: int = 0,
        schema_version: bytes | None = None,
        encrypts: bool = False,
    ) -> None:
        self.producer_id = producer_id
        self.name = name
        encoded = name.encode()
        # How metadata of its own begins: the field, the size and the name.
        self._stamp = b"\x0a" + encode_varint(len(encoded)) + encoded
        self.name_is_given = name_is_given
        self.peer = peer
        self.topic = topic
        self.epoch = epoch
        """How often the client has reconnected it: a higher one replaces a lower one."""
        self.mode = mode
        """Its access mode (`ProducerAccessMode`)."""
        self.metadata = metadata or {}
        self.connected_since_ms = connected_since_ms
        self.schema_version = schema_version
        """Of the schema it came with, as messages carry it; None: it has none."""
        self.encrypts = encrypts
        """It has said that its messages are encrypted."""
        self.is_closed = False
        self.waiting_request_id: int | None = None
        """The request to be answered again when a WaitForExclusive producer's turn comes."""
        self.must_resend = False
        """A message was refused that its client sends again. Nothing behind it is stored before the client
        has opened the producer anew, or the two would change places."""
        self.pending: deque[Awaited] = deque()
        """What was sent and not answered yet, in order."""
        self.messages_in = 0
        self.bytes_in = 0
        self.rates = Rates()

    def __repr__(self) -> str:
        return f"<Producer {self.name} of {self.topic.name}>"

    def wrote(self, entry: bytes) -> bool:
        """Does the metadata of an entry name this producer? It is all that a restart will know."""
        at = _CHECKSUM_SIZE if entry.startswith(_CHECKSUM_MAGIC) else 0
        if entry.startswith(self._stamp, at + 4):
            return True  # as every client writes it
        return split_entry(entry).metadata.producer_name == self.name

    def is_successor_of(self, other: Producer) -> bool:
        """Is this the same producer of the same connection, reconnected?"""
        return (
            self.peer is other.peer
            and self.producer_id == other.producer_id
            and self.name == other.name
            and self.epoch > other.epoch
        )
