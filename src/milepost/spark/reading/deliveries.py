"""Reads MESSAGE frames, and runs of stored entries, by compiled loops.

A task that reads a topic whose messages came one by one hears as many frames as there are messages, and
reading each in Python takes longer than decoding and handing over what is in it. The loop takes the frames at
the front of what was received, up to the first that is not a plain MESSAGE or is not whole; the protocol
reads that one and what lies behind it, and says what is wrong. The loop never does.

Milepost sends runs: many entries in one frame, as its log has them, so that it does nothing for each of them
either. Each entry's own checksum is compared here, since the broker did not look. A reader that finds damage
reads on in single frames, where the broker says what it passes over.

    link = TaskLink.open(endpoint, topic)
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from milepost.errors import CorruptData
from milepost.spark.reading.blocks import Block
from milepost.spark.reading.compiled_bytes import compiled, size32, varint
from milepost.spark.reading.link import Link
from milepost.spark.reading.scan import STORED_SIZE_MIN, scan_stored
from milepost.wire.events import Delivery

# With fewer bytes the loop is not worth its call.
RECEIVED_MIN: Final = 4096
# A MESSAGE frame has this at least: two sizes, the command, a checksum and metadata.
FRAME_SIZE_MIN: Final = 40

# Columns of what the loop finds.
_CONSUMER, _LEDGER, _ENTRY, _BEGIN, _END = range(5)
_COLUMNS: Final = 5


class TaskLink(Link):
    """A link that mostly hears messages."""

    def read_run(self, data: bytes, frame_max: int) -> int:
        if len(data) < RECEIVED_MIN:
            return 0
        found = np.empty((_COLUMNS, len(data) // FRAME_SIZE_MIN + 1), np.int64)
        count, at = scan_messages(np.frombuffer(data, np.uint8), frame_max, found)
        found = found[:, :count]
        consumers = found[_CONSUMER]
        block = Block(data, *found[_LEDGER:])
        # A link has one reading at work, nearly always.
        changes = np.flatnonzero(np.diff(consumers)) + 1
        for first, end in pairwise((0, *changes.tolist(), count)):
            reading = self.readings.get(int(consumers[first])) if end > first else None
            if reading is not None:
                reading.run(block if end - first == count else block.part(first, end))
        return int(at)

    def read_stored(self, delivery: Delivery) -> Block:
        """The entries of a run as the log has them; each says where it belongs, and vouches for itself."""
        data, count = delivery.entry, delivery.stored_entries
        if count > len(data) // STORED_SIZE_MIN:
            raise CorruptData(f"{count} entries in {len(data)} bytes")
        begins, ends, lasts = np.empty((3, count), np.int64)
        first = delivery.entry_id
        whole = np.frombuffer(data, np.uint8)
        if not scan_stored(whole, delivery.ledger_id, first, begins, ends, lasts):
            raise CorruptData(
                f"entries {delivery.ledger_id}:{first} to {first + count - 1} came damaged"
            )
        ledger_ids = np.full(count, delivery.ledger_id, np.int64)
        return Block(data, ledger_ids, np.arange(first, first + count), begins, ends, lasts)


@compiled
def scan_messages(data, frame_max, found):
    """Fill `found` with the messages at the front; how many they are, and where the next frame begins."""
    at = np.int64(0)
    have = len(data)
    count = 0
    while count < found.shape[1] and have - at >= 8:
        total = size32(data, at)
        size = size32(data, at + 4)
        frame_end = at + 4 + total
        if total <= 4 or total > frame_max or size < 1 or size > total - 4 or frame_end > have:
            break
        here = at + 8
        command_end = here + size
        # BaseCommand: the type, then the command, which fills the rest.
        if size < 4 or data[here] != 8 or data[here + 1] != 9 or data[here + 2] != 74:
            break
        length, here = varint(data, here + 3, command_end)
        if here < 0 or here + length != command_end or here >= command_end or data[here] != 8:
            break
        consumer, here = varint(data, here + 1, command_end)
        if here < 0 or command_end - here < 6 or data[here] != 18 or data[here + 1] > 127:
            break
        id_end = here + 2 + data[here + 1]
        if id_end > command_end or data[here + 2] != 8:
            break
        ledger, here = varint(data, here + 3, id_end)
        if here < 0 or here >= id_end or data[here] != 16:
            break
        entry, here = varint(data, here + 1, id_end)
        if 0 <= here < id_end and data[here] == 24:
            _, here = varint(data, here + 1, id_end)  # the partition
        if here != id_end:
            break
        # Redeliveries and the epoch say nothing to a reader.
        while 0 <= here < command_end and (data[here] == 24 or data[here] == 40):
            _, here = varint(data, here + 1, command_end)
        if here != command_end:
            break
        found[_CONSUMER, count] = consumer
        found[_LEDGER, count] = ledger
        found[_ENTRY, count] = entry
        found[_BEGIN, count] = command_end
        found[_END, count] = frame_end
        count += 1
        at = frame_end
    return count, at
