"""Every number that a client can set, at every edge: answered or refused, and the broker is sound.

One stage for each field. After each value somebody else publishes and is served; after all of them the
process dies, and what it left behind opens again and takes more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor
from stage.frames import batch, chunk, message, metadata
from stage.stage import Stage
from stage.talk import SHARED, minimal, produce, subscribe, wire_id

from edges.numbers import EDGES, Path, frame, name_of, number_fields, send_frame, with_number
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import FROM_CLIENT, Kind
from milepost.wire.events import Delivery, Receipt
from milepost.wire.frames import crc32c

TOPIC = "persistent://public/default/t"
NEIGHBOUR = "persistent://public/default/neighbour"
LEDGER, ENTRY = 1, 2


class Scene:
    """A topic with a plain message, a batch and a chunked message; a liar, and a neighbour."""

    def __init__(self) -> None:
        self.stage = Stage()
        self._furnish()

    def _furnish(self) -> None:
        self.neighbour = self._client(NEIGHBOUR)
        self.sent = 0
        self.liar = self._client(TOPIC)
        for one in (message(0), batch(1, 3), chunk(2, 0, 2), chunk(2, 1, 2)):
            self.liar.say(one)
        self.stage.turn()

    def _client(self, topic: str) -> Loopback:
        client = self.stage.client()
        produce(self.stage, client, topic=topic, name=f"p-{topic}")
        subscribe(self.stage, client, sub_type=SHARED, permits=1000, topic=topic)
        return client

    def say(self, data: bytes) -> list[Any]:
        """Let the liar say it; a connection that is ended for it is replaced."""
        self.liar.say(data)
        self.stage.turn()
        heard = self.liar.take()
        if self.liar.is_closing:
            self.liar.hang_up()
            self.stage.turn()
            self.liar = self._client(TOPIC)
        return heard

    def neighbour_is_served(self) -> None:
        self.sent += 1
        self.neighbour.take()
        self.neighbour.say(message(self.sent))
        self.stage.turn()
        kinds = {type(one) for one in self.neighbour.take()}
        assert {Receipt, Delivery} <= kinds, kinds

    def restarted(self) -> None:
        self.stage = self.stage.restarted()
        for name in (TOPIC, NEIGHBOUR):
            topic = self.stage.topic(name)
            assert topic.log.damage is None
        self._furnish()
        self.neighbour_is_served()


def commands() -> dict[Descriptor, Any]:
    """A command of each kind that a client may say, about things that are there."""
    found: dict[Descriptor, Any] = {}
    for kind in FROM_CLIENT - {Kind.SEND, Kind.CONNECT, Kind.PING, Kind.PONG}:
        field = pb.BaseCommand.DESCRIPTOR.fields_by_number[kind]
        made = field.message_type._concrete_class()
        if kind not in (Kind.ACK, Kind.FLOW):
            made = minimal(kind)
        found[field.message_type] = made
    ours = pb.DESCRIPTOR.message_types_by_name
    here = wire_id(LEDGER, ENTRY)
    found[ours["CommandAck"]] = pb.CommandAck(
        consumer_id=0, ack_type=pb.CommandAck.Individual, message_id=[here], request_id=5
    )
    found[ours["CommandFlow"]] = pb.CommandFlow(consumer_id=0, messagePermits=1)
    found[ours["CommandSeek"]] = pb.CommandSeek(consumer_id=0, request_id=5, message_id=here)
    found[ours["CommandRedeliverUnacknowledgedMessages"]] = (
        pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0, message_ids=[here])
    )
    found[ours["CommandSubscribe"]] = pb.CommandSubscribe(
        topic=TOPIC,
        subscription="t",
        subType=pb.CommandSubscribe.Key_Shared,
        consumer_id=7,
        request_id=5,
        start_message_id=here,
        keySharedMeta=pb.KeySharedMeta(
            keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=0, end=65535)]
        ),
    )
    found[ours["CommandProducer"]] = pb.CommandProducer(
        topic=TOPIC, producer_id=7, request_id=5, producer_name="q"
    )
    return found


COMMANDS = commands()
FIELDS = [(kind, path) for kind in COMMANDS for path in number_fields(kind)]


def is_refused_in_our_words(heard: list[Any]) -> None:
    for one in heard:
        text = str(getattr(one, "message", "")) + str(getattr(one, "error_message", ""))
        assert "internal error" not in text, one


@pytest.fixture(autouse=True)
def nothing_unexpected(caplog: pytest.LogCaptureFixture) -> Any:
    yield
    bad = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert not bad, [one.getMessage() for one in bad]


def try_all(say: Callable[[Scene, int], list[Any]]) -> None:
    scene = Scene()
    try:
        for value in EDGES:
            is_refused_in_our_words(say(scene, value))
            scene.neighbour_is_served()
        scene.stage.tick(3)
        scene.restarted()
    finally:
        scene.stage.close()


@pytest.mark.parametrize(
    ("kind", "path"), FIELDS, ids=[f"{kind.name}.{name_of(path)}" for kind, path in FIELDS]
)
def test_a_number_of_a_command(kind: Descriptor, path: Path) -> None:
    try_all(lambda scene, value: scene.say(frame(kind, with_number(COMMANDS[kind], path, value))))


def test_what_is_tried_is_what_there_is() -> None:
    """The walk over the declaration finds numbers at every depth."""
    names = {f"{kind.name}.{name_of(path)}" for kind, path in FIELDS}
    assert "CommandAck.message_id.ack_set" in names
    assert "CommandSubscribe.keySharedMeta.hashRanges.end" in names
    assert "CommandSeek.message_id.first_chunk_message_id.entryId" in names
    assert len(names) > 140


SEND_FIELDS = list(number_fields(pb.CommandSend.DESCRIPTOR))


@pytest.mark.parametrize("path", SEND_FIELDS, ids=map(name_of, SEND_FIELDS))
def test_a_number_of_a_send(path: Path) -> None:
    def say(scene: Scene, value: int) -> list[Any]:
        command = pb.CommandSend(producer_id=0, sequence_id=9)
        return scene.say(send_frame(with_number(command, path, value), entry(metadata(9))))

    try_all(say)


def entry(meta: pb.MessageMetadata | bytes, payload: bytes = b"9") -> bytes:
    data = meta if isinstance(meta, bytes) else meta.SerializeToString()
    body = len(data).to_bytes(4, "big") + data + payload
    return b"\x0e\x01" + crc32c(body).to_bytes(4, "big") + body


SHAPES: dict[str, tuple[dict[str, Any], bytes]] = {
    "plain": ({}, b"9"),
    "batch": ({"num_messages_in_batch": 1}, b"\0\0\0\x02\x18\0"),
    "compressed": (
        {"num_messages_in_batch": 1, "compression": pb.ZSTD, "uncompressed_size": 2**32 - 1},
        b"z" * 40,
    ),
    "chunk": (
        {"uuid": "u", "num_chunks_from_msg": 2, "chunk_id": 0, "total_chunk_msg_size": 20},
        b"9",
    ),
    "delayed": ({"deliver_at_time": 1}, b"9"),
}
METADATA_FIELDS = list(number_fields(pb.MessageMetadata.DESCRIPTOR))


@pytest.mark.parametrize("path", METADATA_FIELDS, ids=map(name_of, METADATA_FIELDS))
def test_a_number_of_a_message(path: Path) -> None:
    def say(scene: Scene, value: int) -> list[Any]:
        heard = []
        command = pb.CommandSend(producer_id=0, sequence_id=9).SerializeToString()
        for fields, payload in SHAPES.values():
            data = with_number(metadata(9, **fields), path, value)
            heard += scene.say(send_frame(command, entry(data, payload)))
        return heard

    try_all(say)
