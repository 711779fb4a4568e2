"""Starts several workers, and starts those again that die (`milepost serve --workers N`).

    data directory checked and locked ─▶ ports bound ─▶ a process for each shard ─▶ all up: "ready"
    a worker dies                     ─▶ started again, on the same ports and shard, after a pause that grows
    a worker stands still             ─▶ killed, and started again
    SIGTERM, SIGINT or SIGHUP         ─▶ SIGTERM to each worker ─▶ all drained ─▶ exit 0

This process serves nothing. It holds the listening sockets, so that a client that connects while a worker is
being started again waits and is not refused. It has one thread and forks: a worker begins with the settings
and sockets that are here. A worker whose supervisor is gone drains and ends.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Final

import click

from milepost import __version__
from milepost.broker.directory.directory import load_namespaces
from milepost.broker.settings.settings import AUTO_WORKERS, WORKERS_MAX, Settings
from milepost.broker.workers.placement import LINK_HOST, Address, Placement
from milepost.broker.workers.workers import Place
from milepost.cli.exits import Exit
from milepost.cli.server import logs
from milepost.cli.server.hangs import BEAT_S, HangWatch, Pulse, SharedBeats, end_if_it_hangs
from milepost.cli.server.process import (
    HURRY,
    STOP_SIGNALS,
    Post,
    announce_more,
    listening,
    rewrite_ready_file,
    run,
    tell_manager,
    write_ready_file,
)
from milepost.errors import DataDirectoryLocked
from milepost.storage import registry, shards
from milepost.storage.catalog.sqlite_catalog import FILE as CATALOG_FILE
from milepost.storage.cluster.document import SECRET_SIZE
from milepost.storage.lock import DirectoryLock, is_owner_gone, make_directory

logger = logging.getLogger(__name__)

BACKLOG: Final = 4096
# Loaded before the first fork: a worker is up sooner, and all of them have the code in memory once.
WORKERS_NEED: Final = ("milepost.broker.run", "milepost.rest.serve", "milepost.rest.app")
# A worker that dies is started again after so long, twice as long each time…
PAUSE_S: Final = 0.1
PAUSE_MAX_S: Final = 10.0
DOUBLINGS_MAX: Final = 10
# … until one has lived for so long.
WELL_S: Final = 30.0
# How much longer than the drain of a worker may take it is waited for.
GRACE_S: Final = 5.0
# Between two looks at the lock of workers that drain.
LOCK_PAUSE_S: Final = 0.05
# How long a port may still be held by processes that are about to be gone.
PORT_PATIENCE_S: Final = 1.0


def count_of(settings: Settings) -> int:
    """How many workers there are to be: as many as the directory has shards, or as the setting says."""
    if settings.workers != AUTO_WORKERS:
        return int(settings.workers)
    return shards.count_of(settings.data) or min(cores(), WORKERS_MAX)


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def pause_after(failures: int) -> float:
    """How long a worker is waited with that has died so often."""
    doublings = min(max(failures - 1, 0), DOUBLINGS_MAX)  # a broken disk may take days to be mended
    return min(PAUSE_S * 2.0**doublings, PAUSE_MAX_S)


def supervise(settings: Settings, count: int, *, ready_file: Path | None = None) -> int:
    """Run so many workers until a signal ends them; the exit code. In a worker it returns too, when that
    has ended."""
    data = settings.data
    make_directory(data)
    # Held by every worker as well: the directory is free when the last of them has ended.
    lock = locked(data, settings.shutdown_timeout_s + GRACE_S)
    try:
        of_one_process = (data / CATALOG_FILE).exists()
        shards.check_shards(data, count, of_one_process=of_one_process)
        shards.make(data, count)
        registry.create(data, load_namespaces)
        supervisor = Supervisor(settings, Ports(settings, count), ready_file)
        return supervisor.run()
    finally:
        lock.release()


def locked(data: Path, patience_s: float) -> DirectoryLock:
    """Lock the directory. Workers whose supervisor was killed still drain: they are waited for."""
    until = time.monotonic() + patience_s
    is_told = False
    while True:
        try:
            return DirectoryLock(data)
        except DataDirectoryLocked as locked:
            if not is_owner_gone(data) or time.monotonic() >= until:
                raise
            if not is_told:
                logger.info("%s, which is gone: its workers are waited for", locked)
                is_told = True
        time.sleep(LOCK_PAUSE_S)


# -- ports -------------------------------------------------------------------------------------------


class Ports:
    """The sockets of all workers, bound before the first of them starts."""

    def __init__(self, settings: Settings, count: int) -> None:
        host = settings.host
        self.clients = shared(settings, "port")
        self.tls_clients = shared(settings, "tls_port")
        self.http = shared(settings, "http_port")
        self.https = shared(settings, "https_port")
        own, step = settings.worker_port, 2 if self.tls_clients else 1
        self.own: list[tuple[socket.socket, ...]] = []
        self.own_tls: list[tuple[socket.socket, ...]] = []
        self.link: list[socket.socket] = []
        for number in range(count):
            at = own and own + number * step
            with listening(host, at, "worker_port"):
                self.own.append(bound(host, at) if self.clients else ())
                self.own_tls.append(bound(host, at and at + 1) if self.tls_clients else ())
            self.link += bound(LINK_HOST, 0)
        for one in (*self.link, *(sock for some in (*self.own, *self.own_tls) for sock in some)):
            one.listen(BACKLOG)  # connections wait here while a worker is being started again
        self.addresses = tuple(
            Address(port_of(self.own[n]), port_of(self.own_tls[n]), port_of((self.link[n],)))
            for n in range(count)
        )

    def told(self, settings: Settings) -> Settings:
        """The settings with the ports that were found."""
        return replace(
            settings,
            port=port_of(self.clients),
            tls_port=port_of(self.tls_clients),
            http_port=port_of(self.http),
            https_port=port_of(self.https),
        )


def port_of(sockets: Sequence[socket.socket]) -> int:
    """−1 for none."""
    if not sockets:
        return -1
    port: int = sockets[0].getsockname()[1]
    return port


def shared(settings: Settings, name: str) -> tuple[socket.socket, ...]:
    port: int = getattr(settings, name)
    if port < 0:
        return ()
    with listening(settings.host, port, name):
        return bound(settings.host, port)


def bound(host: str, port: int) -> tuple[socket.socket, ...]:
    """A socket for every address of the host, all on one port."""
    sockets: list[socket.socket] = []
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        sockets.append(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if sockets[0] is not sock and port == 0:
            address = (address[0], port_of(sockets), *address[2:])
        _bind(sock, address)
        sock.setblocking(False)
    return tuple(sockets)


def _bind(sock: socket.socket, address: tuple[Any, ...]) -> None:
    """Bind; a port in use is waited for a moment. Of a worker that was killed the system frees the lock of
    the directory before the port, so a start that follows at once finds the one free and the other not."""
    until = time.monotonic() + PORT_PATIENCE_S
    while True:
        try:
            sock.bind(address)
            return
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() >= until:
                sock.close()
                raise
        time.sleep(LOCK_PAUSE_S)


# -- processes ---------------------------------------------------------------------------------------


def forked() -> tuple[int, int, set[int]]:
    """Fork; the new process, 0 in it, this side's end of a pipe from it, and which signals were blocked.
    Those that end a broker wait until the new process has handlers of its own. `OSError` if there is no room
    for it."""
    heard, said = os.pipe()
    kept = signal.pthread_sigmask(signal.SIG_BLOCK, (*STOP_SIGNALS, signal.SIGCHLD))
    try:
        pid = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, kept)
        os.close(heard)
        os.close(said)
        raise
    os.close(said if pid else heard)
    return pid, heard if pid else said, kept


# -- workers -----------------------------------------------------------------------------------------


@dataclass
class Worker:
    """One worker's process, or the lack of one."""

    number: int
    pid: int = 0
    """0 while there is none."""
    report: int = -1
    """Where it tells that it is up; −1 when it has."""
    is_up: bool = False
    entries: int = 0
    started_s: float = 0.0
    starts: int = 0
    failures: int = 0
    """How often it died without being well in between."""
    due_s: float | None = None
    """When it is to be started again."""
    watch: HangWatch = field(default_factory=lambda: HangWatch(0))
    """Of its process."""
    hangs: int = 0
    """How often it was killed because it stood still."""


