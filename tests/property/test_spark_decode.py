"""The compiled reader against the plain one: the same rows, or the plain one says why there are none."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage.counts import examples
from stage.made import batch, entry, single

from milepost.client.connection.endpoint import Endpoint
from milepost.errors import CorruptData, MilepostError
from milepost.spark.reading import blocks
from milepost.spark.reading.compiled_bytes import crc32c_by_table, crc32c_of
from milepost.spark.reading.decode import Decoder
from milepost.spark.reading.deliveries import TaskLink
from milepost.spark.reading.entries import RawEntry, entry_rows, last_index, read_entry
from milepost.spark.values.columns import COLUMNS, to_batch
from milepost.storage.ledgers.entry import Block, NewEntry
from milepost.wire.events import Delivery
from milepost.wire.frames import crc32c
from milepost.wire.metadata import split_broker_entry

TOPIC = "persistent://public/default/t-partition-2"
U64 = st.integers(0, 2**63 - 1)
# A timestamp is microseconds in 64 bits; nobody's clock is beyond that in milliseconds.
MOMENT = st.integers(0, 2**52)
text = st.text(max_size=12)
pairs = st.lists(st.tuples(st.sampled_from(["a", "b", "é"]) | text, text), max_size=4)
maybe_true = st.sampled_from([None, None, True, False])
keys = st.none() | text | st.binary(max_size=9).map(lambda key: base64.b64encode(key).decode())

own = st.fixed_dictionaries(
    {
        "partition_key": keys,
        "partition_key_b64_encoded": maybe_true,
        "null_partition_key": maybe_true,
        "null_value": maybe_true,
        "properties": pairs,
        "event_time": st.none() | MOMENT,
    }
)
singles = st.builds(
    lambda payload, own, more: single(payload, **own, **more),
    st.binary(max_size=60),
    own,
    st.fixed_dictionaries({"sequence_id": st.none() | U64, "compacted_out": maybe_true}),
)
shared = st.fixed_dictionaries(
    {
        "producer_name": text,
        "sequence_id": U64,
        "publish_time": MOMENT,
        "schema_version": st.none() | st.binary(max_size=8),
        "compression": st.sampled_from([0, 0, 1, 2, 3, 4]),
        "checksum": st.booleans(),
        "ledger_id": U64,
        "entry_id": U64,
    }
)


@st.composite
def entries(draw: st.DrawFn, before: int = 0) -> RawEntry:
    more: dict[str, Any] = draw(shared)
    if draw(st.booleans()):
        messages = draw(st.lists(singles, min_size=1, max_size=6))
        return batch(before + len(messages) - 1, messages, **more)
    return entry(before, draw(st.binary(max_size=60)), **more, **draw(own))


@st.composite
def topics(draw: st.DrawFn) -> list[RawEntry]:
    return [draw(entries(draw(st.integers(0, 40)))) for _ in range(draw(st.integers(0, 6)))]


def plain(raw: list[RawEntry], first: int, end: int, columns: tuple[str, ...]) -> pa.Table:
    rows = [row for one in raw for row in entry_rows(TOPIC, 2, one, first, end)]
    return pa.Table.from_batches([to_batch(rows, columns)])


def compiled(raw: list[RawEntry], first: int, end: int, columns: tuple[str, ...]) -> pa.Table:
    decoder = Decoder(TOPIC, columns)
    found = list(decoder.batches(raw, first, end))
    for one in found:
        one.validate(full=True)
        assert one.num_rows
    return pa.Table.from_batches(found, decoder.schema)


@settings(max_examples=examples(120))
@given(
    topics(),
    st.integers(0, 40),
    st.integers(0, 60),
    st.just(COLUMNS) | st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True).map(tuple),
)
def test_both_readers_see_the_same_rows(
    raw: list[RawEntry], first: int, count: int, columns: tuple[str, ...]
) -> None:
    expected = plain(raw, first, first + count, columns)
    assert compiled(raw, first, first + count, columns).equals(expected)


@settings(max_examples=examples(200))
@given(
    entries().map(lambda one: one._replace(ledger_id=3, entry_id=1)),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3),
    st.integers(0, 400),
)
def test_damage_is_seen_by_both_or_by_neither(
    one: RawEntry, changes: list[tuple[int, int]], cut: int
) -> None:
    """No byte that is changed or missing makes the compiled reader see rows that the plain one does
    not, or read beyond the entry."""
    data = bytearray(one.data)
    for place, byte in changes:
        data[place % len(data)] = byte
    damaged = one._replace(data=bytes(data[: len(data) - cut % 8]))
    try:
        expected = plain([damaged], 0, 1 << 40, COLUMNS)
    except (MilepostError, pa.ArrowInvalid, OverflowError):
        return
    try:
        found = compiled([damaged], 0, 1 << 40, COLUMNS)
    except MilepostError:
        raise AssertionError("the plain reader takes it") from None
    assert found.equals(expected)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[RawEntry], Delivery]:
    """Entries as single frames bring them, and the same as the log has them."""
    first_id, end = draw(st.integers(0, 2**40)), draw(st.integers(0, 2**40))
    raw: list[RawEntry] = []
    items: list[NewEntry] = []
    first = end
    for number in range(draw(st.integers(1, 6))):
        one = draw(entries(end))._replace(ledger_id=7, entry_id=first_id + number)
        last = last_index(read_entry(one), one)
        raw.append(one)
        items.append(NewEntry(one.data[split_broker_entry(one.data)[1] :], last - end + 1))
        end = last + 1
    data = Block.encode(7, first_id, first, 1_700_000_000_000, items).data
    return raw, Delivery(1, 7, first_id, -1, 0, (), -1, data, len(raw))


def stored(delivery: Delivery) -> blocks.Block:
    with TaskLink(Endpoint(url="pulsar://localhost:6650")) as link:
        return link.read_stored(delivery)


@settings(max_examples=examples(200))
@given(
    runs(),
    st.integers(0, 60),
    st.just(COLUMNS) | st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True).map(tuple),
    st.integers(0, 6),
)
def test_entries_as_they_are_stored_are_the_same_rows(
    made: tuple[list[RawEntry], Delivery], count: int, columns: tuple[str, ...], cut: int
) -> None:
    """Also where both kinds are decoded together."""
    raw, delivery = made
    block = stored(delivery)
    first = int(block.last_indexes()[0])
    found = list(block)
    assert [one[:2] for one in found] == [one[:2] for one in raw]
    assert plain(found, first, first + count, COLUMNS).equals(
        plain(raw, first, first + count, COLUMNS)
    )
    decoder = Decoder(TOPIC, columns)
    parts = [blocks.Block.of(raw[:cut]), block.part(cut, len(block))]
    batches = decoder.block_batches([one for one in parts if len(one)], first, first + count)
    table = pa.Table.from_batches(list(batches), decoder.schema)
    assert table.equals(compiled(raw, first, first + count, columns))


@settings(max_examples=examples(120))
@given(runs(), st.integers(0, 2**20), st.integers(1, 255), st.integers(0, 3), st.integers(0, 3))
def test_a_stored_run_with_any_damage_is_refused(
    made: tuple[list[RawEntry], Delivery], place: int, change: int, short: int, more: int
) -> None:
    _, delivery = made
    data = bytearray(delivery.entry)
    data[place % len(data)] ^= change
    for damaged in (
        delivery._replace(entry=bytes(data)),
        delivery._replace(entry=delivery.entry[: -1 - short]),
        delivery._replace(entry=delivery.entry + bytes(1 + more)),
        delivery._replace(stored_entries=delivery.stored_entries + 1 + more),
        delivery._replace(entry_id=delivery.entry_id + 1),
        delivery._replace(ledger_id=8),
    ):
        with pytest.raises(CorruptData, match=r"came damaged|entries in"):
            stored(damaged)


@given(st.binary(max_size=300), st.integers(0, 20), st.integers(0, 20))
def test_checksums_are_those_of_the_library(data: bytes, before: int, behind: int) -> None:
    """By the machine's own instruction, if it has one, and by a table."""
    whole = np.frombuffer(bytes(before) + data + bytes(behind), np.uint8)
    for function in (crc32c_of, crc32c_by_table):
        assert function(whole, before, before + len(data)) == crc32c(data)
