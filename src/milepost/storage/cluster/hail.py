"""What agents of brokers, and processes of theirs, say to an agent's hail port.

    nothing          is the broker there? A refused connection says that it is not
    !                there is news on the board: look at once
    ? and a line     a question, with the secret of the cluster; a line answers it

A connection is for one of them. Lines are JSON. With TLS between brokers all but the first are encrypted:
that a connection is taken at all says enough.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from milepost.errors import CallCut, NotAuthenticated, ServiceNotReady
from milepost.storage.cluster.link_tls import LinkTls
from milepost.storage.documents import read_document

NEWS: Final = b"!"
QUESTION: Final = b"?"
TIMEOUT_S: Final = 5.0

Doc = dict[str, Any]


async def ask(host: str, port: int, secret: bytes, values: Doc, tls: LinkTls | None = None) -> Doc:
    """What an agent answers; `ServiceNotReady` if it is not reached, or says why not, and `CallCut` if it may
    have heard the question."""
    line = json.dumps({"secret": secret.hex(), **values}).encode()
    kind: type[ServiceNotReady] = ServiceNotReady
    try:
        async with asyncio.timeout(TIMEOUT_S):
            context = None if tls is None else tls.client()
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            kind = CallCut
            try:
                writer.write(QUESTION + line + b"\n")
                said = await reader.readuntil(b"\n")
            finally:
                writer.close()
        answer: Doc = json.loads(said)
    except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError, ValueError) as error:
        why = str(error) or type(error).__name__
        raise kind(f"the broker at {host}:{port} does not answer ({why})") from None
    if "refused" in answer:
        raise ServiceNotReady(str(answer["refused"]))
    return answer


async def answered(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    secret: bytes,
    answer: Callable[[Doc], Awaitable[Doc]],
) -> None:
    """Hear the line of a question and answer it; `NotAuthenticated` if it does not know the secret,
    `ValueError` or `TypeError` if it is none."""
    values = read_document(await reader.readuntil(b"\n"))
    told = str(values.pop("secret", ""))
    if not hmac.compare_digest(told.encode(), secret.hex().encode()):
        raise NotAuthenticated("secret", "a question to the agent did not know the secret")
    try:
        said = await answer(values)
    except ServiceNotReady as error:
        said = {"refused": str(error)}
    writer.write(json.dumps(said).encode() + b"\n")
    await writer.drain()
