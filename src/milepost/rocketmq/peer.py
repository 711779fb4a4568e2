"""The edge as the broker sees it: the other end of a producer or a consumer (`broker/peer.py`).

It reads frames as a client does, since that is what the broker writes, and hands over what they say.
"""

from __future__ import annotations

from collections.abc import Sequence

from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.peer import Buffer
from milepost.broker.topic.producer import Producer
from milepost.wire import pulsar_pb2, replies
from milepost.wire.events import Command, Delivery, Fault, Receipt
from milepost.wire.peer import PROTOCOL_VERSION
from milepost.wire.protocol import ClientProtocol

# Far more than an entry can have.
_FRAME_MAX = 1 << 30


class EdgePeer:
    """What both kinds have in common; each overrides what it waits for."""

    address = "rocketmq"
    client_version = "RocketMQ"
    role = None
    wants_broker_entry = True
    unwritable_since = 0.0
    has_consumers = False

    def __init__(self) -> None:
        self._protocol = ClientProtocol(frame_max=_FRAME_MAX)
        self._protocol.connect(pulsar_pb2.CommandConnect(client_version=self.client_version))
        self._protocol.receive(
            replies.connected("edge", PROTOCOL_VERSION, _FRAME_MAX, pulsar_pb2.FeatureFlags())
        )

    @property
    def is_writable(self) -> bool:
        return True

    def write(self, buffers: Sequence[Buffer]) -> None:
        for event in self._protocol.receive(b"".join(buffers)):
            if isinstance(event, Delivery):
                self.delivered(event)
            elif isinstance(event, Receipt):
                self.stored(event)
            elif isinstance(event, Command):
                self.told(event)
            else:
                assert isinstance(event, Fault)
                raise event.error

    def delivered(self, delivery: Delivery) -> None:
        """A message has come, or a batch, or a chunk."""

    def stored(self, receipt: Receipt) -> None:
        """A message is on disk."""

    def told(self, command: Command) -> None:
        """A command that needs no answer here: what it says is known by other ways."""

    def understands(self, kind: int) -> bool:
        return False

    def settled(self, publishes: int) -> None: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def resume(self) -> None: ...

    def unsent_size(self) -> int:
        return 0

    def restart_producer(self, producer: Producer) -> None: ...

    def forget_producer(self, producer: Producer) -> None: ...

    def forget_consumer(self, consumer: Consumer) -> None: ...

    def fail(self, reason: str) -> None: ...

    def abort(self, reason: str) -> None:
        self.fail(reason)
