"""One Spark session and one broker for all tests; a topic for each."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from pyspark.sql import DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql.streaming import DataStreamReader, DataStreamWriter

import milepost.spark
from milepost.client.connection.endpoint import Endpoint
from milepost.spark.offsets import Slice
from milepost.spark.options import read_options
from milepost.spark.reading.fetch import fetch
from milepost.spark.reading.survey import Survey

SOURCES = Path(milepost.__file__).parent.parent
JAVA_VERSION_MIN = 17
# Small, so that chunked messages need not be large. Of every broker here: the official client keeps the limit
# that it heard last for the whole process, whichever broker it was of.
MESSAGE_SIZE_MAX = 64 * 1024

_numbers = itertools.count()


def java_version() -> int:
    """0: there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        return 0
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    if java_version() < JAVA_VERSION_MIN:
        pytest.skip(
            "Spark needs Java 17 or newer: install openjdk-17-jre-headless, or set JAVA_HOME"
        )
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(SOURCES), str(Path(__file__).parent.parent)])
    session = (
        SparkSession.builder.master("local[2,3]")
        .appName("milepost-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    milepost.spark.register(session)
    with _looked_up_in(session):
        yield session
    session.stop()


@contextmanager
def _looked_up_in(session: SparkSession) -> Iterator[None]:
    """Spark looks data sources of Python up in the active session of the thread that serves the call, and
    a thread that py4j has begun anew has none: make it this one before every look."""
    of_java = type(session)._get_j_spark_session_class(session._jvm)
    patch = pytest.MonkeyPatch()

    def looking_up(of: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **more: Any) -> Any:
            of_java.setActiveSession(session._jsparkSession)
            return of(self, *args, **more)

        return call

    patch.setattr(DataStreamWriter, "start", looking_up(DataStreamWriter.start))
    patch.setattr(DataStreamReader, "load", looking_up(DataStreamReader.load))
    patch.setattr(DataFrameWriter, "save", looking_up(DataFrameWriter.save))
    patch.setattr(DataFrameReader, "load", looking_up(DataFrameReader.load))
    try:
        yield
    finally:
        patch.undo()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(
        tmp_path_factory.mktemp("broker"), max_message_size=MESSAGE_SIZE_MAX, deduplication=True
    ) as process:
        yield process
        assert not process.complaints()


@pytest.fixture(scope="session")
def client(broker: BrokerProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)
    return f"persistent://public/default/{name}{next(_numbers)}"


@pytest.fixture
def reading(
    spark: SparkSession, broker: BrokerProcess, topic: str
) -> Callable[..., DataFrameReader]:
    """A batch read of the test's topic, with more options."""

    def make(**options: Any) -> DataFrameReader:
        return _with(spark.read.format("milepost"), broker, topic, options)

    return make


@pytest.fixture
def streaming(
    spark: SparkSession, broker: BrokerProcess, topic: str
) -> Callable[..., DataStreamReader]:
    """The same as a stream."""

    def make(**options: Any) -> DataStreamReader:
        return _with(spark.readStream.format("milepost"), broker, topic, options)

    return make


def _with(reader: Any, broker: BrokerProcess, topic: str, options: dict[str, Any]) -> Any:
    given = {"serviceUrl": broker.url, **options}
    if not {"topics", "topicsPattern"} & set(given):
        given.setdefault("topic", topic)
    return reader.options(**given)


def values_of(url: str, topic: str) -> list[bytes]:
    """What a topic holds, read without Spark."""
    survey = Survey(read_options({"serviceUrl": url, "topic": topic}))
    try:
        end = survey.ends()[topic]
    finally:
        survey.close()
    batches = fetch(Endpoint(url=url), Slice(topic, 0, end), ("value",)) if end else ()
    return [value for batch in batches for value in batch["value"].to_pylist()]


class Publisher:
    """Publishes with the official client and remembers what every index holds."""

    def __init__(self, client: pulsar.Client, topic: str, url: str | None = None) -> None:
        """`url`: of the client's broker; chunks are sent by a client of their own then."""
        self._client = client
        self._topic = topic
        self._url = url
        self.values: list[bytes] = []
        """Of the messages, in order; a chunked one once."""

    def batches(self, count: int, of: int) -> None:
        """Messages in batches of `of`; what is left over at the end is a smaller batch."""
        producer = self._client.create_producer(
            self._topic,
            batching_enabled=True,
            batching_max_messages=of,
            batching_max_publish_delay_ms=60_000,
            block_if_queue_full=True,
        )
        for number in range(count):
            value = b"%d-%d" % (len(self.values), number)
            self.values.append(value)
            producer.send_async(value, None, partition_key=str(number % 7))
        producer.flush()
        producer.close()

    def singles(self, count: int) -> None:
        producer = self._client.create_producer(self._topic, batching_enabled=False)
        for number in range(count):
            value = b"single-%d-%d" % (len(self.values), number)
            self.values.append(value)
            producer.send_async(value, None, properties={"n": str(number)}, event_timestamp=1000)
        producer.flush()
        producer.close()

    def chunked(self, size: int) -> None:
        # A client that heard of another broker meanwhile, which takes more, would send the message whole; the
        # broker would close the connection, and the client would try so for ever. A new one asks first.
        own = self._url and pulsar.Client(
            self._url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        producer = (own or self._client).create_producer(
            self._topic, batching_enabled=False, chunking_enabled=True
        )
        value = (b"chunked-%d-" % len(self.values)).ljust(size, b"x")
        self.values.append(value)
        producer.send(value)
        producer.close()
        if own:
            own.close()


@pytest.fixture
def publisher(client: pulsar.Client, broker: BrokerProcess, topic: str) -> Publisher:
    return Publisher(client, topic, broker.url)
