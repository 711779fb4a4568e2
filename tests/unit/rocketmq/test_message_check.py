"""What RocketMQ refuses of a message is refused with its code."""

from __future__ import annotations

import gzip
import hashlib
import tracemalloc
import zlib
from typing import Any

import pytest

from milepost.positions.names import TopicName
from milepost.rocketmq import message_check
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.codes import Code, Refused

NOW_MS = 1_700_000_000_000


def message(body: bytes = b"body", own: dict[str, str] | None = None, **system: Any) -> pb.Message:
    properties = pb.SystemProperties(**{"message_id": "ID", **system})
    return pb.Message(system_properties=properties, body=body, user_properties=own or {})


def delayed(delay_ms: int, **system: Any) -> pb.Message:
    made = message(**system)
    made.system_properties.delivery_timestamp.FromMilliseconds(NOW_MS + delay_ms)
    return made


def half(recovery_s: int = 6, **system: Any) -> pb.Message:
    made = message(message_type=pb.TRANSACTION, **system)
    made.system_properties.orphaned_transaction_recovery_duration.seconds = recovery_s
    return made


def check(made: pb.Message) -> tuple[int, bytes]:
    return message_check.check(made, NOW_MS, 1000)


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (message(b""), Code.MESSAGE_BODY_EMPTY),
        (message(b"x" * 1001), Code.MESSAGE_BODY_TOO_LARGE),
        (message(message_id=""), Code.ILLEGAL_MESSAGE_ID),
        (message(tag=" "), Code.ILLEGAL_MESSAGE_TAG),
        (message(tag="a|b"), Code.ILLEGAL_MESSAGE_TAG),
        (message(tag="a\x00b"), Code.ILLEGAL_MESSAGE_TAG),
        (message(keys=["good", ""]), Code.ILLEGAL_MESSAGE_KEY),
        (message(keys=[""] * 20_000), Code.MESSAGE_PROPERTIES_TOO_LARGE),
        (message(message_group=" "), Code.ILLEGAL_MESSAGE_GROUP),
        (message(message_group="ä" * 32), Code.ILLEGAL_MESSAGE_GROUP),
        (message(own={"TAGS": "x"}), Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        (message(own={"": "x"}), Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        (message(own={"a": "\n"}), Code.ILLEGAL_MESSAGE_PROPERTY_KEY),
        (message(own={str(n): "x" for n in range(129)}), Code.MESSAGE_PROPERTIES_TOO_LARGE),
        (message(own={"a": "x" * 16_384}), Code.MESSAGE_PROPERTIES_TOO_LARGE),
        (message(message_id="x" * 16_385), Code.MESSAGE_PROPERTIES_TOO_LARGE),
        (message(born_host="x" * 16_384), Code.MESSAGE_PROPERTIES_TOO_LARGE),
        (message(trace_context="x" * 16_384), Code.MESSAGE_PROPERTIES_TOO_LARGE),
        (half(message_group="g"), Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        (half(recovery_s=3601), Code.BAD_REQUEST),
        (half(recovery_s=-1), Code.BAD_REQUEST),
        (message(priority=3), Code.NOT_IMPLEMENTED),
        (message(lite_topic="x"), Code.NOT_IMPLEMENTED),
        (delayed(24 * 3600 * 1000 + 1), Code.ILLEGAL_DELIVERY_TIME),
        (delayed(1000, message_group="g"), Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        (message(b"no gzip", body_encoding=pb.GZIP), Code.MESSAGE_CORRUPTED),
        (message(gzip.compress(b"x")[:-4], body_encoding=pb.GZIP), Code.MESSAGE_CORRUPTED),
        (message(gzip.compress(b"x" * 10**6), body_encoding=pb.GZIP), Code.MESSAGE_BODY_TOO_LARGE),
        (message(body_digest=pb.Digest(type=pb.MD5, checksum="0A")), Code.MESSAGE_CORRUPTED),
    ],
)
def test_a_message_that_is_refused(made: pb.Message, code: Code) -> None:
    with pytest.raises(Refused) as caught:
        check(made)
    assert caught.value.code is code


def test_the_type_follows_from_what_a_message_carries() -> None:
    assert check(message(message_type=pb.DELAY))[0] == pb.NORMAL
    assert check(message(message_group="x" * 63))[0] == pb.FIFO
    assert check(delayed(24 * 3600 * 1000))[0] == pb.DELAY
    assert check(delayed(-5000))[0] == pb.DELAY  # due already


def test_limits_are_reached_and_not_passed() -> None:
    assert check(message(b"x" * 1000))[1] == b"x" * 1000
    check(message(own={str(n): "x" for n in range(128)}))
    check(message(keys=["with a blank"], own={"__SHARDINGKEY": "", "ä": "ü"}, tag="with a blank"))


def test_a_half_message_is_known_by_what_it_says() -> None:
    assert check(half())[0] == pb.TRANSACTION
    with pytest.raises(Refused) as caught:
        check(delayed(1000, message_type=pb.TRANSACTION))
    assert caught.value.code is Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE


def test_a_packed_body_is_unpacked() -> None:
    assert check(message(gzip.compress(b"body"), body_encoding=pb.GZIP))[1] == b"body"


def test_a_digest_that_is_right() -> None:
    for kind, text in {
        pb.CRC32: f"{zlib.crc32(b'body'):08X}",
        pb.MD5: hashlib.md5(b"body").hexdigest().upper(),
        pb.SHA1: hashlib.sha1(b"body").hexdigest().upper(),
        pb.DIGEST_TYPE_UNSPECIFIED: "",
    }.items():
        check(message(body_digest=pb.Digest(type=kind, checksum=text)))


def test_messages_of_one_call() -> None:
    orders, bills = TopicName.parse("orders"), TopicName.parse("bills")
    assert message_check.check_together([orders, orders]) == orders
    for wrong in ([], [orders, bills], [orders] * 1025):
        with pytest.raises(Refused) as caught:
            message_check.check_together(wrong)
        assert caught.value.code is Code.MESSAGE_CORRUPTED


def test_times_that_are_none_are_refused_or_the_nearest() -> None:
    made = message()
    made.system_properties.delivery_timestamp.seconds = 2**62
    with pytest.raises(Refused) as caught:
        check(made)
    assert caught.value.code is Code.ILLEGAL_DELIVERY_TIME
    made.system_properties.delivery_timestamp.seconds = -(2**62)
    made.system_properties.delivery_timestamp.nanos = -(2**31)
    assert check(made)[0] == pb.DELAY
    assert message_check.millis(made.system_properties.delivery_timestamp) == 0


def test_a_thousand_small_messages_that_unpack_to_gigabytes_are_refused_in_time() -> None:
    bomb = message(gzip.compress(bytes(message_check.BODY_SIZE_MAX)), body_encoding=pb.GZIP)
    tracemalloc.start()
    try:
        with pytest.raises(Refused) as caught:
            message_check.check_all(
                [bomb] * message_check.MESSAGES_MAX, 0, message_check.BODY_SIZE_MAX
            )
        assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    finally:
        tracemalloc.stop()
    assert caught.value.code is Code.MESSAGE_BODY_TOO_LARGE
    assert len(message_check.check_all([bomb] * 2, 0, message_check.BODY_SIZE_MAX)) == 2
