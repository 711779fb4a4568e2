"""Workers of one process: what one changes in the registry the others obey, and nobody else's topics are
served."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from stage.worker_group import WorkerGroup, worker_group

from milepost.broker.auth.grants import Grants
from milepost.broker.auth.operations import Action
from milepost.broker.broker import Broker
from milepost.broker.directory.directory import DELETED_BY, NAMESPACES
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.broker.transactions.coordinator import COORDINATOR_TOPIC
from milepost.broker.workers import calls, workers
from milepost.broker.workers.link import Answer as LinkAnswer
from milepost.broker.workers.link import Doc
from milepost.broker.workers.workers import ClusterSeat, delete_namespace
from milepost.errors import (
    AlreadyExists,
    Fenced,
    NotFound,
    SchemaNotFound,
    ServiceNotReady,
    ShardAway,
    TooManyRequests,
    TopicNotFound,
    TransactionCoordinatorNotFound,
)
from milepost.positions.names import NamespaceName, TopicName
from milepost.schemas.types import SchemaInfo, SchemaType
from milepost.storage import registry
from milepost.storage.cluster.load import SharedLoads
from milepost.storage.cluster.right import SharedRight

SHOP = NamespaceName.parse("acme/shop")
Play = Callable[[WorkerGroup], Awaitable[None]]


def run(data: Path, play: Play, count: int = 2, **settings: object) -> None:
    async def played() -> None:
        async with worker_group(data, count, **settings) as group:
            await play(group)

    asyncio.run(played())


async def make_shop(group: WorkerGroup) -> None:
    await group.brokers[0].directory.create_tenant("acme", {})
    await group.brokers[1].directory.create_namespace(SHOP, {})


def test_what_one_changes_every_one_knows_when_it_is_answered(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        await make_shop(group)
        for number in range(3):
            directory = group.brokers[number].directory
            assert directory.namespaces("acme") == ["acme/shop"]
        retention = {"retentionTimeInMinutes": 5, "retentionSizeInMB": 1}
        assert (await group.call(0, "POST", RETENTION, retention)).status == 204
        assert (await group.call(2, "POST", GRANT, ["consume"])).status == 204
        key = "maxProducersPerTopic"
        changed = await group.call(1, "POST", f"/admin/v2/brokers/configuration/{key}/7")
        assert changed.status == 200
        for number in range(3):
            broker = group.brokers[number]
            found = broker.policies.book.values(Level.NAMESPACE, "acme/shop")
            assert found["retention"] == retention
            assert broker.settings.max_producers_per_topic == 7
            told = await group.call(number, "GET", GRANT.rpartition("/")[0])
            assert told.json == {"bob": ["consume"]}

    run(tmp_path, play, count=3)


RETENTION = "/admin/v2/namespaces/acme/shop/retention"
GRANT = "/admin/v2/namespaces/acme/shop/permissions/bob"
NAMESPACE = "/admin/v2/namespaces/acme/shop"
LIMIT = f"{NAMESPACE}/maxProducersPerTopic"


def test_a_policy_that_another_worker_sets_is_in_force_for_topics_that_are_open(
    tmp_path: Path,
) -> None:
    async def play(group: WorkerGroup) -> None:
        await make_shop(group)
        topics = [
            await group.brokers[number].topic(
                TopicName.parse(group.names(number, namespace="acme/shop")[0])
            )
            for number in range(2)
        ]
        path = "/admin/v2/namespaces/acme/shop/maxProducersPerTopic"
        assert (await group.call(0, "POST", path, 3)).status == 204
        assert [one.policies.max_producers for one in topics] == [3, 3]
        assert (await group.call(1, "DELETE", path)).status == 204
        assert [one.policies.max_producers for one in topics] == [0, 0]

    run(tmp_path, play)


def test_what_a_worker_changes_while_it_follows_another_stays(tmp_path: Path) -> None:
    """It reads the registry, then its own change comes into it: what it has read is older."""

    async def play(group: WorkerGroup) -> None:
        await make_shop(group)
        broker = group.brokers[0]
        workers = broker.workers
        assert workers is not None
        policy = POLICIES["max_producers"]
        granted = Grants().with_namespace_role("bob", {Action.CONSUME})
        done = threading.Event()
        tasks = [
            asyncio.create_task(one)
            for one in (
                workers.follow(),
                broker.policies.book.set(Level.NAMESPACE, "acme/shop", policy, 3),
                broker.access_control.grants.edit(SHOP, lambda _: granted),
                broker.dynamic.set("maxProducersPerTopic", "7"),
                workers.registry(lambda _: done.set()),
            )
        ]
        await asyncio.sleep(0)  # each is on its way to the registry
        # The loop stands still until all of them are done there, and hears of them at once.
        assert done.wait(10)
        await asyncio.gather(*tasks)
        assert broker.policies.book.values(Level.NAMESPACE, "acme/shop") == {policy.name: 3}
        assert broker.access_control.grants.of(SHOP) == granted
        assert broker.settings.max_producers_per_topic == 7

    run(tmp_path, play)


def test_of_two_that_make_the_same_at_once_one_is_told_that_it_exists(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        makers = [group.brokers[n].directory.create_tenant("acme", {"n": n}) for n in range(2)]
        outcomes = await asyncio.gather(*makers, return_exceptions=True)
        assert sorted(type(one) for one in outcomes if one is not None) == [AlreadyExists]
        winner = outcomes.index(None)
        for number in range(2):
            workers = group.brokers[number].workers
            assert workers is not None
            await workers.follow()
            assert group.brokers[number].directory.tenant("acme") == {"n": winner}

    run(tmp_path, play)


def test_a_tenant_is_not_deleted_under_a_namespace_that_another_worker_makes(
    tmp_path: Path,
) -> None:
    async def play(group: WorkerGroup) -> None:
        await group.brokers[0].directory.create_tenant("acme", {})
        outcomes = await asyncio.gather(
            group.brokers[0].directory.delete_tenant("acme"),
            group.brokers[1].directory.create_namespace(SHOP, {}),
            return_exceptions=True,
        )
        refused = [one for one in outcomes if one is not None]
        assert len(refused) == 1
        assert isinstance(refused[0], AlreadyExists | NotFound)

    run(tmp_path, play)


# -- topics ------------------------------------------------------------------------------------------


def test_a_topic_is_opened_by_its_own_worker_alone(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        name = TopicName.parse(group.names(1)[0])
        with pytest.raises(ServiceNotReady, match="is served by worker 1: look it up again"):
            await group.brokers[0].topic(name)
        await group.brokers[1].topic(name)
        for broker in group.brokers.values():
            assert broker.lookup_url(name=name) == "pulsar://127.0.0.1:6651"
            assert await calls.topics(broker, "public/default", "ALL") == [str(name)]

    run(tmp_path, play)


def test_partitions_and_schemas_are_asked_of_the_worker_that_has_them(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        plain, parted = map(TopicName.parse, group.names(1))
        asking, owner = group.brokers[0], group.brokers[1]
        assert await calls.partitions(asking, plain, create=True) == (0, False)
        await owner.topic(plain)
        await owner.directory.create_partitioned(parted, 3)
        assert await calls.partitions(asking, plain, create=False) == (0, True)
        assert await calls.partitions(asking, parted, create=False) == (3, True)
        with pytest.raises(SchemaNotFound, match=f"{plain} has no schema"):
            await calls.schema(asking, plain, None)
        info = SchemaInfo("s", SchemaType.STRING, b"", {"a": "b"})
        await owner.schemas.admit_producer(plain, info)
        for broker in (asking, owner):
            found, number = await calls.schema(broker, plain, None)
            assert (found.type, number, found.properties[0].value) == (SchemaType.STRING, 0, "b")
        nowhere = TopicName.parse(group.names(1, namespace="acme/none")[0])
        with pytest.raises(TopicNotFound, match="namespace acme/none"):
            await calls.partitions(asking, nowhere, create=True)

    run(tmp_path, play)


def test_topics_are_partitioned_by_default_by_their_own_worker(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        name = TopicName.parse(group.names(1)[0])
        assert await calls.partitions(group.brokers[0], name, create=True) == (4, True)
        assert group.brokers[1].directory.partitions(name) == 4
        assert group.brokers[0].directory.partitions(name) is None

    run(
        tmp_path,
        play,
        allow_auto_topic_creation_type="partitioned",
        default_num_partitions=4,
    )


def test_the_topics_of_a_namespace_are_counted_at_all_workers(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        for number in range(2):
            await group.brokers[number].topic(TopicName.parse(group.names(number)[0]))
        for number in range(2):
            with pytest.raises(TooManyRequests, match="has 2 topics already"):
                await group.brokers[number].topic(TopicName.parse(group.names(number)[1]))

    run(tmp_path, play, max_topics_per_namespace=2)


def test_each_worker_has_the_coordinator_of_its_number(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        for number, broker in group.brokers.items():
            broker.transactions.check_coordinator(number)
            with pytest.raises(TransactionCoordinatorNotFound):
                broker.transactions.check_coordinator(1 - number)
            assert await broker.partitions_of(TopicName.parse(COORDINATOR_TOPIC)) == 2
            name = TopicName.parse(f"{COORDINATOR_TOPIC}-partition-{1 - number}")
            assert broker.lookup_url("", name) == f"pulsar://127.0.0.1:{6651 - number}"

    run(tmp_path, play)


def test_a_consumer_that_is_closed_is_sent_back_to_its_own_worker(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        name = TopicName.parse(group.names(1)[0])
        url, _ = group.brokers[1].return_urls(name)
        assert url == "pulsar://127.0.0.1:6651"

    run(tmp_path, play)


def test_a_question_to_an_owner_that_is_away_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "ATTEMPT_S", 0.2)

    async def play(group: WorkerGroup) -> None:
        (name,) = map(TopicName.parse, group.names(1, 1))
        await group.brokers[1].create_partitioned_topic(name, 3)
        await group.stop(1)
        asking = asyncio.ensure_future(calls.partitions(group.brokers[0], name, create=False))
        await asyncio.sleep(0.5)  # sleep: two attempts
        assert not asking.done()
        await group.start(1)
        assert await asking == (3, True)
        await group.stop(1)
        monkeypatch.setattr(workers, "TIMEOUT_S", 0.1)
        with pytest.raises(ServiceNotReady, match="worker 1 does not answer"):
            await calls.partitions(group.brokers[0], name, create=False)

    run(tmp_path, play)


def test_a_shard_on_its_way_to_another_broker_is_waited_for_and_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(group: WorkerGroup) -> None:
        there, broker = group.brokers[1].workers, group.brokers[0]
        assert there is not None
        (name,) = group.names(1, 1)
        await group.brokers[1].topic(TopicName.parse(name))
        await there.gate.close()
        asking = [
            asyncio.ensure_future(calls.topics(broker, "public/default", "ALL")),
            asyncio.ensure_future(
                calls.count_elsewhere(broker, NamespaceName.parse("public/default"))
            ),
            asyncio.ensure_future(delete_namespace(broker, NamespaceName.parse("public/default"))),
        ]
        await asyncio.sleep(0.2)  # sleep: some attempts
        assert not any(one.done() for one in asking)
        there.gate.is_open = True
        topics, count, deleted = await asyncio.gather(*asking, return_exceptions=True)
        assert (topics, count) == ([name], 1)
        assert isinstance(deleted, AlreadyExists)
        await there.gate.close()
        monkeypatch.setattr(workers, "OWNED_S", 0.0)
        with pytest.raises(ShardAway):
            await calls.topics(broker, "public/default", "ALL")

    run(tmp_path, play)


# -- deleting a namespace ----------------------------------------------------------------------------


def marks(data: Path) -> list[str]:
    """Namespaces that are marked in the registry."""
    with sqlite3.connect(data / registry.FILE) as database:
        rows = database.execute("select name, doc from docs where folder = ?", (NAMESPACES,))
        found = [name for name, doc in rows if DELETED_BY in doc]
    database.close()
    return found


def test_a_namespace_is_deleted_when_no_worker_has_a_topic_in_it(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        await make_shop(group)
        name = TopicName.parse(group.names(1, namespace="acme/shop")[0])
        await group.brokers[1].topic(name)
        with pytest.raises(AlreadyExists, match="acme/shop still has topics"):
            await delete_namespace(group.brokers[0], SHOP)
        assert marks(tmp_path) == []
        path = f"/admin/v2/{name.text.replace('://', '/')}"
        assert (await group.call(0, "DELETE", path)).status == 204
        await delete_namespace(group.brokers[0], SHOP)
        for number, broker in group.brokers.items():
            assert broker.directory.namespaces("acme") == []
            own = TopicName.parse(group.names(number, namespace="acme/shop")[0])
            with pytest.raises(TopicNotFound, match="namespace acme/shop of topic"):
                await broker.topic(own)

    run(tmp_path, play)


def test_no_worker_makes_a_topic_in_a_namespace_that_is_being_deleted(tmp_path: Path) -> None:
    """Races of a deletion with a topic of another worker: never both."""

    async def play(group: WorkerGroup) -> None:
        await group.brokers[0].directory.create_tenant("acme", {})
        name = TopicName.parse(group.names(1, namespace="acme/shop")[0])
        await group.brokers[1].directory.create_namespace(SHOP, {})
        began = time.monotonic()
        await delete_namespace(group.brokers[0], SHOP)
        took_s = time.monotonic() - began
        for turn in range(20):
            await group.brokers[1].directory.create_namespace(SHOP, {})

            async def later(turn: int = turn) -> None:
                await asyncio.sleep(turn / 20 * took_s)  # sleep: another moment each time
                await group.brokers[1].topic(name)

            deleted, made = await asyncio.gather(
                delete_namespace(group.brokers[0], SHOP), later(), return_exceptions=True
            )
            assert (deleted is None) != (made is None), (deleted, made)
            if made is None:
                path = f"/admin/v2/{name.text.replace('://', '/')}"
                assert (await group.call(1, "DELETE", path)).status == 204
                await delete_namespace(group.brokers[0], SHOP)

    run(tmp_path, play)


def behind_uses(broker: Broker, then: Callable[[], Awaitable[object]]) -> None:
    """Do something when a worker has said whether it uses a namespace, and is not heard yet."""
    link = broker.workers.link  # type: ignore[union-attr]
    real = link.answers["uses"]

    async def uses(said: Doc, body: bytes) -> LinkAnswer:
        answer = await real(said, body)
        await then()
        return answer

    link.answers["uses"] = uses


def test_a_worker_that_was_not_told_of_a_deletion_knows_of_it_when_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was busy when it was told. "No topic here" has to hold until the namespace is gone."""
    monkeypatch.setattr("milepost.broker.workers.workers.WATCH_S", 3600.0)

    async def play(group: WorkerGroup) -> None:
        await make_shop(group)
        other = group.brokers[1]
        name = TopicName.parse(group.names(1, namespace="acme/shop")[0])
        outcome: list[object] = []

        async def refuse(said: Doc, body: bytes) -> LinkAnswer:
            raise ServiceNotReady("busy")

        async def make() -> None:
            outcome.extend(await asyncio.gather(other.topic(name), return_exceptions=True))

        other.workers.link.answers["follow"] = refuse  # type: ignore[union-attr]
        behind_uses(other, make)
        await delete_namespace(group.brokers[0], SHOP)
        assert isinstance(outcome[0], TopicNotFound), "a topic of a namespace that is gone"

    run(tmp_path, play)


