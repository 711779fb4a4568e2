"""Rows to several topics, all or nothing, and once: attempts that fail, lose or come late, and bad input.

Attempts are made by hand where Spark's scheduler would have to be lucky: a writer is pickled and called as
Spark does it, so the moments are exact. `test_transactional_kills.py` kills real processes.
"""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from compat.broker_process import BrokerProcess
from compat.transaction_scenes import SCENES, Scene
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming import DataStreamReader
from pyspark.sql.types import StringType, StructField, StructType

import milepost
from milepost.errors import (
    InvalidOption,
    InvalidTransactionStatus,
    MilepostError,
    NotAllowed,
    ProducerFenced,
)
from milepost.spark.options import write_options
from milepost.spark.source import MilepostSource
from milepost.spark.writing.sink import TopicWriter
from spark.conftest import MESSAGE_SIZE_MAX, values_of
from spark.faults import Faults, FaultySource

Reading = Callable[..., DataFrameReader]
Streaming = Callable[..., DataStreamReader]
PATIENCE_S = 600

SCHEMA = StructType([StructField(name, StringType()) for name in ("topic", "value")])


def writer(broker: Any, **options: str) -> TopicWriter:
    """As Spark's driver makes it, and hands it to its tasks."""
    given = {"serviceUrl": broker.url, "transactional": "true", "timeout": "10s", **options}
    made = MilepostSource(given).writer(SCHEMA, overwrite=False)
    return pickle.loads(pickle.dumps(made))


