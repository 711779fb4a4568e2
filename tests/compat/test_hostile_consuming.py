"""Permits, acks and seeks that mean nothing, or far too much. See test_hostile.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from compat.broker_process import BrokerProcess
from compat.hostile import (
    MESSAGE_SIZE_MAX,
    SETTINGS,
    backlog,
    cpu_seconds_max,
    entry_of,
    everyone_else_is_served,
    id_data,
    is_counted_and_hung_up,
    metadata,
    neighbour,
    opened,
    publish,
    send,
    subscribed,
)
from compat.line import Line, framed

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery, Receipt

__all__ = ["SETTINGS", "everyone_else_is_served", "neighbour"]

# -- consuming ---------------------------------------------------------------------------------------


def flow(permits: int, consumer_id: int = 1) -> pb.CommandFlow:
    return pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits)


@pytest.mark.parametrize("permits", [[0], [2**32 - 1], [2**32 - 1] * 5, [2**31 - 1, 1, 1]])
def test_any_number_of_permits(broker: BrokerProcess, topic: str, permits: list[int]) -> None:
    """0 gives nothing (upstream: the end of the connection; decided: ignored, it harms nobody), and no
    sum of them wraps around."""
    with Line(broker.port_of(topic)) as line:
        subscribed(line, topic)
        line.say(*map(flow, permits))
        assert line.is_alive()
        publish(line, topic, 2)
        if sum(permits):
            line.hear(Delivery)
            line.hear(Delivery)
            line.say(pb.CommandConsumerStats(request_id=3, consumer_id=1))
            left = line.hear(pb.CommandConsumerStatsResponse).availablePermits
            assert 2**31 - 3 <= left <= 2**31 - 1
        else:
            assert line.is_alive()
            assert not line.heard


def test_a_flow_for_nobody(broker: BrokerProcess) -> None:
    with Line(broker.port) as line:
        line.say(flow(10, consumer_id=99))
        assert line.is_alive()


def acking(ids: list[pb.MessageIdData], *, cumulative: bool = False) -> pb.CommandAck:
    return pb.CommandAck(
        consumer_id=1,
        ack_type=pb.CommandAck.Cumulative if cumulative else pb.CommandAck.Individual,
        message_id=ids,
        request_id=4,
    )


class BadId(NamedTuple):
    """An id made from the ledger of a topic that has three batches of five in it."""

    of: Callable[[int], pb.MessageIdData]
    refused: bool
    acked: int = 0
    """Messages that the id covers all the same."""


BAD_IDS = {
    "the future": BadId(lambda ledger: id_data(ledger, 3), True),
    "far in the future": BadId(lambda ledger: id_data(ledger, 2**63 - 1), True),
    "another ledger": BadId(lambda ledger: id_data(ledger + 10_000, 0), True),
    "a negative ledger": BadId(lambda ledger: id_data(-1, 0), True),
    "a negative entry": BadId(lambda ledger: id_data(ledger, -1), True),
    "the latest of all": BadId(lambda ledger: id_data(2**63 - 1, 2**63 - 1), True),
    # The batch index is not what an ack goes by: the set is. Without one the entry is meant.
    "a batch index beyond": BadId(lambda ledger: id_data(ledger, 1, batch_index=5), False, 5),
    # A set longer than the batch, and bits beyond it: what is beyond means nothing (PIP-54).
    "a set longer than the batch": BadId(
        lambda ledger: id_data(ledger, 1, ack_set=[0b11000, -1, -1, -1]), False, 3
    ),
    "set bits beyond the batch": BadId(
        lambda ledger: id_data(ledger, 1, ack_set=[-(2**63) | 0b00111]), False, 2
    ),
    "a set of a thousand words": BadId(
        lambda ledger: id_data(ledger, 1, ack_set=[0] * 1000), False, 5
    ),
}


@pytest.mark.parametrize("name", BAD_IDS)
def test_an_ack_of_something_else(broker: BrokerProcess, topic: str, name: str) -> None:
    """An error for the whole command, and the good ids in it are acked."""
    bad = BAD_IDS[name]
    with Line(broker.port_of(topic)) as line:
        subscribed(line, topic)
        ledger = publish(line, topic, 3, batch=5)[0].ledger_id
        line.say(acking([id_data(ledger, 0), bad.of(ledger), id_data(ledger, 2)]))
        answer = line.hear(pb.CommandAckResponse)
        assert answer.HasField("error") == bad.refused, answer
        assert backlog(line) == 15 - 10 - bad.acked
        assert line.is_alive()


@pytest.mark.parametrize("name", BAD_IDS)
def test_a_cumulative_ack_of_something_else(broker: BrokerProcess, topic: str, name: str) -> None:
    bad = BAD_IDS[name]
    with Line(broker.port_of(topic)) as line:
        subscribed(line, topic, subType=pb.CommandSubscribe.Exclusive)
        ledger = publish(line, topic, 3, batch=5)[0].ledger_id
        line.say(acking([bad.of(ledger)], cumulative=True))
        answer = line.hear(pb.CommandAckResponse)
        if name == "a negative entry":
            # Clients say so for "everything before this ledger": an ack of nothing here.
            assert not answer.HasField("error")
        else:
            assert answer.HasField("error") == bad.refused, answer
        if bad.refused:
            assert backlog(line) == 15
        assert line.is_alive()


@pytest.mark.parametrize("of", ["one and the same", "all of them", "the future"])
def test_very_many_ids_in_one_ack(broker: BrokerProcess, topic: str, of: str) -> None:
    """As many as a frame holds: less than four milliseconds a thousand, and memory only meanwhile."""
    with Line(broker.port_of(topic)) as line:
        subscribed(line, topic)
        ledger = publish(line, topic, 20, batch=5)[0].ledger_id
        entries = {"one and the same": [7], "all of them": list(range(20)), "the future": [999]}[of]
        # Numbers of ledgers are longer where there are workers.
        count = 400_000 if broker.worker_ports else 600_000
        ids = [id_data(ledger, entry) for entry in entries] * (count // len(entries))
        data = framed(acking(ids))
        assert len(data) < MESSAGE_SIZE_MAX
        with cpu_seconds_max(broker, len(ids) / 1000 * 0.004):
            line.say(data)
            answer = line.hear(pb.CommandAckResponse, within_s=20)
        assert answer.HasField("error") == (of == "the future")
        assert backlog(line) == {"one and the same": 95, "all of them": 0, "the future": 100}[of]


EVERY_SECOND = 0x5555_5555_5555_5555


def test_sets_of_a_million_messages(broker: BrokerProcess, topic: str) -> None:
    """A batch may hold a million messages in a small payload. A set of every second of them is half a
    million ranges: refused, and an ack of the whole is one range."""
    size = 2**20
    with Line(broker.port_of(topic)) as line:
        subscribed(line, topic)
        opened(line, topic)
        ids = []
        for number in range(20):
            fields = {"num_messages_in_batch": size, "uncompressed_size": 6 * size}
            data = metadata(number, compression=pb.LZ4, **fields).SerializeToString()
            line.say(send(entry_of(data, b"z" * 25_000), number))
            place = line.hear(Receipt)
            ids.append(
                id_data(place.ledger_id, place.entry_id, ack_set=[EVERY_SECOND] * (size // 64))
            )
        with cpu_seconds_max(broker, 6):
            line.say(acking(ids))
            answer = line.hear(pb.CommandAckResponse, within_s=60)
        assert answer.error == pb.TooManyRequests
        assert backlog(line) == 20 * size
        for message_id in ids:
            message_id.ClearField("ack_set")
        line.say(acking(ids))
        assert not line.hear(pb.CommandAckResponse).HasField("error")
        assert backlog(line) == 0


def test_nested_ids(broker: BrokerProcess) -> None:
    """PIP-107 nests an id once. Deeper ones would be walked by recursion somewhere."""
    deep = pb.MessageIdData(ledgerId=1, entryId=1)
    for _ in range(50):
        deep = pb.MessageIdData(ledgerId=1, entryId=1, first_chunk_message_id=deep)
    commands = (
        acking([deep]),
        pb.CommandSeek(consumer_id=1, request_id=1, message_id=deep),
        pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=[deep]),
    )
    for command in commands:
        with Line(broker.port) as line:
            is_counted_and_hung_up(broker, line, framed(command), "nested_too_deep")


def test_an_ack_for_nobody(broker: BrokerProcess) -> None:
    """As upstream: dropped, and not answered."""
    with Line(broker.port) as line:
        line.say(acking([id_data(1, 1)]))
        assert line.is_alive()
        assert not line.heard


def test_an_ack_in_a_transaction_that_is_not_open(broker: BrokerProcess, topic: str) -> None:
    """It must not be taken for one outside of it."""
    with Line(broker.port_of(topic)) as line:
        subscribed(line, topic)
        ledger = publish(line, topic)[0].ledger_id
        ack = acking([id_data(ledger, 0)])
        ack.txnid_least_bits = ack.txnid_most_bits = 1
        line.say(ack)
        assert line.hear(pb.CommandAckResponse).error == pb.TransactionNotFound
        assert backlog(line) == 1


# -- seeks -------------------------------------------------------------------------------------------

END = 99
"""Behind the last message."""

SEEKS: dict[str, tuple[Callable[[int], dict[str, Any]], int]] = {
    # What is sent, by the topic's ledger, and the index of the first message that comes.
    "another topic's later ledger": (
        lambda ledger: {"message_id": id_data(ledger + 10**6, 0)},
        END,
    ),
    "another topic's earlier ledger": (lambda ledger: {"message_id": id_data(0, 5)}, 0),
    "entry -1": (lambda ledger: {"message_id": id_data(ledger, -1)}, 0),
    "ledger -1": (lambda ledger: {"message_id": id_data(-1, 7)}, 0),
    "ledger -5, entry -5": (lambda ledger: {"message_id": id_data(-5, -5)}, 0),
    "an entry of the future": (lambda ledger: {"message_id": id_data(ledger, 2**62)}, END),
    "the largest ledger": (lambda ledger: {"message_id": id_data(2**63 - 1, 0)}, END),
    "a batch index beyond": (
        lambda ledger: {"message_id": id_data(ledger, 1, batch_index=2**31 - 1)},
        5,
    ),
    "a negative batch index": (
        lambda ledger: {"message_id": id_data(ledger, 1, batch_index=-(2**31))},
        5,
    ),
    # Everything of the entry is behind the target: the next entry.
    "a set without bits": (lambda ledger: {"message_id": id_data(ledger, 1, ack_set=[0])}, 10),
    "bits beyond the batch": (
        lambda ledger: {"message_id": id_data(ledger, 1, ack_set=[-(2**63), -1])},
        10,
    ),
    "time 0": (lambda ledger: {"message_publish_time": 0}, 0),
    "time -1": (lambda ledger: {"message_publish_time": 2**64 - 1}, 0),
    "time 2^63 - 1": (lambda ledger: {"message_publish_time": 2**63 - 1}, END),
    "in an hour": (
        lambda ledger: {"message_publish_time": int((time.time() + 3600) * 1000)},
        END,
    ),
    # Decided: with both, the id counts. It is the more exact of the two.
    "an id and a time": (
        lambda ledger: {"message_id": id_data(ledger, 2), "message_publish_time": 0},
        10,
    ),
}


@pytest.mark.parametrize("name", SEEKS)
def test_a_seek_to_nowhere(broker: BrokerProcess, topic: str, name: str) -> None:
    """Mapped to the nearest place there is, and never by luck."""
    target, expected = SEEKS[name]
    with Line(broker.port_of(topic)) as line:
        subscribed(line, topic)
        ledger = publish(line, topic, 3, batch=5)[0].ledger_id
        line.say(pb.CommandSeek(consumer_id=1, request_id=2, **target(ledger)))
        line.hear(pb.CommandSuccess)
        line.hear(pb.CommandCloseConsumer)
        subscribed(line, topic)
        assert backlog(line) == max(15 - expected, 0)


BAD_SEEKS: dict[str, Callable[[int], dict[str, Any]]] = {
    "to nothing": lambda ledger: {},
    "to a chunked message that ends before it begins": lambda ledger: {
        "message_id": id_data(ledger, 0, first_chunk_message_id=id_data(ledger, 1))
    },
}


@pytest.mark.parametrize("name", BAD_SEEKS)
def test_a_seek_that_means_nothing(broker: BrokerProcess, topic: str, name: str) -> None:
    with Line(broker.port_of(topic)) as line:
        subscribed(line, topic)
        ledger = publish(line, topic, 3)[0].ledger_id
        line.say(pb.CommandSeek(consumer_id=1, request_id=2, **BAD_SEEKS[name](ledger)))
        answer = line.hear(pb.CommandError)
        assert (answer.request_id, answer.error) == (2, pb.NotAllowedError)
        assert backlog(line) == 3
        assert line.is_alive()
