"""The notice: what a broker says of itself on the board.

It is replaced once a second. A broker whose notice does not change is taken for dead; wall clocks are never
compared. A notice is a hint to others: what keeps data right is the manifest of each shard and its seals.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from milepost.storage.documents import check_fields, read_document

FOLDER: Final = "board/"
FORMAT: Final = 1
_SEAT_KINDS: Final = {"epoch": int, "host": str, "port": int, "tls_port": int, "link_port": int}
_KINDS: Final = {
    "broker": str,
    "host": str,
    "machine": str,
    "pid": int,
    "beat": int,
    "hail_port": int,
    "pulsar_url": str,
    "pulsar_url_tls": str,
    "http_url": str,
    "is_leaving": bool,
    "shards": dict,
    "shunned": list,
    "loads": dict,
    "listeners": str,
}
_PRINTABLE: Final = ("broker", "host", "machine", "pulsar_url", "pulsar_url_tls", "http_url")


class Seat(NamedTuple):
    """Where a shard is served, and since which claim."""

    epoch: int
    host: str
    """As clients and other brokers reach it."""
    port: int
    tls_port: int
    link_port: int
    """For other brokers."""

    @classmethod
    def of(cls, values: Sequence[Any]) -> Seat:
        """As a notice has it; `ValueError` or `TypeError` for what is no seat."""
        seat = cls(*values)
        check_fields(seat._asdict(), _SEAT_KINDS)
        _check_printable(seat.host)
        for port in (seat.port, seat.tls_port):
            _check_port(port)
        _check_link_port(seat.link_port)
        return seat


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
            doc = {"loads": {}, "listeners": "", **read_document(data)}
            if doc["format"] != FORMAT:
                return None
            check_fields(doc, _KINDS)
            for name in _PRINTABLE:
                _check_printable(doc[name])
            doc["listeners"].encode()  # half a character is told to no client
            _check_link_port(doc["hail_port"])
            urlsplit(doc["http_url"])
            doc["shards"] = {
                _shard(number): None if seat is None else Seat.of(seat)
                for number, seat in doc["shards"].items()
            }
            doc["shunned"] = tuple(map(_shard, doc["shunned"]))
            doc["loads"] = {_shard(number): _load(load) for number, load in doc["loads"].items()}
            # A later release may say more of itself.
            return cls(**{name: doc[name] for name in cls._fields})
        except (ValueError, KeyError, TypeError, OverflowError):
            return None

    def epoch_of(self, shard: int) -> int:
        """Of the claim with which it serves a shard; 0 if it does not."""
        seat = self.shards.get(shard)
        return 0 if seat is None else seat.epoch


def _check_printable(text: str) -> None:
    """`ValueError` for what is no name or address: connecting to it fails otherwise than a network does."""
    if not text.isprintable():
        raise ValueError(f"{text!a}")


def _check_port(port: int) -> None:
    """`ValueError` unless a socket may have it; −1 is none."""
    if not -1 <= port <= 65535:
        raise ValueError(f"port {port}")


def _check_link_port(port: int) -> None:
    """`ValueError` unless other brokers may connect to it; there is always one."""
    if not 0 < port <= 65535:
        raise ValueError(f"port {port}")


def _shard(written: str | int) -> int:
    """A shard's number, which keys of JSON objects are text for."""
    number = int(written) if isinstance(written, str) else written
    if type(number) is not int or number < 0:
        raise ValueError(f"shard {written!r}")
    return number


def _load(load: Any) -> float:
    if type(load) not in (int, float) or not math.isfinite(load):
        raise ValueError(f"load {load!r}")
    return float(load)
