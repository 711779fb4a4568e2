"""Which types of messages a topic takes, and that routes and sends agree on it."""

from __future__ import annotations

import pytest
from stage.stage import Stage

from milepost.positions.names import TopicName
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.calls import Call, Callers
from milepost.rocketmq.codes import Code, Refused
from milepost.rocketmq.routes import ACCEPTED, MESSAGE_TYPE, Routes
from milepost.rocketmq.sending import Sending

TOPIC = pb.Resource(name="t")
CALLER = Call("/c", None, "127.0.0.1", None)
PARTITIONED = TopicName.parse("persistent://public/default/t")


def make(stage: Stage, type_name: str) -> tuple[Routes, Sending]:
    properties = {MESSAGE_TYPE: type_name} if type_name else {}
    stage.run(stage.broker.directory.create_partitioned(PARTITIONED, 2, properties))
    callers = Callers(stage.broker)
    routes = Routes(stage.broker, callers)
    return routes, Sending(stage.broker, callers, routes)


def messages() -> dict[int, pb.Message]:
    """One of each type."""
    delayed = pb.SystemProperties(message_id="id")
    delayed.delivery_timestamp.FromSeconds(1)
    systems = {
        pb.NORMAL: pb.SystemProperties(message_id="id"),
        pb.FIFO: pb.SystemProperties(message_id="id", message_group="g"),
        pb.DELAY: delayed,
        pb.TRANSACTION: pb.SystemProperties(message_id="id", message_type=pb.TRANSACTION),
    }
    return {
        kind: pb.Message(topic=TOPIC, system_properties=system, body=b"x")
        for kind, system in systems.items()
    }


@pytest.mark.parametrize(
    ("type_name", "accepted"),
    [
        ("", ACCEPTED),
        ("MIXED", ACCEPTED),
        ("UNSPECIFIED", ACCEPTED),
        ("no such type", ACCEPTED),
        ("NORMAL", (pb.NORMAL,)),
        ("fifo", (pb.FIFO,)),
        ("DELAY", (pb.DELAY,)),
        ("TRANSACTION", (pb.TRANSACTION,)),
    ],
)
def test_a_topic_takes_the_types_that_its_route_names(
    stage: Stage, type_name: str, accepted: tuple[int, ...]
) -> None:
    routes, sending = make(stage, type_name)
    route = stage.run(routes.query_route(CALLER, pb.QueryRouteRequest(topic=TOPIC)))
    assert [tuple(queue.accept_message_types) for queue in route.message_queues] == [accepted] * 2
    for kind, message in messages().items():
        request = pb.SendMessageRequest(messages=[message])
        if kind in accepted:
            assert sending.checked(CALLER, request) == (PARTITIONED, [b"x"])
            continue
        with pytest.raises(Refused) as caught:
            sending.checked(CALLER, request)
        assert caught.value.code is Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE


def test_endpoints_that_would_fill_the_answer_are_refused(stage: Stage) -> None:
    """They are answered for every queue: what a client sends once would come back a thousand times."""
    routes, _ = make(stage, "")
    endpoints = pb.Endpoints(scheme=pb.DOMAIN_NAME)
    endpoints.addresses.add(host="a" * 3000, port=1)
    for ask, request in (
        (routes.query_route, pb.QueryRouteRequest(topic=TOPIC, endpoints=endpoints)),
        (
            routes.query_assignment,
            pb.QueryAssignmentRequest(
                topic=TOPIC, group=pb.Resource(name="g"), endpoints=endpoints
            ),
        ),
    ):
        with pytest.raises(Refused) as caught:
            stage.run(ask(CALLER, request))  # type: ignore[operator]
        assert caught.value.code is Code.ILLEGAL_ACCESS_POINT
