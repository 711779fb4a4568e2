"""Which shard has a topic, and where the worker of a shard listens. Pure.

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

from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from milepost.broker.directory.bundles import hash_of
from milepost.errors import ServiceNotReady
from milepost.positions.names import TopicName


class Address(NamedTuple):
    """The ports of one worker; −1: none."""

    port: int
    """For clients."""
    tls_port: int
    link_port: int
    """For the other workers, on this machine alone."""


def shard_of(name: TopicName, shards: int) -> int:
    """The shard of a topic or partition."""
    base = name.base
    return hash_of(f"{base.namespace}/{base.local_name}") * shards >> 32


@dataclass(frozen=True, slots=True)
class Placement:
    """A worker's own number, which is its shard's, and the addresses of all."""

    own: int
    addresses: tuple[Address, ...]

    @property
    def others(self) -> list[int]:
        return [number for number in range(len(self.addresses)) if number != self.own]

    def shard_of(self, name: TopicName) -> int:
        return shard_of(name, len(self.addresses))

    def has(self, name: TopicName) -> bool:
        """Is the topic in this worker's shard?"""
        return self.shard_of(name) == self.own

    def address_of(self, name: TopicName) -> Address:
        """Where the worker listens that has a topic."""
        return self.addresses[self.shard_of(name)]

    def check(self, name: TopicName) -> None:
        """Refuse a topic of another worker, so that the client looks it up again."""
        owner = self.shard_of(name)
        if owner != self.own:
            raise ServiceNotReady(f"{name} is served by worker {owner}: look it up again")

    def own_name(self, name: TopicName) -> TopicName:
        """The name, or one like it, of a topic that this worker has."""
        if self.has(name):
            return name
        likes = (TopicName.parse(f"{name}-{number}") for number in count(1))
        return next(one for one in likes if self.has(one))
