"""Names of topics and groups: which are allowed, and what Milepost calls them.

    >>> str(topic_of(pb.Resource(name="orders"), "public/default"))
    'persistent://public/default/orders'
    >>> str(topic_of(pb.Resource(name="orders", resource_namespace="acme/shop"), "public/default"))
    'persistent://acme/shop/orders'

A resource namespace without a slash is a namespace of the edge's own tenant. RocketMQ has fewer letters for
names than Pulsar: a topic with a dot or a slash in its name cannot be reached from here.
"""

from __future__ import annotations

import re
from functools import lru_cache

from milepost.errors import InvalidTopicName
from milepost.positions.names import NamespaceName, TopicName
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.codes import Code, Refused

NAME_LENGTH_MAX = 127
GROUP_LENGTH_MAX = 255
NAMESPACE_LENGTH_MAX = 512

_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")

_PARTITION = re.compile(r"-partition-[0-9]+$")

# RocketMQ keeps these for itself.
SYSTEM_TOPICS = frozenset(
    (
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    )
)
# Names that are kept, so that they need not be read again.
KNOWN_MAX = 4096
DEAD_LETTERS = "%DLQ%"
# %BROADCAST%GROUP%MEMBER is a member of a broadcast group.
BROADCAST = "%BROADCAST%"
# Half messages lie there.
SYSTEM_NAMESPACE = "pulsar/system"


def is_topic_name(name: str) -> bool:
    """Can RocketMQ's clients name a topic of this local name? A partition is none of its own.

    >>> [is_topic_name(name) for name in ("orders", "a.b", "TBW102", "orders-partition-1")]
    [True, False, False, False]
    """
    if len(name) > NAME_LENGTH_MAX or name in SYSTEM_TOPICS or not _NAME.fullmatch(name):
        return False
    _, found, number = name.rpartition("-partition-")
    return not (found and number.isdigit())


def is_group_name(name: str) -> bool:
    """Can RocketMQ's clients name a consumer group so?"""
    return len(name) <= GROUP_LENGTH_MAX and _NAME.fullmatch(name) is not None


def topic_of(resource: pb.Resource, default_namespace: str) -> TopicName:
    """The whole topic that a client names; `Refused` for what is no name."""
    asked = resource.resource_namespace
    if len(asked) > NAMESPACE_LENGTH_MAX:
        raise Refused(
            Code.ILLEGAL_TOPIC,
            f"namespace {asked[:40]!a}…: longer than {NAMESPACE_LENGTH_MAX} characters",
        )
    return _topic(resource.name, asked, default_namespace)


@lru_cache(KNOWN_MAX)  # every call names a topic, and most the same
def _topic(name: str, asked: str, default_namespace: str) -> TopicName:
    if not _NAME.fullmatch(name):
        raise Refused(
            Code.ILLEGAL_TOPIC,
            f"topic {name[:80]!a}: expected letters, digits, '%', '|', '_' and '-'",
        )
    if len(name) > NAME_LENGTH_MAX:
        raise Refused(
            Code.ILLEGAL_TOPIC, f"topic {name[:40]}…: longer than {NAME_LENGTH_MAX} characters"
        )
    if name in SYSTEM_TOPICS:
        raise Refused(Code.ILLEGAL_TOPIC, f"topic {name}: RocketMQ keeps this name for itself")
    namespace = _namespace(asked, default_namespace)
    if str(namespace) == SYSTEM_NAMESPACE:
        raise Refused(Code.ILLEGAL_TOPIC, f"topic {name}: {namespace} is the broker's own")
    return TopicName.parse(f"persistent://{namespace}/{name}")


def group_of(resource: pb.Resource) -> str:
    """The name of a consumer group, which is that of its subscriptions."""
    return _group(resource.name)


@lru_cache(KNOWN_MAX)
def _group(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Refused(
            Code.ILLEGAL_CONSUMER_GROUP,
            f"consumer group {name[:80]!a}: expected letters, digits, '%', '|', '_' and '-'",
        )
    if _PARTITION.search(name):
        raise Refused(
            Code.ILLEGAL_CONSUMER_GROUP,
            f"consumer group {name[:80]}: its dead letters would be a partition of another topic",
        )
    if len(name) > GROUP_LENGTH_MAX:
        raise Refused(
            Code.ILLEGAL_CONSUMER_GROUP,
            f"consumer group {name[:40]}…: longer than {GROUP_LENGTH_MAX} characters",
        )
    if name.startswith(BROADCAST):
        group, member = split_group(name)
        if not group or not member:
            raise Refused(
                Code.ILLEGAL_CONSUMER_GROUP,
                f"consumer group {name[:80]}: expected {BROADCAST}GROUP%MEMBER",
            )
        _group(group)
    return name


def split_group(group: str) -> tuple[str, str]:
    """The subscription that a consumer group names, and the member of a broadcast group, or none.

    >>> split_group("%BROADCAST%caches%cache-7"), split_group("a|b")
    (('caches', 'cache-7'), ('a|b', ''))
    """
    if not group.startswith(BROADCAST):
        return group, ""
    name, _, member = group.removeprefix(BROADCAST).partition("%")
    return name, member


def dead_letter_topic(topic: TopicName, group: str) -> TopicName:
    """Where messages of a group go that were delivered too often: beside their topic."""
    return TopicName.parse(f"persistent://{topic.namespace}/{DEAD_LETTERS}{group}")


def is_namespace(asked: str, default: str) -> bool:
    """Does a client that says `asked` mean the default namespace?

    >>> [is_namespace(asked, "public/default") for asked in ("", "default", "public/default", "other")]
    [True, True, True, False]
    """
    try:
        return _namespace(asked, default) == NamespaceName.parse(default)
    except Refused:
        return False


def _namespace(asked: str, default: str) -> NamespaceName:
    if not asked:
        return NamespaceName.parse(default)
    try:
        tenant = NamespaceName.parse(default).tenant
        return NamespaceName.parse(asked if "/" in asked else f"{tenant}/{asked}")
    except InvalidTopicName as error:
        raise Refused(Code.ILLEGAL_TOPIC, str(error)) from None
