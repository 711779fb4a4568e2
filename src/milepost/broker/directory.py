"""The directory: what exists. Namespaces, topics and partition counts, as the catalog has them.

All of it is kept in memory, so that a look-up asks nobody; a change is in the catalog before it is here.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from itertools import chain
from typing import Any, TypeVar

from milepost.errors import AlreadyExists, InvalidInput, NotAllowed, TooManyRequests, TopicNotFound
from milepost.positions.names import TopicName
from milepost.storage.catalog import Catalog, Doc, TopicRow

T = TypeVar("T")
ChangeCatalog = Callable[[Callable[[Catalog], Any]], Coroutine[Any, Any, Any]]

TENANTS, NAMESPACES, PARTITIONED = "tenants", "namespaces", "partitioned"
# What a new data directory holds, as upstream's standalone does.
FIRST_NAMESPACES = ("public/default", "pulsar/system")


class Directory:
    def __init__(
        self, change: ChangeCatalog, *, topics_per_namespace_max: int, partitions_max: int
    ) -> None:
        """`change` runs something in a transaction of the catalog; a maximum of 0 is none."""
        self._change = change
        self._topics_per_namespace_max = topics_per_namespace_max
        self._partitions_max = partitions_max
        self._rows: dict[str, TopicRow] = {}
        self._partitioned: dict[str, int] = {}
        self._namespaces: set[str] = set()
        self.on_topics: Callable[[str, Iterable[str], Iterable[str]], None] = lambda *_: None
        """Told of a namespace whose topics have changed: names that came, names that went."""
        # Topics that are on their way to the catalog: they count, or many at once would pass a limit.
        self._being_made: set[str] = set()

    async def load(self) -> None:
        rows, partitioned, namespaces = await self._change(_load)
        self._rows = {row.name: row for row in rows}
        self._partitioned = {name: doc["partitions"] for name, doc in partitioned.items()}
        self._namespaces = set(namespaces)

    # -- asking ------------------------------------------------------------------------------------

    def check_namespace(self, name: TopicName) -> None:
        if str(name.namespace) not in self._namespaces:
            raise TopicNotFound(f"namespace {name.namespace} of topic {name} does not exist")

    def check_partition(self, name: TopicName) -> None:
        """Refuse the name of a whole partitioned topic, and of a partition that it has not."""
        if name.partition < 0:
            if str(name) in self._partitioned:
                raise NotAllowed(f"{name} is partitioned; its partitions are topics of their own")
            return
        partitions = self._partitioned.get(str(name.base))
        if partitions is not None and name.partition >= partitions:
            raise TopicNotFound(
                f"{name.base} has {partitions} partitions, no partition {name.partition}"
            )

    def row(self, name: TopicName) -> TopicRow | None:
        return self._rows.get(str(name))

    def partitions(self, name: TopicName) -> int | None:
        """How many partitions a topic has; None for one that is not partitioned, or not there."""
        return self._partitioned.get(str(name))

    def all_topics(self) -> list[str]:
        """Names of the topics that are there, in every namespace."""
        return sorted(self._rows)

    def topics(self, namespace: str) -> list[str]:
        """Names of a namespace's topics, partitions each by its own name, as upstream lists them."""
        prefix = f"persistent://{namespace}/"
        names = {name for name in self._rows if name.startswith(prefix)}
        for name, partitions in self._partitioned.items():
            if name.startswith(prefix):
                names.update(_partitions_of(name, 0, partitions))
        return sorted(names)

    # -- changing ----------------------------------------------------------------------------------

    async def create_topic(self, name: TopicName) -> TopicRow:
        limit = self._topics_per_namespace_max
        if limit:
            prefix = f"persistent://{name.namespace}/"
            made = chain(self._rows, self._being_made)
            if sum(other.startswith(prefix) for other in made) >= limit:
                raise TooManyRequests(f"namespace {name.namespace} has {limit} topics already")
        self._being_made.add(str(name))
        try:
            row: TopicRow = await self._change(lambda catalog: catalog.create_topic(str(name), {}))
        finally:
            self._being_made.discard(str(name))
        self._rows[str(name)] = row
        self.on_topics(str(name.namespace), (str(name),), ())
        return row

    async def create_partitioned(self, name: TopicName, partitions: int) -> None:
        self.check_namespace(name)
        limit = self._partitions_max
        if partitions <= 0 or (limit and partitions > limit):
            raise InvalidInput(f"{partitions} partitions for {name}; allowed are 1 to {limit}")
        if name.partition >= 0:
            raise InvalidInput(f"{name} is a partition itself")
        if str(name) in self._partitioned or str(name) in self._rows:
            raise AlreadyExists(f"topic {name} exists")
        # Taken before it is durable, so that nobody else takes it meanwhile.
        self._partitioned[str(name)] = partitions
        try:
            doc = {"partitions": partitions}
            await self._change(lambda catalog: catalog.put_doc(PARTITIONED, str(name), doc))
        except BaseException:
            del self._partitioned[str(name)]
            raise
        self.on_topics(str(name.namespace), _partitions_of(name, 0, partitions), ())

    async def set_doc(self, row: TopicRow, doc: Doc) -> TopicRow:
        """Change what is known of a topic beside its name."""
        await self._change(lambda catalog: catalog.set_topic(row.topic_id, doc))
        changed = self._rows[row.name] = row._replace(doc=doc)
        return changed


def _load(catalog: Catalog) -> tuple[list[TopicRow], dict[str, Doc], list[str]]:
    for name in FIRST_NAMESPACES:
        if catalog.doc(NAMESPACES, name) is None:
            catalog.put_doc(TENANTS, name.split("/")[0], {})
            catalog.put_doc(NAMESPACES, name, {})
    return catalog.topics(), catalog.docs(PARTITIONED), list(catalog.docs(NAMESPACES))


def _partitions_of(name: TopicName | str, first: int, end: int) -> list[str]:
    return [f"{name}-partition-{number}" for number in range(first, end)]
