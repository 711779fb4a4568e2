"""Presence: who came and who left is a line of the log each, with its fields."""

from __future__ import annotations

import logging

import pytest
from stage.frames import message
from stage.stage import TOPIC, Stage
from stage.talk import flow, produce, subscribe

from milepost.broker.monitoring import connection_log
from milepost.wire import pulsar_pb2 as pb

LOGGER = connection_log.logger.name


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, object]]]:
    standard = {*vars(logging.makeLogRecord({})), "message", "asctime"}
    return [
        (
            record.getMessage(),
            {name: value for name, value in vars(record).items() if name not in standard},
        )
        for record in caplog.records
        if record.name == LOGGER
    ]


def test_a_connection_is_told_from_its_handshake_to_its_end(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        stage.client(handshake=False).hang_up()
        client = stage.client()
        client.hang_up()
        stage.turn()
    (came, fields), (went, last) = lines(caplog)
    assert (came, went) == ("client connected", "client disconnected")
    assert fields["client"] == last["client"] == client.session.address
    assert fields["software"]
    assert last["by"] == "client"


def test_producers_and_consumers_come_and_go(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.publish(stage.producer(stage.topic()), *map(message, range(3)))
    client = stage.client()
    with caplog.at_level(logging.INFO, LOGGER):
        produce(stage, client, 0, "till")
        subscribe(stage, client, initialPosition=pb.CommandSubscribe.Earliest)
        flow(stage, client, 2)
        client.hang_up()
        stage.turn()
    told = dict(lines(caplog))
    assert told["producer came"] == {
        "client": client.session.address,
        "topic": TOPIC,
        "producer": "till",
    }
    assert told["consumer came"]["topic"] == TOPIC
    assert told["producer left"]["messages"] == 0
    left = told["consumer left"]
    assert (left["subscription"], left["acked"]) == (told["consumer came"]["subscription"], 0)
    assert left["sent"] == left["held"] == 2
    assert all(
        isinstance(value, str | int) for fields in told.values() for value in fields.values()
    )


def test_nothing_is_put_together_that_nobody_reads(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, LOGGER):
        stage.client().hang_up()
    assert lines(caplog) == []
