"""Chunked messages of a topic: which chunk comes next, and what ties the chunks of a message together.

A producer cuts a large message into chunks that share a uuid, and sends each as an entry of its own
(PIP-107); entries of others may lie between them. Beside every chunk but the first stand the indexes of
the message's first chunk and of the chunk before it. So a message is found whole from its last chunk,
after a restart too, and `LAST_CHUNK` is set on a last chunk that completes a message and on no other.

A producer resends what it has no receipt for: the message anew, or the rest of it.

    chunk 0            begins the message; what there was of it is left behind
    the next chunk     is tied to those before it
    one that is there  DUPLICATE: answered, not stored again (on its way to the disk still: UNKNOWN)
    any other          an orphan: stored, tied to nothing, for nobody

Only of the uuid's newest message is anything remembered, and only of so many uuids: a uuid is a
producer's name and a sequence id, and a restarted producer may use it again. What is forgotten is looked
up in the log by whoever owns it; nothing is read here.

    >>> chunked = ChunkedMessages()
    >>> first, last = ChunkInfo("p-7", 0, 2, 100), ChunkInfo("p-7", 1, 2, 100)
    >>> chunked.tie(first, index=4), chunked.stored(first, 4)
    ((4, b''), None)
    >>> flags, beside = chunked.tie(last, index=6)
    >>> flags == CHUNK | LAST_CHUNK, Tie.of(beside)
    (True, Tie(first_index=4, previous_index=4))
    >>> chunked.judge(last), chunked.stored(last, 6), chunked.judge(last), chunked.indexes_of(6)
    (<Verdict.UNKNOWN: 'unknown'>, None, <Verdict.DUPLICATE: 'duplicate'>, (4, 6))
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

from milepost.broker.dedup import Verdict
from milepost.storage.entry import CHUNK, LAST_CHUNK
from milepost.wire.events import ChunkInfo

# Messages remembered; past it the one that was longest without a new chunk is forgotten.
MESSAGES_MAX: Final = 10_000

_TIE: Final = Struct("<QQ")

# A uuid is a producer's name and a number. One that is longer is kept as its digest: how much is
# remembered is not the producer's choice.
_UUID_LENGTH_MAX: Final = 256


class Tie(NamedTuple):
    """What stands beside a chunk that is not its message's first."""

    first_index: int
    previous_index: int

    @staticmethod
    def of(beside: bytes) -> Tie | None:
        """None: a first chunk, or an orphan."""
        return Tie(*_TIE.unpack(beside)) if len(beside) == _TIE.size else None

    def to_bytes(self) -> bytes:
        return _TIE.pack(*self)


class _Message:
    __slots__ = ("first_index", "indexes", "num_chunks", "stored_count", "tied_count")

    def __init__(self, num_chunks: int, first_index: int) -> None:
        self.num_chunks = num_chunks
        self.first_index = first_index
        self.tied_count = 0
        """Chunks that were given an index.  Invariant: at most `num_chunks`."""
        self.stored_count = 0
        """Those of them that are on disk.  Invariant: at most `tied_count`."""
        self.indexes: list[int] = []
        """Of the tied chunks, in order; of the newest only, for a message that was recalled."""


