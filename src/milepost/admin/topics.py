"""Calls about topics: create, delete, partitions, stats, lookup.

Names follow Pulsar's admin client in Python's spelling. A topic is given by its full name or a short
form (`orders` is `persistent://public/default/orders`).
"""

from __future__ import annotations

from milepost.admin.errors import Missing
from milepost.admin.request import (
    Json,
    Request,
    Script,
    delete,
    encode,
    get,
    post,
    put,
    topic_path,
)
from milepost.positions.ids import MessageId
from milepost.positions.names import NON_PERSISTENT, PERSISTENT, NamespaceName, TopicName

_PARTITIONED_TYPE = "application/vnd.partitioned-topic-metadata+json"


def list_topics(
    namespace: str, *, domain: str | None = None, include_system: bool = False
) -> Script[list[str]]:
    """Full names, each partition by its own; of both domains unless one is named."""
    found: list[str] = []
    for one in (domain,) if domain else (PERSISTENT, NON_PERSISTENT):
        path = f"/admin/v2/{one}/{NamespaceName.parse(namespace)}"
        request = get(path, includeSystemTopic=include_system or None)
        try:
            found += (yield request).strings()
        except Missing:
            # A broker may have no non-persistent topics at all; the namespace was found already.
            if domain or one == PERSISTENT:
                raise
    return found


def list_partitioned_topics(namespace: str, *, include_system: bool = False) -> Script[list[str]]:
    """The names without `-partition-n`, of both domains."""
    found: list[str] = []
    for domain in (PERSISTENT, NON_PERSISTENT):
        path = f"/admin/v2/{domain}/{NamespaceName.parse(namespace)}/partitioned"
        found += (yield get(path, includeSystemTopic=include_system or None)).strings()
    return found


def create_topic(topic: str, properties: dict[str, str] | None = None) -> Script[None]:
    """A topic without partitions. `Conflict` if it exists."""
    yield put(topic_path(topic), properties or {})


def create_partitioned_topic(
    topic: str, partitions: int, properties: dict[str, str] | None = None
) -> Script[None]:
    """`Conflict` if it exists."""
    path = topic_path(topic, "partitions")
    if properties:
        body = encode({"partitions": partitions, "properties": properties})
        yield Request("PUT", path, {}, body, _PARTITIONED_TYPE)
    else:
        yield put(path, partitions)


def update_partitioned_topic(
    topic: str, partitions: int, *, local_only: bool = False, force: bool = False
) -> Script[None]:
    """More partitions; never fewer."""
    yield post(
        topic_path(topic, "partitions"), partitions, updateLocalTopicOnly=local_only, force=force
    )


def create_missed_partitions(topic: str) -> Script[None]:
    yield post(topic_path(topic, "createMissedPartitions"))


def get_partitioned_topic_metadata(topic: str) -> Script[Json]:
    """`partitions` is 0 for a topic that has none, and for one that is not there."""
    return (yield get(topic_path(topic, "partitions"))).object()


def delete_topic(topic: str, *, force: bool = False) -> Script[None]:
    """`PreconditionFailed` while it is in use, unless forced."""
    yield delete(topic_path(topic), force=force)


def delete_partitioned_topic(topic: str, *, force: bool = False) -> Script[None]:
    yield delete(topic_path(topic, "partitions"), force=force)


def truncate_topic(topic: str) -> Script[None]:
    """Every cursor to the end; what no subscription needs is deleted."""
    yield delete(topic_path(topic, "truncate"))


def get_losses(topic: str) -> Script[list[Json]]:
    """Acknowledged messages that are gone, a range for each ledger."""
    return (yield get(topic_path(topic, "losses"))).objects()


def accept_loss(topic: str) -> Script[list[Json]]:
    """Let a topic go on without the messages that are gone; which they are."""
    return (yield post(topic_path(topic, "acceptLoss"))).objects()


def unload_topic(topic: str, *, destination: str | None = None) -> Script[None]:
    """Close a topic; with a destination it goes to that broker of the cluster (Milepost)."""
    yield put(topic_path(topic, "unload"), destinationBroker=destination)


