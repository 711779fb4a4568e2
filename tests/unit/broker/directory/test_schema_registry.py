"""The registry: what is stored, what is kept, and what two at once come to."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from stage.changes import told
from stage.stage import TOPIC, Stage

from milepost.broker.directory import schema_registry
from milepost.broker.directory.schema_registry import (
    INLINE_SIZE_MAX,
    SchemaRegistry,
    SchemaRules,
    schema_name,
)
from milepost.broker.metrics.counters import Counters
from milepost.broker.operations import topic_lifecycle
from milepost.broker.policies.effective import DEFAULTS
from milepost.broker.settings.settings import Settings
from milepost.errors import IncompatibleSchema, InvalidSchema
from milepost.positions.names import TopicName
from milepost.schemas.compatibility import Strategy
from milepost.schemas.types import NO_VERSION, SchemaInfo, SchemaType
from milepost.storage.catalog.catalog import Catalog
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog
from milepost.testing.clock import ManualClock

NAME = TopicName.parse(TOPIC)
STRING = SchemaInfo("s", SchemaType.STRING, b"", {"a": "b"})


def avro(*fields: str) -> SchemaInfo:
    described = [{"name": name, "type": "int", "default": 0} for name in fields]
    data = json.dumps({"type": "record", "name": "R", "fields": described}).encode()
    return SchemaInfo("r", SchemaType.AVRO, data)


class SlowCatalog:
    """A catalog that takes a turn for everything, and may be slow to answer."""

    def __init__(self) -> None:
        self.catalog = SqliteCatalog(None)
        self.late: asyncio.Event | None = None
        """The next call is done at once, and answered when this is set."""
        self.calls = 0

    async def change(self, what: Callable[[Catalog], Any]) -> Any:
        self.calls += 1
        late, self.late = self.late, None
        await asyncio.sleep(0)
        with self.catalog.transaction():
            done = what(self.catalog)
        if late is not None:
            await late.wait()
        return done


def with_registry(test: Callable[[SchemaRegistry, SlowCatalog], Any]) -> None:
    async def run() -> None:
        slow = SlowCatalog()
        registry = SchemaRegistry(
            told(slow.change), Settings(), ManualClock(), Counters(), lambda topic: DEFAULTS
        )
        await registry.load()
        await test(registry, slow)

    asyncio.run(run())


def test_names() -> None:
    assert schema_name(NAME) == "public/default/t"
    assert schema_name(TopicName.parse(f"{TOPIC}-partition-3")) == "public/default/t"


def test_what_is_stored_is_found(stage: Stage) -> None:
    registry = stage.broker.schemas
    stage.clock.advance(5)
    assert stage.run(registry.register(NAME, STRING)) == 0
    found = stage.run(registry.latest(NAME))
    assert found is not None
    assert (found.number, found.info.data, found.info.properties) == (0, b"", {"a": "b"})
    assert found.info.name == "public/default/t"
    assert found.time_ms == stage.clock.wall_ms()
    assert stage.run(registry.get(NAME, 0)) == found
    assert stage.run(registry.get(NAME, 1)) is None
    assert stage.run(registry.find_exact(NAME, STRING)) == 0
    assert stage.run(registry.find_exact(NAME, avro("a"))) == NO_VERSION
    assert registry.count == 1


def test_a_topic_without_one_asks_nobody() -> None:
    async def test(registry: SchemaRegistry, slow: SlowCatalog) -> None:
        calls = slow.calls
        assert not registry.has_schema(NAME)
        assert await registry.latest(NAME) is None
        assert await registry.admit_producer(NAME, None) is None
        assert slow.calls == calls

    with_registry(test)


def test_histories_are_read_once() -> None:
    async def test(registry: SchemaRegistry, slow: SlowCatalog) -> None:
        await registry.register(NAME, avro("a"))
        await registry.latest(NAME)
        calls = slow.calls
        for _ in range(5):
            assert await registry.register(NAME, avro("a")) == 0
        assert slow.calls == calls

    with_registry(test)


def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "HISTORIES_MAX", 2)

    async def test(registry: SchemaRegistry, slow: SlowCatalog) -> None:
        names = [TopicName.parse(f"t{number}") for number in range(4)]
        for name in names:
            await registry.register(name, STRING)
        for name in names:
            found = await registry.latest(name)
            assert found is not None
        assert len(registry._histories) == 2
        assert registry.count == 4

    with_registry(test)


def test_two_at_once() -> None:
    """Whoever stores second decides again, by what the first one stored."""

    async def test(registry: SchemaRegistry, slow: SlowCatalog) -> None:
        infos = (avro("a"), avro("a"), avro("a", "b"), STRING)
        outcomes = await asyncio.gather(
            *(registry.register(NAME, info) for info in infos), return_exceptions=True
        )
        assert outcomes[:3] == [0, 0, 1]
        assert isinstance(outcomes[3], IncompatibleSchema)
        assert [row.version for row in slow.catalog.schemas("public/default/t")] == [0, 1]

    with_registry(test)


def test_a_history_that_was_read_before_a_change_is_not_kept() -> None:
    async def test(registry: SchemaRegistry, slow: SlowCatalog) -> None:
        await registry.register(NAME, avro("a"))
        late = slow.late = asyncio.Event()
        reading = asyncio.create_task(registry.latest(NAME))
        await asyncio.sleep(0)
        assert await registry.register(NAME, avro("a", "b")) == 1
        late.set()
        old = await reading
        assert old is not None
        assert old.number == 0
        found = await registry.latest(NAME)
        assert found is not None
        assert found.number == 1

    with_registry(test)


def test_deletion(stage: Stage) -> None:
    registry = stage.broker.schemas
    assert stage.run(registry.delete(NAME)) == 0, "as upstream: a deletion is numbered"
    assert stage.run(registry.register(NAME, STRING)) == 1
    assert stage.run(registry.delete(NAME)) == 2
    assert not registry.has_schema(NAME)
    assert stage.run(registry.get(NAME, 1)) is None
    assert stage.run(registry.register(NAME, avro("a"))) == 3, "of another type, too"
    stage = stage.restarted()
    registry = stage.broker.schemas
    assert [one.number for one in stage.run(registry.history(NAME)).live] == [3]


def test_what_is_erased_gives_no_number_again(stage: Stage) -> None:
    registry = stage.broker.schemas
    assert stage.run(registry.delete(NAME, force=True)) == NO_VERSION
    assert stage.run(registry.register(NAME, STRING)) == 0
    assert stage.run(registry.delete(NAME, force=True)) == NO_VERSION
    rows = stage.store.catalog.schemas("public/default/t")
    assert [(row.version, row.data) for row in rows] == [(1, None)]
    assert stage.run(registry.register(NAME, avro("a"))) == 2
    assert stage.broker.counters.schemas_deleted == 1


def test_checking_stores_nothing(stage: Stage) -> None:
    registry = stage.broker.schemas
    stage.run(registry.register(NAME, STRING))
    stage.run(registry.check(NAME, STRING))
    with pytest.raises(IncompatibleSchema):
        stage.run(registry.check(NAME, avro("a")))
    with pytest.raises(InvalidSchema):
        stage.run(registry.check(NAME, SchemaInfo("", SchemaType.AVRO, b"{")))
    assert stage.broker.counters.schemas_registered == 1


def test_rules(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(schema_compatibility_strategy="BACKWARD", allow_auto_update_schema=False)
    registry = stage.broker.schemas
    assert registry.rules(NAME) == SchemaRules(Strategy.BACKWARD, False, False)
    with pytest.raises(IncompatibleSchema):
        stage.run(registry.admit_producer(NAME, STRING))
    assert stage.run(registry.register(NAME, STRING)) == 0, "an operator may"


def test_a_large_definition_is_judged_beside_the_loop() -> None:
    large = avro(*(f"field_{number:04}" for number in range(1000)))
    assert len(large.data) > INLINE_SIZE_MAX
    threads: list[str] = []

    async def test(registry: SchemaRegistry, slow: SlowCatalog) -> None:
        assert await registry.register(NAME, large) == 0
        await registry._judge(large, lambda: threads.append(threading.current_thread().name))
        await registry._judge(STRING, lambda: threads.append(threading.current_thread().name))

    with_registry(test)
    assert threads[0] != threads[1]
    assert threads[1] == threading.main_thread().name


def test_a_topic_that_is_deleted_takes_its_schema_with_it(stage: Stage) -> None:
    part = TopicName.parse(f"{TOPIC}-partition-0")
    whole = TopicName.parse("persistent://public/default/whole")
    registry = stage.broker.schemas
    stage.run(stage.broker.create_partitioned_topic(NAME, 1))
    for name in (NAME, whole):
        stage.run(registry.register(name, STRING))
    stage.run(topic_lifecycle.delete_topic(stage.broker, stage.topic(str(whole)), force=False))
    assert not registry.has_schema(whole)
    assert stage.run(registry.register(whole, avro("a"))) == 0, "its messages are gone as well"
    stage.run(topic_lifecycle.delete_topic(stage.broker, stage.topic(str(part)), force=False))
    assert registry.has_schema(NAME), "partitions share it"
    stage.run(topic_lifecycle.delete_partitioned(stage.broker, NAME, force=False))
    assert not registry.has_schema(NAME)
    assert stage.store.catalog.schemas("public/default/t") == []
