"""Writing exactly once to a broker that does not deduplicate by itself: made ready or refused, never half."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compat.broker_process import BrokerProcess
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from milepost.client.connection.endpoint import Endpoint
from milepost.errors import CorruptData, NotAllowed, TopicNotFound
from milepost.spark.pipelines.archive import archive
from milepost.spark.pipelines.lake.lakes import open_lake
from milepost.spark.pipelines.replay import replay
from milepost.spark.pipelines.verify import verify_copy
from spark.conftest import values_of
from spark.test_pipelines import options

PARTITIONS = 3


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker as it is by default: topics do not deduplicate."""
    with BrokerProcess(tmp_path_factory.mktemp("forgetful")) as process:
        yield process


@pytest.fixture
def connection(forgetful: BrokerProcess) -> Endpoint:
    return Endpoint(url=forgetful.url, admin_url=f"http://127.0.0.1:{forgetful.http_port}")


@pytest.fixture
def lake(
    spark: SparkSession, broker: Any, client: Any, topic: str, tmp_path: Path
) -> tuple[Path, int]:
    """A lake of a partitioned topic, and how many messages it has."""
    broker.create_partitioned_topic(topic, PARTITIONS)
    producer = client.create_producer(topic)
    for number in range(20):
        producer.send(b"%d" % number, partition_key=str(number))
    producer.close()
    directory = tmp_path / "lake"
    done = archive(spark, options(broker, topic), directory, files_min=0)
    assert done.messages == 20
    return directory, done.messages


def is_empty(connection: Endpoint, topic: str) -> bool:
    try:
        return values_of(connection.url or "", topic) == []
    except TopicNotFound:  # a partition that no producer has opened
        return True


def test_replay_makes_a_target_like_the_source(
    spark: SparkSession, connection: Endpoint, lake: tuple[Path, int], topic: str
) -> None:
    directory, messages = lake
    copy = f"{topic}-copy"
    assert replay(spark, connection, directory, copy, name="r") == (messages, messages)
    assert replay(spark, connection, directory, copy, name="r") == (messages, 0)
    assert verify_copy(spark, connection, directory, copy) == (messages, PARTITIONS, [])
    with connection.admin() as admin:
        assert admin.get_partitioned_topic_metadata(copy)["partitions"] == PARTITIONS
        assert admin.get_topic_policy(copy, "deduplicationEnabled") is True


def test_replay_into_a_topic_that_does_not_deduplicate_writes_nothing(
    spark: SparkSession, connection: Endpoint, lake: tuple[Path, int], topic: str
) -> None:
    directory, messages = lake
    copy = f"{topic}-copy"
    with connection.admin() as admin:
        admin.create_partitioned_topic(copy, PARTITIONS)
        with pytest.raises(NotAllowed, match="does not deduplicate"):
            replay(spark, connection, directory, copy, name="r")
        for number in range(PARTITIONS):
            assert is_empty(connection, f"{copy}-partition-{number}")
        # What the error advises helps, and nothing is there twice.
        admin.set_topic_policy(copy, "deduplicationEnabled", True)
    assert replay(spark, connection, directory, copy, name="r") == (messages, messages)
    assert verify_copy(spark, connection, directory, copy).problems == []


def test_replay_into_other_partitions_writes_nothing(
    spark: SparkSession, connection: Endpoint, lake: tuple[Path, int], topic: str
) -> None:
    directory, _ = lake
    copy = f"{topic}-copy"
    with connection.admin() as admin:
        admin.create_topic(copy)
        admin.set_topic_policy(copy, "deduplicationEnabled", True)
    with pytest.raises(NotAllowed, match="has 0 partitions, it must have 3"):
        replay(spark, connection, directory, copy, name="r")
    assert is_empty(connection, copy)


def test_replay_of_a_damaged_lake_writes_nothing(
    spark: SparkSession, connection: Endpoint, lake: tuple[Path, int], topic: str
) -> None:
    directory, _ = lake
    copy = f"{topic}-copy"
    damaged = open_lake(directory).parts[-1].paths[0]
    (directory / damaged).write_bytes(b"no parquet")
    with pytest.raises(CorruptData, match=damaged):
        replay(spark, connection, directory, copy, name="r")
    with connection.admin() as admin:
        assert copy not in admin.list_topics("public/default")


@pytest.mark.parametrize("more", [{}, {"uniqueKey": "index"}])
def test_the_sink_refuses_before_the_first_row(
    spark: SparkSession,
    broker: Any,
    publisher: Any,
    connection: Endpoint,
    topic: str,
    more: dict[str, str],
) -> None:
    publisher.batches(50, of=5)
    copy = f"{topic}-copy"
    frame = spark.read.format("milepost").options(serviceUrl=broker.url, topic=topic).load()
    writer = (
        frame.coalesce(1)
        .write.format("milepost")
        .options(
            serviceUrl=connection.url or "",
            topic=copy,
            delivery="exactlyOnce",
            producerPrefix="p",
            **more,
        )
        .mode("append")
    )
    with pytest.raises(PySparkException, match="does not deduplicate"):
        writer.save()
    assert is_empty(connection, copy)


def test_the_sink_makes_a_target_that_deduplicates(
    spark: SparkSession, broker: Any, publisher: Any, connection: Endpoint, topic: str
) -> None:
    publisher.batches(50, of=5)
    copy = f"{topic}-copy"
    frame = spark.read.format("milepost").options(serviceUrl=broker.url, topic=topic).load()
    for _ in range(2):
        (
            frame.write.format("milepost")
            .options(
                serviceUrl=connection.url or "",
                adminUrl=connection.admin_url,
                topic=copy,
                delivery="exactlyOnce",
                producerPrefix="p",
            )
            .mode("append")
            .save()
        )
    assert values_of(connection.url or "", copy) == publisher.values


def test_a_batch_without_a_name_is_refused_when_it_is_planned(
    spark: SparkSession, broker: Any, publisher: Any, topic: str
) -> None:
    publisher.batches(5, of=5)
    copy = f"{topic}-copy"
    frame = spark.read.format("milepost").options(serviceUrl=broker.url, topic=topic).load()
    options = {"serviceUrl": broker.url, "topic": copy, "delivery": "exactlyOnce"}
    with pytest.raises(PySparkException, match="producerPrefix is missing"):
        frame.write.format("milepost").options(**options).mode("append").save()
    status, found = broker.rest("GET", "/admin/v2/persistent/public/default")
    assert (status, copy in found) == (200, False)