class Supervisor:
    def __init__(self, settings: Settings, ports: Ports, ready_file: Path | None) -> None:
        self._settings = ports.told(settings)
        self._ports = ports
        self._ready_file = ready_file
        self._secret = os.urandom(SECRET_SIZE)
        self._workers = [Worker(number) for number in range(len(ports.addresses))]
        self._beats = SharedBeats(len(self._workers))
        # Closed in the workers: it ends with this process.
        self._lifeline, self._life = os.pipe()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self._signals: list[str] = []
        self._stopping_until: float | None = None
        self._is_announced = False
        self._began_s = time.monotonic()
        # Of the first worker that could not be started.
        self._failure: int | None = None

    def run(self) -> int:
        for module in WORKERS_NEED:
            import_module(module)
        before = self._listen()
        try:
            while True:
                for worker in self._workers:
                    if self._is_due(worker) and self._start(worker):
                        return Exit.OK  # this is the worker, at its end
                if self._stopping_until is not None and not any(one.pid for one in self._workers):
                    return Exit.OK if self._failure is None else self._failure
                self._wait()
                self._look()
        finally:
            if os.getpid() == self._pid:
                self._tidy(before)

    # -- signals -----------------------------------------------------------------------------------

    def _listen(self) -> dict[signal.Signals, object]:
        self._pid = os.getpid()
        before: dict[signal.Signals, object] = {}
        for number in (*STOP_SIGNALS, signal.SIGCHLD):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
                before[number] = signal.signal(number, self._signalled)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        return before

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            self._signals.append(signal.Signals(number).name)

    def _tidy(self, before: dict[signal.Signals, object]) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # as it was found
        for one in self._workers:
            if one.pid:
                os.kill(one.pid, signal.SIGKILL)
                os.waitpid(one.pid, 0)
        if self._ready_file is not None:
            self._ready_file.unlink(missing_ok=True)

    # -- one turn ----------------------------------------------------------------------------------

    def _is_due(self, worker: Worker) -> bool:
        if worker.pid or self._stopping_until is not None:
            return False
        return worker.due_s is None or time.monotonic() >= worker.due_s

    def _wait(self) -> None:
        """Until a signal comes, a worker dies or is up, one is to be started, or they are to be looked at."""
        times = [one.due_s for one in self._workers if one.due_s is not None and not one.pid]
        if self._settings.worker_hang_s:
            times.append(time.monotonic() + BEAT_S)
        if self._stopping_until is not None:
            times = [self._stopping_until]
        timeout = max(min(times) - time.monotonic(), 0.0) if times else None
        reports = [one.report for one in self._workers if one.report >= 0]
        ready, _, _ = select.select([self._woken, *reports], [], [], timeout)
        if self._woken in ready:
            os.read(self._woken, 4096)

    def _look(self) -> None:
        for worker in self._workers:
            if worker.report >= 0:
                self._hear(worker)
            if worker.pid:
                found, status = os.waitpid(worker.pid, os.WNOHANG)
                if found:
                    self._died(worker, os.waitstatus_to_exitcode(status))
                elif self._stopping_until is None:
                    self._watch(worker)
        while self._signals:
            self._stop(self._signals.pop(0))
        if self._stopping_until is not None and time.monotonic() >= self._stopping_until:
            for worker in self._workers:
                if worker.pid:
                    logger.warning("worker %d does not end: killed", worker.number)
                    os.kill(worker.pid, signal.SIGKILL)
            self._stopping_until += GRACE_S

    def _hear(self, worker: Worker) -> None:
        if not select.select([worker.report], [], [], 0)[0]:
            return
        said = os.read(worker.report, 4096)
        os.close(worker.report)
        worker.report = -1
        if not said:
            return  # it is dead
        worker.is_up, worker.entries = True, json.loads(said)["entries"]
        if all(one.is_up for one in self._workers):
            self._announce()

    def _watch(self, worker: Worker) -> None:
        """End a worker that stands still. It is started again as any that dies."""
        beat, name = self._beats.seen(worker.number), f"worker {worker.number}"
        worker.hangs += end_if_it_hangs(worker.watch, beat, name, worker.pid)

    def _died(self, worker: Worker, code: int) -> None:
        if worker.report >= 0:
            os.close(worker.report)
            worker.report = -1
        how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
        self._fell(worker, f"(process {worker.pid}) {how}", code)

    def _fell(self, worker: Worker, how: str, code: int) -> None:
        """A worker has ended, or there is no process for it: it is started again later."""
        was_up = worker.is_up
        worker.pid, worker.is_up = 0, False
        if self._stopping_until is not None:
            return
        if not self._is_announced:
            # It has said why. What does not start in the first place is for the operator to mend.
            self._failure = code if code > 0 else Exit.FAILED
            logger.warning("worker %d could not be started: %s", worker.number, how)
            self._stop("")
            return
        lived_s = time.monotonic() - worker.started_s
        worker.failures = 0 if was_up and lived_s >= WELL_S else worker.failures + 1
        pause_s = pause_after(worker.failures)
        worker.due_s = time.monotonic() + pause_s
        logger.warning("worker %d %s; it is started again in %g s", worker.number, how, pause_s)

    def _stop(self, name: str) -> None:
        how = signal.SIGTERM if self._stopping_until is None else HURRY
        if self._stopping_until is None:
            if name:
                logger.info("stopping", extra={"signal": name})
            tell_manager("STOPPING=1")
            self._stopping_until = time.monotonic() + self._settings.shutdown_timeout_s + GRACE_S
        for worker in self._workers:
            if worker.pid:
                os.kill(worker.pid, how)

    def _announce(self) -> None:
        """All of them are up, for the first time or again."""
        settings = self._settings
        pulsar_url = settings.url("pulsar", settings.port) or settings.url(
            "pulsar+ssl", settings.tls_port
        )
        http_url = settings.url("http", settings.http_port) or settings.url(
            "https", settings.https_port
        )
        if self._ready_file is not None:
            ready = {
                "pid": os.getpid(),
                "host": settings.host,
                "port": settings.port,
                "http_port": settings.http_port,
                "tls_port": settings.tls_port,
                "https_port": settings.https_port,
                "rocketmq_port": settings.rocketmq_port,
                "rocketmq_tls_port": settings.rocketmq_tls_port,
                "rocketmq_namesrv_port": settings.rocketmq_namesrv_port,
                "rocketmq_namesrv_tls_port": settings.rocketmq_namesrv_tls_port,
                "pulsar_url": pulsar_url,
                "http_url": http_url,
                "data": str(settings.data.absolute()),
                "workers": [
                    {
                        "number": one.number,
                        "pid": one.pid,
                        "port": address.port,
                        "tls_port": address.tls_port,
                    }
                    for one, address in zip(self._workers, self._ports.addresses, strict=True)
                ],
            }
            write = rewrite_ready_file if self._is_announced else write_ready_file
            write(self._ready_file, ready)
        if self._is_announced:
            logger.info("all workers are up again")
            return
        self._is_announced = True
        tell_manager("READY=1")
        took_ms = (time.monotonic() - self._began_s) * 1000
        entries = sum(one.entries for one in self._workers)
        click.echo(
            f"Milepost {__version__} · {pulsar_url} · {http_url} · data in {settings.data}, "
            f"{len(self._workers)} workers, recovered {entries} entries in {took_ms:.0f} ms"
        )
        announce_more(self._settings, http_url)

    # -- a process ---------------------------------------------------------------------------------

    def _start(self, worker: Worker) -> bool:
        """Make a process. True in the worker, when it has ended."""
        worker.starts += 1
        self._beats.forget(worker.number)
        sys.stdout.flush()
        try:
            pid, pipe, kept = forked()
        except OSError as error:  # no room for a process or a descriptor: the others serve on
            self._fell(worker, f"cannot be started: {error.strerror or error}", Exit.FAILED)
            return False
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, kept)
            worker.pid, worker.report, worker.started_s = pid, pipe, time.monotonic()
            worker.due_s = None
            worker.watch = HangWatch(self._settings.worker_hang_s)
            return False
        self._become(worker, pipe, kept)
        return True

    def _become(self, worker: Worker, report: int, kept: set[int]) -> None:
        """Run the worker. In its own process."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in STOP_SIGNALS:
            # A terminal tells all processes; a worker is told by this one.
            ours = signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN
            signal.signal(number, ours)
        signal.pthread_sigmask(signal.SIG_SETMASK, kept)
        for fd in (self._life, self._woken, self._wake, *(one.report for one in self._workers)):
            if fd >= 0:
                os.close(fd)
        os.environ.pop("NOTIFY_SOCKET", None)
        logs.name_worker(worker.number)
        ports, number = self._ports, worker.number
        place = Place(
            data=self._settings.data,
            placement=Placement(number, ports.addresses),
            secret=self._secret,
            link=ports.link[number],
            clients=(*ports.clients, *ports.own[number]),
            tls_clients=(*ports.tls_clients, *ports.own_tls[number]),
            http=ports.http,
            https=ports.https,
            restarts=worker.starts - 1,
            hangs=worker.hangs,
        )
        settings = replace(self._settings, data=shards.shard_path(self._settings.data, number))
        run(settings, post=Post(place, self._lifeline, report, Pulse(self._beats, number)))
