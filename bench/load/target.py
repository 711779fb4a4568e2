"""The broker under load: one that listens already, or one started here on a directory of its own.

async with Target.started() as target:          # or: Target("pulsar://127.0.0.1:6650", pid=4711)
    before = target.cpu_seconds()
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from bench.load.link import Link
from bench.peers import environment

# Beside other work a start may wait for its turn: that is no figure, and no reason to give up.
READY_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 15.0
PROGRAM = ("milepost.cli.main",)
_LIBC = ctypes.CDLL(None)
MIB = 1024 * 1024


class Target(NamedTuple):
    """Where a broker listens, and which process it is; None: nobody knows, nothing is measured."""

    url: str
    pid: int | None = None
    http_url: str = ""

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "127.0.0.1", parts.port or 6650

    def cpu_seconds(self) -> float | None:
        """What the process has used so far, all of its threads, in the kernel and out of it."""
        if self.pid is None:
            return None
        # To the nanosecond: the ticks of /proc are a hundredth of a second, and some turns take few of them.
        clock = ctypes.c_int()
        if failure := _LIBC.clock_getcpuclockid(self.pid, ctypes.byref(clock)):
            raise OSError(failure, f"process {self.pid}: {os.strerror(failure)}")
        return time.clock_gettime(clock.value)

    def rss_mib(self) -> float | None:
        if self.pid is None:
            return None
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return None


@asynccontextmanager
async def started(
    *options: str,
    program: Sequence[str] = PROGRAM,
    source: Path | None = None,
    **settings: str,
) -> AsyncIterator[Target]:
    """`milepost serve` on free ports and a directory that goes with it; settings by their names.
    `program` is the module that serves, with arguments of its own; `source` the folder with the package of
    another commit."""
    serving = _serving(program, "--port", "0", *options, folder=None, source=source, **settings)
    async with serving as (process, ready):
        async with asyncio.timeout(READY_TIMEOUT_S):
            while not ready.exists():
                if process.returncode is not None:
                    raise RuntimeError(f"milepost serve ended with {process.returncode}")
                await asyncio.sleep(0.01)
        told = json.loads(ready.read_text())
        yield Target(f"pulsar://127.0.0.1:{told['port']}", process.pid, told["http_url"])


@asynccontextmanager
async def _serving(
    program: Sequence[str],
    *options: str,
    folder: Path | None = None,
    source: Path | None = None,
    **settings: str,
) -> AsyncIterator[tuple[asyncio.subprocess.Process, Path]]:
    """The process, and the file that it writes when it is ready. A `folder` that is given stays."""
    is_given = folder is not None
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="milepost-bench-"))
    ready = folder / "ready.json"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", *program, "serve", "--host", "127.0.0.1"),
        *("--http-port", "0", "--data", str(folder / "data"), "--ready-file", str(ready)),
        *("--log-level", "warning"),
        *options,
        stdout=asyncio.subprocess.DEVNULL,
        env={
            **environment(),
            **({} if source is None else {"PYTHONPATH": str(source)}),
            **{f"MILEPOST_{name.upper()}": value for name, value in settings.items()},
        },
    )
    try:
        yield process, ready
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        if not is_given:
            shutil.rmtree(folder, ignore_errors=True)


async def measure_restart(
    fill: Callable[[Target], Awaitable[object]], source: Path | None = None
) -> float:
    """Let a broker be filled, kill it, start it again; seconds until it answers its first CONNECT."""
    with tempfile.TemporaryDirectory(prefix="milepost-bench-") as name:
        folder = Path(name)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        serving = _serving(PROGRAM, "--port", str(port), folder=folder, source=source)
        async with serving as (process, ready):
            async with asyncio.timeout(READY_TIMEOUT_S):
                while not ready.exists():
                    await asyncio.sleep(0.01)
            await fill(Target(f"pulsar://127.0.0.1:{port}", process.pid))
            process.kill()
            await process.wait()
        return await measure_start(folder, source)


async def measure_start(folder: Path | None = None, source: Path | None = None) -> float:
    """Start `milepost serve` on an empty directory, or on one that is given; seconds until it answers its
    first CONNECT."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    began = time.perf_counter()
    async with _serving(PROGRAM, "--port", str(port), folder=folder, source=source):
        async with asyncio.timeout(READY_TIMEOUT_S):
            while True:
                try:
                    link = await Link.open(("127.0.0.1", port))
                except OSError:
                    await asyncio.sleep(0.002)
                else:
                    break
        took = time.perf_counter() - began
        link.close()
    return took


class SyncTime(NamedTuple):
    """How long the disk takes to make a small append durable: what every promise waits for."""

    p50_ms: float
    p99_ms: float


def measure_sync(count: int = 500, size_bytes: int = 256, pause_s: float = 0.001) -> SyncTime:
    """Append and fdatasync, again and again, where brokers started here keep their data.

    With a pause between them, as at a moderate rate of messages: a disk that is kept busy answers
    faster than one that is asked now and then.
    """
    file, path = tempfile.mkstemp(prefix="milepost-bench-")
    try:
        took = []
        for _ in range(count):
            time.sleep(pause_s)
            began = time.perf_counter()
            os.write(file, bytes(size_bytes))
            os.fdatasync(file)
            took.append((time.perf_counter() - began) * 1000)
    finally:
        os.close(file)
        os.unlink(path)
    cuts = statistics.quantiles(took, n=100)
    return SyncTime(cuts[49], cuts[98])


def measure_disk_rate(total_bytes: int, piece_bytes: int = 4 * MIB) -> float:
    """Bytes a second that the disk takes: a plain file, written and synced a piece at a time."""
    file, path = tempfile.mkstemp(prefix="milepost-bench-")
    piece = os.urandom(piece_bytes)
    count = max(total_bytes // piece_bytes, 1)
    try:
        began = time.perf_counter()
        for _ in range(count):
            os.write(file, piece)
            os.fdatasync(file)
        return count * piece_bytes / (time.perf_counter() - began)
    finally:
        os.close(file)
        os.unlink(path)
