"""Any worker answers every request: for its own topics, for another's, and for all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from stage.worker_group import WorkerGroup, worker_group

from milepost.broker.workers import link
from milepost.errors import CutOff
from milepost.positions.names import TopicName
from milepost.rest import absent
from milepost.rest.app import RESOURCES
from milepost.rest.resources import policies
from milepost.rest.workers import forwarding
from milepost.rest.workers.everywhere import EVERYWHERE, OF_COORDINATOR, REFUSED
from milepost.storage.engine import StorageEngine
from milepost.storage.interface import Engine

Play = Callable[[WorkerGroup], Awaitable[None]]


def run(data: Path, play: Play, **settings: object) -> None:
    async def played() -> None:
        async with worker_group(data, 2, **settings) as group:
            await play(group)

    asyncio.run(played())


def path_of(name: str) -> str:
    return f"/admin/v2/{name.replace('://', '/')}"


async def same(group: WorkerGroup, method: str, target: str, body: object = None) -> Any:
    """What both workers answer to a question, which is the same."""
    one, other = [await group.call(number, method, target, body) for number in range(2)]
    assert (one.status, one.body) == (other.status, other.body)
    assert one.status == 200, one.body
    return one.json


# -- every route has been thought of -----------------------------------------------------------------

# Routes without a topic in their path that any worker answers by itself: the registry has what they are
# about, every worker is the same in it, or it is about the worker that is asked.
HERE = """
GET /milepost/v1/session
GET /admin/v2/tenants
GET /admin/v2/tenants/{tenant}
PUT /admin/v2/tenants/{tenant}
POST /admin/v2/tenants/{tenant}
DELETE /admin/v2/tenants/{tenant}
GET /admin/v2/namespaces/{tenant}
GET /admin/v2/namespaces/{tenant}/{namespace}
PUT /admin/v2/namespaces/{tenant}/{namespace}
DELETE /admin/v2/namespaces/{tenant}/{namespace}
GET /admin/v2/namespaces/{tenant}/{namespace}/properties
PUT /admin/v2/namespaces/{tenant}/{namespace}/properties
DELETE /admin/v2/namespaces/{tenant}/{namespace}/properties
GET /admin/v2/namespaces/{tenant}/{namespace}/property/{key}
PUT /admin/v2/namespaces/{tenant}/{namespace}/property/{key}/{value}
DELETE /admin/v2/namespaces/{tenant}/{namespace}/property/{key}
GET /admin/v2/namespaces/{tenant}/{namespace}/bundles
GET /admin/v2/namespaces/{tenant}/{namespace}/offloadThreshold
PUT /admin/v2/namespaces/{tenant}/{namespace}/offloadThreshold
GET /admin/v2/namespaces/{tenant}/{namespace}/offloadThresholdInSeconds
PUT /admin/v2/namespaces/{tenant}/{namespace}/offloadThresholdInSeconds
GET /admin/v2/namespaces/{tenant}/{namespace}/offloadDeletionLagMs
PUT /admin/v2/namespaces/{tenant}/{namespace}/offloadDeletionLagMs
DELETE /admin/v2/namespaces/{tenant}/{namespace}/offloadDeletionLagMs
GET /admin/v2/namespaces/{tenant}/{namespace}/replication
POST /admin/v2/namespaces/{tenant}/{namespace}/replication
GET /admin/v2/namespaces/{tenant}/{namespace}/allowedClusters
POST /admin/v2/namespaces/{tenant}/{namespace}/allowedClusters
POST /admin/v2/namespaces/{tenant}/{namespace}/migration
GET /admin/v2/resourcegroups
GET /admin/v2/resourcegroups/{name}
DELETE /admin/v2/resourcegroups/{name}
GET /admin/v2/namespaces/{tenant}/{namespace}/resourcegroup
DELETE /admin/v2/namespaces/{tenant}/{namespace}/resourcegroup
GET /admin/v2/namespaces/{tenant}/{namespace}/schemaAutoUpdateCompatibilityStrategy
PUT /admin/v2/namespaces/{tenant}/{namespace}/schemaAutoUpdateCompatibilityStrategy
GET /admin/v2/namespaces/{cluster}/antiAffinity/{group}
GET /admin/v2/clusters
GET /admin/v2/clusters/{cluster}
PUT /admin/v2/clusters/{cluster}
GET /admin/v2/clusters/{cluster}/peers
GET /admin/v2/clusters/{cluster}/failureDomains
GET /admin/v2/clusters/{cluster}/failureDomains/{domain_name}
GET /admin/v2/clusters/{cluster}/namespaceIsolationPolicies/brokers/{broker_id}
GET /admin/v2/clusters/{cluster}/namespaceIsolationPolicies/{policy}
GET /admin/v2/clusters/{cluster}/namespaceIsolationPolicies
GET /admin/v2/namespaces/{tenant}/{namespace}/permissions
POST /admin/v2/namespaces/{tenant}/{namespace}/permissions/{role}
DELETE /admin/v2/namespaces/{tenant}/{namespace}/permissions/{role}
GET /admin/v2/namespaces/{tenant}/{namespace}/permissions/subscription
POST /admin/v2/namespaces/{tenant}/{namespace}/permissions/subscription/{named}
DELETE /admin/v2/namespaces/{tenant}/{namespace}/permissions/{named}/{role}
GET /admin/v2/namespaces/{tenant}/{namespace}/subscriptionAuthMode
POST /admin/v2/namespaces/{tenant}/{namespace}/subscriptionAuthMode
GET /admin/v2/brokers/configuration
GET /admin/v2/brokers/configuration/values
GET /admin/v2/brokers/configuration/runtime
GET /admin/v2/brokers/internal-configuration
POST /admin/v2/brokers/configuration/{setting}/{value:path}
DELETE /admin/v2/brokers/configuration/{setting}
GET /admin/v2/brokers/ready
GET /admin/v2/brokers/version
GET /admin/v2/brokers/leaderBroker
GET /admin/v2/brokers/{cluster}
GET /admin/v2/brokers
"""


def test_of_every_route_it_is_known_where_it_is_answered() -> None:
    """A new route without a topic in its path has to be put into one of the lists."""
    found = {
        (method, route.path)
        for resource in RESOURCES
        # Policies of namespaces are in the registry; pages, and what is absent, are the same everywhere.
        if resource not in (absent, policies)
        for route in resource.router.routes
        if isinstance(route, APIRoute) and "{topic}" not in route.path
        if route.path.startswith(("/admin/", "/milepost/"))
        for method in route.methods
    }
    here = {(line.partition(" ")[0], line.partition(" ")[2]) for line in HERE.splitlines() if line}
    elsewhere = {*EVERYWHERE, *REFUSED, *OF_COORDINATOR}
    assert found - here - elsewhere == set()
    assert (here | elsewhere) - found == set()
    assert not here & elsewhere


# -- one topic ---------------------------------------------------------------------------------------


def test_a_topic_is_made_changed_shown_and_deleted_by_asking_any_worker(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        for owner in range(2):
            name = group.names(owner)[0]
            asked, path = 1 - owner, path_of(name)
            assert (await group.call(asked, "PUT", path)).status == 204
            assert name in group.brokers[owner].topics or group.brokers[owner].directory.exists(
                TopicName.parse(name)
            )
            assert not group.brokers[asked].directory.exists(TopicName.parse(name))
            made = await group.call(asked, "PUT", f"{path}/subscription/s", {})
            assert made.status == 204, made.body
            stats = (await group.call(asked, "GET", f"{path}/stats")).json
            assert list(stats["subscriptions"]) == ["s"]
            put = await group.call(asked, "PUT", f"{path}/properties", {"a": "ü"})
            assert put.status == 204
            assert await same(group, "GET", f"{path}/properties") == {"a": "ü"}
            own = path.replace("/admin/v2/persistent", "/milepost/v1/topics")
            reset = await group.call(
                asked, "POST", f"{own}/subscriptions/s/reset", {"position": "latest"}
            )
            assert reset.status == 200, reset.body
            assert (await group.call(asked, "DELETE", f"{path}?force=true")).status == 204
            again = await group.call(asked, "DELETE", path)
            assert again.status == 404
            assert name in again.json["reason"]

    run(tmp_path, play)


def test_a_partitioned_topic_is_one_at_its_worker(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        name = group.names(1)[0]
        path = path_of(name)
        assert (await group.call(0, "PUT", f"{path}/partitions", 3)).status == 204
        assert (await group.call(0, "PUT", f"{path}/subscription/s", {})).status == 204
        assert (await group.call(0, "POST", f"{path}/partitions", 4)).status == 204
        assert (await same(group, "GET", f"{path}/partitions"))["partitions"] == 4
        stats = await same(group, "GET", f"{path}/partitioned-stats?perPartition=true")
        assert len(stats["partitions"]) == 4
        partition = await same(group, "GET", f"{path}-partition-2/subscriptions")
        assert partition == ["s"]
        listed = await same(group, "GET", "/admin/v2/persistent/public/default/partitioned")
        assert listed == [name]

    run(tmp_path, play)


def test_schemas_are_found_from_any_worker(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        path = path_of(group.names(1)[0]).replace("/persistent", "/schemas")
        body = {"type": "STRING", "schema": "", "properties": {}}
        assert (await group.call(0, "POST", f"{path}/schema", body)).status == 200
        assert (await same(group, "GET", f"{path}/schema"))["type"] == "STRING"

    run(tmp_path, play)


def test_lookups_name_the_worker_that_has_the_topic(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        for owner in range(2):
            name = group.names(owner)[0].replace("://", "/")
            found = await same(group, "GET", f"/lookup/v2/topic/{name}")
            assert found["brokerUrl"] == f"pulsar://127.0.0.1:{6650 + owner}"
            assert found["brokerUrlTls"] == f"pulsar+ssl://127.0.0.1:{7650 + owner}"
            assert found["httpUrl"] == "http://127.0.0.1:8080"

    run(tmp_path, play)


def test_bad_names_and_unknown_paths_are_refused_by_the_worker_that_is_asked(
    tmp_path: Path,
) -> None:
    async def play(group: WorkerGroup) -> None:
        for number in range(2):
            assert (await group.call(number, "GET", "/nothing/here")).status == 404
            bad = await group.call(
                number, "GET", "/admin/v2/persistent/public/default/%E2%80%A8/stats"
            )
            assert bad.status == 400
            refused = await group.call(
                number, "PUT", path_of(group.names(0)[0]) + "/partitions", -1
            )
            assert refused.status == 406
            left = await group.call(number, "PATCH", path_of(group.names(0)[0]))
            assert left.status == 405

    run(tmp_path, play)


# -- all topics --------------------------------------------------------------------------------------


async def fill(group: WorkerGroup) -> list[str]:
    """Two topics at each worker, each with a subscription that has a backlog of its own size."""
    names = sorted([*group.names(0), *group.names(1)])
    for number, name in enumerate(names):
        assert (await group.call(number % 2, "PUT", f"{path_of(name)}/subscription/s", {})).status
    return names


def test_lists_have_the_topics_of_all_workers(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        names = await fill(group)
        for path in (
            "/admin/v2/persistent/public/default",
            "/admin/v2/namespaces/public/default/topics",
            "/admin/v2/namespaces/public/default/topics?mode=ALL",
        ):
            assert await same(group, "GET", path) == names
        whole = await same(group, "GET", "/milepost/v1/topics")
        assert ([one["name"] for one in whole["topics"]], whole["found"]) == (names, 4)
        page = await same(group, "GET", "/milepost/v1/topics?limit=3")
        assert [one["name"] for one in page["topics"]] == names[:3]
        assert page["after"] == names[2]
        rest = await same(group, "GET", f"/milepost/v1/topics?limit=3&after={page['after']}")
        assert ([one["name"] for one in rest["topics"]], rest["after"]) == (names[3:], None)
        missing = await group.call(0, "GET", "/admin/v2/persistent/public/none")
        assert missing.status == 404

    run(tmp_path, play)


def test_progress_and_overview_are_of_all_workers(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        names = await fill(group)
        for path in ("/milepost/v1/progress", "/milepost/v1/namespaces/public/default/progress"):
            one = (await group.call(1, "GET", path)).json
            assert [line["topic"] for line in one["subscriptions"]] == names
        for path in ("/milepost/v1/overview", "/milepost/v1/namespaces/public/default/overview"):
            whole = (await group.call(0, "GET", path)).json
            assert (whole["topics"], whole["subscriptions"]) == (4, 4)
            assert [line["topic"] for line in whole["lines"]] == names
            assert sum(whole["verdicts"].values()) == 4
            page = (await group.call(1, "GET", f"{path}?skip=1&limit=2")).json
            assert [line["topic"] for line in page["lines"]] == names[1:3]
        bad = await group.call(0, "GET", "/milepost/v1/overview?limit=x")
        assert bad.status == 400
        assert "limit" in bad.json["reason"]

    run(tmp_path, play)


def test_what_is_done_to_a_namespace_is_done_by_all_workers(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        await fill(group)
        base = "/admin/v2/namespaces/public/default"
        would = await same(group, "POST", f"{base}/clearBacklog?dryRun=true")
        assert would == {"subscriptions": 4, "messages": 0}
        assert (await group.call(1, "POST", f"{base}/clearBacklog/s")).status == 204
        assert (await group.call(1, "POST", f"{base}/clearBacklog/none")).status == 404
        assert sum(len(one.topics) for one in group.brokers.values()) == 4
        assert (await group.call(0, "PUT", f"{base}/unload")).status == 204
        assert sum(len(one.topics) for one in group.brokers.values()) == 0
        health = await group.call(1, "GET", "/admin/v2/brokers/health")
        assert (health.status, health.body) == (200, b"ok")
        checked = [name for one in group.brokers.values() for name in one.topics]
        assert len(checked) == 2, "each worker checks itself"

    run(tmp_path, play)


def test_a_subscription_that_one_worker_lacks_is_cleared_at_the_other(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        path = path_of(group.names(1)[0])
        assert (await group.call(0, "PUT", f"{path}/subscription/only", {})).status == 204
        base = "/admin/v2/namespaces/public/default"
        for number in range(2):
            assert (await group.call(number, "POST", f"{base}/clearBacklog/only")).status == 204

    run(tmp_path, play)


def test_metrics_are_of_all_workers(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        names = await fill(group)
        for number in range(2):
            text = (await group.call(number, "GET", "/metrics")).body.decode()
            for one in range(2):
                assert f'milepost_worker_up{{worker="{one}"}} 1.0' in text
                assert f'milepost_worker_restarts_total{{worker="{one}"}} 0.0' in text
                assert f'pulsar_active_connections{{worker="{one}",' in text
            for name in names:
                assert f'topic="{name}"' in text

    run(tmp_path, play)


# -- refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["namespaces/public/default", "persistent/public/default/t"])
def test_workers_of_one_machine_move_nothing_to_a_destination(tmp_path: Path, path: str) -> None:
    async def play(group: WorkerGroup) -> None:
        for number in range(2):
            await group.call(number, "PUT", "/admin/v2/persistent/public/default/t")
        answer = await group.call(1, "PUT", f"/admin/v2/{path}/unload?destinationBroker=b:1")
        assert answer.status == 405
        assert "nothing can be moved to 'b:1'" in answer.json["reason"]

    run(tmp_path, play)


@pytest.mark.parametrize(
    ("method", "path", "why"),
    [
        ("PUT", "/admin/v2/resourcegroups/g", "rates of a group are not shared among workers"),
        ("PUT", "/admin/v2/namespaces/public/default/LARGEST/split", "bundles are not divided"),
        ("POST", "/admin/v2/namespaces/public/default/unsubscribe/s", "ask for each topic by its"),
        ("POST", "/admin/v2/namespaces/grantPermissionsOnTopics", "ask for each topic by its own"),
        ("GET", "/admin/v2/broker-stats/load-report", "/metrics has the numbers of all"),
    ],
)
def test_what_several_workers_cannot_do_is_refused_by_name(
    tmp_path: Path, method: str, path: str, why: str
) -> None:
    async def play(group: WorkerGroup) -> None:
        answer = await group.call(0, method, path, [] if method == "POST" else None)
        assert answer.status == 405
        assert why in answer.json["reason"]

    run(tmp_path, play)


def test_a_worker_that_does_not_answer_is_named_and_costs_its_own_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in ("TIMEOUT_S", "QUESTION_TIMEOUT_S", "WATCH_TIMEOUT_S"):
        monkeypatch.setattr(f"milepost.rest.workers.forwarding.{one}", 0.2)

    async def play(group: WorkerGroup) -> None:
        names = await fill(group)
        await group.stop(1)
        for path in ("/milepost/v1/progress", path_of(group.names(1)[0]) + "/stats"):
            answer = await group.call(0, "GET", path)
            assert answer.status == 503
            assert "worker 1 does not answer" in answer.json["reason"]
        text = (await group.call(0, "GET", "/metrics")).body.decode()
        assert 'milepost_worker_up{worker="1"} 0.0' in text
        assert (await group.call(0, "GET", path_of(group.names(0)[0]) + "/stats")).status == 200
        monkeypatch.undo()
        await group.start(1)
        assert await same(group, "GET", "/admin/v2/persistent/public/default") == names

    run(tmp_path, play)


# -- cut off from the bucket -------------------------------------------------------------------------


@pytest.fixture
def cut_off(monkeypatch: pytest.MonkeyPatch) -> set[Engine]:
    """Of workers that may not serve."""
    found: set[Engine] = set()
    monkeypatch.setattr(StorageEngine, "may_serve", property(lambda engine: engine not in found))
    return found


def test_a_call_waits_until_a_worker_that_is_cut_off_has_a_successor(
    tmp_path: Path, cut_off: set[Engine]
) -> None:
    async def play(group: WorkerGroup) -> None:
        await fill(group)
        path = path_of(group.names(1)[0])
        cut_off.add(group.brokers[1].engine)
        calls = [
            asyncio.create_task(group.call(0, *one))
            for one in (
                ("GET", f"{path}/stats"),
                ("GET", "/admin/v2/persistent/public/default"),
                ("PUT", f"{path}/subscription/late", {}),
            )
        ]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.gather(*calls)), 0.3)
        assert not any(one.done() for one in calls)
        cut_off.clear()  # here the next owner is the same process
        assert [one.status for one in await asyncio.gather(*calls)] == [200, 200, 204]

    run(tmp_path, play)


def test_a_worker_that_is_cut_off_itself_waits_for_none(
    tmp_path: Path, cut_off: set[Engine]
) -> None:
    async def play(group: WorkerGroup) -> None:
        await fill(group)
        for number in range(2):
            cut_off.add(group.brokers[number].engine)
        paths = [path_of(group.names(number)[0]) + "/stats" for number in range(2)]
        async with asyncio.timeout(5):
            for path in (*paths, "/milepost/v1/progress", "/admin/v2/brokers/health"):
                answer = await group.call(0, "GET", path)
                assert answer.status == 503
                assert "cannot write to its bucket" in answer.json["reason"]
            text = (await group.call(0, "GET", "/metrics")).body.decode()
        for number in range(2):
            assert f'milepost_worker_up{{worker="{number}"}} 1.0' in text
        cut_off.discard(group.brokers[1].engine)
        assert (await group.call(0, "GET", paths[1])).status == 200, "the other one may serve"

    run(tmp_path, play)


def test_a_worker_that_is_cut_off_tells_others_nothing_of_its_shard(
    tmp_path: Path, cut_off: set[Engine]
) -> None:
    async def play(group: WorkerGroup) -> None:
        cut_off.add(group.brokers[1].engine)
        workers = group.brokers[0].workers
        assert workers is not None
        values = {"namespace": "public/default", "mode": "ALL"}
        with pytest.raises(CutOff):
            await workers.link.ask(1, "topics", values)
        for call in ("alive", "follow"):
            await workers.link.ask(1, call, {})

    run(tmp_path, play)


def cut_once(group: WorkerGroup, number: int) -> None:
    """Let a worker end the connection of the next call that it is asked, as one that dies over it."""
    workers = group.brokers[number].workers
    assert workers is not None
    answers, real = workers.link.answers, workers.link.answers["http"]

    async def cut(said: link.Doc, body: bytes) -> link.Answer:
        answers["http"] = real
        raise asyncio.CancelledError

    answers["http"] = cut


def test_a_question_to_a_worker_that_died_over_it_is_asked_again(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        names = await fill(group)
        for path in (path_of(group.names(1)[0]) + "/stats", "/admin/v2/persistent/public/default"):
            cut_once(group, 1)
            answer = await group.call(0, "GET", path)
            assert answer.status == 200, answer.json
        assert answer.json == names

    run(tmp_path, play)


def test_a_change_that_a_worker_died_over_is_not_made_again_and_the_client_is_told(
    tmp_path: Path,
) -> None:
    async def play(group: WorkerGroup) -> None:
        await fill(group)
        path = path_of(group.names(1)[0])
        cut_once(group, 1)
        answer = await group.call(0, "PUT", f"{path}/subscription/late", {})
        assert answer.status == 503
        assert "worker 1 does not answer" in answer.json["reason"]
        assert "it may have been carried out" in answer.json["reason"]
        assert "late" not in (await group.call(0, "GET", f"{path}/subscriptions")).json

    run(tmp_path, play)


def test_a_change_that_a_worker_hangs_over_is_told_to_be_made_perhaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits at the worker's port, and is made when the worker goes on."""
    monkeypatch.setattr(forwarding, "TIMEOUT_S", 0.2)

    async def play(group: WorkerGroup) -> None:
        await fill(group)
        path = path_of(group.names(1)[0])
        await group.stop(1)
        answer = await group.call(0, "PUT", f"{path}/subscription/late", {})
        assert answer.status == 503
        assert "worker 1 does not answer (TimeoutError)" in answer.json["reason"]
        assert "it may have been carried out" in answer.json["reason"]
        monkeypatch.undo()
        await group.start(1)

    run(tmp_path, play)


