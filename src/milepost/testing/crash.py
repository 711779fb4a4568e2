"""Crash images: every way a machine may stop in the middle of a workload, one disk each.

SQLite's method. A workload runs once on `MemoryFiles`; its trace says what was written, synced and
named, in order. For every number of operations that had returned when the power failed, and for
every outcome of what was volatile then, `images` yields the disk that the next start would find.

Owns the list of outcomes. Never decides what is volatile: that is the disk model, twelve rules at
the top of `milepost.testing.disk`. In short: appends that were not synced survive in any subset and
in part, across files in any order; names likewise until `sync_dir`; what was synced never changes.

    files = MemoryFiles()
    run_workload(files)                 # calls files.trace.mark("receipt", index) at a receipt
    for image in images(files.trace, seed=7):
        broker = open_broker(image.files)
        for index in image.payloads("receipt"):
            assert broker.has(index), image.description

Outcomes, where `kept` means that every volatile operation survived:

    dropped     nothing volatile survived (the power failed)
    kept        all of it did (the process was killed)
    names       name operations survived, appends did not: a rename before the bytes it publishes
    data        appends survived, name operations did not
    lost n      kept, but the nth volatile name operation (and later ones on the same file): a
                creation, deletion or rename that did not happen
    cut n       kept, but of the last append only its first n bytes; n runs over every sector
                boundary when the append has just returned, and over a few random bytes always
    zeros n     as cut, but the file has its full length, with zeros behind n
    garbage n   kept, but one append, drawn at random, holds noise
    subset n    a random subset of appends and name operations survived
    sectors n   a random subset of the sectors of all appends survived, names all or none

A crash *during* an operation needs no image of its own: during an append or a rename it is one of
the images after it, during a sync one of those before it. A mark is visible in images after it and
in none before, over the same disk: a catalog transaction in progress is tried both ways.

The same trace and seed give the same images. Each is known by its point and outcome; `image` builds
one of them again, alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from milepost.testing.disk import SECTOR_BYTES, Disk, Pieces, VolatileWrite
from milepost.testing.files import MemoryFiles
from milepost.testing.trace import Append, Mark, Trace

# Draws per crash point. Other seeds give other draws, so these need not be many.
RANDOM_CUTS = 2
RANDOM_ZEROS = 1
RANDOM_GARBAGE = 1
RANDOM_SUBSETS = 2
RANDOM_SECTORS = 2


@dataclass(frozen=True, slots=True)
class Image:
    """One disk as the next start would find it."""

    # The machine stopped after this many operations of the trace had returned.
    point: int
    # What became of the volatile ones: the name in the list above, with its number.
    outcome: str
    # Enough to print and to build it again: operations around the crash, outcome, seed.
    description: str
    # Marks before the crash, in order.
    marks: tuple[Mark, ...]
    # All of it durable, with a fresh trace: recovery on it can be crashed again.
    files: MemoryFiles

    def payloads(self, name: str) -> list[Any]:
        """Payloads of the visible marks of that name, in order."""
        return [mark.payload for mark in self.marks if mark.name == name]

    def last(self, name: str, default: Any = None) -> Any:
        """Payload of the last visible mark of that name: the state of what commits atomically."""
        for mark in reversed(self.marks):
            if mark.name == name:
                return mark.payload
        return default


def images(
    trace: Trace,
    seed: int = 0,
    *,
    count: int | None = None,
    first: int = 0,
    end: int | None = None,
) -> Iterator[Image]:
    """Crash images in order of their points, for points in `[first, end)`.

    Points run from 0 (nothing happened) to the number of operations. With `count`, at most so many
    images, spread over the points: no point gets a second one before each has its first.
    """
    end = len(trace) + 1 if end is None else end
    planned = _plan(trace, seed, first, end)
    if count is not None and count < len(planned):
        planned = _spread(planned, count, seed)
    disk = Disk(trace)
    marks: tuple[Mark, ...] = ()
    for point, outcome in planned:
        disk.advance(point)
        if len(marks) != len(disk.marks):
            marks = tuple(disk.marks)
        yield _build(disk, outcome, seed, marks)


def image(trace: Trace, point: int, outcome: str, seed: int = 0) -> Image:
    """One image again, by the names that its description gives."""
    disk = Disk(trace)
    disk.advance(point)
    return _build(disk, outcome, seed, tuple(disk.marks))


def power_loss(files: MemoryFiles, outcome: str = "dropped", seed: int = 0) -> MemoryFiles:
    """The disk after a crash now; `kept` is a killed process, `dropped` a dead machine."""
    return image(files.trace, len(files.trace), outcome, seed).files


def outcomes(disk: Disk, seed: int = 0) -> Iterator[str]:
    """Names of all outcomes of a crash at the disk's present point."""
    yield "kept"
    names, writes = disk.volatile_names, disk.volatile_writes
    if not names and not writes:
        return
    yield "dropped"
    if names and writes:
        yield "names"
        yield "data"
    for number in range(len(names)):
        yield f"lost {number}"
    if len(names) + len(writes) > 1:
        yield from (f"subset {number}" for number in range(RANDOM_SUBSETS))
    last = _last_append(writes)
    if last is not None:
        yield from (f"cut {size}" for size in _cuts(disk, last, seed))
        draw = _draw(seed, disk.point, "zeros")
        yield from (f"zeros {draw.randrange(len(last.data))}" for _ in range(RANDOM_ZEROS))
        yield from (f"garbage {number}" for number in range(RANDOM_GARBAGE))
        yield from (f"sectors {number}" for number in range(RANDOM_SECTORS))


