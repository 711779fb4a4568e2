"""Decoding: ranges inside batches, entries of all kinds, damage that is named."""

from __future__ import annotations

import pytest
from stage.made import NOW, batch, changed, chunk, entry, single

from milepost.errors import NotAllowed, Undecodable
from milepost.positions import ChunkMessageId, MessageId
from milepost.spark.reading import decode
from milepost.spark.reading.chunks import SliceChunks
from milepost.spark.reading.decode import Decoder
from milepost.spark.reading.entries import RawEntry
from milepost.spark.values.columns import COLUMNS, arrow_schema
from milepost.wire import pulsar_pb2 as pb

TOPIC = "persistent://public/default/t"
EVERYTHING = (0, 1 << 62)


def decoded(*entries: RawEntry, bounds: tuple[int, int] = EVERYTHING) -> list[dict[str, object]]:
    found = []
    for one in Decoder(TOPIC).batches(entries, *bounds):
        assert one.schema == arrow_schema()
        found += one.to_pylist()
    return found


def test_every_column_of_a_message() -> None:
    (row,) = decoded(
        entry(
            41,
            b"hello",
            ledger_id=3,
            entry_id=12,
            partition_key="k",
            properties=[("a", "1"), ("b", "2"), ("a", "3")],
            event_time=NOW - 5,
            producer_name="me",
            sequence_id=77,
            schema_version=b"\0\1",
        )
    )
    assert list(row) == list(COLUMNS)
    assert {**row, "publish_time": 0, "event_time": 0} == {
        "topic": TOPIC,
        "partition": -1,
        "index": 41,
        "message_id": MessageId(3, 12).serialize(),
        "ledger_id": 3,
        "entry_id": 12,
        "batch_index": -1,
        "first_chunk_id": None,
        "key": b"k",
        "value": b"hello",
        "properties": [("a", "3"), ("b", "2")],
        "publish_time": 0,
        "event_time": 0,
        "producer": "me",
        "sequence_id": 77,
        "schema_version": b"\0\1",
    }
    assert row["publish_time"].timestamp() * 1000 == NOW
    assert row["event_time"].timestamp() * 1000 == NOW - 5


def test_what_is_not_there_is_null() -> None:
    empty, null = decoded(entry(0, b""), entry(1, b"", null_value=True, null_partition_key=True))
    assert (empty["value"], empty["key"], empty["event_time"], empty["properties"]) == (
        b"",
        None,
        None,
        [],
    )
    assert null["value"] is None
    assert null["schema_version"] is None


def test_neighbours_outside_the_range_are_dropped() -> None:
    messages = [single(b"%d" % number, sequence_id=number) for number in range(10)]
    one = batch(19, messages)  # indexes 10 to 19
    assert [row["index"] for row in decoded(one, bounds=(13, 16))] == [13, 14, 15]
    assert [row["batch_index"] for row in decoded(one, bounds=(13, 16))] == [3, 4, 5]
    assert [row["value"] for row in decoded(one, bounds=(0, 11))] == [b"0"]
    assert decoded(one, bounds=(20, 30)) == decoded(one, bounds=(0, 10)) == []
    assert [row["sequence_id"] for row in decoded(one)] == list(range(10))


def test_what_compaction_left_out_of_a_batch_does_not_appear() -> None:
    one = batch(2, [single(b"a"), single(b"b", compacted_out=True), single(b"c")])
    assert [(row["index"], row["value"]) for row in decoded(one)] == [(0, b"a"), (2, b"c")]


@pytest.mark.parametrize("compression", [pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY])
def test_compressed_payloads(compression: int) -> None:
    payload = b"x" * 1000
    rows = decoded(
        entry(0, payload, compression=compression),
        entry(1, b"plain"),
        batch(3, [single(b"a"), single(payload)], compression=compression),
    )
    assert [row["value"] for row in rows] == [payload, b"plain", b"a", payload]


@pytest.mark.parametrize("compression", [pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY])
@pytest.mark.parametrize("stated", [0, 5, 2000, 2**31])
def test_a_lie_about_the_size_is_found(compression: int, stated: int) -> None:
    def lie(metadata: pb.MessageMetadata) -> None:
        metadata.uncompressed_size = stated

    with pytest.raises(Undecodable, match="entry 3:0"):
        decoded(changed(entry(0, b"x" * 1000, compression=compression), lie))


