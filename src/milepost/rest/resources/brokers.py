"""Lists brokers; health, readiness, version, leader."""

from __future__ import annotations

import asyncio

from fastapi import Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel

from milepost import __version__
from milepost.broker.auth.operations import Operation
from milepost.broker.monitoring.self_check import SelfCheck
from milepost.broker.workers.placement import ClusterPlacement
from milepost.errors import MilepostError
from milepost.rest.hosts import broker_name, http_url
from milepost.rest.request import AskedBroker
from milepost.rest.route_access import Router, needs

router = Router("brokers")

HEALTH_TIMEOUT_S = 2.0
# For what a broker tells of itself and of the others, also while it is cut off from its bucket.
_IDENTIFIED = needs(Operation.IDENTIFIED, of_process=True)
_SUPERUSER = needs(Operation.SUPERUSER, of_process=True)


class LeaderBroker(BaseModel):
    serviceUrl: str
    brokerId: str


@router.get("/admin/v2/brokers/health", Operation.SUPERUSER, response_class=PlainTextResponse)
async def get_health(request: Request) -> Response:
    """`ok` once a message was published, stored, delivered and acked; 503 if that fails or takes too
    long, or while the broker is cut off from its bucket."""
    health: SelfCheck = request.app.state.health
    try:
        async with asyncio.timeout(HEALTH_TIMEOUT_S):
            await health.check()
    except (MilepostError, TimeoutError) as error:
        why = str(error) or f"no message came through within {HEALTH_TIMEOUT_S:g} s"
        return JSONResponse({"reason": why}, 503)
    return PlainTextResponse("ok")


@router.get("/admin/v2/brokers/ready", Operation.OPEN, response_class=PlainTextResponse)
async def get_ready(broker: AskedBroker) -> Response:
    """`ok` while new clients are welcome: recovered, not on the way out, and not cut off from the
    bucket."""
    if broker.is_closing:
        return JSONResponse({"reason": "the broker is shutting down"}, 503)
    broker.check_served()
    return PlainTextResponse("ok")


@router.get("/admin/v2/brokers/version", _IDENTIFIED, response_class=PlainTextResponse)
async def get_version() -> Response:
    return PlainTextResponse(__version__)


@router.get("/admin/v2/brokers/leaderBroker", _SUPERUSER)
async def get_leader(broker: AskedBroker) -> LeaderBroker:
    return LeaderBroker(serviceUrl=http_url(broker), brokerId=broker_name(broker))


@router.get("/admin/v2/brokers", _SUPERUSER)
@router.get("/admin/v2/brokers/{cluster}", _SUPERUSER)
async def get_brokers(broker: AskedBroker) -> list[str]:
    """Host and port of each that is there. The cluster in the path changes nothing, as upstream."""
    placement = None if broker.workers is None else broker.workers.placement
    if isinstance(placement, ClusterPlacement):
        return sorted(one.address for one in placement.brokers)
    return [broker_name(broker)]


@router.get("/status.html", Operation.OPEN, response_class=PlainTextResponse)
async def get_status() -> Response:
    """For load balancers: this process answers."""
    return PlainTextResponse("OK")
