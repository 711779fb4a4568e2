"""Metrics by RocketMQ's names, so that its dashboards and alerts work: shown while its clients are served.

Labels are RocketMQ's too: a topic is named without its namespace, and its queues are summed up. Numbers are
of topics in the namespace of `rocketmq_namespace`, whichever clients use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from milepost.broker.monitoring.progress import Progress

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.topic.topic import Topic

HALF_TOPIC = "persistent://pulsar/system/rocketmq-half-messages"
NODE_LABELS = ("cluster", "node_type", "node_id")
# As mqadmin is told.
NODE = ("broker", "milepost")

_GROUP_ROWS = (
    ("rocketmq_consumer_ready_messages", "Messages that a group could get now.", False),
    (
        "rocketmq_consumer_inflight_messages",
        "Messages that clients hold and have not acked.",
        False,
    ),
    ("rocketmq_consumer_lag_messages", "Both together: due, and not acked.", False),
    (
        "rocketmq_consumer_lag_latency",
        "Milliseconds since the first message came that is not acked; 0 if all are.",
        False,
    ),
    ("rocketmq_messages_out", "Messages sent to a group.", True),
    ("rocketmq_throughput_out", "Bytes sent to a group.", True),
)
_TOPIC_ROWS = (
    ("rocketmq_messages_in", "Messages stored."),
    ("rocketmq_throughput_in", "Bytes stored."),
)


class RocketMqReadings:
    """What topics and groups said, summed up over queues."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        settings = broker.settings
        self.is_shown = settings.rocketmq_port >= 0 or settings.rocketmq_tls_port >= 0
        self._namespace = settings.rocketmq_namespace
        self._topics: dict[str, list[float]] = {}
        self._groups: dict[tuple[str, str], list[float]] = {}
        self._halves = 0

    def take(self, topic: Topic, lines: Sequence[Progress]) -> None:
        """One queue, at one moment."""
        if not self.is_shown:
            return
        name = topic.name
        if name.text == HALF_TOPIC:
            self._halves = sum(one.cursor.backlog for one in topic.subscriptions.values())
        if str(name.namespace) != self._namespace or not name.is_persistent:
            return
        base = name.base.local_name
        totals = self._topics.setdefault(base, [0.0] * len(_TOPIC_ROWS))
        _add(totals, (topic.messages_in, topic.bytes_in))
        for (group, one), line in zip(topic.subscriptions.items(), lines, strict=True):
            found = self._groups.setdefault((base, group), [0.0] * len(_GROUP_ROWS))
            latency_ms = max(found[3], line.behind_ms)
            due, counts = line.ready + line.inflight, one.counts
            _add(found, (line.ready, line.inflight, due, 0, line.messages_out, counts.bytes_out))
            found[3] = latency_ms

    def collect(self) -> Iterable[Metric]:
        if not self.is_shown:
            return
        node = (self._broker.settings.cluster_name, *NODE)
        for place, (name, doc) in enumerate(_TOPIC_ROWS):
            family = CounterMetricFamily(name, doc, labels=(*NODE_LABELS, "topic"))
            for topic, values in self._topics.items():
                family.add_metric([*node, topic], values[place])
            yield family
        for place, (name, doc, counts) in enumerate(_GROUP_ROWS):
            kind = CounterMetricFamily if counts else GaugeMetricFamily
            found = kind(name, doc, labels=(*NODE_LABELS, "topic", "consumer_group"))
            for (topic, group), values in self._groups.items():
                found.add_metric([*node, topic, group], values[place])
            yield found
        yield from self._of_the_broker(node)

    def _of_the_broker(self, node: tuple[str, ...]) -> Iterator[Metric]:
        counters = self._broker.counters
        ended = counters.rocketmq_transactions
        groups = {group for _, group in self._groups}
        for name, doc, value, counts in (
            ("rocketmq_topic_number", "Topics that are open.", len(self._topics), False),
            ("rocketmq_consumer_group_number", "Groups of open topics.", len(groups), False),
            ("rocketmq_half_messages", "Transactions that have not ended.", self._halves, False),
            ("rocketmq_commit_messages", "Commits.", ended["committed"], True),
            ("rocketmq_rollback_messages", "Rollbacks.", ended["rolled_back"], True),
            (
                "rocketmq_send_to_dlq_messages",
                "Messages moved to dead letters.",
                counters.rocketmq_dead_letters,
                True,
            ),
        ):
            kind = CounterMetricFamily if counts else GaugeMetricFamily
            family = kind(name, doc, labels=NODE_LABELS)
            family.add_metric(list(node), value)
            yield family


def _add(totals: list[float], values: Sequence[float]) -> None:
    for place, value in enumerate(values):
        totals[place] += value
