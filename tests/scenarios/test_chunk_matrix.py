"""A chunked message with everything else: each cell of a matrix is one life of one message.

    subscription type × how far its consumer can be sent to × what happens × when × what lies before it

Limits smaller than the message, and whether entries come from memory or from the disk, take turns over the
cells. In every cell the same is judged, by a client that believes nothing (`stage/assembly.py`): the message
is delivered whole, to one consumer, in order, or not at all; its ack covers every chunk; permits are what
frames took; and when everything is well again the subscription drains and its numbers add up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import pytest
from stage.assembly import Assembler
from stage.frames import batch, chunk, message
from stage.stage import Stage

from milepost.broker.dispatch.dispatchers import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED, TYPE_NAMES
from milepost.broker.dispatch.key_shared import KeySharedAssignment
from milepost.broker.operations import skipping
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.testing.peer import RecordingPeer

CHUNKS: Final = 4
KEY: Final = "k"
CHUNKED: Final = "p-1"

# What the first consumer can be sent.
ROOMS: Final = {
    "wide": {"permits": 100},
    "one permit": {"permits": 1},
    "deaf after one": {"permits": 100, "writes_max": 1},
    "deaf after three": {"permits": 100, "writes_max": 3},
    "no permits": {"permits": 0},
}

# Of these `make check` tries every event; of the others `make test` does too.
OFTEN: Final = ("wide", "deaf after one")

# Limits of unacked messages, of which all but the first are smaller than the message.
LIMITS: Final = [
    {},
    {"max_unacked_messages_per_consumer": 2},
    {"max_unacked_messages_per_subscription": 3},
]


class Cell(NamedTuple):
    sub_type: int
    room: str
    event: str
    is_whole: bool
    """Does it happen when the last chunk is there, or before?"""
    has_batch: bool
    """Does a batch lie before it, in the same read?"""

    def __str__(self) -> str:
        when = "whole" if self.is_whole else "unfinished"
        before = "batch" if self.has_batch else "nothing"
        return f"{TYPE_NAMES[self.sub_type]}-{self.room}-{self.event}-{when}-{before}"


def other_owner() -> str:
    """The name of a consumer that takes the message's slot from one called `a`."""
    for number in itertools.count():
        assignment = KeySharedAssignment()
        assignment.join(1, "a")
        assignment.join(2, f"b{number}")
        if assignment.owner_of(assignment.slot_of(KEY.encode())) == 2:
            return f"b{number}"
    raise AssertionError


OTHER: Final = other_owner()


