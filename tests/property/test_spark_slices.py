"""Slices of a topic: for any boundaries, inside batches and between chunks, their union is the topic once.

Topics have batches, single messages, markers, and chunked messages of several producers that run into each
other, begin again, repeat chunks and leave orphans behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from stage.counts import examples
from stage.made import batch, chunk, entry, single

from milepost.spark.offsets import Slice
from milepost.spark.reading import fetch
from milepost.spark.reading.blocks import Block
from milepost.spark.reading.entries import RawEntry, last_index, read_entry
from milepost.spark.reading.fetch import slice_batches

TOPIC = "persistent://public/default/t"


def last_index_of(one: RawEntry) -> int:
    return last_index(read_entry(one), one)


class ListFeed:
    """A log in memory, served in blocks of two entries. The end is given with the last entry."""

    def __init__(self, log: list[RawEntry], counts: list[int]) -> None:
        self._log = log
        self._counts = counts

    def entries(self, first_index: int, end_index: int) -> Iterator[Block]:
        held = [
            one
            for one, count in zip(self._log, self._counts, strict=True)
            if last_index_of(one) >= first_index and last_index_of(one) - count + 1 < end_index
        ]
        for at in range(0, len(held), 2):
            yield Block.of(held[at : at + 2])


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[RawEntry], list[int], list[tuple[int, bytes]]]:
    """Entries, how many indexes each takes, and the messages that they are."""
    log: list[RawEntry] = []
    counts: list[int] = []
    messages: list[tuple[int, bytes]] = []
    # The twin: per uuid, the parts of its newest message; complete ones stay until they begin again.
    parts: dict[str, list[bytes]] = {}
    end = 0
    kinds = st.sampled_from(["batch", "single", "chunk", "chunk", "chunk", "marker"])
    for number in range(draw(st.integers(1, 25))):
        kind = draw(kinds)
        text = b"%d" % number
        if kind == "batch":
            count = draw(st.integers(1, 6))
            log.append(batch(end + count - 1, [single(text + b"-%d" % n) for n in range(count)]))
            messages += [(end + n, text + b"-%d" % n) for n in range(count)]
        elif kind == "chunk":
            count = 1
            uuid, of = draw(st.sampled_from(["u", "v", "w"])), 3
            held = parts.get(uuid, [])
            # Mostly the next chunk; sometimes any.
            usual = len(held) % of
            chunk_id = draw(st.sampled_from([usual, usual, usual, 0, 1, 2]))
            log.append(chunk(end, text, chunk_id, of, 100, uuid=uuid))
            if chunk_id == 0:
                parts[uuid] = [text]
            elif chunk_id == len(held) and held:
                held.append(text)
                if len(held) == of:
                    messages.append((end, b"".join(held)))
        else:
            count = 1
            log.append(entry(end, text, marker_type=10 if kind == "marker" else None))
            if kind == "single":
                messages.append((end, text))
        counts.append(count)
        end += count
    return log, counts, messages


@settings(max_examples=examples(200))
@given(logs(), st.data())
def test_slices_are_the_topic_once(
    made: tuple[list[RawEntry], list[int], list[tuple[int, bytes]]], data: Any
) -> None:
    log, counts, messages = made
    end = sum(counts)
    cuts = data.draw(st.lists(st.integers(0, end), max_size=6))
    bounds = sorted({0, *cuts, end})
    found: list[tuple[int, bytes]] = []
    for first, last in pairwise(bounds):
        for one in slice_batches(
            ListFeed(log, counts), Slice(TOPIC, first, last), ("index", "value")
        ):
            rows = list(zip(one["index"].to_pylist(), one["value"].to_pylist(), strict=True))
            assert all(first <= index < last for index, _ in rows)
            found += rows
    assert found == sorted(messages)


@settings(max_examples=examples(50))
@given(logs(), st.integers(1, 60), st.integers(1, 4))
def test_how_entries_are_grouped_changes_nothing(
    made: tuple[list[RawEntry], list[int], list[tuple[int, bytes]]], size: int, reach: int
) -> None:
    log, counts, messages = made
    part = Slice(TOPIC, 0, sum(counts))
    before = fetch.FIRST_GROUP_SIZE, fetch.GROUP_SIZE_MAX, fetch.LOOK_BACK_FIRST
    fetch.FIRST_GROUP_SIZE, fetch.GROUP_SIZE_MAX, fetch.LOOK_BACK_FIRST = size, size * 3, reach
    try:
        found = [
            row
            for one in slice_batches(ListFeed(log, counts), part, ("index", "value"))
            for row in zip(one["index"].to_pylist(), one["value"].to_pylist(), strict=True)
        ]
    finally:
        fetch.FIRST_GROUP_SIZE, fetch.GROUP_SIZE_MAX, fetch.LOOK_BACK_FIRST = before
    assert found == sorted(messages)
