"""A client's end of a connection with the compiled reader of messages, and what was heard through it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from milepost.client.connection.endpoint import Endpoint
from milepost.spark.reading.blocks import Block
from milepost.spark.reading.deliveries import TaskLink
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery
from milepost.wire.protocol import ClientProtocol
from milepost.wire.replies import connected


class Heard:
    """Messages as (consumer, ledger, entry, bytes), everything else as the event that it is, in order.
    `compiled`: False leaves every message to the protocol."""

    def __init__(self, *, compiled: bool = True) -> None:
        self.found: list[Any] = []
        self.blocks = 0
        """How many came from the compiled reader."""
        self._link = TaskLink(Endpoint(url="pulsar://localhost:6650"))
        self._link.readings = _Readings(self)  # type: ignore[assignment]  # one for every consumer
        self.protocol = ClientProtocol(read_run=self._link.read_run if compiled else None)
        self.protocol.connect(pb.CommandConnect(client_version="t", protocol_version=21))
        self.protocol.receive(connected("s", 21, 5 << 20, pb.FeatureFlags()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._link.close()

    def receive(self, data: bytes) -> None:
        for event in self.protocol.receive(data):
            if isinstance(event, Delivery):
                self.found.append((event.consumer_id, event.ledger_id, event.entry_id, event.entry))
            else:
                self.found.append(event)


class _Readings:
    def __init__(self, heard: Heard) -> None:
        self._heard = heard

    def get(self, consumer_id: int) -> _Reading:
        return _Reading(self._heard, consumer_id)


class _Reading:
    def __init__(self, heard: Heard, consumer_id: int) -> None:
        self._heard = heard
        self._consumer_id = consumer_id

    def run(self, block: Block) -> None:
        self._heard.blocks += 1
        self._heard.found += [(self._consumer_id, *entry) for entry in block]
