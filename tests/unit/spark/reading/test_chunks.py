"""Chunks of a slice: each message once and whole, whatever lies before the slice and is sent again."""

from __future__ import annotations

import pytest
from stage.made import chunk

from milepost.spark.reading.chunks import Chunk, SliceChunks, WholeMessage, held
from milepost.spark.reading.entries import read_entry


def made(index: int, chunk_id: int, of: int = 3, uuid: str = "u") -> Chunk:
    one = chunk(index, b"%d" % index, chunk_id, of, 100, uuid=uuid)
    return Chunk(one, read_entry(one))


def payload(whole: WholeMessage | None) -> bytes | None:
    return None if whole is None else whole.payload


def nothing(uuid: str) -> list[Chunk]:
    return []


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        ([0, 1, 2], [0, 1, 2]),
        ([0, 1, 1, 2], [0, 1, 3]),
        ([0, 2, 1], [0, 2]),
        ([0, 1, 0, 1], [2, 3]),
        ([1, 2], []),
        ([0, 1, 2, 2, 1], [0, 1, 2]),
    ],
)
def test_which_chunks_make_a_message(ids: list[int], kept: list[int]) -> None:
    chunks = [made(index, chunk_id) for index, chunk_id in enumerate(ids)]
    assert held(chunks) == [chunks[index] for index in kept]


def test_messages_run_into_each_other() -> None:
    chunks = SliceChunks(nothing)
    assert chunks.add(made(0, 0, 2, "u")) is None
    assert chunks.add(made(1, 0, 2, "v")) is None
    assert payload(chunks.add(made(2, 1, 2, "u"))) == b"02"
    assert payload(chunks.add(made(3, 1, 2, "v"))) == b"13"


def test_what_lies_before_the_slice_is_looked_for_once_it_is_needed() -> None:
    asked: list[str] = []

    def before(uuid: str) -> list[Chunk]:
        asked.append(uuid)
        return [made(3, 0), made(4, 1)]

    chunks = SliceChunks(before)
    assert asked == []
    whole = chunks.add(made(9, 2))
    assert whole is not None
    assert (whole.payload, whole.first.entry_id, whole.last.entry_id) == (b"349", 3, 9)
    assert asked == ["u"]
    # A producer sends its last chunk again: the message is done, and is not looked for again.
    assert chunks.add(made(10, 2)) is None
    assert asked == ["u"]
    # The uuid begins again: another message.
    assert [payload(chunks.add(made(11 + n, n))) for n in range(3)] == [None, None, b"111213"]


def test_a_message_that_was_done_before_the_slice_is_not_done_again() -> None:
    chunks = SliceChunks(lambda uuid: [made(1, 0), made(2, 1), made(3, 2)])
    assert chunks.add(made(9, 2)) is None


def test_an_orphan_is_nobodys() -> None:
    chunks = SliceChunks(nothing)
    assert chunks.add(made(9, 2)) is None
    assert chunks.add(made(10, 1)) is None
