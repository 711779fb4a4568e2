"""GET_MESSAGE_ID_BY_INDEX, and SEEK by index: the dense index on the wire."""

from __future__ import annotations

from typing import Any

import pytest
from stage.frames import batch, chunk, message
from stage.heard import got
from stage.stage import TOPIC, Stage
from stage.talk import error_of, flow, produce, request, subscribe

from milepost.wire import pulsar_pb2 as pb


def asked(stage: Stage, client: Any, index: int) -> Any:
    return request(
        stage, client, pb.CommandGetMessageIdByIndex(request_id=0, topic=TOPIC, index=index)
    )


@pytest.fixture
def client(stage: Stage) -> Any:
    """Index 0 at 1:0, a batch of three at 1:1, a chunked message at 1:2 and 1:3."""
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, consumer_epoch=0)
    client.say(message(0), batch(1, 3), chunk(4, 0, 2), chunk(4, 1, 2))
    stage.turn()
    client.take()
    return client


def test_every_index_has_its_id(stage: Stage, client: Any) -> None:
    found = [asked(stage, client, index).message_id for index in range(6)]
    assert [(one.ledgerId, one.entryId, one.batch_index, one.batch_size) for one in found] == [
        (1, 0, -1, 0),
        (1, 1, 0, 3),
        (1, 1, 1, 3),
        (1, 1, 2, 3),
        (1, 2, -1, 0),
        (1, 3, -1, 0),
    ]
    assert found[5].first_chunk_message_id.entryId == 2
    assert not found[4].HasField("first_chunk_message_id")


@pytest.mark.parametrize("index", [6, 2**64 - 1])
def test_what_is_not_there_is_refused(stage: Stage, client: Any, index: int) -> None:
    assert error_of(asked(stage, client, index)) == "MetadataError"


@pytest.mark.parametrize(
    ("index", "first"), [(0, "0"), (2, "1.1"), (4, "4/0"), (5, "4/0"), (6, None)]
)
def test_a_seek_goes_to_the_index(stage: Stage, client: Any, index: int, first: str | None) -> None:
    seek = pb.CommandSeek(consumer_id=0, request_id=0, consumer_epoch=1, index=index)
    assert error_of(request(stage, client, seek)) == ""
    flow(stage, client, 100)
    assert got(client)[:1] == ([] if first is None else [first])


@pytest.mark.parametrize("index", [7, 2**64 - 1])
def test_a_seek_behind_the_end_is_refused(stage: Stage, client: Any, index: int) -> None:
    seek = pb.CommandSeek(consumer_id=0, request_id=0, consumer_epoch=1, index=index)
    assert error_of(request(stage, client, seek)) == "MetadataError"


def test_a_stale_seek_by_index_is_no_echo(stage: Stage, client: Any) -> None:
    """A seek without a target says that a reset was obeyed; an index is a target."""
    seek = pb.CommandSeek(consumer_id=0, request_id=0, consumer_epoch=0, index=1)
    assert error_of(request(stage, client, seek)) == "NotAllowedError"
