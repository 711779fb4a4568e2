"""The progress of many subscriptions, trouble first.

Topics that no client has used since the start are opened on the way: their subscriptions have a progress too.
Each line is one moment; between lines others have their turn, so that asking for a thousand of them delays
no publish by more than a few of them take.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.monitoring.progress import Progress, progress_of
from milepost.broker.subscription.broadcast import TYPE_NAME, BroadcastGroup
from milepost.errors import NotFound
from milepost.positions.severity import Verdict

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.topic.topic import Topic
    from milepost.positions.names import TopicName

Trouble = tuple[int, int, str, int, str, str]


async def overview(
    broker: Broker, names: Iterable[TopicName], subscription: str | None = None
) -> list[Progress]:
    """Of these topics, all subscriptions or those of one name; in order of trouble, then of name."""
    lines = [(trouble(line), line) async for line in survey(broker, names, subscription)]
    lines.sort(key=itemgetter(0))
    return [line for _, line in lines]


async def survey(
    broker: Broker, names: Iterable[TopicName], subscription: str | None = None
) -> AsyncIterator[Progress]:
    """Yield the lines as they are found, each true at the moment it is given. A caller that does more
    work with each line does that in slices too."""
    slices = TimeSlices(broker.clock)
    for name in names:
        try:
            topic = broker.topics.get(str(name)) or await broker.topic(name, create=False)
        except NotFound:
            continue  # deleted since it was listed, or a partition that was never used
        # All of a topic at once: a group and its members are of one moment.
        for line in list(lines_of(topic, broker.clock.wall_ms(), subscription)):
            yield line
        if slices.is_over:
            await slices.rest()


def lines_of(topic: Topic, now_ms: int, subscription: str | None = None) -> Iterator[Progress]:
    for name, found in topic.subscriptions.items():
        if subscription is not None and name != subscription:
            continue
        if isinstance(found, BroadcastGroup):
            yield from _lines_of_group(found, now_ms)
        else:
            yield progress_of(found, now_ms)


def _lines_of_group(group: BroadcastGroup, now_ms: int) -> Iterator[Progress]:
    """The group where its slowest member is, as well as its worst one; then each member."""
    group.settle()
    line = progress_of(group, now_ms)._replace(type=TYPE_NAME)
    members = [
        progress_of(member, now_ms, member=name)._replace(type=TYPE_NAME)
        for name, member in group.members.items()
    ]
    worst = max(members, key=lambda one: one.verdict.severity, default=None)
    if worst is not None and line.verdict is not Verdict.RESET_PENDING:
        reason = f"{worst.member}: {worst.reason}"
        line = line._replace(verdict=worst.verdict, reason=reason, drained_in_s=worst.drained_in_s)
    yield line
    yield from members


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
