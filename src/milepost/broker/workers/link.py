"""The connection between workers: one call, one answer.

A worker listens on a port that only this machine reaches, or, in a cluster, the network of its brokers. Each
connection begins with a secret that the workers have from the process that started them, or all of a cluster
from their bucket; what does not know it is hung up on. Then comes one call (a
name, values as JSON, bytes), then its answer, or the error that refused it, which the asking worker raises
again.

Each call names the shard that it is for, and the claim with which that shard is served as far as the caller
knows: ports are used again, so that the process which answers may be that of another shard, or one that had
this shard before. Such a process refuses the call with `ShardAway`, and the caller looks the owner up again.

    answer, _ = await link.ask(2, "topics", {"namespace": "public/default", "mode": "ALL"})

Of each call only so many are under way to one worker, and the others wait for their turn: a client that asks
very much, beside a worker that hangs, must not use up the descriptors of this one.

A worker that was killed is started again on the same port, and connections wait for it there. One that does
not answer in time is `ServiceNotReady`, which names it. One that is not there is `ShardAway`: nothing was
asked of it. One that dies over a call is `CallCut`.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import Any, Final, NamedTuple

from milepost import errors
from milepost.errors import CallCut, MilepostError, NotAuthenticated, ServiceNotReady, ShardAway
from milepost.storage.cluster.document import SECRET_SIZE
from milepost.storage.cluster.link_tls import LinkTls

logger = logging.getLogger(__name__)

# For a call; a worker that is started again answers within a second or two.
TIMEOUT_S: Final = 15.0
# A call that may take longer: after so long the worker is asked whether it is there, and again and again.
PATIENCE_S: Final = 5.0
# For the answer to that. A worker that is started again needs a moment.
ALIVE_TIMEOUT_S: Final = 10.0
# For the secret of a connection.
GREETING_TIMEOUT_S: Final = 5.0
# Of one kind, to one worker, at once.
CALLS_MAX: Final = 32
# Connections that have not told the secret yet.
STRANGERS_MAX: Final = 256

_SIZES: Final = Struct("<II")


class NotReached(Exception):
    """There is no connection, so nothing was asked."""


# What a call that is not answered ends with.
UNANSWERED: Final = (OSError, EOFError, TimeoutError, NotReached)

Doc = dict[str, Any]
Answer = tuple[Doc, bytes]
Answers = Callable[[Doc, bytes], Awaitable[Answer]]


class Where(NamedTuple):
    """Where the process of a shard listens for others."""

    host: str
    port: int
    epoch: int = 0
    """Of the claim with which it serves the shard; 0 where shards are not claimed."""


Check = Callable[[str, int, int], None]
"""Given a call, its shard and the epoch that the caller knows of: raises `ShardAway` if another process is
meant."""


class Link:
    def __init__(
        self,
        where: Callable[[int], Where],
        secret: bytes,
        unexpected: Callable[[str, BaseException], None],
        check: Check,
        tls: LinkTls | None = None,
    ) -> None:
        """`where` says where a worker listens. `unexpected` is told of errors that no code foresaw. `check`
        refuses calls that are meant for another process. `tls`: the workers are of several brokers, which
        protect what they say."""
        assert len(secret) == SECRET_SIZE, "a secret of another size"
        self._where = where
        self._secret = secret
        self._unexpected = unexpected
        self._check = check
        self._tls = tls
        self._server: asyncio.Server | None = None
        self.answers: dict[str, Answers] = {"alive": _alive}
        """Call → what answers it."""
        # By worker and call: one kind of call does not wait for another.
        self._turns: dict[tuple[int, str], asyncio.Semaphore] = {}
        self._strangers = 0

    # -- asking ------------------------------------------------------------------------------------

    async def ask(
        self,
        number: int,
        call: str,
        values: Doc,
        body: bytes = b"",
        timeout_s: float = TIMEOUT_S,
        at: Where | None = None,
    ) -> Answer:
        """What a worker answers; its refusal is raised here. It is where the shard is served, or `at` a
        place."""
        turn = self._turns.get((number, call))
        if turn is None:
            turn = self._turns[number, call] = asyncio.Semaphore(CALLS_MAX)
        try:
            async with asyncio.timeout(timeout_s), turn:
                where = self._where(number) if at is None else at
                values = _meant(number, where, call, values)
                said, data = await exchanged(where, self._secret, values, body, self._tls)
        except UNANSWERED as error:
            raise unanswered(number, error) from None
        if "error" in said:
            raise _error(said)
        return said, data

    async def ask_while_alive(
        self, number: int, call: str, values: Doc, body: bytes, timeout_s: float
    ) -> Answer:
        """What a worker answers, which may take it long. One that hangs is found out much earlier: it does
        not say meanwhile that it is there. The next owner of its shard would say so."""
        at = self._where(number)
        asking = asyncio.create_task(self.ask(number, call, values, body, timeout_s, at))
        try:
            while not (await asyncio.wait((asking,), timeout=PATIENCE_S))[0]:
                try:
                    await self.ask(number, "alive", {}, timeout_s=ALIVE_TIMEOUT_S, at=at)
                except ShardAway as error:  # it is gone since it was asked
                    if not asking.done():
                        raise CallCut(str(error)) from None
                except ServiceNotReady:
                    if not asking.done():
                        raise
            return asking.result()
        finally:
            asking.cancel()

    # -- answering ---------------------------------------------------------------------------------

    async def listen(self, listening: socket.socket) -> None:
        tls = None if self._tls is None else self._tls.server()
        # A connection that does not speak TLS has as long as one that does not tell the secret.
        patience = None if tls is None else GREETING_TIMEOUT_S
        self._server = await asyncio.start_server(
            self._serve, sock=listening, ssl=tls, ssl_handshake_timeout=patience
        )

    async def close(self, stop_listening: Callable[[asyncio.Server], Awaitable[None]]) -> None:
        if self._server is not None:
            await stop_listening(self._server)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(GREETING_TIMEOUT_S):
                if not await self._is_known(reader):
                    logger.warning("a connection to the workers' own port did not know the secret")
                    return
                values, body = await _read(reader)
            _write(writer, *await self._answer(values, body))
            await writer.drain()
        except (OSError, EOFError, TimeoutError) as error:
            logger.debug("a call of another worker ended early: %s", error)
        finally:
            writer.close()

    async def _is_known(self, reader: asyncio.StreamReader) -> bool:
        """Does it know the secret? Of too many that say nothing, those that come now are not heard."""
        if self._strangers >= STRANGERS_MAX:
            return False
        self._strangers += 1
        try:
            return hmac.compare_digest(await reader.readexactly(SECRET_SIZE), self._secret)
        finally:
            self._strangers -= 1

    async def _answer(self, values: Doc, body: bytes) -> Answer:
        try:
            call, shard, epoch = (
                values.pop("call"),
                values.pop("shard", None),
                values.pop("epoch", 0),
            )
            if shard is not None:  # brokers of earlier releases, in the same cluster, name none
                self._check(call, shard, epoch)
            return await self.answers[call](values, body)
        except MilepostError as error:
            return {"error": type(error).__name__, "text": str(error)}, b""
        except Exception as error:
            self._unexpected("link", error)
            text = f"{type(error).__name__}: an internal error; the log has it"
            return {"error": ServiceNotReady.__name__, "text": text}, b""


async def _alive(values: Doc, body: bytes) -> Answer:
    return {}, b""


async def ask_at(
    where: Where,
    number: int,
    secret: bytes,
    call: str,
    values: Doc,
    timeout_s: float,
    tls: LinkTls | None = None,
) -> Doc:
    """What the worker of a shard answers at an address, whichever the shard's is by now."""
    try:
        async with asyncio.timeout(timeout_s):
            values = _meant(number, where, call, values)
            said, _ = await exchanged(where, secret, values, b"", tls)
    except UNANSWERED as error:
        raise unanswered(number, error) from None
    if "error" in said:
        raise _error(said)
    return said


