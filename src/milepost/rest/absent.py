"""Routes of Apache Pulsar that Milepost does not have, each with the reason it answers.

Where upstream can do without something too (functions, packages), the answer is the status that it gives
then; clients and tools know it. What is about machinery that one broker has not (other clusters, bookies, a
balance of load) is 405. `docs/rest.md` has this table, and a test goes through every route of Apache Pulsar
4.2.4 and finds it served, or here.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from fastapi import APIRouter

from milepost.broker.auth.operations import Operation
from milepost.errors import Absent
from milepost.rest.route_access import needs

router = APIRouter(tags=["not here"], dependencies=[needs(Operation.IDENTIFIED)])

ALL: Final = "GET PUT POST DELETE"
CLUSTER: Final = "/admin/v2/clusters/{cluster}"
STATS: Final = "/admin/v2/broker-stats"
TRANSACTIONS: Final = "/admin/v3/transactions"

_FUNCTIONS: Final = (
    "there is no functions worker: run functions beside the broker, as clients of it"
)
_ONE_CLUSTER: Final = "there is one cluster, which this broker is"
_ONE_BROKER: Final = "there is one broker, so nothing is shared out among brokers"
_NO_BOOKIES: Final = "there are no bookies: this broker stores what it has"
_NO_TXN_LEDGER: Final = "transactions have no ledgers of their own: the journal has their facts"
_ONE_COORDINATOR: Final = (
    "the number of transaction coordinators is that of the shards (serve --workers, --shards), one "
    "without them"
)
_NO_JVM: Final = "there is no Java process to look into; /metrics has what is known of this one"


class Row(NamedTuple):
    methods: str
    path: str
    """Everything below it too, if it ends with a slash."""
    status: int
    reason: str


TABLE: Final = (
    Row(ALL, "/admin/v2/functions/", 409, _FUNCTIONS),
    Row(ALL, "/admin/v3/functions/", 409, _FUNCTIONS),
    Row(ALL, "/admin/v3/sink/", 409, _FUNCTIONS),
    Row(ALL, "/admin/v3/sinks/", 409, _FUNCTIONS),
    Row(ALL, "/admin/v3/source/", 409, _FUNCTIONS),
    Row(ALL, "/admin/v3/sources/", 409, _FUNCTIONS),
    Row(ALL, "/admin/v2/worker/", 409, _FUNCTIONS),
    Row("GET", "/admin/v2/worker-stats/", 409, _FUNCTIONS),
    Row(
        ALL, "/admin/v3/packages/", 503, "there is no store of packages, as there are no functions"
    ),
    Row("GET", f"{TRANSACTIONS}/coordinatorInternalStats/", 405, _NO_TXN_LEDGER),
    Row("GET", f"{TRANSACTIONS}/pendingAckInternalStats/", 405, _NO_TXN_LEDGER),
    Row("GET", f"{TRANSACTIONS}/transactionBufferInternalStats/", 405, _NO_TXN_LEDGER),
    Row("POST", f"{TRANSACTIONS}/transactionCoordinator/replicas", 405, _ONE_COORDINATOR),
    Row("POST DELETE", CLUSTER, 405, _ONE_CLUSTER),
    Row("GET POST", f"{CLUSTER}/migrate", 405, _ONE_CLUSTER),
    Row("POST", f"{CLUSTER}/peers", 405, _ONE_CLUSTER),
    Row("POST DELETE", f"{CLUSTER}/failureDomains/{{domain_name}}", 405, _ONE_BROKER),
    Row("POST DELETE", f"{CLUSTER}/namespaceIsolationPolicies/{{policy}}", 405, _ONE_BROKER),
    Row("GET POST", "/admin/v2/resource-quotas", 405, _ONE_BROKER),
    Row("GET POST DELETE", "/admin/v2/resource-quotas/", 405, _ONE_BROKER),
    Row("GET", f"{STATS}/broker-resource-availability/", 409, _ONE_BROKER),
    Row(ALL, "/admin/v2/bookies/", 405, _NO_BOOKIES),
    Row("GET", f"{STATS}/bookieops", 405, _NO_BOOKIES),
    Row("GET", f"{STATS}/mbeans", 405, _NO_JVM),
    Row("GET", f"{STATS}/allocator-stats/", 405, _NO_JVM),
    Row("GET POST", "/admin/v2/metadata/migration/", 405, "there is one store of metadata"),
    Row(
        "POST",
        "/admin/v2/brokers/shutdown",
        405,
        "a broker is stopped where it was started: SIGTERM ends it well",
    ),
)


def _handler(row: Row) -> Callable[[], Coroutine[Any, Any, None]]:
    async def refuse() -> None:
        raise Absent(row.status, row.reason)

    return refuse


for _row in TABLE:
    router.add_api_route(
        f"{_row.path}{{rest:path}}" if _row.path.endswith("/") else _row.path,
        _handler(_row),
        methods=_row.methods.split(),
        include_in_schema=False,
        name=f"absent {_row.path}",
    )
