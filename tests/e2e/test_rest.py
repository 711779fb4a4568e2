"""The admin REST of a running broker, beside the official client with an `http://` service URL."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from e2e.conftest import Serving

pulsar = pytest.importorskip("pulsar")

TOPICS = "/admin/v2/persistent/public/default"
WAIT_S = 20


class Answer(NamedTuple):
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Rest:
    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, line: str, body: Any = None) -> Answer:
        method, _, path = line.partition(" ")
        if not path.startswith("/"):
            path = f"{TOPICS}/{path}"
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                return Answer(answer.status, answer.read(), dict(answer.headers))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read(), {})

    def wait_for(self, path: str, *keys: str, value: Any) -> None:
        """Ask until the value at those keys is what it should be."""
        deadline = time.monotonic() + WAIT_S
        while True:
            found = self(f"GET {path}").json
            for key in keys:
                found = found[key]
            if found == value:
                return
            assert time.monotonic() < deadline, f"{keys} of {path}: {found}, not {value}"
            time.sleep(0.05)  # sleep: polling a broker of another process, with a deadline


@pytest.fixture
def rest(serving: Serving) -> Rest:
    return Rest(serving.ready["http_url"])


@pytest.fixture
def client(serving: Serving) -> Iterator[Any]:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(serving.ready["http_url"], operation_timeout_seconds=15, logger=quiet)
    yield client
    client.close()


def receive_all(consumer: Any, count: int) -> set[bytes]:
    found = set()
    for _ in range(count):
        message = consumer.receive(timeout_millis=WAIT_S * 1000)
        consumer.acknowledge(message)
        found.add(message.data())
    return found


def test_a_partitioned_topic_made_over_rest_is_used(rest: Rest, client: Any) -> None:
    assert rest("PUT orders/partitions", 3).status == 204
    assert rest("PUT orders/subscription/billing", "earliest").status == 204
    producer = client.create_producer(
        "orders", message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution
    )
    sent = {b"%d" % number for number in range(30)}
    for one in sorted(sent):
        producer.send(one)
    stats = rest("GET orders/partitioned-stats").json
    assert stats["msgInCounter"] == 30
    assert stats["subscriptions"]["billing"]["messagesBacklog"] == 30
    assert receive_all(client.subscribe("orders", "billing"), 30) == sent
    rest.wait_for(
        "orders/partitioned-stats", "subscriptions", "billing", "messagesBacklog", value=0
    )
    assert rest("POST orders/partitions", 4).status == 204
    assert len(client.get_topic_partitions("orders")) == 4


def test_messages_are_looked_at_and_found_again(rest: Rest, client: Any) -> None:
    producer = client.create_producer("t")
    ids = [producer.send(b"m%d" % number, properties={"n": str(number)}) for number in range(5)]
    where = f"{ids[3].ledger_id()}/entry/{ids[3].entry_id()}"
    answer = rest(f"GET t/ledger/{where}")
    assert (answer.status, answer.body) == (200, b"m3")
    # In this case: the Java admin client looks for the name letter by letter.
    assert json.loads(answer.headers["X-Pulsar-PROPERTY"]) == {"n": "3"}
    by_index = rest("GET t/getMessageIdByIndex?index=3").json
    assert (by_index["ledgerId"], by_index["entryId"]) == (ids[3].ledger_id(), ids[3].entry_id())
    assert rest("PUT t/subscription/s", "earliest").status == 204
    assert rest("GET t/subscription/s/position/2").body == b"m1"
    assert rest("POST t/subscription/s/skip/3").status == 204
    assert rest("GET t/subscription/s/position/1").body == b"m3"
    assert receive_all(client.subscribe("t", "s"), 2) == {b"m3", b"m4"}
    assert rest("GET t/lastMessageId").json["entryId"] == ids[4].entry_id()


def test_clients_outlive_an_unload_and_a_reset(rest: Rest, client: Any) -> None:
    consumer = client.subscribe("t", "s")
    producer = client.create_producer("t")
    for number in range(3):
        producer.send(b"%d" % number)
    assert receive_all(consumer, 3) == {b"0", b"1", b"2"}
    # The client collects acks before it sends them; those that an unload overtakes are lost with it.
    rest.wait_for("t/stats", "subscriptions", "s", "messagesBacklog", value=0)
    assert rest("PUT t/unload").status == 204
    producer.send(b"3")
    assert receive_all(consumer, 1) == {b"3"}
    assert rest("POST t/subscription/s/resetcursor/0").status == 204
    assert receive_all(consumer, 4) == {b"0", b"1", b"2", b"3"}


def test_a_terminated_topic_is_read_to_its_end(rest: Rest, client: Any) -> None:
    producer = client.create_producer("t")
    last = producer.send(b"last")
    answer = rest("POST t/terminate")
    assert answer.status == 200
    assert answer.json["entryId"] == last.entry_id()
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer("t").send(b"more")
    reader = client.create_reader("t", pulsar.MessageId.earliest)
    assert reader.read_next(timeout_millis=WAIT_S * 1000).data() == b"last"


def test_deleting_what_is_in_use_needs_force(rest: Rest, client: Any) -> None:
    consumer = client.subscribe("t", "s")
    assert rest("DELETE t").status == 412
    assert rest("DELETE t/subscription/s").status == 412
    consumer.close()
    assert rest("DELETE t").status == 204
    assert rest("GET t/stats").status == 404


def test_it_is_well_and_says_so(rest: Rest) -> None:
    for _ in range(3):
        answer = rest("GET /admin/v2/brokers/health")
        assert (answer.status, answer.body) == (200, b"ok")
    assert rest("GET /admin/v2/persistent/public/default").json == []


def test_everything_is_there_after_a_restart(serving: Serving, rest: Rest, client: Any) -> None:
    rest("PUT /admin/v2/tenants/acme", {"allowedClusters": ["standalone"]})
    rest("PUT /admin/v2/namespaces/acme/shop")
    rest("PUT /admin/v2/persistent/acme/shop/t", {"team": "blue"})
    rest("PUT /admin/v2/persistent/acme/shop/t/subscription/s", {"properties": {"a": "b"}})
    producer = client.create_producer("persistent://acme/shop/t")
    for number in range(10):
        producer.send(b"%d" % number)
    rest("POST /admin/v2/persistent/acme/shop/t/subscription/s/skip/4")
    serving.stop()
    again = Serving(serving.ready_file.with_suffix(""))
    try:
        rest = Rest(again.ready["http_url"])
        path = "/admin/v2/persistent/acme/shop/t"
        assert rest(f"GET {path}/properties").json == {"team": "blue"}
        assert rest(f"GET {path}/subscription/s/properties").json == {"a": "b"}
        assert rest(f"GET {path}/stats").json["subscriptions"]["s"]["markDeleteIndex"] == 3
    finally:
        again.stop()


def test_a_head_without_end_is_cut_off(serving: Serving) -> None:
    """What is refused here never was a request: the listener stops reading it."""
    port = urllib.parse.urlsplit(serving.ready["http_url"]).port
    for start in (b"GET / HTTP/1.1\r\nx-large: ", b"GET /"):
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
            heard = b""
            try:
                connection.sendall(start)
                for _ in range(64):
                    connection.sendall(b"x" * 16384)
                while part := connection.recv(4096):
                    heard += part
            except (ConnectionResetError, BrokenPipeError):
                pass  # it is closed while there is more to read
            assert not heard or heard.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400")), heard
    assert serving.get("/status.html") == b"OK"
