"""Numbers that only a liar sends, against a real broker that is killed afterwards."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

from compat.broker_process import BrokerProcess
from compat.hostile import entry_of, opened, publish, send
from compat.line import Line

from milepost.wire import pulsar_pb2 as pb

TOPIC = "persistent://public/default/lied-to"
OTHER = "persistent://public/default/other"
# A frame of 48 bytes: the broker reads more than 2^32 messages' worth of them at once.
CLAIM = pb.MessageMetadata(
    producer_name="",
    sequence_id=0,
    publish_time=2**41,
    num_messages_in_batch=2**20,
    compression=pb.LZ4,
    uncompressed_size=2**28 - 1,
).SerializeToString()
LIES = send(entry_of(CLAIM, b"")) * 20_000


def test_batches_that_claim_millions_of_messages_harm_nobody(tmp_path: Path) -> None:
    """No block of more than 2^32 indexes is staged: the broker goes on, and starts again."""
    with BrokerProcess(tmp_path) as broker:
        with Line(broker.port_of(OTHER)) as line:
            assert [r.entry_id for r in publish(line, OTHER, 3)] == [0, 1, 2]
        with Line(broker.port_of(TOPIC)) as line:
            opened(line, TOPIC)
            # So that what it reads first is as much as one read takes.
            broker.pause()
            saying = Thread(target=line.say, args=(LIES,))
            saying.start()
            saying.join(0.5)
            broker.resume()
            assert line.hear(pb.CommandSendError).error == pb.NotAllowedError
            saying.join()
        with Line(broker.port_of(TOPIC)) as line:
            places = {(r.ledger_id, r.entry_id) for r in publish(line, TOPIC, 3)}
        assert broker.complaints() == ""
        broker.restart()
        with Line(broker.port_of(TOPIC)) as line:
            again = {(r.ledger_id, r.entry_id) for r in publish(line, TOPIC, 3)}
            assert len(places | again) == 6
        with Line(broker.port_of(OTHER)) as line:
            assert [r.entry_id for r in publish(line, OTHER, 1)] == [3]
        assert broker.complaints() == ""
        broker.stop()
    assert broker.problems() == []