class ChunkedMessages:
    """The newest message of each uuid, and where the chunks of whole ones lie."""

    __slots__ = ("_messages", "_messages_max", "_wholes")

    # By uuid; the one without a new chunk for longest first.  Invariant: at most `_messages_max`.
    _messages: OrderedDict[str, _Message]

    # Index of the last chunk → indexes of all chunks.  Invariant: at most `_messages_max`.
    _wholes: OrderedDict[int, tuple[int, ...]]

    def __init__(self, *, messages_max: int = MESSAGES_MAX) -> None:
        assert messages_max > 0, messages_max
        self._messages_max = messages_max
        self._messages = OrderedDict()
        self._wholes = OrderedDict()

    def knows(self, chunk: ChunkInfo) -> bool:
        """Is anything remembered of its uuid?"""
        return short_uuid(chunk.uuid) in self._messages

    def judge(self, chunk: ChunkInfo) -> Verdict:
        """Is the chunk to be stored? If nobody `knows` one that is not its message's first, look in the
        log before."""
        message = self._messages.get(short_uuid(chunk.uuid))
        if message is None or chunk.is_first or chunk.num_chunks != message.num_chunks:
            return Verdict.NEW
        if chunk.chunk_id < message.stored_count:
            return Verdict.DUPLICATE
        return Verdict.UNKNOWN if chunk.chunk_id < message.tied_count else Verdict.NEW

    def tie(self, chunk: ChunkInfo, index: int) -> tuple[int, bytes]:
        """A chunk that was judged NEW goes to the journal under an index: the flags of its entry, and
        what to store beside it."""
        message = self._messages.get(short_uuid(chunk.uuid))
        if chunk.is_first:
            message = _Message(chunk.num_chunks, index)
            self._messages[short_uuid(chunk.uuid)] = message
            beside = b""
        elif (
            message is None
            or chunk.num_chunks != message.num_chunks
            or chunk.chunk_id != message.tied_count
        ):
            return CHUNK, b""
        else:
            beside = Tie(message.first_index, message.indexes[-1]).to_bytes()
        message.indexes.append(index)
        message.tied_count += 1
        self._touch(chunk)
        return CHUNK | LAST_CHUNK if chunk.is_last else CHUNK, beside

    def stored(self, chunk: ChunkInfo, index: int) -> None:
        """A chunk is on disk. In the order of the log."""
        if self.index_of(chunk) != index:
            return  # an orphan, or left behind by a newer beginning
        message = self._messages[short_uuid(chunk.uuid)]
        message.stored_count = chunk.chunk_id + 1
        if chunk.is_last and len(message.indexes) == message.num_chunks:
            self.found_whole(message.indexes)

    def refused(self) -> None:
        """The journal refused everything that is tied and not stored."""
        for uuid, message in list(self._messages.items()):
            lost = message.tied_count - message.stored_count
            if lost:
                del message.indexes[len(message.indexes) - lost :]
                message.tied_count = message.stored_count
                if not message.stored_count:
                    del self._messages[uuid]

    def recalled(self, chunk: ChunkInfo, index: int, beside: bytes) -> None:
        """A chunk found in the log: the newest of its uuid. Orphans say nothing."""
        tie = Tie.of(beside)
        if tie is None and not chunk.is_first:
            return
        message = _Message(chunk.num_chunks, index if tie is None else tie.first_index)
        message.tied_count = message.stored_count = chunk.chunk_id + 1
        message.indexes.append(index)
        self._messages[short_uuid(chunk.uuid)] = message
        self._touch(chunk)

    def index_of(self, chunk: ChunkInfo) -> int | None:
        """The index of a chunk that is tied; None if it is not, or is forgotten."""
        message = self._messages.get(short_uuid(chunk.uuid))
        if message is None or chunk.chunk_id >= message.tied_count:
            return None
        at = chunk.chunk_id - message.tied_count + len(message.indexes)
        return message.indexes[at] if at >= 0 else None

    def found_whole(self, indexes: Sequence[int]) -> None:
        """A message is whole: remember where its chunks lie."""
        self._wholes[indexes[-1]] = tuple(indexes)
        self._wholes.move_to_end(indexes[-1])
        if len(self._wholes) > self._messages_max:
            self._wholes.popitem(last=False)

    def indexes_of(self, last_index: int) -> tuple[int, ...] | None:
        """Where the chunks of the message lie whose last chunk has this index; None if forgotten."""
        return self._wholes.get(last_index)

    def _touch(self, chunk: ChunkInfo) -> None:
        self._messages.move_to_end(short_uuid(chunk.uuid))
        if len(self._messages) > self._messages_max:
            self._messages.popitem(last=False)


def short_uuid(uuid: str) -> str:
    """What to remember a chunked message by."""
    if len(uuid) <= _UUID_LENGTH_MAX:
        return uuid
    return blake2b(uuid.encode(), digest_size=32).hexdigest()
