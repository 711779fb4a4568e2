"""Calls about the progress of subscriptions (Milepost only).

for line in admin.get_progress(subscription="billing"):
    line["topic"], line["ready"], line["inflight"], line["verdict"], line["reason"]

A line is what `GET /milepost/v1/progress` has for one subscription on one partition (docs/progress.md),
trouble first. Apache Pulsar has no such path.
"""

from __future__ import annotations

from milepost.admin.request import Json, Script, get, own_path
from milepost.positions.names import NamespaceName


def get_progress(
    topic: str | None = None, *, namespace: str | None = None, subscription: str | None = None
) -> Script[list[Json]]:
    """Of one topic with its partitions, of one namespace, or of everything; of one name, or of all."""
    if topic is not None:
        path = own_path(topic, "progress")
    elif namespace is not None:
        name = NamespaceName.parse(namespace)
        path = f"/milepost/v1/namespaces/{name.tenant}/{name.local_name}/progress"
    else:
        path = "/milepost/v1/progress"
    answer = yield get(path, subscription=subscription)
    lines = answer.object().get("subscriptions")
    if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
        raise answer.bad("not the progress of subscriptions")
    return lines
