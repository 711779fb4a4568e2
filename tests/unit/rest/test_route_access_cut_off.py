"""A broker that is cut off from its bucket tells nothing of what another one may serve by now."""

from __future__ import annotations

import re

import pytest
from fastapi.routing import APIRoute
from stage.frames import message
from stage.http import Web

from milepost.rest.app import RESOURCES
from milepost.rest.express import Express

VALUES = {
    "domain": "persistent",
    "tenant": "public",
    "namespace": "default",
    "topic": "t",
    "subscription": "s",
    "bundle": "0x00000000_0xffffffff",
}
# What it answers all the same: of itself, and of the other brokers.
ANSWERED = {
    "/metrics": 200,
    "/metrics/": 200,
    "/status.html": 200,
    "/admin/v2/brokers": 200,
    "/admin/v2/brokers/{cluster}": 200,
    "/admin/v2/brokers/leaderBroker": 200,
    "/admin/v2/brokers/version": 200,
    "/": 307,
    "/console": 307,
    "/docs": 307,
    "/console/{path:path}": 404,
}
BY_INDEX = "t/getMessageIdByIndex?index=0"


@pytest.fixture
def cut_off(web: Web) -> Web:
    stage = web.stage
    topic = stage.topic()
    stage.subscription(topic)
    stage.publish(stage.producer(topic), message(0))
    stage.engine.may_serve = False
    return web


def path_of(route: APIRoute) -> str:
    return re.sub(r"\{(\w+)(:\w+)?\}", lambda found: VALUES.get(found[1], "0"), route.path)


def test_every_route_is_refused_but_those_that_tell_of_the_process(cut_off: Web) -> None:
    routes = [one for resource in RESOURCES for one in resource.router.routes]
    for route in routes:
        assert isinstance(route, APIRoute)
        for method in route.methods:
            answer = cut_off(f"{method} {path_of(route)}", {} if method == "POST" else None)
            expected = ANSWERED.get(route.path, 503)
            assert answer.status == expected, f"{method} {route.path}: {answer.body!r}"
            if expected == 503:
                assert "cannot write to its bucket" in answer.reason, f"{method} {route.path}"


@pytest.mark.parametrize(
    "question",
    ["t/stats", "t/internalStats", "t/lastMessageId", "t/subscription/s/position/1", BY_INDEX],
)
def test_numbers_are_told_again_when_it_may_serve_again(cut_off: Web, question: str) -> None:
    assert cut_off(f"GET {question}").status == 503
    cut_off.stage.engine.may_serve = True
    assert cut_off(f"GET {question}").status == 200


def test_a_lookup_by_index_gets_no_answer_on_the_fast_path(cut_off: Web) -> None:
    express = Express(cut_off.stage.broker, lambda name: None)
    url = f"/admin/v2/persistent/public/default/{BY_INDEX}".encode()
    plain = [(b"host", b"localhost")]
    assert express.answer(url, plain) is None
    cut_off.stage.engine.may_serve = True
    assert express.answer(url, plain) is not None


@pytest.mark.parametrize("path", ["/console/index.html", "/openapi.json"])
def test_the_console_and_the_description_are_there(cut_off: Web, path: str) -> None:
    assert cut_off(f"GET {path}").status == 200


def test_health_and_readiness_say_why_not(cut_off: Web) -> None:
    for path in ("health", "ready"):
        answer = cut_off(f"GET /admin/v2/brokers/{path}")
        assert answer.status == 503
        assert "cannot write to its bucket" in answer.reason


def test_metrics_leave_its_topics_out(cut_off: Web) -> None:
    """The broker that serves them by now tells their numbers: they would count twice."""
    text = cut_off("GET /metrics").body.decode()
    assert "pulsar_active_connections" in text
    assert "pulsar_subscription_back_log" not in text
    assert "pulsar_broker_msg_backlog" not in text
    cut_off.stage.engine.may_serve = True
    text = cut_off("GET /metrics").body.decode()
    assert "pulsar_subscription_back_log{" in text
    assert "pulsar_broker_msg_backlog{" in text


def test_an_answer_that_was_kept_for_others_is_not_told_either(web: Web) -> None:
    """The clock by which it is a second old stands still while the machine is suspended."""
    line = "GET /milepost/v1/overview"
    assert web(line, cache_control="max-age=1").status == 200
    web.stage.engine.may_serve = False
    assert web(line, cache_control="max-age=1").status == 503
