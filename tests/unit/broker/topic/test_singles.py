"""Messages that come one by one to many topics: what is done once for all of them changes nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stage.frames import batch, metadata
from stage.heard import answers
from stage.stage import TOPIC, Stage
from stage.talk import flow, produce, subscribe

from milepost.broker.topic.singles import Single
from milepost.broker.topic.topic import Topic
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery, Receipt
from milepost.wire.scanners.encode import send_frame

TOPICS = 3


def a_client(stage: Stage) -> Loopback:
    """With a producer for each topic; that of topic n has the id n."""
    client = stage.client()
    for number in range(TOPICS):
        produce(stage, client, number, topic=f"{TOPIC}{number}")
    return client


def to(producer_id: int, sequence_id: int, payload: bytes = b"") -> bytes:
    meta = metadata(sequence_id).SerializeToString()
    return b"".join(send_frame(producer_id, sequence_id, meta, payload))


def the_topics(stage: Stage) -> list[Topic]:
    return [stage.topic(f"{TOPIC}{number}") for number in range(TOPICS)]


def heard(client: Loopback) -> list[str]:
    """Receipts and refusals, with the producer in front."""
    found = []
    for event in client.take():
        if isinstance(event, Receipt):
            place = f"{event.ledger_id}:{event.entry_id}"
            found.append(f"{event.producer_id}: {event.sequence_id} at {place}")
        elif isinstance(event, pb.CommandSendError):
            error = pb.ServerError.Name(event.error)
            found.append(f"{event.producer_id}: {event.sequence_id} {error}")
        elif isinstance(event, pb.CommandCloseProducer):
            found.append(f"{event.producer_id}: closed")
    return found


def test_messages_of_one_read_are_answered_in_one_piece(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = a_client(stage)
    client.take()
    sent: list[int] = []
    send = client.send
    monkeypatch.setattr(client, "send", lambda buffers: (sent.append(len(buffers)), send(buffers)))
    stage.engine.holds_journal = True
    client.say(to(0, 0) + to(1, 0) + to(2, 0) + to(0, 1))
    waiting = the_topics(stage)[0].producers["p"].pending
    assert [type(one) for one in waiting] == [Single, Single]
    stage.turn()
    assert heard(client) == []
    stage.engine.holds_journal = False
    stage.turn()
    assert sent == [1]
    assert heard(client) == ["0: 0 at 1:0", "1: 0 at 2:0", "2: 0 at 3:0", "0: 1 at 1:1"]
    assert client.session.pending_publishes == stage.broker.memory.pending_publishes == 0


def test_they_are_stored_and_counted_as_publications_are(make_stage: Callable[..., Stage]) -> None:
    payloads = [b"", b"x" * 200, b"y" * 200, b"z" * 5000]
    found = []
    for one_by_one in (True, False):
        stage = make_stage()
        client = a_client(stage)
        counters = stage.broker.counters
        if one_by_one:
            for number, payload in enumerate(payloads):
                client.say(b"".join(to(place, number, payload) for place in range(TOPICS)))
        else:
            for place in range(TOPICS):
                client.say(b"".join(to(place, n, payload) for n, payload in enumerate(payloads)))
        stage.turn()
        stored = []
        for topic in the_topics(stage):
            topic.write_times.roll()
            topic.entry_sizes.roll()
            (producer,) = topic.producers.values()
            stored.append(
                (
                    [entry[1:] for entry in topic.log.read(topic.log.locate(0).position)],
                    (topic.messages_in, topic.bytes_in, topic.entries_in, topic.published_ms),
                    (producer.messages_in, producer.bytes_in),
                    (topic.write_times.count, topic.write_times.total),
                    (topic.entry_sizes.counts, topic.entry_sizes.total),
                )
            )
        told = (counters.entries_in, counters.messages_in, counters.bytes_in)
        found.append((stored, told))
    assert found[0] == found[1]
    assert found[0][1][1] == TOPICS * len(payloads)


@pytest.mark.parametrize("call", ["append", "sync"])
def test_nothing_is_stored_behind_a_refused_one_before_its_client_has_come_again(
    stage: Stage, call: str
) -> None:
    client = a_client(stage)
    client.say(to(0, 0) + to(1, 0))
    stage.turn()
    client.take()
    stage.files.faults.fail(call, under="journal")  # type: ignore[arg-type]
    client.say(to(0, 1) + to(1, 1))
    stage.turn()
    client.say(to(1, 2) + to(2, 0) + to(0, 2))
    stage.turn()
    assert heard(client) == [
        "0: 1 PersistenceError",
        "0: closed",
        "1: 1 PersistenceError",
        "1: closed",
        "2: 0 at 3:0",
    ]
    assert [topic.log.end_index for topic in the_topics(stage)] == [1, 1, 1]


def test_a_producer_hears_in_order_whatever_it_sends(stage: Stage) -> None:
    """Singles and publications in turn; some of what waits is refused before the first is durable."""
    client = a_client(stage)
    client.take()
    topic = the_topics(stage)[0]
    stage.engine.holds_journal = True
    first = [to(0, 0), to(1, 0), batch(1, 3), to(1, 1), to(0, 4), to(1, 2), to(0, 5), to(0, 6)]
    client.say(b"".join(first))
    topic.log.stall = "the bucket is away"
    client.say(to(0, 7) + to(1, 3))
    topic.log.stall = None
    client.say(to(0, 8))
    stage.turn()
    assert heard(client) == []
    stage.engine.holds_journal = False
    stage.turn()
    told = heard(client)
    assert [one for one in told if one[0] == "0"] == [
        "0: 0 at 1:0",
        "0: 1 at 1:1",
        "0: 4 at 1:2",
        "0: 5 at 1:3",
        "0: 6 at 1:4",
        "0: 7 PersistenceError",
        "0: 8 PersistenceError",
        "0: closed",
    ]
    assert [one for one in told if one[0] == "1"] == [f"1: {n} at 2:{n}" for n in range(4)]


def test_a_damaged_log_refuses_them_at_once(stage: Stage) -> None:
    client = a_client(stage)
    client.take()
    the_topics(stage)[1].log.damage = "it cannot be read back"
    client.say(to(0, 0) + to(1, 0) + to(2, 0))
    stage.turn()
    told = heard(client)
    assert [one for one in told if one[0] != "1"] == ["0: 0 at 1:0", "2: 0 at 2:0"]
    assert "1: 0 PersistenceError" in told


def test_a_connection_that_consumes_too_hears_the_receipt_before_the_message(stage: Stage) -> None:
    client = a_client(stage)
    subscribe(stage, client, topic=f"{TOPIC}0")
    flow(stage, client, 10)
    client.take()
    client.say(to(0, 0) + to(1, 0))
    stage.turn()
    kinds = [type(one) for one in client.take()]
    assert kinds.index(Receipt) < kinds.index(Delivery)
    assert kinds.count(Receipt) == 2


def test_a_producer_that_was_closed_hears_nothing_more(stage: Stage) -> None:
    client = a_client(stage)
    client.take()
    stage.engine.holds_journal = True
    client.say(to(0, 0) + to(1, 0))
    stage.broker.admissions.remove(client.session.producers[0])
    stage.engine.holds_journal = False
    stage.turn()
    assert heard(client) == ["1: 0 at 2:0"]
    assert client.session.pending_publishes == 0


def test_what_breaks_down_for_one_is_no_matter_of_the_others(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = a_client(stage)
    client.take()
    monkeypatch.setattr(the_topics(stage)[1], "write_times", None)
    client.say(to(0, 0) + to(1, 0) + to(2, 0))
    stage.turn()
    assert heard(client) == ["0: 0 at 1:0", "2: 0 at 3:0"]
    assert stage.broker.counters.unexpected_errors["receipts"] == 1


def test_a_policy_that_judges_sends_is_obeyed(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(deduplication=True)
    client = a_client(stage)
    client.take()
    for second in (0, 1):
        client.say(to(0, 0) + to(1, second))
        stage.turn()
    assert answers(client) == ["0 at 1:0", "0 at 2:0", "0 at -1:-1", "1 at 2:1"]
