"""The permission matrix of the HTTP edge, generated from its routes: every route for every role.

Those who may not are asked for by real requests; of those who may, only the judgement is asked, so that
no route is run for it.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi import Request as FastApiRequest
from fastapi.routing import APIRoute
from stage.security import SECURED, bearer

from milepost.broker.auth.operations import Action, Operation, Scope
from milepost.broker.broker import Broker
from milepost.errors import NotAuthenticated, NotAuthorized
from milepost.positions.names import NamespaceName, TopicName
from milepost.rest.app import RESOURCES
from milepost.rest.route_access import Need, operation_of
from rest.conftest import Ask, Request

ROUTES = [route for one in RESOURCES for route in one.router.routes if isinstance(route, APIRoute)]
NAMESPACE = NamespaceName.parse("public/default")
TOPIC = TopicName.parse("persistent://public/default/t")

VALUES = {
    "domain": "persistent",
    "tenant": "public",
    "namespace": "default",
    "topic": "t",
    "bundle": "0x00000000_0xffffffff",
}

# Who may ask for what, kept here to be read.
MAY: dict[str, set[Operation]] = {
    "root": set(Operation),
    "boss": set(Operation) - {Operation.SUPERUSER},
    "writer": {Operation.PRODUCE, Operation.LOOK_UP, Operation.LIST_TOPICS},
    "reader": {
        Operation.CONSUME,
        Operation.LOOK_UP,
        Operation.LIST_TOPICS,
    },
    "of-topic": {Operation.PRODUCE, Operation.CONSUME, Operation.LOOK_UP},
    "zed": set(),  # the admin of another tenant
}
FOR_ALL = {Operation.OPEN, Operation.METRICS}


async def _grant(broker: Broker) -> None:
    broker.directory._tenants["public"] = {"adminRoles": ["boss"]}
    broker.directory._tenants["zeta"] = {"adminRoles": ["zed"]}
    await broker.access_control.grants.edit(
        NAMESPACE,
        lambda grants: (
            grants.with_namespace_role("writer", {Action.PRODUCE})
            .with_namespace_role("reader", {Action.CONSUME})
            .with_topic_role(TOPIC, "of-topic", {Action.PRODUCE, Action.CONSUME})
        ),
    )


def _path(route: APIRoute) -> str:
    return re.sub(r"{(\w+)(?::\w+)?}", lambda name: VALUES.get(name[1], "1"), route.path)


def _may(role: str, operation: Operation) -> bool:
    return operation.scope is Scope.NOTHING or operation in MAY[role]


def test_there_are_routes() -> None:
    assert len(ROUTES) > 20


def test_nobody_gets_in_without_credentials_that_hold(ask: Ask) -> None:
    closed = [route for route in ROUTES if operation_of(route) not in FOR_ALL]
    bad: list[dict[str, str]] = [
        {},
        bearer("root", exp=1),
        {"authorization": "Bearer a.b.c"},
        {"authorization": "Basic cm9vdDpyb290"},
        {"x-original-principal": "root"},
    ]
    requests = [
        Request(method, _path(route), b"", headers)
        for route in closed
        for method in sorted(route.methods)
        for headers in bad
    ]
    for request, answer in zip(requests, ask(*requests, **SECURED), strict=True):
        assert answer.status == 401, request
        assert answer.headers["www-authenticate"] == "Bearer"


def test_a_role_without_the_right_is_refused(ask: Ask) -> None:
    requests = [
        Request(method, _path(route), b"", bearer(role))
        for role in MAY
        for route in ROUTES
        if not _may(role, operation_of(route))
        for method in sorted(route.methods)
    ]
    assert requests
    for request, answer in zip(requests, ask(_grant, *requests, **SECURED), strict=True):
        assert answer.status == 403, (request.method, request.target, answer.body)


@pytest.mark.parametrize("role", MAY)
def test_a_role_with_the_right_is_let_pass(ask: Ask, role: str) -> None:
    async def judge(broker: Broker) -> None:
        await _grant(broker)
        for route in ROUTES:
            names = re.findall(r"{(\w+)(?::\w+)?}", route.path)
            app: Any = type("App", (), {"state": type("State", (), {"broker": broker})})
            headers = [(name.encode(), value.encode()) for name, value in bearer(role).items()]
            scope = {
                "type": "http",
                "app": app,
                "scheme": "http",
                "path": "/",
                "query_string": b"",
                "server": ("broker", 1),
                "client": ("127.0.0.1", 1),
                "headers": headers,
                "path_params": {name: VALUES.get(name, "1") for name in names},
            }
            try:
                await Need(operation_of(route))(FastApiRequest(scope))
                passed = True
            except (NotAuthorized, NotAuthenticated):
                passed = False
            assert passed is _may(role, operation_of(route)), route.path

    ask(judge, **SECURED)


def test_with_security_off_nobody_is_asked(ask: Ask) -> None:
    answers = ask(*(f"GET {_path(route)}" for route in ROUTES if "GET" in route.methods))
    assert not {answer.status for answer in answers} & {401, 403}


def test_metrics_may_be_for_the_known(ask: Ask) -> None:
    open_, closed, known = ask("GET /metrics", **SECURED), [], []
    closed = ask("GET /metrics", **SECURED, authenticate_metrics=True)
    known = ask(
        Request("GET", "/metrics", b"", bearer("anyone")), **SECURED, authenticate_metrics=True
    )
    assert [one[0].status for one in (open_, closed, known)] == [200, 401, 200]


def test_a_header_that_is_there_twice_is_refused(ask: Ask) -> None:
    async def twice(broker: Broker) -> None:
        value = bearer("root")["authorization"].encode()
        scope = {
            "type": "http",
            "app": type("App", (), {"state": type("State", (), {"broker": broker})}),
            "headers": [(b"authorization", value), (b"authorization", value)],
            "path_params": {},
        }
        with pytest.raises(NotAuthenticated, match="twice"):
            await Need(Operation.SUPERUSER)(FastApiRequest(scope))

    ask(twice, **SECURED)


def test_pip_415_s_403(ask: Ask) -> None:
    """PIP-415: "403 Forbidden"; our index lookup is peeking, and needs the right to consume."""
    path = "/admin/v2/persistent/public/default/t/getMessageIdByIndex?index=0"
    statuses = [
        answer.status
        for answer in ask(
            _grant,
            Request("GET", path),
            Request("GET", path, b"", bearer("writer")),
            Request("GET", path, b"", bearer("zed")),
            Request("GET", path, b"", bearer("reader")),
            **SECURED,
        )
    ]
    assert statuses == [401, 403, 403, 404]


def test_another_tenants_role_cannot_tell_what_exists(ask: Ask) -> None:
    paths = [
        "/admin/v2/persistent/public/default/t/partitions",
        "/admin/v2/persistent/public/default/never-made/partitions",
        "/admin/v2/persistent/no-tenant/none/x/partitions",
        "/admin/v2/namespaces/public/default/topics",
        "/admin/v2/namespaces/no-tenant/none/topics",
    ]
    answers = ask(_grant, *(Request("GET", path, b"", bearer("zed")) for path in paths), **SECURED)
    assert [answer.status for answer in answers] == [403] * len(paths)


def test_a_role_with_a_line_break_is_refused(ask: Ask) -> None:
    request = Request("GET", "/admin/v2/namespaces/public/default/topics", b"", bearer("root\nx"))
    (answer,) = ask(request, **SECURED)
    assert answer.status == 401


def test_proxies_over_http(ask: Ask) -> None:
    path = "/admin/v2/namespaces/public/default/topics"

    def as_(role: str, original: str) -> Request:
        return Request("GET", path, b"", {**bearer(role), "x-original-principal": original})

    settings = {**SECURED, "proxy_roles": "proxy", "superuser_roles": "root,proxy"}
    answers = ask(
        _grant,
        as_("proxy", "reader"),
        as_("proxy", "zed"),
        as_("reader", "root"),  # CVE-2023-30428: the header is for proxies alone
        as_("reader", "reader"),
        Request("GET", path, b"", bearer("proxy")),
        **settings,
    )
    assert [answer.status for answer in answers] == [200, 403, 403, 200, 403]
