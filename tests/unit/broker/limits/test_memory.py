"""MemoryLimit: the memory bound, and who waits when it is reached."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stage.frames import message
from stage.heard import answers, got
from stage.stage import Stage
from stage.talk import SHARED, produce, subscribe

from milepost.broker.limits.memory import MemoryLimit, memory_limit
from milepost.broker.settings.setting import KIB, MIB
from milepost.broker.settings.settings import Settings
from milepost.testing.peer import RecordingPeer

MakeStage = Callable[..., Stage]


@pytest.fixture
def stage(make_stage: MakeStage) -> Stage:
    """Half a mebibyte for what comes in, 256 KiB for what goes out (and a journal of 64 KiB)."""
    stage = make_stage()
    stage.broker.memory._unstored_size_max = 64 * KIB
    stage.broker.memory._unsent_size_max = 32 * KIB
    return stage


def test_memory_is_bounded_without_being_told() -> None:
    assert memory_limit(Settings(max_memory=512 * MIB)) == 512 * MIB
    assert 16 * MIB < memory_limit(Settings()) < 2**50


def test_bounds_are_parts_of_the_memory(make_stage: MakeStage) -> None:
    stage = make_stage(max_memory=400 * MIB, journal_size_max=8 * MIB)
    memory = stage.broker.memory
    assert memory._unsent_size_max == 200 * MIB
    assert memory._unstored_size_max == 100 * MIB
    # A checkpoint is begun at the journal's size: there must be room for what comes during it.
    stage = make_stage(max_memory=100 * MIB, journal_size_max=64 * MIB)
    assert stage.broker.memory._unstored_size_max == 128 * MIB


def test_whoever_sends_more_than_is_stored_waits_until_a_checkpoint(stage: Stage) -> None:
    client, idle = stage.client(), stage.client()
    produce(stage, client)
    for number in range(20):
        client.say(message(number, b"x" * 4096))
        stage.turn()
    assert stage.broker.memory.is_short
    assert not client.is_read
    assert idle.is_read
    assert stage.broker.counters.reads_paused == 1
    done = len(answers(client))
    assert done < 20  # the rest is in its socket
    stage.tick(1)
    assert not client.is_read
    stage.checkpoint()
    assert not stage.broker.memory.is_short
    stage.engine.told_of_checkpoints()  # as the engine does
    stage.turn()
    assert client.is_read
    assert done + len(answers(client)) == 20


def test_others_may_send_the_moment_it_is_over_for_them_too(stage: Stage) -> None:
    clients = [stage.client() for _ in range(2)]
    for number, client in enumerate(clients):
        produce(stage, client, name=f"p{number}")
    clients[0].say(*[message(number, b"x" * 4096) for number in range(20)])
    stage.turn()
    clients[1].say(message(0))
    stage.turn()
    assert [client.is_read for client in clients] == [False, False]
    stage.checkpoint()
    stage.tick(1)  # a tick is as good as the end of a checkpoint
    assert [client.is_read for client in clients] == [True, True]


def stalled(stage: Stage, count: int, size: int) -> list:  # type: ignore[type-arg]
    """Clients that do not read what they are sent, each with that many unsent bytes."""
    sender = stage.client()
    produce(stage, sender)
    clients = []
    for number in range(count):
        client = stage.client(write_buffer_size=1)
        subscribe(stage, client, f"s{number}", permits=100)
        client.reads = False
        clients.append(client)
    sender.say(message(0, b"x" * size))
    for client in clients:
        stage.clock.advance(1)
        stage.turn()
        client.session.unwritable_since = stage.clock.monotonic()
    return clients


def test_who_stalled_the_longest_goes_first_and_no_more_than_need_be(stage: Stage) -> None:
    clients = stalled(stage, 4, 10 * KIB)
    clients[0].session.unwritable_since = 99.0  # the last one to stall
    stage.broker.memory.end_stalled()
    stage.turn()
    assert [client.is_lost for client in clients] == [False, True, False, False]
    assert stage.broker.counters.connections_closed == {"stalled": 1}
    stage.broker.memory.end_stalled()
    assert stage.broker.counters.connections_closed == {"stalled": 1}


def test_those_who_read_are_not_asked(stage: Stage) -> None:
    clients = stalled(stage, 2, 10 * KIB)
    stage.tick(1)
    assert not any(client.is_lost for client in clients)


def test_what_a_stalled_client_held_is_for_others(stage: Stage) -> None:
    (client,) = stalled(stage, 1, 40 * KIB)
    stage.tick(1)
    assert client.is_lost
    other = stage.client()
    subscribe(stage, other, "s0", SHARED, permits=10)
    assert len(got(other)) == 1


def test_those_that_stalled_first_are_ended_whatever_kind_of_peer_they_are(stage: Stage) -> None:
    """The bound needs no session: three peers wait with 16 KiB each, and there is room for two."""
    peers = [RecordingPeer(str(number)) for number in range(4)]
    for number, peer in enumerate(peers):
        peer.is_writable = number == 3
        peer.unwritable_since = 10.0 - number
        peer.unread_size = 16 * KIB
    memory = MemoryLimit(stage.broker.settings, stage.broker.store, peers, stage.broker.counters)
    memory._unsent_size_max = 32 * KIB
    memory.end_stalled()
    assert [bool(peer.failures) for peer in peers] == [False, False, True, False]
    memory.resume_reading()
    assert [peer.resumes for peer in peers] == [1, 1, 1, 1]


# -- publishes under way -----------------------------------------------------------------------------


def test_on_a_bucket_a_connection_is_read_on_while_few_publishes_are_under_way_in_all(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(max_pending_publish_requests_per_connection=2)
    stage.broker.memory._pending_free = 8
    client, other = stage.client(), stage.client()
    produce(stage, client)
    produce(stage, other, name="q")
    stage.engine.holds_journal = True
    for number in range(7):
        client.say(message(number))
    assert client.is_read, "more than one connection may have on a disk"
    other.say(message(0))
    assert other.is_read, "it has few itself"
    assert stage.broker.memory.pending_publishes == 8
    client.say(message(7))
    assert not client.is_read
    client.session.settled(4)
    assert not client.is_read, "half must be free"
    client.session.settled(2)
    assert client.is_read


def test_publishes_of_a_connection_that_is_gone_are_not_under_way_for_ever(
    make_stage: MakeStage,
) -> None:
    stage = make_stage()
    client = stage.client()
    produce(stage, client)
    stage.engine.holds_journal = True
    for number in range(5):
        client.say(message(number))
    client.hang_up()
    assert stage.broker.memory.pending_publishes == 5
    stage.engine.holds_journal = False
    stage.turn()
    assert stage.broker.memory.pending_publishes == 0


def test_only_a_bucket_lets_more_publishes_be_under_way(make_stage: MakeStage) -> None:
    broker = make_stage().broker
    alike = (broker.store, broker.sessions, broker.counters)
    assert MemoryLimit(Settings(), *alike).has_too_many(1000, 1000)
    assert not MemoryLimit(Settings(bucket="file:///b"), *alike).has_too_many(1000, 1000)
