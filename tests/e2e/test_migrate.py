"""`milepost migrate` between two brokers: what arrives, what is refused, and what a killed run leaves."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from stage.security import SECURED, token

from e2e.conftest import ENVIRONMENT
from milepost import testing
from milepost.admin import Admin, Missing
from milepost.aio import Client, Message
from milepost.cli.exits import Exit
from milepost.cli.main import run
from milepost.cli.migrate.entries import Entry
from milepost.cli.migrate.side import Side
from milepost.cli.migrate.writing import EntryWriter
from milepost.client.connection.endpoint import Endpoint
from milepost.client.policies import ConsumerType, InitialPosition
from milepost.positions import Position
from milepost.positions.ids import EARLIEST
from milepost.testing.broker import BrokerForTest
from milepost.wire import pulsar_pb2 as pb

NAMESPACE = "shop/eu"
ORDERS = "persistent://shop/eu/orders"
STATES = ("acked", "inflight", "ready", "delayed")

Migrate = Callable[..., int]


class Pair(NamedTuple):
    source: BrokerForTest
    target: BrokerForTest

    @property
    def addresses(self) -> list[str]:
        return [self.source.http_url, self.target.http_url]

    def admins(self) -> tuple[Admin, Admin]:
        return Admin(self.source.http_url), Admin(self.target.http_url)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with testing.broker(http=True) as source, testing.broker(http=True) as target:
        with Admin(source.http_url) as admin:
            make_namespace(admin)
        yield Pair(source, target)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return f"persistent://{NAMESPACE}/{request.node.name}"


def at_source(pair: Pair, work: Callable[[Client], Any]) -> Any:
    return asyncio.run(_with_client(pair.source.url, work))


async def _with_client(url: str, work: Callable[[Client], Any]) -> Any:
    async with Client(url) as client:
        return await work(client)


def fields(message: Message) -> tuple[Any, ...]:
    return (
        message.data(),
        message.has_null_value(),
        message.has_key(),
        message.key_bytes(),
        message.ordering_key_bytes(),
        message.properties(),
        message.event_timestamp(),
        message.publish_timestamp(),
        message.producer_name(),
        message.sequence_id(),
        message.schema_version(),
    )


def content(broker: BrokerForTest, topic: str) -> list[tuple[Any, ...]]:
    """What a reader sees of a topic: its index, and every field of each message."""

    async def read(client: Client) -> list[tuple[Any, ...]]:
        reader = await client.create_reader(topic, EARLIEST)
        found = []
        while await reader.has_message_available():
            found.append(fields(await reader.read_next()))
        return found

    return asyncio.run(_with_client(broker.url, read))


def strip(admin: Admin, topic: str, subscription: str) -> list[list[int]]:
    found = admin.get_strip(topic, subscription, columns=2000)
    return [found[state] for state in STATES]


async def publish_all_kinds(client: Client, topic: str) -> None:
    """Batches, single messages, chunks between others, tombstones, delays, and a transaction of each end."""
    batched = await client.create_producer(
        topic, "batched", batching_enabled=True, batching_max_publish_delay_ms=1000
    )
    sent = [
        await batched.enqueue(
            b"%d" % number,
            {"n": str(number), "ü": "é"},
            f"key-{number % 3}",
            f"order-{number % 5}",
            event_timestamp=1_600_000_000_000 + number,
        )
        for number in range(20)
    ]
    await batched.flush()
    assert all([await one for one in sent])
    single = await client.create_producer(topic, "single", batching_enabled=False)
    await single.send(None, partition_key=b"\xff\x00")
    await single.send(b"", {"empty": ""})
    await single.send(b"later", deliver_at=4_000_000_000_000)
    chunked = await client.create_producer(
        topic, "chunked", chunking_enabled=True, chunk_max_size=400
    )
    await asyncio.gather(chunked.send(bytes(1000)), single.send(b"between"))
    for ends in ("commit", "abort"):
        transaction = await client.transaction()
        await single.send(ends.encode(), txn=transaction)
        await getattr(transaction, ends)()
    await single.send(b"last", sequence_id=3)  # an id that the producer had before


async def ack_in_a_pattern(client: Client, topic: str) -> None:
    """Single messages of a batch, single entries, and nothing else; another group has read a part."""
    holes = await client.subscribe(
        topic, "holes", consumer_type=ConsumerType.Shared, initial_position=InitialPosition.Earliest
    )
    for number in range(22):
        message = await holes.receive(5000)
        if number in (0, 1, 4, 7, 8, 19, 21):
            await holes.acknowledge(message)
    await holes.close()
    plain = await client.subscribe(topic, "plain", initial_position=InitialPosition.Earliest)
    for _ in range(12):
        message = await plain.receive(5000)
    await plain.acknowledge_cumulative(message)
    await plain.close()


def same_standing(pair: Pair, topic: str, subscription: str, *, aborted: int = 0) -> None:
    """Both sides have acked the same; `aborted` messages and markers are in the source alone."""
    here, there = pair.admins()
    with here, there:
        source, target = (one.get_strip(topic, subscription, columns=2000) for one in (here, there))
    cut = len(source["acked"]) - aborted - 1
    assert target["acked"][:cut] == source["acked"][:cut]
    assert len(target["acked"]) == len(source["acked"]) - aborted
    assert 0 < sum(target["acked"]) < len(target["acked"])


def test_messages_arrive_as_they_were(pair: Pair, topic: str) -> None:
    at_source(pair, lambda client: publish_all_kinds(client, topic))
    at_source(pair, lambda client: ack_in_a_pattern(client, topic))
    for _ in range(2):  # a second run finds nothing to do
        assert run(["migrate", *pair.addresses, "-t", topic]) == Exit.OK
        assert content(pair.target, topic) == content(pair.source, topic)
        for subscription in ("holes", "plain"):
            same_standing(pair, topic, subscription, aborted=3)


def test_a_second_run_brings_what_came_since(pair: Pair, topic: str) -> None:
    publish(pair.source, topic, 5)
    with Admin(pair.source.http_url) as admin:
        admin.create_subscription(topic, "group", EARLIEST)
    assert run(["migrate", *pair.addresses, "-t", topic]) == Exit.OK
    publish(pair.source, topic, 3, producer="later")
    with Admin(pair.source.http_url) as admin:
        admin.skip_messages(topic, "group", 6)
    assert run(["migrate", *pair.addresses, "-t", topic]) == Exit.OK
    assert content(pair.target, topic) == content(pair.source, topic)
    same_standing(pair, topic, "group")
    with Admin(pair.source.http_url) as admin:  # back again, behind where the target is
        admin.reset_cursor(topic, "group", EARLIEST)
        admin.skip_messages(topic, "group", 1)
    assert run(["migrate", *pair.addresses, "-t", topic]) == Exit.OK
    same_standing(pair, topic, "group")


def test_a_namespace_with_all_that_belongs_to_it(pair: Pair) -> None:
    space = "shop/whole"
    names = ["plain", "empty", "ended", "a%2Fb", "grüße %25"]
    topics = [f"persistent://{space}/{name}" for name in names]
    parted = f"persistent://{space}/parted"
    retention = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}
    quota = {"limitSize": 1 << 30, "limitTime": -1, "policy": "producer_exception"}
    versions = [
        {"type": "AVRO", "schema": avro(*fields), "properties": {"made": "by hand"}}
        for fields in (("a",), ("a", "b"))
    ]
    with Admin(pair.source.http_url) as admin:
        admin.create_namespace(space)
        admin.set_policy(space, "retention", retention)
        admin.set_policy(space, "deduplication", True)
        admin.set_policy(space, "backlogQuota", quota, backlogQuotaType="destination_storage")
        admin.grant_namespace_permission(space, "clerk", ["consume"])
        admin.create_partitioned_topic(parted, 3, {"owner": "shop"})
        admin.create_topic(topics[1], {"owner": "nobody yet"})
        admin.set_topic_policy(parted, "messageTTL", 4000)
        admin.set_topic_policy(parted, "schemaCompatibilityStrategy", "BACKWARD")
        admin.grant_topic_permission(parted, "boss", ["produce"])
        for version in versions:
            admin.create_schema(parted, version)
    for topic in (topics[0], *topics[2:], *(f"{parted}-partition-{one}" for one in (0, 2))):
        publish(pair.source, topic, 4)
    with Admin(pair.source.http_url) as admin:
        admin.terminate_topic(topics[2])
        admin.create_subscription(parted, "grüße/all", EARLIEST, properties={"a": "b"})
        admin.skip_messages(f"{parted}-partition-2", "grüße/all", 3)
    for _ in range(2):
        assert run(["migrate", *pair.addresses, "-n", space]) == Exit.OK
        here, there = pair.admins()
        with here, there:
            assert there.list_topics(space) == here.list_topics(space)
            for topic in there.list_topics(space):
                assert content(pair.target, topic) == content(pair.source, topic), topic
            for one in ("retention", "deduplication", "backlogQuotaMap", "messageTTL"):
                assert there.get_policy(space, one) == here.get_policy(space, one), one
            for one in (
                "retention",
                "messageTTL",
                "schemaCompatibilityStrategy",
                "deduplicationEnabled",
            ):
                assert there.get_topic_policy(parted, one) == here.get_topic_policy(parted, one), (
                    one
                )
                assert there.get_topic_policy(topics[0], one) is None, one
            assert there.get_namespace_permissions(space) == {"clerk": ["consume"]}
            assert there.get_topic_permissions(parted) == here.get_topic_permissions(parted)
            assert there.get_topic_properties(parted)["owner"] == "shop"
            assert there.get_topic_properties(topics[1])["owner"] == "nobody yet"
            for known in (here, there):
                found = known.get_all_schemas(parted)
                assert [(one["version"], one["data"]) for one in found] == [
                    (number, version["schema"]) for number, version in enumerate(versions)
                ]
            assert there.get_internal_stats(topics[2])["state"] == "Terminated"
            found = there.get_stats(f"{parted}-partition-2")["subscriptions"]["grüße/all"]
            assert (found["msgBacklog"], found["subscriptionProperties"]) == (1, {"a": "b"})


def avro(*fields: str) -> str:
    known = [{"name": one, "type": ["null", "string"], "default": None} for one in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": known})


def publish(
    broker: BrokerForTest, topic: str, count: int, *, producer: str = "p", size: int = 3
) -> None:
    async def work(client: Client) -> None:
        made = await client.create_producer(
            topic, producer, batching_enabled=False, block_if_queue_full=True
        )
        for number in range(count):
            await made.enqueue(b"%d" % number + bytes(size), {"n": str(number)}, f"k{number % 9}")
        await made.flush()

    asyncio.run(_with_client(broker.url, work))


def test_what_the_source_has_dropped_is_not_missed(pair: Pair, topic: str) -> None:
    with Admin(pair.source.http_url) as admin:
        admin.create_topic(topic)
        for producer in "ab":
            publish(pair.source, topic, 4, producer=producer)
            admin.unload_topic(topic)
        admin.create_subscription(topic, "group", EARLIEST)
        admin.skip_messages(topic, "group", 5)
        admin.trim_topic(topic)
        assert len(content(pair.source, topic)) < 8
    assert run(["migrate", *pair.addresses, "-t", topic]) == Exit.OK
    before = content(pair.source, topic)
    assert content(pair.target, topic) == before
    publish(pair.source, topic, 4, producer="c")
    with Admin(pair.source.http_url) as admin:  # what was copied is dropped, too
        admin.unload_topic(topic)
        admin.skip_messages(topic, "group", len(before))
        admin.trim_topic(topic)
        assert before[0] not in content(pair.source, topic)
    assert run(["migrate", *pair.addresses, "-t", topic]) == Exit.OK
    assert content(pair.target, topic)[-4:] == content(pair.source, topic)[-4:]
    with Admin(pair.target.http_url) as admin:
        assert admin.get_stats(topic)["subscriptions"]["group"]["msgBacklog"] == 3


def test_what_the_target_has_dropped_is_not_missed(pair: Pair, topic: str) -> None:
    for _ in range(2):
        publish(pair.source, topic, 4)
        assert run(["migrate", *pair.addresses, "-t", topic]) == Exit.OK
        with Admin(
            pair.target.http_url
        ) as admin:  # no subscription needs it, and no policy keeps it
            admin.unload_topic(topic)
            admin.trim_topic(topic)
    assert len(content(pair.target, topic)) < 8
    assert run(["migrate", *pair.addresses, "-t", topic]) == Exit.OK


def entry(number: int, payload: bytes) -> Entry:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=number, publish_time=1)
    raw = metadata.SerializeToString()
    return Entry(Position(0, number), None, raw, payload, 1, False, number, 0, None)


async def write(broker: BrokerForTest, topic: str, payloads: Sequence[bytes]) -> None:
    endpoint = Endpoint(admin_url=broker.http_url, url=broker.url)
    async with Side("target", endpoint) as side, EntryWriter(side, topic) as writer:
        for number, payload in enumerate(payloads):
            await writer.write(entry(number, payload))
        await writer.flush()


@pytest.mark.parametrize("at", [0, 1])
def test_a_message_that_differs_is_found(
    pair: Pair, at: int, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"persistent://{NAMESPACE}/differs-{at}"
    payloads = [b"a", b"b", b"c"]
    known = json.dumps({"source": topic, "after": None, "end": 0})
    asyncio.run(write(pair.source, topic, payloads))
    payloads[at] = b"?"
    with Admin(pair.target.http_url) as admin:
        make_namespace(admin)
        admin.create_topic(topic, {"milepost.migrate": known})
    asyncio.run(write(pair.target, topic, payloads))
    assert run(["migrate", *pair.addresses, "-t", topic]) == Exit.DATA
    told = capsys.readouterr()
    assert "differs" in told.out
    assert f"differs: {topic}: entry " in told.err


REFUSED = {
    "messages of others": lambda pair, topic: publish(pair.target, topic, 1),
    "other partitions": lambda pair, topic: _at(pair.target, "create_partitioned_topic", topic, 2),
    "no such topic": lambda pair, topic: _at(pair.source, "delete_topic", topic),
    "another schema": lambda pair, topic: _at(
        pair.target, "create_schema", topic, {"type": "AVRO", "schema": avro("z"), "properties": {}}
    ),
}


def _at(broker: BrokerForTest, call: str, *args: Any) -> None:
    with Admin(broker.http_url) as admin:
        getattr(admin, call)(*args)


@pytest.mark.parametrize("name", REFUSED)
def test_what_stands_against_it_is_said_before_the_first_write(
    pair: Pair, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"persistent://public/default/{name.replace(' ', '-')}"
    publish(pair.source, topic, 3)
    _at(
        pair.source, "create_schema", topic, {"type": "AVRO", "schema": avro("a"), "properties": {}}
    )
    other = f"{topic}-other"
    publish(pair.source, other, 1)
    REFUSED[name](pair, topic)
    code = run(["migrate", *pair.addresses, "-t", other, "-t", topic])
    told = capsys.readouterr().err
    assert code == Exit.CONFLICT, told
    assert f"refused: {topic}: " in told
    assert "nothing was written" in told
    with Admin(pair.target.http_url) as admin:
        assert other not in admin.list_topics("public/default")


def test_a_target_that_requires_encryption_is_not_written(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = "persistent://shop/sealed/t"
    for broker in pair:
        with Admin(broker.http_url) as admin:
            make_namespace(admin)
            admin.create_namespace("shop/sealed")
    publish(pair.source, topic, 1)
    with Admin(pair.target.http_url) as admin:
        admin.set_policy("shop/sealed", "encryptionRequired", True)
        assert run(["migrate", *pair.addresses, "-t", topic]) == Exit.CONFLICT
        assert "the target requires encryption there" in capsys.readouterr().err
        assert admin.list_topics("shop/sealed") == []


def test_many_holes_are_asked_for_together(pair: Pair, topic: str) -> None:
    """Every second message is acked: no column of a strip is of one state."""
    count = 6000

    async def ack(client: Client) -> None:
        producer = await client.create_producer(
            topic, batching_enabled=True, max_pending_messages=count
        )
        await asyncio.gather(*[producer.send(b"x") for _ in range(count)])
        consumer = await client.subscribe(
            topic, "g", consumer_type=ConsumerType.Shared, initial_position=InitialPosition.Earliest
        )
        messages = [await consumer.receive(5000) for _ in range(count)]
        await asyncio.gather(*[consumer.acknowledge(one) for one in messages[1::2]])
        await consumer.close()

    at_source(pair, ack)
    assert run(["migrate", *pair.addresses, "-t", topic]) == Exit.OK
    with Admin(pair.target.http_url) as admin:
        for first in range(0, count, 2000):
            found = admin.get_strip(topic, "g", first=first, end=first + 2000, columns=2000)
            assert found["acked"] == [0, 1] * 1000


@pytest.mark.parametrize("side", ["source", "target"])
def test_credentials_are_asked_before_the_first_write(
    pair: Pair, side: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILEPOST_CONTEXTS", str(tmp_path / "contexts.json"))
    topic = f"persistent://public/default/secured-{side}"
    publish(pair.source, topic, 1)
    with testing.broker(http=True, **SECURED) as guarded:
        for role in ("root", "guest"):
            line = ["context", "add", role, "--admin-url", guarded.http_url, "--token", token(role)]
            assert run(line) == Exit.OK
        ends = {"source": [pair.source.http_url], "target": [pair.target.http_url]}
        for name, code in ((guarded.http_url, Exit.AUTH), ("guest", Exit.AUTH), ("root", Exit.OK)):
            ends[side] = [name]
            scope = ["-t", topic] if side == "target" else ["-n", "public/default"]
            assert run(["migrate", *ends["source"], *ends["target"], *scope]) == code


def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    pair: Pair, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(pair.source, topic, 3)
    assert run(["migrate", *pair.addresses, "-t", topic, "--dry-run", "-o", "json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == [
        {
            "topic": topic.removeprefix("persistent://"),
            "partitions": 0,
            "entries": 3,
            "held": 0,
            "schemas": 0,
            "subscriptions": 0,
            "policies": [],
            "action": "create",
        }
    ]
    # The namespace may be missing there too: no other test has to come before this one.
    with Admin(pair.target.http_url) as admin, pytest.raises(Missing):
        admin.get_stats(topic)


def test_a_target_that_others_have_changed_is_not_written(
    pair: Pair, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(pair.source, topic, 3)
    assert run(["migrate", *pair.addresses, "-t", topic]) == Exit.OK
    publish(pair.source, topic, 3, producer="more")
    publish(pair.target, topic, 1, producer="stranger")
    capsys.readouterr()
    assert run(["migrate", *pair.addresses, "-t", topic]) != Exit.OK
    assert "what the target holds is not what the source begins with" in capsys.readouterr().err
    assert len(content(pair.target, topic)) == 4


class Killed:
    """`milepost migrate` as a process that is killed when the target has so many messages."""

    def __init__(self, pair: Pair, topic: str) -> None:
        self.pair, self.topic = pair, topic
        self.line = [
            sys.executable,
            "-m",
            "milepost.cli.main",
            "migrate",
            *pair.addresses,
            "-t",
            topic,
        ]

    def held(self) -> int:
        with Admin(self.pair.target.http_url) as admin:
            try:
                ledgers = admin.get_internal_stats(self.topic)["ledgers"]
            except Missing:
                return 0
            return int(ledgers[-1]["endIndex"]) if ledgers else 0

    def run(self, until: int, by: signal.Signals = signal.SIGKILL) -> int:
        """How many the target had when it was stopped."""
        process = subprocess.Popen(
            self.line, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            while process.poll() is None and self.held() < until:
                time.sleep(0.005)  # sleep: between two looks at another process
        finally:
            process.send_signal(by)
            process.wait()
        return self.held()


def make_namespace(admin: Admin) -> None:
    if "shop" not in admin.list_tenants():
        admin.create_tenant("shop")
    if NAMESPACE not in admin.list_namespaces("shop"):
        admin.create_namespace(NAMESPACE)


def test_a_killed_run_goes_on_where_it_stopped(pair: Pair, topic: str) -> None:
    total = 3000
    publish(pair.source, topic, total, size=200)
    with Admin(pair.source.http_url) as admin:
        admin.create_subscription(topic, "group", EARLIEST)
        admin.skip_messages(topic, "group", 1234)
    slow = {"publishThrottlingRateInMsg": 1000, "publishThrottlingRateInByte": -1}
    with Admin(pair.target.http_url) as admin:
        make_namespace(admin)
        admin.set_policy(NAMESPACE, "publishRate", slow)
        runs = Killed(pair, topic)
        ends = [runs.run(until) for until in (1, total // 2)]
        assert 0 < ends[0] < total, "it was not killed on its way"
        admin.remove_policy(NAMESPACE, "publishRate")
        runs.run(total)
    assert run(["migrate", *pair.addresses, "-t", topic]) == Exit.OK
    assert content(pair.target, topic) == content(pair.source, topic)
    with Admin(pair.target.http_url) as admin:
        found = admin.get_stats(topic)["subscriptions"]["group"]
        assert found["msgBacklog"] == total - 1234
        assert admin.get_topic_policy(topic, "retention") is None


def test_a_source_that_dies_on_the_way(tmp_path: Path, pair: Pair, topic: str) -> None:
    data = tmp_path / "data"
    with testing.broker(http=True, data=data, dispatch_rate_messages=1000) as source:
        with Admin(source.http_url) as admin:
            make_namespace(admin)
        publish(source, topic, 3000)
        runs = Killed(Pair(source, pair.target), topic)
        process = subprocess.Popen(
            runs.line, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        while process.poll() is None and runs.held() < 10:
            time.sleep(0.005)  # sleep: between two looks at another process
    _, told = process.communicate(timeout=60)
    assert process.returncode == Exit.CONNECT, told
    with testing.broker(http=True, data=data) as source:
        again = Pair(source, pair.target)
        assert 10 <= runs.held() < 3000
        assert run(["migrate", *again.addresses, "-t", topic]) == Exit.OK
        assert content(pair.target, topic) == content(source, topic)