def test_a_deletion_whose_mark_the_next_owner_has_taken_back_is_given_up(tmp_path: Path) -> None:
    """The process that deletes was paused, and its shard is another's by now: that one takes the mark back,
    and topics are made again. The same for a deletion that the other one has begun."""

    async def play(group: WorkerGroup) -> None:
        await make_shop(group)
        other = group.brokers[1]
        name = TopicName.parse(group.names(1, namespace="acme/shop")[0])

        async def take_over() -> None:
            await other.directory.forget_deletions(0)
            await other.topic(name)
            await other.directory.mark_deletion(SHOP, 0)

        behind_uses(other, take_over)
        with pytest.raises(ServiceNotReady, match="acme/shop is in use again"):
            await delete_namespace(group.brokers[0], SHOP)
        assert marks(tmp_path) == ["acme/shop"], "it is that of the next owner"
        assert other.directory.namespaces("acme") == ["acme/shop"]

    run(tmp_path, play)


def test_a_deletion_whose_mark_an_earlier_release_has_taken_back_is_given_up(
    tmp_path: Path,
) -> None:
    """Brokers of both are in one cluster while it is upgraded; that one knows of one field only."""

    async def play(group: WorkerGroup) -> None:
        await make_shop(group)
        directory = group.brokers[1].directory

        async def take_over() -> None:
            await directory.change_namespace(
                SHOP, lambda doc: {key: doc[key] for key in doc if key != DELETED_BY}
            )

        behind_uses(group.brokers[1], take_over)
        with pytest.raises(ServiceNotReady, match="acme/shop is in use again"):
            await delete_namespace(group.brokers[0], SHOP)
        assert directory.namespaces("acme") == ["acme/shop"]

    run(tmp_path, play)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_process_that_has_lost_its_shard_does_not_say_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """The next owner may have made a topic there before it heard of the mark."""
    monkeypatch.setattr("milepost.broker.workers.workers.OWNED_S", 0.1)

    async def play(group: WorkerGroup) -> None:
        await make_shop(group)

        async def fenced() -> None:
            raise Fenced("another broker has claimed it")

        monkeypatch.setattr(group.brokers[lost].engine, "prove_claim", fenced)
        with pytest.raises(ShardAway, match=f"shard {lost} is served elsewhere"):
            await delete_namespace(group.brokers[0], SHOP)
        assert marks(tmp_path) == []
        assert group.brokers[0].directory.namespaces("acme") == ["acme/shop"]

    run(tmp_path, play)