UNLOAD = "/admin/v2/namespaces/public/default/unload"


def test_a_worker_that_is_cut_off_has_nothing_changed_by_the_others_either(
    tmp_path: Path, cut_off: set[Engine]
) -> None:
    """It says that nothing was done."""

    async def play(group: WorkerGroup) -> None:
        await fill(group)
        cut_off.add(group.brokers[0].engine)
        answer = await group.call(0, "PUT", UNLOAD)
        assert (answer.status, "cannot write to its bucket" in answer.json["reason"]) == (503, True)
        assert [len(one.topics) for one in group.brokers.values()] == [2, 2]

    run(tmp_path, play)


def test_a_change_that_some_workers_have_made_and_one_has_not_says_so(
    tmp_path: Path, cut_off: set[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "AWAY_S", 0.2)

    async def play(group: WorkerGroup) -> None:
        await fill(group)
        cut_off.add(group.brokers[1].engine)  # its shard has no next owner for too long
        answer = await group.call(0, "PUT", UNLOAD)
        assert answer.status == 503
        assert "cannot write to its bucket" in answer.json["reason"]
        assert answer.json["reason"].endswith("other workers have carried it out")
        assert [len(one.topics) for one in group.brokers.values()] == [0, 2]
        cut_off.clear()

        async def refuse(values: link.Doc, body: bytes) -> link.Answer:
            answer = forwarding.json_answer(503, {"reason": "not now"})
            return answer.document(), answer.body

        workers = group.brokers[1].workers
        assert workers is not None
        workers.link.answers["http"] = refuse
        clear = "/admin/v2/namespaces/public/default/clearBacklog"
        answer = await group.call(0, "POST", clear)
        assert answer.status == 503
        assert answer.json["reason"] == "not now; other workers have carried it out"
        answer = await group.call(0, "POST", f"{clear}?dryRun=true")
        assert answer.json["reason"] == "not now"

    run(tmp_path, play)


def test_a_request_for_another_shard_is_refused_and_not_answered_for_the_wrong_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port may be another process's by now: "not found" would be a lie."""
    monkeypatch.setattr(forwarding, "AWAY_S", 0.1)

    async def play(group: WorkerGroup) -> None:
        await fill(group)
        workers = group.brokers[0].workers
        assert workers is not None
        monkeypatch.setattr(workers.link, "_where", lambda number: workers.placement.link_of(0))
        answer = await group.call(0, "GET", path_of(group.names(1)[0]) + "/stats")
        assert (answer.status, answer.json["reason"]) == (
            503,
            "shard 1 is served elsewhere: try again",
        )

    run(tmp_path, play)


@pytest.mark.parametrize(
    ("path", "named", "patience"),
    [
        ("/metrics", 'milepost_worker_up{worker="1"} 0.0', "WATCH_TIMEOUT_S"),
        ("/admin/v2/brokers/health", "worker 1 does not answer", "WATCH_TIMEOUT_S"),
        ("/milepost/v1/progress", "worker 1 does not answer", "QUESTION_TIMEOUT_S"),
        ("/milepost/v1/overview", "worker 1 does not answer", "QUESTION_TIMEOUT_S"),
        ("/admin/v2/persistent/public/default", "worker 1 does not answer", "QUESTION_TIMEOUT_S"),
    ],
)
def test_who_asks_all_of_them_hears_of_one_that_hangs_before_giving_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, named: str, patience: str
) -> None:
    """Prometheus waits for ten seconds, and command lines for a minute."""
    assert forwarding.WATCH_TIMEOUT_S < 10
    assert forwarding.QUESTION_TIMEOUT_S < 30
    monkeypatch.setattr(forwarding, patience, 0.2)

    async def play(group: WorkerGroup) -> None:
        await group.stop(1)
        async with asyncio.timeout(5):
            answer = await group.call(0, "GET", path)
        assert named in answer.body.decode()

    run(tmp_path, play)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/stats"), ("PUT", "/subscription/s"), ("POST", "/terminate"), ("DELETE", "")],
)
def test_a_call_about_a_topic_of_a_worker_that_hangs_names_it_before_the_client_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    """A worker that is stopped takes connections and answers nothing."""
    assert link.PATIENCE_S + link.ALIVE_TIMEOUT_S < 30
    monkeypatch.setattr(link, "PATIENCE_S", 0.05)
    monkeypatch.setattr(link, "ALIVE_TIMEOUT_S", 0.2)

    async def play(group: WorkerGroup) -> None:
        await group.stop(1)
        async with asyncio.timeout(5):
            answer = await group.call(0, method, path_of(group.names(1)[0]) + path)
        assert answer.status == 503
        assert "worker 1 does not answer" in answer.json["reason"]

    run(tmp_path, play)


