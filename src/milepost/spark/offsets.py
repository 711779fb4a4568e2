"""The offsets of a query, and how a range is cut into slices. Pure arithmetic.

Indexes are dense, so everything that other connectors estimate is a subtraction here. An offset is the
end index of each partition, exclusive; a micro-batch is the difference of two; a slice is what one task
reads of one partition. All ranges are half-open: what lies between is in exactly one of them.

    >>> end = admit({"a": 0, "b": 10}, {"a": 90, "b": 20}, messages_max=50)
    >>> end
    {'a': 45, 'b': 15}
    >>> slices({"a": 0, "b": 10}, end, partitions_min=4)[:2]
    [Slice(topic='a', first_index=0, end_index=11), Slice(topic='a', first_index=11, end_index=22)]
    >>> canonical({"b": 1, "a": 2})
    {'a': 2, 'b': 1}

Spark compares offsets as text: the same offsets must always be the same text, or it runs empty batches
for ever. `canonical` is the dict that Spark's own encoder turns into that text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from milepost.errors import InvalidCheckpoint

# Streams are sliced at multiples of it, so that what writes them further, numbered by index, has each
# such block from one task and in order.
BLOCK_MESSAGES: Final = 1 << 15

Offsets = dict[str, int]
"""Partition topic, by its full name → end index."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What one task reads: `[first_index, end_index)` of one partition. Never empty."""

    topic: str
    first_index: int
    end_index: int

    @property
    def count(self) -> int:
        return self.end_index - self.first_index


def canonical(offsets: Mapping[str, int]) -> Offsets:
    """The same offsets in the one order that they are ever written in."""
    return {topic: int(offsets[topic]) for topic in sorted(offsets)}


def from_json(text: str) -> Offsets:
    """Offsets as they stand in a checkpoint; `InvalidCheckpoint` names what is none."""
    try:
        found = json.loads(text)
    except ValueError:
        raise InvalidCheckpoint(f"offsets {text[:80]!a} are not JSON") from None
    return checked(found)


def checked(found: object) -> Offsets:
    """Offsets that came from outside (a checkpoint, a manifest, an option), checked."""
    if not isinstance(found, dict):
        raise InvalidCheckpoint(f"offsets {str(found)[:80]!a} are not an object of topic and index")
    for topic, index in found.items():
        if not isinstance(topic, str) or type(index) is not int or not 0 <= index < 1 << 63:
            raise InvalidCheckpoint(f"offset {str(index)[:80]!a} of {topic!a} is no index")
    return canonical(found)


def count(start: Mapping[str, int], end: Mapping[str, int]) -> int:
    """Indexes between two offsets."""
    return sum(backlogs(start, end).values())


def backlogs(start: Mapping[str, int], end: Mapping[str, int]) -> dict[str, int]:
    """Indexes between two offsets, partition by partition, none negative.

    A partition that only the end knows is new: its first offset says where it begins, and nothing of
    it is read yet. One that only the start knows is gone, and there is nothing of it to read.
    """
    return {topic: max(end[topic] - start[topic], 0) for topic in sorted(end) if topic in start}


def check_resume(start: Mapping[str, int], end: Mapping[str, int]) -> None:
    """Does a checkpoint belong to these topics? `end` is what they hold now.

    Behind the end of a topic nothing was ever read: the topic was deleted and made anew, or the
    checkpoint is of another broker.
    """
    if start and end and not set(start) & set(end):
        raise InvalidCheckpoint(
            f"the checkpoint is of other topics: it has {_names(start)}, the query reads {_names(end)}"
        )
    for topic, index in sorted(start.items()):
        if topic in end and index > end[topic]:
            raise InvalidCheckpoint(
                f"the checkpoint is at index {index} of {topic}, which ends at {end[topic]}: it was "
                "deleted and made anew, or the checkpoint is of another broker"
            )


def admit(
    start: Mapping[str, int],
    end: Mapping[str, int],
    *,
    messages_max: int | None = None,
    bytes_max: int | None = None,
    mean_sizes: Mapping[str, float] | None = None,
    firsts: Mapping[str, int] | None = None,
) -> Offsets:
    """The end of the next micro-batch: as far as the limits allow, and never beyond `end`.

    A new partition, which `start` does not have, is given the offset at which it begins (of `firsts`,
    else 0); the batch after this one reads it. So a batch that is replayed has the same rows.

    What is allowed is shared out in proportion to the backlogs, to the last message: a partition
    with little is not starved by one with much, and a limit of one still moves. `bytes_max` works by
    the mean size of each partition's messages, and admits at least one message.
    """
    waiting = backlogs(start, end)
    total = sum(waiting.values())
    allowed = total if messages_max is None else min(total, messages_max)
    if bytes_max is not None and total:
        sizes = mean_sizes or {}
        size = sum(n * sizes.get(topic, 0.0) for topic, n in waiting.items())
        if size > bytes_max:
            allowed = min(allowed, max(1, int(total * (bytes_max / size))))
    share = _shares(waiting, allowed)
    # A partition that is gone keeps its place: should it come back, nothing is read twice.
    gone = {topic: index for topic, index in start.items() if topic not in end}
    new = {topic: (firsts or {}).get(topic, 0) for topic in end if topic not in start}
    read = {topic: start[topic] + share[topic] for topic in waiting}
    return canonical({**gone, **new, **read})


def _shares(waiting: Mapping[str, int], allowed: int) -> dict[str, int]:
    """`allowed` parted in proportion: exact in the sum, no topic over what it has."""
    total = sum(waiting.values())
    if allowed >= total:
        return dict(waiting)
    share = {topic: n * allowed // total for topic, n in waiting.items()}
    # What rounding left over goes to the largest remainders, by name where they are equal.
    left = allowed - sum(share.values())
    by_remainder = sorted(waiting, key=lambda topic: (-(waiting[topic] * allowed % total), topic))
    for topic in by_remainder[:left]:
        share[topic] += 1
    return share


def is_held_back(available: int, *, messages_min: int, waited_s: float, delay_max_s: float) -> bool:
    """Is a micro-batch to wait for more messages? Never longer than the delay, never without any."""
    return 0 < available < messages_min and waited_s < delay_max_s


def slices(
    start: Mapping[str, int],
    end: Mapping[str, int],
    *,
    partitions_min: int = 1,
    messages_max: int | None = None,
    block: int = 1,
) -> list[Slice]:
    """The tasks of a range: every index between the offsets in exactly one, sizes within one partition
    equal but for one message.

    A partition gets tasks by its part of the backlog, at least one if it has any; `messages_max`
    bounds a task. No block of that many indexes, counted from 0, is cut: there are fewer and less
    even slices then.
    """
    waiting = {topic: n for topic, n in backlogs(start, end).items() if n}
    total = sum(waiting.values())
    found: list[Slice] = []
    for topic, n in waiting.items():
        # Rounded up, so that there are never fewer than were asked for, where there is enough to cut.
        parts = -(-n * partitions_min // total)
        if messages_max is not None:
            parts = max(parts, -(-n // messages_max))
        parts = max(1, min(parts, n))
        first = start[topic]
        inner = {_nearest(first + n * part // parts, block) for part in range(1, parts)}
        bounds = [first, *sorted(at for at in inner if first < at < end[topic]), end[topic]]
        found += map(Slice, [topic] * (len(bounds) - 1), bounds, bounds[1:])
    return found


def _nearest(index: int, block: int) -> int:
    return (index + block // 2) // block * block


def _names(offsets: Mapping[str, int]) -> str:
    names = sorted(offsets)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
