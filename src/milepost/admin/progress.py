"""Calls about progress: of subscriptions, their strips, topics with their counts (Milepost only).

for line in admin.get_progress(subscription="billing"):
    line["topic"], line["ready"], line["inflight"], line["verdict"], line["reason"]

A line is what `GET /milepost/v1/progress` has for one subscription on one partition (docs/progress.md),
trouble first. Apache Pulsar has no such path.
"""

from __future__ import annotations

from milepost.admin.request import Json, Script, get, own_path
from milepost.positions.names import NamespaceName

# What an index of a subscription may be.
STATES = ("acked", "inflight", "ready", "delayed", "trimmed")


def get_progress(
    topic: str | None = None, *, namespace: str | None = None, subscription: str | None = None
) -> Script[list[Json]]:
    """Of one topic with its partitions, of one namespace, or of everything; of one name, or of all."""
    if topic is not None:
        path = own_path(topic, "progress")
    else:
        path = f"{_within(namespace)}/progress"
    answer = yield get(path, subscription=subscription)
    lines = answer.object().get("subscriptions")
    if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
        raise answer.bad("not the progress of subscriptions")
    return lines


def get_strip(
    topic: str,
    subscription: str,
    *,
    first: int | None = None,
    end: int | None = None,
    columns: int | None = None,
) -> Script[Json]:
    """How many indexes of each column of a range are acked, inflight, ready, delayed or trimmed. Of a topic
    without partitions, or of one partition; of all that is retained unless a range is given."""
    path = own_path(topic, "subscriptions", subscription, "strip")
    answer = yield get(path, first=first, end=end, columns=columns)
    strip = answer.object()
    counts = [strip.get(state) for state in STATES]
    if not all(isinstance(one, list) and len(one) == strip.get("columns") for one in counts):
        raise answer.bad("not the strip of a subscription")
    return strip


def get_overview(*, namespace: str | None = None, limit: int | None = None) -> Script[Json]:
    """The broker's numbers, or a namespace's, with the subscriptions that are most in trouble."""
    path = f"{_within(namespace)}/overview"
    answer = yield get(path, limit=limit)
    found = answer.object()
    if not isinstance(found.get("lines"), list):
        raise answer.bad("not an overview")
    return found


def search_topics(
    *,
    namespace: str | None = None,
    search: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> Script[Json]:
    """A page of topics with their counts and sizes; a partitioned topic is one line. `after` is where the
    page before has ended."""
    path = f"{_within(namespace)}/topics"
    answer = yield get(path, search=search, after=after, limit=limit)
    found = answer.object()
    if not isinstance(found.get("topics"), list):
        raise answer.bad("not a list of topics")
    return found


def _within(namespace: str | None) -> str:
    if namespace is None:
        return "/milepost/v1"
    name = NamespaceName.parse(namespace)
    return f"/milepost/v1/namespaces/{name.tenant}/{name.local_name}"
