"""One worker among others: its place, its link and the registry that all share (class Workers).

Each worker keeps in memory what the registry has. A change tells the other workers before it is answered, and
they read it again; one that could not be told sees within a second that the database is another
(`Workers.watch`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from milepost.broker.auth.grants import Grants
from milepost.broker.policies.shapes import Json
from milepost.broker.workers.gate import Gate
from milepost.broker.workers.link import TIMEOUT_S, Answer, Link
from milepost.broker.workers.link import Doc as Values
from milepost.broker.workers.placement import Shards
from milepost.errors import AlreadyExists, Fenced, MilepostError, ServiceNotReady, ShardAway
from milepost.positions.names import NamespaceName
from milepost.storage.catalog.catalog import ChangeCatalog
from milepost.storage.cluster.link_tls import LinkTls
from milepost.storage.cluster.load import SharedLoads
from milepost.storage.cluster.right import SharedRight
from milepost.storage.registry import Registry

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.storage.catalog.catalog import Catalog, Doc

logger = logging.getLogger(__name__)
T = TypeVar("T")

WATCH_S: Final = 1.0
TELL_TIMEOUT_S: Final = 5.0
# One attempt to ask the owner of a shard, which may be cut off, or dead without a sign.
ATTEMPT_S: Final = 1.0
# A client that looks up a topic of a shard without an owner is answered after so long at the latest.
OWNED_S: Final = 5.0
# Between two looks who has a shard.
GLANCE_S: Final = 0.05
# Calls that are about the process, and not about what its shard has.
OF_PROCESS: Final = frozenset({"alive", "hand_over", "handed_over"})
# Calls that are answered also by a process that is cut off from the bucket: they say nothing of its shard.
WHILE_CUT_OFF: Final = frozenset({"follow", "metrics"})


class SharedRegistry(ChangeCatalog, Protocol):
    """Changes what all workers share."""

    async def read(self, look: Callable[[Catalog], T], then: Callable[[T], None]) -> T:
        """Run `look`, which changes nothing; behind `then` memory has all that is shared."""
        ...

    async def has_changed(self) -> bool:
        """Has another worker changed something, or is memory in doubt?"""
        ...

    def close(self) -> None: ...


OpenRegistry = Callable[[Callable[[], Awaitable[None]]], SharedRegistry]
"""Opens the registry; what it is given is awaited when a change of this worker is durable."""


@dataclass(frozen=True, slots=True)
class ClusterSeat:
    """What a worker needs to claim a shard of a bucket."""

    broker: str
    """The name under which the claim is made."""
    epoch: int | None
    """Of the shard's manifest when the claim was decided; None: its owner is to hand the shard over."""
    right: SharedRight
    loads: SharedLoads


@dataclass(frozen=True, slots=True)
class Place:
    """What the process that starts the workers gives to one of them."""

    data: Path
    """The directory of all shards."""
    placement: Shards
    secret: bytes
    link: socket.socket
    clients: tuple[socket.socket, ...]
    """Listening sockets for clients: those that all workers have, and the worker's own."""
    tls_clients: tuple[socket.socket, ...]
    http: tuple[socket.socket, ...]
    https: tuple[socket.socket, ...]
    restarts: int
    """How often this worker was started again."""
    hangs: int = 0
    """How often of these because it had stood still."""
    seat: ClusterSeat | None = None
    """Of a worker of one of several brokers on a bucket."""
    tls: LinkTls | None = None
    """How these protect what they say to each other."""


