"""Checks a message that a client sends: what RocketMQ refuses is refused with its code.

    kind, body = check(message, now_ms, body_size_max)

The type of a message follows from what it carries, not from what it says of itself.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable

from google.protobuf.timestamp_pb2 import Timestamp

from milepost.positions.names import TopicName
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.codes import Code, Refused

BODY_SIZE_MAX = 4 * 1024 * 1024
DELAY_MS_MAX = 24 * 3600 * 1000
PROPERTIES_MAX = 128
PROPERTIES_SIZE_MAX = 16 * 1024
MESSAGE_GROUP_SIZE_MAX = 63
MESSAGES_MAX = 1024
# Of all bodies of a call, unpacked: a few kilobytes of GZIP may be megabytes.
BODIES_SIZE_MAX = 2 * BODY_SIZE_MAX
# After so long a producer may want to be asked about a half message at the latest.
RECOVERY_S_MAX = 3600

# RocketMQ's own properties. Messages carry them beside those of users, who may set none of them.
TAGS, KEYS, MESSAGE_ID, BORN_HOST, TRACE = "TAGS", "KEYS", "UNIQ_KEY", "__BORNHOST", "TRACE_CONTEXT"
# "true" for a message that was a half message.
TRANSACTION = "TRAN_MSG"
RESERVED = frozenset(
    f"{TAGS} {KEYS} {MESSAGE_ID} {BORN_HOST} {TRACE} WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG "
    "PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG "
    "RECONSUME_TIME MSG_REGION TRACE_ON EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME "
    "TRAN_PREPARED_QUEUE_OFFSET TRANSACTION_CHECK_TIMES CHECK_IMMUNITY_TIME_IN_SECONDS __transactionId__ "
    "INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE POP_CK "
    "POP_CK_OFFSET 1ST_POP_TIME INNER_NUM INNER_BASE DUP_INFO INNER_MULTI_DISPATCH "
    "INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_SEC TIMER_DELAY_MS TIMER_DELIVER_MS TIMER_ENQUEUE_MS "
    "TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL BORN_TIMESTAMP "
    "DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID".split()
)

# The last that a timestamp of the protocol can carry: the year 9999.
TIME_MS_MAX = 253_402_300_799_000

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def millis(time: Timestamp) -> int:
    """Milliseconds since 1970 of whatever a client sends as a time."""
    return min(max(time.seconds * 1000 + time.nanos // 1_000_000, 0), TIME_MS_MAX)


def check(message: pb.Message, now_ms: int, body_size_max: int) -> tuple[pb.MessageType, bytes]:
    """The type of a message, and its body, unpacked; `Refused` for what cannot be sent."""
    system = message.system_properties
    if not system.message_id.strip():
        raise Refused(Code.ILLEGAL_MESSAGE_ID, "the message id is empty")
    if system.HasField("tag"):
        _check_text(Code.ILLEGAL_MESSAGE_TAG, "tag", system.tag, forbidden="|")
    if len(system.keys) > PROPERTIES_SIZE_MAX:  # millions of them would take seconds to look at
        raise Refused(Code.MESSAGE_PROPERTIES_TOO_LARGE, f"{len(system.keys)} keys")
    for key in system.keys:
        _check_text(Code.ILLEGAL_MESSAGE_KEY, "key", key)
    _check_properties(message)
    kind = _type_of(system, now_ms)
    body = _body_of(message, body_size_max)
    _check_digest(system.body_digest, message.body)
    return kind, body


def check_all(
    messages: Iterable[pb.Message], now_ms: int, body_size_max: int
) -> list[tuple[pb.MessageType, bytes]]:
    """The same of all messages of a call. No more is unpacked than they may have together."""
    checked, size = [], 0
    for one in messages:
        checked.append(check(one, now_ms, body_size_max))
        size += len(checked[-1][1])
        if size > BODIES_SIZE_MAX:
            raise Refused(
                Code.MESSAGE_BODY_TOO_LARGE,
                f"bodies of more than {BODIES_SIZE_MAX} bytes in one call are not allowed",
            )
    return checked


def check_together(topics: list[TopicName]) -> TopicName:
    """The topic of all messages of a call."""
    if not topics:
        raise Refused(Code.MESSAGE_CORRUPTED, "a call without messages")
    if len(set(topics)) > 1:
        raise Refused(Code.MESSAGE_CORRUPTED, f"messages of {len(set(topics))} topics in one call")
    if len(topics) > MESSAGES_MAX:
        raise Refused(
            Code.MESSAGE_CORRUPTED,
            f"{len(topics)} messages in one call; {MESSAGES_MAX} are allowed",
        )
    return topics[0]


def _check_text(code: Code, noun: str, text: str, forbidden: str = "") -> None:
    if not text.strip():
        raise Refused(code, f"a {noun} that is blank")
    if _CONTROL.search(text) or (forbidden and forbidden in text):
        raise Refused(code, f"{noun} {text[:80]!a}: a character of it is not allowed")


def _check_properties(message: pb.Message) -> None:
    system, own = message.system_properties, message.user_properties
    if len(own) > PROPERTIES_MAX:
        raise Refused(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"{len(own)} properties; {PROPERTIES_MAX} are allowed",
        )
    # All of these are stored as properties.
    texts = (system.tag, system.message_id, system.born_host, system.trace_context, *system.keys)
    size = sum(len(text.encode()) for text in texts)
    for name, value in own.items():
        size += len(name.encode()) + len(value.encode())
        if not name or name in RESERVED:
            raise Refused(
                Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
                f"property {name[:80]!a}: this name is RocketMQ's own",
            )
        if _CONTROL.search(name) or _CONTROL.search(value):
            raise Refused(
                Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
                f"property {name[:80]!a}: a control character in its name or value",
            )
    if size > PROPERTIES_SIZE_MAX:
        raise Refused(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"properties, tag, keys and ids of {size} bytes; {PROPERTIES_SIZE_MAX} are allowed",
        )


def _type_of(system: pb.SystemProperties, now_ms: int) -> pb.MessageType:
    if system.HasField("lite_topic") or system.HasField("priority"):
        raise Refused(
            Code.NOT_IMPLEMENTED, "lite topics and priorities are not supported by this server"
        )
    in_group, delayed = system.HasField("message_group"), system.HasField("delivery_timestamp")
    if in_group:
        group = system.message_group
        _check_text(Code.ILLEGAL_MESSAGE_GROUP, "message group", group)
        if len(group.encode()) > MESSAGE_GROUP_SIZE_MAX:
            raise Refused(
                Code.ILLEGAL_MESSAGE_GROUP,
                f"message group {group[:40]!a}…: longer than {MESSAGE_GROUP_SIZE_MAX} bytes",
            )
    if delayed:
        delay_ms = millis(system.delivery_timestamp) - now_ms
        if delay_ms > DELAY_MS_MAX:
            raise Refused(
                Code.ILLEGAL_DELIVERY_TIME,
                f"a delivery in {delay_ms} ms; {DELAY_MS_MAX} ms are allowed",
            )
    is_half = system.message_type == pb.TRANSACTION
    if in_group + delayed + is_half > 1:
        raise Refused(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            "a message has a message group, a delivery time or a transaction, and one of them alone",
        )
    if is_half:
        _check_first_question(system)
        return pb.TRANSACTION
    return pb.FIFO if in_group else pb.DELAY if delayed else pb.NORMAL


def _check_first_question(system: pb.SystemProperties) -> None:
    asked_s = system.orphaned_transaction_recovery_duration.seconds
    if not 0 <= asked_s <= RECOVERY_S_MAX:
        raise Refused(
            Code.BAD_REQUEST,
            f"a transaction that is asked about after {asked_s} s; {RECOVERY_S_MAX} s are allowed",
        )


def _body_of(message: pb.Message, size_max: int) -> bytes:
    body = message.body
    if not body:
        raise Refused(Code.MESSAGE_BODY_EMPTY, "the body is empty")
    if message.system_properties.body_encoding == pb.GZIP:
        # A Pulsar consumer would not know that it is packed.
        unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            body = unpacking.decompress(body, size_max + 1)
        except zlib.error:
            raise Refused(Code.MESSAGE_CORRUPTED, "the body is not GZIP, as it says") from None
        if len(body) <= size_max and not unpacking.eof:
            raise Refused(Code.MESSAGE_CORRUPTED, "the GZIP body is cut off")
    if len(body) > size_max:
        raise Refused(
            Code.MESSAGE_BODY_TOO_LARGE, f"a body of more than {size_max} bytes is not allowed"
        )
    return body


def _check_digest(digest: pb.Digest, sent: bytes) -> None:
    match digest.type:
        case pb.CRC32:
            found = f"{zlib.crc32(sent):X}"
        case pb.MD5:
            found = hashlib.md5(sent, usedforsecurity=False).hexdigest()
        case pb.SHA1:
            found = hashlib.sha1(sent, usedforsecurity=False).hexdigest()
        case _:
            return
    if found.upper().lstrip("0") != digest.checksum.upper().lstrip("0"):
        raise Refused(
            Code.MESSAGE_CORRUPTED, f"the digest is {digest.checksum[:40]!a}, the body's is {found}"
        )
