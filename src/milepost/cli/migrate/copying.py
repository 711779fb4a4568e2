"""Copies the entries of one partition, from where the target ends.

Where that is in the source the target says itself: its end, and a property of the topic that names an entry
of the source with the end that it led to. The property is written before the first entry and then every few
seconds, so that a run which goes on has little to read again. Milepost's end is an index, in messages; of an
Apache Pulsar entries are counted, from the first that was copied.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from milepost.admin.pulsar_entries import Places
from milepost.cli.migrate.entries import Entry, RepeatedChunks
from milepost.cli.migrate.reading import EntryReader
from milepost.cli.migrate.side import Side
from milepost.cli.migrate.writing import EntryWriter
from milepost.clock import SystemClock
from milepost.errors import NotAllowed
from milepost.positions import Position

PROPERTY: Final = "milepost.migrate"
CHECKPOINT_S: Final = 5.0

# Told of entries that are done.
Watcher = Callable[[int], None]


class Checkpoint(NamedTuple):
    """A place where both sides are known to be level."""

    source: str
    """The topic, by its full name."""
    after: Position | None
    """An entry of the source; None is before the first."""
    end: int
    """The target's end right behind it."""
    there: Position | None = None
    """The same entry in the target, for an Apache Pulsar: its oldest ledgers may be gone later."""

    @classmethod
    def read(cls, text: str) -> Checkpoint:
        """`NotAllowed` for a text that this version did not write."""
        try:
            known = json.loads(text)
            after, there = (
                None if known.get(name) is None else Position(*map(int, known[name]))
                for name in ("after", "there")
            )
            return cls(str(known["source"]), after, int(known["end"]), there)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise NotAllowed(f"its property {PROPERTY} is none of `milepost migrate`") from None

    def text(self) -> str:
        after = None if self.after is None else list(self.after)
        known: dict[str, Any] = {"source": self.source, "after": after, "end": self.end}
        if self.there is not None:
            known["there"] = list(self.there)
        return json.dumps(known)


class Copied(NamedTuple):
    entries: int
    messages: int
    until: Position | None
    """The last entry of the source when it began; None if there was none."""


def end_of(target: Side, internal: dict[str, Any], level: Checkpoint | None = None) -> int:
    """Where a topic of the target ends, by its internal stats: the end index, or how many entries were ever
    copied to an Apache Pulsar."""
    if target.is_milepost:
        ledgers = internal["ledgers"]
        return int(ledgers[-1]["endIndex"]) if ledgers else 0
    places = Places.of(internal)
    if level is None or level.there is None:
        return places.end
    if level.there.ledger_id not in places.ledgers:
        raise NotAllowed(
            f"{level.source}: the target has deleted ledger {level.there.ledger_id}, to which the last run "
            "had come; delete the topic there and run again"
        )
    return level.end + places.end - 1 - places.number_of(level.there)


def last_entry(internal: dict[str, Any]) -> Position | None:
    """The last entry of a topic, by its internal stats; None if it has none."""
    text = str(internal["lastConfirmedEntry"])
    return None if "-" in text else Position.parse(text)


async def copy(
    source: Side, target: Side, topic: str, checkpoint: Checkpoint | None, done: Watcher
) -> Copied:
    """Copy what the target does not have."""
    clock = SystemClock()
    async with EntryWriter(target, topic) as writer:
        # No other producer can add anything from here on.
        level = checkpoint or Checkpoint(topic, None, 0)
        end = end_of(target, await _settled(target, topic), level)
        if checkpoint is None:
            await _keep(target, topic, level)
        async with EntryReader(source, topic, level.after) as reader:
            repeated = RepeatedChunks()
            at, passed, entries = level.end, None, 0
            saved_s = clock.monotonic()
            async for entry in reader.entries():
                done(1)
                if repeated.has(entry.chunk):
                    continue
                if at < end:
                    at += entry.count if target.is_milepost else 1
                    passed = entry
                    continue
                if passed is not None:
                    await _check_level(target, topic, passed, at, end)
                    passed = None
                await writer.write(entry)
                entries += 1
                if clock.monotonic() - saved_s > CHECKPOINT_S:
                    saved_s = clock.monotonic()
                    await _keep(target, topic, _reached(target, topic, end, writer))
            if at < end or passed is not None:
                await _check_level(target, topic, passed, at, end)
            await writer.flush()
        if writer.stored_until is not None:
            await _keep(target, topic, _reached(target, topic, end, writer))
        return Copied(entries, writer.stored_messages, reader.last)


async def _settled(target: Side, topic: str) -> dict[str, Any]:
    """The internal stats of a topic to which nothing is being written any more: an Apache Pulsar may still
    store what a killed run had sent."""
    while (await target.admin.get_internal_stats(topic)).get("pendingAddEntriesCount"):
        await asyncio.sleep(0.05)
    return await target.admin.get_internal_stats(topic)


def _reached(target: Side, topic: str, began: int, writer: EntryWriter) -> Checkpoint:
    if target.is_milepost:
        return Checkpoint(topic, writer.stored_until, began + writer.stored_messages)
    end = began + writer.stored_entries
    return Checkpoint(topic, writer.stored_until, end, writer.stored_at)


async def _keep(target: Side, topic: str, checkpoint: Checkpoint) -> None:
    if checkpoint.after is None and checkpoint.end:
        return
    await target.admin.update_topic_properties(topic, {PROPERTY: checkpoint.text()})


async def _check_level(target: Side, topic: str, passed: Entry | None, at: int, end: int) -> None:
    """Raise unless the target ends with the entry of the source that was passed last."""
    if at == end and passed is not None:
        last = last_entry(await target.admin.get_internal_stats(topic))
        assert last is not None, f"{topic} ends at {end} and has no entry"
        before = Position(last.ledger_id, last.entry_id - 1) if last.entry_id else None
        async with EntryReader(target, topic, before) as reader:
            async for entry in reader.entries():
                if entry.position == last and entry.is_same(passed):
                    return
    raise NotAllowed(
        f"{topic}: what the target holds is not what the source begins with; the source has dropped "
        "messages since, or others have published to the target: delete it there and run again"
    )
