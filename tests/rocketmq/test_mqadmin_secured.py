"""mqadmin proves who asks with a Milepost token, and has the rights of every other client."""

from __future__ import annotations

import base64
import hmac
import json
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
from compat.broker_process import BrokerProcess
from stage.certificates import Authority
from stage.remoting import Remoting
from stage.security import SECURED, bearer, token

from milepost.rocketmq.remoting.server import HANDLERS

NO_PERMISSION = 16
KEY_SECRET = "the secret of a reader"
GROUP = json.dumps({"groupName": "g"}).encode()
FIELDS = {
    "topic": "orders",
    "group": "g",
    "groupName": "g",
    "consumerGroup": "g",
    "producerGroup": "orders",
    "clientId": "c",
    "queueId": 0,
    "offset": 0,
    "timestamp": 0,
    "readQueueNums": 1,
    "writeQueueNums": 1,
    "key": "k",
    "statsName": "TOPIC_PUT_NUMS",
    "statsKey": "orders",
}
# What any client that is known may ask: there is nothing in the answer.
IDENTIFIED = {"GET_BROKER_CLUSTER_INFO", "HEART_BEAT", "UNREGISTER_CLIENT"}
# Which group asks is judged before the topic is known.
BODIES = {"HEART_BEAT": b"{}"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("secured")
    server = Authority("Test authority").issue("localhost", is_server=True).write(folder, "server")
    keys = folder / "keys"
    keys.write_text(f"rocketmq2:{KEY_SECRET}:reader\n")
    process = BrokerProcess(
        folder,
        rocketmq_access_keys_file=keys,
        rocketmq_namesrv_port=0,
        rocketmq_namesrv_tls_port=0,
        tls_certificate_file=server.certificate,
        tls_key_file=server.key,
        **SECURED,
    )
    with process as running:
        path = "/admin/v2/persistent/public/default/orders"
        assert running.rest("PUT", path, None, bearer("root"))[0] == 204
        for role, action in (("writer", "produce"), ("reader", "consume")):
            path = f"/admin/v2/namespaces/public/default/permissions/{role}"
            assert running.rest("POST", path, [action], bearer("root"))[0] == 204
        yield running
        assert not running.complaints()
        assert token("reader") not in running.log.read_text()
        assert KEY_SECRET not in running.log.read_text()


@pytest.fixture
def mqadmin(broker: BrokerProcess) -> Iterator[Remoting]:
    client = Remoting(broker.rocketmq_namesrv_port)
    yield client
    client.close()


@pytest.mark.parametrize("ask", HANDLERS, ids=lambda ask: ask.name.lower())
def test_every_request_needs_credentials_and_rights(mqadmin: Remoting, ask: Any) -> None:
    body = BODIES.get(ask.name, GROUP)
    fields = {**FIELDS, "consumerGroup": "TOOLS_CONSUMER"} if ask.name == "PULL_MESSAGE" else FIELDS
    for shown in ({}, {"AccessKey": "rocketmq2", "Signature": "x"}, {"AccessKey": "a.b.c"}):
        answer = mqadmin.ask(ask, body, **fields, **shown)
        assert (answer.code, answer.body, answer.fields) == (NO_PERMISSION, b"", {})
        assert answer.remark
    mqadmin.fields = {"AccessKey": token("nobody"), "Signature": "x"}
    answer = mqadmin.ask(ask, body, **fields)
    if ask.name in IDENTIFIED:
        assert answer.code == 0
    else:
        assert (answer.code, answer.body, answer.fields) == (NO_PERMISSION, b"", {})


def test_requests_signed_by_an_access_key(mqadmin: Remoting) -> None:
    """The values of all fields in the order of their names, and the body."""

    def asked(key: str, secret: str, ask: int, body: bytes, **fields: Any) -> int:
        fields = {**fields, "AccessKey": key}
        said = "".join(str(fields[name]) for name in sorted(fields)).encode() + body
        signature = base64.b64encode(hmac.digest(secret.encode(), said, "sha1")).decode()
        return mqadmin.ask(ask, body, **fields, Signature=signature).code

    assert asked("rocketmq2", KEY_SECRET, 105, b"", topic="orders") == 0
    assert asked("rocketmq2", KEY_SECRET, 222, b"", topic="orders", group="g", timestamp=0) == 26
    assert asked("rocketmq2", KEY_SECRET, 200, GROUP, topic="a") == NO_PERMISSION  # no admin
    assert asked("rocketmq2", "another secret", 105, b"", topic="orders") == NO_PERMISSION
    assert asked("rocketmq3", KEY_SECRET, 105, b"", topic="orders") == NO_PERMISSION
    # What upstream's client adds to a request when it is signed.
    fields = {"AccessKey": "rocketmq2", "topic": "orders", "key": "k", "maxNum": 1}
    said = "".join(str(fields[name]) for name in sorted(fields)).encode()
    signature = base64.b64encode(hmac.digest(KEY_SECRET.encode(), said, "sha1")).decode()
    more = {"_UNIQUE_KEY_QUERY": "true", "Signature": signature}
    assert mqadmin.ask(12, b"", **fields, **more).code == 22
    assert mqadmin.ask(12, b"x", **fields, **more).code == NO_PERMISSION


def test_rights_are_those_of_other_clients(mqadmin: Remoting) -> None:
    def code(role: str, ask: int, **fields: Any) -> int:
        mqadmin.fields = {"AccessKey": token(role), "Signature": "x"}
        return mqadmin.ask(ask, GROUP, **{**FIELDS, **fields}).code

    for role in ("writer", "reader", "root"):
        assert code(role, 105) == code(role, 202) == code(role, 206) == 0
    assert code("writer", 222) == code("writer", 208) == NO_PERMISSION
    assert code("reader", 222) == 26  # it may; there is no such group
    for ask in (17, 200, 207, 215, 28, 26):
        assert code("reader", ask, topic="other") == NO_PERMISSION
        assert code("root", ask, topic="other") == 0
    mqadmin.fields = {"SecurityToken": token("reader")}
    assert mqadmin.ask(105, topic="orders").code == 0


def test_progress_on_all_topics_is_that_on_those_that_a_role_may_consume(
    broker: BrokerProcess, mqadmin: Remoting
) -> None:
    path = "/admin/v2/persistent/public/default/orders/subscription/shown"
    assert broker.rest("PUT", path, None, bearer("root"))[0] == 204
    for role, found in (("writer", []), ("reader", ["orders/0"]), ("root", ["orders/0"])):
        mqadmin.fields = {"AccessKey": token(role), "Signature": "x"}
        assert list(mqadmin.ask(208, consumerGroup="shown").json["offsetTable"]) == found


def test_with_tls_the_address_of_the_broker_is_that_of_the_tls_port(broker: BrokerProcess) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client = Remoting(broker.rocketmq_namesrv_tls_port, context)
    client.fields = {"AccessKey": token("root")}
    data = client.ask(105, topic="orders").json["brokerDatas"][0]
    assert data["brokerAddrs"] == {"0": f"127.0.0.1:{broker.rocketmq_namesrv_tls_port}"}
    client.close()