class Workers:
    def __init__(self, place: Place, open_registry: OpenRegistry | None = None) -> None:
        """Without `open_registry` the registry is in the directory of all shards."""
        self.place = place
        self.placement = place.placement
        self.gate = Gate(place.placement.own)
        self.link = Link(
            place.placement.link_of, place.secret, self._unexpected, self._check, place.tls
        )
        self.registry: SharedRegistry = (
            Registry(place.data, self._tell) if open_registry is None else open_registry(self._tell)
        )
        self._broker: Broker | None = None
        self._watching: asyncio.Task[None] | None = None
        self._following = asyncio.Lock()

    @property
    def number(self) -> int:
        return self.placement.own

    async def join(self, broker: Broker) -> None:
        """The broker has read the registry, in pieces: follow it."""
        self._broker = broker
        # Others may have changed it between two of them, and tell of it where none listens yet.
        await self.follow()
        await broker.directory.forget_deletions(self.number)
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def ask_owner(self, shard: int, call: str, values: Values) -> Answer:
        """What the worker of a shard answers, also if the shard is just going to another broker. A call that
        may be carried out twice."""
        refusal = ServiceNotReady(f"worker {shard} does not answer; try again")
        with suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT_S):
                while True:
                    try:
                        return await self.link.ask(shard, call, values, timeout_s=ATTEMPT_S)
                    except ServiceNotReady as error:
                        refusal = error
                    await asyncio.sleep(GLANCE_S)
        raise refusal

    async def ask_served(self, shard: int, call: str, values: Values) -> Answer:
        """What the worker of a shard answers; one that is on its way to another broker is waited for. Calls
        that were not begun are asked again, and no others."""
        assert self._broker is not None, "it asks before the broker is there"
        clock = self._broker.clock
        until = clock.monotonic() + OWNED_S
        while True:
            try:
                return await self.link.ask(shard, call, values)
            except ShardAway:
                if clock.monotonic() >= until:
                    raise
            await asyncio.sleep(GLANCE_S)

    async def ask_others(self, call: str, values: Values) -> list[Answer]:
        """The same of all others, at once; each of them has to answer."""
        return await asyncio.gather(
            *(self.ask_served(shard, call, values) for shard in self.placement.others)
        )

    async def owned(self, shard: int) -> None:
        """Return when the shard has a worker, or after a while: a client that is told to come again waits
        longer each time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(OWNED_S):
                while not self.placement.is_served(shard):
                    await asyncio.sleep(GLANCE_S)

    async def listen(self) -> None:
        """Answer the other workers from now on; what they have asked meanwhile waits."""
        await self.link.listen(self.place.link)

    async def close(self, stop_listening: Callable[[asyncio.Server], Awaitable[None]]) -> None:
        await self.link.close(stop_listening)
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        self.registry.close()

    def _check(self, call: str, shard: int, epoch: int) -> None:
        """Refuse a call that is meant for another process: that of another shard, of a later claim of this
        one, or the next owner's while the shard is on its way there, or may have been claimed. What this
        process knows is another shard's, or old: "I have none of it" would be believed."""
        assert self._broker is not None, "asked before the broker was there"
        if shard != self.number or epoch > self._broker.engine.epoch:
            raise ShardAway(f"shard {shard} is served elsewhere: try again")
        if call not in OF_PROCESS:
            self.gate.check()
            if call not in WHILE_CUT_OFF:
                self._broker.check_served()

    def _unexpected(self, where: str, error: BaseException) -> None:
        assert self._broker is not None, "asked before the broker was there"
        self._broker.unexpected(where, error)

    async def _tell(self) -> None:
        """A change of this worker is in the registry: the others read it."""
        others = self.placement.others
        if not self.gate.is_open and self.place.seat is not None:
            others.append(self.number)  # the shard's next owner may have read the registry already
        told = await asyncio.gather(*map(self._tell_one, others), return_exceptions=True)
        for failure in told:
            if isinstance(failure, MilepostError):  # it reads the change when it is there again
                logger.info("not told of a change: %s", failure)
            elif isinstance(failure, BaseException):
                raise failure

    async def _tell_one(self, number: int) -> None:
        """Tell a worker, or the next owner of its shard: that one may have read the registry before the
        change. After so long it has looked by itself."""
        for left in reversed(range(1 + int(1.5 * WATCH_S / GLANCE_S))):
            try:
                await self.link.ask(number, "follow", {}, timeout_s=TELL_TIMEOUT_S)
                return
            except ShardAway:
                if not left:
                    raise
            await asyncio.sleep(GLANCE_S)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            try:
                if await self.registry.has_changed():
                    await self.follow()
            except Exception as error:
                self._unexpected("registry", error)

    async def know(self) -> None:
        """Return when all is known here that the others have changed. They tell of it, but for the time in
        which the shard is on its way: then the next owner is told in this one's place, and has it in force.
        Here it is not put in force, for that may write to the journal."""
        if not self.gate.is_open:
            async with self._following:
                await self._read()

    async def catch_up(self) -> None:
        """Read the registry, and make sure that the shard is still this process's: what is in force here
        now is in force for the shard, whichever process has it from here on."""
        assert self._broker is not None, "it follows a registry that it has not read"
        await self.follow()
        try:
            await self._broker.engine.prove_claim()
        except Fenced as error:
            raise ShardAway(f"shard {self.number} is served elsewhere: {error}") from None

    async def follow(self) -> None:
        """Read what the registry has; in force when this returns."""
        broker = self._broker
        assert broker is not None, "it follows a registry that it has not read"
        # One at a time: the next finds nothing new in memory, and must not answer before it is in force.
        async with self._following:
            changed = await self._read()
            await broker.policies.book.enforce(changed)
            await broker.dynamic.apply()

    async def _read(self) -> list[str]:
        """Know what the registry has; the namespaces whose policies have changed."""
        broker = self._broker
        assert broker is not None, "it follows a registry that it has not read"
        folders = (
            *broker.directory.SHARED,
            broker.policies.book.SHARED,
            broker.access_control.grants.SHARED,
            broker.dynamic.SHARED,
        )

        def read(catalog: Catalog) -> dict[str, dict[str, Doc]]:
            return {folder: catalog.docs(folder) for folder in folders}

        changed: list[str] = []

        def use(found: dict[str, dict[str, Doc]]) -> None:
            broker.directory.follow(found)
            changed.extend(broker.policies.book.follow(found))
            broker.access_control.grants.follow(found)
            broker.dynamic.follow(found)

        # In the order of changes: what this worker changes meanwhile comes before or behind it.
        await self.registry.read(read, use)
        return changed


