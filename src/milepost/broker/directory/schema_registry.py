"""The versions of every topic's schema, stored before a client is told of them.

Decisions are those of `milepost.schemas.history`; here they are made on what the catalog has, and carried
out. Two clients that register at once both decide, and one of them stores first: the catalog takes no
number but the next, so the other decides again. No caller waits for a lock, and nothing is judged by a
history that is no more.

    version = await registry.register(topic_name, info)         # or IncompatibleSchema, InvalidSchema
    found = await registry.get(topic_name, version)             # None: not that version, or deleted

Histories are read when they are needed and kept for a while. Which topics have a schema is known without
asking, so that a client without one, on a topic without one, costs nothing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar

from milepost.broker.metrics.counters import Counters
from milepost.broker.policies.effective import TopicPolicies
from milepost.broker.settings.settings import Settings
from milepost.broker.topic.topic import Topic
from milepost.clock import Clock
from milepost.errors import (
    AlreadyExists,
    IncompatibleSchema,
    InvalidSchema,
    TooManyRequests,
)
from milepost.positions.names import TopicName
from milepost.schemas.compatibility import Strategy
from milepost.schemas.history import History, Live, Version
from milepost.schemas.types import NO_VERSION, SchemaInfo, SchemaType, version_bytes
from milepost.storage.catalog.catalog import SchemaRow
from milepost.storage.interface import Catalog, ChangeCatalog

T = TypeVar("T")

VERSION_END: Final = 2**63 - 1
# Histories that are kept in memory.
HISTORIES_MAX: Final = 4096
# A definition larger than this is judged in a thread: comparing two of a megabyte takes a while.
INLINE_SIZE_MAX: Final = 16 * 1024


def schema_name(topic: TopicName) -> str:
    """What a topic's schema is called: partitions share that of their topic."""
    return f"{topic.namespace}/{topic.base.local_name}"


class SchemaRules(NamedTuple):
    strategy: Strategy
    needs_schema: bool
    """A producer without a schema may not open a topic that has one."""
    may_update: bool
    """Producers and consumers may add versions; without it only operators do."""