def _meant(shard: int, where: Where, call: str, values: Doc) -> Doc:
    """What is said in a call, with the process that it is for."""
    return {"call": call, "shard": shard, "epoch": where.epoch, **values}


async def exchanged(
    where: Where, secret: bytes, values: Doc, body: bytes, tls: LinkTls | None = None
) -> Answer:
    """One call and its answer, over a connection of its own."""
    context = None if tls is None else tls.client()
    try:
        reader, writer = await asyncio.open_connection(where.host, where.port, ssl=context)
    except (OSError, UnicodeError) as error:  # the latter for a name that is none
        raise NotReached(error) from error
    try:
        writer.write(secret)
        _write(writer, values, body)
        await writer.drain()
        return await _read(reader)
    finally:
        writer.close()


def unanswered(number: int, error: BaseException) -> ServiceNotReady:
    kind: type[ServiceNotReady] = CallCut
    if isinstance(error, NotReached):
        kind, error = ShardAway, error.args[0]
    if isinstance(error, (TimeoutError, ssl.SSLError)):  # waiting does not mend it
        kind = ServiceNotReady
    why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return kind(f"worker {number} does not answer ({why}); try again")


def _write(writer: asyncio.StreamWriter, values: Doc, body: bytes) -> None:
    head = json.dumps(values).encode()
    writer.writelines((_SIZES.pack(len(head), len(body)), head, body))


async def _read(reader: asyncio.StreamReader) -> Answer:
    head, body = _SIZES.unpack(await reader.readexactly(_SIZES.size))
    values: Doc = json.loads(await reader.readexactly(head))
    return values, await reader.readexactly(body)


def _error(said: Doc) -> MilepostError:
    kind = getattr(errors, said["error"], ServiceNotReady)
    if issubclass(kind, NotAuthenticated):
        return NotAuthenticated("worker", said["text"])
    found: MilepostError = kind(said["text"])
    return found