def rows(*pairs: tuple[str | None, str]) -> Iterable[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict(
        {"topic": [topic for topic, _ in pairs], "value": [value for _, value in pairs]},
        schema=pa.schema([("topic", pa.string()), ("value", pa.string())]),
    )


def two(topic: str) -> tuple[str, str]:
    return f"{topic}-a", f"{topic}-b"


def found(broker: Any, *topics: str) -> list[list[bytes]]:
    """What is visible, in order."""
    return [values_of(broker.url, topic) for topic in topics]


def test_only_the_attempts_that_are_handed_over_count(broker: Any, topic: str) -> None:
    a, b = two(topic)
    batch = writer(broker)
    batch.write(rows((a, "1"), (b, "1")))  # a speculative attempt that loses
    first = batch.write(rows((a, "1"), (b, "1")))
    second = batch.write(rows((b, "2")))
    assert found(broker, a, b) == [[], []]
    batch.commit([first, batch.write(rows()), second])
    # Nothing is held back by the attempt that lost.
    assert found(broker, a, b) == [[b"1"], [b"1", b"2"]]
    writer(broker).commit([])


def test_an_attempt_that_fails_takes_back_what_it_wrote(broker: Any, topic: str) -> None:
    a, b = two(topic)

    def failing() -> Iterable[pa.RecordBatch]:
        yield from rows((a, "1"), (b, "1"))
        raise RuntimeError("the source fails")

    batch = writer(broker)
    with pytest.raises(RuntimeError):
        batch.write(failing())
    other = writer(broker, topic=b)
    other.commit([other.write(rows((None, "2")))])
    assert found(broker, a, b) == [[], [b"2"]]
    batch.commit([batch.write(rows((a, "3"), (b, "3")))])  # the next attempt
    assert found(broker, a, b) == [[b"3"], [b"2", b"3"]]


def test_a_batch_that_is_aborted_leaves_nothing(broker: Any, topic: str) -> None:
    a, b = two(topic)
    batch = writer(broker)
    batch.abort([batch.write(rows((a, "1"))), None, batch.write(rows((b, "2")))])
    batch = writer(broker)
    batch.commit([batch.write(rows((a, "3"), (b, "3")))])
    assert found(broker, a, b) == [[b"3"], [b"3"]]


@pytest.mark.parametrize("prefix", [None, "named"])
@pytest.mark.parametrize("ending", ["commit", "nothing to commit", "abort", "all tasks failed"])
def test_the_driver_ends_what_killed_tasks_have_open(
    broker: Any, topic: str, ending: str, prefix: str | None
) -> None:
    """Spark kills a task that has written, so no process but the broker knows its transaction."""
    a, b = two(topic)
    batch = writer(broker, **({} if prefix is None else {"producerPrefix": f"{prefix}-{topic}"}))
    batch.write(rows((a, "killed"), (b, "killed")))
    if ending == "commit":
        batch.commit([batch.write(rows((a, "1")))])
    elif ending == "nothing to commit":
        batch.commit([batch.write(rows())])
    elif ending == "abort":
        batch.abort([batch.write(rows((a, "2"))), None])
    else:
        batch.abort([None])
    other = writer(broker)
    other.commit([other.write(rows((a, "3"), (b, "3")))])
    assert found(broker, a, b) == [[b"1"] * (ending == "commit") + [b"3"], [b"3"]]


def test_the_process_that_aborts_a_batch_of_a_stream_knows_its_run_by_a_task(
    broker: Any, topic: str
) -> None:
    """Spark makes a writer of its own to end a batch of a stream, and tells it what tasks handed over."""
    a, b = two(topic)
    batch = writer(broker)
    batch.write(rows((a, "killed")))
    told = batch.write(rows((b, "told")))
    given = {"serviceUrl": broker.url, "transactional": "true", "timeout": "10s"}
    MilepostSource(given).streamWriter(SCHEMA, overwrite=False).abort([None, told], 7)
    other = writer(broker)
    other.commit([other.write(rows((a, "1"), (b, "1")))])
    assert found(broker, a, b) == [[b"1"], [b"1"]]


@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_an_attempt_that_is_slower_than_the_driver_writes_no_more(
    broker: Any, topic: str, ending: str
) -> None:
    """A speculative attempt is in the middle of its rows when the driver ends the batch, another has not
    begun."""
    a, b = two(topic)
    batch = writer(broker)
    has_begun, has_ended = threading.Event(), threading.Event()

    def slow() -> Iterable[pa.RecordBatch]:
        yield from rows((a, "slow"))
        has_begun.set()
        assert has_ended.wait(PATIENCE_S)
        yield from rows((b, "slow"))

    with ThreadPoolExecutor(1) as pool:
        loser = pool.submit(batch.write, slow())
        assert has_begun.wait(PATIENCE_S)
        winner = batch.write(rows((a, "1"), (b, "1")))
        batch.commit([winner]) if ending == "commit" else batch.abort([winner, None])
        has_ended.set()
        # Its abort is asked for with the answer to the driver; a bucket takes its time.
        with pytest.raises(InvalidTransactionStatus, match=r"it was aborted|is ending"):
            loser.result()
    with pytest.raises(ProducerFenced, match="is over: it has ended"):
        batch.write(rows((a, "late")))
    other = writer(broker)
    other.commit([other.write(rows((a, "2"), (b, "2")))])
    assert found(broker, a, b) == [[b"1"] * (ending == "commit") + [b"2"]] * 2


def test_a_batch_under_one_name_is_written_once(broker: Any, topic: str) -> None:
    a, b = two(topic)
    for _ in range(3):
        batch = writer(broker, producerPrefix=topic)
        written = [batch.write(rows((a, "1"), (b, "1"))), batch.write(rows((b, "2")))]
        batch.commit(written)
        assert found(broker, a, b) == [[b"1"], [b"1", b"2"]]
    assert [one.is_done for one in written] == [True, True]
    assert [one.txn_id for one in written] == [None, None]


def test_a_driver_that_comes_late_writes_nothing(broker: Any, topic: str) -> None:
    """Two drivers have the same batch at once: the later one wins, and what the earlier has is aborted."""
    a, b = two(topic)
    early, late = (writer(broker, producerPrefix=topic) for _ in range(2))
    of_early = [early.write(rows((a, "1"))), early.write(rows((b, "1")))]
    of_late = [late.write(rows((a, "1"))), late.write(rows((b, "1")))]
    with pytest.raises(ProducerFenced, match="is over: another has begun"):
        early.write(rows((a, "1")))
    with pytest.raises(InvalidTransactionStatus, match=r"the batch is not written: .* 600 s"):
        early.commit(of_early)
    early.abort(of_early)
    assert found(broker, a, b) == [[], []]
    late.commit(of_late)
    late.commit(of_late)  # Spark heard no answer
    late.abort(of_late)  # … or thinks that it failed
    assert found(broker, a, b) == [[b"1"], [b"1"]]


def test_a_transaction_that_is_too_long_open_is_no_batch(broker: Any, topic: str) -> None:
    def until_it_is_late() -> None:
        while True:  # the broker looks for those whose time is over once in a while
            batch = writer(broker, transactionTimeout="1ms", topic=topic)
            batch.commit([batch.write(rows((None, "early")))])

    with pytest.raises(InvalidTransactionStatus, match=r"is ending|has ended: it was aborted"):
        until_it_is_late()
    batch = writer(broker, topic=topic)
    batch.commit([batch.write(rows((None, "late")))])
    assert found(broker, topic)[0][-1] == b"late"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (None, "a row has no topic"),
        ("non-persistent://public/default/t", "is not persistent"),
        ("a//b", "column topic: "),
    ],
)
def test_topics_of_rows_that_cannot_be(broker: Any, name: str | None, said: str) -> None:
    batch = writer(broker)
    with pytest.raises(NotAllowed, match=said):
        batch.write(rows((name, "1")))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delivery": "exactlyOnce"}, "options transactional and delivery"),
        ({"uniqueKey": "k"}, "options transactional and uniqueKey"),
        ({"encode": "schema"}, "option topic must name it"),
        ({"transactionTimeout": "soon"}, "option transactionTimeout is 'soon'"),
        ({"transactionTimeout": "0s"}, "option transactionTimeout is 0"),
        ({"transactional": "maybe"}, "option transactional is 'maybe'"),
        (
            {"transactional": "false", "topic": "t", "transactionTimeout": "1m"},
            "needs transactional=true",
        ),
        ({"transactional": "false"}, "option topic says where to write"),
    ],
)
def test_options_that_contradict(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        write_options({"transactional": "true", **options})


def test_rows_without_a_topic_column(broker: Any) -> None:
    values = StructType([StructField("value", StringType())])
    options = write_options({"serviceUrl": broker.url, "transactional": "true"})
    with pytest.raises(InvalidOption, match="the rows have no column topic"):
        TopicWriter(options, values)


def test_what_the_broker_refuses_is_asked_before_the_first_row(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path, transaction_coordinator_enabled=False) as off,
        pytest.raises(NotAllowed, match="transactions are switched off"),
    ):
        writer(off)


