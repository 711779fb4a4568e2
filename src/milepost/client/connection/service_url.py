"""Parses service URLs: hosts, ports, TLS.

>>> ServiceUrl.parse("pulsar://one:6650,two").hosts
(('one', 6650), ('two', 6650))
>>> ServiceUrl.parse("pulsar+ssl://broker.example").is_tls
True
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from milepost.errors import InvalidInput

PORT: Final = 6650
TLS_PORT: Final = 6651

_URL: Final = re.compile(r"(pulsar(?:\+ssl)?)://([^/?#]+)/?")
_HOST: Final = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\[\]:@\s]+))(?::([0-9]{1,5}))?")


class ServiceUrl(NamedTuple):
    text: str
    is_tls: bool
    hosts: tuple[tuple[str, int], ...]
    """At least one; several are tried in turn."""

    @staticmethod
    def parse(text: str) -> ServiceUrl:
        """Read `pulsar[+ssl]://host[:port][,host[:port]]...`; `InvalidInput` names what is wrong."""
        if not isinstance(text, str):
            raise InvalidInput(f"a service URL is text, not {type(text).__name__}")
        found = _URL.fullmatch(text.strip())
        if found is None:
            raise InvalidInput(f"not a service URL: {text!r}: expected pulsar://host:port")
        scheme, listed = found.groups()
        is_tls = scheme == "pulsar+ssl"
        hosts = tuple(_host(text, part, TLS_PORT if is_tls else PORT) for part in listed.split(","))
        return ServiceUrl(text.strip(), is_tls, hosts)


def _host(text: str, part: str, default_port: int) -> tuple[str, int]:
    found = _HOST.fullmatch(part.strip())
    if found is None:
        raise InvalidInput(f"not a service URL: {text!r}: {part!r} is no host:port")
    bracketed, plain, port_text = found.groups()
    port = int(port_text) if port_text else default_port
    if not 0 < port < 65536:
        raise InvalidInput(f"not a service URL: {text!r}: there is no port {port}")
    return bracketed or plain, port
