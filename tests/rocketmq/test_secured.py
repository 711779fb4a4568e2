"""RocketMQ clients prove who they are with Milepost's tokens, and have the rights of every other client."""

from __future__ import annotations

import hmac
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from compat.broker_process import BrokerProcess
from stage.certificates import Authority
from stage.official_rocketmq import rocketmq
from stage.security import SECURED, bearer, token

from milepost.rocketmq import rocketmq_pb2 as pb

ORDERS = pb.Resource(name="orders")
SECRETS = ("the secret of a writer", "the secret of a reader")


class World:
    def __init__(self, broker: BrokerProcess, authority: Authority) -> None:
        self.broker = broker
        self.authority = authority
        self.keys = broker.log.with_name("keys")

    def until_logged(self, text: str) -> None:
        deadline = time.monotonic() + 60
        while text not in self.broker.log.read_text():
            assert time.monotonic() < deadline, text
            time.sleep(0.05)  # sleep: until the broker looks at its files

    def grant(self, role: str, *actions: str) -> None:
        path = f"/admin/v2/namespaces/public/default/permissions/{role}"
        assert self.broker.rest("POST", path, list(actions), bearer("root"))[0] == 204

    def revoke(self, role: str) -> None:
        path = f"/admin/v2/namespaces/public/default/permissions/{role}"
        assert self.broker.rest("DELETE", path, None, bearer("root"))[0] == 204


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority("Test authority")
    server = authority.issue("localhost", is_server=True).write(folder, "server")
    keys = folder / "keys"
    keys.write_text(f"key-1:{SECRETS[0]}:writer\nreader:{SECRETS[1]}\n")
    keys.chmod(0o600)
    process = BrokerProcess(
        folder,
        rocketmq_port=0,
        rocketmq_tls_port=0,
        tls_certificate_file=server.certificate,
        tls_key_file=server.key,
        rocketmq_access_keys_file=keys,
        security_files_check_s=0.2,
        **SECURED,
    )
    with process as broker:
        path = "/admin/v2/persistent/public/default/orders"
        assert broker.rest("PUT", path, None, bearer("root"))[0] == 204
        made = World(broker, authority)
        made.grant("writer", "produce")
        made.grant("reader", "consume")
        yield made
        assert not broker.complaints()
        assert token("writer") not in broker.log.read_text()


@pytest.fixture
def call(world: World, make_raw: Callable[..., Any]) -> Callable[..., Any]:
    def make(**headers: str) -> Any:
        raw = make_raw(f"127.0.0.1:{world.broker.rocketmq_port}")
        raw.headers |= {name.replace("_", "-"): value for name, value in headers.items()}
        return raw

    return make


def signed(key: str) -> str:
    return f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x-mq-date-time, Signature=00FF"


def send() -> pb.SendMessageRequest:
    message = pb.Message(
        topic=ORDERS, system_properties=pb.SystemProperties(message_id="id"), body=b"x"
    )
    return pb.SendMessageRequest(messages=[message])


def poll_code(raw: Any, wait_s: float = 0.1) -> int:
    request = pb.ReceiveMessageRequest(
        group=pb.Resource(name="g"), message_queue=pb.MessageQueue(topic=ORDERS), batch_size=1
    )
    request.invisible_duration.FromSeconds(30)
    request.long_polling_timeout.FromMilliseconds(int(wait_s * 1000))
    return int(next(raw.stream("ReceiveMessage", request)).status.code)


def test_every_call_needs_credentials(call: Callable[..., Any]) -> None:
    for headers in ({}, {"authorization": signed("")}):
        raw = call(**headers)
        assert raw.code("QueryRoute", pb.QueryRouteRequest(topic=ORDERS)) == 40100
        assert raw.code("Heartbeat", pb.HeartbeatRequest()) == 40100
        assert poll_code(raw) == 40100
        with pytest.raises(grpc.RpcError) as caught:
            raw.talk(pb.TelemetryCommand())
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_token_is_taken_wherever_clients_can_put_it(call: Callable[..., Any]) -> None:
    for headers in (
        {"authorization": signed(token("writer"))},
        {"authorization": bearer("writer")["authorization"]},
        {"authorization": signed("key"), "x-mq-session-token": token("writer")},
    ):
        assert call(**headers).code("SendMessage", send()) == 20000, headers


