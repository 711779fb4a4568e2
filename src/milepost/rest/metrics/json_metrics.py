"""The broker's metrics as JSON, at upstream's older paths.

`broker-stats/metrics` has them by namespace, with upstream's names; `load-report` is what brokers tell each
other, and here any client that asks.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, Final

from pydantic import BaseModel

from milepost import __version__
from milepost.broker.auth.operations import Operation
from milepost.broker.broker import Broker
from milepost.broker.monitoring import stats
from milepost.broker.topic.topic import Topic
from milepost.rest.hosts import broker_name, http_url
from milepost.rest.request import ADMIN, AskedBroker
from milepost.rest.route_access import Router

router = Router("brokers", Operation.SUPERUSER, prefix=f"{ADMIN}/broker-stats")

# Topics gone through before others have their turn.
STEP_TOPICS: Final = 50


class Metrics(BaseModel):
    metrics: dict[str, float]
    dimensions: dict[str, str]


@router.get("/metrics")
async def get_metrics(broker: AskedBroker) -> list[Metrics]:
    """Rates, sizes and who is connected, of each namespace that has an open topic; then connections."""
    found: dict[str, dict[str, float]] = {}
    for number, topic in enumerate(list(broker.topics.values()), 1):
        total = found.setdefault(str(topic.name.namespace), defaultdict(float))
        for name, value in _numbers(topic).items():
            total[name] += value
        if number % STEP_TOPICS == 0:
            await asyncio.sleep(0)
    rows = [
        Metrics(metrics=total, dimensions={"namespace": name})
        for name, total in sorted(found.items())
    ]
    dimensions = {
        "broker": broker_name(broker),
        "cluster": broker.settings.cluster_name,
        "metric": "broker_connection",
    }
    return [*rows, Metrics(metrics=_connections(broker), dimensions=dimensions)]


def _numbers(topic: Topic) -> dict[str, float]:
    rate_in, throughput_in, rate_out, throughput_out = topic.rates.per_second[:4]
    subscriptions = list(topic.subscriptions.values())
    slowest = stats.slowest(topic)
    return {
        "brk_in_rate": rate_in,
        "brk_in_tp_rate": throughput_in,
        "brk_out_rate": rate_out,
        "brk_out_tp_rate": throughput_out,
        "brk_storage_size": topic.log.size_from(topic.log.first_index),
        "brk_msg_backlog": 0 if slowest is None else slowest[0].cursor.backlog,
        "brk_no_of_producers": len(topic.producers),
        "brk_no_of_subscriptions": len(subscriptions),
        "brk_no_of_consumers": sum(len(one.consumers) for one in subscriptions),
        "brk_no_of_topics": 1,
        "brk_replication_backlog": 0,
    }


def _connections(broker: Broker) -> dict[str, float]:
    counters = broker.counters
    return {
        "brk_active_connections": len(broker.sessions),
        "brk_connection_created_total_count": counters.connections_opened,
        "brk_connection_closed_total_count": counters.connections_closed.total(),
        "brk_connection_create_fail_count": counters.connections_refused.total(),
    }


@router.get("/load-report")
async def get_load_report(broker: AskedBroker) -> dict[str, Any]:
    """What there is to carry; of the machine nothing, which other tools know better."""
    topics = list(broker.topics.values())
    rates = [topic.rates.per_second for topic in topics]
    return {
        "webServiceUrl": http_url(broker),
        "pulsarServiceUrl": broker.lookup_url(),
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": broker.settings.enable_non_persistent_topics,
        "msgRateIn": sum(one[0] for one in rates),
        "msgThroughputIn": sum(one[1] for one in rates),
        "msgRateOut": sum(one[2] for one in rates),
        "msgThroughputOut": sum(one[3] for one in rates),
        "lastUpdate": broker.clock.wall_ms(),
        "numTopics": len(topics),
        "numBundles": len({topic.name.namespace for topic in topics}),
        "numProducers": sum(len(topic.producers) for topic in topics),
        "numConsumers": sum(
            len(one.consumers) for topic in topics for one in topic.subscriptions.values()
        ),
        "brokerVersionString": __version__,
        "loadReportType": "LocalBrokerData",
    }
