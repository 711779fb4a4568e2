"""Chooses the partition of a message. Pure.

A message with a key goes where its key hashes to (Murmur3, as Java's `Murmur3_32Hash`), so that one key
keeps its order. Without a key: all to one partition, or round robin, where a batch's worth of messages
stays together.

    router = Router(PartitionsRoutingMode.RoundRobinDistribution, random=Random(1))
    router.route(outgoing, partitions=4, now_s=0.0)
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from milepost.client.policies import PartitionsRoutingMode
from milepost.errors import InvalidInput
from milepost.wire.murmur import murmur3_32


class RoutedMessage(NamedTuple):
    """What a user's router is given; method names are those of a message."""

    content: Any
    fields: dict[str, Any]

    def data(self) -> Any:
        return self.content

    def partition_key(self) -> str:
        return self.fields.get("partition_key") or ""

    def ordering_key(self) -> str:
        return self.fields.get("ordering_key") or ""

    def properties(self) -> dict[str, str]:
        return self.fields.get("properties") or {}


class Router:
    def __init__(
        self,
        mode: PartitionsRoutingMode,
        *,
        random: Random,
        custom: Callable[[Any, int], int] | None = None,
        stays_for: int = 1,
        stays_s: float = 0.0,
    ) -> None:
        self._mode = mode
        self._custom = custom
        # Round robin moves on after so many messages, or so long.
        self._stays_for = stays_for
        self._stays_s = stays_s
        self._single = random.randrange(1 << 30)
        self._turn = random.randrange(1 << 30)
        self._here = 0
        self._since_s = 0.0

    def route(self, message: RoutedMessage, partitions: int, now_s: float) -> int:
        assert partitions > 0
        if self._mode is PartitionsRoutingMode.CustomPartition:
            assert self._custom is not None
            chosen = self._custom(message, partitions)
            if not isinstance(chosen, int) or not 0 <= chosen < partitions:
                raise InvalidInput(f"message_router chose partition {chosen!r} of {partitions}")
            return chosen
        key = message.partition_key()
        if key:
            return (murmur3_32(key.encode()) & 0x7FFF_FFFF) % partitions
        if self._mode is PartitionsRoutingMode.UseSinglePartition:
            return self._single % partitions
        if self._here >= self._stays_for or (self._here and now_s - self._since_s >= self._stays_s):
            self._turn += 1
            self._here = 0
        if self._here == 0:
            self._since_s = now_s
        self._here += 1
        return self._turn % partitions