def trim_topic(topic: str) -> Script[None]:
    yield post(topic_path(topic, "trim"))


def terminate_topic(topic: str) -> Script[MessageId]:
    """No message will follow the one whose id this is."""
    return (yield post(topic_path(topic, "terminate"))).message_id()


def terminate_partitioned_topic(topic: str) -> Script[dict[int, MessageId]]:
    answer = yield post(topic_path(topic, "terminate", "partitions"))
    return {int(n): answer.message_id_in(one) for n, one in sorted(answer.object().items())}


def get_stats(
    topic: str,
    *,
    precise_backlog: bool = False,
    backlog_size: bool = True,
    earliest_time: bool = False,
) -> Script[Json]:
    """Pulsar's fields; a Milepost broker adds exact counts of messages."""
    flags = _stats_flags(precise_backlog, backlog_size, earliest_time)
    return (yield get(topic_path(topic, "stats"), **flags)).object()


def get_partitioned_stats(
    topic: str,
    *,
    per_partition: bool = False,
    precise_backlog: bool = False,
    backlog_size: bool = True,
    earliest_time: bool = False,
) -> Script[Json]:
    flags = _stats_flags(precise_backlog, backlog_size, earliest_time)
    path = topic_path(topic, "partitioned-stats")
    return (yield get(path, perPartition=per_partition, **flags)).object()


def _stats_flags(precise_backlog: bool, backlog_size: bool, earliest_time: bool) -> dict[str, bool]:
    return {
        "getPreciseBacklog": precise_backlog,
        "subscriptionBacklogSize": backlog_size,
        "getEarliestTimeInBacklog": earliest_time,
    }


def get_internal_stats(topic: str, *, metadata: bool = False) -> Script[Json]:
    return (yield get(topic_path(topic, "internalStats"), metadata=metadata)).object()


def get_partitioned_internal_stats(topic: str) -> Script[Json]:
    return (yield get(topic_path(topic, "partitioned-internalStats"))).object()


def get_internal_info(topic: str) -> Script[Json]:
    return (yield get(topic_path(topic, "internal-info"))).object()


def get_topic_properties(topic: str) -> Script[dict[str, str]]:
    answer = yield get(topic_path(topic, "properties"))
    return answer.object() if answer.body else {}  # Pulsar says nothing of a topic that has none


def update_topic_properties(topic: str, properties: dict[str, str]) -> Script[None]:
    yield put(topic_path(topic, "properties"), properties)


def remove_topic_property(topic: str, key: str) -> Script[None]:
    yield delete(topic_path(topic, "properties"), key=key)


def lookup_topic(topic: str) -> Script[Json]:
    """Which broker serves it: `brokerUrl`, `httpUrl` and the like."""
    return (yield get(_lookup_path(topic))).object()


def lookup_partitioned_topic(topic: str) -> Script[dict[str, Json]]:
    """The same for each partition, by its name."""
    name = TopicName.parse(topic)
    count = int((yield get(topic_path(topic, "partitions"))).object().get("partitions", 0))
    found: dict[str, Json] = {}
    for number in range(count):
        one = str(name.partition_name(number))
        found[one] = (yield get(_lookup_path(one))).object()
    return found


def get_bundle_range(topic: str) -> Script[str]:
    return (yield get(f"{_lookup_path(topic)}/bundle")).text()


def compact_topic(topic: str) -> Script[None]:
    yield put(topic_path(topic, "compaction"))


def get_compaction_status(topic: str) -> Script[Json]:
    return (yield get(topic_path(topic, "compaction"))).object()


def get_topic_permissions(topic: str) -> Script[dict[str, list[str]]]:
    return (yield get(topic_path(topic, "permissions"))).object()


def grant_topic_permission(topic: str, role: str, actions: list[str]) -> Script[None]:
    yield post(topic_path(topic, "permissions", role), actions)


def revoke_topic_permission(topic: str, role: str) -> Script[None]:
    yield delete(topic_path(topic, "permissions", role))


def _lookup_path(topic: str) -> str:
    return topic_path(topic).replace("/admin/v2/", "/lookup/v2/topic/", 1)
