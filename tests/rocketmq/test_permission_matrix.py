"""Who may do what: every gRPC method and every request of mqadmin, for every kind of role.

A method or request that has no row here makes a test fail. A role that may not is refused with upstream's
code, and what the call would have changed is left as it was; a role that may is answered with anything else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from compat.broker_process import BrokerProcess
from stage.remoting import Remoting
from stage.security import SECURED, bearer, token

from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.remoting.codes import Ask
from milepost.rocketmq.remoting.server import HANDLERS
from milepost.rocketmq.server import CALLS

UNAUTHORIZED, FORBIDDEN = 40100, 40300
NO_PERMISSION = 16

# No credentials, a role without any right, `produce`, `consume`, admin of the tenant, superuser.
ROLES = ("", "nobody", "writer", "reader", "boss", "root")

IDENTIFIED = {"nobody", "writer", "reader", "boss", "root"}
EITHER = {"writer", "reader", "boss", "root"}
PRODUCE = {"writer", "boss", "root"}
CONSUME = {"reader", "boss", "root"}
ADMIN = {"boss", "root"}
SUPER = {"root"}

TOPIC, GROUP = pb.Resource(name="orders"), pb.Resource(name="g")


def message() -> pb.Message:
    system = pb.SystemProperties(message_id="id")
    return pb.Message(topic=TOPIC, system_properties=system, body=b"x")


def poll() -> pb.ReceiveMessageRequest:
    request = pb.ReceiveMessageRequest(group=GROUP, message_queue=pb.MessageQueue(topic=TOPIC))
    request.invisible_duration.FromSeconds(30)
    request.long_polling_timeout.FromMilliseconds(50)
    return request


# A method → which roles may call it, and a call.
METHODS: dict[str, tuple[set[str], Callable[[], Any]]] = {
    "QueryRoute": (EITHER, lambda: pb.QueryRouteRequest(topic=TOPIC)),
    "QueryAssignment": (CONSUME, lambda: pb.QueryAssignmentRequest(topic=TOPIC, group=GROUP)),
    "SendMessage": (PRODUCE, lambda: pb.SendMessageRequest(messages=[message()])),
    "ReceiveMessage": (CONSUME, poll),
    "AckMessage": (
        CONSUME,
        lambda: pb.AckMessageRequest(topic=TOPIC, group=GROUP, entries=[pb.AckMessageEntry()]),
    ),
    "ChangeInvisibleDuration": (
        CONSUME,
        lambda: pb.ChangeInvisibleDurationRequest(topic=TOPIC, group=GROUP),
    ),
    "ForwardMessageToDeadLetterQueue": (
        CONSUME,
        lambda: pb.ForwardMessageToDeadLetterQueueRequest(topic=TOPIC, group=GROUP),
    ),
    "Heartbeat": (IDENTIFIED, pb.HeartbeatRequest),
    "NotifyClientTermination": (IDENTIFIED, pb.NotifyClientTerminationRequest),
    "EndTransaction": (PRODUCE, lambda: pb.EndTransactionRequest(topic=TOPIC, message_id="id")),
    "RecallMessage": (PRODUCE, lambda: pb.RecallMessageRequest(topic=TOPIC)),
    "Telemetry": (IDENTIFIED, pb.TelemetryCommand),
}

# A request → which roles may make it, and fields of its own.
REQUESTS: dict[Ask, tuple[set[str], dict[str, Any]]] = {
    Ask.PULL_MESSAGE: (CONSUME, {"consumerGroup": "TOOLS_CONSUMER"}),
    Ask.QUERY_MESSAGE: (CONSUME, {"key": "k"}),
    Ask.UPDATE_CONSUMER_OFFSET: (CONSUME, {}),
    Ask.UPDATE_AND_CREATE_TOPIC: (ADMIN, {"topic": "made"}),
    Ask.GET_BROKER_CONFIG: (SUPER, {}),
    Ask.GET_BROKER_RUNTIME_INFO: (SUPER, {}),
    Ask.SEARCH_OFFSET_BY_TIMESTAMP: (EITHER, {}),
    Ask.GET_MAX_OFFSET: (EITHER, {}),
    Ask.GET_MIN_OFFSET: (EITHER, {}),
    Ask.VIEW_MESSAGE_BY_ID: (CONSUME, {}),
    Ask.HEART_BEAT: (IDENTIFIED, {}),
    Ask.UNREGISTER_CLIENT: (IDENTIFIED, {}),
    Ask.PUT_KV_CONFIG: (SUPER, {}),
    Ask.DELETE_KV_CONFIG: (SUPER, {}),
    Ask.GET_ROUTEINFO_BY_TOPIC: (EITHER, {}),
    Ask.GET_BROKER_CLUSTER_INFO: (IDENTIFIED, {}),
    Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (ADMIN, {}),
    Ask.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: (EITHER, {}),
    Ask.GET_TOPIC_STATS_INFO: (EITHER, {}),
    Ask.GET_CONSUMER_CONNECTION_LIST: (EITHER, {}),
    Ask.GET_PRODUCER_CONNECTION_LIST: (EITHER, {}),
    Ask.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: (EITHER, {}),
    Ask.DELETE_SUBSCRIPTIONGROUP: (ADMIN, {"groupName": "unknown"}),
    Ask.GET_CONSUME_STATS: (CONSUME, {}),
    Ask.DELETE_TOPIC_IN_BROKER: (ADMIN, {"topic": "unknown"}),
    Ask.DELETE_TOPIC_IN_NAMESRV: (ADMIN, {"topic": "unknown"}),
    Ask.INVOKE_BROKER_TO_RESET_OFFSET: (CONSUME, {}),
    Ask.QUERY_TOPIC_CONSUME_BY_WHO: (CONSUME, {}),
    Ask.GET_CONSUMER_RUNNING_INFO: (EITHER, {}),
    Ask.VIEW_BROKER_STATS_DATA: (EITHER, {}),
    Ask.GET_TOPIC_CONFIG: (EITHER, {}),
}
FIELDS = {
    "topic": "orders",
    "group": "g",
    "consumerGroup": "g",
    "producerGroup": "orders",
    "clientId": "c",
    "queueId": 0,
    "offset": 0,
    "commitOffset": 0,
    "timestamp": 0,
    "readQueueNums": 1,
    "writeQueueNums": 1,
    "statsName": "TOPIC_PUT_NUMS",
    "statsKey": "orders",
}
BODIES = {
    Ask.HEART_BEAT: b"{}",
    Ask.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: json.dumps({"groupName": "kept"}).encode(),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("matrix")
    with BrokerProcess(folder, rocketmq_port=0, rocketmq_namesrv_port=0, **SECURED) as process:

        def ask(method: str, path: str, body: Any = None) -> None:
            assert process.rest(method, f"/admin/v2/{path}", body, bearer("root"))[0] == 204

        ask("POST", "tenants/public", {"adminRoles": ["boss"], "allowedClusters": ["standalone"]})
        ask("PUT", "persistent/public/default/orders")
        ask("PUT", "persistent/public/default/orders/subscription/g")
        ask("POST", "namespaces/public/default/permissions/writer", ["produce"])
        ask("POST", "namespaces/public/default/permissions/reader", ["consume"])
        yield process
        assert not process.complaints()


def test_every_method_and_every_request_has_a_row() -> None:
    assert set(METHODS) == set(CALLS)
    assert set(REQUESTS) == set(HANDLERS)


def talk_code(raw: Any, command: pb.TelemetryCommand) -> int:
    """No answer could carry a code: gRPC's own tells it."""
    codes = {
        grpc.StatusCode.OK: 20000,
        grpc.StatusCode.UNAUTHENTICATED: UNAUTHORIZED,
        grpc.StatusCode.PERMISSION_DENIED: FORBIDDEN,
    }
    return codes[raw.begin_talk(iter([command])).code()]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("method", METHODS)
