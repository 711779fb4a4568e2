"""Is this broker well? For people, probes and load balancers."""

from __future__ import annotations

import asyncio
import logging

from fastapi import APIRouter
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from milepost.broker.auth.operations import Operation
from milepost.errors import MilepostError
from milepost.rest.permission import needs
from milepost.rest.request import AskedBroker

logger = logging.getLogger(__name__)
router = APIRouter(tags=["brokers"])

HEALTH_TIMEOUT_S = 2.0


@router.get(
    "/admin/v2/brokers/health",
    response_class=PlainTextResponse,
    dependencies=[needs(Operation.SUPERUSER)],
)
async def get_health(broker: AskedBroker) -> Response:
    """`ok` once a fact has gone to the disk and back; 503 if that fails or takes too long."""
    try:
        async with asyncio.timeout(HEALTH_TIMEOUT_S):
            await broker.health()
    except (MilepostError, TimeoutError) as error:
        why = str(error) or f"the disk did not answer within {HEALTH_TIMEOUT_S:g} s"
        return JSONResponse({"reason": why}, 503)
    return PlainTextResponse("ok")


@router.get(
    "/admin/v2/brokers/ready",
    response_class=PlainTextResponse,
    dependencies=[needs(Operation.OPEN)],
)
async def get_ready(broker: AskedBroker) -> Response:
    """`ok` while new clients are welcome: recovered, and not on the way out."""
    if broker.is_closing:
        return JSONResponse({"reason": "the broker is shutting down"}, 503)
    return PlainTextResponse("ok")


@router.get("/status.html", response_class=PlainTextResponse, dependencies=[needs(Operation.OPEN)])
async def get_status() -> Response:
    """For load balancers: this process answers."""
    return PlainTextResponse("OK")
