"""Free ports that no client's own end of a connection can be on.

A broker that is killed and started again wants the port that it had. The kernel gives connections their own
ends from the range of ephemeral ports, and while the broker is away clients try to reach it all the time: one
of them may get the very port. So ports that are needed again lie below that range.
"""

from __future__ import annotations

import socket
from pathlib import Path
from random import SystemRandom

FIRST = 12_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port of 127.0.0.1 on which nothing listens."""
    end = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
    while True:
        port = SystemRandom().randrange(FIRST, max(end, FIRST + 1000))
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
