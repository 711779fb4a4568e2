"""The bytes of the load for Kafka, and what is read of its answers."""

from __future__ import annotations

import struct

import google_crc32c

from bench.load import kafka


def test_a_record_batch_has_its_length_and_checksum() -> None:
    batch = kafka.record_batch(b"x" * 100, 3)
    first, length = struct.unpack_from(">qi", batch)
    assert (first, length) == (0, len(batch) - 12)
    magic, crc = struct.unpack_from(">bI", batch, 16)
    assert (magic, crc) == (2, google_crc32c.value(batch[21:]))
    assert struct.unpack_from(">i", batch, 23) == (2,)
    assert struct.unpack_from(">i", batch, 57) == (3,)


def test_a_request_begins_with_its_size_and_version() -> None:
    request = kafka.produce_request("t", b"records")
    assert struct.unpack_from(">ihh", request) == (len(request) - 4, 0, 3)
    assert request.endswith(b"\x00\x00\x00\x07records")


def fetched(records: bytes, code: int = 0) -> bytes:
    head = struct.pack(">iii", 0, 0, 1) + struct.pack(">h", 1) + b"t" + struct.pack(">ii", 1, 0)
    return head + struct.pack(">hqqi", code, 9, 9, -1) + struct.pack(">i", len(records)) + records


def test_what_was_fetched_ends_behind_its_last_whole_batch() -> None:
    batch = kafka.record_batch(b"x", 5)
    second = struct.pack(">q", 5) + batch[8:]
    assert kafka.fetched_end(fetched(batch + second), "t") == 10
    assert kafka.fetched_end(fetched(batch + second[:-1]), "t") == 5
    assert kafka.fetched_end(fetched(b""), "t") is None


def test_errors_of_answers_are_found() -> None:
    answer = struct.pack(">ii", 0, 1) + b"\0\1t" + struct.pack(">iih", 1, 0, 7)
    assert kafka.produce_error(answer, "t") == 7
    broker = struct.pack(">i", 1) + b"\0\4host" + struct.pack(">i", 9092) + b"\xff\xff"
    cluster = b"\0\2id" + struct.pack(">ii", 1, 1)
    answer = struct.pack(">iii", 0, 0, 1) + broker + cluster + struct.pack(">h", 5)
    assert kafka.topic_error(answer) == 5
