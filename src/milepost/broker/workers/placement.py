"""Which shard has a topic, and where the worker of a shard listens.

A topic is in the shard of its name's hash, with all its partitions, its schemas and its policies: what is one
change for one process stays one change. The hash is that of bundles, taken of the name without domain and
partition; each shard has an equal range of it.

    >>> here = Placement(0, tuple(Address(6000 + n, -1, 7000 + n) for n in range(4)))
    >>> name = TopicName.parse("persistent://public/default/orders-partition-7")
    >>> here.shard_of(name) == here.shard_of(name.base)
    True
    >>> [here.shard_of(TopicName.parse(f"orders-{n}")) for n in range(6)]
    [2, 3, 1, 0, 2, 3]
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from milepost.broker.directory.bundles import hash_of
from milepost.broker.transactions.coordinator import is_coordinator_topic
from milepost.broker.workers.link import Where
from milepost.errors import ServiceNotReady, ShardAway
from milepost.positions.names import TopicName
from milepost.storage.cluster.notice import Notice
from milepost.storage.cluster.owners import OwnersFile, Served

LINK_HOST: Final = "127.0.0.1"


class Address(NamedTuple):
    """The ports of one worker; −1: none."""

    port: int
    """For clients."""
    tls_port: int
    link_port: int
    """For the other workers."""
    host: str = ""
    """Of another broker of the cluster; empty for a worker of this machine."""
    listeners: str = ""
    """The setting `advertised_listeners` of that broker."""


def shard_of(name: TopicName, shards: int) -> int:
    """The shard of a topic or partition."""
    base = name.base
    return hash_of(f"{base.namespace}/{base.local_name}") * shards >> 32


class Shards(ABC):
    """Which shard this process has, and where the processes of the others listen."""

    __slots__ = ()

    own: int
    """The number of this process's shard."""

    @property
    @abstractmethod
    def count(self) -> int: ...

    @abstractmethod
    def address(self, shard: int) -> Address:
        """Where the process of a shard listens; `ServiceNotReady` if there is none."""

    @property
    @abstractmethod
    def near(self) -> list[int]:
        """The shards that are served by this broker."""

    def is_served(self, shard: int) -> bool:
        """Is there a process that serves a shard, as far as is known?"""
        return True

    @property
    def others(self) -> list[int]:
        return [number for number in range(self.count) if number != self.own]

    def shard_of(self, name: TopicName) -> int:
        if name.partition >= 0 and is_coordinator_topic(name):
            return min(name.partition, self.count - 1)  # each shard has a coordinator of its number
        return shard_of(name, self.count)

    def has(self, name: TopicName) -> bool:
        """Is the topic in this process's shard?"""
        return self.shard_of(name) == self.own

    def address_of(self, name: TopicName) -> Address:
        """Where the process listens that has a topic."""
        return self.address(self.shard_of(name))

    def link_of(self, shard: int) -> Where:
        """Where the process of a shard listens for the others."""
        address = self.address(shard)
        return Where(address.host or LINK_HOST, address.link_port)

    def check(self, name: TopicName) -> None:
        """Refuse a topic of another process, so that the client looks it up again."""
        owner = self.shard_of(name)
        if owner != self.own:
            raise ServiceNotReady(f"{name} is served by worker {owner}: look it up again")

    def own_name(self, name: TopicName) -> TopicName:
        """The name, or one like it, of a topic that this process has."""
        if self.has(name):
            return name
        likes = (TopicName.parse(f"{name}-{number}") for number in itertools.count(1))
        return next(one for one in likes if self.has(one))


@dataclass(frozen=True, slots=True)
class Placement(Shards):
    """A worker's own number, which is its shard's, and the addresses of all."""

    own: int
    addresses: tuple[Address, ...]

    @property
    def count(self) -> int:
        return len(self.addresses)

    def address(self, shard: int) -> Address:
        return self.addresses[shard]

    @property
    def near(self) -> list[int]:
        return list(range(self.count))


class ClusterPlacement(Shards):
    """The shard of a process of one of several brokers. Shards move: who has the others is looked up."""

    def __init__(self, own: int, count: int, broker: str, address: Address, data: Path) -> None:
        """`broker`: which of them this is; `data`: where its agent tells who has which shard."""
        self.own = own
        self._count = count
        self._broker = broker
        self._address = address
        self._owners = OwnersFile(data)

    @property
    def count(self) -> int:
        return self._count

    def address(self, shard: int) -> Address:
        if shard == self.own:
            return self._address
        served = self.owner(shard)
        seat = served.seat
        return Address(seat.port, seat.tls_port, seat.link_port, seat.host, served.listeners)

    def is_served(self, shard: int) -> bool:
        return shard == self.own or shard in self._owners.served

    def owner(self, shard: int) -> Served:
        """The broker that serves a shard, as the agent knows; `ServiceNotReady` if there is none."""
        served = self._owners.served.get(shard)
        if served is None:
            raise ShardAway(f"shard {shard} has no broker just now: try again")
        return served

    def link_of(self, shard: int) -> Where:
        """As of any; for the own shard, where its next owner listens."""
        if shard == self.own and self.is_served_by(shard, self._broker):
            raise ShardAway(f"shard {shard} is on its way to another broker: try again")
        seat = self.owner(shard).seat
        return Where(seat.host or LINK_HOST, seat.link_port, seat.epoch)

    def is_served_by(self, shard: int, broker: str) -> bool:
        """Does the agent know that a broker serves a shard?"""
        served = self._owners.served.get(shard)
        return served is not None and served.broker == broker

    @property
    def near(self) -> list[int]:
        served = self._owners.served
        own = {shard for shard, one in served.items() if one.broker == self._broker}
        return sorted({self.own, *own})

    @property
    def brokers(self) -> list[Notice]:
        """The brokers that are there, by name."""
        return sorted(self._owners.notices, key=lambda one: one.broker)
