"""The broker is killed 20 times under a mixed load: no receipt is lost, no answered ack comes again, no
index is given twice, no transaction is half there.

Four producers (batched, unbatched, keyed, chunked or compressed) and four subscriptions, one of each
type, with consumers of the official client and raw ones that ask for an answer to each ack. Beside them a
client writes to two more topics in transactions (transactor.py). A nemesis
waits until everybody has worked with the present broker, lets the load go on for 50 to 500 ms more, and
kills it with SIGKILL; a new one starts on the same directory and port, and the clients come back by
themselves. The same is done to one of two workers, without the transactions. At the end everything is
drained, the broker stopped, its directory read, and the history judged by `milepost.testing.checker`.
`make campaign` kills 510 times.

That the test can fail was tried with a `sitecustomize.py` on PYTHONPATH that patches the broker process.
SIGKILL leaves what was written but not synced, so a plant has to answer before the write; a commit that
sleeps 5 ms makes room for the kill. Twelve kills each found:

- receipts before the journal (`Topic.publish` answers what it has submitted): 652 × lost;
- ack responses before the journal (`AckJournal.flush` answers first): 296 × redelivered-after-durable-ack;
- acks without a request held back for 300 ms (in the handler of ACK): 449 × ack-window-exceeded.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.history import LoadHistory, Place, name_of
from compat.load import OfficialConsumer, Producer, Worker, key_of
from compat.raw_consumer import RawConsumer
from compat.transactor import TOPICS as OF_TRANSACTIONS
from compat.transactor import Transactor
from crash.checker import check_lookups, read_log
from stage.acksets import is_clean
from stage.bucket import BucketStore, copied
from stage.counts import campaign_count
from stage.summaries import KEY as SUMMARY

from milepost.broker.settings.settings import Settings
from milepost.clock import SystemClock
from milepost.storage.engine import open_store
from milepost.storage.ledgers.log import Log
from milepost.storage.store import Store
from milepost.testing.checker import Verdict, judge
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import split_batch
from milepost.wire.chunks import ChunkAssembler, Whole
from milepost.wire.metadata import chunk_info, is_batch, split_entry

KILLS = campaign_count("MILEPOST_KILLS", 3, 250)
KILLS_OF_A_WORKER = campaign_count("MILEPOST_KILLS", 2, 250)
UNTOLD = "milepost_transactions_untold"

TOPIC = "persistent://public/default/load"
MESSAGE_SIZE_MAX = 16 * 1024
LARGE_SIZE = 50_000

# Small files, so that ledgers roll, checkpoints happen and dispatch has to read from the disk.
SETTINGS = {
    "max_message_size": MESSAGE_SIZE_MAX,
    "ledger_entries_max": 400,
    "journal_size_max": 1024 * 1024,
    "tail_cache_size": 256 * 1024,
    # All is kept, so that the end can be held against everything that was answered, after an hour too.
    "default_retention_minutes": -1,
    "default_retention_mb": -1,
}

# A machine that is busy with something else must not fail the test; a client that never comes back must.
REACH_TIMEOUT_S = 60.0
DRAIN_TIMEOUT_S = 120.0

SUBSCRIPTIONS = {"exclusive", "failover", "shared", "key-shared"}
READER = "reader"

# So much happens at least before each kill, however slow the machine is: the load is a load.
BEFORE_A_KILL = {
    ("commit ok", "abort ok"): 4,
    ("publish ok",): 200,
    ("ack ok",): 100,
    ("ack",): 100,
}

GAUGES = {
    "milepost_subscription_ready": "ready",
    "milepost_subscription_inflight": "inflight",
    "milepost_subscription_acked": "acked",
    "pulsar_subscription_delayed": "delayed",
}


class Campaign:
    def __init__(
        self, directory: Path, seed: int, *, deduplication: bool, workers: int = 1
    ) -> None:
        """With several workers the one is killed that has the topic, and there are no transactions."""
        self.random = random.Random(seed)
        self.seed = seed
        self.deduplication = deduplication
        self.history = LoadHistory(directory / "history.jsonl", TOPIC, deduplicated=deduplication)
        self.has_workers = workers > 1
        self.broker = BrokerProcess(
            directory, deduplication=deduplication, workers=workers, **SETTINGS
        )
        self.clients: list[pulsar.Client] = []
        self.client_log = directory / "clients.log"  # a client without its broker has much to say
        self.producers: list[Producer] = []
        self.consumers: list[OfficialConsumer | RawConsumer] = []
        self.transactors: list[Transactor] = []
        self.goals = dict(BEFORE_A_KILL)
        """How often each must have happened before the next kill."""

    # -- the load ----------------------------------------------------------------------------------

    def client(self) -> pulsar.Client:
        """A client, and so a connection, of its own for each: they come back at different times."""
        client = pulsar.Client(
            self.broker.url,
            operation_timeout_seconds=30,
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, str(self.client_log)),
        )
        self.clients.append(client)
        return client

    def begin(self) -> None:
        self.broker.start()
        history, seed = self.history, self.seed
        for name, official, raw in (
            ("exclusive", pulsar.ConsumerType.Exclusive, None),
            ("failover", None, pb.CommandSubscribe.Failover),
            ("shared", pulsar.ConsumerType.Shared, pb.CommandSubscribe.Shared),
            ("key-shared", pulsar.ConsumerType.KeyShared, pb.CommandSubscribe.Key_Shared),
        ):
            if official is not None:
                self.consumers.append(
                    OfficialConsumer(
                        self.client(),
                        TOPIC,
                        name,
                        official,
                        history,
                        seed,
                        cumulative=name == "exclusive",
                    )
                )
            if raw is not None:
                self.consumers.append(RawConsumer(self.broker, TOPIC, name, raw, history, seed))
        for worker in self.consumers:
            worker.start()
        # A subscription made later would miss the beginning.
        self.await_all([c for c in self.consumers if isinstance(c, RawConsumer)], 0)
        batching = {
            "batching_enabled": True,
            "batching_max_messages": 40,
            "batching_max_allowed_size_in_bytes": MESSAGE_SIZE_MAX // 2,
            "batching_max_publish_delay_ms": 3,
        }
        # Without deduplication a chunk can be stored twice, and the official client gives up on it.
        last = (
            {"chunking_enabled": True, "large_size": LARGE_SIZE}
            if self.deduplication
            else {"compression_type": pulsar.CompressionType.NONE}
        )
        for number, options in enumerate(
            (
                batching,
                {},
                {**batching, "batching_type": pulsar.BatchingType.KeyBased, "keys": 20},
                last,
            )
        ):
            self.producers.append(Producer(number, self.client(), TOPIC, history, seed, **options))
        self.transactors.append(
            Transactor(self.broker.url, history, seed, deduplicated=self.deduplication)
        )
        for worker in (*self.producers, *self.transactors):
            worker.start()

    @property
    def workers(self) -> list[Worker]:
        return [*self.producers, *self.consumers, *self.transactors]

    def await_all(self, workers: Sequence[Worker], generation: int) -> None:
        """Everybody has worked with the broker of this generation."""
        deadline = time.monotonic() + REACH_TIMEOUT_S
        with self.history.changed:
            while True:
                for worker in self.workers:
                    if worker.failure is not None:
                        raise AssertionError(f"{worker.name} failed") from worker.failure
                late = [worker.name for worker in workers if worker.reached < generation]
                if not late:
                    return
                assert time.monotonic() < deadline, f"not in generation {generation}: {late}"
                self.history.changed.wait(1.0)

    def await_load(self) -> None:
        """There is enough that the next kill may undo."""
        deadline = time.monotonic() + REACH_TIMEOUT_S
        with self.history.changed:
            while late := [
                kinds
                for kinds, goal in self.goals.items()
                if sum(self.history.counts[kind] for kind in kinds) < goal
            ]:
                assert time.monotonic() < deadline, f"too little to undo: {late}"
                self.history.changed.wait(0.1)
        for kinds, count in BEFORE_A_KILL.items():
            done = sum(self.history.counts[kind] for kind in kinds)
            self.goals[kinds] = done + count

    # -- the nemesis -------------------------------------------------------------------------------

    def kill(self) -> None:
        self.await_all(self.workers, self.history.generation)
        self.await_load()
        self.look()
        self.history.hurry.set()
        time.sleep(self.random.uniform(0.05, 0.5))  # sleep: the nemesis's own clock
        killed_at = time.monotonic()
        if self.has_workers:
            number = self.broker.worker_of(TOPIC)
            killed = self.broker.kill_worker(number)
            self.history.hurry.clear()
            self.history.killed(killed_at)
            self.broker.await_worker(number, killed)
            return
        self.broker.kill()
        self.history.hurry.clear()
        self.history.killed(killed_at)
        self.broker.start()

    def look(self) -> dict[str, dict[str, int]]:
        """One look at the numbers of every subscription."""
        status, text = self.broker.rest("GET", "/metrics")
        assert status == 200, status
        bounds: dict[str, int] = {}
        counts: dict[str, dict[str, int]] = {}
        for name, labels, value in _samples(text.decode()):
            if labels.get("topic") != TOPIC:
                continue
            if name in ("milepost_topic_first_index", "milepost_topic_end_index"):
                bounds[name.split("_")[2]] = value
            elif name in GAUGES:
                counts.setdefault(labels["subscription"], {})[GAUGES[name]] = value
        for subscription, found in counts.items():
            found.update(bounds)
            self.history.note("counts", **self.history.group(subscription), **found)
        return counts

    # -- the end -----------------------------------------------------------------------------------

    def drain(self) -> None:
        """Everything sent has its receipt, and everything stored is acked on every subscription."""
        self.await_all(self.workers, self.history.generation)
        for worker in (*self.producers, *self.transactors):
            worker.stop()
        for worker in (*self.producers, *self.transactors):
            worker.join(REACH_TIMEOUT_S)
        for producer in self.producers:
            producer.await_receipts(REACH_TIMEOUT_S)
        for consumer in self.consumers:
            consumer.acks_all = True
            if isinstance(consumer, RawConsumer):
                consumer.come_again()  # for what it never acked
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while True:
            backlog = {
                name: count["end"] - count["first"] - count["acked"]
                for name, count in self.look().items()
            }
            if not any(backlog.values()):
                break
            assert time.monotonic() < deadline, f"stuck: {backlog}"
            self.await_all(self.workers, 0)
            with self.history.changed:
                self.history.changed.wait(0.1)
        assert set(backlog) == SUBSCRIPTIONS
        for consumer in self.consumers:
            consumer.stop()
            consumer.join(REACH_TIMEOUT_S)
        self.await_all(self.workers, 0)

    def await_transactions(self) -> None:
        """What kills have left open ends when its time is over."""
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while True:
            _, stats = self.broker.rest("GET", "/admin/v3/transactions/coordinatorStats")
            if not any(one["ongoingTxnSize"] for one in stats.values()) and not self._untold():
                return
            assert time.monotonic() < deadline, f"open for too long: {stats}"
            time.sleep(0.2)  # sleep: the broker's own clock

    def _untold(self) -> int:
        """Ends that not every worker has carried out."""
        _, text = self.broker.rest("GET", "/metrics")
        lines = (line.rpartition(" ") for line in text.decode().splitlines())
        return sum(int(float(n)) for name, _, n in lines if name.startswith(UNTOLD))

    def read_back(self, topic: str = TOPIC) -> Iterator[tuple[Place, bytes]]:
        """Everything, by the official client's reader."""
        reader = self.client().create_reader(topic, pulsar.MessageId.earliest)
        while reader.has_message_available():
            message = reader.read_next(10_000)
            where = message.message_id()
            yield (where.ledger_id(), where.entry_id(), where.batch_index()), message.data()

    def look_back(self) -> None:
        """What a reader of each topic gets."""
        self.history.joined(READER, READER, "strict")
        for place, data in self.read_back():
            self.history.delivered(READER, READER, key_of(data)[0], place)
        self.await_transactions()
        for topic in OF_TRANSACTIONS:
            found = [(place, data.decode()) for place, data in self.read_back(topic)]
            self.history.scanned(topic, found)

    def close(self) -> None:
        for worker in self.workers:
            worker.stop()
        for client in self.clients:
            client.shutdown()
        self.broker.kill()


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], int]]:
    for line in text.splitlines():
        found = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line)
        if found is not None:
            name, labels, value = found.groups()
            yield name, dict(re.findall(r'(\w+)="([^"]*)"', labels)), int(float(value))


