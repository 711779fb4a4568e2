"""A store against its dumb twin, a list of messages: index and id are two names of one message.

Publishes of any batches, rolls, trims, checkpoints, restarts and crashes in any order; after each of
them, every retained index is looked up both ways, and every time.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from stage.acksets import is_clean
from stage.counts import examples

from milepost.errors import IndexNotFound, LedgerNotFound, PersistenceError
from milepost.positions.ids import Position
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog
from milepost.storage.ledgers.entry import Block, NewEntry
from milepost.storage.ledgers.log import RollPolicy
from milepost.storage.store import Store
from milepost.testing import ManualClock, MemoryFiles, power_loss


class Message(NamedTuple):
    """One message of the twin; its place in the list is its index."""

    position: Position
    batch_index: int
    payload: bytes
    time_ms: int


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.files = MemoryFiles()
        self.image: bytes | None = None
        # The twin: every message that was ever answered for, and how many of them are trimmed.
        self.messages: list[Message] = []
        self.trimmed = 0
        self.serial = 0
        self.start()
        self.store.catalog.create_topic("t", {})
        self.open()

    def start(self) -> None:
        self.catalog = SqliteCatalog(None, image=self.image)
        self.store = Store(
            self.files,
            self.catalog,
            self.clock,
            roll_policy=RollPolicy(entries_max=4, size_bytes_max=900, age_ms_max=50_000),
            tail_size_max=300,
        )

    def open(self) -> None:
        (topic,) = self.catalog.topics()
        self.log = self.store.log(topic)

    # -- rules -------------------------------------------------------------------------------------

    @rule(blocks=st.lists(st.lists(st.integers(1, 70), min_size=1, max_size=3), max_size=4))
    def publish(self, blocks: list[list[int]]) -> None:
        """Several blocks in one group."""
        waiting: list[tuple[Block, list[NewEntry], list[PersistenceError | None]]] = []
        for counts in blocks:
            self.serial += 1
            payloads = [b"%d/%d" % (self.serial, n) for n in range(len(counts))]
            items = [NewEntry(p, count) for p, count in zip(payloads, counts, strict=True)]
            answers: list[PersistenceError | None] = []
            block = self.log.append(items, self.clock.wall_ms(), answers.append)
            waiting.append((block, items, answers))
        self.store.pump()
        for block, items, answers in waiting:
            assert answers == [None]
            for n, (payload, count, *_) in enumerate(items):
                position = Position(block.ledger_id, block.first_entry_id + n)
                self.messages += [
                    Message(position, i, bytes(payload), block.timestamp_ms) for i in range(count)
                ]

    @rule()
    def roll(self) -> None:
        self.log.roll(self.clock.wall_ms(), lambda error: None)
        self.store.pump()

    @precondition(lambda self: self.messages)
    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.messages)))
        self.store.trim(self.log, index)
        assert self.trimmed <= self.log.first_index <= max(index, self.trimmed)
        self.trimmed = self.log.first_index

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule(seconds=st.floats(0, 100))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(ms=st.integers(-100_000, 100_000))
    def set_the_clock(self, ms: int) -> None:
        self.clock.jump(ms)

    @rule()
    def restart(self) -> None:
        """An orderly end: nothing is left to replay."""
        images: list[bytes] = []
        self.catalog.close = lambda: images.append(self.catalog.image())  # type: ignore[method-assign]
        self.store.close()
        (self.image,) = images
        self.start()
        assert is_clean(self.store.report)
        self.open()

    @rule(outcome=st.sampled_from(["kept", "dropped"]))
    def crash(self, outcome: str) -> None:
        self.image = self.catalog.image()
        self.files = power_loss(self.files, outcome)
        self.start()
        self.open()

    # -- everything compared -----------------------------------------------------------------------

    @invariant()
    def bounds_are_right(self) -> None:
        assert (self.log.first_index, self.log.end_index) == (self.trimmed, len(self.messages))
        for index in (self.trimmed - 1, len(self.messages)):
            with pytest.raises(IndexNotFound):
                self.log.locate(index)

    @invariant()
    def index_and_id_are_inverse(self) -> None:
        seen: set[Position] = set()
        for index in range(self.trimmed, len(self.messages)):
            message = self.messages[index]
            found = self.log.locate(index)
            assert found.position == message.position
            assert index - found.span.first_index == message.batch_index
            assert found.timestamp_ms == message.time_ms
            if message.position not in seen:
                seen.add(message.position)
                assert self.log.at(message.position) == found
                assert self.log.index_from(message.position) == index
                first, end, _ = self.log.indexes_at(*message.position)
                assert (first, end) == (index, found.span.end_index)

    @invariant()
    def entries_are_read_as_they_were_written(self) -> None:
        index = self.trimmed
        while index < len(self.messages):
            for entry in self.log.read(self.messages[index].position, entries_max=3):
                assert entry.span.first_index == index
                assert bytes(entry.payload) == self.messages[index].payload
                index = entry.span.end_index
        located = self.log.entries_from(self.trimmed, 10_000)
        assert [place.position for place in located] == sorted({p.position for p in located})

    @invariant()
    def time_is_looked_up_by_the_first_message_not_before_it(self) -> None:
        retained = self.messages[self.trimmed :]
        assert [m.time_ms for m in retained] == sorted(m.time_ms for m in retained)
        times = {message.time_ms for message in retained} | {0, 2**62}
        found = []
        for time_ms in sorted({t + step for t in times for step in (-1, 0, 1)}):
            twin = next((i for i, m in enumerate(retained) if m.time_ms >= time_ms), len(retained))
            found.append(self.log.index_at(time_ms))
            assert found[-1] == self.trimmed + twin
        assert found == sorted(found)

    @invariant()
    def what_is_trimmed_is_gone(self) -> None:
        if self.trimmed:
            position = self.messages[self.trimmed - 1].position
            with pytest.raises(LedgerNotFound):
                self.log.at(position)
            assert self.log.index_from(position) == self.trimmed


StoreMachine.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=25)
TestStore = StoreMachine.TestCase
