"""A client that publishes messages, batches and chunks, and sends again what had no answer."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from stage.frames import batch, chunk, message
from stage.talk import ask

from milepost.testing.checker import History
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Receipt
from simulation.site import Site

BATCH_COUNT = 3
CHUNK_COUNT = 2


class Sent(NamedTuple):
    """One frame on its way, and the messages of the history that its receipt answers."""

    sequence_id: int
    frame: bytes
    asked: tuple[int, ...]
    is_last: bool = True
    """False: a chunk of a message that ends later."""


class Producer:
    def __init__(self, name: str, topic: str, history: History) -> None:
        self.name, self.topic, self.history = name, topic, history
        self.client: Loopback | None = None
        self.unanswered: deque[Sent] = deque()
        self._sent_on: Loopback | None = None
        self._first_chunk: list[int] | None = None

    def connect(self, site: Site) -> None:
        if self.client is not None:
            self.client.hang_up()
        self.client = site.client(address=f"{self.name}:1")
        ask(
            self.client,
            pb.CommandProducer(topic=self.topic, producer_id=0, producer_name=self.name),
        )

    @property
    def is_ready(self) -> bool:
        if self.client is None or self.client.is_lost:
            return False
        producer = self.client.session.producers.get(0)
        return producer is not None and producer.waiting_request_id is None

    def send(
        self,
        sequence_id: int,
        *,
        batched: bool = False,
        chunked: bool = False,
        txn: str | None = None,
        **fields: Any,
    ) -> list[int]:
        """Publish one frame or, of a chunked message, several; the operations of the history."""
        names = [str(sequence_id)]
        frames = []
        if chunked:
            parts = range(CHUNK_COUNT)
            names = ["".join(f"{sequence_id}/{part}" for part in parts)]
            frames = [
                chunk(sequence_id, part, CHUNK_COUNT, producer=self.name, **fields)
                for part in parts
            ]
        elif batched:
            frames = [batch(sequence_id, BATCH_COUNT, producer=self.name, **fields)]
            names = [f"{sequence_id}.{number}" for number in range(BATCH_COUNT)]
        else:
            frames = [message(sequence_id, producer=self.name, **fields)]
        within = {} if txn is None else {"txn": txn}
        asked = tuple(
            self.history.invoke("publish", topic=self.topic, message=name, by=self.name, **within)
            for name in names
        )
        for frame in frames:
            self.unanswered.append(Sent(sequence_id, frame, asked, frame is frames[-1]))
        self._say(frames)
        return [*asked]

    def _say(self, frames: list[bytes]) -> None:
        assert self.client is not None
        if self._sent_on is not self.client:
            # The first thing that a connection hears is what the last one did not answer, in order.
            self._sent_on = self.client
            frames = [one.frame for one in self.unanswered]
        self.client.say(*frames)

    def send_again(self) -> None:
        if self.unanswered and self._sent_on is not self.client:
            self._say([])

    def hear(self) -> None:
        if self.client is None:
            return
        for heard in self.client.take():
            if isinstance(heard, Receipt):
                self._answered(heard)
            elif isinstance(heard, pb.CommandSendError | pb.CommandCloseProducer):
                self.client.hang_up()  # a client comes again, and sends again
                self.client = None
                return

    def _answered(self, receipt: Receipt) -> None:
        sent = next(one for one in self.unanswered if one.sequence_id == receipt.sequence_id)
        self.unanswered.remove(sent)
        is_known = receipt.entry_id < 0
        if not sent.is_last:
            self._first_chunk = None if is_known else [receipt.ledger_id, receipt.entry_id, -1]
            return
        first, self._first_chunk = self._first_chunk, None
        more = {} if first is None else {"first": first}
        for number, n in enumerate(sent.asked):
            place = [receipt.ledger_id, receipt.entry_id, number if len(sent.asked) > 1 else -1]
            self.history.ok(n, id=None if is_known else place, **more)

    def cut(self) -> None:
        """The connection breaks, and with it every answer that is on its way."""
        if self.client is not None:
            self.client.hang_up()
            self.client = None

    def give_up(self) -> None:
        """What has no answer is not sent again: it may be there or not."""
        for sent in self.unanswered:
            if sent.is_last:
                for n in sent.asked:
                    self.history.unknown(n)
        self.unanswered.clear()