def scan(log: Log, history: LoadHistory) -> None:
    """Write down what every index of the topic holds; those of chunks but the last hold no message."""
    state = read_log(log)
    assert check_lookups(TOPIC, log, state) == []
    chunks = ChunkAssembler(waiting_max=1000)
    history.note("scan", topic=TOPIC, first=state.first_index)
    for item in state.items:
        parts = split_entry(item.payload)
        assert parts.is_intact, item
        chunk = chunk_info(parts.metadata)
        if chunk is not None:
            whole = chunks.add(chunk, item.position, parts.payload, now_ms=0)
            payloads = [whole.payload] if isinstance(whole, Whole) else []
        elif is_batch(parts.metadata):
            payloads = [message.payload for message in split_batch(parts.payload, item.count)]
        else:
            payloads = [parts.payload]
        if not payloads:
            end = item.first_index + item.count
            history.note("fill", topic=TOPIC, **{"from": item.first_index, "to": end})
        for number, payload in enumerate(payloads):
            key, _ = key_of(payload)
            history.note(
                "stored",
                topic=TOPIC,
                message=None if key is None else name_of(key),
                id=[*item.position, number if is_batch(parts.metadata) else -1],
                index=item.first_index + number,
            )
    history.note("scanned", topic=TOPIC, end=state.end_index)


