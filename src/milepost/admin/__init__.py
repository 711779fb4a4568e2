"""A Python client of the admin API, of Milepost and of Apache Pulsar.

    from milepost.admin import Admin

    with Admin("http://localhost:8080") as admin:
        admin.get_message_id_by_index("persistent://public/default/orders", 12345)

`Admin` returns, `AsyncAdmin` is awaited; both have the calls of `calls.py`. A refusal is an
`AdminError` with the server's status and reason. It imports the standard library and the values of
`milepost.positions`, nothing else: not the broker, not a framework.

aio            the same calls, awaited
brokers        which there are, whether one is well, and its settings
calls          the table of contents of the admin client
client         one object, one service, every call a method
entries        an entry as the admin API shows it, unpacked into its messages
errors         what can go wrong with a call: every refusal keeps its status and its reason
face           calls that return, and calls that are awaited
messages       which id has an index, a time or the end
namespaces     calls about namespaces and who may use them
placement      calls about where things are, and how much of the broker they may have: bundles
policies       of a namespace and of a topic
progress       every number of one moment, and a verdict
request        what a call asks and what it gets, without a socket: requests, answers, scripts
resets         a reset with a dry run, a check, and a history
schemas        calls about a topic's schemas
subscriptions  their progress, and moving it
tenants        calls about tenants and clusters
topics         making and removing them, partitions, stats, where they are served
transport      connections that are kept, credentials, TLS, redirects, time outs
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
