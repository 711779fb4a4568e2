"""Puts the chunked messages of a slice together.

A message belongs to the range of its last chunk. Its first chunks may lie before the slice: then they are
looked for behind its beginning, and only for messages that end in it. The rule which chunks make a message
is the broker's own, so that every slicing gives the same messages:

    chunk 0            begins the message; what there was of it is left behind
    the next chunk     is added
    any other          changes nothing: a repetition, or an orphan

    chunks = SliceChunks(first_index=100, look_back=before_100)
    chunks.add(entry)      # None, or the whole message if this was its last chunk
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from milepost.spark.reading.entries import RawEntry
from milepost.wire.metadata import EntryParts, chunk_info


class Chunk(NamedTuple):
    entry: RawEntry
    parts: EntryParts


class WholeMessage(NamedTuple):
    first: RawEntry
    last: RawEntry
    parts: EntryParts
    """Those of the last chunk, which speaks for the message."""
    payload: bytes
    """Still compressed, if the metadata says so."""


def is_chunk(parts: EntryParts) -> bool:
    return chunk_info(parts.metadata) is not None


def held(chunks: Iterable[Chunk]) -> list[Chunk]:
    """The chunks of one uuid, in order, by the rule above: what is there of its newest message."""
    found: list[Chunk] = []
    for chunk in chunks:
        metadata = chunk.parts.metadata
        if metadata.chunk_id == 0:
            found = [chunk]
        elif (
            found
            and metadata.chunk_id == len(found)
            and metadata.num_chunks_from_msg == found[0].parts.metadata.num_chunks_from_msg
        ):
            found.append(chunk)
    return found


class SliceChunks:
    """The messages whose chunks a slice has met and whose last one it has not."""

    def __init__(self, look_back: Callable[[str], list[Chunk]]) -> None:
        """`look_back` gives the chunks of a uuid that lie before the slice, from the newest chunk 0 on."""
        self._look_back = look_back
        # By uuid, in order. Invariant: begins with a chunk 0, unless nothing before it was met.
        self._met: dict[str, list[Chunk]] = {}
        # Messages that are done: until a chunk 0 begins another, theirs are repetitions.
        self._done: set[str] = set()

    def add(self, chunk: Chunk) -> WholeMessage | None:
        """Take a chunk in the order of the log; the message, if this completes it."""
        metadata = chunk.parts.metadata
        uuid = metadata.uuid
        if metadata.chunk_id == 0:
            self._done.discard(uuid)
            self._met[uuid] = [chunk]
        elif uuid in self._done:
            return None
        else:
            self._met.setdefault(uuid, []).append(chunk)
        if metadata.chunk_id != metadata.num_chunks_from_msg - 1:
            return None
        met = self._met[uuid]
        if met[0].parts.metadata.chunk_id != 0:
            met = self._look_back(uuid) + met
        whole = held(met)
        if not whole or len(whole) != whole[0].parts.metadata.num_chunks_from_msg:
            # An orphan. What is there stays: the rest may still come.
            self._met[uuid] = whole
            if not whole:
                del self._met[uuid]
                self._done.add(uuid)
            return None
        del self._met[uuid]
        self._done.add(uuid)
        if whole[-1] is not chunk:
            return None  # done before this slice, and repeated in it
        payload = b"".join([one.parts.payload for one in whole])
        return WholeMessage(whole[0].entry, chunk.entry, chunk.parts, payload)