def test_a_namespace_leaves_nothing_to_the_next_one_of_its_name_whatever_dies(
    tmp_path: Path,
) -> None:
    """Its grants would be rights of roles that nobody has given them."""

    async def play(group: WorkerGroup) -> None:
        await make_shop(group)
        broker = group.brokers[0]
        grants = Grants(namespace={"guest": frozenset({Action.CONSUME})})
        await broker.access_control.grants.edit(SHOP, lambda _: grants)
        policy = POLICIES["max_producers"]
        await broker.policies.book.set(Level.NAMESPACE, SHOP.text, policy, 3)
        await delete_namespace(broker, SHOP)
        group.cut(0)  # before the rest of the call
        broker = await group.restart(0)
        await broker.directory.create_namespace(SHOP, {})
        broker = await group.restart(0)
        for one in group.brokers.values():
            assert one.access_control.grants.of(SHOP) == Grants()
            assert one.policies.book.values(Level.NAMESPACE, SHOP.text) == {}

    run(tmp_path, play)


def test_a_deletion_takes_nothing_from_the_next_namespace_of_its_name(tmp_path: Path) -> None:
    """Another worker makes the namespace anew as soon as it is gone; the worker that has deleted the former
    one goes on with its call only then."""

    async def play(group: WorkerGroup) -> None:
        await make_shop(group)
        assert (await group.call(0, "POST", GRANT, ["consume"])).status == 204
        assert (await group.call(0, "POST", LIMIT, 3)).status == 204
        workers = group.brokers[0].workers
        assert workers is not None
        assert isinstance(workers.registry, registry.Registry)
        tell, is_gone, goes_on = workers.registry._on_change, asyncio.Event(), asyncio.Event()

        async def told_late() -> None:
            await tell()
            if not group.brokers[1].directory.namespaces("acme"):
                is_gone.set()
                await goes_on.wait()

        workers.registry._on_change = told_late
        deleting = asyncio.ensure_future(group.call(0, "DELETE", NAMESPACE))
        await is_gone.wait()
        assert (await group.call(1, "PUT", NAMESPACE)).status == 204
        assert (await group.call(1, "POST", GRANT, ["produce"])).status == 204
        assert (await group.call(1, "POST", LIMIT, 7)).status == 204
        goes_on.set()
        assert (await deleting).status == 204
        for number in range(2):
            assert (await group.call(number, "GET", LIMIT)).json == 7
            granted = await group.call(number, "GET", GRANT.rpartition("/")[0])
            assert granted.json == {"bob": ["produce"]}

    run(tmp_path, play)