def by_key(key: str, secret: str, said: str = "20260101T000000Z") -> dict[str, str]:
    """The headers of a call that is signed with the secret of an access key."""
    signature = hmac.digest(secret.encode(), said.encode(), "sha1").hex().upper()
    scheme = f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x-mq-date-time, Signature={signature}"
    return {"authorization": scheme, "x_mq_date_time": said}


def test_a_signature_by_an_access_key(call: Callable[..., Any], world: World, clients: Any) -> None:
    writer, reader = call(**by_key("key-1", SECRETS[0])), call(**by_key("reader", SECRETS[1]))
    assert writer.code("SendMessage", send()) == 20000
    assert (
        poll_code(writer),
        poll_code(reader, wait_s=10),
        reader.code("SendMessage", send()),
    ) == (
        40300,
        20000,
        40300,
    )
    for wrong in (
        by_key("key-1", SECRETS[1]),
        by_key("key-2", SECRETS[0]),
        by_key("writer", SECRETS[0]),
        by_key("key-1", SECRETS[0]) | {"x_mq_date_time": "20260101T000001Z"},
        {"authorization": signed("key-1")},
    ):
        answer = call(**wrong).call("SendMessage", send())
        assert (answer.status.code, answer.entries) == (40100, [])
        assert "no such access key, or a wrong signature" in answer.status.message
    # As an official client signs.
    producer = clients.producer(world.broker, "orders", "key-1", secret=SECRETS[0])
    message = rocketmq.Message()
    message.topic, message.body = "orders", b"signed"
    assert producer.send(message).message_id
    stranger = clients.producer(world.broker, "orders", "key-1", secret=SECRETS[1])
    with pytest.raises(Exception, match="failed to fetch topic:orders route"):
        stranger.send(message)


def test_changed_access_keys_are_taken(call: Callable[..., Any], world: World) -> None:
    """A file that cannot be used changes nothing; one that can does, and nothing of it is logged."""
    kept = world.keys.read_text()
    later = call(**by_key("later", SECRETS[0]))
    assert later.code("Heartbeat", pb.HeartbeatRequest()) == 40100
    world.keys.write_text("later")
    world.until_logged("access keys stay as they were: line 1")
    assert call(**by_key("key-1", SECRETS[0])).code("SendMessage", send()) == 20000
    world.keys.write_text(f"{kept}later:{SECRETS[0]}\n")
    world.until_logged("access keys were read again")
    assert later.code("Heartbeat", pb.HeartbeatRequest()) == 20000
    log = world.broker.log.read_text()
    assert not any(secret in log for secret in SECRETS)


def test_an_expired_token_is_refused(call: Callable[..., Any]) -> None:
    expired = call(authorization=signed(token("writer", exp=1)))
    assert expired.code("SendMessage", send()) == 40100


def test_rights_are_those_of_every_other_client(call: Callable[..., Any]) -> None:
    writer, reader = (call(authorization=signed(token(role))) for role in ("writer", "reader"))
    assert writer.code("SendMessage", send()) == 20000
    assert reader.code("SendMessage", send()) == 40300
    assert poll_code(writer) == 40300
    assert poll_code(reader, wait_s=10) == 20000
    own, group = ORDERS, pb.Resource(name="g")
    entry = pb.AckMessageEntry(receipt_handle="x")
    for name, request in {
        "AckMessage": pb.AckMessageRequest(topic=own, group=group, entries=[entry]),
        "ChangeInvisibleDuration": pb.ChangeInvisibleDurationRequest(topic=own, group=group),
        "ForwardMessageToDeadLetterQueue": pb.ForwardMessageToDeadLetterQueueRequest(
            topic=own, group=group
        ),
        "QueryAssignment": pb.QueryAssignmentRequest(topic=own, group=group),
    }.items():
        assert writer.code(name, request) == 40300, name
        assert reader.code(name, request) != 40300, name
    stranger = call(authorization=signed(token("stranger")))
    assert stranger.code("QueryRoute", pb.QueryRouteRequest(topic=ORDERS)) == 40300


def test_a_transaction_is_ended_by_producers_alone(call: Callable[..., Any]) -> None:
    """A role that may consume cannot end it, nor be told of it by its id."""
    writer, reader = (call(authorization=signed(token(role))) for role in ("writer", "reader"))
    half = send()
    half.messages[0].system_properties.message_type = pb.TRANSACTION
    (entry,) = writer.call("SendMessage", half).entries
    assert reader.code("SendMessage", half) == 40300
    end = pb.EndTransactionRequest(
        topic=ORDERS, transaction_id=entry.transaction_id, resolution=pb.ROLLBACK
    )
    assert reader.code("EndTransaction", end) == 40300
    assert call().code("EndTransaction", end) == 40100
    assert writer.code("EndTransaction", end) == 20000


