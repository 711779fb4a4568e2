"""What a person sees first of a broker: what is in trouble, how much there is, how fast it goes.

    watch = BrokerWatch(broker)
    found = await watch.look()              # of all topics; look("public/default"): of a namespace

One survey serves all who look: it is made when the newest is older than two seconds, or twenty times as long
as it took, in slices, and only while a person looks. With very many topics it takes longer than people wait.
Then the answer is the survey before, or, if there is none, what the running one has found so far:
`is_complete` says so. A survey keeps the most troubled subscriptions and counts all of them, so its size does
not grow with the number of topics.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.monitoring.overview import Trouble, lines_of, opened, trouble
from milepost.broker.monitoring.progress import Progress
from milepost.broker.monitoring.topic_walk import walk_topics
from milepost.positions.names import TopicName
from milepost.positions.severity import Verdict

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.topic.topic import Topic

# A younger survey is good enough; and so is one that is younger than so many times what it took: surveys
# are a twentieth of what the broker does at most.
FRESH_S: Final = 2.0
FRESH_TIMES: Final = 20
# How long a person waits for a new one, and how many times as old as a fresh one the one may be that is shown
# in its place.
PATIENCE_S: Final = 0.4
STALE_TIMES: Final = 15
# Subscriptions that a survey remembers, the most troubled first.
LINES_MAX: Final = 1000
# Namespaces whose surveys are remembered.
SURVEYS_MAX: Final = 16


class Line(NamedTuple):
    """A subscription on one partition: what `progress` says of it, in short."""

    topic: str
    partition: int
    """-1 for a topic without partitions."""
    subscription: str
    member: str
    type: str
    verdict: Verdict
    reason: str
    first: int
    end: int
    ready: int
    inflight: int
    delayed: int
    acked: int
    backlog: int
    holes: int
    behind_ms: int
    rate_in: float
    rate_out: float
    rate_acked: float
    drained_in_s: float | None
    consumers: int

    @classmethod
    def of(cls, progress: Progress) -> Line:
        fields = {name: getattr(progress, name) for name in cls._fields if name != "consumers"}
        return cls(**fields, consumers=len(progress.consumers))


class Survey:
    """One look at all topics, as far as it has come."""

    def __init__(self, topics: int, began_s: float, at_ms: int) -> None:
        self.topics = topics
        self.began_s = began_s
        self.at_ms = at_ms
        self.took_s = 0.0
        self.is_complete = False
        self.topics_seen = 0
        self.subscriptions = 0
        self.producers = 0
        self.consumers = 0
        self.backlog = 0
        self.stored_bytes = 0
        self.verdicts: Counter[Verdict] = Counter()
        self.rates = (0.0, 0.0, 0.0, 0.0)
        """Messages and bytes a second in, and out."""
        # Invariant: at most twice LINES_MAX.
        self._lines: list[tuple[Trouble, Line]] = []

    def add(self, topic: Topic, lines: list[Progress]) -> None:
        self.topics_seen += 1
        self.producers += len(topic.producers)
        self.stored_bytes += topic.log.size_bytes
        self.rates = tuple(  # type: ignore[assignment]
            total + own for total, own in zip(self.rates, topic.rates.per_second[:4], strict=True)
        )
        for line in lines:
            if line.member:
                continue  # its group stands for it
            self.subscriptions += 1
            self.backlog += line.backlog
            self.consumers += len(line.consumers)
            self.verdicts[line.verdict] += 1
            self._lines.append((trouble(line), Line.of(line)))
        if len(self._lines) >= 2 * LINES_MAX:
            self._cut()

    @property
    def fresh_s(self) -> float:
        """How long it is good enough."""
        return max(FRESH_S, FRESH_TIMES * self.took_s)

    def _cut(self) -> None:
        self._lines.sort(key=lambda line: line[0])
        del self._lines[LINES_MAX:]

    def lines(self, skip: int, limit: int) -> list[Line]:
        """The most troubled subscriptions, as far as they are remembered."""
        self._cut()
        return [line for _, line in self._lines[skip : skip + limit]]


class BrokerWatch:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._done: dict[str, Survey] = {}
        self._running: dict[str, tuple[Survey, asyncio.Event]] = {}

    async def look(self, namespace: str = "") -> Survey:
        """The newest survey; of all namespaces if none is named."""
        now_s = self._broker.clock.monotonic()
        done = self._done.get(namespace)
        if done is not None and now_s - done.began_s < done.fresh_s:
            return done
        survey, ended = self._running.get(namespace) or self._begin(namespace, now_s)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await ended.wait()
        except TimeoutError:
            if done is not None and now_s - done.began_s < STALE_TIMES * done.fresh_s:
                return done
            return survey
        return self._done.get(namespace, survey)

    def _begin(self, namespace: str, now_s: float) -> tuple[Survey, asyncio.Event]:
        directory = self._broker.directory
        names = directory.topics(namespace) if namespace else directory.all_topics()
        survey = Survey(len(names), now_s, self._broker.clock.wall_ms())
        running = self._running[namespace] = survey, asyncio.Event()
        self._broker.spawn(self._survey(namespace, names))
        return running

    async def _survey(self, namespace: str, names: list[str]) -> None:
        broker = self._broker
        survey, ended = self._running[namespace]

        def step(topic: Topic) -> list[Progress]:
            return lines_of(topic, broker.clock.wall_ms())

        try:
            topics, slices = opened(broker, map(TopicName.parse, names)), TimeSlices(broker.clock)
            async for topic, lines in walk_topics(broker.engine, topics, step, slices):
                survey.add(topic, lines)
            survey.took_s = broker.clock.monotonic() - survey.began_s
            survey.is_complete = True
            self._done.pop(namespace, None)
            self._done[namespace] = survey
            while len(self._done) > SURVEYS_MAX:
                del self._done[next(iter(self._done))]
        finally:
            del self._running[namespace]
            ended.set()
