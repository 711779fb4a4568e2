"""Makes docs/policies.md from the table.

python -m milepost.broker.policies.reference > docs/policies.md
"""

from __future__ import annotations

import json
import sys

from milepost.broker.policies.policy import Policy, Route
from milepost.broker.policies.table import TABLE
from milepost.broker.settings.settings import Settings

INTRODUCTION = """\
# Policies

A policy limits or changes what a topic does. It can be set for a namespace, for a topic, or both, by
upstream's REST paths; the nearest level that says anything decides: the topic, its namespace, then the
broker's [settings](configuration.md). A value replaces the whole value of the level behind it.

    POST   /admin/v2/namespaces/public/default/retention            {"retentionTimeInMinutes": 60, …}
    GET    /admin/v2/persistent/public/default/orders/retention?applied=true
    DELETE /admin/v2/persistent/public/default/orders/retention

- GET answers what was set at that level; with `applied=true`, of a topic, what holds.
- Setting answers 204 when the value is durable and every open topic obeys it; null removes it.
- A value of the wrong type, or one that contradicts itself, is a 400; a number out of its range a 412.
  Either names the policy and what is allowed, and changes nothing. Unknown fields are dropped, but
  an object without one known field is refused: upstream takes it for the defaults.
- The policies of a partitioned topic are those of each of its partitions.
- `isGlobal` is taken and changes nothing: there is one cluster.

## How they act

- **Limits** of producers, consumers and subscriptions turn away who comes too many; who is there stays.
  The client hears `ProducerBusy`, `ConsumerBusy` or `NotAllowedError`, as from upstream.
- **Unacked messages**: at the limit a shared consumer, or all of a shared subscription, get nothing more
  until half of it is acked. A new limit holds at once for those who are connected.
- **Publish rate**: the connection of a producer that is too fast is not read until its time has come. Nothing
  is refused and nothing is lost; a second's worth may come at once.
- **Dispatch rates** are counted in messages and bytes that go out, redeliveries included.
- **Delayed delivery** (`deliver_at`, `deliver_after`) holds on Shared and Key_Shared subscriptions; others
  deliver at once, as upstream does. A delayed message is in the backlog, and counted as
  delayed once delivery has met it. It leaves
  within 100 ms of its time, never before, and knows its time after a restart.
- **Encryption**: where it is required, producers that do not encrypt are closed and kept out, and a message
  that is not encrypted is refused; the client hears `MetadataError`, as from upstream.
- **Expiry** (`messageTTL`) acks what is older, for every subscription, also what is delayed or inflight.
- **Retention** deletes whole ledgers, the oldest first, that every durable subscription has acked and that
  are older, or lie beyond the size. What a subscription has not acked is never deleted; a reader holds
  nothing.
- **Backlog quotas**: past a quota producers are closed and kept out, with an error that makes their clients
  wait (`producer_request_hold`) or fail (`producer_exception`), until the backlog is below; or the oldest
  messages are acked for the subscriptions that are behind (`consumer_backlog_eviction`).
- **Compaction** begins by itself when a topic has grown by its threshold since the last time. What compaction
  kept is not deleted by retention.
- **Inactive topics** are deleted, with what is in them, when no client has published or subscribed for as
  long; partitions are not. Nothing is deleted unless a policy asks for it: upstream's default is to delete.
- **Subscriptions** that no consumer has used for so many minutes are deleted, with their position. The time
  counts from when it was first seen so, and goes on through a restart; what had expired by then is looked at
  twice before it goes. A reader's go with the reader.
- **Resource groups** (`/admin/v2/resourcegroups`): all topics of the namespaces in a group share its rates,
  in and out, besides their own. Who is fast leaves less for the others.
- Policies about what is not here (other clusters, offloading, filters, affinity) are kept and answered;
  nothing acts on them. Other clusters, and filters that are not installed, are refused with upstream's
  statuses.
- **Deduplication** switched for a topic in use begins, or ends, between two messages, before it is answered.
  The sequence ids of a producer that is gone for six hours (`deduplication_inactive_s`) are forgotten.
- A **dispatch rate** may be set for one subscription (`…/{topic}/{subscription}/dispatchRate`); it holds
  before what the topic has for each.

How often expiry, retention, subscriptions and quotas are looked after is a setting; one of them may so be
late by as much.

## The table

"""

_HEAD = (
    "| policy | of a namespace | of a topic | value | default | what it means |\n"
    "| --- | --- | --- | --- | --- | --- |\n"
)


def page() -> str:
    rows = "".join(_row(policy) for policy in TABLE)
    kept = [f"`{policy.name}`" for policy in TABLE if not policy.acts]
    return (
        f"{INTRODUCTION}{_HEAD}{rows}\nKept and answered, and nothing here depends on them: "
        f"{', '.join(kept)}.\n"
    )


def _row(policy: Policy) -> str:
    default = ", ".join(f"`{name}`" for name in policy.settings)
    if not default:
        value = policy.default_by(Settings())
        default = "none" if value is None else f"`{json.dumps(value)}`"
    cells = (
        f"`{policy.name}`",
        _route(policy.namespace),
        _route(policy.topic),
        policy.shape.allowed,
        default,
        policy.doc,
    )
    return f"| {' | '.join(cells)} |\n"


def _route(route: Route | None) -> str:
    if route is None:
        return ""
    path = f"{route.path}?backlogQuotaType={route.kind}" if route.kind else route.path
    verbs = "" if route.method == "POST" else f" ({route.method})"
    return f"`{path}`{verbs}"


if __name__ == "__main__":
    sys.stdout.write(page())
