"""Message ids by index and back (PIP-415), by time, and the last one.

`getMessageIdByIndex` answers as the proposal says, with the resolution of an entry; `precise=true` adds
the place in the batch. Nothing of a message is read for it. Automation asks it a thousand times a second,
so its parameters are read here by hand and not by the framework, and `shortcut.py` finds it sooner.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.broker import Broker
from milepost.broker.messages import lookup_by_index
from milepost.broker.messages.ids_to_indexes import start_index_at
from milepost.broker.topic.topic import Topic
from milepost.errors import IndexNotFound, InvalidInput, PreconditionFailed
from milepost.positions.ids import EARLIEST, Position
from milepost.positions.spans import INDEX_MAX
from milepost.rest.express import BY_INDEX
from milepost.rest.request import (
    TOPIC,
    AskedBroker,
    FoundTopic,
    OpenTopic,
    check_persistent,
    open_topic,
    topic_name,
    whole_number,
)
from milepost.rest.route_access import Router

router = Router("message ids")

LONG_MAX = 2**63 - 1


class EntryId(BaseModel):
    """Where an entry lies, and of which partition: -1 for a topic that has none."""

    ledgerId: int
    entryId: int
    partitionIndex: int = -1


class MessageIdData(EntryId):
    """As upstream prints ids: -1 and 0 for a message that is not in a batch."""

    batchIndex: int = -1
    batchSize: int = 0


class MessageIdByIndex(EntryId):
    """With `precise`, the message's place in its batch as well."""

    batchIndex: int | None = None
    batchSize: int | None = None


class MessageIndex(BaseModel):
    index: int
    """Of the message that the id names; of a batch's first one if it names the whole entry."""
    entryFirstIndex: int
    entryLastIndex: int


def _parameter(where: str, name: str, required: bool, doc: str, **schema: Any) -> dict[str, Any]:
    return {
        "name": name,
        "in": where,
        "required": required,
        "description": doc,
        "schema": schema,
    }


_BY_INDEX_PARAMETERS = [
    _parameter("path", "domain", True, "", type="string", enum=["persistent", "non-persistent"]),
    _parameter("path", "tenant", True, "", type="string"),
    _parameter("path", "namespace", True, "", type="string"),
    _parameter("path", "topic", True, "A topic, or one partition by its name.", type="string"),
    _parameter("query", "index", True, "From 0.", type="integer", format="int64"),
    _parameter("query", "authoritative", False, "Redirected here.", type="boolean", default=False),
    _parameter(
        "query",
        "precise",
        False,
        "Add `batchIndex` and `batchSize`.",
        type="boolean",
        default=False,
    ),
]
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False, "": False}


@router.get(
    f"{TOPIC}/{BY_INDEX}",
    Operation.CONSUME,
    responses={200: {"model": MessageIdByIndex}},
    response_class=Response,
    openapi_extra={"parameters": _BY_INDEX_PARAMETERS},
)
async def get_message_id_by_index(request: Request) -> Response:
    """The id of the message with an index (PIP-415).

    A system message's index finds the first user message behind it; one that has expired finds the
    earliest id, -1:-1. 404 for an index that no message has, 406 for a topic that is not
    persistent, 412 where broker entry metadata is off.
    """
    check_indexed(request.app.state.broker)
    query = request.query_params
    index = whole_number("index", query.getlist("index"))
    if index < 0:
        raise IndexNotFound(f"{index} is no index")
    _boolean(query.getlist("authoritative"), "authoritative")
    precise = _boolean(query.getlist("precise"), "precise")
    name = topic_name(**request.path_params)
    await check_persistent(name)
    topic = await open_topic(request, name)
    found = await lookup_by_index.message_at(topic, index, request.app.state.broker.engine)
    body = {
        "ledgerId": found.position.ledger_id,
        "entryId": found.position.entry_id,
        "partitionIndex": name.partition,
    }
    if precise:
        body |= {"batchIndex": found.batch_index, "batchSize": found.batch_size}
    return Response(json.dumps(body), media_type="application/json")


def _boolean(texts: list[str], name: str) -> bool:
    if not texts:
        return False
    value = _BOOLEANS.get(texts[0].lower())
    if value is None or len(texts) > 1:
        raise InvalidInput(f"query {name}: expected true or false, once")
    return value


def check_indexed(broker: Broker) -> None:
    """PIP-415: 412, "The broker is not configured to enable broker entry metadata." """
    if not broker.settings.broker_entry_metadata:
        raise PreconditionFailed("the setting broker_entry_metadata is off: messages have no index")


@router.get(f"{TOPIC}/getIndexByMessageId", Operation.CONSUME)
async def get_index_by_message_id(
    broker: AskedBroker,
    topic: OpenTopic,
    ledger_id: Annotated[int, Query(alias="ledgerId", ge=0, le=LONG_MAX)],
    entry_id: Annotated[int, Query(alias="entryId", ge=0, le=LONG_MAX)],
    batch_index: Annotated[int, Query(alias="batchIndex", ge=-1, le=INDEX_MAX)] = -1,
) -> MessageIndex:
    """The index of the message with an id: the way back of `getMessageIdByIndex`."""
    check_indexed(broker)
    position = Position(ledger_id, entry_id)
    found = await broker.engine.look(lambda: lookup_by_index.index_of(topic, position, batch_index))
    return MessageIndex(
        index=found.index,
        entryFirstIndex=found.entry_first_index,
        entryLastIndex=found.entry_last_index,
    )


@router.get(f"{TOPIC}/messageid/{{timestamp}}", Operation.CONSUME)
async def get_message_id_by_time(
    broker: AskedBroker, topic: OpenTopic, timestamp: Annotated[int, Path(ge=0, le=LONG_MAX)]
) -> MessageIdData:
    """The first message that came not before a time, in milliseconds: where a reset to that time
    begins. The earliest id for the time 0, the next id to be given if there is none."""
    position = await broker.engine.look(lambda: _position_at(topic, timestamp))
    return message_id(topic, position)


def _position_at(topic: Topic, timestamp: int) -> Position:
    index = topic.next_visible(start_index_at(topic, timestamp))
    if index >= topic.visible_end:
        return _next_position(topic)
    return topic.log.locate(index).position if timestamp else EARLIEST.position


def _next_position(topic: Topic) -> Position:
    """Of the next message that consumers will see."""
    if topic.visible_end < topic.log.end_index:
        return topic.log.locate(topic.visible_end).position
    ledgers = topic.log.ledgers
    return Position(ledgers[-1].ledger_id, ledgers[-1].entries) if ledgers else EARLIEST.position


@router.get(f"{TOPIC}/lastMessageId", Operation.CONSUME)
async def get_last_message_id(broker: AskedBroker, topic: FoundTopic) -> MessageIdData:
    """The newest message that a consumer can get; entry -1 if there is none."""
    found = await broker.engine.look(topic.last_dispatchable)
    if found is None:
        ledgers = topic.log.ledgers
        return message_id(topic, Position(ledgers[-1].ledger_id if ledgers else -1, -1))
    position, batch_index = found
    return message_id(topic, position, batch_index, batch_index + 1)


def message_id(
    topic: Topic, position: Position, batch_index: int = -1, batch_size: int = 0
) -> MessageIdData:
    return MessageIdData(
        ledgerId=position.ledger_id,
        entryId=position.entry_id,
        partitionIndex=topic.name.partition,
        batchIndex=batch_index,
        batchSize=batch_size,
    )
