"""Dedup against a dumb twin, and in a small world where everything goes wrong but nothing is lost.

The world: an honest client that numbers, sends ahead, and resends what it has no receipt for; a wire
that breaks; a journal that refuses; a broker that crashes and comes back from its snapshot and the
log; a client process that dies and starts over, with other content under the same numbers. Whatever
happens, when the dust has settled the log holds every message exactly once.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from stage.counts import examples

from milepost.broker.messages.send_verdict import SendVerdict
from milepost.broker.topic.dedup import Dedup
from milepost.errors import CorruptData
from milepost.wire.events import ChunkInfo

NEW, DUPLICATE, UNKNOWN = SendVerdict.NEW, SendVerdict.DUPLICATE, SendVerdict.UNKNOWN


# ── the verdict against a twin ────────────────────────────────────────────────────────────────────


class Twin:
    """Every id that was pushed or persisted, as sets."""

    def __init__(self) -> None:
        self.pushed: set[int] = set()
        self.persisted: set[int] = set()
        self.must_resend = False

    def judge(self, lowest: int, highest: int) -> SendVerdict:
        if any(known >= lowest for known in self.persisted):
            return DUPLICATE
        if self.must_resend or any(known >= lowest for known in self.pushed):
            return UNKNOWN
        self.pushed.add(max(lowest, highest))
        return NEW


ids = st.integers(0, 12)
names = st.sampled_from("ab")
steps = st.one_of(
    st.tuples(st.just("judge"), names, ids, st.one_of(st.just(0), ids)),
    st.tuples(st.just("persisted")),
    st.tuples(st.just("refused")),
    st.tuples(st.just("opened"), names),
    st.tuples(st.just("restart")),
)


@given(st.lists(steps, max_size=40))
def test_verdicts_are_those_of_the_twin(script: list[tuple]) -> None:
    dedup, twins = Dedup(), {"a": Twin(), "b": Twin()}
    on_the_way: deque[tuple[str, int, int]] = deque()
    for step, *args in script:
        if step == "judge":
            name, lowest, highest = args
            verdict = dedup.judge(name, lowest, highest)
            assert verdict is twins[name].judge(lowest, highest)
            if verdict is NEW:
                on_the_way.append((name, lowest, highest))
        elif step == "persisted" and on_the_way:
            name, lowest, highest = on_the_way.popleft()
            dedup.persisted(name, lowest, highest)
            twins[name].persisted.add(max(lowest, highest))
        elif step == "refused":
            dedup.refused()
            for name in {name for name, _, _ in on_the_way}:
                twins[name].pushed = set(twins[name].persisted)
                twins[name].must_resend = True
            on_the_way.clear()
        elif step == "opened":
            dedup.opened(args[0])
            twins[args[0]].must_resend = False
        elif step == "restart":
            dedup, _ = Dedup.restore(dedup.snapshot(0), now=0)
            on_the_way.clear()
            for twin in twins.values():
                twin.pushed, twin.must_resend = set(twin.persisted), False
        dedup.check()
        for name, twin in twins.items():
            assert dedup.last_sequence_id(name) == max(twin.pushed | twin.persisted, default=-1)
            assert dedup.is_settled(name) == all(name != sender for sender, _, _ in on_the_way)


@settings(max_examples=examples(300))
@given(st.binary(max_size=40))
def test_any_bytes_are_a_snapshot_or_corrupt(data: bytes) -> None:
    try:
        dedup, end_index = Dedup.restore(data, now=0)
    except CorruptData:
        return
    dedup.check()
    again, same = Dedup.restore(dedup.snapshot(end_index), now=0)
    assert same == end_index
    assert again.snapshot(0) == dedup.snapshot(0)


# ── the small world ───────────────────────────────────────────────────────────────────────────────

PRODUCER = "p"


class Frame(NamedTuple):
    """One SEND: a message of one or several ids, or one chunk of a message."""

    message: int
    """Which message it is, or a part of: they are numbered in the order of sending."""
    lowest: int
    highest: int
    chunk: ChunkInfo | None
    process: int
    """Which life of the client made it: the content under a number differs from life to life."""


class Message(NamedTuple):
    lowest: int
    highest: int
    chunk_count: int

    def frames(self, message: int, process: int) -> list[Frame]:
        if not self.chunk_count:
            highest = 0 if self.highest == self.lowest else self.highest
            return [Frame(message, self.lowest, highest, None, process)]
        return [
            Frame(
                message,
                self.lowest,
                0,
                ChunkInfo(f"{PRODUCER}-{self.lowest}", at, self.chunk_count, 0),
                process,
            )
            for at in range(self.chunk_count)
        ]


def assembled(log: list[Frame]) -> list[int]:
    """The messages that a reader of the log sees, in order. Chunk 0 starts a message over, a chunk
    that is not the next one is passed over (as current official clients do)."""
    seen: list[int] = []
    open_chunks: dict[str, list[Frame]] = {}
    for frame in log:
        if frame.chunk is None:
            seen.append(frame.message)
            continue
        if frame.chunk.is_first:
            open_chunks[frame.chunk.uuid] = []
        chunks = open_chunks.get(frame.chunk.uuid)
        if chunks is None or len(chunks) != frame.chunk.chunk_id:
            continue
        chunks.append(frame)
        if frame.chunk.is_last:
            assert len({part.process for part in chunks}) == 1, f"two contents in one: {chunks}"
            seen.append(frame.message)
            del open_chunks[frame.chunk.uuid]
    return seen


class World(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Message] = []
        self.process = 0
        self.unanswered: deque[Frame] = deque()
        """What the client has no receipt for, in order."""
        self.answered: set[Frame] = set()
        self.wire: deque[Frame] = deque()
        self.journal: deque[tuple[Frame, int]] = deque()
        """Pushed, not yet durable, and on which connection it came."""
        self.log: list[Frame] = []
        self.dedup = Dedup()
        self.snapshot = self.dedup.snapshot(0)
        self.is_connected = True
        self.connection = 0

    # The client.

    @rule(width=st.integers(1, 3), gap=st.integers(0, 1), chunk_count=st.sampled_from([0, 3, 3, 1]))
    def send(self, width: int, gap: int, chunk_count: int) -> None:
        lowest = (self.messages[-1].highest if self.messages else -1) + 1 + gap
        highest = lowest if chunk_count else lowest + width - 1
        message = Message(lowest, highest, chunk_count)
        frames = message.frames(len(self.messages), self.process)
        self.messages.append(message)
        self.unanswered.extend(frames)
        if self.is_connected:
            self.wire.extend(frames)

    def receipt(self, frame: Frame) -> None:
        """Receipts come in order; one for anything but the oldest breaks the connection."""
        if not self.is_connected:
            return
        if self.unanswered and self.unanswered[0] == frame:
            self.answered.add(self.unanswered.popleft())
        else:
            self.disconnect()

    def disconnect(self) -> None:
        self.is_connected = False
        self.wire.clear()

    @rule()
    def reconnect(self) -> None:
        self.disconnect()
        self.is_connected = True
        self.connection += 1
        self.dedup.opened(PRODUCER)
        self.wire.extend(self.unanswered)

    @rule()
    def restart_client(self) -> None:
        """Another process sends again every message that is not answered to its end."""
        self.disconnect()
        self.process += 1
        unfinished = sorted({frame.message for frame in self.unanswered})
        self.unanswered.clear()
        for at in unfinished:
            self.unanswered.extend(self.messages[at].frames(at, self.process))

    # The broker.

    @precondition(lambda self: self.wire)
    @rule(count=st.integers(1, 2))
    def receive(self, count: int) -> None:
        for _ in range(count):
            if not self.wire:
                return
            frame = self.wire.popleft()
            verdict = self.dedup.judge(PRODUCER, frame.lowest, frame.highest, frame.chunk)
            if verdict is NEW:
                self.journal.append((frame, self.connection))
            elif verdict is DUPLICATE:
                assert frame.message in assembled(self.log) or any(
                    stored.message == frame.message and stored.chunk == frame.chunk
                    for stored in self.log
                ), f"{frame} is called a duplicate and is not stored"
                # Receipts leave in order: behind those of what is still on its way.
                self.commit(len(self.journal))
                self.receipt(frame)
            else:
                self.disconnect()

    @precondition(lambda self: self.journal)
    @rule(count=st.integers(1, 2))
    def commit(self, count: int) -> None:
        for _ in range(min(count, len(self.journal))):
            frame, connection = self.journal.popleft()
            self.log.append(frame)
            self.dedup.persisted(PRODUCER, frame.lowest, frame.highest, frame.chunk)
            # A receipt goes to the producer that sent it, and one that came back is another.
            if connection == self.connection:
                self.receipt(frame)

    @precondition(lambda self: self.journal)
    @rule(tells=st.booleans())
    def refuse(self, tells: bool) -> None:
        """The client is told at once, or its next frames come before it has heard."""
        self.journal.clear()
        self.dedup.refused()
        if tells:
            self.disconnect()

    @rule()
    def take_snapshot(self) -> None:
        self.snapshot = self.dedup.snapshot(len(self.log))

    @rule(tail_is_synced=st.booleans())
    def crash(self, tail_is_synced: bool) -> None:
        """What was on its way is on disk or not; nobody was told."""
        if tail_is_synced:
            self.log.extend(frame for frame, _ in self.journal)
        self.journal.clear()
        self.disconnect()
        self.dedup, end_index = Dedup.restore(self.snapshot, now=0)
        for frame in self.log[end_index:]:
            self.dedup.replay(PRODUCER, frame.lowest, frame.highest, frame.chunk, now=0)

    # What must hold.

    @invariant()
    def the_state_is_sound(self) -> None:
        self.dedup.check()

    @invariant()
    def nothing_is_stored_twice_or_out_of_order(self) -> None:
        seen = assembled(self.log)
        assert seen == sorted(set(seen))

    @invariant()
    def what_is_answered_is_stored(self) -> None:
        stored = {(frame.message, frame.chunk) for frame in self.log}
        assert {(frame.message, frame.chunk) for frame in self.answered} <= stored

    def teardown(self) -> None:
        """No more trouble: the client comes through, and everything is there once."""
        self.disconnect()  # errors that it has not heard of yet reach it
        for _ in range(50):
            if not self.is_connected:
                self.reconnect()
            while self.wire:
                self.receive(1)
            self.commit(len(self.journal))
            if self.is_connected and not self.unanswered:
                break
        assert not self.unanswered, "the client never came through"
        assert assembled(self.log) == list(range(len(self.messages)))


World.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=50)
TestWorld = World.TestCase
