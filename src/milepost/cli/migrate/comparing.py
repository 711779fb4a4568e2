"""Reads both sides again: every entry, and where each subscription stands on the target.

The source may have dropped its oldest messages since they were copied, and the target may have dropped some
that no subscription needs. What both still have must be the same, byte for byte and in the same order.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

from milepost.admin.pulsar_entries import Places
from milepost.cli.migrate.copying import Watcher, end_of, last_entry
from milepost.cli.migrate.entries import Entry, RepeatedChunks
from milepost.cli.migrate.reading import EntryReader
from milepost.cli.migrate.side import Side
from milepost.cli.migrate.standings import Acks, Standing
from milepost.positions import Position
from milepost.positions.ranges import IndexRanges


class Compared(NamedTuple):
    entries: int
    messages: int
    checksum: str
    """Of metadata and payloads."""
    difference: str
    """Empty if there is none."""
    acks: dict[str, Acks]
    """By subscription."""
    chunks: IndexRanges
    """Indexes of the target that are chunks."""
    again: int = 0
    """Messages of batches that are acked in the source, and come again from an Apache Pulsar."""


class _Walk:
    def __init__(self, standings: Mapping[str, Standing], places: Places | None) -> None:
        self.standings = standings
        # Of a target that counts entries.
        self.places = places
        self.again = 0
        self.acks = {name: Acks() for name in standings}
        self.chunks = IndexRanges()
        self.entries = self.messages = 0
        self.digests = hashlib.sha256(), hashlib.sha256()

    def pair(self, source: Entry, target: Entry) -> None:
        for digest, entry in zip(self.digests, (source, target), strict=True):
            digest.update(len(entry.metadata).to_bytes(4, "big") + entry.metadata)
            digest.update(len(entry.payload).to_bytes(4, "big") + entry.payload)
        self.entries += 1
        self.messages += source.count
        self._note(target, source)

    def trimmed(self, target: Entry) -> None:
        """The source has dropped it, so every subscription there has acked it."""
        self._note(target, None)

    def _note(self, target: Entry, source: Entry | None) -> None:
        full = (1 << target.count) - 1
        if self.places is not None:
            target = target._replace(index=self.places.number_of(target.position), count=1)
        if target.chunk is not None and target.index is not None:
            self.chunks.add(target.index, target.index + 1)
        for name, standing in self.standings.items():
            bits = full if source is None else standing.bits_of(source)
            if self.places is not None:
                # Apache Pulsar does not tell single messages of a batch: an entry is acked when all are.
                self.again += bits.bit_count() if bits != full else 0
                bits = int(bits == full)
            self.acks[name].add(target, bits)

    def result(self, difference: str) -> Compared:
        checksum = self.digests[0].hexdigest()
        if not difference and checksum != self.digests[1].hexdigest():
            difference = "the checksums of both sides differ"
        return Compared(
            self.entries,
            self.messages,
            checksum,
            difference,
            self.acks,
            self.chunks,
            self.again,
        )


async def compare(
    source: Side,
    target: Side,
    topic: str,
    until: Position | None,
    standings: Mapping[str, Standing],
    done: Watcher,
) -> Compared:
    """Compare a partition of both sides; `until` is the last entry of the source that was copied."""
    internal = await target.admin.get_internal_stats(topic)
    walk = _Walk(standings, None if target.is_milepost else Places.of(internal))
    async with EntryReader(source, topic) as left, EntryReader(target, topic) as right:
        if left.last is not None and (until is None or until < left.last):
            left.last = until
        # The target's last entry may be a chunk of a message that is not finished.
        right.last = last_entry(internal)
        ours, theirs = _stored(left), aiter(right.entries())
        mine, other = await anext(ours, None), await anext(theirs, None)
        if mine is None or other is None:
            # One side has dropped everything: there is nothing to compare.
            while other is not None:
                walk.trimmed(other)
                other = await anext(theirs, None)
            is_lost = mine is not None and not end_of(target, internal)
            return walk.result("the target has nothing of it" if is_lost else "")
        if not mine.is_same(other):
            # One side has dropped its oldest. Messages know nothing of their place: look for them.
            if await _has(target, topic, mine):
                while other is not None and not mine.is_same(other):
                    walk.trimmed(other)
                    other = await anext(theirs, None)
            elif await _has(source, topic, other):
                while mine is not None and not mine.is_same(other):
                    mine = await anext(ours, None)
        while mine is not None and other is not None:
            if not mine.is_same(other):
                return walk.result(
                    f"entry {mine.position} of the source and {other.position} of the target differ"
                )
            walk.pair(mine, other)
            done(1)
            mine, other = await anext(ours, None), await anext(theirs, None)
        if mine is not None:
            return walk.result(f"entry {mine.position} of the source is not in the target")
        if other is not None:
            return walk.result(f"entry {other.position} of the target is not in the source")
    return walk.result("")


async def _stored(reader: EntryReader) -> AsyncIterator[Entry]:
    """Entries without the chunks that the target does not store twice."""
    repeated = RepeatedChunks()
    async for entry in reader.entries():
        if not repeated.has(entry.chunk):
            yield entry


async def _has(side: Side, topic: str, wanted: Entry) -> bool:
    async with EntryReader(side, topic) as reader:
        async for entry in reader.entries():
            if entry.is_same(wanted):
                return True
    return False