def test_a_time_that_the_broker_does_not_give(broker: Any, topic: str) -> None:
    batch = writer(broker, transactionTimeout="900h")
    with pytest.raises(MilepostError, match="a time-out of 3240000000 ms"):
        batch.write(rows((topic, "1")))


@pytest.fixture(scope="module", params=["", "after kill -9 and a restart"])
def scenes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, dict[str, Scene]]]:
    """A broker of its own, which can be killed, and a topic for each of the table's columns."""
    with BrokerProcess(tmp_path_factory.mktemp("scenes"), max_message_size=MESSAGE_SIZE_MAX) as own:
        client = milepost.Client(own.url)
        try:
            made = {name: Scene(client, name) for name in SCENES}
            if request.param:
                own.restart()
            yield own.url, made
        finally:
            client.close()


def test_queries_see_committed_messages_only(
    spark: SparkSession, tmp_path: Path, scenes: tuple[str, dict[str, Scene]]
) -> None:
    """Rows "Spark: a batch" and "Spark: a stream" of the table in docs/transactions.md, all columns in one
    query each."""
    url, made = scenes
    options = {"serviceUrl": url, "topics": ",".join(scene.topic for scene in made.values())}

    def seen(frame: DataFrame) -> dict[str, list[bytes]]:
        rows = frame.orderBy("topic", "index").collect()
        of_topic = {
            scene.topic: [bytes(row.value) for row in rows if row.topic == scene.topic]
            for scene in made.values()
        }
        return {name: of_topic[scene.topic] for name, scene in made.items()}

    expected = {name: scene.committed for name, scene in made.items()}
    assert seen(spark.read.format("milepost").options(**options).load()) == expected
    query = (
        spark.readStream.format("milepost")
        .options(**options)
        .load()
        .writeStream.format("memory")
        .queryName("seen")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S)
    assert seen(spark.table("seen")) == expected


def both(frame: DataFrame, topic: str) -> DataFrame:
    """Each row to two topics, behind a shuffle."""
    a, b = two(topic)
    return frame.selectExpr(
        "CAST(value AS STRING) AS value", "key", f"explode(array('{a}', '{b}')) AS topic"
    ).repartition(3)


def run(frame: DataFrame, broker: Any, path: Path, **options: Any) -> None:
    query = (
        frame.writeStream.format("faulty")
        .options(
            serviceUrl=broker.url,
            transactional="true",
            faults=str(path),
            checkpointLocation=str(path / "checkpoint"),
            **options,
        )
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S)


@pytest.mark.parametrize("fault", ["send", "die", "commit-before", "commit-after", None])
def test_a_stream_to_two_topics_writes_each_batch_once(
    spark: SparkSession,
    streaming: Streaming,
    publisher: Any,
    broker: Any,
    topic: str,
    tmp_path: Path,
    fault: str | None,
) -> None:
    spark.dataSource.register(FaultySource)
    a, b = two(topic)
    broker.create_partitioned_topic(a, 2)
    publisher.batches(40, of=10)
    frame = both(streaming(maxMessagesPerTrigger=15).load(), topic)
    if fault is not None:
        Faults(str(tmp_path)).tell(fault, 0 if fault.startswith("commit") else 1)
    if fault is not None and fault.startswith("commit"):
        with pytest.raises(StreamingQueryException, match="as it was told to"):
            run(frame, broker, tmp_path, mixed="true")
    publisher.batches(5, of=5)
    run(frame, broker, tmp_path, mixed="true")
    assert not fault or not (tmp_path / fault).exists()
    for names in ((f"{a}-partition-0", f"{a}-partition-1"), (b,)):
        values = [value for name in names for value in values_of(broker.url, name)]
        assert Counter(values) == Counter(publisher.values)


def test_a_frame_is_written_whole_or_not_at_all(
    spark: SparkSession, reading: Reading, broker: Any, topic: str
) -> None:
    def write(frame: DataFrame) -> None:
        frame.write.format("milepost").options(
            serviceUrl=broker.url, topic=topic, transactional="true"
        ).mode("append").save()

    frame = spark.range(0, 40, 1, 4).selectExpr("id", "CAST(id AS STRING) AS value")
    bad = frame.selectExpr(
        "IF(id = 39, CAST(raise_error('a row that cannot be') AS STRING), value) AS value"
    )
    with pytest.raises(PySparkException, match="a row that cannot be"):
        write(bad)
    assert reading().load().count() == 0
    write(frame)  # held back by no task that Spark has killed
    found = [bytes(row.value) for row in reading().load().collect()]
    assert Counter(found) == Counter(b"%d" % number for number in range(40))