def test_a_producer_is_asked_about_half_messages_of_its_own_role(
    world: World, call: Callable[..., Any]
) -> None:
    world.grant("other", "produce")
    writer, other = (call(authorization=signed(token(role))) for role in ("writer", "other"))
    told: dict[str, queue.Queue[pb.TelemetryCommand]] = {
        "writer": queue.Queue(),
        "other": queue.Queue(),
    }
    is_over = threading.Event()
    settings = pb.Settings(client_type=pb.PRODUCER, publishing=pb.Publishing(topics=[ORDERS]))

    def commands() -> Iterator[pb.TelemetryCommand]:
        yield pb.TelemetryCommand(settings=settings)
        is_over.wait(30)

    def listen(name: str, raw: Any) -> None:
        for command in raw.begin_talk(commands()):
            told[name].put(command)

    threads = [
        threading.Thread(target=listen, args=one) for one in (("writer", writer), ("other", other))
    ]
    for thread in threads:
        thread.start()
    try:
        for name in told:
            assert told[name].get(timeout=20).HasField("settings")
        half = send()
        system = half.messages[0].system_properties
        system.message_type = pb.TRANSACTION
        system.orphaned_transaction_recovery_duration.FromMilliseconds(100)
        (entry,) = writer.call("SendMessage", half).entries
        asked = told["writer"].get(timeout=20).recover_orphaned_transaction_command
        assert asked.transaction_id == entry.transaction_id
        assert told["other"].empty()
    finally:
        is_over.set()
        for thread in threads:
            thread.join(30)
    end = pb.EndTransactionRequest(
        topic=ORDERS, transaction_id=entry.transaction_id, resolution=pb.ROLLBACK
    )
    assert writer.code("EndTransaction", end) == 20000


def test_a_poll_that_waits_ends_when_the_right_is_gone(
    world: World, call: Callable[..., Any]
) -> None:
    world.grant("leaver", "produce", "consume")
    raw = call(authorization=signed(token("leaver")))
    group = pb.Resource(name="leaving")
    request = pb.ReceiveMessageRequest(
        group=group, message_queue=pb.MessageQueue(topic=ORDERS), batch_size=32
    )
    request.invisible_duration.FromSeconds(30)
    request.long_polling_timeout.FromMilliseconds(300)
    while next(raw.stream("ReceiveMessage", request)).status.code == 20000:
        pass  # what others have sent
    request.long_polling_timeout.FromSeconds(8)
    waiting = raw.stream("ReceiveMessage", request)
    assert raw.code("Heartbeat", pb.HeartbeatRequest()) == 20000  # behind the poll
    world.revoke("leaver")
    writer = call(authorization=signed(token("writer")))
    assert writer.code("SendMessage", send()) == 20000
    assert next(waiting).status.code == 40300


def test_the_official_client_shows_a_token_as_its_access_key(world: World, clients: Any) -> None:
    producer = clients.producer(world.broker, "orders", token("writer"))
    message = rocketmq.Message()
    message.topic, message.body = "orders", b"by token"
    assert producer.send(message).message_id


def test_tls(world: World, make_raw: Callable[..., Any]) -> None:
    trusted = grpc.ssl_channel_credentials(world.authority.pem)
    raw = make_raw(f"localhost:{world.broker.rocketmq_tls_port}", trusted)
    raw.headers["authorization"] = signed(token("writer"))
    assert raw.code("SendMessage", send()) == 20000
    context = ssl.create_default_context(cadata=world.authority.pem.decode())
    context.set_alpn_protocols(["http/1.1", "h2"])
    place = ("localhost", world.broker.rocketmq_tls_port)
    with (
        socket.create_connection(place, timeout=30) as link,
        context.wrap_socket(link, server_hostname="localhost") as tls,
    ):
        assert tls.selected_alpn_protocol() == "h2"  # clients ask whether HTTP/2 is spoken
    stranger = grpc.ssl_channel_credentials(Authority("Another").pem)
    raw = make_raw(f"localhost:{world.broker.rocketmq_tls_port}", stranger)
    with pytest.raises(grpc.RpcError) as caught:
        raw.call("SendMessage", send(), timeout=3)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
