"""A stored message in RocketMQ's own bytes, as answers to pulls and queries carry it. Reads nothing.

    size │ magic │ crc │ queue │ flag │ queue offset │ physical offset │ flags │ born when and where │
    stored when and where │ reconsume times │ prepared offset │ body │ topic │ properties          big-endian

The physical offset of upstream is a place in its log, and part of the ids that mqadmin shows. Here it names
the queue and the index, so that a message is found by it:

    >>> queue_and_index(physical_offset(3, 41))
    (3, 41)
"""

from __future__ import annotations

import ipaddress
import struct
import zlib
from typing import NamedTuple

from milepost.broker.messages.message_view import MessageView
from milepost.rocketmq.mapping import FAULT, stable_id
from milepost.rocketmq.message_check import BORN_HOST, MESSAGE_ID

MAGIC = -626843481
BORN_HOST_V6, STORE_HOST_V6 = 1 << 4, 1 << 5
# The lengths of both are 16 bits, and signed.
PROPERTIES_SIZE_MAX = 32_767
INDEX_BITS = 48
MESSAGE_GROUP, DELIVER_AT = "__SHARDINGKEY", "TIMER_DELIVER_MS"
# What separates names, values and properties.
_SEPARATORS = str.maketrans("\x01\x02", "  ")

_HEAD = struct.Struct(">iiiiiqqiq")


class Place(NamedTuple):
    """Where a message is."""

    topic: str
    topic_id: int
    queue: int
    host: str
    """The broker's address, which is part of the id that mqadmin shows."""
    port: int


def physical_offset(queue: int, index: int) -> int:
    return queue << INDEX_BITS | index


def queue_and_index(offset: int) -> tuple[int, int]:
    return offset >> INDEX_BITS, offset & ((1 << INDEX_BITS) - 1)


def encode_message(view: MessageView, place: Place) -> bytes:
    born, is_born_v6 = _address(*_split(view.properties.get(BORN_HOST, "")))
    stored, is_stored_v6 = _address(place.host, place.port)
    flags = (BORN_HOST_V6 if is_born_v6 else 0) | (STORE_HOST_V6 if is_stored_v6 else 0)
    topic, properties = place.topic.encode(), properties_of(view, place.topic_id)
    parts = (
        born,
        struct.pack(">q", view.came_ms),
        stored,
        struct.pack(">iqi", 0, 0, len(view.payload)),
        view.payload,
        struct.pack(">B", len(topic)),
        topic,
        struct.pack(">h", len(properties)),
        properties,
    )
    head = _HEAD.pack(
        _HEAD.size + sum(map(len, parts)),
        MAGIC,
        zlib.crc32(view.payload) & 0x7FFFFFFF,
        place.queue,
        0,
        view.index,
        physical_offset(place.queue, view.index),
        flags,
        view.event_ms or view.publish_ms,
    )
    return head + b"".join(parts)


def message_id(view: MessageView, topic_id: int) -> str:
    """The id by which RocketMQ's clients know a message."""
    return view.properties.get(MESSAGE_ID) or stable_id(topic_id, view.index)


def properties_of(view: MessageView, topic_id: int) -> bytes:
    """Its properties and what else RocketMQ keeps among them. Where they are too many, some are left out,
    and one says so."""
    told = {MESSAGE_ID: message_id(view, topic_id)}
    if view.key is not None:
        told[MESSAGE_GROUP] = view.key
    if view.deliver_at_ms:
        told[DELIVER_AT] = str(view.deliver_at_ms)
    if view.fault:
        told[FAULT] = view.fault
    found = b""
    left_out = 0
    note_size = 100
    for name, value in {**told, **view.properties}.items():
        text = f"{name.translate(_SEPARATORS)}\x01{value.translate(_SEPARATORS)}\x02".encode(
            "utf-8", "replace"
        )
        if len(found) + len(text) <= PROPERTIES_SIZE_MAX - note_size:
            found += text
        else:
            left_out += 1
    if left_out:
        found += f"{FAULT}\x01{left_out} properties are too large to be shown\x02".encode()
    return found


def _split(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) < 6
    return (host or text).strip("[]"), int(port) if is_port else 0


def _address(host: str, port: int) -> tuple[bytes, bool]:
    """An address and a port, and whether it is one of IPv6; 0.0.0.0 for what is no address."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        found = ipaddress.ip_address(0)
    return found.packed + struct.pack(">i", port), found.version == 6
