"""Several real brokers on one object store, and the official client: one dies, and nothing is lost."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pulsar
import pytest
from compat.administer import until
from compat.broker_process import BrokerProcess
from stage.certificates import Authority
from stage.s3 import S3Server
from stage.store_proxy import StoreProxy

from milepost.broker.workers.placement import shard_of
from milepost.positions.names import TopicName
from milepost.testing.checker import History, judge

SHARDS = 4
WAIT_S = 90


class Cluster:
    """Brokers on one bucket, each with a directory that does not matter."""

    def __init__(
        self,
        directory: Path,
        stores: Sequence[S3Server | StoreProxy],
        bucket: str = "s3://bucket/milepost",
        **settings: object,
    ) -> None:
        """A broker for each store; the stores have the same objects."""
        self.stores = stores
        self.brokers = [
            BrokerProcess(
                directory / f"broker-{number}",
                bucket=bucket,
                bucket_endpoint=store.url,
                bucket_linger_s=0.01,
                shards=SHARDS,
                deduplication=True,
                **settings,
            )
            for number, store in enumerate(stores)
        ]
        for broker in self.brokers:
            broker.patience_s = WAIT_S  # one that comes late waits for others to give it a shard
            broker.stop_patience_s = WAIT_S  # it gives its shards away
        self.has_moved = False
        """Did an operator choose a broker for a shard? Balance gives such a shard to no other."""

    def start(self) -> None:
        """Start those that do not run; return when all of them have shards."""
        stopped = [one for one in self.brokers if not one.is_running]
        threads = [threading.Thread(target=one.start) for one in stopped]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.await_balance()

    def ready(self, broker: BrokerProcess) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((broker.data.parent / "ready.json").read_text())
        return found

    def shards(self, broker: BrokerProcess) -> dict[int, int]:
        """Of a running broker: its shards with their processes."""
        ready = self.ready(broker)
        return {one["number"]: one["pid"] for one in ready["shards"]}

    def owner_of(self, topic: str) -> BrokerProcess:
        return self.await_owner(topic, self.brokers)

    def await_owner(self, topic: str, brokers: list[BrokerProcess]) -> BrokerProcess:
        """The broker that has a topic, once it is one of these."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            for broker in brokers:
                with suppress(FileNotFoundError):
                    if broker.is_running and self.process_of(broker, topic) is not None:
                        return broker
            time.sleep(0.02)  # sleep: between two looks
        raise AssertionError(f"{topic} has no broker")

    def process_of(self, broker: BrokerProcess, topic: str) -> int | None:
        """The process of a broker that has a topic."""
        return self.shards(broker).get(shard_of(TopicName.parse(topic), SHARDS))

    def await_end(self, broker: BrokerProcess, topic: str, process: int | None) -> None:
        """Return when a process that had a topic is gone."""
        deadline = time.monotonic() + WAIT_S
        while self.process_of(broker, topic) == process:
            assert time.monotonic() < deadline, "the former owner goes on"
            time.sleep(0.02)  # sleep: between two looks

    def pids(self, broker: BrokerProcess) -> list[int]:
        """All processes of a broker, the first one first."""
        ready = self.ready(broker)
        return [ready["pid"], ready["agent"], *(one["pid"] for one in ready["shards"])]

    def kill(self, broker: BrokerProcess) -> None:
        """`kill -9` of all its processes at once: none of them drains."""
        pids: list[int] = []
        with suppress(FileNotFoundError):  # it is about to end
            pids = self.pids(broker)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        broker.kill()

    def await_balance(self) -> None:
        """Return when every broker has a shard, and together they have all."""
        deadline = time.monotonic() + WAIT_S
        while True:
            with suppress(FileNotFoundError):
                found = {one: set(self.shards(one)) for one in self.brokers if one.is_running}
                if sum(map(len, found.values())) == SHARDS == len(set().union(*found.values())):
                    if all(found.values()):
                        return
                    if self.has_moved:
                        self._give_to_the_poorest(found)
            assert time.monotonic() < deadline, "the brokers do not share the shards"
            time.sleep(0.05)  # sleep: between two looks

    def _give_to_the_poorest(self, found: dict[BrokerProcess, set[int]]) -> None:
        """Move a shard as an operator, who may have put all of them where balance leaves them."""
        poorest, *_, richest = sorted(found, key=lambda one: len(found[one]))
        topic = next(
            name
            for name in (f"persistent://public/default/given-{number}" for number in range(1000))
            if shard_of(TopicName.parse(name), SHARDS) in found[richest]
        )
        path = f"/admin/v2/{topic.replace('://', '/')}"
        where = f"127.0.0.1:{poorest.http_port}"
        # A shard that is just opened, or moves, refuses: the next look tries again.
        with suppress(OSError, http.client.HTTPException):
            richest.rest("PUT", path)
            richest.rest("PUT", f"{path}/unload?destinationBroker={where}")