def test_a_method(
    broker: BrokerProcess, make_raw: Callable[..., Any], method: str, role: str
) -> None:
    raw = make_raw(f"127.0.0.1:{broker.rocketmq_port}")
    if role:
        raw.headers["authorization"] = f"MQv2-HMAC-SHA1 Credential={token(role)}, Signature=00"
    may, make = METHODS[method]
    if method == "Telemetry":
        code = talk_code(raw, make())
    elif method == "ReceiveMessage":
        code = next(raw.stream(method, make())).status.code
    else:
        code = raw.code(method, make())
    if role in may:
        assert code not in (UNAUTHORIZED, FORBIDDEN)
    else:
        assert code == (FORBIDDEN if role else UNAUTHORIZED)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("ask", REQUESTS, ids=lambda ask: ask.name.lower())
def test_a_request(broker: BrokerProcess, ask: Ask, role: str) -> None:
    client = Remoting(broker.rocketmq_namesrv_port)
    if role:
        client.fields = {"AccessKey": token(role), "Signature": "x"}
    may, own = REQUESTS[ask]
    try:
        answer = client.ask(ask, BODIES.get(ask, b""), **{**FIELDS, **own})
    finally:
        client.close()
    if role in may:
        assert answer.code != NO_PERMISSION, answer.remark
    else:
        assert (answer.code, answer.body, answer.fields) == (NO_PERMISSION, b"", {})
        assert answer.remark
