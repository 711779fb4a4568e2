"""Resets of a subscription: dry run, check, history.

    POST …/subscriptions/reports/reset   {"time": 1700000000000, "dry_run": true}
    GET  …/subscriptions/reports/resets

The answer of a reset leaves when it is on disk for all partitions; everything about what it means is
`broker/operations/reset.py`'s.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Depends
from pydantic import BaseModel, ConfigDict, Field

from milepost.broker.auth.operations import Operation
from milepost.broker.operations import reset as resets
from milepost.positions.ids import MessageId
from milepost.positions.names import TopicName
from milepost.positions.spans import INDEX_MAX
from milepost.rest.audit import Asked
from milepost.rest.models import model_of
from milepost.rest.request import AskedBroker
from milepost.rest.route_access import Router, who

router = Router("progress", prefix="/milepost/v1")

SUBSCRIPTION = "/topics/{tenant}/{namespace}/{topic}/subscriptions/{subscription:path}"

Index = Annotated[int, Field(strict=True, ge=0, le=INDEX_MAX)]
Time = Annotated[int, Field(strict=True, ge=0, le=2**53)]


async def _topic(tenant: str, namespace: str, topic: str) -> TopicName:
    return TopicName.parse(f"persistent://{tenant}/{namespace}/{topic}")


PersistentTopic = Annotated[TopicName, Depends(_topic)]


class ResetRequest(BaseModel):
    """Exactly one of `index`, `id`, `time`, `position`, `by` and `last` says where to."""

    model_config = ConfigDict(extra="forbid")

    index: Index | None = None
    id: Annotated[str, Field(max_length=200)] | None = None
    """`ledger:entry[:partition[:batch index]]`, as clients print it."""
    time: Time | None = None
    """Milliseconds since 1970: the first message that came not before it."""
    position: Literal["earliest", "latest"] | None = None
    by: Annotated[int, Field(strict=True, ge=-INDEX_MAX, le=INDEX_MAX)] | None = None
    """So many indexes on, or back, from the first that is not acked; each partition by its own, as far
    as it goes."""
    last: Index | None = None
    """So many indexes before the end, of each partition its own; all, if it has fewer."""

    after: bool = False
    expected: Index | None = None
    """Only if this is the first index that is not acked; else 412."""
    dry_run: bool = False
    create: bool = False
    """Make the subscription where it is not there yet; else that is a 404."""
    exact: bool = False
    """Refuse a message that is no longer there and a time behind the last message with 404; else the
    nearest that is there is taken."""
    partition: Annotated[int, Field(strict=True, ge=0)] | None = None
    """One partition of a partitioned topic; without it all of them, or none."""

    def reset(self) -> resets.Reset:
        target = resets.Target(
            index=self.index,
            id=None if self.id is None else MessageId.parse(self.id),
            time_ms=self.time,
            edge=self.position,
            by=self.by,
            last=self.last,
        )
        return resets.Reset(
            target, self.after, self.expected, self.dry_run, self.create, self.exact
        )


MoveModel = model_of(resets.Move)


class ResetAnswer(BaseModel):
    dry_run: bool
    redelivered: int
    skipped: int
    moves: list[MoveModel]  # type: ignore[valid-type]


class ResetModel(BaseModel):
    """One line of the history: `milepost.broker.subscription.reset_history.ResetRecord`."""

    topic: str
    partition: int
    at_ms: int
    by: str
    asked: str
    was: int
    to: int
    epoch: int
    redelivered: int
    skipped: int
    waiting: list[str]
    obeyed: list[str]


@router.post(f"{SUBSCRIPTION}/reset", Operation.CONSUME)
async def reset_subscription(
    asked: Asked, name: PersistentTopic, subscription: str, body: ResetRequest
) -> ResetAnswer:
    """Move a subscription, on one partition or on all of them; 200 when it is on disk."""
    if body.partition is not None:
        name = name.partition_name(body.partition)
    moves = await resets.reset(
        asked.broker, name, subscription, body.reset(), by=who(asked.request)
    )
    return ResetAnswer(
        dry_run=body.dry_run,
        redelivered=sum(move.redelivered for move in moves),
        skipped=sum(move.skipped for move in moves),
        moves=[MoveModel(**move._asdict()) for move in moves],
    )


@router.get(f"{SUBSCRIPTION}/resets", Operation.CONSUME)
async def get_resets(
    broker: AskedBroker, name: PersistentTopic, subscription: str
) -> list[ResetModel]:
    """The newest resets, oldest first, of all partitions."""
    lines: list[dict[str, Any]] = []
    for found in await resets.subscriptions_of(broker, name, subscription):
        own = {"topic": str(found.topic.name), "partition": found.topic.name.partition}
        lines += [{**line, **own} for line in found.resets.to_doc()]
    lines.sort(key=lambda line: (line["at_ms"], line["partition"]))
    return [ResetModel(**line) for line in lines]
