"""Upstream's older paths, answered by the routes of the newer ones.

`schemaAutoUpdateCompatibilityStrategy` is the strategy by which schemas are judged, in older words, and
`backlog` the statistics of a topic that was not open. `antiAffinity/{group}` lists the namespaces of a
group.
"""

from __future__ import annotations

import json
from typing import Annotated, Final

from fastapi import Body, Response
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.monitoring import stats
from milepost.broker.policies.table import POLICIES
from milepost.errors import InvalidInput, PreconditionFailed
from milepost.rest.audit import Asked
from milepost.rest.hosts import broker_name
from milepost.rest.request import ADMIN, TOPIC, AskedBroker, OpenedTopic
from milepost.rest.resources.policies import NAMESPACE_PATH, NamespaceTarget
from milepost.rest.route_access import Router

router = Router("older paths")

# Older word → newer one.
STRATEGIES: Final = {
    "AutoUpdateDisabled": "ALWAYS_INCOMPATIBLE",
    "Backward": "BACKWARD",
    "Forward": "FORWARD",
    "Full": "FULL",
    "AlwaysCompatible": "ALWAYS_COMPATIBLE",
    "BackwardTransitive": "BACKWARD_TRANSITIVE",
    "ForwardTransitive": "FORWARD_TRANSITIVE",
    "FullTransitive": "FULL_TRANSITIVE",
}
_OLDER: Final = {newer: older for older, newer in STRATEGIES.items()}
STRATEGY: Final = f"{NAMESPACE_PATH}/schemaAutoUpdateCompatibilityStrategy"
_SCHEMAS: Final = POLICIES["schema_compatibility"]


@router.get(
    STRATEGY, Operation.ADMINISTER_NAMESPACE, responses={204: {"description": "Nothing is set."}}
)
async def get_strategy(target: NamespaceTarget) -> Response:
    """`schemaCompatibilityStrategy`, in the words that clients had before it."""
    found = target.value(_SCHEMAS)
    if found is None:
        return Response(status_code=204)
    return Response(json.dumps(_OLDER[found]), media_type="application/json")


@router.put(STRATEGY, Operation.ADMINISTER_NAMESPACE, status_code=204)
async def set_strategy(
    asked: Asked, target: NamespaceTarget, strategy: Annotated[str, Body()]
) -> None:
    if strategy not in STRATEGIES:
        raise InvalidInput(f"a strategy is one of {', '.join(STRATEGIES)}")
    await target.set(_SCHEMAS, STRATEGIES[strategy])
    asked.note("set-schema-strategy", target.name, strategy=strategy)


class OfflineStats(BaseModel):
    """Of a topic, as it is stored."""

    topicName: str
    brokerName: str
    storageSize: int
    totalMessages: int
    messageBacklog: int
    dataLedgerDetails: list[dict[str, int]]
    cursorDetails: dict[str, dict[str, int]]
    statGeneratedAt: int


@router.get(f"{TOPIC}/backlog", Operation.LOOK_UP)
async def get_backlog(broker: AskedBroker, topic: OpenedTopic) -> OfflineStats:
    """What is stored of a topic and not acked; upstream reads it of topics that are not open."""
    log, name, slices = topic.log, topic.name, TimeSlices(broker.clock)
    cursors = {
        one.name: {
            "cursorBacklog": (await stats.backlog_of(one, slices, broker.engine)).entries,
            "cursorLedgerId": -1,
        }
        for one in list(topic.subscriptions.values())
    }
    return OfflineStats(
        topicName=f"{name.namespace}/{name.domain}/{name.local_name}",
        brokerName=broker_name(broker),
        storageSize=log.size_from(log.first_index),
        totalMessages=log.entry_count,
        messageBacklog=max((one["cursorBacklog"] for one in cursors.values()), default=0),
        dataLedgerDetails=[
            {
                "entries": ledger.entries,
                "timestamp": ledger.first_time_ms,
                "size": ledger.size_bytes if ledger.entries else 0,
                "ledgerId": ledger.ledger_id,
            }
            for ledger in log.ledgers
        ],
        cursorDetails=cursors,
        statGeneratedAt=broker.clock.wall_ms(),
    )


@router.get(f"{ADMIN}/namespaces/{{cluster}}/antiAffinity/{{group}}", Operation.SUPERUSER)
async def get_namespaces_of_group(
    broker: AskedBroker, cluster: str, group: str, tenant: str | None = None
) -> list[str]:
    """The namespaces that have set a group."""
    if tenant is None:
        raise InvalidInput("query tenant: expected once")
    if cluster != broker.settings.cluster_name:
        raise PreconditionFailed(f"cluster {cluster[:80]!a} does not exist")
    return broker.policies.book.users_of("anti_affinity", group)
