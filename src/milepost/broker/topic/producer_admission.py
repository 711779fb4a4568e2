"""Lets producers in, makes them wait, displaces and removes them.

`producer_access.py` decides which producers may have a topic; this file performs what it decided. A topic
epoch is durable before any producer is told of it; a displaced producer is told; a waiting one has its turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.topic.producer import Producer
from milepost.broker.topic.producer_access import Admission
from milepost.broker.topic.topic import Topic
from milepost.errors import MilepostError, ProducerFenced
from milepost.wire import replies

if TYPE_CHECKING:
    from milepost.broker.broker import Broker


class ProducerAdmission:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def remove(self, producer: Producer) -> None:
        """A producer is gone; the producer that waited for that has its turn."""
        if producer.is_closed:
            return
        producer.is_closed = True
        topic = producer.topic
        if topic.producers.get(producer.name) is producer:
            del topic.producers[producer.name]
            if topic.dedup is not None:
                topic.dedup.closed(producer.name, self._broker.clock.monotonic())
        producer.peer.forget_producer(producer)
        for decided in topic.access.leave(producer):
            if decided.error is not None:
                self.refuse_waiting(decided.producer, decided.error)
            else:
                self._broker.spawn(self._promote(topic, decided))

    async def _promote(self, topic: Topic, admission: Admission[Producer]) -> None:
        """Grant exclusive access to the producer that waited for it."""
        try:
            await self.grant(topic, admission)
        except MilepostError as error:
            self.refuse_waiting(admission.producer, error)

    def put_out(self, admission: Admission[Producer]) -> None:
        """Producers that another one displaces: they, or those in line, are told."""
        for producer in admission.to_close:
            self.remove(producer)
            producer.peer.write((replies.close_producer(producer.producer_id),))
        for producer in admission.to_refuse:
            self.refuse_waiting(producer, ProducerFenced(f"{admission.producer.name} came first"))

    def refuse_waiting(self, producer: Producer, error: MilepostError) -> None:
        """A producer in line is gone, and its request is answered."""
        self.remove(producer)
        if producer.waiting_request_id is not None:
            producer.peer.write(
                (replies.error(producer.waiting_request_id, error.wire_code, str(error)),)
            )

    async def grant(self, topic: Topic, admission: Admission[Producer]) -> None:
        """Tell a producer that it may publish, once the topic epoch it got is durable."""
        producer = admission.producer
        if admission.epoch_to_store is not None and topic.name.is_persistent:
            try:
                topic.row = await self._broker.directory.change_doc(
                    topic.row, lambda doc: {**doc, "epoch": admission.epoch_to_store}
                )
            except BaseException:
                self.remove(producer)
                raise
        request_id, producer.waiting_request_id = producer.waiting_request_id, None
        if request_id is not None and not producer.is_closed:
            frame = self.success(request_id, producer, admission.epoch)
            producer.peer.write((frame,))

    def success(self, request_id: int, producer: Producer, epoch: int | None) -> bytes:
        return replies.producer_success(
            request_id,
            producer.name,
            last_sequence_id=producer.topic.last_sequence_id(producer.name),
            schema_version=producer.schema_version,
            topic_epoch=epoch,
        )
