"""Messages of a topic for people to read: from an index, id or time on, filtered; payloads cut.

    GET /milepost/v1/topics/{tenant}/{namespace}/{topic}/messages?index=1000&count=50&key=a
    GET /milepost/v1/topics/{tenant}/{namespace}/{topic}/messages/1007/payload

Of a topic without partitions, or of one partition. Reading consumes nothing; it needs the right to consume.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.broker import Broker
from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.messages.browse import Filter, browse, message_of
from milepost.broker.messages.lookup_by_index import index_of
from milepost.broker.messages.message_view import MessageView
from milepost.broker.topic.topic import Topic
from milepost.errors import IndexNotFound, InvalidInput, InvalidSchema, SchemaMismatch
from milepost.positions.ids import MessageId
from milepost.positions.names import TopicName
from milepost.positions.spans import INDEX_MAX
from milepost.rest.request import AskedBroker, open_topic
from milepost.rest.resources.messages import BYTES
from milepost.rest.resources.reset import PersistentTopic
from milepost.rest.route_access import needs
from milepost.schemas.shown_values import decoder_of, is_shown
from milepost.schemas.types import SchemaInfo

router = APIRouter(
    prefix="/milepost/v1/topics/{tenant}/{namespace}/{topic}",
    tags=["messages"],
    dependencies=[needs(Operation.CONSUME)],
)

COUNT_MAX = 200
PAYLOAD_SIZE_MAX = 64 * 1024
# Of all payloads of an answer.
PAYLOADS_SIZE_MAX = 2 * 1024 * 1024
# Of those that are decoded.
DECODED_SIZE_MAX = 256 * 1024

Text = Annotated[str, Query(max_length=1024)]


Decoded = tuple[str, Any]
"""The type of a schema, and what a payload is by it."""


class BrowsedMessage(BaseModel):
    """`milepost.broker.messages.message_view.MessageView`, its payload cut and in base64."""

    index: int
    id: str
    came_ms: int
    publish_ms: int
    event_ms: int
    deliver_at_ms: int
    producer: str
    sequence_id: int
    key: str | None
    is_key_base64: bool
    properties: dict[str, str]
    schema_version: int | None
    is_null: bool
    size: int
    compression: str
    batch_size: int
    chunks: int
    transaction: str
    fault: str
    payload: str
    is_cut: bool
    """The payload is longer than what is here of it."""
    schema_type: str
    """By which the payload was decoded; empty if it was not."""
    value: Any
    """What it was decoded to."""

    @classmethod
    def of(cls, view: MessageView, payload_max: int, decoded: Decoded | None) -> BrowsedMessage:
        cut = view.payload[:payload_max]
        fields = view._asdict() | {"payload": base64.b64encode(cut).decode("ascii")}
        kind, value = decoded or ("", None)
        return cls(**fields, is_cut=len(cut) < len(view.payload), schema_type=kind, value=value)


class BrowseAnswer(BaseModel):
    first: int
    end: int
    """What is retained and may be seen: `[first, end)`."""
    looked_at: int
    """Entries that were read for this answer."""
    next: int | None
    """Where to go on; null at the end."""
    messages: list[BrowsedMessage]


@router.get("/messages")
async def browse_messages(
    request: Request,
    broker: AskedBroker,
    name: PersistentTopic,
    index: Annotated[int | None, Query(ge=0, le=INDEX_MAX)] = None,
    id: Annotated[str, Query(max_length=200)] = "",
    time: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    count: Annotated[int, Query(ge=1, le=COUNT_MAX)] = 50,
    key: Text = "",
    property: Text = "",
    content: Text = "",
    payload_max: Annotated[int, Query(ge=0, le=PAYLOAD_SIZE_MAX)] = 1024,
) -> BrowseAnswer:
    """Messages from an index, an id, or a time in milliseconds on; from the first by default. `key`
    and `content` are parts of what they filter, `property` is a name, or `name=` and a part of the value.
    A batch is split, a chunked message is one. Payloads are cut to `payload_max` bytes, and to 2 MiB in
    all. With a filter fewer may come than there are: go on at `next`. Those of AVRO, PROTOBUF_NATIVE,
    KEY_VALUE and single values are decoded too, by the version of the schema that they name, up to 64 KiB
    each and 256 KiB in all."""
    topic = await open_topic(request, name)
    at = await _start(broker, topic, index, id, time)
    found = await browse(
        topic,
        at,
        Filter(key, property, content),
        count=count,
        slices=TimeSlices(broker.clock),
        disk=broker.engine,
    )
    decoded = await _decoded(broker, name, found.messages)
    return BrowseAnswer(
        first=topic.log.first_index,
        end=topic.visible_end,
        looked_at=found.looked_at,
        next=found.next_index,
        messages=[
            BrowsedMessage.of(one, min(payload_max, PAYLOADS_SIZE_MAX // count), value)
            for one, value in zip(found.messages, decoded, strict=True)
        ],
    )


async def _decoded(
    broker: Broker, name: TopicName, messages: Sequence[MessageView]
) -> list[Decoded | None]:
    """What each payload is by the schema that it names; None for one that is not decoded."""
    versions = {one.schema_version for one in messages if one.schema_version is not None}
    infos: dict[int | None, SchemaInfo] = {}
    for version in versions:
        live = await broker.schemas.get(name, version)
        if live is not None and is_shown(live.info.type):
            infos[version] = live.info
    if not infos:
        return [None] * len(messages)
    room = DECODED_SIZE_MAX
    chosen: list[tuple[SchemaInfo, MessageView] | None] = []
    for one in messages:
        info = infos.get(one.schema_version)
        size = len(one.payload) + len(one.key or "")
        fits = size <= min(PAYLOAD_SIZE_MAX, room)
        is_whole = not (one.is_null or one.fault)
        chosen.append((info, one) if info is not None and fits and is_whole else None)
        room -= size if chosen[-1] is not None else 0
    # Not on the loop: publishers would wait for what strangers have written.
    return await asyncio.to_thread(_shown, chosen)


def _shown(chosen: Sequence[tuple[SchemaInfo, MessageView] | None]) -> list[Decoded | None]:
    decoders: dict[int, Callable[[bytes, bytes | None], Any]] = {}
    found: list[Decoded | None] = []
    for one in chosen:
        found.append(None)
        if one is None:
            continue
        info, view = one
        # What does not fit its schema is shown as bytes.
        with suppress(SchemaMismatch, InvalidSchema):
            if id(info) not in decoders:
                decoders[id(info)] = decoder_of(info)
            found[-1] = info.type.name, decoders[id(info)](view.payload, _key_of(view))
    return found


def _key_of(view: MessageView) -> bytes | None:
    """The bytes of a message's key. A producer may say that text is base64 where it is none."""
    if view.key is None or not view.is_key_base64:
        return None if view.key is None else view.key.encode("utf-8", "surrogateescape")
    try:
        return base64.b64decode(view.key, validate=True)
    except ValueError:
        raise SchemaMismatch("KEY_VALUE: the message's key is no base64") from None