def test_a_damaged_entry_is_named() -> None:
    good = entry(7, b"hello", entry_id=12)
    damaged = good._replace(data=good.data[:-1] + b"x")
    with pytest.raises(Undecodable, match="entry 3:12: its checksum is not 0x"):
        decoded(entry(6, b"before"), damaged)


def test_a_batch_that_lies_about_its_size_is_named() -> None:
    one = batch(9, [single(b"a")])
    for count in (2, 2_000_000_000):
        bad = entry(2_000_000_000, one.data[-7:], num_messages_in_batch=count, entry_id=5)
        with pytest.raises(Undecodable, match="entry 3:5"):
            decoded(bad)


def test_an_entry_without_an_index_says_which_setting_is_missing() -> None:
    with pytest.raises(NotAllowed, match=r"entry 3:4 came without its index.*exposingBroker"):
        decoded(entry(4, b"x", index=False))


def test_an_encrypted_entry_is_named() -> None:
    def lock(metadata: pb.MessageMetadata) -> None:
        metadata.encryption_keys.add(key="k", value=b"v")

    with pytest.raises(Undecodable, match="entry 3:4 is encrypted"):
        decoded(changed(entry(4, b"x"), lock))


def test_an_unusual_entry_among_others_keeps_its_place() -> None:
    many = [(f"name-{number}", "x") for number in range(100)]  # more than the compiled reader takes
    rows = decoded(entry(0, b"a"), entry(1, b"b", properties=many), entry(2, b"c"))
    assert [row["value"] for row in rows] == [b"a", b"b", b"c"]
    assert rows[1]["properties"] == many


def test_text_that_is_not_utf8_is_shown_as_well_as_can_be() -> None:
    data = entry(0, b"v", producer_name="aXb", checksum=False).data.replace(b"aXb", b"a\xffb")
    (row,) = decoded(RawEntry(3, 0, data))
    assert row["producer"] == "a\ufffdb"


def test_more_than_an_array_holds_becomes_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "ARRAY_SIZE_MAX", 500)
    entries = [entry(number, b"x" * 100) for number in range(10)]
    found = list(Decoder(TOPIC).batches(entries, *EVERYTHING))
    assert len(found) > 1
    assert [index for one in found for index in one["index"].to_pylist()] == list(range(10))


def test_a_batch_stays_as_it_is_while_others_are_decoded() -> None:
    """The decoder keeps the room it works in; what it has given away does not lie there."""

    def group(first: int, count: int, text: str) -> list[RawEntry]:
        own = {"partition_key": text, "properties": [(text, text)], "event_time": NOW + first}
        messages = [single(text.encode() * 9, **own) for _ in range(count)]
        more = {"producer_name": text, "schema_version": text.encode()}
        return [batch(first + count - 1, messages, ledger_id=first, **more)]

    decoder = Decoder(TOPIC)
    groups = [group(0, 40, "aaa"), group(40, 7, "b"), group(47, 90, "cccc")]
    found = [one for raw in groups for one in decoder.batches(raw, *EVERYTHING)]
    assert [one.to_pylist() for one in found] == [decoded(*raw) for raw in groups]


def test_nothing_decodes_to_nothing() -> None:
    assert decoded() == []


def test_chunks_become_a_message_where_the_last_one_lies() -> None:
    entries = [
        chunk(5, b"ab", 0, 2, 4),
        entry(6, b"between"),
        chunk(7, b"cd", 1, 2, 4, partition_key="k"),
    ]
    decoder = Decoder(TOPIC, COLUMNS, SliceChunks(lambda uuid: []))
    rows = [row for one in decoder.batches(entries, *EVERYTHING) for row in one.to_pylist()]
    assert [(row["index"], row["value"]) for row in rows] == [(6, b"between"), (7, b"abcd")]
    assert rows[1]["key"] == b"k"
    assert rows[1]["first_chunk_id"] == MessageId(3, 5).serialize()
    assert MessageId.deserialize(rows[1]["message_id"]) == ChunkMessageId(
        MessageId(3, 5), MessageId(3, 7)
    )
    # Without anybody to put them together they are nobody's.
    assert [row["value"] for row in decoded(*entries)] == [b"between"]


def test_markers_never_appear() -> None:
    assert decoded(entry(4, b"x", marker_type=10)) == []
