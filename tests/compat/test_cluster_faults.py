"""Three brokers behind proxies that make trouble, killed, paused and cut off under load: nothing is lost.

Each round has a cluster of its own. Official Python and Java clients and Milepost's own publish, consume,
seek and are reset on topics of different shards (`cluster_load.py`). A nemesis kills brokers and processes of
shards, pauses brokers, one of them for 30 seconds, drains them, moves shards, cuts brokers off from the store
and every pair of them from each other, and lets the store be slow, refuse requests, and lose the answers of
requests that it has carried out (`cluster_nemesis.py`). At the end all faults are over, everything is read,
`milepost.testing.checker` judges the history, and `milepost verify` the bucket.

`make cluster` runs it: `ROUNDS` of `SECONDS` each; `make campaign` at length. `MILEPOST_S3=http://…` names
another store, with the bucket `milepost` in it and the usual credentials; otherwise it is one in memory that
speaks S3.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from compat.cluster_load import JavaLoad, Load, await_drained, resolved, scan
from compat.cluster_nemesis import Nemesis
from compat.java import class_path
from compat.test_cluster import SHARDS, Cluster
from stage.broker_cuts import BrokerCuts
from stage.counts import campaign_count
from stage.s3 import S3Server
from stage.store_proxy import StoreProxy

from milepost.broker.workers.placement import shard_of
from milepost.cli.server.verify_bucket import check_bucket
from milepost.positions.names import TopicName
from milepost.testing.checker import History, judge_file, merged

__all__ = ["class_path"]  # the fixture

ROUNDS = campaign_count("MILEPOST_CLUSTER_ROUNDS", 0, 60)
SECONDS = float(os.environ.get("MILEPOST_CLUSTER_SECONDS", "60"))

pytestmark = [
    pytest.mark.skipif(not ROUNDS, reason="a target: make cluster"),
    pytest.mark.timeout(900 + 3 * SECONDS),
]


def topics() -> list[str]:
    """One for each of the first three shards."""
    found: dict[int, str] = {}
    for number in range(1000):
        name = f"persistent://public/default/faults-{number}"
        found.setdefault(shard_of(TopicName.parse(name), SHARDS), name)
    return [found[shard] for shard in range(min(SHARDS, 3))]


@pytest.fixture
def store() -> Iterator[str]:
    """The address of an object store, with credentials in the environment."""
    before = dict(os.environ)
    defaults = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1"}
    os.environ |= {**defaults, **before}
    try:
        if given := os.environ.get("MILEPOST_S3"):
            yield given
        else:
            with S3Server() as server:
                yield server.url
    finally:
        os.environ.clear()
        os.environ |= before


@pytest.fixture(scope="session")
def java(request: pytest.FixtureRequest) -> str | None:
    """The class path of the Java client; None where it cannot be had."""
    if any(shutil.which(tool) is None for tool in ("java", "javac", "mvn")):
        return None
    try:
        found: str = request.getfixturevalue("class_path")
    except pytest.skip.Exception:
        return None
    return found


def test_java_takes_part(class_path: str) -> None:
    """Skipped, with the reason, where the Java client cannot be had: the rounds do without it there."""
    assert class_path


class Round:
    """A cluster, its proxies and its clients."""

    def __init__(self, directory: Path, store: str, seed: int, java: str | None) -> None:
        self.directory, self.store, self.seed, self.java = directory, store, seed, java
        self.bucket = f"s3://milepost/{uuid4().hex}"
        self.history = History(directory / "python.jsonl", buffered=True)
        self.indexes: dict[str, dict[str, int]] = {}
        self.faults: Counter[str] = Counter()

    def run(self) -> Nemesis:
        with ExitStack() as stack:
            stack.callback(self.history.close)
            proxies = [
                stack.enter_context(StoreProxy(self.store, self.seed * 3 + n)) for n in range(3)
            ]
            cluster = Cluster(self.directory, proxies, bucket=self.bucket)
            cuts = stack.enter_context(BrokerCuts(lambda url: self._name_of(cluster, url)))
            for number, proxy in enumerate(proxies):
                proxy.rewrite = cuts.seen_by(str(number))
            stack.callback(lambda: [cluster.kill(one) for one in cluster.brokers if one.is_running])
            cluster.start()
            nemesis = Nemesis(cluster, proxies, cuts, topics(), self.seed)
            self._under_load(stack, cluster, nemesis)
            for name in topics():
                self.indexes[name] = scan(cluster.brokers, self.history, name)
            self.report = check_bucket(self.bucket, endpoint=self.store)
        self.faults = sum((one.faults for one in (*proxies, cuts)), Counter())
        return nemesis

    @staticmethod
    def _name_of(cluster: Cluster, http_url: str) -> str:
        """Of the broker that has an address; as long as that is not known none is cut."""
        ports = [f":{one.http_port}" for one in cluster.brokers]
        found = [number for number, port in enumerate(ports) if http_url.rstrip("/").endswith(port)]
        return str(found[0]) if found else "?"

    def _under_load(self, stack: ExitStack, cluster: Cluster, nemesis: Nemesis) -> None:
        self.history.note("start")
        load = Load(self.history, cluster.brokers, self.seed, self.directory / "official.log")
        stack.callback(load.client.shutdown)
        stack.callback(load.over.set)
        stack.callback(load.has_published.set)
        load.start(topics())
        loads: list[Load | JavaLoad] = [load]
        drained = ["official", "ours"]
        if self.java is not None:
            other = JavaLoad(self.java, load, topics(), self.directory)
            stack.callback(other.kill)
            loads.append(other)
            drained.append("java")
        nemesis.run(SECONDS, lambda: bool(load.failures))
        cluster.start()
        for one in loads:
            one.end_publishing()
        for name in topics():
            await_drained(cluster.brokers[0], self.history, name, drained)
        for one in loads:
            one.stop()

    def judge(self) -> list[str]:
        """What is wrong with the history."""
        whole, judged = self.directory / "merged.jsonl", self.directory / "history.jsonl"
        parts = [self.directory / "python.jsonl"]
        if self.java is not None:
            parts.append(self.directory / "java.jsonl")
        merged(parts, whole)
        with whole.open(encoding="utf-8") as lines, judged.open("w", encoding="utf-8") as file:
            file.writelines(resolved(lines, self.indexes))
        verdict = judge_file(judged)
        self.counts = verdict.events
        return list(verdict.report(judged)) if verdict.found else []


@pytest.mark.parametrize("number", range(ROUNDS))
def test_nothing_is_lost_whatever_happens_to_brokers_and_store(
    number: int, store: str, java: str | None, tmp_path: Path, summary: Callable[[str], None]
) -> None:
    seed = int(os.environ.get("MILEPOST_CLUSTER_SEED", "0")) + number
    round_ = Round(tmp_path, store, seed, java)
    nemesis = round_.run()
    anomalies = round_.judge()
    wanted = ("publish ok", "ack ok", "receive", "seek ok", "reset ok", "seek unknown")
    counts = {name: round_.counts[name] for name in wanted}
    with_java = "with Java" if java is not None else "without Java"
    summary(
        f"seed {seed}: {dict(nemesis.done)}, faults {dict(round_.faults)}, {counts}, {with_java}: "
        f"{len(anomalies)} anomalies"
    )
    assert anomalies == []
    assert round_.report.all_problems == []
    assert counts["publish ok"] > 100
    assert counts["ack ok"] > 100
    assert counts["seek ok"] > 10
    assert counts["reset ok"] > 0
    assert round_.faults["lost"] > 0
    assert nemesis.done["long pause"] == 1
