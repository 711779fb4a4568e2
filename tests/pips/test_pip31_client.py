"""PIP-31, transactions: what the official client sees of another client's transaction, over sockets."""

from __future__ import annotations

import pulsar
import pytest

import milepost
import milepost.testing

TOPIC = "seen"


@pytest.mark.parametrize("commits", [True, False], ids=["committed", "aborted"])
def test_the_official_client_sees_committed_messages_only(commits: bool) -> None:
    with milepost.testing.broker() as running:
        client, official = milepost.Client(running.url), pulsar.Client(running.url)
        try:
            producer = client.create_producer(TOPIC)
            consumer = official.subscribe(TOPIC, "s", consumer_type=pulsar.ConsumerType.Shared)
            reader = official.create_reader(TOPIC, pulsar.MessageId.earliest)
            producer.send(b"before")
            txn = client.transaction(timeout=60)
            producer.send(b"inside", txn=txn)
            producer.send(b"behind")
            assert consumer.receive(timeout_millis=10_000).data() == b"before"
            assert reader.read_next(timeout_millis=10_000).data() == b"before"
            assert not reader.has_message_available()
            with pytest.raises(pulsar.Timeout):
                consumer.receive(timeout_millis=300)
            txn.commit() if commits else txn.abort()
            for expected in [b"inside", b"behind"] if commits else [b"behind"]:
                assert consumer.receive(timeout_millis=10_000).data() == expected
                assert reader.read_next(timeout_millis=10_000).data() == expected
            assert not reader.has_message_available()
        finally:
            official.close()
            client.close()
