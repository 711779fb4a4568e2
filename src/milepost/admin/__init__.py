"""A Python client of the admin API, of Milepost and of Apache Pulsar.

    from milepost.admin import Admin

    with Admin("http://localhost:8080") as admin:
        admin.get_message_id_by_index("persistent://public/default/orders", 12345)

`Admin` returns, `AsyncAdmin` is awaited; both have the calls of `calls.py`. A refusal is an
`AdminError` with the server's status and reason. It imports the standard library and the values of
`milepost.positions`, nothing else: not the broker, not a framework.

aio             `AsyncAdmin`: the same calls, awaited
brokers         calls about brokers: list, health, settings
calls           all calls of the admin client, in one table
client          `Admin`: the synchronous client
entries         unpacks an entry of a REST answer into its messages
errors          the exceptions of calls, with the server's status and reason
face            makes the methods of both clients from one description of the calls
messages        calls about messages: ids by index and time, the last id, messages at a position
namespaces      calls about namespaces and their permissions
placement       calls about bundles, clusters and resource groups
policies        calls about policies of namespaces and topics
progress        calls about progress: of subscriptions, their strips, topics with their counts (Milepost only)
pulsar_entries  numbers the entries of a topic of Apache Pulsar, and says which of them are acked
request         one call without a socket: its request, and how its answer is read
resets          calls about resets: dry run, check, history (Milepost only)
schemas         calls about the schemas of topics
subscriptions   calls about subscriptions: create, delete, skip, expire, reset
tenants         calls about tenants and clusters
topics          calls about topics: create, delete, partitions, stats, lookup
transactions    calls about transactions: which are open, whose, on what topics; their abort
transport       HTTP: kept connections, credentials, TLS, redirects, timeouts
"""

from typing import TYPE_CHECKING, Any

from milepost.admin.client import Admin
from milepost.admin.entries import StoredMessage
from milepost.admin.errors import (
    AdminError,
    BadAnswer,
    Conflict,
    Forbidden,
    InvalidRequest,
    Missing,
    PreconditionFailed,
    Refused,
    ServerFault,
    Unauthorized,
    Unreachable,
)
from milepost.admin.resets import Move, ResetOutcome
from milepost.admin.transport import Credentials, Tls

if TYPE_CHECKING:
    from milepost.admin.aio import AsyncAdmin

__all__ = [
    "Admin",
    "AsyncAdmin",
    "Credentials",
    "Tls",
    "StoredMessage",
    "Move",
    "ResetOutcome",
    "AdminError",
    "Unreachable",
    "BadAnswer",
    "InvalidRequest",
    "Unauthorized",
    "Forbidden",
    "Missing",
    "Refused",
    "Conflict",
    "PreconditionFailed",
    "ServerFault",
]


def __getattr__(name: str) -> Any:
    """`AsyncAdmin` when it is asked for: asyncio costs a command line more than its call."""
    if name == "AsyncAdmin":
        from milepost.admin.aio import AsyncAdmin

        return AsyncAdmin
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
