"""Messages of an Apache Pulsar for people to read: entry by entry, batches split, chunks joined.

A message has the number of its entry (`admin/pulsar_entries.py`), and beside it its index where the broker
gives one. Entries are asked for one at a time, some of them side by side; nothing is consumed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost.admin.errors import Missing
from milepost.admin.pulsar_entries import Places
from milepost.cli.messages.peek import Chunks
from milepost.cli.messages.values import info_of
from milepost.errors import IndexNotFound, InvalidSchema, SchemaMismatch
from milepost.positions.ids import MessageId
from milepost.schemas import version_number
from milepost.schemas.shown_values import decoder_of, is_shown

if TYPE_CHECKING:
    from milepost.admin import Admin
    from milepost.admin.entries import StoredMessage

Json = dict[str, Any]
Decoder = Callable[[bytes, bytes | None], Any]

# Entries that one answer looks at, and how many are asked for at once.
ENTRIES_MAX: Final = 400
AT_ONCE: Final = 8
PAYLOAD_MAX: Final = 64 * 1024
PAYLOADS_MAX: Final = 2 * 1024 * 1024


class Wanted(NamedTuple):
    """What a message must have: parts of its key and content, a property (`name` or `name=part`)."""

    key: str = ""
    property: str = ""
    content: str = ""

    def fits(self, message: StoredMessage) -> bool:
        if self.key and self.key not in (message.key or ""):
            return False
        if self.property:
            name, equals, value = self.property.partition("=")
            own = message.properties.get(name)
            if own is None or (equals and value not in own):
                return False
        return not self.content or self.content.encode() in message.data


def start_of(
    admin: Admin, topic: str, places: Places, index: int | None, id: str, time_ms: int | None
) -> int:
    """The number of the entry to begin with."""
    if id:
        found = MessageId.parse(id)
        return max(places.number_of(found.position), 0)
    if time_ms is not None:
        try:
            at = admin.get_message_id_by_timestamp(topic, time_ms)
        except Missing:
            return places.end  # nothing is that young
        return max(places.number_of(at.position), 0)
    return index or 0


def browse(
    admin: Admin,
    topic: str,
    places: Places,
    start: int,
    count: int,
    wanted: Wanted,
    payload_max: int,
) -> Json:
    """A page of messages, as Milepost has it."""
    chunks, schemas = Chunks(), _Schemas(admin, topic)
    messages: list[Json] = []
    cut = min(payload_max, PAYLOAD_MAX, PAYLOADS_MAX // count)
    at, stop = start, min(places.end, start + ENTRIES_MAX)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while at < stop and len(messages) < count:
            numbers = range(at, min(at + AT_ONCE, stop))
            for number, entry in zip(
                numbers,
                pool.map(lambda one: entry_at(admin, topic, places, one), numbers),
                strict=True,
            ):
                at = number + 1
                for one in entry:
                    whole = chunks.add(one)
                    is_orphan = whole is None and one.chunk_id > 0 and not chunks.knows(one)
                    shown = one if is_orphan else whole
                    if shown is None or shown.marker_type is not None or not wanted.fits(shown):
                        continue
                    fault = "a chunk whose message begins before what was read" if is_orphan else ""
                    messages.append(_view(shown, number, cut, schemas, fault))
                if len(messages) >= count:
                    break
    return {
        "first": 0,
        "end": places.end,
        "looked_at": at - start,
        "next": at if at < places.end else None,
        "messages": messages,
    }


def entry_at(admin: Admin, topic: str, places: Places, number: int) -> list[StoredMessage]:
    """The messages of an entry; none if it is gone."""
    at = places.position_of(number)
    try:
        return admin.get_message_by_id(topic, at.ledger_id, at.entry_id)
    except Missing:
        return []


def payload_of(admin: Admin, topic: str, places: Places, number: int, batch: int) -> bytes:
    """The whole payload of a message, which is found at its last chunk."""
    entry = entry_at(admin, topic, places, number) if number < places.end else []
    if not entry:
        raise IndexNotFound(f"{topic}: there is no entry {number}")
    if not 0 <= batch < len(entry):
        raise IndexNotFound(f"{topic}: entry {number} has {len(entry)} messages, none is {batch}")
    message = entry[batch]
    if message.chunk_count <= 1:
        return message.data
    parts = {message.chunk_id: message.data}
    for before in range(number - 1, max(number - ENTRIES_MAX, -1), -1):
        if len(parts) == message.chunk_count:
            break
        for one in entry_at(admin, topic, places, before):
            if one.chunk_uuid == message.chunk_uuid:
                parts.setdefault(one.chunk_id, one.data)
    if len(parts) < message.chunk_count:
        raise IndexNotFound(
            f"{topic}: of the message at entry {number} {len(parts)} of {message.chunk_count} chunks are "
            f"found in the {ENTRIES_MAX} entries up to it"
        )
    return b"".join(parts[one] for one in sorted(parts))


class _Schemas:
    """Decoders by version, each asked for once."""

    def __init__(self, admin: Admin, topic: str) -> None:
        self._admin, self._topic = admin, topic
        self._known: dict[int, tuple[str, Decoder] | None] = {}

    def decoded(self, message: StoredMessage) -> tuple[int | None, str, Any]:
        """The version of its schema, the schema's type if the payload could be decoded by it, the value."""
        version = version_number(message.schema_version)
        if version is None:
            return None, "", None
        if version not in self._known:
            self._known[version] = self._asked(version)
        found = self._known[version]
        if found is not None and not message.is_null and len(message.data) <= PAYLOAD_MAX:
            kind, decode = found
            key = None if message.key is None else message.key.encode()
            with suppress(SchemaMismatch, InvalidSchema):
                return version, kind, decode(message.data, key)
        return version, "", None

    def _asked(self, version: int) -> tuple[str, Decoder] | None:
        with suppress(Missing, InvalidSchema):
            info = info_of(self._admin.get_schema(self._topic, version))
            if is_shown(info.type):
                return info.type.name, decoder_of(info)
        return None


def _view(one: StoredMessage, number: int, cut: int, schemas: _Schemas, fault: str) -> Json:
    version, kind, value = schemas.decoded(one)
    batch = one.message_id.batch_index
    return {
        "index": number,
        "id": str(one.message_id),
        "real_index": one.index,
        "came_ms": one.broker_time,
        "publish_ms": one.publish_time,
        "event_ms": one.event_time,
        "deliver_at_ms": one.deliver_at_time,
        "producer": one.producer_name or "",
        "sequence_id": one.sequence_id,
        "key": one.key,
        "is_key_base64": False,
        "properties": one.properties,
        "schema_version": version,
        "is_null": one.is_null,
        "size": len(one.data),
        "compression": "",
        "batch_size": one.batch_size,
        "chunks": one.chunk_count,
        "transaction": "",
        "fault": "encrypted: its payload is shown as it is stored" if one.is_encrypted else fault,
        "payload": base64.b64encode(one.data[:cut]).decode("ascii"),
        "is_cut": len(one.data) > cut,
        "schema_type": kind,
        "value": value,
        "payload_path": f"/messages/{number}/payload?batch={max(batch, 0)}",
    }