def _plan(trace: Trace, seed: int, first: int, end: int) -> list[tuple[int, str]]:
    disk = Disk(trace)
    planned = []
    for point in range(first, end):
        disk.advance(point)
        # A name twice (two random cuts that fell together) would be one image twice.
        planned += [(point, outcome) for outcome in dict.fromkeys(outcomes(disk, seed))]
    return planned


def _spread(planned: list[tuple[int, str]], count: int, seed: int) -> list[tuple[int, str]]:
    draw = _draw(seed, count, "spread")
    order = list(range(len(planned)))
    draw.shuffle(order)
    taken: dict[int, int] = {}
    rounds: list[tuple[int, int, int]] = []
    for turn, number in enumerate(order):
        point = planned[number][0]
        taken[point] = taken.get(point, -1) + 1
        rounds.append((taken[point], turn, number))
    rounds.sort()
    return [planned[number] for number in sorted(number for _, _, number in rounds[:count])]


def _cuts(disk: Disk, last: Append, seed: int) -> list[int]:
    """How many bytes of the last append to leave; never none and never all."""
    cuts: list[int] = []
    if disk.point and disk.trace.ops[disk.point - 1] is last:
        first_boundary = SECTOR_BYTES - last.offset % SECTOR_BYTES
        cuts += range(first_boundary, len(last.data), SECTOR_BYTES)
    if len(last.data) > 1:
        draw = _draw(seed, disk.point, "cut")
        cuts += [draw.randrange(1, len(last.data)) for _ in range(RANDOM_CUTS)]
    return cuts


def _build(disk: Disk, outcome: str, seed: int, marks: tuple[Mark, ...]) -> Image:
    names, writes = _survivors(disk, outcome, seed)
    ops, point = disk.trace.ops, disk.point
    before = str(ops[point - 1]) if point else "nothing"
    after = str(ops[point]) if point < len(ops) else "nothing"
    description = (
        f"crash after operation {point} of {len(ops)} (done: {before}; next: {after}), "
        f"outcome {outcome!r}, seed {seed}"
    )
    return Image(point, outcome, description, marks, disk.image(names, writes))


def _survivors(disk: Disk, outcome: str, seed: int) -> tuple[set[int], dict[int, Pieces]]:
    """Places of surviving name operations, and what is left of appends by their places."""
    names = {name.place for name in disk.volatile_names}
    volatile = disk.volatile_writes
    writes = {write.place: _whole(write) for write in volatile}
    kind, _, text = outcome.partition(" ")
    number = int(text or 0)
    draw = _draw(seed, disk.point, outcome)
    match kind:
        case "kept":
            pass
        case "dropped":
            names, writes = set(), {}
        case "names":
            writes = {}
        case "data":
            names = set()
        case "lost":
            names.discard(disk.volatile_names[number].place)
        case "cut" | "zeros":
            place, op = _newest(volatile)
            left = op.data[:number]
            filler = bytes(len(op.data) - number) if kind == "zeros" else b""
            writes[place] = ((op.offset, left + filler),)
        case "garbage":
            place, op = draw.choice(_appends(volatile))
            writes[place] = ((op.offset, draw.randbytes(len(op.data))),)
        case "subset":
            # The share is drawn too: nearly all, nearly none and half find different faults.
            share = draw.random()
            names = {place for place in sorted(names) if draw.random() < share}
            writes = {place: left for place, left in writes.items() if draw.random() < share}
        case "sectors":
            share = draw.random()
            for place, op in _appends(volatile):
                writes[place] = [piece for piece in _sectors(op) if draw.random() < share]
            if draw.random() < 0.5:
                names = set()
        case _:
            raise ValueError(f"no such outcome: {outcome!r}")
    return names, writes


def _whole(write: VolatileWrite) -> Pieces:
    return ((write.op.offset, write.op.data),) if isinstance(write.op, Append) else ()


def _appends(writes: list[VolatileWrite]) -> list[tuple[int, Append]]:
    return [(write.place, write.op) for write in writes if isinstance(write.op, Append)]


def _newest(writes: list[VolatileWrite]) -> tuple[int, Append]:
    appends = _appends(writes)
    if not appends:
        raise ValueError("no append is volatile at this point")
    return appends[-1]


def _last_append(writes: list[VolatileWrite]) -> Append | None:
    appends = _appends(writes)
    return appends[-1][1] if appends else None


def _sectors(op: Append) -> Iterator[tuple[int, bytes]]:
    """The append in pieces that end at sector boundaries of the file."""
    start = op.offset
    while start < op.end:
        end = min(op.end, start + SECTOR_BYTES - start % SECTOR_BYTES)
        yield start, op.data[start - op.offset : end - op.offset]
        start = end


def _draw(seed: int, point: int, purpose: str) -> random.Random:
    # One generator for each image, so that leaving images out does not change the others.
    return random.Random(f"{seed}/{point}/{purpose}")  # noqa: S311 (reproducible, not secret)
