"""Table views: the newest value of every key, now and later."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from typing import Any

import pytest
from stage.official_table import official_table

import milepost
from milepost.aio import Client, TableView
from milepost.errors import AlreadyClosed
from milepost.schema import Integer, JsonSchema, Record

Connect = Callable[..., Client]


async def put(client: Client, topic: str, *pairs: tuple[str | None, bytes | None]) -> None:
    producer = await client.create_producer(topic)
    for key, value in pairs:
        await producer.send(value, partition_key=key)
    await producer.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.002)  # sleep: the view is told by the broker


async def test_the_newest_value_of_every_key(connect: Connect, topic: str) -> None:
    async with connect() as client:
        await put(client, topic, ("a", b"1"), ("b", b"2"), ("a", b"3"), (None, b"no key"))
        async with await client.create_table_view(topic) as view:
            assert (view.get("a"), view.get("b"), view.get("c")) == (b"3", b"2", None)
            assert (len(view), sorted(view), "a" in view) == (2, ["a", "b"], True)
            seen: dict[str, Any] = {}
            view.for_each(seen.__setitem__)
            assert seen == {"a": b"3", "b": b"2"}
            assert repr(view) == f"TableView(topic={topic})"


async def test_it_is_kept_up_to_date(connect: Connect, topic: str) -> None:
    async with connect() as client:
        await put(client, topic, ("a", b"1"))
        view = await client.create_table_view(topic)
        heard: list[tuple[str, Any]] = []
        view.for_each_and_listen(lambda key, value: heard.append((key, value)))
        await put(client, topic, ("b", b"2"), ("a", b"3"), ("b", None), ("c", b""), ("a", b"4"))
        await until(lambda: len(heard) == 6)
        assert heard == [
            ("a", b"1"),
            ("b", b"2"),
            ("a", b"3"),
            ("b", None),
            ("c", None),
            ("a", b"4"),
        ]
        assert (view.get("a"), list(view)) == (b"4", ["a"])
        await view.close()


async def test_a_listener_that_fails_disturbs_nobody(
    connect: Connect, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect() as client:
        view = await client.create_table_view(topic)
        heard: list[str] = []

        def fails(key: str, value: Any) -> None:
            raise RuntimeError("of the user's")

        view.for_each_and_listen(fails)
        view.for_each_and_listen(lambda key, value: heard.append(key))
        await put(client, topic, ("a", b"1"), ("b", b"2"))
        await until(lambda: heard == ["a", "b"])
        assert "a listener failed at key 'a'" in caplog.text


async def test_partitions_are_one_table(
    connect: Connect, topic: str, partition: Callable[[str, int], None]
) -> None:
    partition(topic, 3)
    async with connect() as client:
        await put(client, topic, *((f"k{number}", b"%d" % number) for number in range(20)))
        view = await client.create_table_view(topic)
        assert {key: view.get(key) for key in view} == {
            f"k{number}": b"%d" % number for number in range(20)
        }


class Price(Record):
    cents = Integer()


async def test_values_by_schema(connect: Connect, topic: str) -> None:
    async with connect() as client:
        producer = await client.create_producer(topic, schema=JsonSchema(Price))
        await producer.send(Price(cents=250), partition_key="coffee")
        view = await client.create_table_view(topic, schema=JsonSchema(Price))
        assert view.get("coffee").cents == 250
        raw = await client.create_table_view(topic)
        assert raw.get("coffee") == b'{"cents": 250}' or b"250" in raw.get("coffee")


async def test_a_view_with_a_name(connect: Connect, topic: str) -> None:
    async with connect() as client:
        view = await client.create_table_view(topic, "prices-here")
        assert repr(view) == f"TableView(topic={topic}, subscription=prices-here)"


async def test_a_closed_view_says_so(connect: Connect, topic: str) -> None:
    client = connect()
    views: list[TableView] = [await client.create_table_view(topic) for _ in range(2)]
    await views[0].close()
    await views[0].close()
    await client.close()
    await until(lambda: all(view._error is not None for view in views))
    for view in views:
        with pytest.raises(AlreadyClosed):
            view.get("a")


def test_the_synchronous_view(service: str, topic: str) -> None:
    with milepost.Client(service) as client:
        producer = client.create_producer(topic)
        producer.send(b"1", partition_key="a")
        view = client.create_table_view(topic)
        heard: queue.Queue[tuple[str, Any]] = queue.Queue()
        view.for_each_and_listen(lambda key, value: heard.put((key, value)))
        producer.send(b"2", partition_key="b")
        assert [heard.get(timeout=30), heard.get(timeout=30)] == [("a", b"1"), ("b", b"2")]
        assert (view.get("b"), len(view), sorted(view), "x" in view) == (b"2", 2, ["a", "b"], False)
        view.close()


def test_the_official_view_sees_the_same(service: str, topic: str) -> None:
    with milepost.Client(service) as client:
        producer = client.create_producer(topic)
        for key, value in (("a", b"1"), ("b", b"2"), ("a", b""), ("c", b"3")):
            producer.send(value, partition_key=key)
        ours = client.create_table_view(topic)
        seen = official_table(service, topic)
        assert seen == {key: ours.get(key) for key in ours} == {"b": b"2", "c": b"3"}
