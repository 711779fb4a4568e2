"""The agent of a broker: keeps its notice on the board, and has shards opened and closed.

It is a process of its own, so that no shard's work keeps the notice from being renewed. It serves no clients.
What it decides is in `member.py`; here it is carried out:

    a turn a second, or at once when there is news ─▶ notice ─▶ board ─▶ orders to the broker's first process
    while a turn takes longer than that            ─▶ notice
    every quarter of a second                      ─▶ are connections to the others refused? then look at once

A broker whose first process is gone refuses connections to its hail port, so others claim its shards before
its notice is old. Others are hailed with a byte when shards were opened or given back: they look at once. The
same port hears questions (`hail.py`): to fetch a shard from another broker.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from milepost.clock import since_boot
from milepost.errors import NotAuthenticated, ServiceNotReady
from milepost.storage.bucket.objects import Reply, Steps, perform
from milepost.storage.bucket.watched import RIGHT_S, WatchedObjects
from milepost.storage.cluster import hail, owners
from milepost.storage.cluster.hail import NEWS, QUESTION
from milepost.storage.cluster.link_tls import LinkTls
from milepost.storage.cluster.member import (
    Fetch,
    Give,
    Member,
    Open,
    Order,
    manifest_read,
    notice_forgotten,
    notice_read,
)
from milepost.storage.cluster.notice import Notice, Seat
from milepost.storage.cluster.right import SharedRight

logger = logging.getLogger(__name__)
T = TypeVar("T")

TURN_S: Final = 1.0
# A notice that is so old is renewed although the turn is not over: a bucket that takes its time for each
# request of a turn must not cost the right to serve.
OVERDUE_S: Final = 1.5
# Between two looks whether connections to the others are refused.
HAIL_S: Final = 0.25
HAIL_TIMEOUT_S: Final = 1.0
# A broker that was not reached so often in a row is told of.
MISSES: Final = 3
# A shard that comes back may find the process that gave it away: so long that one is waited for.
GONE_S: Final = 3.0
GONE_LOOK_S: Final = 0.05


class Agent:
    """Made and used on a loop."""

    def __init__(
        self,
        objects: WatchedObjects,
        member: Member,
        right: SharedRight,
        data: Path,
        secret: bytes,
        send: Callable[[Order], None],
        now: Callable[[], float] = since_boot,
        tls: LinkTls | None = None,
    ) -> None:
        """`secret` is what brokers of the cluster know each other by. `send` carries out an order, and tells
        later by `opened` and `ended` what came of it."""
        self._objects = objects
        self._member = member
        self._right = right
        self._data = data
        self._secret = secret
        self._send = send
        self._now = now
        self._tls = tls
        self._woken = asyncio.Event()
        self._is_news = False
        self._is_orphan = False
        self._told: list[Notice] = []
        # Could the broker's own processes not be told what is new?
        self._is_silent = False
        self._misled: set[str] = set()
        # How often in a row each broker, this one included, was not reached at the address that it gives.
        self._missed: Counter[str] = Counter()
        # Is it known that this broker is reached at the address that it gives?
        self._is_reached = False
        # Brokers with which TLS does not work, each said once until it does.
        self._distrusted: set[str] = set()
        self._giving: set[asyncio.Task[None]] = set()
        # One notice at a time: an older one must not replace a newer one.
        self._saying = asyncio.Lock()
        self._said = now()

    # -- news --------------------------------------------------------------------------------------

    def opened(self, shard: int, seat: Seat) -> None:
        logger.info("shard %d is served, in epoch %d", shard, seat.epoch)
        self._member.opened(shard, seat)
        self._hear()

    def ended(self, shard: int) -> None:
        logger.info("shard %d is not served here any more", shard)
        self._member.ended(shard, self._now())
        self._hear()

    def leave(self) -> None:
        self._member.leave()
        self._hear()

    def orphaned(self) -> None:
        """The process that carries orders out is gone. Those of shards drain and give them back by
        themselves; meanwhile the notice is kept, so that what they have heard can be answered."""
        self._is_orphan = True
        self.leave()

    def abandon(self) -> None:
        """After that: no process of a shard is left, or is waited for any longer."""
        self._member.abandon()
        self._hear()

    def _hear(self) -> None:
        self._is_news = True
        self._woken.set()

    # -- life --------------------------------------------------------------------------------------

    async def run(self, hail: socket.socket, on_standby: Callable[[], None]) -> None:
        """Take turns until the broker has left. `hail`: where others look whether it is there; `on_standby`
        is called once it is known that others have all shards and keep them."""
        tls = None if self._tls is None else self._tls.server()
        # A connection that does not speak TLS is not kept for the minute that is the loop's default.
        patience = None if tls is None else HAIL_TIMEOUT_S * 5
        server = await asyncio.start_server(
            self._hailed, sock=hail, ssl=tls, ssl_handshake_timeout=patience
        )
        is_told = False
        loop = asyncio.get_running_loop()
        beside = [loop.create_task(self._look_after()), loop.create_task(self._keep_saying())]
        try:
            while not self._member.has_left:
                for task in beside:
                    if task.done():
                        task.result()  # raises: it ends with an error alone
                await self._turn()
                if not is_told and self._member.stands_by:
                    is_told = True
                    on_standby()
                if not self._member.has_left:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(TURN_S):
                            await self._woken.wait()
            async with self._saying:
                await self._attempt(self._member.gone())
            await self._tell_others()
        finally:
            server.close()
            under_way = [*beside, *self._giving]
            for task in under_way:
                task.cancel()
            await asyncio.wait(under_way)

    async def _turn(self) -> None:
        self._woken.clear()
        is_news, self._is_news = self._is_news, False
        member = self._member
        await self._say()
        self._tell_own()
        if is_news:
            await self._tell_others()
        if self._is_orphan or not await self._look():
            return
        manifests = await self._manifests(member.free())
        if self._is_orphan:  # since the look began
            return
        orders = member.decided(manifests)
        if any(isinstance(one, Open) for one in orders):
            await self._say()
        for one in orders:
            logger.info("%s", one)
            if isinstance(one, Give):
                giving = asyncio.get_running_loop().create_task(self._give(one))
                self._giving.add(giving)
                giving.add_done_callback(self._giving.discard)
            else:
                self._send(one)
        self._tell_own()

    async def _give(self, order: Give) -> None:
        """Have another broker fetch a shard."""
        notice = self._member.board.living().get(order.broker)
        try:
            if notice is None:
                raise ServiceNotReady(f"broker {order.broker} is gone")
            values = {"fetch": order.shard, "to": notice.broker}
            await hail.ask(notice.host, notice.hail_port, self._secret, values, self._tls)
        except ServiceNotReady as error:
            logger.info("shard %d is not fetched: %s", order.shard, error)
            self._member.declined(order.shard)
            self._woken.set()

    async def _answer(self, question: hail.Doc) -> hail.Doc:
        """Another broker, or an operator, wants a shard to be served here."""
        shard = question.get("fetch")
        # Ports are used again: the broker that asks may have meant the one that listened here before.
        # A broker of an earlier release does not say which one it means.
        if (meant := question.get("to", self._member.name)) != self._member.name:
            raise ServiceNotReady(
                f"broker {meant} is gone; broker {self._member.name} has its port"
            )
        if type(shard) is not int:
            raise ServiceNotReady(f"broker {self._member.name} does not understand {question}")
        stays = question.get("stays") is True
        answer = {"broker": self._member.name}
        if self._member.is_fetching(shard, stays=stays):
            return answer
        until = self._now() + GONE_S
        refusal = self._member.asked(shard, stays=stays)
        while refusal is not None and self._member.holds(shard) and self._now() < until:
            await asyncio.sleep(GONE_LOOK_S)
            refusal = self._member.asked(shard, stays=stays)
        if refusal is not None:
            raise ServiceNotReady(refusal)
        # Said before the owner gives it up: else a third broker could take it for free.
        try:
            await self._say()
        except BaseException:  # the asker has waited too long: the notice must not name it for ever
            self._member.ended(shard, self._now())
            raise
        self._tell_own()
        logger.info("%s", Fetch(shard))
        self._send(Fetch(shard))
        return answer

    async def _look(self) -> bool:
        """Look at the board; False if it could not be read. The notices are read together: one after the
        other, those of a few brokers would take longer than a look may."""
        member, began = self._member, self._now()
        keys = await self._attempt(member.listed())
        if keys is None:
            return False
        said = await asyncio.gather(*(self._attempt(notice_read(key)) for key in keys))
        found = {key: one for key, one in zip(keys, said, strict=True) if one is not None}
        if len(found) < len(keys) or not member.saw(found, began):
            return False
        for key in member.board.forgotten():
            await self._attempt(notice_forgotten(key))
        return True

    async def _manifests(self, shards: Sequence[int]) -> dict[int, Reply]:
        """Of each shard what the bucket says of its manifest, without those of which it says nothing."""
        said = await asyncio.gather(*(self._attempt(manifest_read(shard)) for shard in shards))
        found = zip(shards, said, strict=True)
        return {shard: reply for shard, reply in found if reply is not None}

    async def _keep_saying(self) -> None:
        while True:
            left_s = self._said + OVERDUE_S - self._now()
            if left_s > 0:
                await asyncio.sleep(left_s)
            elif not self._member.has_left:
                await self._say()
            else:  # the notice is being taken away
                await asyncio.sleep(OVERDUE_S)

    async def _say(self) -> None:
        async with self._saying:
            self._said = self._now()
            if await self._attempt(self._member.said(self._now())):
                self._right.renewed(self._objects.last_write)

    async def _attempt(self, steps: Steps[T]) -> T | None:
        """Carry out steps; None if the bucket takes too long. The next turn may have better luck."""
        try:
            async with asyncio.timeout(RIGHT_S / 2):
                return await perform(self._objects, steps)
        except TimeoutError:
            return None

    # -- the broker's own processes ------------------------------------------------------------------

    def _tell_own(self) -> None:
        living = self._member.board.living()
        notices = [self._member.notice, *(living[name] for name in sorted(living))]
        # What changes all the time is of no use to them.
        told = [one._replace(beat=0, loads={}) for one in notices]
        if told == self._told:
            return
        try:
            owners.write(self._data, told)
        except OSError as error:  # the next turn tries again: the board is to be kept all the same
            if not self._is_silent:
                self._is_silent = True
                logger.error(
                    "who serves which shard cannot be written to %s: %s; until it can, this broker sends "
                    "clients to owners that it knew before",
                    self._data,
                    error.strerror or error,
                )
            return
        self._told, self._is_silent = told, False

    # -- the other brokers ---------------------------------------------------------------------------

    async def _hailed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(hail.TIMEOUT_S):
                word = await reader.read(1)
                if word == NEWS:
                    self._woken.set()
                elif word == QUESTION:
                    await hail.answered(reader, writer, self._secret, self._answer)
        except (OSError, EOFError, TimeoutError) as error:
            logger.debug("hailed without a word: %s", error)
        except (ValueError, TypeError, asyncio.LimitOverrunError, NotAuthenticated) as error:
            logger.warning("a question to the agent was not answered: %s", error)
        finally:
            writer.close()

    async def _tell_others(self) -> None:
        """Let the others look at the board now."""
        living = self._member.board.living().values()
        await asyncio.gather(*(self._hail(one, NEWS) for one in living))

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(HAIL_S)
            living = list(self._member.board.living().values())
            if not self._is_reached:
                await self._reach_itself()
            refused = await asyncio.gather(*(self._hail(one, b"") for one in living))
            for notice, is_refused in zip(living, refused, strict=True):
                if is_refused and self._is_believed(notice):
                    if self._member.board.refused(notice.broker):
                        logger.warning("broker %s is gone: it refuses connections", notice.broker)
                        self._woken.set()
                    else:
                        self._not_reached(notice, "connections are refused")

    async def _reach_itself(self) -> None:
        """Look whether this broker is where it says: nothing else would tell one that is alone."""
        notice = self._member.notice
        is_refused = await self._hail(notice, b"")
        if is_refused:
            self._not_reached(notice, "connections are refused")
        self._is_reached = not self._missed[notice.broker]

    def _is_believed(self, notice: Notice) -> bool:
        """May a refusal be taken for the end of a broker? Not if its address is of this machine alone and
        the broker is on another."""
        if notice.machine == self._member.notice.machine or not is_loopback(notice.host):
            return True
        if notice.broker not in self._misled:
            self._misled.add(notice.broker)
            logger.error(
                "broker %s on %s says that it is at %s, which is this machine: set its "
                "advertised_address",
                notice.broker,
                notice.machine,
                notice.host,
            )
        return False

    async def _hail(self, notice: Notice, word: bytes) -> bool:
        """Connect to another broker; True if it refuses."""
        try:
            async with asyncio.timeout(HAIL_TIMEOUT_S):
                tls = None if self._tls is None or not word else self._tls.client()
                writer = await _connected(notice.host, notice.hail_port, tls)
                writer.write(word)
                writer.close()
                await writer.wait_closed()
            if tls is not None:
                self._distrusted.discard(notice.broker)
            self._member.board.reached(notice.broker)
            if self._missed.pop(notice.broker, 0) >= MISSES:
                logger.warning("%s is reached at %s again", self._called(notice), notice.host)
        except ConnectionRefusedError:
            return True
        except ssl.SSLError as error:
            self._not_trusted(notice, error)
        except (socket.gaierror, UnicodeError) as error:
            # A name that is not known, or is none, is no passing trouble.
            self._missed[notice.broker] = max(self._missed[notice.broker], MISSES - 1)
            self._not_reached(notice, getattr(error, "strerror", "") or str(error))
        except TimeoutError:
            self._not_reached(notice, f"no answer within {HAIL_TIMEOUT_S:g} s")
        except OSError as error:
            self._not_reached(notice, error.strerror or str(error))
        return False

    def _not_reached(self, notice: Notice, why: str) -> None:
        """Shards do not move to or from a broker that is not reached, nor do clients find it: say so once."""
        self._missed[notice.broker] += 1
        if self._missed[notice.broker] == MISSES:
            logger.error(
                "%s cannot be reached at %s, port %d: %s; clients may not get through either: set its "
                "advertised_address to a name or address that is reached from everywhere, and look "
                "at firewalls",
                self._called(notice),
                notice.host,
                notice.hail_port,
                why,
            )

    def _called(self, notice: Notice) -> str:
        is_own = notice.broker == self._member.name
        return "this broker" if is_own else f"broker {notice.broker}"

    def _not_trusted(self, notice: Notice, error: ssl.SSLError) -> None:
        """Shards do not move to a broker that this one does not trust, and nothing else would say why."""
        if notice.broker not in self._distrusted:
            self._distrusted.add(notice.broker)
            logger.error(
                "broker %s at %s: no TLS with it: %s; look at its tls_certificate_file and at this "
                "broker's tls_trust_certs_file",
                notice.broker,
                notice.host,
                _why(error),
            )


async def _connected(host: str, port: int, tls: ssl.SSLContext | None) -> asyncio.StreamWriter:
    """A connection to the first address of a host that takes one; `ConnectionRefusedError` if none does and
    one refuses."""
    try:
        return (await asyncio.open_connection(host, port, ssl=tls))[1]
    except OSError as error:
        if type(error) is not OSError or error.errno is not None:
            raise
        failure: OSError = error  # of several addresses: what became of each is said in words alone
    for *_, address in await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        try:
            name = None if tls is None else host
            opening = asyncio.open_connection(str(address[0]), port, ssl=tls, server_hostname=name)
            return (await opening)[1]
        except ssl.SSLError:
            raise
        except ConnectionRefusedError as error:
            failure = error
        except OSError as error:
            logger.debug("%s of %s: %s", address[0], host, error)
    raise failure


def _why(error: ssl.SSLError) -> str:
    return getattr(error, "verify_message", "") or error.reason or str(error)


def is_loopback(host: str) -> bool:
    """Does an address lead back to the machine that asks?

    >>> is_loopback("localhost"), is_loopback("127.0.0.2"), is_loopback("broker-3"), is_loopback("::1")
    (True, True, False, True)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