@pytest.mark.parametrize("what", ["policy", "grant"])
def test_what_is_set_for_a_namespace_that_is_gone_meanwhile_is_refused(
    tmp_path: Path, what: str
) -> None:
    """Else the next namespace of its name would begin with it."""

    async def play(group: WorkerGroup) -> None:
        await make_shop(group)
        workers = group.brokers[1].workers
        assert workers is not None

        async def is_told_of_nothing() -> None:
            """It has much to do."""

        workers.follow = is_told_of_nothing  # type: ignore[method-assign]
        await group.brokers[0].directory.delete_namespace(SHOP)
        if what == "policy":
            answer = await group.call(1, "POST", LIMIT, 3)
        else:
            answer = await group.call(1, "POST", GRANT, ["consume"])
        assert (answer.status, answer.reason) == (404, "namespace acme/shop does not exist")
        await group.brokers[0].directory.create_namespace(SHOP, {})
        assert (await group.call(0, "GET", LIMIT)).body == b""
        assert (await group.call(0, "GET", GRANT.rpartition("/")[0])).json == {}

    run(tmp_path, play)


def test_a_worker_whose_shard_is_on_its_way_tells_what_others_have_changed_since(
    tmp_path: Path,
) -> None:
    """The next owner of the shard is told of the change in its place; it still has connections of HTTP."""

    async def play(group: WorkerGroup) -> None:
        await make_shop(group)
        workers = group.brokers[1].workers
        assert workers is not None
        assert workers._watching is not None
        workers._watching.cancel()  # it looks by itself once a second
        name = group.names(1, namespace="acme/shop")[0]
        topic = await group.brokers[1].topic(TopicName.parse(name))
        await workers.gate.close()
        assert (await group.call(0, "POST", LIMIT, 3)).status == 204
        assert (await group.call(1, "GET", LIMIT)).json == 3
        assert topic.policies.max_producers == 0, "the next owner has it in force"
        assert (await group.call(0, "PUT", f"{NAMESPACE}-2")).status == 204
        assert (await group.call(1, "POST", f"{NAMESPACE}-2/messageTTL", 60)).status == 204
        listed = await group.call(1, "GET", "/admin/v2/namespaces/acme")
        assert listed.json == ["acme/shop", "acme/shop-2"]

    run(tmp_path, play)


