"""Which host names and web pages may call this server, and by which URL it is reached.

A page in a browser may send requests to whatever its own name resolves to, also to this machine (DNS
rebinding). Such a request carries the page's name in its Host header; so on a listener that only this
machine reaches, a name that is not its own is refused. Addresses are no names, and pass. A request that
changes something and says that it comes from a page of another host is refused everywhere. Where the console
is read only, so is one that comes from any page.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from milepost.broker.settings import advertised_listeners
from milepost.broker.settings.settings import Settings

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

ANY = "*"
SAFE_METHODS = {"GET", "HEAD", "OPTIONS", "TRACE"}
# A request of a page has one of these: the first by the browser, the second by the console.
OF_PAGES = (b"origin", b"x-milepost-console")


class HostRules:
    def __init__(self, settings: Settings) -> None:
        named = {name.strip().lower() for name in settings.http_hosts.split(",") if name.strip()}
        if not named and not _is_loopback(settings.host):
            named = {ANY}
        self._any = ANY in named
        self._is_read_only = settings.console_read_only
        self._names = {
            "localhost",
            settings.host.lower(),
            settings.advertised_host.lower(),
            *advertised_listeners.host_names(
                advertised_listeners.parse(settings.advertised_listeners)
            ),
            *named,
        }

    def fault(self, method: str, headers: list[tuple[bytes, bytes]]) -> str | None:
        """Why a request must not be served; None if it may."""
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) > 1:
            return "the Host header is there twice"
        host = hosts[0].decode("latin-1").lower() if hosts else ""
        if not self._any and host and not self._is_own(host):
            return (
                "this is not a name of this broker; the setting http_hosts names those that it "
                "answers to"
            )
        if method not in SAFE_METHODS:
            for name, value in headers:
                if self._is_read_only and name in OF_PAGES:
                    return "the console is read only here (console_read_only)"
                if name == b"origin" and urlsplit(value.decode("latin-1")).netloc.lower() != host:
                    return "a page of another host may not change anything here"
        return None

    def _is_own(self, host: str) -> bool:
        name = _without_port(host)
        return name in self._names or _is_address(name)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    if not _is_address(host):
        return host == "localhost"
    return ipaddress.ip_address(host).is_loopback


def http_url(broker: Broker) -> str:
    """Where this edge is reached: the host that clients are told, and the HTTP port."""
    return broker.settings.url("http", broker.http_port)


def https_url(broker: Broker) -> str:
    return broker.settings.url("https", broker.https_port)


def broker_name(broker: Broker) -> str:
    """Host and HTTP port: how brokers are called."""
    return (http_url(broker) or https_url(broker)).partition("://")[2]
