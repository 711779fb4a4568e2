"""Offloading: what upstream answers when there is no offload store.

Three calls set one field each of the offload policy (`offloadPolicies`), as upstream's older clients do. To
offload a topic is taken, and its outcome says why nothing went.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Body, Response
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.policies.table import POLICIES
from milepost.rest.audit import Asked
from milepost.rest.request import TOPIC, FoundTopic
from milepost.rest.resources.maintenance import GivenPosition
from milepost.rest.resources.message_ids import MessageIdData
from milepost.rest.resources.policies import NAMESPACE_PATH, NamespaceTarget, Target
from milepost.rest.route_access import Router, needs

router = Router("offloading")

OFFLOAD: Final = POLICIES["offload"]
# Path → field of the policy, and what is answered while it is not set.
FIELDS: Final = {
    "offloadThreshold": ("managedLedgerOffloadThresholdInBytes", -1),
    "offloadThresholdInSeconds": ("managedLedgerOffloadThresholdInSeconds", -1),
    "offloadDeletionLagMs": ("managedLedgerOffloadDeletionLagInMillis", None),
}


async def _change(target: Target, field: str, value: int | None) -> None:
    before = target.value(OFFLOAD) or {}
    changed = {**before, field: value}
    kept = {key: found for key, found in changed.items() if found is not None}
    await target.set(OFFLOAD, kept or None)


def _add(path: str, field: str, unset: int | None) -> None:
    async def get(target: NamespaceTarget) -> Response:
        found = (target.value(OFFLOAD) or {}).get(field, unset)
        text = "" if found is None else str(found)
        return Response(text, media_type="application/json" if text else None)

    async def put(asked: Asked, target: NamespaceTarget, value: Annotated[int, Body()]) -> None:
        await _change(target, field, value)
        asked.note(f"set-{path}", target.name, value=value)

    async def clear(asked: Asked, target: NamespaceTarget) -> None:
        await _change(target, field, None)
        asked.note(f"clear-{path}", target.name)

    handlers: dict[str, Any] = {"GET": get, "PUT": put}
    if unset is None:
        handlers["DELETE"] = clear
    for method, handler in handlers.items():
        router.add_api_route(
            f"{NAMESPACE_PATH}/{path}",
            handler,
            methods=[method],
            status_code=200 if method == "GET" else 204,
            name=f"{method.lower()}_{path}",
            description=f"`{field}` of the offload policy.",
            dependencies=[needs(Operation.ADMINISTER_NAMESPACE)],
            response_class=Response,
        )


for _path, (_field, _unset) in FIELDS.items():
    _add(_path, _field, _unset)


class OffloadStatus(BaseModel):
    status: str
    lastError: str = ""
    firstUnoffloadedMessage: MessageIdData | None = None


@router.put(f"{TOPIC}/offload", Operation.ADMINISTER_TOPIC, status_code=204)
async def offload(topic: FoundTopic, before: Annotated[GivenPosition, Body()]) -> None:
    """Nothing is offloaded; the status says why."""


@router.get(f"{TOPIC}/offload", Operation.ADMINISTER_TOPIC)
async def offload_status(topic: FoundTopic) -> OffloadStatus:
    """Always `ERROR`: there is no store to offload to."""
    return OffloadStatus(
        status="ERROR",
        lastError="there is no store to offload to: ledgers stay on this broker's disk",
        firstUnoffloadedMessage=MessageIdData(ledgerId=-1, entryId=-1, partitionIndex=-1),
    )
