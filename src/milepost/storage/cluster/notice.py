"""The notice: what a broker says of itself on the board.

It is replaced once a second. A broker whose notice does not change is taken for dead; wall clocks are never
compared. A notice is a hint to others: what keeps data right is the manifest of each shard and its seals.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import urlsplit

FOLDER: Final = "board/"
FORMAT: Final = 1


class Seat(NamedTuple):
    """Where a shard is served, and since which claim."""

    epoch: int
    host: str
    """As clients and other brokers reach it."""
    port: int
    tls_port: int
    link_port: int
    """For other brokers."""


class Notice(NamedTuple):
    broker: str
    """Unique to this start of this broker."""
    host: str
    """As other brokers reach it."""
    machine: str
    """The name that the broker's machine gives itself."""
    pid: int
    beat: int
    """Grows with each notice, so that no two are equal."""
    hail_port: int
    """Accepts connections as long as the broker's first process lives."""
    pulsar_url: str
    pulsar_url_tls: str
    http_url: str
    is_leaving: bool
    shards: Mapping[int, Seat | None]
    """Shards that it has; None: being claimed, or not served yet."""
    shunned: Sequence[int] = ()
    """Shards that it could not open, and leaves to others for now."""
    loads: Mapping[int, float] = MappingProxyType({})
    """What shards take of a core, of those that it knows of."""
    listeners: str = ""
    """Its setting `advertised_listeners`."""

    @property
    def key(self) -> str:
        return f"{FOLDER}{self.broker}"

    @property
    def address(self) -> str:
        """As operators name the broker: by host and port of its HTTP, or by its name if it has none."""
        return urlsplit(self.http_url).netloc or self.broker

    def encode(self) -> bytes:
        return json.dumps({"format": FORMAT, **self._asdict(), "loads": dict(self.loads)}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Notice | None:
        """None for what is not a notice of this format: the board tells whether the broker that wrote it is
        there (`Board.unread`)."""
        try:
            doc = json.loads(data)
            if doc.pop("format") != FORMAT:
                return None
            shards = {
                int(number): None if seat is None else Seat(*seat)
                for number, seat in doc.pop("shards").items()
            }
            shunned = tuple(doc.pop("shunned"))
            loads = {int(number): float(load) for number, load in doc.pop("loads", {}).items()}
            # A later release may say more of itself.
            known = {name: value for name, value in doc.items() if name in cls._fields}
            return cls(**known, shards=shards, shunned=shunned, loads=loads)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    def epoch_of(self, shard: int) -> int:
        """Of the claim with which it serves a shard; 0 if it does not."""
        seat = self.shards.get(shard)
        return 0 if seat is None else seat.epoch
