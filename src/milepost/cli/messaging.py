"""The messaging client as commands use it: where it connects, as whom, and to which partitions.

The binary address is what `--url` or the context says, or what the broker's HTTP port tells for the
topic. Everything after that is `milepost.client`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from milepost.cli.connection import Connection

if TYPE_CHECKING:
    from milepost.client.client import Client

T = TypeVar("T")


def make_client(connection: Connection, topic: str) -> Client:
    """A client that is not connected yet; asks the HTTP port for the address if nobody told it."""
    import milepost
    from milepost.client.client import Client

    token = connection.read_token()
    authentication: Any = None
    if token:
        authentication = milepost.AuthenticationToken(token)
    elif connection.user is not None:
        authentication = milepost.AuthenticationBasic(connection.user, connection.password or "")
    elif connection.tls_certificate and connection.tls_key:
        authentication = milepost.AuthenticationTLS(connection.tls_certificate, connection.tls_key)
    return Client(
        connection.url or _told_url(connection, topic),
        authentication=authentication,
        operation_timeout_seconds=connection.timeout_s,
        tls_trust_certs_file_path=connection.tls_trust_certs,
        tls_allow_insecure_connection=connection.tls_allow_insecure,
        tls_validate_hostname=not connection.tls_allow_insecure,
    )


def _told_url(connection: Connection, topic: str) -> str:
    with connection.admin() as admin:
        found = admin.lookup_topic(topic)
    secure = connection.admin_url.startswith("https:")
    url = (secure and found.get("brokerUrlTls")) or found.get("brokerUrl")
    return str(url or found.get("brokerUrlTls") or "")


async def together(*works: Coroutine[Any, Any, None]) -> None:
    """Run all of them; the first that fails ends the others, and its error is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as errors:
        error: BaseException = errors
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run it on a loop of its own, uvloop's if it is installed; Ctrl-C cancels it and is raised."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
