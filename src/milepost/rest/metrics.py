"""Metrics for Prometheus: read from the broker's state when somebody asks, and not before.

Names and labels are Pulsar's where Pulsar has the number, so that its dashboards work; what is ours
is called `milepost_…`. Nothing is counted here: `broker/counters.py` has what only grows, and the
topics have the rest.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from milepost import __version__
from milepost.broker.auth.operations import Operation
from milepost.broker.health import room_at
from milepost.broker.progress import progress_of
from milepost.rest.metric_rows import (
    CONSUMER_ROWS,
    PROGRESS_ROWS,
    SUBSCRIPTION_ROWS,
    TOPIC_ROWS,
)
from milepost.rest.permission import needs

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.topic import Topic

router = APIRouter(tags=["metrics"])

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


@router.get(
    "/metrics",
    dependencies=[needs(Operation.METRICS)],
    response_class=PlainTextResponse,
    responses=_TEXT,
)
@router.get("/metrics/", include_in_schema=False, dependencies=[needs(Operation.METRICS)])
async def get_metrics(request: Request) -> Response:
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(request.app.state.registry), media_type=content_type)


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
        yield from self._broker_gauges()
        yield from self._topics()
        yield from self._subscriptions()

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
            "milepost_schemas": ("Topics that have a schema.", broker.schemas.count),
            "milepost_recovery_entries": (
                "Entries that this start found in the journal.",
                broker.store.report.entries,
            ),
            "milepost_recovery_damages": (
                "Records of the journal that this start could not read.",
                len(broker.store.report.damages),
            ),
            "milepost_journal_failing": (
                "1 while the disk takes nothing, and everything is refused.",
                broker.store.journal.is_failing,
            ),
        }
        if (room := room_at(broker.settings.data)) is not None:
            rows["milepost_disk_free_bytes"] = (
                "Room for the data directory to grow.",
                room.free_bytes,
            )
            rows["milepost_disk_size_bytes"] = (
                "Size of the file system that it lies on.",
                room.size_bytes,
            )
        for name, (doc, value) in rows.items():
            yield _labelled(name, doc, cluster, value)
        for row in TOPIC_ROWS:
            if row.name in SUMMED:
                total = sum(row.read(topic) for topic in broker.topics.values())
                yield _labelled(SUMMED[row.name], row.doc, cluster, total)
        version = GaugeMetricFamily(
            "pulsar_version_info", "Which broker this is.", labels=["cluster", "version", "commit"]
        )
        version.add_metric([cluster, __version__, ""], 1)
        yield version
        yield from self._broker_bytes(cluster)
        namespaces = Counter(str(topic.name.namespace) for topic in broker.topics.values())
        family = GaugeMetricFamily(
            "pulsar_topics_count", "Topics that are open.", labels=NAMESPACE_LABELS
        )
        for namespace, count in sorted(namespaces.items()):
            family.add_metric([cluster, namespace], count)
        yield family

    def _broker_bytes(self, cluster: str) -> Iterator[Metric]:
        counters = self._broker.counters
        for name, value in (("in", counters.bytes_in), ("out", counters.bytes_out)):
            family = CounterMetricFamily(
                f"pulsar_broker_{name}_bytes", f"Bytes that went {name}.", labels=["cluster"]
            )
            family.add_metric([cluster], value)
            yield family

    def _topics(self) -> Iterator[Metric]:
        for row in TOPIC_ROWS:
            kind = CounterMetricFamily if row.counts else GaugeMetricFamily
            family = kind(row.name, row.doc, labels=TOPIC_LABELS)
            for topic in self._broker.topics.values():
                family.add_metric(self._labels(topic), row.read(topic))
            yield family

    def _subscriptions(self) -> Iterator[Metric]:
        found = [
            ([*self._labels(topic), name], subscription)
            for topic in self._broker.topics.values()
            for name, subscription in topic.subscriptions.items()
        ]
        for row in SUBSCRIPTION_ROWS:
            family = GaugeMetricFamily(row.name, row.doc, labels=SUBSCRIPTION_LABELS)
            for labels, subscription in found:
                family.add_metric(labels, row.read(subscription))
            yield family
        now_ms = self._broker.clock.wall_ms()
        progress = [(labels, progress_of(one, now_ms)) for labels, one in found]
        for progress_row in PROGRESS_ROWS:
            family = GaugeMetricFamily(
                progress_row.name, progress_row.doc, labels=SUBSCRIPTION_LABELS
            )
            for labels, now in progress:
                family.add_metric(labels, progress_row.read(now))
            yield family
        expired = GaugeMetricFamily(
            "pulsar_subscription_total_msg_expired",
            "Messages that an operator had expired.",
            labels=SUBSCRIPTION_LABELS,
        )
        for labels, subscription in found:
            expired.add_metric(labels, subscription.tally.expired)
        yield expired
        for consumer_row in CONSUMER_ROWS:
            family = GaugeMetricFamily(consumer_row.name, consumer_row.doc, labels=CONSUMER_LABELS)
            for labels, subscription in found:
                for one in subscription.consumers:
                    # Two of one name are told apart by their numbers here.
                    family.add_metric([*labels, one.name, str(one.holder)], consumer_row.read(one))
            yield family

    def _labels(self, topic: Topic) -> list[str]:
        cluster = self._broker.settings.cluster_name
        return [cluster, str(topic.name.namespace), str(topic.name)]


def _labelled(name: str, doc: str, cluster: str, value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, doc, labels=["cluster"])
    family.add_metric([cluster], value)
    return family
