"""Collects the metrics of the broker, its storage and its topics.

Names and labels are Pulsar's where Pulsar has the number, so that its dashboards work; what is ours
is called `milepost_…`. Nothing is counted here: `broker/metrics/counters.py` has what only grows, and the
topics have the rest. What grows with the topics is read and written a little at a time (`exposition.py`).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from milepost import __version__
from milepost.broker.auth.operations import Operation
from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.metrics.histogram import TRANSACTION_TIMES_MS
from milepost.broker.monitoring.progress import progress_of_all
from milepost.broker.monitoring.self_check import room_at
from milepost.broker.monitoring.topic_walk import listed, walk_topics
from milepost.rest.metrics.exposition import Exposition, labels_text
from milepost.rest.metrics.metric_table import (
    CONSUMER_ROWS,
    PROGRESS_ROWS,
    SUBSCRIPTION_ROWS,
    TOPIC_ROWS,
)
from milepost.rest.metrics.rocketmq_metrics import RocketMqReadings
from milepost.rest.request import AskedBroker
from milepost.rest.route_access import Router

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.topic.topic import Topic

router = Router("metrics")

# Between two rests. A scrape of ten thousand topics must come before the scraper gives up.
WORK_S = 0.002

Labels = list[tuple[str, str]]
Reading = tuple[str, list[float]]

NAMESPACE_LABELS = ("cluster", "namespace")
TOPIC_LABELS = (*NAMESPACE_LABELS, "topic")
SUBSCRIPTION_LABELS = (*TOPIC_LABELS, "subscription")
CONSUMER_LABELS = (*SUBSCRIPTION_LABELS, "consumer_name", "consumer_id")

# What the broker as a whole has is the sum over its topics, of these.
SUMMED = {
    "pulsar_rate_in": "pulsar_broker_rate_in",
    "pulsar_rate_out": "pulsar_broker_rate_out",
    "pulsar_throughput_in": "pulsar_broker_throughput_in",
    "pulsar_throughput_out": "pulsar_broker_throughput_out",
    "pulsar_subscriptions_count": "pulsar_broker_subscriptions_count",
    "pulsar_producers_count": "pulsar_broker_producers_count",
    "pulsar_consumers_count": "pulsar_broker_consumers_count",
    "pulsar_msg_backlog": "pulsar_broker_msg_backlog",
    "pulsar_storage_size": "pulsar_broker_storage_size",
    "pulsar_storage_logical_size": "pulsar_broker_storage_logical_size",
    "pulsar_storage_write_rate": "pulsar_broker_storage_write_rate",
    "pulsar_storage_read_rate": "pulsar_broker_storage_read_rate",
}

_TEXT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Prometheus' text, or OpenMetrics where that is asked for.",
        "content": {
            "text/plain": {"schema": {"type": "string"}},
            "application/openmetrics-text": {"schema": {"type": "string"}},
        },
    }
}


@router.get("/metrics", Operation.METRICS, response_class=PlainTextResponse, responses=_TEXT)
@router.get("/metrics/", Operation.METRICS, include_in_schema=False)
async def get_metrics(request: Request, broker: AskedBroker) -> Response:
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    text = Exposition(encode, TimeSlices(broker.clock, WORK_S))
    text.add(request.app.state.registry)
    await add_topics(broker, text)
    return StreamingResponse(text.parts(), media_type=content_type)


def registry_of(broker: Broker) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerCollector(broker))
    ProcessCollector(registry=registry)
    return registry


class BrokerCollector(Collector):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        yield from self._counters()
        yield from self._bucket()
        if self._broker.workers is not None:
            yield CounterMetricFamily(
                "milepost_worker_restarts",
                "How often the worker was started again.",
                self._broker.workers.place.restarts,
            )
            yield CounterMetricFamily(
                "milepost_worker_hangs",
                "How often the worker was killed because it had stood still.",
                self._broker.workers.place.hangs,
            )
        yield from self._broker_gauges()

    def _counters(self) -> Iterator[Metric]:
        counters = self._broker.counters
        cluster = self._broker.settings.cluster_name
        for one in dataclasses.fields(counters):
            value, doc = getattr(counters, one.name), one.metadata["doc"]
            if isinstance(value, int):
                yield CounterMetricFamily(f"milepost_{one.name}", doc, value)
            else:
                by_reason = CounterMetricFamily(f"milepost_{one.name}", doc, labels=["reason"])
                for reason, count in sorted(value.items()):
                    by_reason.add_metric([reason], count)
                yield by_reason
            if one.metadata["pulsar"]:
                # A gauge: the exposition would add `_total` to the name of a counter.
                yield _labelled(one.metadata["pulsar"], doc, cluster, value)

        journal = self._broker.store.journal
        commits = CounterMetricFamily(
            "milepost_journal_commits", "Groups made durable, by whom.", labels=["by"]
        )
        commits.add_metric(["loop"], journal.commits_on_loop)
        commits.add_metric(["thread"], journal.commits - journal.commits_on_loop)
        yield commits
        yield CounterMetricFamily(
            "milepost_disk_reads_on_loop",
            "Reads of the disk that the loop, and so every client, waited for.",
            self._broker.engine.loop_files.reads,
        )
        yield CounterMetricFamily(
            "milepost_checkpoint_failures",
            "Checkpoints that failed.",
            self._broker.engine.checkpoint_failures,
        )

    def _bucket(self) -> Iterator[Metric]:
        """How the bucket does, if the storage is on one."""
        bucket = self._broker.engine.bucket
        if bucket is None:
            return
        times = HistogramMetricFamily(
            "milepost_bucket_request_seconds", "Requests that were answered.", labels=["request"]
        )
        for name, latency in sorted(bucket.latencies.items()):
            times.add_metric([name], latency.cumulative(), latency.sum_s)
        yield times
        errors = CounterMetricFamily(
            "milepost_bucket_errors", "Requests that failed, and are repeated.", labels=["request"]
        )
        for name, count in sorted(bucket.errors.items()):
            errors.add_metric([name], count)
        yield errors
        yield GaugeMetricFamily(
            "milepost_bucket_idle_seconds",
            "Since the last write that succeeded; clients are not served from 4 on.",
            self._broker.engine.idle_s,
        )
        yield GaugeMetricFamily(
            "milepost_bucket_may_serve",
            "0 while another broker may have taken the bucket over.",
            self._broker.engine.may_serve,
        )
        yield GaugeMetricFamily(
            "milepost_bucket_epoch",
            "The number of the claim on the bucket or shard: grows each time it is taken over.",
            self._broker.engine.epoch,
        )
        yield CounterMetricFamily(
            "milepost_bucket_seals", "Journals of former owners that were ended.", bucket.seals
        )
        if self._broker.workers is not None:
            yield GaugeMetricFamily(
                "milepost_bucket_shards",
                "Into how many shards the bucket is divided.",
                self._broker.workers.placement.count,
            )
        yield from self._upkeep()

    def _upkeep(self) -> Iterator[Metric]:
        """How tidy the bucket is."""
        bucket = self._broker.engine.bucket
        assert bucket is not None
        upkeep = bucket.upkeep
        yield GaugeMetricFamily(
            "milepost_bucket_packs", "Packs that the image names.", upkeep.packs
        )
        yield GaugeMetricFamily(
            "milepost_bucket_pack_bytes", "Bytes of ledgers in packs.", upkeep.pack_bytes
        )
        yield CounterMetricFamily(
            "milepost_bucket_merged_bytes",
            "Bytes written again because packs were merged.",
            upkeep.merged_bytes,
        )
        yield CounterMetricFamily(
            "milepost_bucket_collected",
            "Objects deleted because nothing names them any more.",
            upkeep.collected,
        )
        yield GaugeMetricFamily(
            "milepost_bucket_waiting_objects",
            "Objects that are deleted when their grace is over.",
            upkeep.waiting,
        )
        cache = bucket.cache
        yield GaugeMetricFamily(
            "milepost_bucket_cache_bytes",
            "Bytes of ledgers on the local disk that the bucket has too.",
            cache.size,
        )
        yield CounterMetricFamily(
            "milepost_bucket_fetched_bytes",
            "Bytes of ledgers that were brought from the bucket.",
            cache.fetched_bytes,
        )
        yield CounterMetricFamily(
            "milepost_bucket_cache_dropped_bytes",
            "Bytes of ledgers that were dropped from the local disk because the cache was full.",
            cache.dropped_bytes,
        )

    def _broker_gauges(self) -> Iterator[Metric]:
        broker = self._broker
        cluster, counters = broker.settings.cluster_name, broker.counters
        closed = max(counters.connections_opened - len(broker.sessions), 0)
        rows = {
            "pulsar_active_connections": ("Connections now.", len(broker.sessions)),
            "pulsar_connection_closed_total_count": ("Connections that ended.", closed),
            "pulsar_connection_create_success_count": (
                "Connections accepted.",
                counters.connections_opened,
            ),
            "pulsar_connection_create_fail_count": (
                "Connections turned away.",
                sum(counters.connections_refused.values()),
            ),
            "pulsar_broker_topic_load_pending_requests": (
                "Topics that are being opened or closed.",
                len(broker.opening),
            ),
            "pulsar_broker_throttled_connections": (
                "Connections that are not read for now.",
                sum(not one.is_reading for one in broker.sessions),
            ),
            "pulsar_ml_count": ("Logs that are open.", len(broker.topics)),
            "pulsar_broker_topics_count": ("Topics that are open.", len(broker.topics)),
            **self._storage_rows(),
        }
        for name, (doc, value) in rows.items():
            yield _labelled(name, doc, cluster, value)
        version = GaugeMetricFamily(
            "pulsar_version_info", "Which broker this is.", labels=["cluster", "version", "commit"]
        )
        version.add_metric([cluster, __version__, ""], 1)
        yield version
        yield from self._broker_bytes(cluster)
        yield from self._transactions(cluster)
        namespaces = Counter(str(topic.name.namespace) for topic in broker.topics.values())
        family = GaugeMetricFamily(
            "pulsar_topics_count", "Topics that are open.", labels=NAMESPACE_LABELS
        )
        for namespace, count in sorted(namespaces.items()):
            family.add_metric([cluster, namespace], count)
        yield family

    def _storage_rows(self) -> dict[str, tuple[str, float]]:
        broker = self._broker
        rows: dict[str, tuple[str, float]] = {
            "milepost_schemas": ("Topics that have a schema.", broker.schemas.count),
            "milepost_recovery_entries": (
                "Entries that this start found in the journal.",
                broker.store.report.entries,
            ),
            "milepost_recovery_damages": (
                "Records of the journal that this start could not read.",
                len(broker.store.report.damages),
            ),
            "milepost_damaged_topics": (
                "Topics that take no messages: some are lost, or their ledgers cannot be written.",
                len(broker.store.damages()),
            ),
            "milepost_lost_messages": (
                "Acknowledged messages that are gone, until an operator accepts it.",
                sum(one.messages for losses in broker.store.losses.values() for one in losses),
            ),
            "milepost_checkpoint_failing": (
                "1 while checkpoints fail, and the journal grows.",
                broker.engine.checkpoint_failure is not None,
            ),
            "milepost_journal_failing": (
                "1 while the disk takes nothing, and everything is refused.",
                broker.store.journal.is_failing,
            ),
        }
        if broker.transactions.shared is not None:
            rows["milepost_transactions_untold"] = (
                "Ends of transactions that are decided, and that another worker has not carried out.",
                len(broker.transactions.coordinator.untold),
            )
        if (room := room_at(broker.settings.data)) is not None:
            rows["milepost_disk_free_bytes"] = (
                "Room for the data directory to grow.",
                room.free_bytes,
            )
            rows["milepost_disk_size_bytes"] = (
                "Size of the file system that it lies on.",
                room.size_bytes,
            )
        return rows

    def _transactions(self, cluster: str) -> Iterator[Metric]:
        """The coordinator's, by upstream's names: gauges there, whatever they are called."""
        service, counters = self._broker.transactions, self._broker.counters
        rows = {
            "active_count": ("Transactions that are open.", len(service.coordinator.open)),
            "created_total": ("Transactions opened.", counters.transactions_opened),
            "committed_total": ("Transactions committed.", counters.transactions_committed),
            "aborted_total": ("Transactions aborted.", counters.transactions_aborted),
            "timeout_total": ("Transactions that timed out.", counters.transactions_timed_out),
            "append_log_total": ("Facts of the coordinator.", counters.transaction_facts),
        }
        doc = "Transactions that ended within so many milliseconds, in the last minute."
        bounds = [*map(str, TRANSACTION_TIMES_MS), "overflow"]
        for bound, count in zip(bounds, service.times.counts, strict=True):
            rows[f"execution_latency_le_{bound}"] = (doc, count)
        labels = [cluster, str(service.coordinator.number)]
        for name, (what, value) in rows.items():
            family = GaugeMetricFamily(
                f"pulsar_txn_{name}", what, labels=["cluster", "coordinator_id"]
            )
            family.add_metric(labels, value)
            yield family

    def _broker_bytes(self, cluster: str) -> Iterator[Metric]:
        counters = self._broker.counters
        for name, value in (("in", counters.bytes_in), ("out", counters.bytes_out)):
            family = CounterMetricFamily(
                f"pulsar_broker_{name}_bytes", f"Bytes that went {name}.", labels=["cluster"]
            )
            family.add_metric([cluster], value)
            yield family


class Readings:
    """What topics, subscriptions and consumers said: by the text of their labels, in the order of rows."""

    def __init__(self) -> None:
        self.topics: list[Reading] = []
        self.subscriptions: list[Reading] = []
        self.progress: list[Reading] = []
        self.consumers: list[Reading] = []

    def take(self, topic: Topic, cluster: str, now_ms: int, rocketmq: RocketMqReadings) -> None:
        """A topic with all that belongs to it, at one moment: numbers that add up there add up here."""
        labels = _labels(cluster, topic)
        # First what may have to be read from the disk: until that is known, nothing is taken.
        values = [row.read(topic) for row in TOPIC_ROWS]
        subscriptions = topic.subscriptions
        lines = progress_of_all(subscriptions.values(), now_ms)
        self.topics.append((labels_text(labels), values))
        rocketmq.take(topic, lines)
        for (name, one), progress in zip(subscriptions.items(), lines, strict=True):
            whose = [*labels, ("subscription", name)]
            text = labels_text(whose)
            self.subscriptions.append((text, [row.read(one) for row in SUBSCRIPTION_ROWS]))
            self.progress.append((text, [row.read(progress) for row in PROGRESS_ROWS]))
            for consumer in one.consumers:
                # Two of one name are told apart by their numbers here.
                who = [("consumer_name", consumer.name), ("consumer_id", str(consumer.holder))]
                values = [row.read(consumer) for row in CONSUMER_ROWS]
                self.consumers.append((labels_text([*whose, *who]), values))


async def add_topics(broker: Broker, text: Exposition) -> None:
    """What open topics, their subscriptions and consumers have, and what the topics have together. Nothing
    while another broker may serve them: it tells their numbers."""
    if not broker.engine.may_serve:
        return
    cluster, readings = broker.settings.cluster_name, Readings()
    rocketmq = RocketMqReadings(broker)

    def step(topic: Topic) -> None:
        readings.take(topic, cluster, broker.clock.wall_ms(), rocketmq)

    topics = listed(list(broker.topics.values()))
    async for _ in walk_topics(broker.engine, topics, step, text.slices):
        pass
    for place, row in enumerate(TOPIC_ROWS):
        kind = CounterMetricFamily if row.counts else GaugeMetricFamily
        family = kind(row.name, row.doc, labels=TOPIC_LABELS)
        await text.family(family, _at(place, readings.topics))
        if row.name in SUMMED:
            total = sum(values[place] for _, values in readings.topics)
            text.add(_Families(_labelled(SUMMED[row.name], row.doc, cluster, total)))
    for heads, labels, found in (
        ([row[:2] for row in SUBSCRIPTION_ROWS], SUBSCRIPTION_LABELS, readings.subscriptions),
        ([row[:2] for row in PROGRESS_ROWS], SUBSCRIPTION_LABELS, readings.progress),
        ([row[:2] for row in CONSUMER_ROWS], CONSUMER_LABELS, readings.consumers),
    ):
        for place, (name, doc) in enumerate(heads):
            gauge = GaugeMetricFamily(name, doc, labels=labels)
            await text.family(gauge, _at(place, found))
    text.add(rocketmq)


def _at(place: int, found: list[Reading]) -> Iterator[tuple[str, float]]:
    """What one row says of everybody."""
    return ((labels, values[place]) for labels, values in found)


def _labels(cluster: str, topic: Topic) -> Labels:
    values = (cluster, str(topic.name.namespace), str(topic.name))
    return list(zip(TOPIC_LABELS, values, strict=True))


class _Families:
    """Some families by themselves."""

    def __init__(self, *families: Metric) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _labelled(name: str, doc: str, cluster: str, value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, doc, labels=["cluster"])
    family.add_metric([cluster], value)
    return family
