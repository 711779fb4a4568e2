"""Metrics for Prometheus: read from the broker's state when somebody asks, and not before.

Names and labels are Pulsar's where Pulsar has the number, so that its dashboards work; what is ours
is called `milepost_…`. Nothing is counted here: `broker/counters.py` has what only grows, and the
topics have the rest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from milepost.broker.auth.operations import Operation
from milepost.broker.progress import progress_of
from milepost.rest.permission import needs

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

router = APIRouter(tags=["metrics"])

TOPIC_LABELS = ("cluster", "namespace", "topic")
SUBSCRIPTION_LABELS = (*TOPIC_LABELS, "subscription")


@router.get("/metrics", dependencies=[needs(Operation.METRICS)])
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

    def _broker_gauges(self) -> Iterator[Metric]:
        broker = self._broker
        topics = broker.topics.values()
        rows = {
            "pulsar_active_connections": ("Connections now.", len(broker.sessions)),
            "pulsar_topics_count": ("Topics that are open.", len(topics)),
            "pulsar_subscriptions_count": (
                "Subscriptions of open topics.",
                sum(len(topic.subscriptions) for topic in topics),
            ),
            "pulsar_producers_count": (
                "Producers now.",
                sum(len(topic.producers) for topic in topics),
            ),
            "pulsar_consumers_count": (
                "Consumers now.",
                sum(len(s.consumers) for topic in topics for s in topic.subscriptions.values()),
            ),
            "milepost_schemas": ("Topics that have a schema.", broker.schemas.count),
            "milepost_recovery_entries": (
                "Entries that this start found in the journal.",
                broker.store.report.entries,
            ),
        }
        for name, (doc, value) in rows.items():
            yield _labelled(name, doc, broker.settings.cluster_name, value)

    def _topics(self) -> Iterator[Metric]:
        cluster = self._broker.settings.cluster_name
        families = {
            "in_messages": _counter("pulsar_in_messages", "Messages stored."),
            "in_bytes": _counter("pulsar_in_bytes", "Bytes stored."),
            "out_messages": _counter("pulsar_out_messages", "Messages sent to consumers."),
            "out_bytes": _counter("pulsar_out_bytes", "Bytes sent to consumers."),
            "storage": _gauge("pulsar_storage_size", "Bytes of the ledgers."),
            "first": _gauge("milepost_topic_first_index", "The first index that is kept."),
            "end": _gauge("milepost_topic_end_index", "One past the last index."),
        }
        for topic in self._broker.topics.values():
            labels = [cluster, str(topic.name.namespace), str(topic.name)]
            families["in_messages"].add_metric(labels, topic.messages_in)
            families["in_bytes"].add_metric(labels, topic.bytes_in)
            families["out_messages"].add_metric(labels, topic.messages_out)
            families["out_bytes"].add_metric(labels, topic.bytes_out)
            families["storage"].add_metric(labels, topic.log.size_bytes)
            families["first"].add_metric(labels, topic.log.first_index)
            families["end"].add_metric(labels, topic.log.end_index)
        yield from families.values()

    def _subscriptions(self) -> Iterator[Metric]:
        """`pulsar_subscription_back_log` is in messages here; upstream it counts entries."""
        cluster = self._broker.settings.cluster_name
        labels = SUBSCRIPTION_LABELS
        families = {
            "ready": _gauge("milepost_subscription_ready", "With nobody.", labels),
            "inflight": _gauge("milepost_subscription_inflight", "With a consumer.", labels),
            "acked": _gauge("milepost_subscription_acked", "Done.", labels),
            "delayed": _gauge("milepost_subscription_delayed", "Ready, but not due.", labels),
            "pulsar_delayed": _gauge("pulsar_subscription_delayed", "Ready, but not due.", labels),
            "holes": _gauge(
                "milepost_subscription_holes", "Ranges not acked below acked ones.", labels
            ),
            "behind": _gauge(
                "milepost_subscription_lag_seconds",
                "Since the first message came that is not acked; 0 if all are.",
                labels,
            ),
            "trouble": _gauge(
                "milepost_subscription_trouble",
                "0 caught up, 1 consuming, 2 slow, 3 reset pending, 4 no consumer, 5 starved, "
                "6 stalled, 7 blocked by a hole.",
                labels,
            ),
            "backlog": _gauge("pulsar_subscription_back_log", "Not acked, in messages.", labels),
            "unacked": _gauge(
                "pulsar_subscription_unacked_messages", "Sent and not acked.", labels
            ),
            "epoch": _gauge("milepost_seek_epoch", "How often the cursor was sought.", labels),
        }
        now_ms = self._broker.clock.wall_ms()
        for topic in self._broker.topics.values():
            of_topic = [cluster, str(topic.name.namespace), str(topic.name)]
            for name, subscription in topic.subscriptions.items():
                values = [*of_topic, name]
                now = progress_of(subscription, now_ms)
                families["ready"].add_metric(values, now.ready)
                families["inflight"].add_metric(values, now.inflight)
                families["acked"].add_metric(values, now.acked)
                families["delayed"].add_metric(values, now.delayed)
                families["pulsar_delayed"].add_metric(values, now.delayed)
                families["backlog"].add_metric(values, now.backlog)
                families["unacked"].add_metric(values, now.inflight)
                families["epoch"].add_metric(values, now.epoch)
                families["holes"].add_metric(values, now.holes)
                families["behind"].add_metric(values, now.behind_ms / 1000)
                families["trouble"].add_metric(values, now.verdict.severity)
        yield from families.values()


Family = CounterMetricFamily | GaugeMetricFamily


def _labelled(name: str, doc: str, cluster: str, value: float) -> Family:
    family = GaugeMetricFamily(name, doc, labels=["cluster"])
    family.add_metric([cluster], value)
    return family


def _counter(name: str, doc: str) -> Family:
    return CounterMetricFamily(name, doc, labels=TOPIC_LABELS)


def _gauge(name: str, doc: str, labels: tuple[str, ...] = TOPIC_LABELS) -> Family:
    return GaugeMetricFamily(name, doc, labels=labels)
