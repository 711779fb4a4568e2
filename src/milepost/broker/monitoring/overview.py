"""The progress of many subscriptions, trouble first.

Topics that no client has used since the start are opened on the way: their subscriptions have a progress too.
Each line is one moment; between lines others have their turn, so that asking for a thousand of them delays
no publish by more than a few of them take.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.monitoring.progress import Progress, progress_of
from milepost.broker.monitoring.topic_walk import walk_topics
from milepost.broker.subscription.broadcast import TYPE_NAME, BroadcastGroup
from milepost.errors import NotFound
from milepost.positions.severity import Verdict
from milepost.storage.ledgers.not_in_memory import NotInMemory, taken_together

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.topic.topic import Topic
    from milepost.positions.names import TopicName

Trouble = tuple[int, int, str, int, str, str]


async def survey(
    broker: Broker, names: Iterable[TopicName], subscription: str | None = None
) -> AsyncIterator[Progress]:
    """Yield the lines as they are found, each true at the moment it is given. A caller that does more
    work with each line does that in slices too."""

    def step(topic: Topic) -> list[Progress]:
        # All of a topic at once: a group and its members are of one moment.
        return lines_of(topic, broker.clock.wall_ms(), subscription)

    topics, slices = opened(broker, names), TimeSlices(broker.clock)
    async for _, lines in walk_topics(broker.engine, topics, step, slices):
        for line in lines:
            yield line


async def opened(broker: Broker, names: Iterable[TopicName]) -> AsyncIterator[Topic]:
    """Topics by name, each opened when its turn comes; what is not there any more is left out."""
    for name in names:
        try:
            yield broker.topics.get(str(name)) or await broker.topic(name, create=False)
        except NotFound:
            continue  # deleted since it was listed, or a partition that was never used


def lines_of(topic: Topic, now_ms: int, subscription: str | None = None) -> list[Progress]:
    """Of a topic, all subscriptions or that of one name; what any of them lacks is said at once."""
    lines: list[Progress] = []
    missing: list[NotInMemory] = []
    for name, found in topic.subscriptions.items():
        if subscription is not None and name != subscription:
            continue
        try:
            if isinstance(found, BroadcastGroup):
                lines += _lines_of_group(found, now_ms)
            else:
                lines.append(progress_of(found, now_ms))
        except NotInMemory as one:
            missing.append(one)
    if missing:
        raise NotInMemory.all_of(missing)
    return lines


def _lines_of_group(group: BroadcastGroup, now_ms: int) -> list[Progress]:
    """The group where its slowest member is, as well as its worst one; then each member."""
    group.settle()
    line, *members = [
        one._replace(type=TYPE_NAME)
        for one in taken_together(
            [
                partial(progress_of, group, now_ms),
                *(
                    partial(progress_of, member, now_ms, member=name)
                    for name, member in group.members.items()
                ),
            ]
        )
    ]
    worst = max(members, key=lambda one: one.verdict.severity, default=None)
    if worst is not None and line.verdict is not Verdict.RESET_PENDING:
        reason = f"{worst.member}: {worst.reason}"
        line = line._replace(verdict=worst.verdict, reason=reason, drained_in_s=worst.drained_in_s)
    return [line, *members]


def trouble(line: Progress) -> Trouble:
    """What lines are sorted by: the most troubled first."""
    return (
        -line.verdict.severity,
        -line.backlog,
        line.subscription,
        line.partition,
        line.topic,
        line.member,
    )
