"""A disturbance that is made by a process of its own, so that the process that measures does only that.

    async with Attacker("bench.attacks", "a huge ACK", target.url) as attacker:
        beside = await compare(load, "beside", attacker.attack, rounds=4)

The module's `ATTACKS` has the disturbance by its name. `python -m bench.load.attacker MODULE NAME URL`
prepares it and says so with a line; then a line on standard input begins it and the next ends it, each
answered with a line. The end of standard input ends the process.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import uvloop

from bench.load.target import Target
from bench.load.workloads import Load

_SAID = b"said\n"


class Attacker:
    """The process, seen from the one that measures."""

    def __init__(self, module: str, name: str, url: str) -> None:
        self._arguments = (module, name, url)

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.load.attacker", *self._arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        await self._hear()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    @asynccontextmanager
    async def attack(self) -> AsyncIterator[None]:
        await self._turn()
        yield
        await self._turn()

    async def _turn(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(_SAID)
        await self._hear()

    async def _hear(self) -> None:
        assert self._process.stdout is not None
        if await self._process.stdout.readline() != _SAID:
            raise RuntimeError(f"the attacker ended with {await self._process.wait()}")


# -- in the process of its own -------------------------------------------------------------------------


async def _main(module: str, name: str, url: str) -> None:
    attack = await importlib.import_module(module).ATTACKS[name](Load(Target(url)))
    asked = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(asked), sys.stdin
    )
    _say()
    while await asked.readline():
        async with attack():
            _say()
            await asked.readline()
        _say()


def _say() -> None:
    sys.stdout.buffer.write(_SAID)
    sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(_main(*sys.argv[1:4]))