def test_a_namespace_is_made_with_all_that_is_asked_for_or_not_at_all(tmp_path: Path) -> None:
    """Its policies and grants are part of the change that makes it: no other worker sees it without."""

    async def play(group: WorkerGroup) -> None:
        await group.brokers[0].directory.create_tenant("acme", {})
        workers = group.brokers[1].workers
        assert workers is not None
        follow, seen = workers.follow, list[tuple[object, object]]()

        async def noted() -> None:
            await follow()
            broker = group.brokers[1]
            values = broker.policies.book.values(Level.NAMESPACE, SHOP.text)
            seen.append((values, broker.access_control.grants.of(SHOP)))

        workers.follow = noted  # type: ignore[method-assign]
        right = {
            "max_producers_per_topic": 3,
            "message_ttl_in_seconds": 60,
            "auth_policies": {"namespace_auth": {"bob": ["consume"]}},
        }
        assert (await group.call(0, "PUT", NAMESPACE, right)).status == 204
        assert len(seen) == 1
        for number in range(2):
            broker = group.brokers[number]
            values = broker.policies.book.values(Level.NAMESPACE, SHOP.text)
            grants = broker.access_control.grants.of(SHOP)
            assert seen == [(values, grants)]
            assert (await group.call(number, "GET", LIMIT)).json == 3
            assert grants == Grants(namespace={"bob": frozenset({Action.CONSUME})})

    run(tmp_path, play)


