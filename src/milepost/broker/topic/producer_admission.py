"""Lets producers in, makes them wait, displaces and removes them.

`producer_access.py` decides which producers may have a topic; this file performs what it decided. A topic
epoch is durable before any producer is told of it; a displaced producer is told; a waiting one has its turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from milepost.broker.topic.producer import Producer
from milepost.broker.topic.producer_access import Admission
from milepost.broker.topic.topic import Topic
from milepost.errors import MilepostError, ProducerFenced
from milepost.wire import replies

if TYPE_CHECKING:
    from milepost.broker.broker import Broker


# A client whose topic was unloaded comes back within a second. After so many its place is given up.
PLACE_KEPT_S: Final = 10.0


class ProducerAdmission:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # Topics that were unloaded under a producer that had them alone: its epoch, and until when.
        self._kept: dict[str, tuple[int | None, float]] = {}

    def keep_place(self, topic: Topic) -> None:
        """The topic is unloaded: the producer that has it alone comes back to it."""
        if topic.access.is_owned and topic.name.is_persistent:
            until = self._broker.clock.monotonic() + PLACE_KEPT_S
            self._kept[str(topic.name)] = topic.access.epoch, until

    def opened(self, topic: Topic) -> None:
        """The topic is there again, without producers."""
        epoch, until = self._kept.get(str(topic.name), (None, 0.0))
        is_its = epoch is not None and epoch == topic.access.epoch
        if is_its and self._broker.clock.monotonic() < until:
            topic.access.keep_place()

    def tick(self, now: float) -> None:
        """Give up the places of producers that did not come back."""
        for name, (_, until) in list(self._kept.items()):
            if now >= until:
                del self._kept[name]
                topic = self._broker.topics.get(name)
                if topic is not None:
                    self._perform(topic, topic.access.give_place_up())

    def remove(self, producer: Producer, *, comes_again: bool = False) -> None:
        """A producer is gone; the producer that waited for that has its turn. `comes_again`: not before
        `give_place_up`, for the same producer is about to open on the same connection."""
        if producer.is_closed:
            return
        producer.is_closed = True
        topic = producer.topic
        if topic.producers.get(producer.name) is producer:
            del topic.producers[producer.name]
            if topic.dedup is not None:
                topic.dedup.closed(producer.name, self._broker.clock.monotonic())
        producer.peer.forget_producer(producer)
        if comes_again and topic.access.is_alone(producer):
            topic.access.step_aside(producer)
        else:
            self._perform(topic, topic.access.leave(producer))

    def restart(self, producer: Producer) -> None:
        """Close a producer whose client is to open it again and to resend what has no receipt. The place of
        one that has the topic alone is kept meanwhile."""
        if producer.is_closed:
            return
        topic = producer.topic
        is_alone = topic.access.is_alone(producer)
        if is_alone:
            self.keep_place(topic)
        self.remove(producer, comes_again=is_alone)
        producer.peer.write((replies.close_producer(producer.producer_id),))

    def give_place_up(self, topic: Topic) -> None:
        """A producer that stepped aside for itself has its place again, or is not let in."""
        self._perform(topic, topic.access.give_place_up())

    def _perform(self, topic: Topic, decisions: Iterable[Admission[Producer]]) -> None:
        for decided in decisions:
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
                await self._broker.change_topics(
                    [topic], lambda doc: {**doc, "epoch": admission.epoch_to_store}
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
