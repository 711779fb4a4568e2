"""Answers of all workers to one request, made into one. Pure.

EVERYWHERE[("GET", "/admin/v2/namespaces/{tenant}/{namespace}/topics")]     # names: those of all
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

from milepost.positions import severity
from milepost.rest.request import ADMIN, NAMESPACE
from milepost.rest.workers.exchange import Answer, json_answer

Query = Mapping[str, str]
Merge = Callable[[Sequence[Answer], Query], Answer]


def names(answers: Sequence[Answer], query: Query) -> Answer:
    """Lists of names."""
    return json_answer(200, sorted({name for one in answers for name in one.json}))


def documents(answers: Sequence[Answer], query: Query) -> Answer:
    """Objects in objects; what is no object is the same everywhere, or of one worker."""
    found: dict[str, Any] = {}
    for one in answers:
        _add(found, one.json)
    return json_answer(200, found)


def _add(found: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(found.get(key), dict):
            _add(found[key], value)
        else:
            found[key] = value


def coordinators(answers: Sequence[Answer], query: Query) -> Answer:
    """Lists of coordinators, by their numbers."""
    return json_answer(200, sorted((row for one in answers for row in one.json), key=_number))


def _number(row: dict[str, Any]) -> int:
    return int(row["id"])


def sums(answers: Sequence[Answer], query: Query) -> Answer:
    """Numbers that a dry run says, or nothing."""
    said = [one for one in answers if one.status != 204]
    if not said:
        return answers[0]
    return json_answer(200, {key: sum(one.json[key] for one in said) for key in said[0].json})


def first(answers: Sequence[Answer], query: Query) -> Answer:
    """All of them say the same."""
    return answers[0]


def progress(answers: Sequence[Answer], query: Query) -> Answer:
    """Lines of subscriptions, trouble first."""
    found = [one.json for one in answers]
    lines = [line for one in found for line in one["subscriptions"]]
    lines.sort(key=_trouble)
    return json_answer(200, {"at_ms": min(one["at_ms"] for one in found), "subscriptions": lines})


def _trouble(line: dict[str, Any]) -> tuple[int, int, str, int, str, str]:
    """As `broker/monitoring/overview.py` sorts lines."""
    return (
        -severity.severity(line["verdict"]),
        -line["backlog"],
        line["subscription"],
        line["partition"],
        line["topic"],
        line["member"],
    )


_OVERVIEW_SUMS: Final = (
    "topics",
    "topics_seen",
    "subscriptions",
    "producers",
    "consumers",
    "connections",
    "backlog",
    "stored_bytes",
    "in_trouble",
)


def overview(answers: Sequence[Answer], query: Query) -> Answer:
    """The numbers of all, and the most troubled lines of all."""
    found = [one.json for one in answers]
    verdicts: dict[str, int] = {}
    for one in found:
        for verdict, count in one["verdicts"].items():
            verdicts[verdict] = verdicts.get(verdict, 0) + count
    lines = sorted((line for one in found for line in one["lines"]), key=_trouble)
    skip, limit = int(query.get("skip", 0)), int(query.get("limit", 50))
    whole = {
        **found[0],
        **{name: sum(one[name] for one in found) for name in _OVERVIEW_SUMS},
        "at_ms": min(one["at_ms"] for one in found),
        "is_complete": all(one["is_complete"] for one in found),
        "rates": {key: sum(one["rates"][key] for one in found) for key in found[0]["rates"]},
        "verdicts": dict(sorted(verdicts.items(), key=lambda item: -severity.severity(item[0]))),
        "lines": lines[skip : skip + limit],
    }
    return json_answer(200, whole)


def topics(answers: Sequence[Answer], query: Query) -> Answer:
    """A page of topics: the first by name, of those that each worker has on its page."""
    found = [one.json for one in answers]
    limit = int(query.get("limit", 50))
    listed = sorted(
        (topic for one in found for topic in one["topics"]), key=lambda one: one["name"]
    )
    is_more = len(listed) > limit or any(one["after"] is not None for one in found)
    page = listed[:limit]
    after = page[-1]["name"] if is_more and page else None
    return json_answer(
        200, {"found": sum(one["found"] for one in found), "after": after, "topics": page}
    )


def refusal(answers: Sequence[Answer]) -> Answer | None:
    """What refuses the request: the worst that a worker said. That one does not have what another has
    is no refusal."""
    refused = [one for one in answers if one.status >= 400]
    if len(refused) < len(answers):
        refused = [one for one in refused if one.status != 404]
    return max(refused, key=lambda one: one.status, default=None)


def query_of(scope_query: bytes) -> dict[str, str]:
    return dict(parse_qsl(scope_query.decode("latin-1"), keep_blank_values=True))


_PART: Final = f"{ADMIN}/namespaces/{{tenant}}/{{namespace}}"
_BUNDLE: Final = f"{_PART}/{{bundle:bundle}}"
_OWN: Final = "/milepost/v1"
_OWN_NAMESPACE: Final = f"{_OWN}/namespaces/{{tenant}}/{{namespace}}"
TRANSACTIONS: Final = "/admin/v3/transactions"

# Requests that every worker answers for its own topics, and how the answers become one.
EVERYWHERE: Final[dict[tuple[str, str], Merge]] = {
    ("GET", NAMESPACE): names,
    ("GET", f"{NAMESPACE}/partitioned"): names,
    ("GET", f"{ADMIN}/non-persistent/{{tenant}}/{{namespace}}/{{bundle:bundle}}"): names,
    ("GET", f"{_PART}/topics"): names,
    ("GET", f"{_BUNDLE}/topicHashPositions"): documents,
    ("DELETE", _BUNDLE): first,
    ("PUT", f"{_PART}/unload"): first,
    ("PUT", f"{_BUNDLE}/unload"): first,
    ("POST", f"{_PART}/clearBacklog"): sums,
    ("POST", f"{_BUNDLE}/clearBacklog"): sums,
    ("POST", f"{_PART}/clearBacklog/{{subscription:path}}"): sums,
    ("POST", f"{_BUNDLE}/clearBacklog/{{subscription:path}}"): sums,
    ("GET", f"{ADMIN}/brokers/backlog-quota-check"): first,
    ("GET", f"{ADMIN}/brokers/health"): first,
    ("GET", f"{ADMIN}/broker-stats/topics"): documents,
    ("GET", f"{ADMIN}/brokers/{{cluster}}/{{broker_id}}/ownedNamespaces"): documents,
    ("GET", f"{TRANSACTIONS}/coordinators"): coordinators,
    ("GET", f"{TRANSACTIONS}/coordinatorStats"): documents,
    ("GET", f"{TRANSACTIONS}/slowTransactions/{{timeout}}"): documents,
    ("GET", f"{_OWN}/progress"): progress,
    ("GET", f"{_OWN_NAMESPACE}/progress"): progress,
    ("GET", f"{_OWN}/overview"): overview,
    ("GET", f"{_OWN_NAMESPACE}/overview"): overview,
    ("GET", f"{_OWN}/topics"): topics,
    ("GET", f"{_OWN_NAMESPACE}/topics"): topics,
}
OVERVIEWS: Final = (f"{_OWN}/overview", f"{_OWN_NAMESPACE}/overview")

_ONE_BY_ONE: Final = "where there are workers, ask for each topic by its own path"

# What several workers cannot do, and why.
REFUSED: Final[dict[tuple[str, str], str]] = {
    ("PUT", f"{ADMIN}/resourcegroups/{{name}}"): "rates of a group are not shared among workers: "
    "give namespaces or topics rates of their own",
    ("POST", f"{_PART}/resourcegroup/{{name}}"): "rates of a group are not shared among workers: "
    "give namespaces or topics rates of their own",
    ("POST", f"{_PART}/unsubscribe/{{subscription:path}}"): _ONE_BY_ONE,
    ("POST", f"{_BUNDLE}/unsubscribe/{{subscription:path}}"): _ONE_BY_ONE,
    ("POST", f"{ADMIN}/namespaces/grantPermissionsOnTopics"): _ONE_BY_ONE,
    ("POST", f"{ADMIN}/namespaces/revokePermissionsOnTopics"): _ONE_BY_ONE,
    ("PUT", f"{_PART}/{{bundle:splittable}}/split"): "bundles are not divided where there are "
    "workers: topics are shared out by their names",
    (
        "GET",
        f"{ADMIN}/broker-stats/metrics",
    ): "where there are workers, /metrics has the numbers of all of them",
    (
        "GET",
        f"{ADMIN}/broker-stats/load-report",
    ): "where there are workers, /metrics has the numbers of all of them",
}

# What belongs to one coordinator, whose number the path has.
OF_COORDINATOR: Final = {
    ("GET", f"{TRANSACTIONS}/transactionMetadata/{{mostSigBits}}/{{leastSigBits}}"),
    ("POST", f"{TRANSACTIONS}/abortTransaction/{{mostSigBits}}/{{leastSigBits}}"),
}
