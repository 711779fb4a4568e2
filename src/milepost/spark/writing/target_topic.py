"""Checks a topic before it is written.

A target that is missing is made, with deduplication, where the broker's HTTP side is known (`adminUrl`). Then
a producer is opened on every partition: that asks for the right to publish, for the schema, for quotas, and
whether the topic deduplicates. Nothing is sent.

    ready_target(connection, "persistent://public/default/copy", partitions=4)
"""

from __future__ import annotations

from milepost.client.connection.endpoint import Endpoint
from milepost.errors import NotAllowed, TopicNotFound
from milepost.positions.names import TopicName
from milepost.schemas.types import SchemaInfo
from milepost.spark.options import admin_of
from milepost.spark.reading.survey import partitions_of
from milepost.spark.writing.publish import Publisher

DEDUPLICATION = "deduplicationEnabled"


def ready_target(
    connection: Endpoint,
    topic: str,
    *,
    partitions: int | None = None,
    schema: SchemaInfo | None = None,
) -> list[str]:
    """The partitions of a topic that takes messages exactly once, by full name.

    `partitions` is how many it must have, 0 for a topic that is not partitioned; None: as many as it has, or
    none if it is made."""
    found = _found(connection, topic)
    if found is None:
        _make(connection, topic, partitions or 0)
        found = partitions_of(connection, topic, make=True)
    _check_partitions(connection, topic, found, partitions)
    for one in found:
        with Publisher(connection, one, schema=schema, needs_deduplication=True) as publisher:
            is_milepost = publisher.is_milepost
    if not is_milepost:
        _check_deduplication(connection, topic)
    return found


def check_target(
    connection: Endpoint, topic: str, *, schema: SchemaInfo | None = None
) -> list[str]:
    """The partitions of a topic that may be written, by full name. It need not deduplicate."""
    found = partitions_of(connection, topic, make=True)
    for one in found:
        with Publisher(connection, one, schema=schema):
            pass
    return found


def _found(connection: Endpoint, topic: str) -> list[str] | None:
    """The partitions of a topic; None if it does not exist."""
    try:
        return partitions_of(connection, topic)
    except TopicNotFound:
        return None


def _make(connection: Endpoint, topic: str, partitions: int) -> None:
    """Make the topic with deduplication; leave it to the first producer where that cannot be asked for."""
    if connection.admin_url is None or TopicName.parse(topic).partition >= 0:
        return
    from milepost.admin import Conflict

    with admin_of(connection) as admin:
        try:
            if partitions:
                admin.create_partitioned_topic(topic, partitions)
            else:
                admin.create_topic(topic)
        except Conflict:
            return  # made in the meantime; it is asked like any other
        admin.set_topic_policy(topic, DEDUPLICATION, True)


def _check_partitions(
    connection: Endpoint, topic: str, found: list[str], partitions: int | None
) -> None:
    has = 0 if found == [topic] else len(found)
    # One partition and none are the same to what is written.
    if partitions is None or max(has, 1) == max(partitions, 1):
        return
    hint = "name a topic that does not exist, which is then made"
    if connection.admin_url is None:
        hint += ", if the broker's HTTP side is given too"
    raise NotAllowed(f"{topic} has {has} partitions, it must have {partitions}: {hint}")


def _check_deduplication(connection: Endpoint, topic: str) -> None:
    """Ask an Apache Pulsar, whose producers are not told."""
    with admin_of(connection) as admin:
        base = TopicName.parse(topic).base.text
        if admin.get_topic_policy(base, DEDUPLICATION, applied=True) is not True:
            raise NotAllowed(
                f"{topic} does not deduplicate, so a retry would write twice: switch deduplication on "
                "for it, or use delivery=atLeastOnce"
            )
