"""The compiled reader against the plain one: the same rows, or the plain one says why there are none."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from stage.made import batch, entry, single

from milepost.errors import MilepostError
from milepost.spark.reading.decode import Decoder
from milepost.spark.reading.entries import RawEntry, entry_rows
from milepost.spark.values.columns import COLUMNS, to_batch

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


@settings(max_examples=300)
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


@settings(max_examples=400)
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
