"""What clients of one topic saw while operators were at work, for the one checker.

A message is named by its sequence id: a batch has one name for each of its messages, a chunked message one
when its last chunk is there. Deduplication comes and goes, and two connections publish by one name: what is
answered as a duplicate may be there or not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crash.checker import LogState
from stage.acksets import is_pending
from stage.stage import TOPIC

from milepost.positions.ackset import AckSet
from milepost.positions.ids import Position
from milepost.testing.checker import Anomaly, EventHistory, judge_events
from milepost.wire.events import Delivery, Receipt
from milepost.wire.metadata import EntryParts, chunk_info, is_batch, split_entry

BATCH_COUNT = CHUNK_COUNT = 3


def names_of(parts: EntryParts) -> list[str]:
    """The messages that an entry brings to their end."""
    number = parts.metadata.sequence_id
    info = chunk_info(parts.metadata)
    if info is not None:
        last = info.chunk_id == info.num_chunks - 1
        return [f"{number}/"] if last else []
    if is_batch(parts.metadata):
        return [f"{number}.{one}" for one in range(parts.metadata.num_messages_in_batch)]
    return [] if parts.metadata.HasField("marker_type") else [f"{number}"]


@dataclass
class Sent:
    """Frames of one sequence id that are on their way, and the operations that they are."""

    asked: list[int]
    frames: int
    places: list[list[int]] = field(default_factory=list)


class Witness:
    def __init__(self) -> None:
        self.history = EventHistory(clock=lambda: 0.0)
        self.history.note("start")
        self.history.note("topic", topic=TOPIC, deduplicated=False)
        self._sent: dict[int, Sent] = {}
        self._acks: dict[int, int] = {}
        self._told: set[tuple[int, ...]] = set()
        """Ids of which the history knows the message."""

    # -- publishing --------------------------------------------------------------------------------

    def sent(self, number: int, names: list[str], frames: int) -> None:
        asked = [
            # Of several connections that publish by one name none keeps the order.
            self.history.invoke("publish", topic=TOPIC, message=name, by="p", lane=name)
            for name in names
        ]
        self._sent[number] = Sent(asked, frames)

    def receipt(self, receipt: Receipt) -> None:
        sent = self._sent.get(receipt.sequence_id)
        if sent is None:
            return  # of chunks that are no message
        if receipt.entry_id < 0:
            self._give_up(receipt.sequence_id)
            return
        sent.places.append([receipt.ledger_id, receipt.entry_id])
        if len(sent.places) < sent.frames:
            return
        del self._sent[receipt.sequence_id]
        for at, n in enumerate(sent.asked):
            place = [*sent.places[-1], at if len(sent.asked) > 1 else -1]
            self._told.add(tuple(place))
            self.history.ok(n, id=place)

    def _give_up(self, number: int) -> None:
        for n in self._sent.pop(number).asked:
            self.history.unknown(n)

    # -- consuming ---------------------------------------------------------------------------------

    def join(self, sub: str, group: str, consumer_id: int) -> None:
        if group and (sub,) not in self._told:
            self._told.add((sub,))
            self.history.note("subscribe", topic=TOPIC, sub=sub, group=group)
        by = str(consumer_id)
        self.history.note("join", topic=TOPIC, sub=sub, by=by, mode="connection")

    def leave(self, sub: str, consumer_id: int) -> None:
        self.history.note("leave", topic=TOPIC, sub=sub, by=str(consumer_id))

    def received(self, sub: str, consumer_id: int, delivery: Delivery) -> None:
        parts = split_entry(delivery.entry)
        assert parts.broker is not None
        assert parts.broker.index is not None
        names = names_of(parts)
        shown = AckSet.from_message_words(delivery.ack_set, max(len(names), 1))
        for at, name in enumerate(names):
            if is_pending(shown, at):
                place = [delivery.ledger_id, delivery.entry_id, at if len(names) > 1 else -1]
                self._told.add(tuple(place))
                index = parts.broker.index - len(names) + 1 + at
                by = {"topic": TOPIC, "sub": sub, "by": str(consumer_id)}
                self.history.note("receive", **by, message=name, id=place, index=index)

    def acks(
        self, sub: str, consumer_id: int, request_id: int, delivery: Delivery, only: set[int] | None
    ) -> None:
        """`only`: these of a batch."""
        names = names_of(split_entry(delivery.entry))
        ids = [
            [delivery.ledger_id, delivery.entry_id, at if len(names) > 1 else -1]
            for at in range(len(names))
            if only is None or at in only
        ]
        known = [one for one in ids if tuple(one) in self._told]
        if known:
            by = {"topic": TOPIC, "sub": sub, "by": str(consumer_id)}
            self._acks[request_id] = self.history.invoke("ack", **by, ids=known)

    def acked(self, request_id: int, *, refused: bool) -> None:
        n = self._acks.pop(request_id, None)
        if n is not None:
            self.history.unknown(n) if refused else self.history.ok(n)

    # -- ends --------------------------------------------------------------------------------------

    def killed(self) -> None:
        for number in [*self._sent]:
            self._give_up(number)
        for request_id in [*self._acks]:
            self.acked(request_id, refused=True)
        self.history.note("kill")
        self.history.note("start")

    def scan(self, state: LogState) -> None:
        """Everything that is stored. What retention took, every subscription had acked, or it comes to light
        when the subscription gets the rest."""
        first = state.first_index
        trimmed = self.history.invoke("trim", topic=TOPIC, index=first, policy="retention")
        self.history.ok(trimmed, first=first)
        self.history.note("scan", topic=TOPIC, first=first)
        for item in state.items:
            names = names_of(split_entry(item.payload))
            known = self._is_whole(state, item.position, names)
            end = item.first_index + item.count
            if not known:
                self.history.note("fill", topic=TOPIC, **{"from": item.first_index, "to": end})
            for at, name in enumerate(names if known else ()):
                place: list[Any] = [*item.position, at if len(names) > 1 else -1]
                index = item.first_index + at
                self.history.note("stored", topic=TOPIC, message=name, id=place, index=index)
        self.history.note("scanned", topic=TOPIC, end=state.end_index)

    @staticmethod
    def _is_whole(state: LogState, position: Position, names: list[str]) -> bool:
        """Of a chunked message all the other chunks are there too, or were trimmed."""
        if not names or not names[0].endswith("/"):
            return bool(names)
        number = int(names[0][:-1])
        there = [
            info.chunk_id
            for item in state.items
            if item.position <= position
            and (parts := split_entry(item.payload)).metadata.sequence_id == number
            and (info := chunk_info(parts.metadata)) is not None
        ]
        return state.first_index > 0 or sorted(there) == [*range(CHUNK_COUNT)]

    def drained(self, sub: str) -> None:
        self.history.note("drained", topic=TOPIC, sub=sub, again=True)

    def anomalies(self) -> list[Anomaly]:
        return judge_events(self.history.events).anomalies