class Life:
    """One cell as it goes on."""

    def __init__(self, cell: Cell, stage: Stage) -> None:
        self.cell = cell
        self.stage = stage
        self.topic: Topic = stage.topic()
        self.subscription: Subscription = stage.subscription(self.topic)
        self.clients: list[Assembler] = []
        self.gone: list[Assembler] = []
        """Clients whose session has ended, or began anew."""
        self.skipped_end = 0
        """What lies below was declared done, or sought past."""

    # -- who is there ------------------------------------------------------------------------------

    def join(self, name: str, permits: int = 0, writes_max: int | None = None) -> Assembler:
        consumer = self.stage.consumer(
            self.subscription,
            self.cell.sub_type,
            name=name,
            peer=RecordingPeer(name, writes_max=writes_max),
        )
        client = Assembler(consumer)
        self.clients.append(client)
        if permits:
            client.flow(self.stage, permits)
        client.hear()
        return client

    def hear(self) -> None:
        for client in self.clients:
            client.hear()

    def closed(self, client: Assembler) -> None:
        client.hear()
        self.clients.remove(client)
        self.gone.append(client)

    # -- the message -------------------------------------------------------------------------------

    def publish_all_but_the_end(self) -> None:
        before = [batch(0, 3)] if self.cell.has_batch else []
        producer = self.stage.producer(self.topic)
        frames = [chunk(1, number, CHUNKS, partition_key=KEY) for number in range(CHUNKS - 1)]
        self.stage.publish(producer, *before, *frames[:2], message(2), frames[2])
        self.hear()

    def publish_the_end(self) -> None:
        producer = self.stage.producer(self.topic)
        self.stage.publish(
            producer, chunk(1, CHUNKS - 1, CHUNKS, partition_key=KEY), message(3, partition_key=KEY)
        )
        self.hear()

    @property
    def first_index(self) -> int:
        """Of its first chunk."""
        return 3 if self.cell.has_batch else 0

    # -- what can happen ---------------------------------------------------------------------------

    def nothing(self) -> None:
        pass

    def another_joins(self) -> None:
        if self.cell.sub_type != EXCLUSIVE:
            self.join(OTHER, permits=100)

    def it_leaves(self) -> None:
        client = self.clients[0]
        self.subscription.remove_consumer(client.consumer)
        self.stage.turn()
        self.closed(client)

    def another_joins_and_it_leaves(self) -> None:
        self.another_joins()
        self.it_leaves()

    def it_leaves_while_a_read_is_under_way(self) -> None:
        self.stage.engine.holds_reads = True
        self.clients[0].flow(self.stage, 1)
        self.it_leaves()
        self.join(OTHER, permits=5)
        self.stage.engine.holds_reads = False
        self.stage.turn()

    def all_is_given_back(self) -> None:
        client = self.clients[0]
        client.hear()
        client.halves.clear()
        client.received.clear()
        self.subscription.redeliver(client.consumer, [], -1)
        self.stage.turn()

    def chunks_are_given_back(self) -> None:
        """By the ids of those that it has, as a client does whose ack timeout is over."""
        client = self.clients[0]
        client.hear()
        ids = [one for half in client.halves.values() for one in half]
        ids += [one for received in client.received for one in received.ids[:1]]
        if ids:
            self.subscription.redeliver(client.consumer, ids, -1)
            self.stage.turn()
            client.received.clear()
            client.halves.clear()

    def its_half_expires(self) -> None:
        """The client gives up what it has of the message, and acks that."""
        client = self.clients[0]
        client.hear()
        for ids in client.halves.values():
            assert self.stage.ack(client.consumer, *ids) == [None]

    def a_part_is_skipped(self) -> None:
        self._skip(self.first_index + 2)

    def all_is_skipped(self) -> None:
        plan = skipping.plan_all(self.subscription)
        self.skipped_end = plan.end_index
        self.stage.run(skipping.carry_out(self.stage.broker, self.subscription, plan))

    def it_expires(self) -> None:
        """By time: all that was stored so far is too old."""
        self.stage.clock.advance(10)
        plan = skipping.plan_older(self.subscription, self.topic.now_ms())
        self.skipped_end = plan.end_index
        work = skipping.carry_out(self.stage.broker, self.subscription, plan, expires=True)
        self.stage.run(work)

    def a_part_is_evicted_and_trimmed(self) -> None:
        self._skip(self.first_index + 2)
        self.stage.broker.housekeeping.trim()
        self.stage.turn()

    def _skip(self, end_index: int) -> None:
        self.skipped_end = end_index
        self.stage.broker.housekeeping._skip(self.topic, end_index, expires=False)
        self.stage.turn()

    def it_is_sought_again(self) -> None:
        self._seek(0, everyone=False)

    def it_is_reset_into_the_middle(self) -> None:
        self._seek(self.first_index + 1, everyone=True)

    def _seek(self, index: int, *, everyone: bool) -> None:
        self.skipped_end = index
        self.hear()
        answers: list[object] = []
        for consumer in self.subscription.seek(index, answers.append, everyone=everyone):
            self.stage.broker.tell_closed(consumer)
        self.stage.turn()
        assert answers == [None]
        for client in list(self.clients):
            if client.consumer.is_closed:
                self.closed(client)

    def the_broker_dies(self) -> None:
        self._restart(checkpoint=False)

    def the_broker_restarts(self) -> None:
        self._restart(checkpoint=True)

    def _restart(self, *, checkpoint: bool) -> None:
        self.hear()
        for client in list(self.clients):
            self.closed(client)
        self.stage = self.stage.restarted(checkpoint=checkpoint)
        self.topic = self.stage.topic()
        self.subscription = self.stage.subscription(self.topic)

    # -- and in the end ----------------------------------------------------------------------------

    def heal(self) -> None:
        """Everyone reads, has room, and acks; one more message of each kind comes behind."""
        if not self.clients:
            self.join("c")
        for client in self.clients:
            peer = client.consumer.peer
            assert isinstance(peer, RecordingPeer)
            peer.writes_left, peer.is_writable = None, True
            client.flow(self.stage, 50)
        self.drain()
        producer = self.stage.producer(self.topic)
        frames = [chunk(9, number, CHUNKS, partition_key=KEY) for number in range(CHUNKS)]
        self.stage.publish(producer, *frames, message(10, partition_key=KEY))
        self.drain()

    def drain(self) -> None:
        for turn in range(50):
            self.hear()
            by_last = turn % 2 == 0
            if not sum(client.ack_all(self.stage, by_last=by_last) for client in self.clients):
                return
        raise AssertionError("there is always something more to ack")

    def judge(self) -> None:
        cursor, subscription = self.subscription.cursor, self.subscription
        assert cursor.backlog == 0, f"{subscription}: {cursor.backlog_ranges()} is left"
        assert cursor.counts().acked == cursor.end - cursor.first
        assert cursor.withheld_count == 0
        assert subscription.gate.unfinished_count == 0
        assert not subscription.handovers
        for client in self.clients:
            consumer = client.consumer
            assert consumer.permits == client.granted - client.frames, consumer
            assert consumer.unacked == 0, consumer
            assert not consumer.is_blocked, consumer
        heard = [name for client in (*self.gone, *self.clients) for name in client.names]
        # What was not declared done came to an application, whole.
        expected = {"p-9", "10", "3" if self.skipped_end <= self.first_index + CHUNKS + 1 else "10"}
        if self.skipped_end <= self.first_index:
            expected.add(CHUNKED)
        if self.skipped_end <= self.first_index + 2:
            expected.add("2")
        if self.cell.has_batch and self.skipped_end == 0:
            expected |= {"0.0", "0.1", "0.2"}
        assert expected <= set(heard), heard
        if self.is_gone_before_it_began:
            assert CHUNKED not in heard, heard

    @property
    def is_gone_before_it_began(self) -> bool:
        """Was a part of it declared done before there was all of it?"""
        return self.skipped_end > self.first_index and not self.cell.is_whole


