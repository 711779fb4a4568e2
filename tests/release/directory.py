"""A data directory that holds one of everything, and what a broker must say of it.

`write` fills an empty directory through a real broker that is killed at the end, so that a part of it lies
in the journal alone. `describe` asks a broker on that directory what it has, as plain values. A release
keeps both for good: the directory as a tar file, the description as JSON beside it (`frozen/`), and every
later version must open the first and say the second.

    python -m release.directory 0.1.0       # in tests/: write frozen/0.1.0.tar.gz and .json
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from compat.broker_process import BrokerProcess

import milepost
from milepost.admin import Admin

FROZEN = Path(__file__).parent / "frozen"
NAMESPACE = "acme/orders"
CHUNKED_BYTES = 30_000
SETTINGS = {"deduplication": True, "max_message_size": 10_000, "ledger_entries_max": 7}


def write(folder: Path) -> None:
    """Make `folder / "data"`; the broker is killed, not stopped."""
    with BrokerProcess(folder, **SETTINGS) as broker:
        with Admin(_http(broker)) as admin, milepost.Client(broker.url) as client:
            _tenants(admin)
            _batches(client)
            _chunks(client)
            _partitions(admin, client)
            _rolled_and_trimmed(admin, client)
            _schemas(client)
            _groups(client, admin)
            _delayed(client)
            _compacted(admin, client)
        broker.restart(kill=False)
        # What is written behind the last checkpoint lies in the journal alone.
        with milepost.Client(broker.url) as client:
            _late_acks(client)
            broker.kill()


def _http(broker: BrokerProcess) -> str:
    return f"http://127.0.0.1:{broker.http_port}"


def _topic(name: str) -> str:
    return f"persistent://{NAMESPACE}/{name}"


def _tenants(admin: Admin) -> None:
    admin.create_tenant("acme")
    admin.create_namespace(NAMESPACE)
    admin.grant_namespace_permission(NAMESPACE, "shop", ["produce"])


def _send(client: milepost.Client, topic: str, count: int, **options: Any) -> None:
    with client.create_producer(topic, **options) as producer:
        for number in range(count):
            producer.send_async(
                f"{topic.rpartition('/')[2]} {number}".encode(),
                lambda *_: None,
                partition_key=f"k{number % 3}",
                properties={"number": str(number)},
                event_timestamp=1_700_000_000_000 + number,
            )
        producer.flush()


def _batches(client: milepost.Client) -> None:
    """Five batches of ten; some messages of two batches are acked alone."""
    topic = _topic("batched")
    consumer = client.subscribe(topic, "holes", consumer_type=milepost.ConsumerType.Shared)
    kinds = [milepost.CompressionType.NONE, milepost.CompressionType.LZ4]
    kinds += [milepost.CompressionType.ZLib, milepost.CompressionType.ZSTD]
    kinds += [milepost.CompressionType.SNAPPY]
    for kind in kinds:
        _send(
            client,
            topic,
            10,
            batching_enabled=True,
            batching_max_messages=10,
            compression_type=kind,
            producer_name=f"p-{kind.name}",
        )
    for message in [consumer.receive(10_000) for _ in range(50)]:
        if message.index() in (0, 3, 4, 17, 49):
            consumer.acknowledge(message)
    consumer.close()


def _chunks(client: milepost.Client) -> None:
    topic = _topic("chunked")
    consumer = client.subscribe(topic, "first-acked")
    with client.create_producer(topic, chunking_enabled=True) as producer:
        for number in range(2):
            producer.send(bytes([65 + number]) * CHUNKED_BYTES)
    consumer.acknowledge(consumer.receive(10_000))
    consumer.close()


def _partitions(admin: Admin, client: milepost.Client) -> None:
    topic = _topic("split")
    admin.create_partitioned_topic(topic, 3)
    _send(client, topic, 30)
    admin.create_subscription(topic, "new")


def _rolled_and_trimmed(admin: Admin, client: milepost.Client) -> None:
    """Several ledgers, of which the first were trimmed: the topic does not begin at index 0."""
    topic = _topic("trimmed")
    consumer = client.subscribe(topic, "reader")
    with client.create_producer(topic, batching_enabled=False) as producer:
        for number in range(30):
            producer.send(f"trimmed {number}".encode())
    last = [consumer.receive(10_000) for _ in range(20)][-1]
    consumer.acknowledge_cumulative(last)
    consumer.close()
    admin.trim_topic(topic)


def _schemas(client: milepost.Client) -> None:
    class Order(milepost.schema.Record):  # type: ignore[name-defined,misc]
        id = milepost.schema.Long(required=True)
        note = milepost.schema.String()

    topic = _topic("typed")
    with client.create_producer(topic, schema=milepost.schema.AvroSchema(Order)) as producer:
        producer.send(Order(id=7, note="paid"))


def _groups(client: milepost.Client, admin: Admin) -> None:
    """A reset subscription and a broadcast group with a member that was away."""
    topic = _topic("groups")
    consumer = client.subscribe(topic, "moved")
    _send(client, topic, 20, batching_enabled=False)
    for _ in range(20):
        consumer.acknowledge(consumer.receive(10_000))
    consumer.close()
    admin.reset_subscription(topic, "moved", index=5)
    member = client.subscribe(
        topic,
        "everyone",
        consumer_type=milepost.ConsumerType.Shared,
        consumer_name="anna",
        properties={"milepost.mode": "broadcast", "milepost.member": "anna"},
        initial_position=milepost.InitialPosition.Earliest,
    )
    for _ in range(4):
        member.acknowledge(member.receive(10_000))
    member.close()


def _delayed(client: milepost.Client) -> None:
    topic = _topic("delayed")
    client.subscribe(topic, "later", consumer_type=milepost.ConsumerType.Shared).close()
    with client.create_producer(topic) as producer:
        producer.send(b"in 2100", deliver_at=4_102_444_800_000)
        producer.send(b"now")


def _compacted(admin: Admin, client: milepost.Client) -> None:
    topic = _topic("compacted")
    _send(client, topic, 12, batching_enabled=False)
    admin.compact_topic(topic)
    while admin.get_compaction_status(topic)["status"] == "RUNNING":
        continue


def _late_acks(client: milepost.Client) -> None:
    consumer = client.subscribe(
        _topic("batched"), "holes", consumer_type=milepost.ConsumerType.Shared
    )
    for message in [consumer.receive(10_000) for _ in range(45)]:
        if message.index() in (20, 21, 22):
            consumer.acknowledge(message)
    # Not closed: the kill finds the consumer holding 42 messages.


def describe(folder: Path) -> dict[str, Any]:
    """What a broker says of the directory, in values that do not depend on when it is asked."""
    with (
        BrokerProcess(folder, **SETTINGS) as broker,
        Admin(_http(broker)) as admin,
        milepost.Client(broker.url) as client,
    ):
        topics = sorted(admin.list_topics(NAMESPACE))
        return {
            "tenants": sorted(admin.list_tenants()),
            "permissions": admin.get_namespace_permissions(NAMESPACE),
            "topics": {topic: _of_topic(client, admin, topic) for topic in topics},
        }


def _of_topic(client: milepost.Client, admin: Admin, topic: str) -> dict[str, Any]:
    internal = admin.get_internal_stats(topic)
    compacted = topic == _topic("compacted")
    rows = []
    with client.create_reader(
        topic, milepost.MessageId.earliest, is_read_compacted=compacted
    ) as reader:
        while reader.has_message_available():
            message = reader.read_next(10_000)
            rows.append(
                [
                    message.index(),
                    str(message.message_id()),
                    message.partition_key(),
                    message.properties(),
                    message.event_timestamp(),
                    hashlib.sha256(message.data()).hexdigest(),
                ]
            )
    progress = {
        row["subscription"]: {
            key: row[key] for key in ("first", "end", "acked", "inflight", "ready", "delayed")
        }
        for row in admin.get_progress(topic)
        if not row["subscription"].startswith("reader-")
    }
    return {
        "messages": rows,
        "ledgers": [[row["ledgerId"], row["entries"]] for row in internal["ledgers"]],
        "progress": progress,
    }


def main(version: str) -> None:
    FROZEN.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        with tarfile.open(FROZEN / f"{version}.tar.gz", "w:gz") as archive:
            archive.add(Path(folder) / "data", "data")
        said = describe(Path(folder))
    (FROZEN / f"{version}.json").write_text(json.dumps(said, indent=1, sort_keys=True) + "\n")
    sys.stdout.write(f"{version}: {os.path.getsize(FROZEN / f'{version}.tar.gz')} bytes\n")


if __name__ == "__main__":
    main(sys.argv[1])
