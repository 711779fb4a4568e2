"""The official Go client beside the Python wheel: each reads what the other wrote.

Needs Go and its module proxy, so it is not one of the tests that everybody runs: `make clients`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.talk import batching, payloads, receive, send_all
from pulsar import ConsumerType, InitialPosition, MessageId
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String
from suites.run import go
from suites.standalone import taken_ports

SOURCE = Path(__file__).with_name("go_client")
BUILD_TIMEOUT_S = 280

if os.environ.get("MILEPOST_CLIENTS") != "1":
    pytest.skip("the Go client is tested by `make clients`", allow_module_level=True)

Talk = Callable[..., list[dict[str, Any]]]
GO_PAYLOADS = [b"go-%d" % number for number in range(20)]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip("there is no Go compiler here")
    made = tmp_path_factory.mktemp("go") / "talk"
    built = subprocess.run(
        [go, "build", "-o", str(made), "."],
        cwd=SOURCE,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if built.returncode:
        pytest.skip(f"the Go client cannot be built here: {built.stderr[-300:]}")
    return made


@pytest.fixture
def talk(program: Path, broker: BrokerProcess) -> Talk:
    def run(*arguments: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [str(program), "-url", broker.url, *arguments],
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def texts(seen: list[dict[str, Any]]) -> list[bytes]:
    return [one["payload"].encode() for one in seen]


@pytest.mark.parametrize("flags", [(), ("-batch",)], ids=["single", "batched"])
def test_the_wheel_reads_what_go_wrote(
    client: pulsar.Client, talk: Talk, topic: str, flags: tuple[str, ...]
) -> None:
    talk(*flags, "produce", topic, "20")
    consumer = client.subscribe(topic, "s", initial_position=InitialPosition.Earliest)
    assert payloads(receive(consumer, 20)) == GO_PAYLOADS
    reader = client.create_reader(topic, MessageId.earliest)
    assert [reader.read_next(5000).data() for _ in range(20)] == GO_PAYLOADS


@pytest.mark.parametrize("kind", ["exclusive", "shared", "failover", "key_shared"])
@pytest.mark.parametrize("is_batched", [False, True], ids=["single", "batched"])
def test_go_reads_what_the_wheel_wrote(
    client: pulsar.Client, talk: Talk, topic: str, kind: str, is_batched: bool
) -> None:
    sent = [b"py-%d" % number for number in range(20)]
    send_all(batching(client, topic) if is_batched else client.create_producer(topic), sent)
    assert texts(talk("-type", kind, "consume", topic, "12")) == sent[:12]
    # What was acked, one message of a batch by one, stays acked for whoever comes next.
    consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
    assert payloads(receive(consumer, 8)) == sent[12:]


def test_a_reader(client: pulsar.Client, talk: Talk, topic: str) -> None:
    sent = [b"py-%d" % number for number in range(30)]
    send_all(batching(client, topic), sent[:20])
    send_all(client.create_producer(topic), sent[20:])
    assert texts(talk("read", topic)) == sent


def test_a_partitioned_topic(
    client: pulsar.Client, broker: BrokerProcess, talk: Talk, topic: str
) -> None:
    broker.create_partitioned_topic(topic, 3)
    consumer = client.subscribe(topic, "py", initial_position=InitialPosition.Earliest)
    talk("-keys", "produce", topic, "20")
    assert sorted(payloads(receive(consumer, 20))) == sorted(GO_PAYLOADS)
    assert sorted(texts(talk("-sub", "go", "consume", topic, "20"))) == sorted(GO_PAYLOADS)


class Order(Record):
    name = String()
    count = Integer()


@pytest.mark.parametrize(
    ("flag", "schema"), [("json", JsonSchema), ("avro", AvroSchema)], ids=["json", "avro"]
)
def test_schemas_both_ways(
    client: pulsar.Client, talk: Talk, topic: str, flag: str, schema: Any
) -> None:
    producer = client.create_producer(topic, schema=schema(Order))
    for number in range(3):
        producer.send(Order(name=f"py-{number}", count=number))
    seen = talk("-schema", flag, "consume", topic, "3")
    assert [one["order"] for one in seen] == [
        {"name": f"py-{number}", "count": number} for number in range(3)
    ]
    talk("-schema", flag, "produce", topic, "3")
    consumer = client.subscribe(topic, "s", schema=schema(Order))
    values = [consumer.receive(8000).value() for _ in range(3)]
    assert [(value.name, value.count) for value in values] == [
        ("go-0", 0),
        ("go-1", 1),
        ("go-2", 2),
    ]


def test_its_own_tests_of_transactions(program: Path, tmp_path: Path) -> None:
    """`TestTxn_*` as the client brings them, from the module that `program` is built with.

    They ask for a broker at fixed ports. The whole suites are `make suites`.
    """
    taken = taken_ports()
    if taken:
        pytest.skip(f"they need the ports {taken}, which somebody has")
    listed = ["go", "list", "-m", "-f", "{{.Dir}}", "github.com/apache/pulsar-client-go"]
    found = subprocess.run(listed, cwd=SOURCE, capture_output=True, text=True, check=True)
    module = Path(found.stdout.strip())
    text = (module / "pulsar" / "transaction_test.go").read_text("utf-8")
    outcome = go(module, tmp_path, "^TestTxn_")
    assert (outcome.failed, outcome.skipped) == ([], 0)
    assert outcome.passed == text.count("func TestTxn_") > 0
