"""What authentication and authorisation add to publishing.

    python -m bench auth

Two brokers, an open one and one where clients show tokens and roles have grants, are published to as fast
as it goes in phases that take turns, by a role that may produce and nothing else. Compared are the CPU a
message costs the broker, and how many get through. What is asked once, when a connection and a producer
are opened, is measured by itself.
"""

from __future__ import annotations

import base64
import statistics
import time
from collections.abc import Iterator

import httpx2
import uvloop

import bench
from bench import Result, at_least, at_most
from bench.load.beside import Flood
from bench.load.link import Link
from bench.load.target import Target, started
from milepost.broker.auth.keys import secret_key
from milepost.broker.auth.tokens import sign

SECRET = bytes(range(32))
TOPIC = "persistent://public/default/bench-auth"
ROUNDS, ROUNDS_FULL = 12, 60
PHASE_S = 0.4
WINDOW = 1000
OPENINGS = 200
SECURED = {
    "authentication": "true",
    "authorization": "true",
    "superuser_roles": "root",
    "token_secret_key": f"data:;base64,{base64.b64encode(SECRET).decode()}",
}


def token(role: str) -> str:
    return sign(secret_key(SECRET), {"sub": role, "exp": int(time.time()) + 3600})


async def grant(target: Target) -> None:
    """The role `app` may produce to the namespace."""
    async with httpx2.AsyncClient(base_url=target.http_url) as http:
        answer = await http.post(
            "/admin/v2/namespaces/public/default/permissions/app",
            json=["produce"],
            headers={"authorization": f"Bearer {token('root')}"},
        )
        assert answer.status_code == 204, answer.text


class Lane:
    """One broker and the flood that it gets."""

    def __init__(self, target: Target, token: str) -> None:
        self.target = target
        self.token = token
        self.rates: list[float] = []
        self.costs: list[float] = []
        """CPU seconds for a million messages."""

    async def phase(self) -> None:
        link = await Link.open(self.target.address, self.token)
        await link.produce(TOPIC, 0)
        flood = Flood(link, WINDOW)
        await flood.rate(0.1)
        cpu, before = self.target.cpu_seconds() or 0.0, flood.count
        self.rates.append(await flood.rate(PHASE_S))
        used = (self.target.cpu_seconds() or 0.0) - cpu
        self.costs.append(used / max(flood.count - before, 1) * 1e6)
        flood.end()
        link.close()

    async def openings(self) -> float:
        """Milliseconds for a connection with a producer on it."""
        began = time.perf_counter()
        for _ in range(OPENINGS):
            link = await Link.open(self.target.address, self.token)
            await link.produce(TOPIC, 0)
            link.close()
        return (time.perf_counter() - began) / OPENINGS * 1000


async def measure() -> list[Result]:
    async with started() as one, started(**SECURED) as other:
        await grant(other)
        lanes = Lane(one, ""), Lane(other, token("app"))
        for number in range(ROUNDS_FULL if bench.FULL else ROUNDS):
            for lane in lanes if number % 2 else reversed(lanes):
                await lane.phase()
        opening = [await lane.openings() for lane in lanes]
    free, secured = lanes
    rates = [b / a for a, b in zip(free.rates, secured.rates, strict=True)]
    costs = [b / a for a, b in zip(free.costs, secured.costs, strict=True) if a]
    return [
        Result(
            "messages a second, nobody is asked who they are", statistics.median(free.rates), "/s"
        ),
        at_least("  of them with tokens and grants", statistics.median(rates), "x", 0.95),
        Result("CPU for a million messages", statistics.median(free.costs), "s"),
        at_most("  grows by, with tokens and grants", statistics.median(costs), "x", 1.05),
        Result("a connection with a producer", opening[0], "ms"),
        Result("  with a token and a grant", opening[1], "ms"),
    ]


def run() -> Iterator[Result]:
    yield from uvloop.run(measure())
