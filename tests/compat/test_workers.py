"""Official clients and several workers: one broker to them, whichever worker has a topic."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from stage.certificates import Authority

COUNT = 8


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("workers"), workers=3) as broker:
        yield broker
        assert not broker.complaints()
        broker.stop()


@pytest.fixture
def client(workers: BrokerProcess, connect: Callable[..., pulsar.Client]) -> pulsar.Client:
    return connect(workers)


def spread(workers: BrokerProcess, topic: str) -> list[str]:
    """Topics of one beginning, of which every worker has some."""
    names = [f"{topic}-{number}" for number in range(COUNT)]
    more = (f"{topic}-{number}" for number in count(COUNT))
    while len({workers.worker_of(one) for one in names}) < 3:
        names.append(next(more))
    return names


def test_each_topic_is_published_and_consumed_at_its_own_worker(
    workers: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    names = spread(workers, topic)
    for name in names:
        consumer = client.subscribe(name, "s", pulsar.ConsumerType.Shared)
        producer = client.create_producer(name)
        sent = [producer.send(b"%d" % number) for number in range(5)]
        got = [consumer.receive(10_000) for _ in range(5)]
        assert [one.data() for one in got] == [b"0", b"1", b"2", b"3", b"4"]
        for one in got[:3]:
            consumer.acknowledge(one)
        consumer.seek(sent[1])
        again = [consumer.receive(10_000).data() for _ in range(3)]
        assert again == [b"2", b"3", b"4"]
        reader = client.create_reader(name, pulsar.MessageId.earliest)
        assert [reader.read_next(10_000).data() for _ in range(5)] == [one.data() for one in got]
    status, listed = workers.rest("GET", "/admin/v2/persistent/public/default")
    assert status == 200
    assert set(names) <= set(listed)


def test_partitions_are_found_and_one_consumer_has_all_topics(
    workers: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    names = spread(workers, topic)
    for name in names[:4]:
        workers.create_partitioned_topic(name, 3)
        assert client.get_topic_partitions(name) == [f"{name}-partition-{n}" for n in range(3)]
    consumer = client.subscribe(names, "s", initial_position=pulsar.InitialPosition.Earliest)
    expected = set()
    for name in names:
        producer = client.create_producer(name)
        for number in range(6):
            data = f"{name} {number}".encode()
            producer.send(data)
            expected.add(data)
    got = [consumer.receive(10_000) for _ in range(len(expected))]
    assert {one.data() for one in got} == expected
    for one in got:
        consumer.acknowledge(one)
    progress = workers.rest("GET", "/milepost/v1/progress?subscription=s")[1]["subscriptions"]
    found = {line["topic"].partition("-partition-")[0] for line in progress}
    assert set(names) <= found


def test_a_pattern_finds_the_topics_of_all_workers(
    workers: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    names = spread(workers, topic)
    for name in names:
        client.create_producer(name).send(name.encode())
    consumer = client.subscribe(
        re.compile(topic + "-.*"), "s", initial_position=pulsar.InitialPosition.Earliest
    )
    assert sorted(consumer.receive(10_000).data().decode() for _ in names) == names


def test_schemas_and_non_persistent_topics(
    workers: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    for name in spread(workers, topic):
        producer = client.create_producer(name, schema=pulsar.schema.StringSchema())
        consumer = client.subscribe(name, "s", schema=pulsar.schema.StringSchema())
        producer.send("ü")
        assert consumer.receive(10_000).value() == "ü"
        path = name.replace("persistent://", "/admin/v2/schemas/")
        assert workers.rest("GET", f"{path}/schema")[1]["type"] == "STRING"
        volatile = name.replace("persistent://", "non-persistent://")
        listening = client.subscribe(volatile, "s")
        client.create_producer(volatile).send(b"now")
        assert listening.receive(10_000).data() == b"now"


def test_a_topic_asked_of_the_wrong_worker_is_refused_and_found_by_looking_again(
    workers: BrokerProcess, topic: str
) -> None:
    """A client that is given one worker's own port works as well: lookups are answered everywhere."""
    ports = {workers.port_of(name) for name in spread(workers, topic)}
    assert len(ports) == 3
    for port in ports:
        client = pulsar.Client(
            f"pulsar://127.0.0.1:{port}", logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        try:
            for name in spread(workers, topic):
                client.create_producer(name).send(b"x")
        finally:
            client.close()


def test_a_client_by_tls_finds_each_topic_at_the_port_of_its_worker(
    own_broker: Callable[..., BrokerProcess], tmp_path: Path, topic: str
) -> None:
    """The worker's own port by TLS, which the ready file names for the firewall."""
    authority = Authority("An authority")
    files = authority.issue("localhost", is_server=True).write(tmp_path, "server")
    (tmp_path / "trusted.pem").write_bytes(authority.pem)
    broker = own_broker(
        workers=2, tls_port=0, tls_certificate_file=files.certificate, tls_key_file=files.key
    )
    client = pulsar.Client(
        f"pulsar+ssl://localhost:{broker.tls_port}",
        tls_trust_certs_file_path=str(tmp_path / "trusted.pem"),
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    try:
        names = [f"{topic}-{number}" for number in range(COUNT)]
        ports = set()
        for name in names:
            client.create_producer(name).send(b"x")
            path = name.replace("://", "/")
            status, found = broker.rest("GET", f"/lookup/v2/topic/{path}")
            assert status == 200
            port = broker.tls_port_of(name)
            assert found["brokerUrlTls"] == f"pulsar+ssl://127.0.0.1:{port}"
            ports.add(port)
        assert len(ports) == 2
    finally:
        client.close()


def test_a_client_of_a_listener_is_told_its_host_and_the_ports_of_workers(tmp_path: Path) -> None:
    listeners = "inside:pulsar://127.0.0.1:6650,outside:pulsar://localhost:6650"
    with BrokerProcess(tmp_path, workers=2, advertised_listeners=listeners) as broker:
        for listener, host in (("inside", "127.0.0.1"), ("outside", "localhost")):
            client = pulsar.Client(broker.url, listener_name=listener)
            for number in range(4):
                name = f"persistent://public/default/{listener}-{number}"
                assert client.create_producer(name).send(b"x").entry_id() == 0
                path = f"/lookup/v2/topic/{name.replace('://', '/')}?listenerName={listener}"
                port = broker.worker_ports[broker.worker_of(name)]
                assert broker.rest("GET", path)[1]["brokerUrl"] == f"pulsar://{host}:{port}"
            client.close()
        broker.stop()


def test_registry_changes_survive_kills_of_any_worker_and_all_workers_agree(
    own_broker: Callable[..., BrokerProcess],
) -> None:
    """Namespaces are made and their policies set while workers are killed in turn: what was answered is
    there, and every worker says the same."""
    broker = own_broker(workers=2)
    over = threading.Event()
    made: dict[str, int] = {}

    def administer() -> None:
        number = 0
        while not over.is_set():
            number += 1
            name = f"public/made-{number}"
            if _answered(broker, "PUT", f"/admin/v2/namespaces/{name}") != 204:
                continue
            path = f"/admin/v2/namespaces/{name}/messageTTL"
            made[name] = number if _answered(broker, "POST", path, number) == 204 else 0

    thread = threading.Thread(target=administer)
    thread.start()
    try:
        for turn in range(6):
            before, deadline = len(made), time.monotonic() + 60
            while len(made) < before + 5:
                assert time.monotonic() < deadline
                time.sleep(0.01)  # sleep: until there were some changes
            number = turn % 2
            broker.await_worker(number, broker.kill_worker(number))
    finally:
        over.set()
        thread.join(60)
    assert len(made) >= 30
    for name, ttl in made.items():
        # Each request is a connection, which any worker may take.
        for _ in range(3):
            status, found = broker.rest("GET", f"/admin/v2/namespaces/{name}")
            assert status == 200, name
            assert not ttl or found["message_ttl_in_seconds"] == ttl


def _answered(broker: BrokerProcess, method: str, path: str, body: object = None) -> int:
    """The status; 0 if the connection ended before an answer."""
    try:
        return broker.rest(method, path, body)[0]
    except OSError:
        return 0


def test_a_worker_that_is_stopped_for_a_while_costs_its_own_topics_a_pause(
    own_broker: Callable[..., BrokerProcess], connect: Callable[..., pulsar.Client]
) -> None:
    broker = own_broker(workers=2)
    names = [f"persistent://public/default/t{number}" for number in range(4)]
    here, there = [[one for one in names if broker.worker_of(one) == number] for number in (0, 1)]
    client = connect(broker, operation_timeout_seconds=30)
    slow, quick = client.create_producer(there[0]), client.create_producer(here[0])
    pid = _pid(broker, 1)
    os.kill(pid, signal.SIGSTOP)
    try:
        receipt = threading.Event()
        slow.send_async(b"waits", lambda result, _: receipt.set() if not result.value else None)
        for _ in range(20):
            quick.send(b"goes on")
        assert not receipt.is_set()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert receipt.wait(30)


def _pid(broker: BrokerProcess, number: int) -> int:
    ready = Path(broker.log.parent / "ready.json")
    return int(json.loads(ready.read_text())["workers"][number]["pid"])
