"""Peers: Apache Pulsar, Kafka and RocketMQ, started by a program that the environment names.

    with running("pulsar") as peer:
        peer.port, peer.pid

`MILEPOST_PEER` names the program. `$MILEPOST_PEER run NAME --data DIR --port N` runs the peer in the
foreground, prints a line `ready … pid PID` on its output when it serves, and stops at SIGTERM. It takes
`--http-port M` for Pulsar and `--namesrv-port M` for RocketMQ. `KAFKA_FLUSH=1` asks for a sync of every
append, as Milepost and Pulsar do it.

Where a peer cannot be had, `Unavailable` says why, and the benchmark goes on without it.
"""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

PROGRAM_NAME = "MILEPOST_PEER"
STOP_TIMEOUT_S = 60
# The first start of some unpacks itself; beside other work that takes minutes.
READY_TIMEOUT_S = 600.0
JARS_TIMEOUT_S = 600
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1  # of Linux
# RocketMQ has its other ports beside that of its name server.
SECOND_PORT_OPTIONS = {"pulsar": "--http-port", "rocketmq": "--namesrv-port"}


class Unavailable(Exception):
    """The peer is not here; says why."""


class Peer(NamedTuple):
    port: int
    second_port: int
    """Of HTTP (Pulsar), or of the name server (RocketMQ)."""
    pid: int | None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


def program() -> str:
    found = os.environ.get(PROGRAM_NAME)
    if not found:
        raise Unavailable(f"{PROGRAM_NAME} names no program that runs one")
    return found


def environment() -> dict[str, str]:
    """For a broker that is measured: without the name of the program, which is no setting of it."""
    return {name: value for name, value in os.environ.items() if name != PROGRAM_NAME}


def jars(name: str) -> str:
    """The folder of a peer's jars."""
    try:
        found = subprocess.run(
            [program(), "jars", name],
            capture_output=True,
            text=True,
            timeout=JARS_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    if found.returncode:
        raise Unavailable(found.stderr.strip() or f"there are no jars of {name}")
    return found.stdout.strip()


@contextmanager
def running(name: str, settings: Mapping[str, str] | None = None) -> Iterator[Peer]:
    """A peer of its own on free ports of loopback, on a directory that goes with it."""
    port, second = free_port(), free_port()
    with tempfile.TemporaryDirectory(
        prefix="milepost-bench-", ignore_cleanup_errors=True
    ) as folder:
        command = [program(), "run", name, "--data", f"{folder}/data", "--port", str(port)]
        if option := SECOND_PORT_OPTIONS.get(name):
            command += [option, str(second)]
        log = Path(folder, "log")
        with log.open("w", encoding="utf-8") as errors:
            try:
                process = subprocess.Popen(
                    command,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    encoding="utf-8",
                    errors="replace",
                    start_new_session=True,
                    preexec_fn=_end_with_the_parent,
                    env={**os.environ, **(settings or {})},
                )
            except OSError as error:
                raise Unavailable(str(error)) from error
        reader = _Reader(process)
        try:
            try:
                ready = reader.ready.get(timeout=READY_TIMEOUT_S)
            except queue.Empty:
                told = f"{name} was not ready within {READY_TIMEOUT_S:g} s"
                raise Unavailable(told) from None
            if ready is None:
                said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
                raise Unavailable(said[-1] if said else f"{name} did not start")
            yield Peer(port, second, pid_in(ready))
        finally:
            _stop(process)
            reader.join(STOP_TIMEOUT_S)


class _Reader(threading.Thread):
    """Reads what the program prints as long as it runs: nobody else does, and a full pipe would stop it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(daemon=True)
        self.ready: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        """The line that says so; then, or without one, None at the end."""
        assert process.stdout is not None
        self._lines = process.stdout
        self.start()

    def run(self) -> None:
        with self._lines as lines:
            for line in lines:
                if line.startswith("ready"):
                    self.ready.put(line)
        self.ready.put(None)


def _end_with_the_parent() -> None:
    """Get SIGTERM when the benchmark dies, however it does: no peer outlives it."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def pid_in(ready: str) -> int | None:
    """The process that a line of readiness names.

    >>> pid_in("ready 4.20 pid 4711")
    4711
    >>> pid_in("ready") is None
    True
    """
    words = ready.split()
    if "pid" not in words:
        return None
    try:
        return int(words[words.index("pid") + 1])
    except (ValueError, IndexError):
        raise Unavailable(f"it is ready, and names no process: {ready.strip()!r}") from None


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _stop(process: subprocess.Popen[str]) -> None:
    """End the program and the peer, which are a group of their own."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            continue
        break
