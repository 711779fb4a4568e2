"""Entries to MESSAGE frames: one by one, or in runs.

Most go out in runs, one step of the cursor for all of them. A consumer that asked for it gets a run as one
frame, as the log has it, and nothing is done for each entry.

A run is consecutive entries that are nothing special: every message of them ready, all released equally
often (mostly never), no chunk or marker among them. Anything else goes out alone, with what the client has
to know about it.
Looks at the cursor and never moves it; sends nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from milepost.broker.dispatch.consumer import NO_EPOCH, Consumer
from milepost.broker.peer import Buffer
from milepost.cursor.cursor import Cursor
from milepost.positions import unsigned64
from milepost.positions.ackset import AckSet
from milepost.storage.ledgers.entry import CHUNK, DELAYED, MARKER, Entry
from milepost.storage.ledgers.stored_run import StoredRun
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import encode_command
from milepost.wire.frames import entry_frame as command_with_entry
from milepost.wire.metadata import encode_broker_entry

# Entries that are never part of a run: a marker goes to no consumer, a chunk has a consumer of its own, and
# what names a time may have to wait for it.
_ALONE: Final = MARKER | CHUNK | DELAYED

# Entry id, last index, time and payload of an `Entry`: what the frames of a run are made of.
_FRAME_FIELDS: Final = itemgetter(1, 2, 4, 7)


def uniform_run(
    cursor: Cursor, entries: Sequence[Entry], at: int, *, room: int, entries_max: int
) -> tuple[Sequence[Entry], int]:
    """The run that begins with `entries[at]`, for a consumer with so much room, and its redelivery
    count; empty if the entry is something special."""
    if entries_max == 1 or entries[at].flags & _ALONE:
        return (), 0
    first_index = entries[at].last_index - entries[at].count + 1
    offered = entries[-1].last_index + 1 - first_index
    ready = cursor.next_ready(first_index, offered)
    if ready is None or ready[0] != first_index:
        return (), 0
    redelivery_count, run_end = cursor.redelivery_run(first_index, ready[1])
    room_end = first_index + room
    end = at
    for entry in entries[at : at + entries_max]:
        # An entry goes out whole as long as there is room for the first message of it.
        if (
            entry.flags & _ALONE
            or entry.last_index >= run_end
            or entry.last_index - entry.count + 1 >= room_end
        ):
            break
        end += 1
    return entries[at:end], redelivery_count


def run_frames(
    consumer: Consumer, run: Sequence[Entry], redelivery_count: int, *, shows_index: bool
) -> list[Buffer]:
    return consumer.encoder.run(
        run[0].ledger_id,
        map(_FRAME_FIELDS, run),
        consumer.epoch,
        redelivery_count,
        shows_index=shows_index,
    )


def stored_run_frame(consumer: Consumer, run: StoredRun, data: bytes) -> list[Buffer]:
    """Entries as they are stored, for a consumer that asked for them, uncopied."""
    message_id = pb.MessageIdData(
        ledgerId=run.ledger.ledger_id,
        entryId=run.first_entry_id,
        partition=consumer.subscription.topic.name.partition,
    )
    command = pb.CommandMessage(
        consumer_id=unsigned64(consumer.consumer_id),
        message_id=message_id,
        stored_entries=run.entries,
    )
    if consumer.epoch != NO_EPOCH:
        command.consumer_epoch = consumer.epoch
    return [command_with_entry(encode_command(command), len(data)), data]


def entry_frame(
    consumer: Consumer,
    entry: Entry,
    shown: AckSet | None,
    redelivery_count: int,
    *,
    shows_index: bool,
) -> list[Buffer]:
    """One entry, of which the client is to see what is in `shown`; None: all of it."""
    head = consumer.encoder.head(
        entry.ledger_id,
        entry.entry_id,
        len(entry.payload),
        redelivery_count,
        () if shown is None else shown.to_message_words(),
        consumer.epoch,
        encode_broker_entry(entry.timestamp_ms, entry.last_index) if shows_index else b"",
    )
    return [head, entry.payload]