async def create_namespace(
    broker: Broker, name: NamespaceName, doc: Doc, grants: Grants, policies: Mapping[str, Json]
) -> None:
    """Make a namespace with its grants and policies in one change: no worker sees it without them."""
    put, told = _rules(broker, name, grants, policies)
    await broker.directory.create_namespace(name, doc, put, told)


def _rules(
    broker: Broker, name: NamespaceName, grants: Grants, policies: Mapping[str, Json]
) -> tuple[Callable[[Catalog], None], Callable[[], None]]:
    """What stores the grants and policies of a namespace, and what makes them known when that is durable."""
    granted, book = broker.access_control.grants, broker.policies.book
    values = {policy: value for policy, value in policies.items() if value is not None}

    def put(catalog: Catalog) -> None:
        granted.put(catalog, str(name), grants)
        book.put(catalog, str(name), values)

    def told() -> None:
        granted.told(name, grants)
        book.told(str(name), values)

    return put, told


async def delete_namespace(broker: Broker, name: NamespaceName) -> None:
    """Delete a namespace that has no topics, at no worker.

    It is marked first: no worker makes a topic in it any more. Then each, when it knows of the mark, says
    whether it has one. A worker that dies in between takes its marks back when it starts again; a deletion
    whose mark is gone by then, for it was only slow, is given up.
    """

    # Nothing is deleted behind this change: it may be the next namespace's by then.
    forget, told = _rules(broker, name, Grants(), {})
    workers = broker.workers
    if workers is None:
        await broker.directory.delete_namespace(name, beside=forget, then=told)
        return
    deletion = await broker.directory.mark_deletion(name, workers.number)
    try:
        await workers.catch_up()
        for number in workers.placement.others:
            said, _ = await workers.ask_served(number, "uses", {"namespace": str(name)})
            if said["used"]:
                raise AlreadyExists(f"namespace {name} still has topics")
        await broker.directory.delete_namespace(name, deletion, forget, told)
    except BaseException:
        await broker.directory.forget_deletions(workers.number, deletion)
        raise
