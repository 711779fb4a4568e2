"""Calls about messages: ids by index and time, the last id, messages at a position."""

from __future__ import annotations

from milepost.admin.entries import StoredMessage, messages_of_entry
from milepost.admin.errors import Missing
from milepost.admin.request import Script, get, put, subscription_path, topic_path
from milepost.admin.subscriptions import position_json
from milepost.positions.ids import EARLIEST, MessageId
from milepost.positions.names import TopicName


def get_message_id_by_index(topic: str, index: int, *, precise: bool = False) -> Script[MessageId]:
    """The id of the entry that holds an index (PIP-415).

    `precise` asks for the place in the batch too, which Apache Pulsar does not know and ignores.
    `Missing` for an index that no message has; `EARLIEST` for one that retention has taken.
    """
    path = topic_path(topic, "getMessageIdByIndex")
    return (yield get(path, index=index, precise=precise or None)).message_id()


def get_index_by_message_id(topic: str, message_id: MessageId) -> Script[int]:
    """The way back. Of an id without a batch index: the first index of its entry.

    A Milepost broker knows it; Apache Pulsar has no such call.
    """
    path = topic_path(topic, "getIndexByMessageId")
    answer = yield get(
        path,
        ledgerId=message_id.ledger_id,
        entryId=message_id.entry_id,
        batchIndex=message_id.batch_index,
    )
    return answer.number_in(answer.object(), "index")


def get_message_id_by_timestamp(topic: str, timestamp_ms: int) -> Script[MessageId]:
    """The first message published at that time or later."""
    return (yield get(topic_path(topic, "messageid", timestamp_ms))).message_id()


def get_last_message_id(topic: str) -> Script[MessageId]:
    return (yield get(topic_path(topic, "lastMessageId"))).message_id()


def get_backlog_size(topic: str, position: MessageId = EARLIEST) -> Script[int]:
    """Bytes from a position to the end."""
    return (yield put(topic_path(topic, "backlogSize"), position_json(position))).number()


def get_message_by_id(topic: str, ledger_id: int, entry_id: int) -> Script[list[StoredMessage]]:
    """The messages of one entry: one, or those of a batch."""
    answer = yield get(topic_path(topic, "ledger", ledger_id, "entry", entry_id))
    return messages_of_entry(
        answer, MessageId(ledger_id, entry_id), partition=TopicName.parse(topic).partition
    )


def examine_message(
    topic: str, initial_position: str = "latest", message_position: int = 1
) -> Script[list[StoredMessage]]:
    """The n-th entry from the `earliest` or the `latest`, which is 1."""
    answer = yield get(
        topic_path(topic, "examinemessage"),
        initialPosition=initial_position,
        messagePosition=message_position,
    )
    return messages_of_entry(answer, partition=TopicName.parse(topic).partition)


def peek_entry(topic: str, subscription: str, place: int) -> Script[list[StoredMessage]]:
    """The messages of the n-th entry that a subscription has not acked, from 1.

    Peeking at a subscription that is not there makes none, unless the broker is Apache Pulsar.
    """
    answer = yield get(subscription_path(topic, subscription, "position", place), create=False)
    return messages_of_entry(answer, partition=TopicName.parse(topic).partition)


def peek_messages(topic: str, subscription: str, count: int = 1) -> Script[list[StoredMessage]]:
    """The next messages of a subscription that are not acked, without delivering them.

    Fewer than `count` at the end of the backlog. Entries are asked for one by one; a batch is
    unpacked, and cut where `count` ends.
    """
    found: list[StoredMessage] = []
    place = 0
    while len(found) < count:
        place += 1
        try:
            path = subscription_path(topic, subscription, "position", place)
            answer = yield get(path, create=False)
        except Missing:
            # Of the first, it is the topic or subscription that is missing, or nothing is left.
            if place == 1 and not (yield from _exists(topic, subscription)):
                raise
            break
        found += messages_of_entry(answer, partition=TopicName.parse(topic).partition)
    return found[:count]


def _exists(topic: str, subscription: str) -> Script[bool]:
    return subscription in (yield get(topic_path(topic, "subscriptions"))).strings()
