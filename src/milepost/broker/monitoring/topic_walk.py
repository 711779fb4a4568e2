"""Takes a step for each of many topics, in slices; what several of them lack is read in one go.

A broker with ten thousand topics is asked for all their numbers. Most are in memory; where messages of the
others lie is on disk only, and a thread is not asked for each of them: some are put aside, and one job reads
what all of them need.

    async for topic, found in walk_topics(engine, listed(topics), lambda topic: …, slices):
        …                                   # what the step said of the topic, at one moment

A step that cannot be taken, because the disk gives an error, is logged, and its topic is left out; a topic
that was closed in the meantime is left out too.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Final, TypeVar

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.topic.topic import Topic
from milepost.storage.interface import Engine
from milepost.storage.ledgers.not_in_memory import NotInMemory
from milepost.storage.ledgers.paging import LOOKS_MAX, UNREADABLE, Failure

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Topics whose reads are made in one go.
TOGETHER: Final = 64


async def walk_topics(
    disk: Engine,
    topics: AsyncIterable[Topic],
    step: Callable[[Topic], T],
    slices: TimeSlices,
) -> AsyncIterator[tuple[Topic, T]]:
    """Yield each topic with what the step says of it."""
    files = disk.loop_files
    aside: list[tuple[Topic, NotInMemory]] = []
    async for topic in topics:
        files.is_strict = True
        try:  # what `strictly` does, for less: mostly everything is in memory
            found = step(topic)
        except NotInMemory as missing:
            aside.append((topic, missing.forgetful()))
        except UNREADABLE as error:
            _leave_out(topic, error)
        else:
            files.is_strict = False
            yield topic, found
        finally:
            files.is_strict = False
        if len(aside) >= TOGETHER:
            async for one in _brought(disk, aside, step, slices):
                yield one
            aside = []
        if slices.is_over:
            await slices.rest()
    async for one in _brought(disk, aside, step, slices):
        yield one


async def _brought(
    disk: Engine,
    aside: list[tuple[Topic, NotInMemory]],
    step: Callable[[Topic], T],
    slices: TimeSlices,
) -> AsyncIterator[tuple[Topic, T]]:
    """The same for topics that had to wait, until none has to any more."""
    for _ in range(LOOKS_MAX):
        if not aside:
            return
        failures = await disk.bring_each([missing for _, missing in aside])
        again: list[tuple[Topic, NotInMemory]] = []
        for (topic, _), failure in zip(aside, failures, strict=True):
            if topic.is_closed:
                continue
            try:
                with disk.loop_files.strictly(failure):
                    found = step(topic)
            except NotInMemory as missing:
                again.append((topic, missing.forgetful()))
            except UNREADABLE as error:
                _leave_out(topic, error)
            else:
                yield topic, found
            if slices.is_over:
                await slices.rest()
        aside = again
    for topic, _ in aside:  # each needs more at once than is kept for all of them
        yield topic, await disk.look(lambda topic=topic: step(topic))  # type: ignore[misc]


def _leave_out(topic: Topic, error: Failure) -> None:
    logger.warning("%s is left out: %s", topic, error)


async def listed(topics: Iterable[Topic]) -> AsyncIterator[Topic]:
    """Topics that are known beforehand."""
    for topic in topics:
        yield topic
