"""Puts all routers together, and turns errors into HTTP answers.

    app = create_app(broker)        # an ASGI application; `serve.py` gives it a socket

A typed error knows its status; anything else is a 500 that names no internals and is logged. A new
resource is a new file with a `router` and one more line in `RESOURCES`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from milepost import __version__
from milepost.broker.monitoring.broker_watch import BrokerWatch
from milepost.broker.monitoring.self_check import SelfCheck
from milepost.errors import MilepostError, NotAuthenticated
from milepost.rest import absent
from milepost.rest.console import pages
from milepost.rest.edge import Edge
from milepost.rest.hosts import HostRules
from milepost.rest.metrics import collector, json_metrics
from milepost.rest.recent import Recent
from milepost.rest.request import Elsewhere
from milepost.rest.resources import (
    backlogs,
    broker_config,
    broker_stats,
    brokers,
    browser,
    bundles,
    clusters,
    compaction,
    cursors,
    internal_info,
    lookup,
    maintenance,
    message_ids,
    messages,
    namespaces,
    offload,
    older_paths,
    overview,
    permissions,
    policies,
    progress,
    replication,
    reset,
    resource_groups,
    rights,
    schemas,
    stats,
    strips,
    subscriptions,
    tenants,
    topic_permissions,
    topics,
    transactions,
)
from milepost.rest.route_access import check_routes
from milepost.rest.shortcut import Shortcut
from milepost.rest.workers.forwarding import Forwarding

if TYPE_CHECKING:
    from milepost.broker.broker import Broker


RESOURCES = (
    lookup,
    message_ids,
    messages,
    stats,
    reset,
    progress,
    strips,
    overview,
    browser,
    rights,
    cursors,
    backlogs,
    internal_info,
    subscriptions,
    maintenance,
    compaction,
    topics,
    tenants,
    namespaces,
    bundles,
    policies,
    offload,
    replication,
    resource_groups,
    older_paths,
    clusters,
    permissions,
    topic_permissions,
    schemas,
    broker_config,
    broker_stats,
    json_metrics,
    brokers,
    collector,
    transactions,
    absent,
    pages,
)


class Reason(BaseModel):
    """Why not. What every refusal says."""

    reason: str


class App(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Every route may refuse: a bad name, a body that is none, a right that is missing, a disk that
        is full. The framework describes a refusal of its own instead, which no client gets here."""
        if self.openapi_schema is None:
            described = super().openapi()
            schemas = described["components"]["schemas"]
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            schemas[Reason.__name__] = Reason.model_json_schema()
            content = {"application/json": {"schema": {"$ref": "#/components/schemas/Reason"}}}
            refused = {"description": "Refused, and why.", "content": content}
            for operations in described["paths"].values():
                for operation in operations.values():
                    operation["responses"].pop("422", None)
                    operation["responses"] |= {"4XX": refused, "5XX": refused}
        return super().openapi()


def create_app(broker: Broker) -> FastAPI:
    # The documentation pages that come with the framework load scripts from elsewhere.
    app = App(title="Milepost", version=__version__, docs_url=None, redoc_url=None)
    app.state.broker = broker
    app.state.watch = BrokerWatch(broker)
    app.state.health = SelfCheck(broker)
    app.state.registry = collector.registry_of(broker)
    # Which other broker has a topic; with one broker, none.
    app.state.owner_of = lambda name: None
    for resource in RESOURCES:
        check_routes(resource.router)
        # The routes themselves: to include a router is to make all of them again, at the first
        # request, for as long as a third of a second.
        app.router.routes += resource.router.routes
    app.add_exception_handler(MilepostError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _not_served)
    app.state.allowed = [
        (route.path_regex, route.methods)
        for resource in RESOURCES
        for route in resource.router.routes
        if isinstance(route, APIRoute)
    ]
    app.add_middleware(Shortcut, refuse=_refused)
    app.add_middleware(
        Recent, now_s=broker.clock.monotonic, may_serve=lambda: broker.engine.may_serve
    )
    if broker.workers is not None:
        routes = [one for one in app.router.routes if isinstance(one, APIRoute)]
        app.add_middleware(Forwarding, broker=broker, whole=app, routes=routes)
    app.add_middleware(Edge, hosts=HostRules(broker.settings))
    if broker.workers is not None:
        # Made now and not by the first request: that may be one that another worker has taken.
        app.middleware_stack = app.build_middleware_stack()
    return app


def reason(status: int, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"reason": text}, status, headers)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, MilepostError)
    if isinstance(error, Elsewhere):
        return await _elsewhere(request, error)
    # A 401 has to say what would be taken.
    headers = {"www-authenticate": "Bearer"} if isinstance(error, NotAuthenticated) else None
    return reason(error.http_status, str(error), headers)


async def _elsewhere(request: Request, error: Exception) -> JSONResponse:
    """307 to the same request at the broker that owns the topic, which must not send it on again."""
    assert isinstance(error, Elsewhere)
    query = request.url.include_query_params(authoritative="true").query
    # As it came: a name that is encoded stays so.
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    there = f"{error.url}{raw.decode('latin-1')}?{query}"
    return reason(307, str(error), {"location": there})


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """Say which value was wrong and why, without repeating it: it may be large, or a secret."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = " ".join(str(part) for part in first["loc"])
    return reason(400, f"{where}: {first['msg']}")


def _allowed(request: Request) -> list[str]:
    """Every method of a path: the framework names those of the first route that fits."""
    path = request.url.path
    methods = {
        method for regex, some in request.app.state.allowed if regex.match(path) for method in some
    }
    return sorted({*methods, "OPTIONS", *({"HEAD"} if "GET" in methods else ())})


async def _not_served(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = ", ".join(_allowed(request))
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"allow": allowed})
        return reason(405, f"{request.method} is not for this; {allowed} are", {"allow": allowed})
    text = error.detail if error.status_code != 404 else f"there is nothing at {request.url.path}"
    return reason(error.status_code, text, dict(error.headers or {}))
