"""What the message ids in acks, seeks and redeliveries mean, as indexes.

This is the border between addresses and indexes: cursors and dispatchers know only indexes.

An id names an entry, one message of a batch (by its index or by an ack set), or a chunked message (by
its last chunk). Which indexes that is depends on what it is for: acking, releasing, or starting there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from milepost.errors import IndexNotFound, MilepostError, NotFound, TooManyRequests
from milepost.positions.ackset import AckSet
from milepost.positions.ids import EARLIEST, LATEST, Position
from milepost.positions.ranges import IndexRanges, Range
from milepost.storage.ledgers.entry import CHUNK, LAST_CHUNK
from milepost.storage.ledgers.not_in_memory import NotInMemory
from milepost.wire.events import Ack, WireId
from milepost.wire.scanners.ack_slices import ACKED_RANGES_MAX

if TYPE_CHECKING:
    from milepost.broker.topic.topic import Topic


# Ranges of chunks that an ack is obeyed for in one go; those of one message are not divided.
CHUNK_RANGES_MAX: Final = 1024

# What earlier parts of a long REDELIVER named. A later part releases only what is new, and adds it.
Named: TypeAlias = IndexRanges | None

# What a consumer means of the messages that one id in its ack names; None: all of them.
Meant: TypeAlias = Callable[[Sequence[Range]], Sequence[Range]] | None

# The same of a cumulative ack: from the first and the end of what its id names of one entry, the end.
MeantEnd: TypeAlias = Callable[[int, int], int] | None


def acked(
    topic: Topic, ack: Ack, *, batch_index_ack: bool, end_index: int, meant: Meant = None
) -> tuple[list[Range], MilepostError | None]:
    """What individual acks cover, and what was wrong with an id that covers nothing.

    What is behind `end_index` is not visible: it belongs to an open transaction, or lies behind one, and
    no consumer can have got it. `meant`: what the sender means of what one id names.
    """
    ranges: list[Range] = []
    failure: MilepostError | None = None
    missing: list[NotInMemory] = []
    window = ack.window
    for message_id in ack.ids:
        try:
            found = acked_ranges(topic, message_id, batch_index_ack=batch_index_ack, window=window)
            if len(ranges) + len(found) > ACKED_RANGES_MAX:
                raise _too_many()
        except NotInMemory as one:
            missing.append(one)
        except MilepostError as error:
            failure = error
        else:
            if found and found[-1][1] > end_index:
                failure = IndexNotFound(
                    f"{topic.name}: an ack of [{found[-1][0]}, {found[-1][1]}), the end is {end_index}"
                )
                continue
            ranges += found if meant is None else meant(found)
    if missing:
        raise NotInMemory.all_of(missing)
    return ranges, failure


def ids_at_once(topic: Topic, ids: Sequence[WireId]) -> int:
    """How many of the ids an ack is obeyed for in one go: the chunks of a message may lie anywhere, and
    each is a range of its own then."""
    ranges = 0
    for at, (ledger_id, entry_id, *_) in enumerate(ids):
        try:
            if topic.lookup(ledger_id, entry_id)[2] & LAST_CHUNK:
                ranges += len(topic.chunk_ranges(ledger_id, entry_id))
        except (NotInMemory, MilepostError):
            continue  # it is brought, or told, when it is obeyed
        if ranges > CHUNK_RANGES_MAX:
            return max(at, 1)
    return len(ids)


def acked_ranges(
    topic: Topic, message_id: WireId, *, batch_index_ack: bool, window: Range | None = None
) -> list[Range]:
    """What an individual ack of an id covers. `window`: the batch indexes that its ack set speaks of."""
    ledger_id, entry_id, _, _, words, _ = message_id
    try:
        first, end, flags = topic.lookup(ledger_id, entry_id)
    except NotFound:
        if topic.has_trimmed(ledger_id):
            return []  # trimmed, and so it counts as acked
        raise
    if not words and not flags & (CHUNK | LAST_CHUNK):
        return [(first, end)]  # most are
    if words:
        # Where acks at batch index level are off, an ack of a part of a batch acks nothing, as upstream.
        if not batch_index_ack:
            return []
        if window is not None:
            first, end = first + window[0], min(end, first + window[1])
            if first >= end:
                return []
        pending = AckSet.from_ack_words(words, end - first)
        # Between the runs that are pending lie those that are acked; each has a bit that differs
        # from the one below it where it begins, and one where it ends.
        if (
            pending.size > ACKED_RANGES_MAX
            and (pending.bits ^ pending.bits << 1).bit_count() // 2 - 1 > ACKED_RANGES_MAX
        ):
            raise _too_many()
        return pending.acked_runs(first)
    if flags & LAST_CHUNK:
        # A chunked message is one message: its last chunk speaks for all (PIP-107), also when the
        # id was deserialised and the chunks between are forgotten.
        return [*topic.chunk_ranges(ledger_id, entry_id), (first, end)]
    if flags & CHUNK:
        # A client that gives up its half of a message acks the chunks it has. The message is not done:
        # it goes to the next consumer whole.
        return []
    return [(first, end)]


def _too_many() -> TooManyRequests:
    return TooManyRequests(f"an ack of more than {ACKED_RANGES_MAX} ranges; send it in parts")


def acked_end(
    topic: Topic, message_id: WireId, *, batch_index_ack: bool, meant: MeantEnd = None
) -> int:
    """Behind the last index that a cumulative ack of an id covers. `meant`: the last that its sender means
    of the messages that the id names."""
    ledger_id, entry_id, _, _, words, _ = message_id
    if entry_id < 0:
        # "Everything before this ledger's first entry": what clients send while the batch that
        # begins a ledger is not done.
        return topic.first_index_of(ledger_id)
    try:
        first, end, _ = topic.lookup(ledger_id, entry_id)
    except NotFound:
        if topic.has_trimmed(ledger_id):
            return topic.log.first_index
        raise
    if words and not batch_index_ack:
        return first
    if words:
        pending = AckSet.from_ack_words(words, end - first).first_pending
        end = end if pending is None else first + pending
    return end if meant is None else meant(first, end)


def released_ranges(topic: Topic, ids: Iterable[WireId], named: Named = None) -> list[Range]:
    """What to bring back when these ids are to be redelivered: whole entries."""
    ranges: list[Range] = []
    missing: list[NotInMemory] = []
    for message_id in ids:
        try:
            first, end, _ = topic.lookup(message_id.ledger_id, message_id.entry_id)
        except NotInMemory as one:
            missing.append(one)
        except NotFound:
            continue  # trimmed meanwhile: nothing to bring back
        else:
            ranges.append((first, end))
    if missing:
        raise NotInMemory.all_of(missing)
    return ranges if named is None else [one for one in ranges if named.add(*one)]


def start_index(
    topic: Topic,
    ledger_id: int,
    entry_id: int,
    *,
    batch_index: int = -1,
    ack_set: Sequence[int] = (),
    whole_entry: bool = False,
) -> int:
    """Where to start for an id: exact inside a batch, at the first chunk of a chunked message.

    Ids that are no longer there, or not yet, mean the nearest that is. `whole_entry`: with the
    entry's own first message, for clients that filter the rest themselves.
    """
    position = Position(ledger_id, entry_id)
    if ledger_id < 0 or position == EARLIEST.position:
        return topic.log.first_index
    if position == LATEST.position:
        return topic.visible_end
    try:
        first, end, flags = topic.lookup(ledger_id, entry_id)
    except NotFound:
        return topic.log.index_from(position)
    if whole_entry:
        return first
    if flags & CHUNK:
        return topic.first_chunk_index(ledger_id, entry_id)
    if ack_set:
        pending = AckSet.from_message_words(ack_set, end - first).first_pending
        return end if pending is None else first + pending
    if 0 <= batch_index < end - first:
        return first + batch_index
    return first


def start_index_at(topic: Topic, time_ms: int) -> int:
    """Where to start for a time: with the first message that came not before it. A chunked message
    came when its last chunk did, and begins with its first."""
    return _whole(topic, topic.log.index_at(max(time_ms, 0)))


def index_start(topic: Topic, index: int) -> int:
    """Where to start for an index: there, or with the first chunk of the message that it is in."""
    if not 0 <= index <= topic.visible_end:
        raise IndexNotFound(f"{topic.name}: index {index} is not in [0, {topic.visible_end}]")
    return _whole(topic, max(index, topic.log.first_index))


def _whole(topic: Topic, index: int) -> int:
    if index < topic.log.end_index:
        position, _, _, flags = topic.log.locate(index)
        if flags & CHUNK:
            return topic.first_chunk_index(*position)
    return index
