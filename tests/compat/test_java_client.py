"""The official Java client and admin client beside the Python wheel: each reads what the other wrote.

The program in `java_client` runs every check in one process, and each is a test here. Needs a JDK, Maven
and its central repository, so it is not one of the tests that everybody runs: `make clients`.
"""

from __future__ import annotations

import os
import re
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.java import BUILD_TIMEOUT_S, SOURCE, class_path, run
from compat.talk import batching
from pulsar import InitialPosition
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String

__all__ = ["class_path"]  # the fixture

RUN_TIMEOUT_S = 280
NAMESPACE = "persistent://public/default"

if os.environ.get("MILEPOST_CLIENTS") != "1":
    pytest.skip("the Java client is tested by `make clients`", allow_module_level=True)

NAMES = [
    name
    for source in sorted(SOURCE.glob("*.java"))
    for name in re.findall(r'checks\.check\("(\w+)"', source.read_text())
]


class Order(Record):
    name = String()
    count = Integer()


SCHEMAS = {"avro": AvroSchema, "json": JsonSchema}


def write_for_java(client: pulsar.Client) -> None:
    for kind, schema in SCHEMAS.items():
        producer = client.create_producer(f"{NAMESPACE}/python-{kind}", schema=schema(Order))
        for number in range(3):
            producer.send(Order(name=f"py-{number}", count=number))
    producer = batching(client, f"{NAMESPACE}/python-bytes")
    for number in range(20):
        producer.send_async(
            b"py-%d" % number,
            None,
            partition_key=f"k{number % 4}",
            properties={"number": str(number)},
        )
    producer.flush()
    client.create_producer(f"{NAMESPACE}/python-bytes").send(bytes(300_000))


@pytest.fixture(scope="module")
def results(
    class_path: str, broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Check → "ok", or what went wrong."""
    client = pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        write_for_java(client)
    finally:
        client.close()
    command = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", class_path]
    command += ["Checks", broker.url, f"http://127.0.0.1:{broker.http_port}"]
    done = run(command, tmp_path_factory.getbasetemp(), RUN_TIMEOUT_S)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(line.split("\t", 1) for line in done.stdout.splitlines() if "\t" in line)


@pytest.mark.timeout(BUILD_TIMEOUT_S + RUN_TIMEOUT_S)
@pytest.mark.parametrize("name", NAMES)
def test_java(results: dict[str, str], name: str) -> None:
    assert results.get(name, "it was not run") == "ok"


@pytest.mark.parametrize("kind", SCHEMAS)
def test_the_wheel_reads_the_records_that_java_wrote(
    results: dict[str, str], client: pulsar.Client, kind: str
) -> None:
    consumer = subscribed(client, f"for-python-{kind}", schema=SCHEMAS[kind](Order))
    values = [consumer.receive(30_000).value() for _ in range(3)]
    assert [(value.name, value.count) for value in values] == [
        (f"java-{number}", number) for number in range(3)
    ]


def test_the_wheel_reads_the_bytes_that_java_wrote(
    results: dict[str, str], client: pulsar.Client
) -> None:
    consumer = subscribed(client, "for-python-bytes")
    messages = [consumer.receive(30_000) for _ in range(21)]
    assert [
        (one.data(), one.partition_key(), one.properties()["number"]) for one in messages[:20]
    ] == [(b"java-%d" % number, f"k{number % 4}", str(number)) for number in range(20)]
    assert messages[20].data() == bytes(300_000)  # it came in chunks


def subscribed(client: pulsar.Client, name: str, **options: Any) -> pulsar.Consumer:
    return client.subscribe(
        f"{NAMESPACE}/java-{name}", "python", initial_position=InitialPosition.Earliest, **options
    )
