"""Namespaces over REST. So far their topics, which HTTP-lookup clients with a pattern ask for."""

from __future__ import annotations

from enum import StrEnum

from fastapi import APIRouter

from milepost.broker.auth.operations import Operation
from milepost.rest.permission import needs
from milepost.rest.request import AskedBroker, AskedNamespace

router = APIRouter(prefix="/admin/v2/namespaces", tags=["namespaces"])


class Mode(StrEnum):
    PERSISTENT = "PERSISTENT"
    NON_PERSISTENT = "NON_PERSISTENT"
    ALL = "ALL"


@router.get("/{tenant}/{namespace}/topics", dependencies=[needs(Operation.LIST_TOPICS)])
async def get_topics(
    broker: AskedBroker, name: AskedNamespace, mode: Mode = Mode.PERSISTENT
) -> list[str]:
    """Full names; each partition by its own."""
    return await broker.topics_of_namespace(str(name), mode.value)
