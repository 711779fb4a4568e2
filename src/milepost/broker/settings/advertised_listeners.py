"""The addresses that clients are told, by the network they come from.

A client inside a cluster of containers and one outside reach the same broker by different names; each
says which listener it means, and is told that one's addresses. Owns the reading of the setting and the
choice; it never listens itself.

    >>> known = parse("internal:pulsar://10.0.0.7:6650,external:pulsar://mq.example.com:6650")
    >>> known["external"]["pulsar"]
    'pulsar://mq.example.com:6650'
    >>> default(known, "internal", "pulsar"), default(known, "internal", "pulsar+ssl")
    ('pulsar://10.0.0.7:6650', '')
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from milepost.errors import InvalidSetting

SCHEMES: Final = ("pulsar", "pulsar+ssl", "http", "https")

# Scheme → URL, of one listener.
Urls = Mapping[str, str]
# Listener → its URLs, in the order of the setting.
Listeners = Mapping[str, Urls]


@lru_cache(maxsize=8)
def parse(text: str) -> Listeners:
    """The setting `advertised_listeners`: `name:scheme://host:port`, by commas, a name once a scheme."""
    found: dict[str, dict[str, str]] = {}
    for one in filter(None, (part.strip() for part in text.split(","))):
        name, _, url = one.partition(":")
        parts = urlsplit(url)
        try:
            is_whole = bool(name and parts.hostname and parts.port) and not parts.path.strip("/")
        except ValueError:  # not a port number
            is_whole = False
        if not is_whole or parts.scheme not in SCHEMES:
            raise InvalidSetting(
                f"advertised_listeners: {one!r} is not name:scheme://host:port, with a scheme of "
                f"{', '.join(SCHEMES)}"
            )
        urls = found.setdefault(name, {})
        if parts.scheme in urls:
            raise InvalidSetting(
                f"advertised_listeners: {name} has two addresses for {parts.scheme}"
            )
        urls[parts.scheme] = url.rstrip("/")
    return found


def default(listeners: Listeners, internal: str, scheme: str) -> str:
    """What a client is told that names no listener: the internal one's address, or the first that has
    the scheme; empty if none has."""
    preferred = listeners.get(internal, {}).get(scheme)
    return preferred or next((urls[scheme] for urls in listeners.values() if scheme in urls), "")


def at_port(url: str, port: int) -> str:
    """An address with another port; empty if either is not there. Workers have ports of their own, which are
    reached by the same hosts.

    >>> at_port("pulsar://mq.example.com:6650", 6700), at_port("pulsar+ssl://[::1]:1", 2), at_port("", 2)
    ('pulsar://mq.example.com:6700', 'pulsar+ssl://[::1]:2', '')
    """
    return "" if not url or port < 0 else f"{url.rpartition(':')[0]}:{port}"


def host_names(listeners: Listeners) -> set[str]:
    """The hosts under which the HTTP edge is reached."""
    urls = (urls[scheme] for urls in listeners.values() for scheme in urls if "http" in scheme)
    return {urlsplit(url).hostname or "" for url in urls}