class SchemaRegistry:
    def __init__(
        self,
        change: ChangeCatalog,
        settings: Settings,
        clock: Clock,
        counters: Counters,
        policies_of: Callable[[TopicName], TopicPolicies],
    ) -> None:
        """`change` runs something in a transaction of the catalog. `policies_of` says what holds for a
        topic."""
        self._change = change
        self._settings = settings
        self._clock = clock
        self._counters = counters
        # Names with a live version.
        self._names: set[str] = set()
        self._histories: OrderedDict[str, History] = OrderedDict()
        # Grows with every change. A history that was read before a change is not kept.
        self._changes = 0
        self._policies_of = policies_of

    async def load(self) -> None:
        self._names = set(await self._change(lambda catalog: catalog.schema_names()))

    @property
    def count(self) -> int:
        """Topics that have a schema."""
        return len(self._names)

    # -- asking ------------------------------------------------------------------------------------

    def rules(self, topic: TopicName) -> SchemaRules:
        """What holds for the schemas of a topic."""
        policies = self._policies_of(topic)
        return SchemaRules(
            Strategy(policies.schema_compatibility),
            policies.schema_validation,
            policies.schema_auto_update,
        )

    def has_schema(self, topic: TopicName) -> bool:
        return schema_name(topic) in self._names

    async def latest(self, topic: TopicName) -> Live | None:
        return (await self.history(topic)).latest

    async def get(self, topic: TopicName, version: int) -> Live | None:
        return (await self.history(topic)).version(version)

    async def history(self, topic: TopicName) -> History:
        name = schema_name(topic)
        found = self._histories.get(name)
        if found is not None:
            self._histories.move_to_end(name)
            return found
        if name not in self._names:
            # There may be deletions; storing a version asks for them.
            return History()
        return await self._read(name)

    async def _read(self, name: str) -> History:
        changes = self._changes
        rows = await self._change(lambda catalog: catalog.schemas(name))
        history = History([_version(row) for row in rows])
        if changes == self._changes and history.latest is not None:
            self._histories[name] = history
            if len(self._histories) > HISTORIES_MAX:
                self._histories.popitem(last=False)
        return history

    async def find_exact(self, topic: TopicName, info: SchemaInfo) -> int:
        return (await self.history(topic)).find_exact(info)

    async def check(self, topic: TopicName, info: SchemaInfo) -> None:
        """Refuse a schema that could not be registered."""
        history, rules = await self.history(topic), self.rules(topic)
        await self._judge(info, lambda: history.check(info, rules.strategy))

    # -- changing ----------------------------------------------------------------------------------

    async def register(self, topic: TopicName, info: SchemaInfo, *, may_update: bool = True) -> int:
        """The version that this schema has now."""
        name, strategy = schema_name(topic), self.rules(topic).strategy
        history = await self.history(topic)
        while True:
            found = await self._judge(
                info, partial(history.register, info, strategy, may_update=may_update)
            )
            if found is not None:
                return found
            limit = self._settings.max_schema_versions_per_topic
            if limit and len(history.live) >= limit:
                raise TooManyRequests(f"topic {topic} has {limit} versions of its schema already")
            # The number is certain only with what was deleted before.
            if not history.live:
                history = await self._read(name)
                if history.live:
                    continue
            row = SchemaRow(
                name,
                history.next_number,
                int(info.type),
                info.data,
                info.properties,
                self._clock.wall_ms(),
            )
            try:
                await self._store(row)
            except AlreadyExists:  # another caller was first: decide again, by what is there now
                history = await self._read(name)
                continue
            self._counters.schemas_registered += 1
            return row.version

    async def delete(self, topic: TopicName, *, force: bool = False) -> int:
        """Delete every version; the number of the deletion, `NO_VERSION` where nothing is left of it.

        With `force` the definitions are erased as well. A number is never given again, so that no old
        message is ever taken for one of a new schema.
        """
        name = schema_name(topic)
        while True:
            history = await self._read(name)
            if force and history.next_number == 0:
                return NO_VERSION
            row = SchemaRow(name, history.next_number, 0, None, {}, self._clock.wall_ms())
            try:
                await self._store(row, erase=force)
            except AlreadyExists:
                continue
            self._counters.schemas_deleted += 1
            return NO_VERSION if force else row.version

    @staticmethod
    def erase(catalog: Catalog, topic: TopicName) -> None:
        """Forget the schemas of a topic in the change that deletes it; `erased` is to be called behind it."""
        catalog.erase_schemas(schema_name(topic), VERSION_END)

    def erased(self, topic: TopicName) -> None:
        self._changes += 1
        self._histories.pop(schema_name(topic), None)
        self._names.discard(schema_name(topic))

    async def forget(self, topic: TopicName) -> None:
        """The topic is deleted, and with its messages every use of its versions."""
        await self._change(lambda catalog: self.erase(catalog, topic), lambda _: self.erased(topic))

    async def _store(self, row: SchemaRow, *, erase: bool = False) -> None:
        def change(catalog: Catalog) -> None:
            catalog.put_schema(row)
            if erase:
                catalog.erase_schemas(row.name, row.version)

        def stored(_: None) -> None:
            self._changes += 1
            self._histories.pop(row.name, None)
            if row.data is None:
                self._names.discard(row.name)
            else:
                self._names.add(row.name)

        await self._change(change, stored)

    # -- clients -----------------------------------------------------------------------------------

    async def admit_producer(self, topic: TopicName, info: SchemaInfo | None) -> bytes | None:
        """The version that a producer's messages carry; None for one without a schema."""
        rules = self.rules(topic)
        if info is not None:
            return version_bytes(await self.register(topic, info, may_update=rules.may_update))
        if rules.needs_schema and self.has_schema(topic):
            self._counters.schemas_incompatible += 1
            raise IncompatibleSchema(
                f"{topic} has a schema, and a producer needs one here (schemaValidationEnforced)"
            )
        return None

    async def admit_consumer(self, topic: Topic, info: SchemaInfo | None) -> None:
        """Let a consumer in that can read the topic; an idle topic without a schema takes its own."""
        if info is None or info.type is SchemaType.AUTO_CONSUME:
            return
        rules = self.rules(topic.name)
        if not self.has_schema(topic.name):
            if _is_idle(topic):
                await self.register(topic.name, info, may_update=rules.may_update)
                return
            if info.type is SchemaType.NONE:
                return  # a topic without a schema holds bytes
        history = await self.history(topic.name)
        await self._judge(info, lambda: history.check_consumer(info, rules.strategy))

    async def _judge(self, info: SchemaInfo, decide: Callable[[], T]) -> T:
        try:
            if len(info.data) <= INLINE_SIZE_MAX:
                decided = decide()
            else:
                decided = await asyncio.to_thread(decide)
        except IncompatibleSchema:
            self._counters.schemas_incompatible += 1
            raise
        except InvalidSchema:
            self._counters.schemas_invalid += 1
            raise
        self._counters.schemas_compatible += 1
        return decided


def _is_idle(topic: Topic) -> bool:
    """Whether no client uses it, or has, whose bytes a schema would misname."""
    consumers = (one for each in topic.subscriptions.values() for one in each.consumers)
    return (
        not topic.producers
        and all(consumer.reads_any for consumer in consumers)
        and topic.log.first_index == topic.log.end_index
    )


def _version(row: SchemaRow) -> Version:
    if row.data is None:
        return Version(row.version, None, row.time_ms)
    info = SchemaInfo(row.name, SchemaType(row.kind), row.data, row.properties)
    return Version(row.version, info, row.time_ms)
