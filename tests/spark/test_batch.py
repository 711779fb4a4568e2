"""A topic as a table: ranges, columns, splits, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql.pandas.types import to_arrow_schema

import milepost
from milepost.admin import Admin
from milepost.spark.values.columns import COLUMNS, USUAL, arrow_schema

Reading = Callable[..., DataFrameReader]


def values(frame: DataFrame) -> list[bytes]:
    return [bytes(row.value) for row in frame.orderBy("index").select("value").collect()]


def test_a_topic_is_a_table(reading: Reading, publisher: Any, topic: str) -> None:
    publisher.batches(25, of=10)
    publisher.singles(5)
    publisher.chunked(150_000)
    publisher.batches(3, of=10)
    assert reading().load().columns == list(USUAL)
    frame = reading(columns="all").load()
    assert frame.columns == list(COLUMNS)
    rows = frame.orderBy("index").collect()
    assert [bytes(row.value) for row in rows] == publisher.values
    # The chunked message took three indexes and has that of its last chunk.
    assert [row["index"] for row in rows] == [*range(30), 32, 33, 34, 35]
    assert {row.topic for row in rows} == {topic}
    assert rows[3].batch_index == 3
    assert rows[25].batch_index == -1
    assert rows[25].properties == {"n": "0"}
    assert rows[25].event_time.timestamp() == 1
    assert bytes(rows[3].key) == b"3"
    assert rows[30].first_chunk_id is not None
    assert rows[29].first_chunk_id is None


def test_the_arrow_schema_is_exactly_what_spark_derives(reading: Reading, publisher: Any) -> None:
    publisher.singles(1)
    schema = reading(columns="all").load().schema
    assert to_arrow_schema(schema, timezone="UTC") == arrow_schema()


@pytest.mark.parametrize("splits", [{"minPartitions": 7}, {"maxMessagesPerPartition": 4}])
def test_a_partition_is_split_by_index(reading: Reading, publisher: Any, splits: Any) -> None:
    publisher.batches(20, of=10)
    publisher.chunked(200_000)  # a slice begins between its chunks
    publisher.batches(7, of=10)
    frame = reading(**splits).load()
    assert frame.rdd.getNumPartitions() >= 7
    assert values(frame) == publisher.values


def test_ranges_are_half_open(reading: Reading, publisher: Any, topic: str) -> None:
    publisher.batches(30, of=10)
    expected = publisher.values
    assert values(reading(startingIndex=3, endingIndex=17).load()) == expected[3:17]
    by_topic = f'{{"{topic}": 28}}'
    assert values(reading(startingIndex=by_topic).load()) == expected[28:]
    assert values(reading(startingIndex=30).load()) == []
    row = reading(columns="all").load().where("index = 12").first()
    from milepost.positions import MessageId

    message_id = MessageId.deserialize(bytes(row.message_id))
    assert values(reading(startingIndex=f"messageId:{message_id}").load()) == expected[12:]
    later = f"timestamp:{int(row.publish_time.timestamp() * 1000) + 3_600_000}"
    assert values(reading(startingIndex=later).load()) == []
    assert values(reading(startingIndex="timestamp:0").load()) == expected


def test_a_range_begins_where_a_subscription_stands(
    reading: Reading, publisher: Any, broker: Any, topic: str
) -> None:
    publisher.batches(30, of=10)
    with milepost.Client(broker.url) as client:
        billing = client.subscribe(
            topic, "billing", initial_position=milepost.InitialPosition.Earliest
        )
        billing.acknowledge_cumulative(index=11)  # a part of the second batch
    assert values(reading(startingIndex="subscription:billing").load()) == publisher.values[10:]
    assert values(reading(endingIndex="subscription:billing").load()) == publisher.values[:10]


@pytest.mark.parametrize("option", ["startingIndex", "endingIndex"])
def test_a_subscription_that_is_not_there_is_refused_and_not_made(
    reading: Reading, publisher: Any, broker: Any, topic: str, option: str
) -> None:
    publisher.singles(3)
    with pytest.raises(PySparkException, match=r"subscription bilings of .* does not exist"):
        reading(**{option: "subscription:bilings"}).load().collect()
    with Admin(broker.http_url) as admin:
        assert "bilings" not in admin.get_subscriptions(topic)


def test_columns_are_chosen_by_option_or_by_schema(reading: Reading, publisher: Any) -> None:
    publisher.batches(3, of=3)
    assert reading(columns="value,index").load().columns == ["value", "index"]
    frame = reading().schema("index BIGINT, key BINARY").load()
    assert [tuple(row) for row in frame.orderBy("index").collect()] == [
        (0, b"0"),
        (1, b"1"),
        (2, b"2"),
    ]


def test_filters_are_taken_when_they_may_be(reading: Reading, publisher: Any, spark: Any) -> None:
    publisher.batches(30, of=10)
    condition = (
        "index >= 4 and index < 9 and partition = -1 and publish_time > timestamp'2000-01-01'"
    )
    off = reading().load().where(condition)
    assert values(off) == publisher.values[4:9]
    # Push-down is off by default, and a source that insists would fail plain reads.
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        on = reading(pushFilters="true", maxMessagesPerPartition=1).load().where(condition)
        assert values(on) == publisher.values[4:9]
        assert on.rdd.getNumPartitions() == 5
        assert values(reading(pushFilters="true").load().where("partition = 3")) == []
        assert values(reading(pushFilters="true").load().where("index in (3, 7)")) == [
            publisher.values[3],
            publisher.values[7],
        ]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


def test_partitions_of_a_topic_and_patterns(
    reading: Reading, broker: Any, client: Any, topic: str
) -> None:
    broker.create_partitioned_topic(topic, 3)
    producer = client.create_producer(topic)
    for number in range(30):
        producer.send(b"%d" % number, partition_key=str(number))
    frame = reading().load()
    assert sorted(int(row.value) for row in frame.collect()) == list(range(30))
    assert {row.partition for row in frame.collect()} == {0, 1, 2}
    pattern = topic.removeprefix("persistent://public/default/")[:-1] + ".*"
    assert reading(topicsPattern=pattern).load().count() == 30


def test_options_reach_a_view(
    reading: Reading, publisher: Any, spark: Any, broker: Any, topic: str
) -> None:
    publisher.batches(5, of=5)
    spark.sql(
        f"CREATE OR REPLACE TEMP VIEW v USING milepost OPTIONS(topic '{topic}', "
        f"serviceUrl '{broker.url}', startingIndex '2')"
    )
    assert spark.sql("SELECT count(*) FROM v").first()[0] == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"maxOffsetsPerTrigger": 3}, "there is no option maxoffsetspertrigger"),
        ({"columns": "index,offset"}, "there is no column 'offset'"),
        ({"endingIndex": 99}, "[0, 99) is to be read, it ends at 2"),
        ({"startingIndex": 2, "endingIndex": 1}, "[2, 1) is to be read"),
        (
            {"serviceUrl": "pulsar://127.0.0.1:1", "timeout": "1ms"},
            "no broker answers at pulsar://127.0.0.1:1",
        ),
        ({"topic": "never-made"}, "never-made"),
    ],
)
def test_what_cannot_be_read_is_named(
    reading: Reading, publisher: Any, options: Any, said: str
) -> None:
    publisher.batches(2, of=2)
    with pytest.raises(PySparkException) as caught:
        reading(**options).load().collect()
    assert said in str(caught.value)


def test_a_schema_with_other_types_is_refused(reading: Reading, publisher: Any) -> None:
    publisher.batches(2, of=2)
    with pytest.raises(PySparkException, match="column index is bigint"):
        reading().schema("index STRING").load().collect()


ENOUGH = """
import sys
from milepost.spark.pipelines.tasks import session
import milepost.spark
spark = session("local[2]")
milepost.spark.register(spark)
frame = spark.read.format("milepost").options(serviceUrl=sys.argv[1], topic=sys.argv[2]).load()
frame.show(3)
print(len(frame.limit(5).collect()))
spark.stop()
"""


def test_a_query_that_has_enough_prints_no_traceback(
    broker: Any, publisher: Any, topic: str
) -> None:
    """Spark hangs up on workers that have more to give; PySpark calls that an error."""
    publisher.batches(300_000, of=1000)
    done = subprocess.run(
        [sys.executable, "-c", ENOUGH, broker.url, topic],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "5"
    assert "Traceback" not in done.stderr
