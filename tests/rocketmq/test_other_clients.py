"""RocketMQ's official Java, Go and Node clients, each beside Pulsar's wheel on the same topics.

The programs in `java_client`, `go_client` and `node_client` take the same commands, so that each test holds
for all three. Needs their compilers and packages, so it is not one of the tests that everybody runs:
`make clients`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from stage.security import SECURED, bearer, token

if os.environ.get("MILEPOST_CLIENTS") != "1":
    pytest.skip("these clients are tested by `make clients`", allow_module_level=True)

HERE = Path(__file__).parent
BUILD_TIMEOUT_S, RUN_TIMEOUT_S = 280, 50
LANGUAGES = ("java", "go", "node")

pytestmark = pytest.mark.timeout(BUILD_TIMEOUT_S + RUN_TIMEOUT_S)


class Talk:
    """One of the programs."""

    def __init__(self, command: list[str], home: Path, language: str) -> None:
        self._command = command
        self.language = language
        # They keep their logs at home.
        self._environment = {**os.environ, "HOME": str(home), "rocketmq.client.logRoot": str(home)}
        self.address = ""

    def __call__(self, command: str, topic: str, **options: object) -> list[dict[str, Any]]:
        """What the program says, when it has ended."""
        done = subprocess.run(
            self._line(command, topic, options),
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
            env=self._environment,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-1000:]
        *lines, last = done.stdout.splitlines()
        assert last == "end"
        return [json.loads(line) for line in lines]

    @contextmanager
    def going_on(self, command: str, topic: str, **options: object) -> Iterator[Iterator[Any]]:
        """What the program says, as it says it."""
        with subprocess.Popen(
            self._line(command, topic, options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._environment,
        ) as process:
            assert process.stdout is not None
            too_long = threading.Timer(RUN_TIMEOUT_S, process.kill)
            too_long.start()
            try:
                yield (json.loads(line) for line in process.stdout if line != "end\n")
            finally:
                too_long.cancel()
                process.kill()

    def _line(self, command: str, topic: str, options: dict[str, object]) -> list[str]:
        said = [f"{name}={value}" for name, value in options.items()]
        return [*self._command, self.address, command, topic, *said]


def _made(command: list[str], directory: Path) -> None:
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
    )
    if done.returncode:
        pytest.skip(f"the client cannot be had here: {(done.stderr or done.stdout)[-300:]}")


def _java(made: Path) -> list[str]:
    _made(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"], made)
    _made(["javac", "-cp", "lib/*", "-d", "classes", "Talk.java"], made)
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{made}/classes:{made}/lib/*", "Talk"]


def _go(made: Path) -> list[str]:
    _made(["go", "build", "-o", "talk", "."], made)
    return [str(made / "talk")]


def _node(made: Path) -> list[str]:
    _made(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"], made)
    return ["node", str(made / "talk.js")]


MAKERS: dict[str, tuple[tuple[str, ...], Callable[[Path], list[str]]]] = {
    "java": (("java", "javac", "mvn"), _java),
    "go": (("go",), _go),
    "node": (("node", "npm"), _node),
}


@pytest.fixture(scope="session", params=LANGUAGES)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Talk:
    tools, make = MAKERS[request.param]
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool} here")
    made = tmp_path_factory.mktemp(request.param) / "program"
    shutil.copytree(HERE / f"{request.param}_client", made)
    return Talk(make(made), made.parent, request.param)


@pytest.fixture
def talk(program: Talk, broker: BrokerProcess) -> Talk:
    program.address = f"127.0.0.1:{broker.rocketmq_port}"
    return program


def bodies(seen: list[dict[str, Any]]) -> list[str]:
    return [one["body"] for one in seen]


def until_acked(broker: BrokerProcess, topic: str, group: str, count: int | None = None) -> None:
    """Return when none is left and, with `count`, so many messages are acked; a topic without partitions."""
    deadline = time.monotonic() + 30
    while True:
        stats = broker.rest("GET", f"/admin/v2/persistent/{topic}/stats")[1]["subscriptions"][group]
        found = stats["messagesReady"], stats["messagesInflight"], stats["messagesAcked"]
        if not any(found[:2]) and count in (None, found[2]):
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.1)  # sleep: until the broker has heard the client


def test_the_wheel_reads_what_the_client_sent(
    talk: Talk, broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(broker, name)
    sent = talk("send", topic, count=3, tag="paid", keys="k1,k2", property="amount:12")
    consumer = clients.pulsar(broker).subscribe(
        topic, "p", initial_position=pulsar.InitialPosition.Earliest
    )
    found = [consumer.receive(10_000) for _ in range(3)]
    assert [one.data() for one in found] == [b"m0", b"m1", b"m2"]
    assert [one.properties()["UNIQ_KEY"] for one in found] == [one["id"] for one in sent]
    for one in found:
        properties = one.properties()
        assert (properties["TAGS"], set(properties["KEYS"].split())) == ("paid", {"k1", "k2"})
        assert properties["amount"] == "12"
        assert abs(one.event_timestamp() - time.time() * 1000) < 60_000
    if "offset" in sent[0]:  # Java shows none
        assert [one["offset"] for one in sent] == [0, 1, 2]


def test_the_client_reads_what_the_wheel_sent(
    talk: Talk, broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    """Batches, compressed, are single messages; a chunked one is one, also for Go and Node, which take
    no more than 4 MiB in an answer."""
    topic = make_topic(broker, name)
    producer = clients.pulsar(broker).create_producer(
        topic,
        batching_enabled=True,
        batching_max_publish_delay_ms=100,
        compression_type=pulsar.CompressionType.ZSTD,
    )
    for number in range(10):
        producer.send_async(
            b"%d" % number, lambda *_: None, properties={"n": str(number), "TAGS": "t"}
        )
    producer.flush()
    producer.send(b"alone", partition_key="k")
    chunking = clients.pulsar(broker).create_producer(
        topic, chunking_enabled=True, batching_enabled=False
    )
    large = "x" * 6_000_000
    chunking.send(large.encode())

    seen = talk("receive", topic, count=12)
    assert bodies(seen) == [*map(str, range(10)), "alone", large]
    assert [one["properties"]["n"] for one in seen[:10]] == [*map(str, range(10))]
    assert {one["tag"] for one in seen[:10]} == {"t"}
    assert (seen[10]["group"], seen[10]["attempt"]) == ("k", 1)
    assert len({one["id"] for one in seen}) == 12
    stats = broker.rest("GET", f"/admin/v2/persistent/public/default/{topic}/stats")[1]
    counts = stats["subscriptions"]["g"]
    assert (counts["messagesReady"], counts["messagesInflight"]) == (0, 0)


def test_a_simple_consumer_takes_filters(
    talk: Talk, broker: BrokerProcess, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(broker, name)
    for tag in ("a", "b"):
        talk("send", topic, count=2, tag=tag, body=f"{tag}-", property=f"size:{ord(tag)}")
    assert bodies(talk("receive", topic, count=2, filter="b || c")) == ["b-0", "b-1"]
    until_acked(broker, f"public/default/{topic}", "g", 4)
    options = {"consumers": "sql", "filter": "size < 98 AND TAGS = 'a'", "sql": 1}
    assert bodies(talk("receive", topic, count=2, **options)) == ["a-0", "a-1"]


def test_a_changed_invisible_time_brings_a_message_again(
    talk: Talk, broker: BrokerProcess, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(broker, name)
    talk("send", topic)
    # It is taken once more by the same consumer, while that waits.
    seen = talk("receive", topic, count=2, change_s=1)
    assert [(one["body"], one["attempt"]) for one in seen] == [("m0", 1), ("m0", 2)]
    assert seen[0]["id"] == seen[1]["id"]


def test_a_delayed_message_comes_when_it_is_due(
    talk: Talk, broker: BrokerProcess, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(broker, name)
    began = time.time()
    talk("send", topic, body="late", delay_ms=20_000)  # two programs start meanwhile
    talk("send", topic, body="soon")
    assert bodies(talk("receive", topic, count=2)) == ["soon0", "late0"]
    assert time.time() - began >= 20


def test_a_push_consumer_gets_what_it_failed_once_more(
    talk: Talk, broker: BrokerProcess, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(broker, name)
    talk("send", topic, count=5)
    with talk.going_on("push", topic, fail="m3") as lines:
        seen = [next(lines) for _ in range(6)]
        until_acked(broker, f"public/default/{topic}", "g", 5)
        # It is woken by what comes while it waits.
        talk("send", topic, body="more")
        assert next(lines)["body"] == "more0"
    found = sorted((one["body"], one["attempt"]) for one in seen)
    assert found == sorted([(f"m{number}", 1) for number in range(5)] + [("m3", 2)])


def make_group(broker: BrokerProcess, topic: str, group: str, **properties: str) -> None:
    path = f"/admin/v2/persistent/public/default/{topic}/subscription/{group}"
    assert broker.rest("PUT", path)[0] == 204
    named = {f"rocketmq.{name}": value for name, value in properties.items()}
    assert broker.rest("PUT", f"{path}/properties", named)[0] == 204


def test_a_fifo_group_keeps_the_order_of_a_message_group(
    talk: Talk, broker: BrokerProcess, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(broker, name)
    make_group(broker, topic, "g", fifo="true")
    for group in "ab":
        talk("send", topic, count=3, group=group, body=group)
    with talk.going_on("push", topic, fail="a1") as lines:
        seen = [next(lines) for _ in range(7)]
        until_acked(broker, f"public/default/{topic}", "g", 6)
    assert [one["body"] for one in seen if one["group"] == "a"] == ["a0", "a1", "a1", "a2"]
    assert [one["body"] for one in seen if one["group"] == "b"] == ["b0", "b1", "b2"]


@pytest.mark.parametrize("fifo", ["false", "true"], ids=["any order", "fifo"])
def test_what_fails_too_often_goes_to_the_dead_letters(
    talk: Talk,
    broker: BrokerProcess,
    clients: Any,
    make_topic: Callable[..., str],
    name: str,
    fifo: str,
) -> None:
    topic = make_topic(broker, name)
    make_group(broker, topic, name, fifo=fifo, retries="1")
    talk("send", topic, count=2, group="a", tag="t", property="amount:12")
    with talk.going_on("push", topic, consumers=name, fail="m0", times=99) as lines:
        seen = [next(lines) for _ in range(3)]
        until_acked(broker, f"public/default/{topic}", name, 2)
    assert sorted((one["body"], one["attempt"]) for one in seen) == [
        ("m0", 1),
        ("m0", 2),
        ("m1", 1),
    ]
    (dead,) = talk("receive", f"%DLQ%{name}", consumers="undertaker")
    assert (dead["body"], dead["tag"], dead["group"]) == ("m0", "t", "a")
    assert dead["properties"]["amount"] == "12"
    reader = clients.pulsar(broker).create_reader(f"%DLQ%{name}", pulsar.MessageId.earliest)
    assert reader.read_next(10_000).properties()["DLQ_ORIGIN_TOPIC"] == topic
    assert not reader.has_message_available()


@pytest.mark.parametrize("end", ["commit", "rollback", "check-commit", "check-rollback"])
def test_a_transaction_ends(
    talk: Talk, broker: BrokerProcess, make_topic: Callable[..., str], name: str, end: str
) -> None:
    topic = make_topic(broker, name)
    path = f"/admin/v2/persistent/public/default/{topic}/properties"
    assert broker.rest("PUT", path, {"rocketmq.transaction.check_s": "1"})[0] == 204
    if end.startswith("check"):
        with talk.going_on("transact", topic, end=end, body="half", tag="t") as lines:
            asked = next(lines)
            until_acked(broker, "pulsar/system/rocketmq-half-messages", "open")
        assert (asked["body"], asked["tag"]) == ("half0", "t")
    else:
        talk("transact", topic, end=end, body="half")
    talk("send", topic, body="after")
    wanted = ["half0", "after0"] if end.endswith("commit") else ["after0"]
    assert bodies(talk("receive", topic, count=len(wanted))) == wanted


def test_the_client_says_what_was_refused(
    talk: Talk, broker: BrokerProcess, make_topic: Callable[..., str], name: str
) -> None:
    with pytest.raises(AssertionError, match=r"40402|TOPIC_NOT_FOUND|NotFound|does not exist"):
        talk("send", f"{name}-missing")


def test_the_client_signs_with_its_access_key(program: Talk, tmp_path: Path, name: str) -> None:
    keys = tmp_path / "keys"
    keys.write_text("rocketmq2:a long secret:root\n")
    settings = {"rocketmq_port": 0, "rocketmq_access_keys_file": keys, **SECURED}
    with BrokerProcess(tmp_path, **settings) as secured:
        path = f"/admin/v2/persistent/public/default/{name}"
        assert secured.rest("PUT", path, None, bearer("root"))[0] == 204
        program.address = f"127.0.0.1:{secured.rocketmq_port}"
        program("send", name, key="rocketmq2", secret="a long secret")
        (found,) = program("receive", name, key="rocketmq2", secret="a long secret")
        assert found["body"] == "m0"
        with pytest.raises(AssertionError, match=r"wrong signature|40100|UNAUTHORIZED"):
            program("send", name, key="rocketmq2", secret="another secret")
        program("send", name, key=token("root"), secret="any")


def test_a_delayed_message_is_recalled(
    talk: Talk, broker: BrokerProcess, make_topic: Callable[..., str], name: str
) -> None:
    if talk.language == "go":
        pytest.skip("the Go client cannot recall messages")
    topic = make_topic(broker, name)
    (sent,) = talk("send", topic, body="late", delay_ms=20_000)
    assert talk("recall", topic, handle=sent["recall"]) == [{"id": sent["id"]}]
    talk("send", topic, body="soon", delay_ms=21_000)
    assert bodies(talk("receive", topic)) == ["soon0"]
    with pytest.raises(AssertionError, match="is not one of"):
        talk("recall", topic, handle="made-up")
