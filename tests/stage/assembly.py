"""A client that puts chunked messages together, and an eye on what it is sent.

It believes nothing: a chunk that does not follow the one before it, to the same session, is an error here
where a client would drop it and lose the message.
"""

from __future__ import annotations

from typing import NamedTuple

from milepost.broker.dispatch.consumer import Consumer
from milepost.wire.events import Delivery, WireId
from milepost.wire.metadata import chunk_info, split_entry
from stage.heard import deliveries, shown
from stage.stage import Stage


class Received(NamedTuple):
    """One message, as an application sees it."""

    name: str
    """Its payload, or the uuid of a chunked one."""
    ids: tuple[WireId, ...]
    """Of all its chunks, in order."""


class Assembler:
    """The client of one consumer session."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.granted = 0
        """Permits it gave."""
        self.frames = 0
        """What it was sent for them."""
        self.received: list[Received] = []
        """Messages that are not acked yet."""
        self.names: list[str] = []
        """All that it ever got, in order."""
        self.halves: dict[str, list[WireId]] = {}
        """uuid → chunks of a message whose rest is still to come."""

    def flow(self, stage: Stage, permits: int) -> None:
        self.granted += permits
        stage.flow(self.consumer, permits)

    def hear(self) -> None:
        """Take what has come."""
        for delivery in deliveries(self.consumer):
            self._hear(delivery)

    def _hear(self, delivery: Delivery) -> None:
        message_id = WireId(delivery.ledger_id, delivery.entry_id)
        chunk = chunk_info(split_entry(delivery.entry).metadata)
        if chunk is None:
            names = shown(delivery)
            self.frames += len(names)
            self.received.append(Received(names[0], (message_id,)))
            self.names += names
            return
        self.frames += 1
        if chunk.is_first:
            self.halves[chunk.uuid] = []
        ids = self.halves.get(chunk.uuid)
        assert ids is not None, f"chunk {chunk.chunk_id} of {chunk.uuid} without a beginning"
        assert len(ids) == chunk.chunk_id, f"chunk {chunk.chunk_id} of {chunk.uuid} after {ids}"
        ids.append(message_id)
        if chunk.is_last:
            del self.halves[chunk.uuid]
            self.received.append(Received(chunk.uuid, tuple(ids)))
            self.names.append(chunk.uuid)

    def ack_all(self, stage: Stage, *, by_last: bool) -> int:
        """Ack every message that it has; how many. By the last chunk alone, as for a deserialised id,
        or by all of them, as official clients do."""
        received, self.received = self.received, []
        for one in received:
            ids = one.ids[-1:] if by_last else one.ids
            assert stage.ack(self.consumer, *ids) == [None], one
        return len(received)
