"""Commands that need what is on disk only: they wait, in order, and the loop serves everybody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from stage.frames import chunk, frame_of, message, metadata
from stage.http import Request as HttpRequest
from stage.http import call
from stage.stage import TOPIC, Stage
from stage.talk import (
    ack_command,
    ask,
    flow,
    produce,
    producer_command,
    seek_command,
    subscribe,
    subscribe_command,
    wire_id,
)

from milepost.broker.broker import Broker
from milepost.broker.settings.settings import Settings
from milepost.broker.topic.topic import Topic
from milepost.clock import SystemClock
from milepost.positions.names import TopicName
from milepost.rest.app import create_app
from milepost.storage.engine import StorageEngine, open_store
from milepost.storage.files import Files
from milepost.storage.header import HEADER_SIZE
from milepost.storage.ledgers.heads import HEAD_SIZE
from milepost.storage.ledgers.ledger import ledger_path
from milepost.storage.ledgers.paging import LoopFiles
from milepost.testing.peer import Loopback
from milepost.wire import protocol
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.replies import reply
from milepost.wire.scanners import long_command

MakeStage = Callable[..., Stage]

CHUNKS = 300
ADMIN = "/admin/v2/persistent/public/default"
PADDING = b"x" * 2 * HEAD_SIZE
# A read that waits so long for pings has waited in vain.
WAIT_S = 5


@pytest.fixture
def stage(make_stage: MakeStage) -> Stage:
    """A restarted broker with a chunked message on disk, and nothing of it in memory; whoever reads the
    disk on the loop fails."""
    stage = make_stage(tail_size=0, ledger_entries_max=10 * CHUNKS)
    stage.subscription(stage.topic())
    producer = stage.producer(stage.topic())
    frames = [large_chunk(number) for number in range(CHUNKS)]
    for first in range(0, CHUNKS, 50):
        stage.publish(producer, *frames[first : first + 50])
    stage.publish(producer, message(2), chunk(3, 0, 3), message(4))
    stage = stage.restarted(checkpoint=True)
    stage.topic()
    stage.engine.holds_reads = True
    return stage


def large_chunk(number: int) -> bytes:
    meta = metadata(1, uuid="p-1", chunk_id=number, num_chunks_from_msg=CHUNKS)
    meta.total_chunk_msg_size = CHUNKS * len(PADDING)
    return frame_of(meta, PADDING, is_chunk=True)


def last_chunk(stage: Stage) -> pb.MessageIdData:
    return wire_id(stage.topic().log.ledgers[0].ledger_id, CHUNKS - 1)


def let_go(stage: Stage) -> None:
    stage.engine.holds_reads = False
    stage.turn()


def kinds(client: Any) -> list[str]:
    return [type(one).__name__.removeprefix("Command") for one in client.take()]


def consuming(stage: Stage, **fields: Any) -> Any:
    client = stage.client()
    subscribe(stage, client, **fields)
    client.take()
    return client


def acked(stage: Stage) -> int:
    return stage.topic().subscriptions["s"].cursor.counts().acked


def test_an_ack_waits_and_what_comes_behind_it_too(stage: Stage) -> None:
    client = consuming(stage)
    other = stage.client()
    ask(client, ack_command(last_chunk(stage), request_id=0))
    ask(client, ack_command(wire_id(last_chunk(stage).ledgerId, CHUNKS), request_id=0))
    ask(client, pb.CommandCloseConsumer(consumer_id=0, request_id=0))
    stage.turn()
    assert (kinds(client), acked(stage)) == ([], 0)
    produce(stage, other, name="q")
    other.take()
    other.say(message(9))
    stage.turn()
    assert kinds(other) == ["Receipt"]
    let_go(stage)
    assert kinds(client) == ["AckResponse", "AckResponse", "Success"]
    assert acked(stage) == CHUNKS + 1
    assert stage.broker.counters.acks == 2


def test_what_was_wrong_with_a_part_is_answered_behind_a_part_that_waits(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("IDS_MAX", "SIZE_MIN"):
        monkeypatch.setattr(long_command, name, 2)
    monkeypatch.setattr(protocol, "LONG_SIZE_MIN", 2)
    client, last = consuming(stage), last_chunk(stage)
    wrong = [wire_id(last.ledgerId, 10**6 + number) for number in range(2)]
    ask(client, ack_command(*wrong, last, request_id=0))
    stage.turn()
    assert (kinds(client), acked(stage)) == ([], 0)
    let_go(stage)
    (answer,) = client.take()
    assert answer.error == pb.ServerError.MetadataError
    assert "holds no entry" in answer.message
    assert acked(stage) == CHUNKS


def test_a_seek_behind_an_ack_that_waits_is_not_undone_by_it(stage: Stage) -> None:
    client = consuming(stage)
    ask(client, ack_command(last_chunk(stage), request_id=0))
    ask(client, seek_command(last_chunk(stage)))
    let_go(stage)
    heard = kinds(client)
    assert heard.index("AckResponse") < heard.index("Success")
    assert acked(stage) == 0
    assert stage.topic().subscriptions["s"].cursor.epoch == 1


def test_a_seek_by_an_operator_while_an_ack_waits_is_final(stage: Stage) -> None:
    """The ack comes after it then, and is judged by the epoch of what it names."""
    client = consuming(stage, sub_type=pb.CommandSubscribe.Shared)
    flow(stage, client, 1000)
    let_go(stage)
    client.take()
    stage.topic().chunked._wholes.clear()
    stage.engine.holds_reads = True
    ask(client, ack_command(last_chunk(stage), request_id=0))
    stage.turn()
    stage.seek(stage.topic().subscriptions["s"], 0)
    let_go(stage)
    assert acked(stage) == 0


def test_a_client_that_hangs_up_is_heard_to_the_end(stage: Stage) -> None:
    client = consuming(stage)
    ask(client, ack_command(last_chunk(stage), request_id=0))
    stage.turn()
    client.hang_up()
    stage.turn()
    assert stage.topic().subscriptions["s"].consumers
    let_go(stage)
    assert acked(stage) == CHUNKS
    assert not stage.topic().subscriptions["s"].consumers
    assert client.session not in stage.broker.sessions


def test_a_broker_that_stops_hears_it_without_waiting(stage: Stage) -> None:
    client = consuming(stage)
    ask(client, ack_command(last_chunk(stage), request_id=0))
    stage.turn()
    client.session.hear_all()
    assert acked(stage) == CHUNKS
    let_go(stage)
    assert kinds(client) == ["AckResponse"]


def test_a_chunk_that_goes_on_waits_and_keeps_its_place(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client, name="p")
    client.take()
    client.say(message(5), chunk(3, 1, 3), message(6))
    stage.turn()
    assert (kinds(client), client.is_read) == ([], False)
    let_go(stage)
    assert [one for one in kinds(client) if one == "Receipt"]
    log = stage.topic().log
    assert log.end_index == CHUNKS + 6
    client.say(chunk(3, 2, 3))
    stage.turn()
    last = log.locate(CHUNKS + 6).position
    assert stage.topic().chunk_indexes(*last) == (CHUNKS + 1, CHUNKS + 4, CHUNKS + 6)


def test_a_duplicate_chunk_whose_place_is_on_disk_undoes_nothing_before_it(
    make_stage: MakeStage,
) -> None:
    """Its receipt names its place, which has to be read. The chunk before it, in the same bytes, has been
    given an index by then, and heard again it would be refused as one that is on its way."""
    stage = make_stage(tail_size=0, ledger_entries_max=2)
    producer = stage.producer(stage.topic())
    stage.publish(producer, chunk(3, 0, 3), chunk(3, 1, 3))
    stage = stage.restarted(checkpoint=True)
    client = stage.client()
    produce(stage, client, name="p")
    client.say(chunk(3, 1, 3), chunk(8, 0, 3))
    stage.turn()
    assert kinds(client)[-2:] == ["Receipt", "Receipt"]
    stage.topic().log.ledgers[0]._mileposts = None  # of the first ledger nothing is in memory
    stage.engine.loop_files._blocks.clear()
    client.say(chunk(8, 1, 3), chunk(3, 1, 3))
    stage.turn()
    heard = client.take()
    assert [type(one).__name__ for one in heard] == ["Receipt", "Receipt"], heard
    assert (heard[1].ledger_id, heard[1].entry_id) == (1, 1)


def test_no_payload_is_read_for_it(stage: Stage) -> None:
    path = ledger_path(stage.topic().log.ledgers[0].ledger_id)
    sizes: list[int] = []
    real = stage.files.read

    def read(name: str, offset: int, size: int) -> bytes:
        if name == path:
            sizes.append(size)
        return real(name, offset, size)

    stage.files.read = read  # type: ignore[method-assign]
    client = consuming(stage)
    ask(client, ack_command(last_chunk(stage), request_id=0))
    let_go(stage)
    assert acked(stage) == CHUNKS
    assert len(sizes) <= CHUNKS + CHUNKS // 2
    assert max(sizes) <= HEAD_SIZE


def test_an_ack_of_what_is_damaged_is_refused(stage: Stage) -> None:
    client = consuming(stage)
    ledger = stage.topic().log.ledgers[0]
    stage.files.faults.fail("read", error=5, under=ledger_path(ledger.ledger_id), forever=True)
    ask(client, ack_command(last_chunk(stage), request_id=0))
    let_go(stage)
    (refused,) = client.take()
    assert refused.error == pb.PersistenceError
    assert "Input/output error" in refused.message
    assert (acked(stage), client.is_read) == (0, True)
    assert stage.broker.counters.acks == 1


def test_a_chunk_goes_on_beside_one_that_is_damaged(stage: Stage) -> None:
    ledger_id = stage.topic().log.ledgers[0].ledger_id
    path = ledger_path(ledger_id)
    content = bytearray(stage.files.contents()[path])
    content[HEADER_SIZE + 8 : HEADER_SIZE + 16] = b"damaged!"  # the first entry's ledger id
    stage.files.damage(path, bytes(content))
    client = stage.client()
    produce(stage, client, name="p")
    client.say(chunk(3, 1, 3), chunk(3, 2, 3))
    let_go(stage)
    log = stage.topic().log
    assert stage.topic().chunk_indexes(*log.locate(CHUNKS + 4).position) == (
        CHUNKS + 1,
        CHUNKS + 3,
        CHUNKS + 4,
    )


def test_a_producer_is_closed_when_its_chunks_cannot_be_looked_for(stage: Stage) -> None:
    """It sends them again; stored without what came before, they would be no message."""
    ledger_id = stage.topic().log.ledgers[0].ledger_id
    end_index = stage.topic().log.end_index
    stage.files.faults.fail("read", under=ledger_path(ledger_id), forever=True)
    client = stage.client()
    produce(stage, client, name="p")
    client.say(chunk(3, 1, 3))
    let_go(stage)
    assert client.is_closing
    assert stage.topic().log.end_index == end_index


def test_nothing_behind_chunks_that_cannot_be_looked_for_is_stored(stage: Stage) -> None:
    """The client sends all of it again, in order. With deduplication the message would be stored already, and
    the chunks before it dropped as old."""
    ledger_id = stage.topic().log.ledgers[0].ledger_id
    end_index = stage.topic().log.end_index
    stage.files.faults.fail("read", under=ledger_path(ledger_id), forever=True)
    client = stage.client()
    produce(stage, client, name="p")
    client.say(chunk(3, 1, 3) + reply(pb.CommandFlow(consumer_id=7, messagePermits=1)) + message(6))
    let_go(stage)
    assert client.is_closing
    assert stage.topic().log.end_index == end_index


def test_a_subscription_that_starts_long_ago_waits(stage: Stage) -> None:
    client = stage.client()
    ask(
        client,
        pb.CommandSubscribe(
            topic=TOPIC,
            subscription="new",
            subType=pb.CommandSubscribe.Shared,
            consumer_id=7,
            request_id=0,
            start_message_rollback_duration_sec=10**6,
        ),
    )
    let_go(stage)
    assert "Success" in kinds(client)


def test_a_slow_disk_keeps_no_ping_waiting(tmp_path: Path) -> None:
    """After a restart, on a disk whose reads take as long as two pings. A loop that read by itself would
    answer none."""
    asyncio.run(_acks_beside_pings(tmp_path / "data"))


# What an operator asks, of topics of which nothing is in memory.
NUMBERS = [
    ("GET", "/metrics"),
    ("GET", "/milepost/v1/progress"),
    ("GET", "/admin/v2/broker-stats/topics"),
    ("GET", "/admin/v2/broker-stats/metrics"),
    ("GET", f"{ADMIN}/t0/stats?getEarliestTimeInBacklog=true"),
    ("GET", f"{ADMIN}/t0/internalStats"),
    ("GET", f"{ADMIN}/t0/backlog"),
    ("GET", f"{ADMIN}/t0/lastMessageId"),
    ("GET", f"{ADMIN}/t0/messageid/1"),
    ("GET", f"{ADMIN}/t0/getMessageIdByIndex?index=3"),
    ("GET", f"{ADMIN}/t0/examinemessage?initialPosition=earliest&messagePosition=2"),
    ("GET", f"{ADMIN}/t0/subscription/s/position/2"),
    ("POST", f"{ADMIN}/t0/subscription/s/analyzeBacklog"),
    ("POST", f"{ADMIN}/t0/trim"),
    ("POST", f"{ADMIN}/t0/subscription/s/skip/2"),
    ("POST", f"{ADMIN}/t0/subscription/s/expireMessages/3600"),
    ("POST", f"{ADMIN}/t0/all_subscription/expireMessages/3600"),
]


def test_a_slow_disk_keeps_no_ping_waiting_for_numbers(tmp_path: Path) -> None:
    """Stats, metrics, progress, skips, trims and last ids, each asked when nothing of what lies where is in
    memory. A loop that read by itself would answer no ping."""
    asyncio.run(_numbers_beside_pings(tmp_path / "data"))


async def _numbers_beside_pings(data: Path) -> None:
    names = [TopicName.parse(f"persistent://public/default/t{number}") for number in range(4)]
    async with _served(data, Answered()) as broker:
        for name in names:
            client = Loopback(broker)
            topic = await broker.topic(name)
            await broker.create_subscription(topic, "s", 0)
            ask(client, producer_command(topic=str(name)))
            await _until(lambda topic=topic: topic.producers)  # type: ignore[misc]
            for sequence_id in range(20):
                client.say(message(sequence_id))
            await _until(lambda topic=topic: topic.log.end_index == 20)  # type: ignore[misc]
            topic.subscriptions["s"].skip(1)
        await broker.engine.flush()
    answered = Answered()
    async with _served(data, answered) as broker:
        app = create_app(broker)
        topics = [await broker.topic(name) for name in names]
        pings = asyncio.ensure_future(_ping(Loopback(broker), answered))
        client = Loopback(broker)
        ask(client, subscribe_command(topic=str(names[0])))
        await _until(lambda: topics[0].subscriptions["s"].consumers)
        files = broker.engine.loop_files
        for method, target in NUMBERS:
            _forget(topics, files)
            before = files.real.reads
            answer = await call(app, HttpRequest(method, target))
            assert answer.status in (200, 204), (target, answer)
            assert files.reads == 0, target
            if "trim" not in target and "broker-stats/metrics" not in target:
                assert files.real.reads > before, f"{target}: everything was in memory"
        _forget(topics, files)
        before = files.real.reads
        ask(client, pb.CommandGetLastMessageId(consumer_id=0, request_id=7))
        heard: list[str] = []
        await _until(lambda: heard.extend(kinds(client)) or "GetLastMessageIdResponse" in heard)
        assert (files.reads, files.real.reads > before) == (0, True)
        await _stopped(pings)
        assert answered.late == []


def _forget(topics: list[Topic], files: LoopFiles) -> None:
    """Forget what lies where, as if the broker had just started."""
    files._blocks.clear()
    for topic in topics:
        for ledger in topic.log.ledgers:
            assert ledger.entries == ledger.stored.entries
            ledger._mileposts = None if ledger.entries else ledger._mileposts


class Answered:
    """How many pings were answered; reads wait for it while some are asked."""

    def __init__(self) -> None:
        self.late: list[str] = []
        """Files that were read without a ping being answered meanwhile."""
        self.is_asked = False
        self._count = 0
        self._more = threading.Condition()

    def one(self) -> None:
        with self._more:
            self._count += 1
            self._more.notify_all()

    def wait_for_two(self, path: str) -> None:
        with self._more:
            enough = self._count + 2
            if self.is_asked and not self._more.wait_for(
                lambda: self._count >= enough or not self.is_asked, WAIT_S
            ):
                self.late.append(path)


class SlowReads:
    """Files whose reads take as long as two pings each; all else is as fast as theirs."""

    def __init__(self, files: Files, answered: Answered) -> None:
        self.reads = 0
        self._files = files
        self._answered = answered

    def read(self, path: str, offset: int, size: int) -> bytes:
        self.reads += 1
        self._answered.wait_for_two(path)
        return self._files.read(path, offset, size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


@asynccontextmanager
async def _served(data: Path, answered: Answered) -> AsyncIterator[Broker]:
    clock = SystemClock()
    store, lock = open_store(data, clock, tail_size_max=0)
    store.files = SlowReads(store.files, answered)
    broker = Broker(Settings(data=data), StorageEngine(store, lock), clock)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.close()


async def _acks_beside_pings(data: Path) -> None:
    """A chunked message is acked, gone on with, and sought."""
    async with _served(data, Answered()) as broker:
        topic = await broker.topic(TopicName.parse(TOPIC))
        await broker.create_subscription(topic, "s", 0)
        client = Loopback(broker)
        ask(client, producer_command())
        await _until(lambda: topic.producers)
        for number in range(30):
            client.say(chunk(1, number, 30))
        client.say(chunk(2, 0, 3))
        await _until(lambda: topic.log.end_index == 31)
    answered = Answered()
    async with _served(data, answered) as broker:
        pings = asyncio.ensure_future(_ping(Loopback(broker), answered))
        client = Loopback(broker)
        ask(client, subscribe_command())
        ask(client, producer_command())
        again = await broker.topic(TopicName.parse(TOPIC))
        await _until(lambda: again.producers and again.subscriptions["s"].consumers)
        last = wire_id(again.log.ledgers[0].ledger_id, 29)
        cursor = again.subscriptions["s"].cursor
        ask(client, ack_command(last, request_id=0))
        await _until(lambda: cursor.counts().acked == 30)
        client.say(chunk(2, 1, 3))
        await _until(lambda: again.log.end_index == 32)
        ask(client, seek_command(last))
        await _until(lambda: cursor.epoch == 1)
        await _stopped(pings)
        assert answered.late == []
        files = broker.engine.loop_files
        assert (files.reads, files.real.reads > 30) == (0, True)


async def _ping(client: Loopback, answered: Answered) -> None:
    answered.is_asked = True
    try:
        while True:
            client._protocol.heard = False
            client.say(pb.CommandPing())
            while not client._protocol.heard:  # PONG is no event
                await asyncio.sleep(0)
            answered.one()
            await asyncio.sleep(0.002)  # sleep: the pace of pings
    finally:
        answered.is_asked = False


async def _stopped(pings: asyncio.Future[None]) -> None:
    pings.cancel()
    await asyncio.wait([pings])
    assert pings.cancelled()  # it went on until now


async def _until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.005)  # sleep: looks again, up to a deadline
