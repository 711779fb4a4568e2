"""All topics of an Apache Pulsar: numbers, lists, policies.

Statistics are asked for topic by topic, of so many at most; of the others the broker's own summary is taken,
which it makes once a minute and which has only topics that this broker serves. One survey serves for as long
as ten times what it took, so that looking costs the broker a tenth of a thread at most.
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost.admin.errors import AdminError, Forbidden, Missing, Refused, ServerFault
from milepost.cli.console.pulsar_groups import short_line
from milepost.positions import severity
from milepost.positions.names import TopicName

if TYPE_CHECKING:
    from milepost.admin import Admin

Json = dict[str, Any]

# Topics that are asked one by one, and how many at once.
ASKED_MAX: Final = 300
AT_ONCE: Final = 8
NAMESPACES_MAX: Final = 500
FRESH_S: Final = 2.0
FRESH_TIMES: Final = 10
# Policies of a topic that are asked for, by their names in REST, with the name that a namespace's has.
OF_TOPICS: Final = {
    "retention": "retention_policies",
    "messageTTL": "message_ttl_in_seconds",
    "backlogQuotaMap": "backlog_quota_map",
    "persistence": "persistence",
    "deduplicationEnabled": "deduplicationEnabled",
    "maxProducers": "max_producers_per_topic",
    "maxConsumers": "max_consumers_per_topic",
    "maxUnackedMessagesOnConsumer": "max_unacked_messages_per_consumer",
    "compactionThreshold": "compaction_threshold",
    "publishRate": "publishMaxMessageRate",
    "dispatchRate": "topicDispatchRate",
}
# What a namespace has that is no policy, and values that mean that nothing is set.
NOT_SHOWN: Final = ("auth_policies", "bundles", "deleted", "migrated")
NOT_SET: Final[tuple[Any, ...]] = (None, {}, [], "", -1, "UNDEFINED", "None")


class Survey(NamedTuple):
    began_s: float
    took_s: float
    names: list[str]
    stats: dict[str, Json]

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.began_s < max(FRESH_S, FRESH_TIMES * self.took_s)


def session(admin: Admin, read_only: bool) -> Json:
    """Who looks at what; `Unauthorized` if the broker wants credentials."""
    version = admin.get_version()
    namespaces: list[str] = []
    is_superuser = True
    try:
        for tenant in admin.list_tenants():
            namespaces += admin.list_namespaces(tenant)
    except Forbidden:
        is_superuser = False
    cluster = ""
    with suppress(AdminError):
        cluster = ", ".join(admin.list_clusters())
    return {
        "product": "Apache Pulsar",
        "version": f"Apache Pulsar {version}",
        "cluster": cluster,
        "role": None,
        "is_superuser": is_superuser,
        "read_only": read_only,
        "namespaces": [one for one in namespaces if one != "pulsar/system"][:NAMESPACES_MAX],
    }


def survey(admin: Admin, namespaces: list[str]) -> Survey:
    began_s = time.monotonic()
    names: list[str] = []
    for namespace in namespaces:
        with suppress(Missing):  # deleted since it was listed
            names += admin.list_topics(namespace, domain="persistent")
    names.sort()
    stats: dict[str, Json] = {}
    if len(names) > ASKED_MAX:
        with suppress(AdminError):
            stats = _summary(admin.get_broker_topics())

    def ask(name: str) -> tuple[str, Json | None]:
        try:
            return name, admin.get_stats(name, backlog_size=False)
        except (Missing, ServerFault, Refused):
            return name, None  # deleted since, or a broker that is just taking it over

    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [one for one in names if one not in stats][:ASKED_MAX]
        stats |= {name: found for name, found in pool.map(ask, asked) if found is not None}
    return Survey(began_s, time.monotonic() - began_s, names, stats)


def _summary(found: Json) -> dict[str, Json]:
    """Statistics by topic, from those of a broker: namespace, bundle, domain, topic."""
    return {
        topic: stats
        for bundles in found.values()
        for domains in bundles.values()
        for domain, topics in domains.items()
        if domain == "persistent"
        for topic, stats in topics.items()
    }


def overview(found: Survey, skip: int, limit: int, now_ms: int) -> Json:
    """The numbers of all topics, the most troubled groups first."""
    lines: list[Json] = []
    totals: Counter[str] = Counter()
    rates = dict.fromkeys(("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut"), 0.0)
    for topic, stats in found.stats.items():
        totals["producers"] += len(stats.get("publishers") or [])
        totals["stored"] += int(stats.get("storageSize") or 0)
        for name in rates:
            rates[name] += float(stats.get(name) or 0)
        rate_in = float(stats.get("msgRateIn") or 0)
        groups = stats.get("subscriptions") or {}
        lines += [short_line(topic, name, group, rate_in) for name, group in groups.items()]
    verdicts = Counter(line["verdict"] for line in lines)
    lines.sort(key=lambda one: (-severity.severity(one["verdict"]), -one["backlog"], one["topic"]))
    return {
        "at_ms": now_ms,
        "is_complete": len(found.stats) == len(found.names),
        "topics": len(found.names),
        "topics_seen": len(found.stats),
        "subscriptions": len(lines),
        "producers": totals["producers"],
        "consumers": sum(line["consumers"] for line in lines),
        "connections": None,
        "backlog": sum(line["backlog"] for line in lines),
        "stored_bytes": totals["stored"],
        "rates": dict(
            zip(
                ("messages_in", "bytes_in", "messages_out", "bytes_out"),
                rates.values(),
                strict=True,
            )
        ),
        "disk": None,
        "verdicts": dict(sorted(verdicts.items(), key=lambda one: -severity.severity(one[0]))),
        "in_trouble": sum(n for verdict, n in verdicts.items() if severity.is_trouble(verdict)),
        "lines": lines[skip : skip + limit],
    }


def topics(found: Survey, search: str, after: str, limit: int) -> Json:
    """A page of topics; a partitioned one is a line."""
    whole: dict[str, list[str]] = {}
    for name in found.names:
        topic = TopicName.parse(name)
        whole.setdefault(str(topic.base), []).append(name)
    fit = sorted(name for name in whole if search in name)
    page = [name for name in fit if name > after][:limit]
    is_last = not page or page[-1] == fit[-1]
    return {
        "found": len(fit),
        "after": None if is_last else page[-1],
        "topics": [_listed(name, whole[name], found.stats) for name in page],
    }


def _listed(name: str, parts: list[str], known: dict[str, Json]) -> Json:
    stats = [known[one] for one in parts if one in known]
    lines = [
        short_line(part, group, one, 0.0)
        for part in parts
        for group, one in (known.get(part, {}).get("subscriptions") or {}).items()
    ]

    def total(field: str) -> float:
        return sum(float(one.get(field) or 0) for one in stats)

    is_partitioned = parts != [name]
    return {
        "name": name,
        "partitions": len(parts) if is_partitioned else 0,
        "subscriptions": len({line["subscription"] for line in lines}),
        "producers": sum(len(one.get("publishers") or []) for one in stats),
        "consumers": sum(line["consumers"] for line in lines),
        "messages": None,
        "backlog": sum(line["backlog"] for line in lines),
        "stored_bytes": int(total("storageSize")),
        "rate_in": total("msgRateIn"),
        "rate_out": total("msgRateOut"),
        "verdict": severity.worst(line["verdict"] for line in lines) if lines else "",
    }


def policies(admin: Admin, topic: str) -> list[Json]:
    """Those that a topic or its namespace has set. What the broker's settings say is not told."""
    found = []
    of_namespace = admin.get_policies(str(TopicName.parse(topic).namespace))
    for name, own in OF_TOPICS.items():
        try:
            value = admin.get_topic_policy(topic, name)
        except (Missing, Refused, ServerFault):
            continue  # policies of topics are switched off, or this one is newer than the broker
        if value not in (None, {}, []):
            of_namespace.pop(own, None)
            found.append({"name": name, "doc": "", "value": value, "source": "topic"})
    for name, value in of_namespace.items():
        if value not in NOT_SET and name not in NOT_SHOWN:
            found.append({"name": name, "doc": "", "value": value, "source": "namespace"})
    return found
