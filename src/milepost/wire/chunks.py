"""Puts chunks together again.

The assembler takes chunks in the order they are delivered and says what became of each. It asks no
clock and sends nothing: time comes in with each chunk, and entries that will never be delivered come
out as positions, for the caller to ack or to hand back.

The rules, where redelivery, two producers with one name or a seek make it interesting:

    chunk              of a message that is    becomes
    0                  unknown                 Waiting; the oldest message is given up if too many wait
    0                  waiting, same entry     Waiting from the beginning (a redelivery of all of it)
    0                  waiting, other entry    Waiting as a new message: uuids repeat (producer name and
                                               sequence id), positions do not; the old chunks are given up
    the next           waiting                 Waiting, or Whole with the last
    an earlier one     waiting                 Repeated: the same entry delivered twice, or a resend
    any other          waiting or unknown      Orphan: what is missing will not come; all is given up

    >>> chunks = ChunkAssembler(waiting_max=10)
    >>> chunks.add(ChunkInfo("p-0", 0, 2, 6), Position(3, 0), b"abc", now_ms=0)
    Waiting(given_up=())
    >>> chunks.add(ChunkInfo("p-0", 1, 2, 6), Position(3, 1), b"def", now_ms=5).payload
    b'abcdef'
"""

from __future__ import annotations

from typing import Final, NamedTuple

from milepost.positions import Position
from milepost.wire.events import ChunkInfo

WAITING_MAX_DEFAULT: Final = 10
EXPIRE_AFTER_MS_DEFAULT: Final = 60_000


class Waiting(NamedTuple):
    """The chunk is kept."""

    given_up: tuple[Position, ...] = ()
    """Chunks of another message, or of an older attempt, that were dropped for this one."""


class Whole(NamedTuple):
    """The chunk was the last: here is the message."""

    payload: bytes
    """Still compressed, if the metadata says so."""
    positions: tuple[Position, ...]
    """All chunks, the first to the last: acking the message acks every one (PIP-107)."""
    given_up: tuple[Position, ...] = ()
    """As in `Waiting`; only a message of a single chunk can have any."""


class Repeated(NamedTuple):
    """The chunk came before."""

    is_same_entry: bool
    """True: this entry is held and will be acked with its message. False: a producer's resend, in an
    entry of its own that nothing else will ack."""


class Orphan(NamedTuple):
    """The chunk is of no use, and neither is what was kept of its message."""

    given_up: tuple[Position, ...]
    """Chunks of the message that had been kept; the orphan itself is not among them."""


Outcome = Waiting | Whole | Repeated | Orphan


class _Assembly:
    """A message whose chunks are coming in."""

    __slots__ = ("info", "parts", "positions", "since_ms", "size")

    def __init__(self, info: ChunkInfo, position: Position, part: bytes, now_ms: int) -> None:
        self.info = info
        # Invariant: parts[i] is chunk i, positions[i] its entry, size the sum of all parts.
        self.parts = [part]
        self.positions = [position]
        self.size = len(part)
        # When its first chunk came; what expires is a message, not a chunk.
        self.since_ms = now_ms

    def is_continued_by(self, info: ChunkInfo, size: int) -> bool:
        """The next chunk of the same message, and no more bytes than it was to have."""
        return (
            info.chunk_id == len(self.parts)
            and info.num_chunks == self.info.num_chunks
            and self.size + size <= self.info.total_size
        )


class ChunkAssembler:
    """The chunked messages of one consumer that are not whole yet."""

    def __init__(
        self,
        waiting_max: int = WAITING_MAX_DEFAULT,
        expire_after_ms: int = EXPIRE_AFTER_MS_DEFAULT,
    ) -> None:
        assert waiting_max > 0
        self._waiting_max = waiting_max
        self._expire_after_ms = expire_after_ms
        # By uuid, the oldest first. Invariant: at most waiting_max, none of them whole.
        self._assemblies: dict[str, _Assembly] = {}

    def __len__(self) -> int:
        return len(self._assemblies)

    def add(self, info: ChunkInfo, position: Position, part: bytes, now_ms: int) -> Outcome:
        """Take one chunk, its part of the payload decrypted."""
        assembly = self._assemblies.get(info.uuid)
        if info.chunk_id == 0:
            return self._begin(info, position, part, now_ms)
        if assembly is None:
            return Orphan(())
        if info.chunk_id < len(assembly.parts):
            return Repeated(position in assembly.positions)
        if not assembly.is_continued_by(info, len(part)):
            del self._assemblies[info.uuid]
            return Orphan(tuple(assembly.positions))
        assembly.parts.append(part)
        assembly.positions.append(position)
        assembly.size += len(part)
        if not info.is_last:
            return Waiting()
        del self._assemblies[info.uuid]
        return Whole(b"".join(assembly.parts), tuple(assembly.positions))

    def expire(self, now_ms: int) -> list[Position]:
        """Give up what began too long ago; the positions of its chunks."""
        given_up: list[Position] = []
        for uuid, assembly in list(self._assemblies.items()):
            if now_ms - assembly.since_ms >= self._expire_after_ms:
                del self._assemblies[uuid]
                given_up += assembly.positions
        return given_up

    def clear(self) -> list[Position]:
        """Give up everything, as after a seek; the positions of all chunks kept."""
        given_up = [p for assembly in self._assemblies.values() for p in assembly.positions]
        self._assemblies.clear()
        return given_up

    def _begin(self, info: ChunkInfo, position: Position, part: bytes, now_ms: int) -> Outcome:
        old = self._assemblies.pop(info.uuid, None)
        # The same entries will come again behind a redelivered first chunk: they are not given up.
        given_up = [] if old is None or position in old.positions else list(old.positions)
        if len(part) > info.total_size:
            return Orphan(tuple(given_up))
        if info.is_last:
            return Whole(part, (position,), tuple(given_up))
        if len(self._assemblies) >= self._waiting_max:
            oldest = next(iter(self._assemblies))
            given_up += self._assemblies.pop(oldest).positions
        self._assemblies[info.uuid] = _Assembly(info, position, part, now_ms)
        return Waiting(tuple(given_up))