async def _start(broker: Broker, topic: Topic, index: int | None, id: str, time: int | None) -> int:
    if sum((index is not None, bool(id), time is not None)) > 1:
        raise InvalidInput("query: say one of index, id and time")
    if id:
        message_id = MessageId.parse(id)
        return await broker.engine.look(
            lambda: index_of(topic, message_id.position, message_id.batch_index).index
        )
    if time is not None:
        return await broker.engine.look(lambda: topic.log.index_at(time))
    return index or 0


@router.get(
    "/messages/{index}/payload",
    response_class=Response,
    responses={200: {"content": {BYTES: {"schema": {"type": "string", "format": "binary"}}}}},
)
async def get_payload(
    request: Request,
    broker: AskedBroker,
    name: PersistentTopic,
    index: Annotated[int, Path(ge=0, le=INDEX_MAX)],
) -> Response:
    """The whole payload of one message, unpacked, as it was sent."""
    topic = await open_topic(request, name)
    message = await message_of(topic, index, broker.engine)
    if message is None:
        raise IndexNotFound(f"{name}: no message has index {index}")
    # A browser saves it, and never shows it as a page of this server.
    headers = {
        "content-disposition": f'attachment; filename="{_file_name(name)}-{index}"',
        "x-content-type-options": "nosniff",
    }
    return Response(message.payload, media_type=BYTES, headers=headers)


def _file_name(name: TopicName) -> str:
    """A part of a file's name, whatever a topic is called."""
    local = str(name).rpartition("/")[2]
    return "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in local)[:80]
