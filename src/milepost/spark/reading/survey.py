"""Finds the partitions of a query, and where each begins and ends now. The driver's side.

It keeps a connection for names, and a connection and a reader a partition, so that asking again for the end
is one round trip each; when the broker goes away it comes back for a while before it gives up. It decides
nothing.

    survey = Survey(options)
    survey.ends()              # {'persistent://public/default/t': 1200}
    survey.resolve(options.starting, survey.topics())
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from milepost.client.connection.endpoint import Endpoint
from milepost.errors import TopicNotFound
from milepost.positions.names import TopicName
from milepost.spark.offsets import Offsets, canonical
from milepost.spark.options import Bounds, ReadOptions
from milepost.spark.reading.link import Link, Reading
from milepost.spark.reading.places import Places
from milepost.spark.retries import patiently
from milepost.wire import pulsar_pb2 as pb

T = TypeVar("T")


class Watch:
    """One partition, with a reader that only asks for the end."""

    def __init__(self, connection: Endpoint, topic: str) -> None:
        self.topic = topic
        self.link = Link.open(connection, topic)
        self.places = Places(self.link, topic)
        try:
            self._reading = Reading(self.link, topic, None)
        except BaseException:
            self.link.close()
            raise
        self._last_id = (-1, -1, -1)
        self._end = -1

    def end_index(self) -> int:
        last_id = self._reading.last_id()
        if last_id != self._last_id or self._end < 0:
            self._end = self.places.end_index()
            self._last_id = last_id
        return self._end

    def close(self) -> None:
        self.link.close()


class Survey:
    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._watches: dict[str, Watch] = {}
        # Where names are asked for: any broker knows them.
        self._names: Link | None = None

    def topics(self) -> list[str]:
        """The partitions to read, each a topic of its own on the wire, by full name and in order."""
        return patiently(self._options.connection.timeout_s, self._topics)

    def ends(self, topics: Iterable[str] | None = None) -> Offsets:
        """The end index of each partition."""
        return self._each(topics, lambda watch: watch.end_index())

    def firsts(self, topics: Iterable[str] | None = None) -> Offsets:
        """The first index that is there, of each."""
        return self._each(topics, lambda watch: watch.places.first_index())

    def resolve(self, bounds: Bounds, topics: Iterable[str]) -> Offsets:
        """What the bounds mean now."""
        return self._each(topics, lambda watch: watch.places.resolve(bounds.of(watch.topic)))

    def mean_sizes(self, topics: Iterable[str]) -> dict[str, float]:
        """Bytes of a message of each partition, by the newest entry."""
        return {
            topic: self._ask(topic, lambda watch: watch.places.newest_size()) for topic in topics
        }

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()
        if self._names is not None:
            self._names.close()
            self._names = None

    def _each(self, topics: Iterable[str] | None, ask: Callable[[Watch], int]) -> Offsets:
        names = self.topics() if topics is None else topics
        return canonical({topic: self._ask(topic, ask) for topic in names})

    def _ask(self, topic: str, ask: Callable[[Watch], T]) -> T:
        def attempt() -> T:
            try:
                watch = self._watches.get(topic)
                if watch is None:
                    watch = self._watches[topic] = Watch(self._options.connection, topic)
                return ask(watch)
            except BaseException:
                stale = self._watches.pop(topic, None)
                if stale is not None:
                    stale.close()
                raise

        return patiently(self._options.connection.timeout_s, attempt)

    def _topics(self) -> list[str]:
        if self._names is None or not self._names.is_open:
            self._names = Link.open(self._options.connection)
        link, pattern = self._names, self._options.topics_pattern
        if pattern is None:
            found = [one for topic in self._options.topics for one in _partitions(link, topic)]
        else:
            answer = link.ask(
                pb.CommandGetTopicsOfNamespace(
                    namespace=pattern.namespace, mode=pb.CommandGetTopicsOfNamespace.PERSISTENT
                )
            )
            names = map(TopicName.parse, answer.topics)
            found = [name.text for name in names if pattern.matches(name)]
            if not found:
                raise TopicNotFound(f"no topic matches {pattern.expression}")
        return sorted(set(found))


def _partitions(link: Link, topic: str, *, make: bool = False) -> list[str]:
    name = TopicName.parse(topic)
    if name.partition >= 0:
        return [topic]
    try:
        answer = link.ask(
            pb.CommandPartitionedTopicMetadata(topic=topic, metadata_auto_creation_enabled=make)
        )
    except TopicNotFound:  # Apache Pulsar says no more than that
        raise TopicNotFound(f"there is no topic {topic}") from None
    if not answer.partitions:
        return [topic]
    return [name.partition_name(number).text for number in range(answer.partitions)]


def probe(connection: Endpoint, topic: str | None) -> None:
    """Raise at once if no broker answers there, or if it has no such topic: before Spark is started."""
    with Link.open(connection) as link:
        if topic is not None:
            _partitions(link, topic, make=False)


def partitions_of(connection: Endpoint, topic: str, *, make: bool = False) -> list[str]:
    """The partitions of one topic, by full name; itself if it has none. `make`: it is to be written, and
    is made as a producer's would be."""

    def attempt() -> list[str]:
        with Link.open(connection) as link:
            return _partitions(link, topic, make=make)

    return patiently(connection.timeout_s, attempt)