@pytest.fixture(scope="module")
def stores() -> Iterator[list[S3Server]]:
    before = dict(os.environ)
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_REGION": "us-east-1",
    }
    try:
        with S3Server() as first, S3Server(first) as second, S3Server(first) as third:
            yield [first, second, third]
    finally:
        os.environ.clear()
        os.environ |= before


@pytest.fixture(scope="module")
def cluster(stores: list[S3Server], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    authority = Authority("of the cluster")
    (folder / "ca.pem").write_bytes(authority.pem)
    files = authority.issue("broker", is_server=True).write(folder, "broker")
    made = Cluster(
        folder,
        stores,
        cluster_tls=True,
        tls_certificate_file=files.certificate,
        tls_key_file=files.key,
        tls_trust_certs_file=folder / "ca.pem",
    )
    try:
        yield made
    finally:
        for broker in made.brokers:
            if broker.is_running:
                made.kill(broker)


def connected(brokers: list[BrokerProcess]) -> pulsar.Client:
    return pulsar.Client(
        "pulsar://" + ",".join(f"127.0.0.1:{one.port}" for one in brokers),
        operation_timeout_seconds=30,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )


@pytest.fixture
def client(cluster: Cluster) -> Iterator[pulsar.Client]:
    cluster.start()
    client = connected(cluster.brokers)
    yield client
    client.close()


def test_any_broker_answers_for_all_shards(cluster: Cluster, client: pulsar.Client) -> None:
    names = [f"persistent://public/default/spread-{number}" for number in range(8)]
    assert len({shard_of(TopicName.parse(one), SHARDS) for one in names}) == SHARDS
    for name in names:
        client.create_producer(name).send(name.encode())
        reader = client.create_reader(name, pulsar.MessageId.earliest)
        assert reader.read_next(10_000).data() == name.encode()
    for broker in cluster.brokers:
        status, listed = broker.rest("GET", "/admin/v2/persistent/public/default")
        assert (status, set(names) <= set(listed)) == (200, True)
        for name in names:
            path = name.replace("://", "/")
            status, stats = broker.rest("GET", f"/admin/v2/{path}/stats")
            assert (status, stats["msgInCounter"]) == (200, 1), (name, stats)
    one, other, *_ = cluster.brokers
    assert one.rest("PUT", "/admin/v2/tenants/acme", {"allowedClusters": ["standalone"]})[0] == 204
    assert other.rest("PUT", "/admin/v2/namespaces/acme/events")[0] == 204
    assert one.rest("GET", "/admin/v2/namespaces/acme") == (200, ["acme/events"])
    client.create_producer("persistent://acme/events/t").send(b"x")
    assert one.rest("DELETE", "/admin/v2/namespaces/acme/events")[0] == 409
    for broker in cluster.brokers:
        status, listed = broker.rest("GET", "/admin/v2/brokers/standalone")
        assert listed == sorted(f"127.0.0.1:{each.http_port}" for each in cluster.brokers)


def test_the_owner_is_killed_under_load_and_nothing_is_lost(
    cluster: Cluster, client: pulsar.Client
) -> None:
    topic = "persistent://public/default/orders"
    history = History()
    history.note("start")
    over = threading.Event()
    consumer = client.subscribe(topic, "s")
    consumed: list[int] = []

    def told(asked: int, result: pulsar.Result, sent: pulsar.MessageId) -> None:
        if result.value:
            history.unknown(asked)
        else:
            history.ok(asked, id=place_of(sent) if sent.entry_id() >= 0 else None)

    def publish() -> None:
        producer = client.create_producer(
            topic, producer_name="p", send_timeout_millis=0, block_if_queue_full=True
        )
        n = 0
        while not over.is_set():
            asked = history.invoke("publish", topic=topic, message=str(n), by="p")
            producer.send_async(
                b"%d" % n, lambda result, sent, asked=asked: told(asked, result, sent)
            )
            n += 1
            time.sleep(0.001)  # sleep: a steady load, not as fast as it goes
        producer.flush()

    def consume() -> None:
        while not over.is_set():
            with suppress(pulsar.Timeout):
                message = consumer.receive(200)
                consumed.append(int(message.data()))
                consumer.acknowledge(message)

    def await_more(count: int) -> None:
        wanted, deadline = history.counts["publish ok"] + count, time.monotonic() + WAIT_S
        while history.counts["publish ok"] < wanted:
            assert time.monotonic() < deadline, "nothing is answered any more"
            time.sleep(0.01)  # sleep: until the load has gone on

    threads = [threading.Thread(target=one, daemon=True) for one in (publish, consume)]
    for thread in threads:
        thread.start()
    await_more(200)
    victim = cluster.owner_of(topic)
    history.note("kill")
    cluster.kill(victim)
    await_more(200)
    over.set()
    for thread in threads:
        thread.join(WAIT_S)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    history.note("scan", topic=topic)
    stored = []
    while reader.has_message_available():
        message = reader.read_next(30_000)
        stored.append(int(message.data()))
        name, place = message.data().decode(), place_of(message.message_id())
        history.note("stored", topic=topic, message=name, id=place)
    history.note("scanned", topic=topic)
    assert judge(history.lines()).anomalies == []
    assert stored == sorted(set(stored)), "order, and deduplication"
    firsts = list(dict.fromkeys(consumed))
    assert firsts == sorted(firsts), "consumed in order"


def place_of(message_id: pulsar.MessageId) -> list[int]:
    return [message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()]


def moved(cluster: Cluster, topic: str, via: BrokerProcess) -> BrokerProcess:
    """Move the shard of a topic to another broker; which one."""
    cluster.has_moved = True
    owner = cluster.owner_of(topic)
    before = cluster.process_of(owner, topic)
    to = next(one for one in cluster.brokers if one is not owner)
    path = topic.replace("://", "/")
    where = f"127.0.0.1:{to.http_port}"

    def asked() -> tuple[int, bytes] | None:
        """None: a broker without a shard serves nobody, until it is given one."""
        with suppress(ConnectionRefusedError):
            return via.rest("PUT", f"/admin/v2/{path}/unload?destinationBroker={where}")
        return None

    answer = until(asked, "an answer")
    assert answer == (204, b""), answer
    assert cluster.process_of(to, topic) is not None
    cluster.await_end(owner, topic, before)
    return to


def test_a_shard_moves_under_load_and_clients_hardly_notice(
    cluster: Cluster, client: pulsar.Client
) -> None:
    topic = "persistent://public/default/moving"
    history = History()
    history.note("start")
    over = threading.Event()
    consumer = client.subscribe(topic, "s")
    consumed: list[int] = []
    acked: list[int] = []
    waits: list[float] = []
    producer = client.create_producer(topic, producer_name="p", send_timeout_millis=0)

    def publish() -> None:
        n = 0
        while not over.is_set():
            asked = history.invoke("publish", topic=topic, message=str(n), by="p")
            began = time.monotonic()
            sent = producer.send(b"%d" % n)
            waits.append(time.monotonic() - began)
            # A publish that was sent again, and is there already, has no place in its receipt.
            history.ok(asked, id=place_of(sent) if sent.entry_id() >= 0 else None)
            n += 1
            time.sleep(0.001)  # sleep: a steady load, not as fast as it goes

    def consume() -> None:
        while not over.is_set():
            with suppress(pulsar.Timeout):
                message = consumer.receive(200)
                consumed.append(int(message.data()))
                consumer.acknowledge(message)
                acked.append(int(message.data()))

    threads = [threading.Thread(target=one, daemon=True) for one in (publish, consume)]
    for thread in threads:
        thread.start()
    for via in (cluster.owner_of(topic), *cluster.brokers[:2]):
        before = len(waits)
        moved(cluster, topic, via)
        deadline = time.monotonic() + WAIT_S
        while len(waits) < before + 100:
            assert time.monotonic() < deadline, "nothing is answered any more"
            time.sleep(0.01)  # sleep: until the load has gone on
    over.set()
    for thread in threads:
        thread.join(WAIT_S)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    history.note("scan", topic=topic)
    stored = []
    while reader.has_message_available():
        message = reader.read_next(30_000)
        stored.append(int(message.data()))
        place = place_of(message.message_id())
        history.note("stored", topic=topic, message=message.data().decode(), id=place)
    history.note("scanned", topic=topic)
    assert judge(history.lines()).anomalies == []
    assert stored == list(range(len(waits))), "each once, in order"
    firsts = list(dict.fromkeys(consumed))
    assert firsts == list(range(len(firsts))), "consumed in order"
    # A client that had to find the new broker by itself would have paused and looked up. The figure that
    # is promised is measured by `python -m bench cluster`; this machine may be busy.
    assert max(waits) < 5.0


def _producer_of_a_new_namespace(client: pulsar.Client, topic: str) -> pulsar.Producer:
    """A process that has just opened its shard looks at the registry each second, and refuses until then."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return client.create_producer(topic, send_timeout_millis=0)
        except pulsar.PulsarException:
            assert time.monotonic() < deadline, topic
            time.sleep(0.05)  # sleep: between two looks


def test_a_namespace_goes_to_a_broker_and_a_wrong_one_is_named(
    cluster: Cluster, client: pulsar.Client
) -> None:
    cluster.has_moved = True
    one = cluster.brokers[0]
    assert one.rest("PUT", "/admin/v2/namespaces/public/wandering")[0] == 204
    path = "/admin/v2/namespaces/public/wandering"
    topics = [f"persistent://public/wandering/t-{number}" for number in range(2)]
    producers = [_producer_of_a_new_namespace(client, topic) for topic in topics]
    for producer in producers:
        producer.send(b"0")
    destination = cluster.brokers[2]
    where = f"127.0.0.1:{destination.http_port}"
    if all(cluster.owner_of(topic) is destination for topic in topics):
        destination = cluster.brokers[1]
        where = f"127.0.0.1:{destination.http_port}"
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "milepost.cli.main",
            "namespaces",
            "unload",
            "public/wandering",
            "--destination",
            where,
            "--admin-url",
            f"http://127.0.0.1:{one.http_port}",
        ],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    for topic, producer in zip(topics, producers, strict=True):
        assert cluster.process_of(destination, topic) is not None
        producer.send(b"1")
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        assert [reader.read_next(30_000).data() for _ in range(2)] == [b"0", b"1"]
    # This broker has a shard; the others may have given theirs away, and refuse connections then.
    for there, told in (
        ("nowhere:1", "there is no living broker 'nowhere:1'"),
        (where, f"broker '{where}' serves all of it already"),
    ):
        deadline = time.monotonic() + WAIT_S
        while True:
            status, said = destination.rest("PUT", f"{path}/unload?destinationBroker={there}")
            if status != 204 or there != where:
                break
            # It stood still for so long that another broker took a shard over, and has it again now.
            assert time.monotonic() < deadline, "its shards do not stay"
        assert (status, told in str(said)) == (412, True), said
    status, said = destination.rest(
        "PUT", f"/admin/v2/persistent/public/wandering/absent/unload?destinationBroker={where}"
    )
    assert (status, "absent does not exist" in str(said)) == (404, True), said


def test_calls_over_http_are_answered_while_the_shard_of_their_topic_moves(
    cluster: Cluster, client: pulsar.Client
) -> None:
    """Asked of both brokers, the one that has the topic and the one that gets it: nothing is cut, and what
    changes something is done once."""
    cluster.await_balance()
    cluster.has_moved = True
    # One of two shards: a broker without any refuses connections.
    rich, other = sorted(cluster.brokers, key=lambda one: -len(cluster.shards(one)))[:2]
    topic = next(
        name
        for name in (f"persistent://public/default/asked-{number}" for number in range(1000))
        if cluster.process_of(rich, name) is not None
    )
    path = f"/admin/v2/{topic.replace('://', '/')}"
    client.create_producer(topic).send(b"0")
    over, said = threading.Event(), list[tuple[str, str, object]]()
    made: list[str] = []

    def ask(broker: BrokerProcess, number: int) -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            name = f"s-{number}-{turn}"
            for method, target, good in (
                ("GET", f"{path}/stats", 200),
                ("PUT", f"{path}/subscription/{name}", 204),
                ("GET", "/admin/v2/persistent/public/default", 200),
            ):
                try:
                    status, answer = broker.rest(method, target)
                except (OSError, http.client.HTTPException) as error:
                    status, answer = 0, repr(error)
                if status != good:
                    said.append((method, target, (status, answer)))
                elif method == "PUT":
                    made.append(name)

    threads = [
        threading.Thread(target=ask, args=(broker, number))
        for number, broker in enumerate((rich, other))
    ]
    for thread in threads:
        thread.start()
    try:
        for turn in range(6):
            where = f"127.0.0.1:{(other, rich)[turn % 2].http_port}"
            status, answer = (rich, other)[turn % 2].rest(
                "PUT", f"{path}/unload?destinationBroker={where}"
            )
            assert status == 204, answer
            time.sleep(1)  # sleep: calls between two moves
    finally:
        over.set()
        for thread in threads:
            thread.join(WAIT_S)
    assert said == []
    found = rich.rest("GET", f"{path}/subscriptions")[1]
    assert set(made) <= set(found)
    assert len(made) >= 12


def test_a_reset_of_all_partitions_is_whole_after_the_owner_is_killed(
    cluster: Cluster, client: pulsar.Client
) -> None:
    topic = "persistent://public/default/parts"
    path = f"/admin/v2/{topic.replace('://', '/')}"
    one = cluster.brokers[0]
    assert one.rest("PUT", f"{path}/partitions", 3)[0] == 204
    consumer = client.subscribe(topic, "s")
    producers = [client.create_producer(f"{topic}-partition-{number}") for number in range(3)]
    sent = [f"{number}-{turn}" for number in range(3) for turn in range(5)]
    for text in sent:
        producers[int(text[0])].send(text.encode())
    for _ in sent:
        consumer.acknowledge(consumer.receive(30_000))
    consumer.close()
    assert one.rest("POST", f"{path}/subscription/s/resetcursor/0")[0] == 204
    cluster.kill(cluster.owner_of(topic))
    consumer = client.subscribe(topic, "s")
    assert sorted(consumer.receive(30_000).data().decode() for _ in sent) == sent


@pytest.mark.slow
def test_a_paused_owner_writes_nothing_when_it_goes_on(
    cluster: Cluster, client: pulsar.Client
) -> None:
    topic = "persistent://public/default/paused"
    producer = client.create_producer(topic, producer_name="p", send_timeout_millis=0)
    producer.send(b"0")
    owner = cluster.owner_of(topic)
    others = [one for one in cluster.brokers if one is not owner]
    before, pids = cluster.process_of(owner, topic), cluster.pids(owner)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        cluster.await_owner(topic, others)
        other = connected(others)
        elsewhere = other.create_producer(topic, producer_name="q")
        for number in range(1, 20):
            elsewhere.send(b"%d" % number)
        other.close()
        late = [producer.send_async(b"late", lambda *told: None) for _ in range(3)]
        assert late
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    producer.send(b"20")
    cluster.await_end(owner, topic, before)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    got = [reader.read_next(30_000).data() for _ in range(24)]
    assert got == [*(b"%d" % number for number in range(20)), b"late", b"late", b"late", b"20"]


@pytest.mark.slow
def test_a_broker_cut_off_from_the_bucket_stops_serving(
    cluster: Cluster, client: pulsar.Client
) -> None:
    topic = "persistent://public/default/cut"
    producer = client.create_producer(topic, producer_name="p", send_timeout_millis=0)
    producer.send(b"0")
    owner = cluster.owner_of(topic)
    before, cut = cluster.process_of(owner, topic), cluster.stores[cluster.brokers.index(owner)]
    cut.is_cut.set()
    try:
        # The client holds a connection to the owner, which is to close it.
        for number in range(1, 10):
            producer.send(b"%d" % number)
        cluster.await_owner(topic, [one for one in cluster.brokers if one is not owner])
    finally:
        cut.is_cut.clear()
    cluster.await_end(owner, topic, before)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert [int(reader.read_next(30_000).data()) for _ in range(10)] == list(range(10))


def backlog(broker: BrokerProcess, topic: str, subscription: str) -> int:
    status, stats = broker.rest("GET", f"/admin/v2/{topic.replace('://', '/')}/stats")
    assert status == 200, stats
    found: int = stats["subscriptions"][subscription]["msgBacklog"]
    return found


def test_a_broker_that_is_stopped_gives_its_shards_to_the_others(
    cluster: Cluster, client: pulsar.Client
) -> None:
    topic = "persistent://public/default/drained"
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="p", send_timeout_millis=0)
    for number in range(20):
        producer.send(b"%d" % number)
    for _ in range(10):
        consumer.acknowledge(consumer.receive(30_000))
    owner = cluster.owner_of(topic)
    until(lambda: backlog(owner, topic, "s") == 10, "the client has sent its acks")
    notice = f"bucket/milepost/board/{cluster.ready(owner)['broker']}"
    assert notice in cluster.stores[0].objects
    owner.stop()
    assert notice not in cluster.stores[0].objects
    for number in range(20, 40):
        producer.send(b"%d" % number)
    got = [int(consumer.receive(30_000).data()) for _ in range(30)]
    assert got == list(range(10, 40)), "acked messages do not come again, the others do in order"
