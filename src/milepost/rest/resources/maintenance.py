"""Unloads, terminates, truncates and trims topics; lost entries; sizes of backlogs."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Depends, Response
from pydantic import BaseModel, Field

from milepost.broker.auth.operations import Operation
from milepost.broker.operations import losses as topic_losses
from milepost.broker.operations import topic_lifecycle
from milepost.broker.topic.topic import Topic
from milepost.broker.workers import calls, moves
from milepost.errors import NotAllowed, PreconditionFailed, TopicNotFound
from milepost.positions.ids import Position
from milepost.rest.audit import Asked
from milepost.rest.request import (
    PERSISTENT_ONLY,
    TOPIC,
    AskedBroker,
    AskedTopic,
    Authoritative,
    Destination,
    DryRun,
    OpenParts,
    OpenTopic,
    no_content,
    open_parts,
    opened_parts,
)
from milepost.rest.resources.message_ids import LONG_MAX, MessageIdData, message_id
from milepost.rest.resources.topics import WouldLose
from milepost.rest.route_access import Router

router = Router("maintenance", Operation.ADMINISTER_TOPIC)

Long = Annotated[int, Field(ge=-1, le=LONG_MAX)]


class GivenPosition(BaseModel):
    """A message id in a body; of its fields only the position counts."""

    ledgerId: Long
    entryId: Long
    partitionIndex: int = -1

    @property
    def position(self) -> Position:
        return Position(self.ledgerId, self.entryId)


@router.put(f"{TOPIC}/unload", status_code=204)
async def unload(
    asked: Asked,
    name: AskedTopic,
    destination: Destination = "",
    authoritative: Authoritative = False,
) -> None:
    """Close the topic; its clients are told, come back, and open it again, with a new ledger. With a
    destination the shard that has the topic goes to that broker of the cluster, with all that is in it."""
    broker = asked.broker
    if destination:
        _, is_there = await calls.partitions(broker, name, create=False)
        if not is_there:
            raise TopicNotFound(f"topic {name} does not exist")
        shards = [] if broker.workers is None else [broker.workers.placement.shard_of(name)]
        await moves.move(broker, shards, destination)
        asked.note("move", name, destination=destination)
        return
    for topic in await opened_parts(asked.request, name):
        await topic_lifecycle.close_topic(broker, topic)
        asked.note("unload", topic.name)


@router.post(f"{TOPIC}/terminate", PERSISTENT_ONLY)
async def terminate(asked: Asked, topic: OpenTopic) -> MessageIdData:
    """Let no producer publish to the topic any more; answers the last message's id."""
    position = await topic_lifecycle.terminate(asked.broker, topic)
    asked.note("terminate", topic.name, last=position)
    return message_id(topic, position)


@router.post(f"{TOPIC}/terminate/partitions", PERSISTENT_ONLY)
async def terminate_partitions(asked: Asked, name: AskedTopic) -> dict[int, MessageIdData]:
    """The same for all partitions; answers each one's last id."""
    if asked.broker.directory.partitions(name) is None:
        raise NotAllowed(f"{name} is not partitioned; terminate it as a topic")
    topics = await open_parts(asked.request, name)
    positions = await topic_lifecycle.terminate_all(asked.broker, topics)
    last: dict[int, MessageIdData] = {}
    for topic, position in zip(topics, positions, strict=True):
        asked.note("terminate", topic.name, last=position)
        last[topic.name.partition] = message_id(topic, position)
    return last


async def _truncatable(name: AskedTopic) -> None:
    if not name.is_persistent:
        raise PreconditionFailed(f"{name} is not persistent: there is nothing to truncate")


@router.delete(
    f"{TOPIC}/truncate",
    Depends(_truncatable),
    status_code=204,
    responses={200: {"model": WouldLose}},
)
async def truncate(asked: Asked, topics: OpenParts, dry_run: DryRun = False) -> Response:
    """Drop all messages, read or not."""
    losses = [topic_lifecycle.loss_of(one, one.log.end_index) for one in topics]
    if dry_run:
        return WouldLose.of(losses).response()
    for topic, loss in zip(topics, losses, strict=True):
        await topic_lifecycle.truncate(asked.broker, topic)
        asked.note("truncate", topic.name, **loss._asdict())
    return no_content()


@router.post(f"{TOPIC}/trim", responses={200: {"model": WouldLose}})
async def trim(asked: Asked, topics: OpenParts, dry_run: DryRun = False) -> Response:
    """Drop ledgers that every subscription is done with; answers what went, or would."""
    losses = []
    for topic in topics:
        before = min(topic_lifecycle.trimmable_index(topic), _open_ledger_index(topic))
        losses.append(topic_lifecycle.loss_of(topic, before))
        if not dry_run:
            await topic_lifecycle.trim(asked.broker, topic)
            asked.note("trim", topic.name, **losses[-1]._asdict())
    return WouldLose.of(losses).response()


class LostMessages(BaseModel):
    """Messages of one ledger that are gone; or what a subscription did, of the ledger -1."""

    ledgerId: int
    firstIndex: int
    endIndex: int
    reason: str
    foundMs: int

    @classmethod
    def of(cls, loss: topic_losses.Loss) -> LostMessages:
        return cls(
            ledgerId=loss.ledger_id,
            firstIndex=loss.first_index,
            endIndex=loss.end_index,
            reason=loss.reason,
            foundMs=loss.found_ms,
        )


@router.get(f"{TOPIC}/losses", PERSISTENT_ONLY)
async def get_losses(broker: AskedBroker, name: AskedTopic) -> list[LostMessages]:
    """Acknowledged messages that are gone or damaged, and acks that are, which no operator has accepted."""
    return [LostMessages.of(one) for one in await topic_losses.find(broker, name)]


@router.post(f"{TOPIC}/acceptLoss", PERSISTENT_ONLY)
async def accept_loss(asked: Asked, name: AskedTopic) -> list[LostMessages]:
    """Let the topic go on without what is gone; answers what that is."""
    losses = await topic_losses.accept(asked.broker, name)
    for one in losses:
        asked.note("accept-loss", name, **one._asdict())
    return [LostMessages.of(one) for one in losses]


def _open_ledger_index(topic: Topic) -> int:
    """The ledger that is being written to stays."""
    ledgers = topic.log.ledgers
    return ledgers[-1].first_index if ledgers else 0


@router.put(f"{TOPIC}/backlogSize")
async def get_backlog_size(
    broker: AskedBroker, topic: OpenTopic, after: Annotated[GivenPosition, Body()]
) -> int:
    """Bytes of what lies behind a position; of everything behind the earliest one, -1:-1."""
    log = topic.log
    if after.ledgerId < 0:
        return await broker.engine.look(lambda: topic.visible_size(log.first_index))
    behind = Position(after.ledgerId, after.entryId + 1)
    return await broker.engine.look(lambda: topic.visible_size(log.index_from(behind)))
