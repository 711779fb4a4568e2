"""What goes wrong around a source is a Spark error that names the value; nothing is lost, nothing doubled.

Unknown options, missing topics and a broker that is not there: test_batch.py. Ranges: test_data_loss.py.
Checkpoints and subscriptions of others: test_stream.py. Values: test_values_by_schema.py.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from stage.security import SECURED, token

from spark.conftest import MESSAGE_SIZE_MAX, Publisher
from spark.test_stream import Sink

AWAY = r"no broker answers at|closed the connection|broke:"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker", max_message_size=MESSAGE_SIZE_MAX) as process:
        yield process


def published(broker: BrokerProcess, topic: str, **options: Any) -> list[bytes]:
    client = pulsar.Client(
        broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error), **options
    )
    publisher = Publisher(client, topic)
    publisher.batches(12, of=5)
    client.close()
    return publisher.values


def stream(spark: SparkSession, broker: BrokerProcess, topic: str, **options: Any) -> DataFrame:
    given = {"serviceUrl": broker.url, "topic": topic, "maxMessagesPerTrigger": 4, **options}
    return spark.readStream.format("milepost").options(**given).load()


class MeddlingSink(Sink):
    """Does something behind its first batch."""

    def __init__(self, path: Path, meddle: Any) -> None:
        super().__init__(path)
        self._meddle = meddle

    def run(self, frame: DataFrame, **options: Any) -> Any:
        # Behind `take`, which keeps the rows: a batch counts when both are done.
        meddle, self._meddle = self._meddle, lambda: None
        done: list[int] = []

        def once(batch: DataFrame, batch_id: int) -> None:
            self.batches[batch_id] = [
                (row.topic, row["index"], bytes(row.value)) for row in batch.collect()
            ]
            if not done:
                done.append(batch_id)
                meddle()

        query = (
            frame.writeStream.foreachBatch(once)
            .option("checkpointLocation", self.checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return query


def test_wrong_credentials_are_refused_by_name(
    spark: SparkSession, tmp_path: Path, topic: str
) -> None:
    settings = {**SECURED, "max_message_size": MESSAGE_SIZE_MAX}
    with BrokerProcess(tmp_path, **settings) as secured:
        authentication = pulsar.AuthenticationToken(token("root"))
        values = published(secured, topic, authentication=authentication)

        def read(**options: str) -> list[bytes]:
            given = {"serviceUrl": secured.url, "topic": topic, "timeout": "5s", **options}
            frame = spark.read.format("milepost").options(**given).load()
            return [bytes(row.value) for row in frame.orderBy("index").collect()]

        with pytest.raises(PySparkException, match="NotAuthenticated: "):
            read()
        with pytest.raises(PySparkException, match="NotAuthenticated: "):
            read(token="not a token")  # that is the point
        with pytest.raises(PySparkException, match="stranger"):
            read(token=token("stranger"))
        assert read(token=token("root")) == values


def test_a_broker_that_comes_back_is_waited_for(
    spark: SparkSession, own: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    values = published(own, topic)

    def restart() -> None:
        own.kill()
        back = threading.Timer(1.0, own.start)
        back.start()
        threads.append(back)

    threads: list[threading.Timer] = []
    sink = MeddlingSink(tmp_path, restart)
    sink.run(stream(spark, own, topic))
    (back,) = threads
    back.join()
    assert sink.values == values


def test_a_broker_that_stays_away_fails_the_query_and_not_the_data(
    spark: SparkSession, own: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    values = published(own, topic)
    sink = MeddlingSink(tmp_path, own.kill)
    with pytest.raises(StreamingQueryException, match=AWAY) as caught:
        sink.run(stream(spark, own, topic, timeout="1s"))
    assert own.url in str(caught.value)
    own.start()
    sink.run(stream(spark, own, topic))
    assert sink.values == values


def test_a_topic_that_is_deleted_under_a_query_is_named(
    spark: SparkSession, own: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    published(own, topic)

    def delete() -> None:
        path = topic.replace("://", "/")
        status, said = own.rest("DELETE", f"/admin/v2/{path}?force=true")
        assert status == 204, said

    sink = MeddlingSink(tmp_path, delete)
    with pytest.raises(StreamingQueryException) as caught:
        sink.run(stream(spark, own, topic, timeout="2s"))
    assert topic in str(caught.value)
    assert "no longer there" in str(caught.value) or "does not exist" in str(caught.value)


def test_an_error_is_a_sentence_and_not_the_way_to_it(
    spark: SparkSession, own: BrokerProcess, topic: str
) -> None:
    published(own, topic)

    def read(**options: str) -> None:
        given = {"serviceUrl": own.url, "topic": topic, "timeout": "1s", **options}
        spark.read.format("milepost").options(**given).load().collect()

    for options, sentence in (
        ({"startingIndx": "1"}, "there is no option startingindx; did you mean startingIndex?"),
        ({"topic": "none"}, "there is no topic persistent://public/default/none"),
        ({"endingIndex": "99"}, f"{topic}: [0, 99) is to be read, it ends at 12"),
        ({"serviceUrl": "pulsar://127.0.0.1:1"}, "no broker answers at pulsar://127.0.0.1:1"),
        ({"decode": "json", "valueSchema": "n INT"}, f"{topic}: message 0 is not what its JSON"),
    ):
        with pytest.raises(PySparkException) as caught:
            read(**options)
        before = str(caught.value).partition(sentence)[0]
        assert before != str(caught.value), caught.value
        # What failed in Spark's words, and where it called us.
        assert before.count("\n") <= 5, caught.value
