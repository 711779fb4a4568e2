"""Asks the broker for indexes: of an id, a time, a subscription, the end. Asked, not kept.

Ids by index and by time are asked of Milepost on the wire, of Apache Pulsar over HTTP (`adminUrl`, PIP-415);
everything else is found by looking at entries, which carry the index of their last message.

    places = Places(link, "persistent://public/default/t")
    places.end_index()                     # behind the last message that a reader may have
    places.resolve(Bound("timestamp", 1700000000000))
"""

from __future__ import annotations

from typing import TypeGuard

from milepost.errors import NotFound, ServiceNotReady, SubscriptionNotFound, TopicNotFound
from milepost.positions.ids import EARLIEST, MessageId, signed64
from milepost.spark.options import Bound, admin_of
from milepost.spark.reading.entries import RawEntry, last_index, read_entry
from milepost.spark.reading.link import Link, Reading, earliest
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.extensions import EXISTING_SUBSCRIPTION, extension
from milepost.wire.metadata import message_count


class Places:
    """Of one partition."""

    def __init__(self, link: Link, topic: str) -> None:
        self._link = link
        self._topic = topic
        self._newest_size = 0.0

    def id_at(self, index: int) -> pb.MessageIdData:
        """The entry that holds an index; the earliest for one that is trimmed."""
        if index == 0:
            return earliest()
        found = self._find(index)
        if found is None:
            raise NotFound(f"{self._topic} has no message {index}")
        return earliest() if found.ledger_id < 0 else _data(found)

    def is_trimmed(self, index: int) -> bool:
        """Was there a message that is no longer there?"""
        found = self._find(index)
        return found is not None and found.ledger_id < 0

    def end_index(self) -> int:
        """Behind the last message that a reader will ever get of what is there now."""
        reading = Reading(self._link, self._topic, None)
        try:
            ledger_id, entry_id, _ = reading.last_id()
        finally:
            reading.close()
        if ledger_id < 0:
            return self._empty_end()
        entry = self._entry_at(pb.MessageIdData(ledgerId=ledger_id, entryId=entry_id))
        if entry is None:
            return self._empty_end()
        first, end = _span(entry)
        self._newest_size = len(entry.data) / (end - first)
        return end

    def first_index(self) -> int:
        """That of the first message that is there; the end if there is none."""
        entry = self._entry_at(None)
        return self._empty_end() if entry is None else _span(entry)[0]

    def newest_size(self) -> float:
        """Bytes of a message, by the newest entry as it is stored; 0 for an empty topic."""
        return self._newest_size

    def index_of(self, message_id: MessageId) -> int:
        """The index of the message that an id names."""
        first, end = self.span_of(message_id)
        batch_index = message_id.batch_index
        return first + (batch_index if 0 <= batch_index < end - first else 0)

    def span_of(self, message_id: MessageId) -> tuple[int, int]:
        """The indexes `[first, end)` of the entry that an id names."""
        entry = self._entry_at(_data(message_id)) if message_id.ledger_id >= 0 else None
        if entry is None or (entry.ledger_id, entry.entry_id) != message_id.position:
            raise NotFound(f"{self._topic} has no message {message_id}")
        return _span(entry)

    def entry_of(self, index: int) -> tuple[pb.MessageIdData, int, int]:
        """The entry that holds an index, or the first behind it, and its indexes."""
        entry = self._entry_at(self.id_at(index))
        if entry is None:
            raise NotFound(f"{self._topic} has no message {index}")
        return pb.MessageIdData(ledgerId=entry.ledger_id, entryId=entry.entry_id), *_span(entry)

    def resolve(self, bound: Bound) -> int:
        """The index that a bound means now."""
        match bound.kind:
            case "earliest":
                return self.first_index()
            case "latest":
                return self.end_index()
            case "index":
                return int(bound.value)
            case "message_id":
                return self.index_of(MessageId.parse(str(bound.value)))
            case "timestamp":
                return self._index_at(int(bound.value))
            case "subscription":
                return self._subscription_index(str(bound.value))

    def _find(self, index: int) -> MessageId | None:
        """The id of an index; EARLIEST for one that is trimmed, None for one that is not there yet."""
        if self._link.finds_indexes:
            try:
                answer = self._link.ask(
                    pb.CommandGetMessageIdByIndex(topic=self._topic, index=index)
                )
            except NotFound as error:
                if isinstance(error, TopicNotFound):
                    raise
                return None
            found = answer.message_id
            return MessageId(signed64(found.ledgerId), signed64(found.entryId))
        from milepost.admin import Missing

        with admin_of(self._link.endpoint) as admin:
            try:
                return admin.get_message_id_by_index(self._topic, index)
            except Missing:
                return None

    def _empty_end(self) -> int:
        """The end of a topic that has no message: 0, unless all that it had is trimmed."""
        if self._find(0) is None:
            return 0
        # Everything below the end was there once: the smallest index that never was is the end.
        known, unknown = 0, 1
        while self._find(unknown) is not None:
            known, unknown = unknown, unknown * 2
        while unknown - known > 1:
            middle = (known + unknown) // 2
            if self._find(middle) is None:
                unknown = middle
            else:
                known = middle
        return unknown

    def _index_at(self, time_ms: int) -> int:
        """The first index that came not before a time."""
        if self._link.finds_indexes:
            return self._sought_index(time_ms)
        from milepost.admin import Missing

        with admin_of(self._link.endpoint) as admin:
            try:
                found = admin.get_message_id_by_timestamp(self._topic, time_ms)
            except Missing:
                return self.end_index()
        if found == EARLIEST:
            return self.first_index()
        entry = self._entry_at(_data(found))
        return self.end_index() if entry is None else _span(entry)[0]

    def _sought_index(self, time_ms: int) -> int:
        """The same by a seek, as Milepost takes it: in place, with an epoch (PIP-194)."""
        reading = Reading(self._link, self._topic, None)
        try:
            reading.seek(time_ms)
            last = reading.last_id()[:2]
            if last[0] < 0 or reading.acked_position() >= last:
                return self.end_index()
            reading.allow(1)
            found = reading.first_entry(self._link.endpoint.timeout_s)
        finally:
            reading.close()
        if found is None:
            raise ServiceNotReady(f"{self._topic}: no message came behind the time {time_ms}")
        return _span(found)[0]

    def _subscription_index(self, name: str) -> int:
        """Behind what a durable subscription has acked without a gap; `NotFound` if there is none."""
        self._check_subscription(name)
        consumer_id = self._link.next_id()
        command = pb.CommandSubscribe(
            topic=self._topic,
            subscription=name,
            subType=pb.CommandSubscribe.Shared,
            consumer_id=consumer_id,
            consumer_name="spark-look",
            force_topic_creation=False,
            metadata=[extension(EXISTING_SUBSCRIPTION)],
        )
        self._link.ask(command)
        try:
            answer = self._link.ask(pb.CommandGetLastMessageId(consumer_id=consumer_id))
        finally:
            self._link.ask(pb.CommandCloseConsumer(consumer_id=consumer_id))
        acked = answer.consumer_mark_delete_position
        if not answer.HasField("consumer_mark_delete_position") or acked.entryId >= 1 << 63:
            return self.first_index()
        # A marker, or a message of an aborted transaction, is acked without being shown.
        entry = self._entry_at(acked)
        if entry is None:
            return self.end_index()
        first, end = _span(entry)
        is_acked = (entry.ledger_id, entry.entry_id) == (acked.ledgerId, acked.entryId)
        return end if is_acked else first

    def _check_subscription(self, name: str) -> None:
        """Ask Apache Pulsar whether it exists: it would make one, which stands at the end and holds back
        retention for good. Milepost is asked by the consumer's property."""
        if self._link.finds_indexes or self._link.endpoint.admin_url is None:
            return
        with admin_of(self._link.endpoint) as admin:
            if name not in admin.get_subscriptions(self._topic):
                raise SubscriptionNotFound(f"subscription {name} of {self._topic} does not exist")

    def _entry_at(self, start: pb.MessageIdData | None) -> RawEntry | None:
        """The first entry from an id on; None if there is none now."""
        reading = Reading(self._link, self._topic, start)
        try:
            last = reading.last_id()[:2]
            if last[0] < 0 or (_is_address(start) and (start.ledgerId, start.entryId) > last):
                return None
            reading.allow(1)
            return reading.first_entry(self._link.endpoint.timeout_s)
        finally:
            reading.close()


def _data(message_id: MessageId) -> pb.MessageIdData:
    return pb.MessageIdData(ledgerId=message_id.ledger_id, entryId=message_id.entry_id)


def _span(entry: RawEntry) -> tuple[int, int]:
    parts = read_entry(entry)
    end = last_index(parts, entry) + 1
    return end - message_count(parts.metadata), end


def _is_address(start: pb.MessageIdData | None) -> TypeGuard[pb.MessageIdData]:
    """Not the earliest, which is -1 in an unsigned field."""
    return start is not None and start.ledgerId < 1 << 63
