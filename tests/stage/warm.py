"""Commands of Milepost in processes that begin with their modules imported.

Most of the time of a start is spent importing: two seconds of CPU for a broker on a slow core, hundreds of
times in a run of the tests. Here one process imports them once and forks for every command; it has one
thread and has run nothing, so that a fork differs from a process of its own only in what it need not load.

    process = start(["serve", "--data", "d"], stdout=1, stderr=2)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module

REQUEST_SIZE_MAX = 1 << 18
# What `milepost serve` loads before it announces itself, without the libraries that begin threads.
LOADED = (
    "milepost.cli.main",
    "milepost.cli.server.serve",
    "milepost.cli.server.process",
    "milepost.broker.run",
    "milepost.rest.app",
    "milepost.rest.serve",
)
IS_POSSIBLE = hasattr(os, "pidfd_open")  # Linux
_lock = threading.Lock()


class Forked:
    """A process that is not our own child, as far as tests need one."""

    def __init__(self, pid: int, watch: int) -> None:
        self.pid = pid
        self._watch = watch
        """A descriptor of the process, which can be read when it has ended. It is closed with this object and
        not before: several threads ask at once."""
        weakref.finalize(self, os.close, watch)

    def poll(self) -> int | None:
        """None while it runs. Its exit code is not known here."""
        return 0 if self._has_ended(0) else None

    def wait(self, timeout: float) -> None:
        if not self._has_ended(timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)

    def _has_ended(self, timeout: float) -> bool:
        poll = select.poll()  # unlike select, for descriptors above 1,023 too
        poll.register(self._watch, select.POLLIN)
        return bool(poll.poll(timeout * 1000))

    def send_signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it has ended
            signal.pidfd_send_signal(self._watch, number)


def start(arguments: Sequence[str], *, stdout: int, stderr: int) -> Forked:
    """Run `milepost` with these arguments, in our environment and directory."""
    asked = {"arguments": [*arguments], "environment": {**os.environ}, "folder": os.getcwd()}
    data = json.dumps(asked).encode()
    assert len(data) < REQUEST_SIZE_MAX
    with _lock:
        server = _server()
        socket.send_fds(server, [data], [stdout, stderr])
        pid, (watch,), _, _ = socket.recv_fds(server, 64, 1)
    return Forked(int(pid), watch)


@cache
def _server() -> socket.socket:
    """Each request is one packet. The server ends with us."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for one in (ours, theirs):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * REQUEST_SIZE_MAX)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "stage.warm", str(theirs.fileno())],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        process.terminate()
        process.wait()

    atexit.register(end)
    return ours


def _await_command(listening: socket.socket) -> bool:
    """True in a process that was forked to run one; False when no more will be asked for."""
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(ended, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    while True:
        ready, _, _ = select.select([listening, ended], [], [])
        if ended in ready:
            os.read(ended, 4096)
            _bury()
        if listening not in ready:
            continue
        data, outputs, _, _ = socket.recv_fds(listening, REQUEST_SIZE_MAX, 2)
        if not data:
            return False
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for one in (ended, wake):
                os.close(one)
            listening.close()
            _become(json.loads(data), outputs)
            return True
        watch = os.pidfd_open(pid)  # there is such a process until it is buried above
        socket.send_fds(listening, [str(pid).encode()], [watch])
        for one in (watch, *outputs):
            os.close(one)


def _bury() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _become(asked: dict[str, object], outputs: Sequence[int]) -> None:
    """The process that was asked for."""
    for one, place in zip(outputs, (1, 2), strict=True):
        os.dup2(one, place)
        os.close(one)
    os.environ.clear()
    os.environ.update(asked["environment"])  # type: ignore[call-overload]
    os.chdir(str(asked["folder"]))
    sys.argv[1:] = asked["arguments"]  # type: ignore[assignment]


if __name__ == "__main__":
    for module in LOADED:
        import_module(module)
    gc.collect()
    gc.freeze()
    if _await_command(socket.socket(fileno=int(sys.argv[1]))):
        import_module("milepost.cli.main").main()