def test_a_worker_that_does_not_answer_keeps_a_namespace_from_being_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(group: WorkerGroup) -> None:
        await make_shop(group)
        link = group.brokers[1].workers.link  # type: ignore[union-attr]
        del link.answers["uses"]
        with pytest.raises(ServiceNotReady):
            await delete_namespace(group.brokers[0], SHOP)
        assert marks(tmp_path) == []
        assert SHOP.text in group.brokers[0].directory.namespaces("acme")

    run(tmp_path, play)


def test_a_worker_that_was_killed_over_a_deletion_takes_its_mark_back(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        await make_shop(group)
        await group.brokers[1].directory.mark_deletion(SHOP, 1)
        name = TopicName.parse(group.names(0, namespace="acme/shop")[0])
        with pytest.raises(TopicNotFound):
            await group.brokers[0].topic(name)
        with pytest.raises(ServiceNotReady, match="acme/shop is being deleted"):
            await delete_namespace(group.brokers[0], SHOP)
        await group.stop(1)
        await group.start(1)
        assert marks(tmp_path) == []
        await group.brokers[0].topic(name)

    run(tmp_path, play)


def test_a_worker_that_was_not_told_finds_the_change_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the worker that made it was killed before it could tell."""
    monkeypatch.setattr("milepost.broker.workers.workers.WATCH_S", 0.01)

    async def play(group: WorkerGroup) -> None:
        for broker in group.brokers.values():
            assert broker.workers is not None
            del broker.workers.link.answers["follow"]
        await group.brokers[0].directory.create_tenant("acme", {})
        async with asyncio.timeout(10):
            while "acme" not in group.brokers[1].directory.tenants():
                await asyncio.sleep(0.01)  # sleep: between two looks

    run(tmp_path, play)


def test_a_change_is_in_force_at_the_next_owner_of_a_shard_that_was_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The former owner refuses to be told, and the next one has read the registry already."""
    monkeypatch.setattr("milepost.broker.workers.workers.WATCH_S", 3600.0)

    async def play(group: WorkerGroup) -> None:
        workers = group.brokers[1].workers
        assert workers is not None
        workers.gate.is_open = False

        async def open_again() -> None:
            await asyncio.sleep(0.2)  # sleep: meanwhile the change is told
            workers.gate.is_open = True

        opening = asyncio.ensure_future(open_again())
        await group.brokers[0].directory.create_tenant("acme", {})
        assert group.brokers[1].directory.tenants() == group.brokers[0].directory.tenants()
        await opening

    run(tmp_path, play)


def test_a_process_whose_shard_goes_to_another_broker_tells_the_next_owner_of_its_changes_too(
    tmp_path: Path,
) -> None:
    """That one has read the registry when it was claimed, and serves already."""

    async def play(group: WorkerGroup) -> None:
        workers = group.brokers[0].workers
        assert workers is not None
        told: list[int] = []

        async def ask(number: int, call: str, *_: object, **__: object) -> tuple[Doc, bytes]:
            assert call == "follow"
            told.append(number)
            return {}, b""

        workers.link.ask = ask  # type: ignore[method-assign]
        await group.brokers[0].directory.create_tenant("one", {})
        assert sorted(told) == [1, 2]
        seat = ClusterSeat("b", 1, SharedRight(), SharedLoads(3))
        workers.place = replace(workers.place, seat=seat)
        await workers.gate.close()
        told.clear()
        await group.brokers[0].directory.create_tenant("two", {})
        assert sorted(told) == [0, 1, 2]

    run(tmp_path, play, count=3)


def test_a_shard_without_an_owner_holds_a_change_up_no_longer_than_it_takes_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that comes by then has looked at the registry by itself."""
    monkeypatch.setattr("milepost.broker.workers.workers.WATCH_S", 0.1)

    async def play(group: WorkerGroup) -> None:
        workers = group.brokers[1].workers
        assert workers is not None
        workers.gate.is_open = False
        began = time.monotonic()
        await group.brokers[0].directory.create_tenant("acme", {})
        assert 0.1 <= time.monotonic() - began < 3.0
        workers.gate.is_open = True

    run(tmp_path, play)