def test_a_worker_that_is_there_may_take_its_time_for_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "PATIENCE_S", 0.01)

    async def play(group: WorkerGroup) -> None:
        workers = group.brokers[1].workers
        assert workers is not None
        answers, asked, is_over = workers.link.answers, 0, asyncio.Event()
        http, alive = answers["http"], answers["alive"]

        async def slow(document: link.Doc, body: bytes) -> link.Answer:
            await is_over.wait()
            return await http(document, body)

        async def counted(values: link.Doc, body: bytes) -> link.Answer:
            nonlocal asked
            asked += 1
            if asked == 3:
                is_over.set()
            return await alive(values, body)

        workers.link.answers |= {"http": slow, "alive": counted}
        answer = await group.call(0, "PUT", path_of(group.names(1)[0]))
        assert answer.status == 204
        assert asked >= 3  # once more where this process had to wait for the machine

    run(tmp_path, play)


def test_rights_are_judged_by_who_asked_and_not_by_the_worker_between(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)))

    async def play(group: WorkerGroup) -> None:
        for number in range(2):
            for path in (path_of(group.names(1)[0]) + "/stats", "/milepost/v1/progress"):
                answer = await group.call(number, "GET", path)
                assert answer.status == 401, answer.body
                assert json.loads(answer.body)["reason"]

    run(tmp_path / "data", play, authentication=True, token_secret_key=f"file://{key}")


def test_a_coordinator_of_any_number_of_digits_is_refused(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        for number in ("9" * 5000, "²", "99"):
            for target in (
                f"coordinatorStats?coordinatorId={number}",
                f"slowTransactions/5?coordinatorId={number}",
            ):
                answer = await group.call(0, "GET", f"/admin/v3/transactions/{target}")
                assert 400 <= answer.status < 500, (target[:60], answer.body)

    run(tmp_path, play)
