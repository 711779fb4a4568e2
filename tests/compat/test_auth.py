"""Tokens and rights with the official client: each wrong in each way, and refused clearly.

The C++ client under it would take a refusal in the handshake for a broken connection; that it says
AuthenticationError, and at once, is tested here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from stage.security import SECRET, SECURED, bearer, token

from milepost.broker.auth.keys import secret_key
from milepost.broker.auth.tokens import sign

SETTINGS = {**SECURED, "authentication_refresh_s": 2}

Connect = Callable[..., pulsar.Client]

# Far below what an operation may take before it times out.
AT_ONCE_S = 20.0


def as_(role: str, **claims: object) -> pulsar.AuthenticationToken:
    return pulsar.AuthenticationToken(token(role, **claims))


@pytest.fixture(scope="module", autouse=True)
def grants(broker: BrokerProcess) -> Iterator[None]:
    for role, actions in (("writer", ["produce"]), ("reader", ["consume"])):
        path = f"/admin/v2/namespaces/public/default/permissions/{role}"
        status, answer = broker.rest("POST", path, actions, bearer("root"))
        assert status == 204, answer
    yield
    log = broker.log.read_text()
    # Not one token that a client has shown, right or wrong, and not the secret.
    assert "eyJ" not in log
    assert SETTINGS["token_secret_key"] not in log


def test_a_role_with_the_rights(broker: BrokerProcess, connect: Connect, topic: str) -> None:
    consumer = connect(broker, authentication=as_("reader")).subscribe(topic, "s")
    producer = connect(broker, authentication=as_("writer")).create_producer(topic)
    producer.send(b"hello")
    message = consumer.receive(10_000)
    assert message.data() == b"hello"
    consumer.acknowledge(message)


WRONG = {
    "none": None,
    "garbage": "a.b.c",
    "empty": "",
    "expired": token("root", exp=1),
    "not yet valid": token("root", nbf=2**33),
    "another key's": sign(secret_key(b"x" * 32), {"sub": "root"}),
    "unsigned": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb290In0.",
    "without a role": sign(secret_key(SECRET), {"iss": "root"}),
    "a role of two lines": token("root\nadmin"),
    "giant": token("root", filler="x" * 40_000),
}


@pytest.mark.parametrize("which", WRONG)
def test_a_wrong_token_is_refused_clearly_and_at_once(
    broker: BrokerProcess, connect: Connect, topic: str, which: str
) -> None:
    wrong = WRONG[which]
    authentication = None if wrong is None else pulsar.AuthenticationToken(wrong)
    began = time.monotonic()
    with pytest.raises(pulsar.AuthenticationError):
        connect(broker, authentication=authentication).create_producer(topic)
    with pytest.raises(pulsar.AuthenticationError):
        connect(broker, authentication=authentication).subscribe(topic, "s")
    assert time.monotonic() - began < AT_ONCE_S


def test_a_producer_cannot_consume_nor_a_consumer_produce(
    broker: BrokerProcess, connect: Connect, topic: str
) -> None:
    writer, reader = (connect(broker, authentication=as_(one)) for one in ("writer", "reader"))
    writer.create_producer(topic)
    with pytest.raises(pulsar.AuthorizationError):
        writer.subscribe(topic, "s")
    with pytest.raises(pulsar.AuthorizationError):
        writer.create_reader(topic, pulsar.MessageId.earliest)
    reader.subscribe(topic, "s")
    with pytest.raises(pulsar.AuthorizationError):
        reader.create_producer(topic)
    # The connection is as good as before.
    writer.create_producer(topic).send(b"still here")


def test_another_tenants_role_sees_nothing(
    broker: BrokerProcess, connect: Connect, topic: str
) -> None:
    stranger = connect(broker, authentication=as_("stranger"))
    with pytest.raises(pulsar.AuthorizationError):
        stranger.create_producer(topic)
    with pytest.raises(pulsar.AuthorizationError):
        stranger.subscribe(topic, "s")
    with pytest.raises(pulsar.AuthorizationError):
        stranger.get_topic_partitions(topic)
    with pytest.raises(pulsar.AuthorizationError):
        stranger.get_topic_partitions("persistent://no-tenant/none/x")
    for path in ("namespaces/public/default/topics", "persistent/public/default/x/stats"):
        assert broker.rest("GET", f"/admin/v2/{path}", None, bearer("stranger"))[0] == 403


def test_a_token_that_expires_is_renewed(
    broker: BrokerProcess, connect: Connect, topic: str
) -> None:
    asked: list[float] = []
    renewed = threading.Event()

    def supply() -> str:
        asked.append(time.time())
        if len(asked) > 1:
            renewed.set()
        return token("root", exp=int(time.time()) + 3)

    client = connect(broker, authentication=pulsar.AuthenticationToken(supply))
    producer = client.create_producer(topic)
    producer.send(b"before")
    before = _counted(broker, "milepost_authentications_renewed_total")
    assert renewed.wait(30)
    _wait(lambda: _counted(broker, "milepost_authentications_renewed_total") > before)
    producer.send(b"after")
    assert producer.is_connected()


def test_a_token_that_expires_and_is_not_renewed_ends_the_connection(
    broker: BrokerProcess, connect: Connect, topic: str
) -> None:
    stale = token("root", exp=int(time.time()) + 3)
    client = connect(broker, authentication=pulsar.AuthenticationToken(stale))
    producer = client.create_producer(topic, send_timeout_millis=2000)
    producer.send(b"before")
    before = _refused(broker, "token_expired")
    _wait(lambda: _refused(broker, "token_expired") > before)
    _wait(lambda: not producer.is_connected())
    with pytest.raises(pulsar.PulsarException):
        producer.send(b"after")
    with pytest.raises(pulsar.AuthenticationError):
        connect(broker, authentication=pulsar.AuthenticationToken(stale)).create_producer(topic)


def test_a_revoked_right_ends_what_was_opened_by_it(
    broker: BrokerProcess, connect: Connect, topic: str
) -> None:
    path = "/admin/v2/namespaces/public/default/permissions/passing"
    assert broker.rest("POST", path, ["produce", "consume"], bearer("root"))[0] == 204
    client = connect(broker, authentication=as_("passing"))
    producer = client.create_producer(topic, send_timeout_millis=3000)
    consumer = client.subscribe(topic, "s")
    producer.send(b"before")
    assert consumer.receive(10_000).data() == b"before"
    assert broker.rest("DELETE", path, None, bearer("root"))[0] == 204
    # Both were closed before the answer; neither comes back.
    with pytest.raises(pulsar.PulsarException):
        producer.send(b"after")
    with pytest.raises(pulsar.AuthorizationError):
        client.create_producer(topic)
    with pytest.raises(pulsar.AuthorizationError):
        client.subscribe(topic, "s2")


def test_grants_on_one_topic_and_one_subscription(
    broker: BrokerProcess, connect: Connect, topic: str
) -> None:
    root = connect(broker, authentication=as_("root"))
    root.create_producer(topic)
    path = topic.replace("://", "/")
    status, _ = broker.rest(
        "POST", f"/admin/v2/{path}/permissions/narrow", ["consume"], bearer("root")
    )
    assert status == 204
    subscriptions = "/admin/v2/namespaces/public/default/permissions/subscription"
    assert broker.rest("POST", f"{subscriptions}/private", ["nobody"], bearer("root"))[0] == 204
    narrow = connect(broker, authentication=as_("narrow"))
    narrow.subscribe(topic, "mine").close()
    with pytest.raises(pulsar.AuthorizationError):
        narrow.subscribe(topic, "private")
    with pytest.raises(pulsar.AuthorizationError):
        narrow.subscribe(topic + "-other", "mine")


def _counted(broker: BrokerProcess, name: str, label: str = "") -> float:
    _, text = broker.rest("GET", "/metrics")
    lines = text.decode().splitlines()
    found = [line for line in lines if line.startswith(name) and label in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in found)


def _refused(broker: BrokerProcess, reason: str) -> float:
    return _counted(broker, "milepost_authentications_refused_total", f'reason="{reason}"')


def _wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.1)  # sleep: between two looks at a condition with a deadline
