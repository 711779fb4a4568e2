"""Topics over REST. So far their partitions, which HTTP-lookup clients ask for."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.rest.permission import needs
from milepost.rest.request import AskedBroker, AskedTopic

router = APIRouter(prefix="/admin/v2", tags=["topics"])

PARTITIONS = "/{domain}/{tenant}/{namespace}/{topic}/partitions"


class PartitionedTopicMetadata(BaseModel):
    partitions: int
    deleted: bool = False


@router.get(PARTITIONS, dependencies=[needs(Operation.LOOK_UP)])
async def get_partitions(
    broker: AskedBroker,
    name: AskedTopic,
    may_create: Annotated[bool, Query(alias="checkAllowAutoCreation")] = False,
) -> PartitionedTopicMetadata:
    """0 for a topic that is not partitioned, and for one that is not there."""
    return PartitionedTopicMetadata(partitions=await broker.partitions_of(name, create=may_create))


@router.put(PARTITIONS, status_code=204, dependencies=[needs(Operation.ADMINISTER_TOPIC)])
async def create_partitions(
    broker: AskedBroker, name: AskedTopic, partitions: Annotated[int, Body(strict=True)]
) -> None:
    """Create a partitioned topic; the body is the number of its partitions."""
    await broker.create_partitioned_topic(name, partitions)