EVENTS: Final[dict[str, Callable[[Life], None]]] = {
    name: event
    for name, event in vars(Life).items()
    if name
    in (
        "nothing",
        "another_joins",
        "it_leaves",
        "another_joins_and_it_leaves",
        "it_leaves_while_a_read_is_under_way",
        "all_is_given_back",
        "chunks_are_given_back",
        "its_half_expires",
        "a_part_is_skipped",
        "all_is_skipped",
        "it_expires",
        "a_part_is_evicted_and_trimmed",
        "it_is_sought_again",
        "it_is_reset_into_the_middle",
        "the_broker_dies",
        "the_broker_restarts",
    )
}


def cells() -> Iterator[Cell]:
    types = (EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED)
    for values in itertools.product(types, ROOMS, EVENTS, (False, True), (False, True)):
        yield Cell(*values)


def live(cell: Cell, number: int) -> None:
    """One cell, with the limits and the disk whose turn it is."""
    limits = LIMITS[number % len(LIMITS)]
    tail_size = 0 if number % 2 else 1 << 20
    with Stage(tail_size=tail_size, ledger_entries_max=3, **limits) as stage:
        life = Life(cell, stage)
        life.join("a", **ROOMS[cell.room])
        life.publish_all_but_the_end()
        if tail_size == 0:
            stage.checkpoint()
        if cell.is_whole:
            life.publish_the_end()
            EVENTS[cell.event](life)
        else:
            EVENTS[cell.event](life)
            life.publish_the_end()
        life.heal()
        life.judge()


@pytest.mark.parametrize(
    "rooms",
    [
        pytest.param(OFTEN, id="often"),
        pytest.param(
            tuple(room for room in ROOMS if room not in OFTEN), id="seldom", marks=pytest.mark.slow
        ),
    ],
)
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("sub_type", TYPE_NAMES, ids=TYPE_NAMES.get)
def test_a_chunked_message_is_one_message(
    sub_type: int, event: str, rooms: tuple[str, ...]
) -> None:
    failures = []
    for number, cell in enumerate(cells()):
        if (cell.sub_type, cell.event) == (sub_type, event) and cell.room in rooms:
            try:
                live(cell, number)
            except AssertionError as error:
                failures.append(f"{cell} ({number}): {error}")
    assert not failures, "\n".join(failures)


def test_the_matrix_has_every_cell() -> None:
    assert len(set(map(str, cells()))) == 4 * len(ROOMS) * len(EVENTS) * 4
