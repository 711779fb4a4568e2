"""The durable subscription that shows the broker how far a streaming query is.

It says where a query began that began at the end, when Spark asks a second time; it shows the query's
progress like any consumer's, and retention waits for it. It follows Spark's checkpoint and never leads it:
what Spark has committed is acked, cumulatively, and nothing is ever delivered through it. Exclusive, so that
a second query on the same subscription is refused.

    pin = Pin(connection, "etl")
    pin.hold(topic, at_end=True)       # the index at which it stands
    pin.advance({topic: 1200})         # everything below 1200 is acked
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from milepost.client.connection.endpoint import Endpoint
from milepost.errors import ConsumerBusy, NotFound
from milepost.positions.ackset import AckSet
from milepost.positions.ids import MessageId, signed64
from milepost.spark.reading.link import Link
from milepost.spark.reading.places import Places
from milepost.spark.retries import patiently
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.extensions import READER, SPARK


class _Hold:
    """One partition."""

    def __init__(self, connection: Endpoint, topic: str, name: str, at_end: bool) -> None:
        self.link = Link.open(connection, topic)
        self.places = Places(self.link, topic)
        self.consumer_id = self.link.next_id()
        positions = pb.CommandSubscribe.InitialPosition
        command = pb.CommandSubscribe(
            topic=topic,
            subscription=name,
            subType=pb.CommandSubscribe.Exclusive,
            consumer_id=self.consumer_id,
            consumer_name="spark",
            initialPosition=positions.Latest if at_end else positions.Earliest,
            force_topic_creation=False,
            subscription_properties=[pb.KeyValue(key=READER, value=SPARK)],
        )
        try:
            self.link.ask(command)
        except BaseException:
            self.link.close()
            raise

    def index(self) -> int:
        """Behind what is acked without a gap."""
        answer = self.link.ask(pb.CommandGetLastMessageId(consumer_id=self.consumer_id))
        acked = answer.consumer_mark_delete_position
        if not answer.HasField("consumer_mark_delete_position") or signed64(acked.entryId) < 0:
            return self.places.first_index()
        try:
            return self.places.span_of(MessageId(acked.ledgerId, acked.entryId))[1]
        except NotFound:  # trimmed since
            return self.places.first_index()

    def ack_below(self, end_index: int) -> None:
        """Ack everything below an index, down to one message of a batch."""
        index = end_index - 1
        message_id, first, end = self.places.entry_of(index)
        if not first <= index < end:
            return  # a marker: the message behind it is not Spark's yet
        if end_index < end:
            pending = AckSet.full(end - first).without_before(index - first + 1)
            message_id.ack_set.extend(pending.to_ack_words())
            message_id.batch_size = end - first
        self.link.ask(
            pb.CommandAck(
                consumer_id=self.consumer_id,
                ack_type=pb.CommandAck.Cumulative,
                message_id=[message_id],
            )
        )


class Pin:
    def __init__(self, connection: Endpoint, name: str) -> None:
        self._connection = connection
        self._name = name
        self._holds: dict[str, _Hold] = {}
        # Acked by this process, so that nothing is acked twice.
        self._acked: dict[str, int] = {}

    def hold(self, topic: str, *, at_end: bool = False) -> int:
        """Take the subscription, made at the beginning or at the end if need be; where it stands."""
        return patiently(
            self._connection.timeout_s, lambda: self._held(topic, at_end=at_end).index()
        )

    def advance(self, offsets: Mapping[str, int]) -> None:
        """Everything below the offsets is done."""
        for topic, end_index in offsets.items():
            if end_index > self._acked.get(topic, 0):
                patiently(self._connection.timeout_s, partial(self._ack, topic, end_index))
                self._acked[topic] = end_index

    def _ack(self, topic: str, end_index: int) -> None:
        self._held(topic).ack_below(end_index)

    def close(self) -> None:
        for one in self._holds.values():
            one.link.close()
        self._holds.clear()

    def _held(self, topic: str, *, at_end: bool = False) -> _Hold:
        found = self._holds.get(topic)
        if found is None or not found.link.is_open:
            try:
                found = _Hold(self._connection, topic, self._name, at_end)
            except ConsumerBusy as error:
                raise ConsumerBusy(
                    f"subscription {self._name} of {topic} has another consumer: give each query a "
                    f"subscription of its own ({error})"
                ) from None
            self._holds[topic] = found
        return found
