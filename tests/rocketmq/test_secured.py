"""RocketMQ clients prove who they are with Milepost's tokens, and have the rights of every other client."""

from __future__ import annotations

import queue
import threading
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


class World:
    def __init__(self, broker: BrokerProcess, authority: Authority) -> None:
        self.broker = broker
        self.authority = authority

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
    process = BrokerProcess(
        folder,
        rocketmq_port=0,
        rocketmq_tls_port=0,
        tls_certificate_file=server.certificate,
        tls_key_file=server.key,
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


def test_an_access_key_that_is_no_token_is_refused_clearly(call: Callable[..., Any]) -> None:
    answer = call(authorization=signed("LTAI5")).call("SendMessage", send())
    assert answer.status.code == 40100
    assert "token as the access key" in answer.status.message
    expired = call(authorization=signed(token("writer", exp=1)))
    assert expired.code("SendMessage", send()) == 40100


def test_rights_are_those_of_every_other_client(call: Callable[..., Any]) -> None:
    writer, reader = (call(authorization=signed(token(role))) for role in ("writer", "reader"))
    assert writer.code("SendMessage", send()) == 20000
    assert reader.code("SendMessage", send()) == 40300
    assert poll_code(writer) == 40300
    assert poll_code(reader) == 20000
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
    stranger = grpc.ssl_channel_credentials(Authority("Another").pem)
    raw = make_raw(f"localhost:{world.broker.rocketmq_tls_port}", stranger)
    with pytest.raises(grpc.RpcError) as caught:
        raw.call("SendMessage", send(), timeout=3)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
