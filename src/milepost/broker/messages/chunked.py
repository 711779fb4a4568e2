"""Which chunks of a chunked message are stored, missing or orphaned, at publish.

A producer cuts a large message into chunks that share a uuid, and sends each as an entry of its own
(PIP-107); entries of others may lie between them. Beside every chunk but the first stand the indexes of
the message's first chunk and of the chunk before it. So a message is found whole from its last chunk,
after a restart too, and `LAST_CHUNK` is set on a last chunk that completes a message and on no other.

A producer resends what it has no receipt for: the message anew, or the rest of it.

    chunk 0            begins the message; what there was of it is left behind
    the next chunk     is tied to those before it
    one that is there  DUPLICATE: answered, not stored again (on its way to the disk still: UNKNOWN)
    any other          an orphan: stored, tied to no message, never delivered

All chunks of a message are of one transaction, or of none: a chunk of another one is refused, for one end of
the two could show half a message. What a transaction leaves unfinished at its end can never be finished, and
is forgotten.

Only of the uuid's newest message is anything remembered, and only of so many uuids: a uuid is a
producer's name and a sequence id, and a restarted producer may use it again. The owner of
the log looks up there what is forgotten here; nothing is read here.

How many messages may be unfinished is limited, for a topic and for each producer: every subscription has
to wait for them. A producer that begins one more is refused until one of them is finished, or got nothing
new for an hour.

    >>> chunked = ChunkedMessages()
    >>> first, last = ChunkInfo("p-7", 0, 2, 100), ChunkInfo("p-7", 1, 2, 100)
    >>> chunked.tie(first, index=4), chunked.stored(first, 4)
    ((4, b''), None)
    >>> flags, beside = chunked.tie(last, index=6)
    >>> flags == CHUNK | LAST_CHUNK, Tie.of(beside)
    (True, Tie(first_index=4, previous_index=4))
    >>> chunked.judge(last), chunked.stored(last, 6), chunked.judge(last), chunked.indexes_of(6)
    (<SendVerdict.UNKNOWN: 'unknown'>, None, <SendVerdict.DUPLICATE: 'duplicate'>, (4, 6))
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from milepost.broker.messages.send_verdict import SendVerdict
from milepost.errors import NotAllowed
from milepost.storage.ledgers.entry import CHUNK, LAST_CHUNK
from milepost.wire.events import ChunkInfo

if TYPE_CHECKING:
    from milepost.broker.settings.settings import Settings
    from milepost.positions.ids import Position
    from milepost.positions.transactions import TxnId
    from milepost.storage.interface import Disk, Log

# Messages remembered; past it the one that was longest without a new chunk is forgotten.
MESSAGES_MAX: Final = 10_000

# A message that got no chunk for so long will get none.
PATIENCE_S: Final = 60 * 60

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


class ChunkLimits(NamedTuple):
    """What producers may ask of a topic; 0 is no limit."""

    unfinished_per_topic: int = 0
    unfinished_per_producer: int = 0
    chunks_per_message: int = 0

    @classmethod
    def of(cls, settings: Settings) -> ChunkLimits:
        return cls(
            settings.max_pending_chunked_messages_per_topic,
            settings.max_pending_chunked_messages_per_producer,
            settings.max_chunks_per_message,
        )


class _Message:
    __slots__ = (
        "first_index",
        "indexes",
        "num_chunks",
        "producer",
        "stored_count",
        "tied_count",
        "touched_s",
        "transaction",
    )

    def __init__(
        self, num_chunks: int, first_index: int, producer: str, transaction: TxnId | None
    ) -> None:
        self.num_chunks = num_chunks
        self.first_index = first_index
        self.producer = producer
        """Who began it; empty for a message that was recalled."""
        self.transaction = transaction
        """The one that all its chunks are of."""
        self.touched_s = 0.0
        """When its newest chunk came."""
        self.tied_count = 0
        """Chunks that were given an index.  Invariant: at most `num_chunks`."""
        self.stored_count = 0
        """Those of them that are on disk.  Invariant: at most `tied_count`."""
        self.indexes: list[int] = []
        """Of the tied chunks, in order; of the newest only, for a message that was recalled."""

    @property
    def is_finished(self) -> bool:
        return self.tied_count == self.num_chunks


class ChunkedMessages:
    """The newest message of each uuid, and where the chunks of whole ones lie."""

    __slots__ = (
        "_by_producer",
        "_by_transaction",
        "_finished",
        "_messages_max",
        "_now_s",
        "_unfinished",
        "_wholes",
        "is_recalled",
    )

    # Are the chunks known that an earlier process stored last?
    is_recalled: bool

    # By uuid; the one without a new chunk for longest first.  Invariant: at most `_messages_max` each,
    # and no uuid in both.
    _unfinished: OrderedDict[str, _Message]
    _finished: OrderedDict[str, _Message]

    # Producer → its unfinished messages.  Invariant: none is zero.
    _by_producer: Counter[str]

    # Transaction → uuids of its unfinished messages.  Invariant: none is empty.
    _by_transaction: dict[TxnId, set[str]]

    # Index of the last chunk → indexes of all chunks.  Invariant: at most `_messages_max`.
    _wholes: OrderedDict[int, tuple[int, ...]]

    def __init__(
        self, *, messages_max: int = MESSAGES_MAX, now_s: Callable[[], float] = lambda: 0.0
    ) -> None:
        assert messages_max > 0, messages_max
        self._messages_max = messages_max
        self._now_s = now_s
        self._unfinished = OrderedDict()
        self._finished = OrderedDict()
        self._by_producer = Counter()
        self._by_transaction = {}
        self._wholes = OrderedDict()
        self.is_recalled = False

    @property
    def unfinished_count(self) -> int:
        """Messages whose last chunk is still to come."""
        return len(self._unfinished)

    @property
    def is_empty(self) -> bool:
        """Is no message remembered?"""
        return not (self._unfinished or self._finished)

    def knows(self, chunk: ChunkInfo) -> bool:
        """Is anything remembered of its uuid?"""
        return self._message_of(chunk) is not None

    def refusal(
        self,
        chunk: ChunkInfo,
        producer: str,
        limits: ChunkLimits,
        transaction: TxnId | None = None,
    ) -> NotAllowed | None:
        """What the limits, or the chunks before it, have against a chunk."""
        message = None if chunk.is_first else self._message_of(chunk)
        if message is not None and message.transaction != transaction:
            return NotAllowed(
                f"chunk {chunk.chunk_id} of message {short_uuid(chunk.uuid)} "
                f"{_in_words(transaction)}; those before it came {_in_words(message.transaction)}"
            )
        chunks_max = limits.chunks_per_message
        if chunks_max and chunk.num_chunks > chunks_max:
            return NotAllowed(
                f"a message of {chunk.num_chunks} chunks; {chunks_max} is the most "
                "(max_chunks_per_message)"
            )
        if not chunk.is_first or chunk.is_last or self.knows(chunk):
            return None
        if self._is_past(producer, limits):
            self._expire()
        if not self._is_past(producer, limits):
            return None
        return NotAllowed(
            f"{self._by_producer[producer]} chunked messages of producer {producer}, and "
            f"{len(self._unfinished)} of the topic, are unfinished; finish one before another begins "
            "(max_pending_chunked_messages_per_producer, max_pending_chunked_messages_per_topic)"
        )

    def _is_past(self, producer: str, limits: ChunkLimits) -> bool:
        of_topic, of_producer = limits.unfinished_per_topic, limits.unfinished_per_producer
        return bool(
            (of_topic and len(self._unfinished) >= of_topic)
            or (of_producer and self._by_producer[producer] >= of_producer)
        )

    def _expire(self) -> None:
        """Forget messages that will never be finished."""
        latest = self._now_s() - PATIENCE_S
        while self._unfinished and next(iter(self._unfinished.values())).touched_s <= latest:
            self._drop(next(iter(self._unfinished)))

    def judge(self, chunk: ChunkInfo) -> SendVerdict:
        """Is the chunk to be stored? If it is not its message's first and is not known here (`knows`), look
        in the log before you ask."""
        message = self._message_of(chunk)
        if message is None or chunk.is_first or chunk.num_chunks != message.num_chunks:
            return SendVerdict.NEW
        if chunk.chunk_id < message.stored_count:
            return SendVerdict.DUPLICATE
        return SendVerdict.UNKNOWN if chunk.chunk_id < message.tied_count else SendVerdict.NEW

    def tie(
        self,
        chunk: ChunkInfo,
        index: int,
        producer: str = "",
        transaction: TxnId | None = None,
    ) -> tuple[int, bytes]:
        """A chunk that was judged NEW goes to the journal under an index: the flags of its entry, and
        what to store beside it."""
        message = self._message_of(chunk)
        if chunk.is_first:
            message = _Message(chunk.num_chunks, index, producer, transaction)
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
        self._put(short_uuid(chunk.uuid), message)
        return CHUNK | LAST_CHUNK if chunk.is_last else CHUNK, beside

    def stored(self, chunk: ChunkInfo, index: int) -> None:
        """A chunk is on disk. In the order of the log."""
        if self.index_of(chunk) != index:
            return  # an orphan, or left behind by a newer beginning
        message = self._message_of(chunk)
        assert message is not None, chunk
        message.stored_count = chunk.chunk_id + 1
        if chunk.is_last and len(message.indexes) == message.num_chunks:
            self.found_whole(message.indexes)

    def refused(self) -> None:
        """The journal refused everything that is tied and not stored."""
        for uuid, message in [*self._unfinished.items(), *self._finished.items()]:
            lost = message.tied_count - message.stored_count
            if lost:
                del message.indexes[len(message.indexes) - lost :]
                message.tied_count = message.stored_count
                self._drop(uuid)
                if message.stored_count:
                    self._put(uuid, message)

    def ended(self, transactions: Iterable[TxnId]) -> None:
        """Transactions have ended: what they have not finished never will be."""
        if self._by_transaction:
            for txn_id in transactions:
                for uuid in list(self._by_transaction.get(txn_id, ())):
                    self._drop(uuid)

    def recalled(
        self, chunk: ChunkInfo, index: int, beside: bytes, transaction: TxnId | None = None
    ) -> None:
        """A chunk found in the log: the newest of its uuid. Orphans say nothing."""
        tie = Tie.of(beside)
        if tie is None and not chunk.is_first:
            return
        first_index = index if tie is None else tie.first_index
        message = _Message(chunk.num_chunks, first_index, "", transaction)
        message.tied_count = message.stored_count = chunk.chunk_id + 1
        message.indexes.append(index)
        self._put(short_uuid(chunk.uuid), message)

    def index_of(self, chunk: ChunkInfo) -> int | None:
        """The index of a chunk that is tied; None if it is not, or is forgotten."""
        message = self._message_of(chunk)
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

    @property
    def has_wholes(self) -> bool:
        """Is it known of any message where all its chunks lie?"""
        return bool(self._wholes)

    def indexes_of(self, last_index: int) -> tuple[int, ...] | None:
        """Where the chunks of the message lie whose last chunk has this index; None if forgotten."""
        return self._wholes.get(last_index)

    def _message_of(self, chunk: ChunkInfo) -> _Message | None:
        uuid = short_uuid(chunk.uuid)
        return self._unfinished.get(uuid) or self._finished.get(uuid)

    def _put(self, uuid: str, message: _Message) -> None:
        """A message got a chunk: it is the newest, in the place of what there was of its uuid."""
        self._drop(uuid)
        message.touched_s = self._now_s()
        messages = self._finished if message.is_finished else self._unfinished
        messages[uuid] = message
        if messages is self._unfinished:
            self._by_producer[message.producer] += 1
            if message.transaction is not None:
                self._by_transaction.setdefault(message.transaction, set()).add(uuid)
        if len(messages) > self._messages_max:
            self._drop(next(iter(messages)))

    def _drop(self, uuid: str) -> None:
        self._finished.pop(uuid, None)
        message = self._unfinished.pop(uuid, None)
        if message is not None:
            self._by_producer[message.producer] -= 1
            if not self._by_producer[message.producer]:
                del self._by_producer[message.producer]
            if message.transaction is not None:
                uuids = self._by_transaction[message.transaction]
                uuids.discard(uuid)
                if not uuids:
                    del self._by_transaction[message.transaction]


class ChunkSearch(Protocol):
    """Finds in the log what is not remembered here, and remembers it. `chunk_search.py` does it."""

    def recall(
        self,
        log: Log,
        end_index: int,
        chunked: ChunkedMessages,
        has_ended: Callable[[TxnId], bool],
        disk: Disk,
        /,
    ) -> Coroutine[Any, Any, None]: ...

    def find_whole(
        self, log: Log, chunked: ChunkedMessages, position: Position, disk: Disk, /
    ) -> Coroutine[Any, Any, tuple[int, ...]]: ...

    def find_first(
        self, log: Log, firsts: OrderedDict[Position, int], position: Position, disk: Disk, /
    ) -> Coroutine[Any, Any, int]: ...


def _in_words(transaction: TxnId | None) -> str:
    return "in no transaction" if transaction is None else f"in transaction {transaction}"


def short_uuid(uuid: str) -> str:
    """What to remember a chunked message by."""
    if len(uuid) <= _UUID_LENGTH_MAX:
        return uuid
    return blake2b(uuid.encode(), digest_size=32).hexdigest()
