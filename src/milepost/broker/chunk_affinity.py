"""ChunkAffinity: on a Shared subscription, which consumer must get the rest of a chunked message.

A chunked message can be put together only by a consumer that gets all of it (PIP-107). Its first
chunk goes to anybody; from then until its last chunk is assigned, the others follow.

A chunk whose beginning is not known here, an *orphan*, has no holder: it may go to anybody, who will
find that it cannot be put together and acknowledge it or let it be. It must never wait for a first
chunk that was acknowledged or trimmed long ago: upstream does, and the subscription stalls for good.

Remembers holders, chooses nobody. What is forgotten (a consumer that left, the oldest message when
there are too many) makes orphans, and orphans do no harm.

    >>> affinity = ChunkAffinity()
    >>> first, last = ChunkInfo("p-7", 0, 2, 100), ChunkInfo("p-7", 1, 2, 100)
    >>> affinity.holder_of(first), affinity.assigned(first, holder=3), affinity.holder_of(last)
    (None, None, 3)
    >>> affinity.assigned(last, holder=3), affinity.holder_of(last)
    (None, None)
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from milepost.wire.events import ChunkInfo

# Chunked messages under way; past it the one that began first is forgotten.
MESSAGES_MAX: Final = 10_000

# A uuid is a producer's name and a number. One that is longer is kept as its digest: how much is
# remembered is not the producer's choice.
_UUID_LENGTH_MAX: Final = 256


class ChunkAffinity:
    """Holders of unfinished chunked messages, by uuid."""

    __slots__ = ("_holders", "_messages_max")

    # The one that began first comes first.  Invariant: at most `_messages_max`.
    _holders: dict[str, int]

    def __init__(self, *, messages_max: int = MESSAGES_MAX) -> None:
        assert messages_max > 0, messages_max
        self._holders = {}
        self._messages_max = messages_max

    def holder_of(self, chunk: ChunkInfo) -> int | None:
        """Who must get this chunk, and has to be waited for; None: anybody.

        A first chunk may have a holder too: when it is delivered again, and when a restarted
        producer uses a uuid again.
        """
        return self._holders.get(short_uuid(chunk.uuid))

    def assigned(self, chunk: ChunkInfo, holder: int) -> None:
        """The chunk was delivered to `holder`. Not before: asked again after a delivery that did not
        happen, the answer must be the same."""
        uuid = short_uuid(chunk.uuid)
        if chunk.is_last:
            self._holders.pop(uuid, None)
        elif chunk.is_first:
            self._holders.pop(uuid, None)
            if len(self._holders) >= self._messages_max:
                del self._holders[next(iter(self._holders))]
            self._holders[uuid] = holder

    def leave(self, holder: int) -> None:
        """A consumer is gone. Its chunks are ready again, the first ones first."""
        self._holders = {uuid: kept for uuid, kept in self._holders.items() if kept != holder}

    def clear(self) -> None:
        """The cursor was moved: everything begins anew."""
        self._holders.clear()

    def __len__(self) -> int:
        return len(self._holders)


def short_uuid(uuid: str) -> str:
    """What to remember a chunked message by."""
    if len(uuid) <= _UUID_LENGTH_MAX:
        return uuid
    return blake2b(uuid.encode(), digest_size=32).hexdigest()
