"""What a broker answers about itself: runtime numbers, settings, statistics of topics and groups.

The names are upstream's, so that mqadmin prints its columns. What has no meaning here (thread pools, the page
cache, timers) is told as nothing to wait for; what is not known is left out, and mqadmin shows it as empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost import __version__
from milepost.broker.auth.operations import Operation
from milepost.rocketmq.message_check import BODY_SIZE_MAX
from milepost.rocketmq.remoting import json_text
from milepost.rocketmq.remoting.codes import Ask, RemotingRefusal, Status
from milepost.rocketmq.remoting.frames import VERSION
from milepost.rocketmq.remoting.name_server import address_of
from milepost.rocketmq.remoting.request import Answer, Request
from milepost.rocketmq.remoting.topics import opened_queues
from milepost.rocketmq.routes import BROKER_NAME

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

# What statistics are of.
TOPIC_IN, GROUP_OUT = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS"

# Queues of requests and timers that this broker does not have: nothing waits in them.
_NOTHING_WAITS = (
    "sendThreadPoolQueueSize",
    "pullThreadPoolQueueSize",
    "ackThreadPoolQueueSize",
    "queryThreadPoolQueueSize",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "ackThreadPoolQueueHeadWaitTimeMills",
    "queryThreadPoolQueueHeadWaitTimeMills",
    "timerReadBehind",
    "timerOffsetBehind",
    "timerCongestNum",
    "pageCacheLockTimeMills",
)
_COUNTED_BEFORE = (
    "msgPutTotalTodayMorning",
    "msgPutTotalYesterdayMorning",
    "msgGetTotalTodayMorning",
    "msgGetTotalYesterdayMorning",
)


def rates_of(broker: Broker) -> tuple[float, float]:
    """Messages a second, in and out, of all topics that are open."""
    found = [topic.rates.per_second for topic in broker.topics.values()]
    return sum(one[0] for one in found), sum(one[2] for one in found)


async def get_runtime_info(request: Request) -> Answer:
    request.check(Operation.SUPERUSER)
    broker = request.broker
    rate_in, rate_out = rates_of(broker)
    counters = broker.counters
    table = {
        "brokerActive": "true",
        "brokerVersion": str(VERSION),
        "brokerVersionDesc": f"Milepost_{__version__}",
        # Counts begin with the process, not with the day.
        **dict.fromkeys(_COUNTED_BEFORE, "0"),
        "msgPutTotalTodayNow": str(counters.messages_in),
        "msgGetTotalTodayNow": str(counters.messages_out),
        # Of the last ten seconds, which stand for the last minute and ten minutes too.
        "putTps": " ".join([f"{rate_in:.2f}"] * 3),
        "getTransferredTps": " ".join([f"{rate_out:.2f}"] * 3),
        "timerEnqueueTps": "0.0",
        "timerDequeueTps": "0.0",
        **dict.fromkeys(_NOTHING_WAITS, "0"),
    }
    return Answer(body=json_text.encode({"table": dict(sorted(table.items()))}))


async def get_settings(request: Request) -> Answer:
    """Settings by upstream's names; `milepost config show` has the broker's own."""
    request.check(Operation.SUPERUSER)
    broker, settings = request.broker, request.broker.settings
    address = address_of(request)
    allowed, partitions = broker.policies.book.auto_topics(request.namespace)
    told = {
        "autoCreateSubscriptionGroup": "true",
        "autoCreateTopicEnable": "false",
        "brokerClusterName": settings.cluster_name,
        "brokerIP1": settings.advertised_host,
        "brokerId": "0",
        "brokerName": BROKER_NAME,
        "brokerRole": "ASYNC_MASTER",
        "defaultTopicQueueNums": str(partitions if allowed and partitions else 1),
        "flushDiskType": "SYNC_FLUSH",
        "listenPort": address.rpartition(":")[2],
        "maxMessageSize": str(min(BODY_SIZE_MAX, settings.max_message_size)),
        "namesrvAddr": address,
        "storePathRootDir": str(settings.data),
    }
    text = "".join(f"{name}={value}\n" for name, value in sorted(told.items()))
    return Answer(body=text.encode(), fields={"version": "{}"})


async def get_statistics(request: Request) -> Answer:
    """Rates and counts of a topic (`statsAll` asks for it), or of a group on a topic: `topic@group`.

    A rate is that of the last ten seconds, a count that since the topic was opened.
    """
    kind, (topic, _, group) = request.text("statsName"), request.text("statsKey").partition("@")
    name = request.topic_named(topic)
    if kind == TOPIC_IN and not group:
        request.check_topic(Operation.LOOK_UP, name)
        request.check_known(name)
        queues = await opened_queues(request, name)
        found = [(one.rates.per_second[0], one.messages_in) for one in queues]
    elif kind == GROUP_OUT and group:
        request.check_topic(Operation.CONSUME, name, group)
        request.check_known(name)
        queues = await opened_queues(request, name)
        mine = [one.subscriptions[group] for one in queues if group in one.subscriptions]
        found = [(one.rates.per_second[0], one.counts.messages_out) for one in mine]
    else:
        raise RemotingRefusal(
            Status.SYSTEM_ERROR, f"there are no statistics {kind[:80]!a} of {topic[:80]!a}"
        )
    rate, count = sum(one[0] for one in found), sum(one[1] for one in found)
    told = {
        "statsMinute": {"sum": round(rate * 60), "tps": rate, "avgpt": 0.0},
        "statsHour": {"sum": count, "tps": rate, "avgpt": 0.0},
        "statsDay": {"sum": count, "tps": rate, "avgpt": 0.0},
    }
    return Answer(body=json_text.encode(told))


HANDLERS = {
    Ask.VIEW_BROKER_STATS_DATA: get_statistics,
    Ask.GET_BROKER_RUNTIME_INFO: get_runtime_info,
    Ask.GET_BROKER_CONFIG: get_settings,
}
