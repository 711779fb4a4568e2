"""Schemas with our client: said to the broker, checked by it, and read by who was written with another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from milepost import errors
from milepost.aio import Client
from milepost.schemas import (
    AutoConsumeSchema,
    AvroSchema,
    BytesSchema,
    Integer,
    JsonSchema,
    Record,
    String,
    StringSchema,
)

Connect = Callable[..., Client]


class Order(Record):
    item = String()
    count = Integer()


@pytest.mark.parametrize("kind", [AvroSchema, JsonSchema])
@pytest.mark.parametrize("batching", [False, True])
async def test_records(connect: Connect, topic: str, kind: Any, batching: bool) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", schema=kind(Order))
        producer = await client.create_producer(
            topic, schema=kind(Order), batching_enabled=batching
        )
        await producer.send(Order(item="coffee", count=2))
        message = await consumer.receive(10_000)
        value = message.value()
        assert (value.item, value.count) == ("coffee", 2)
        assert message.int_schema_version() == 0
        await producer.send(None)
        assert (await consumer.receive(10_000)).value() is None


@pytest.mark.parametrize(
    ("schema", "value"), [(StringSchema(), "grüß"), (BytesSchema(), b"\x00\xff"), (None, b"x")]
)
async def test_plain_values(connect: Connect, topic: str, schema: Any, value: Any) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", schema=schema)
        producer = await client.create_producer(topic, schema=schema)
        await producer.send(value)
        assert (await consumer.receive(10_000)).value() == value


async def test_a_value_that_does_not_fit(connect: Connect, topic: str) -> None:
    async with connect() as client:
        producer = await client.create_producer(topic, schema=AvroSchema(Order))
        with pytest.raises(errors.SchemaMismatch):
            await producer.send("coffee")
        text = await client.create_producer(f"{topic}-text", schema=StringSchema())
        with pytest.raises(errors.SchemaMismatch):
            await text.send(b"bytes")


async def test_a_schema_that_the_topic_does_not_take(connect: Connect, topic: str) -> None:
    async with connect() as client:
        await client.create_producer(topic, schema=AvroSchema(Order))
        with pytest.raises(errors.IncompatibleSchema):
            await client.create_producer(topic, schema=StringSchema())


async def test_what_others_wrote_is_read_by_their_schema(connect: Connect, topic: str) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", schema=AutoConsumeSchema())
        producer = await client.create_producer(topic, schema=AvroSchema(Order))
        await producer.send(Order(item="tea", count=1))
        value = (await consumer.receive(10_000)).value()
        assert value == {"item": "tea", "count": 1}