@contextmanager
def opened(broker: BrokerProcess) -> Iterator[Store]:
    """What a broker that has ended left, as the next start finds it."""
    if broker.bucket is not None:
        on = BucketStore(
            copied(broker.bucket), SystemClock(), Settings(data=broker.data).cluster_name
        )
        try:
            yield on.store
        finally:
            on.catalog.close()
            on.close()
        return
    store, lock = open_store(broker.data_of(TOPIC), SystemClock())
    try:
        yield store
    finally:
        store.close()
        lock.release()


def judged(campaign: Campaign) -> Verdict:
    """What the checker says of a campaign whose broker has stopped."""
    history = campaign.history
    with opened(campaign.broker) as store:
        assert is_clean(store.report), store.report
        (row,) = [topic for topic in store.catalog.topics() if topic.name == TOPIC]
        scan(store.log(row), history)
    for subscription in (*SUBSCRIPTIONS, READER):
        history.note("drained", **history.group(subscription))
    history.close()
    return judge(history.lines())


@pytest.mark.timeout(7200 if KILLS > 8 else 400)
@pytest.mark.parametrize(
    ("deduplication", "workers", "kills"),
    [(True, 1, KILLS), (False, 1, KILLS), (True, 2, KILLS_OF_A_WORKER)],
    ids=["deduplicated", "plain", "a worker"],
)
def test_nothing_answered_is_lost_when_the_broker_is_killed_under_load(
    deduplication: bool,
    workers: int,
    kills: int,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    seed = int(os.environ.get("MILEPOST_SEED", "1"))
    campaign = Campaign(tmp_path, seed, deduplication=deduplication, workers=workers)
    began = time.monotonic()
    try:
        campaign.begin()
        for _ in range(kills):
            campaign.kill()
        campaign.drain()
        campaign.look_back()
        campaign.broker.stop()
    finally:
        campaign.close()
    seconds = time.monotonic() - began
    assert not campaign.broker.complaints()

    verdict = judged(campaign)
    did = verdict.events
    record_property(
        SUMMARY,
        f"seed {seed}, {did['kill']} kills in {seconds:.0f} s, {did['publish invoke']} publishes, "
        f"{did['publish ok']} receipts, {did['receive']} deliveries, {did['ack ok']} acks answered, "
        f"{did['ack']} without an answer of which {verdict.acks_undone} undone (the oldest "
        f"{verdict.undone_age_s * 1000:.0f} ms before its kill), {did['commit ok']} commits: "
        f"{verdict.found.total()} anomalies in {did.total()} events",
    )
    assert not verdict.anomalies, "\n".join(verdict.report(tmp_path / "history.jsonl"))
    # The load was a load.
    assert did["kill"] == kills
    for kinds, count in BEFORE_A_KILL.items():
        assert sum(did[kind] for kind in kinds) >= count * kills, kinds
