"""One broker of several on a bucket (`milepost serve --bucket … --shards N`).

    data directory locked ─▶ ports bound ─▶ the agent joins the cluster ─▶ a process for each shard it claims
    the agent says "open" or "close"  ─▶ a process is forked, or drains and gives its shard back
    a process dies                    ─▶ the agent is told, and claims the shard again if it still can
    a process stands still            ─▶ killed; the agent too, which is started again
    SIGTERM, SIGINT or SIGHUP         ─▶ the agent leaves: all shards are given back ─▶ exit 0
    this process is killed            ─▶ the shards' processes drain and give them back ─▶ the agent ends

This process serves nothing and asks nothing of the bucket. It has one thread and forks: processes begin with
the settings and sockets that are here. Those whose first process is gone drain and end. The agent and this
process talk in lines of JSON over a pair of sockets.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import logging
import os
import select
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import click

from milepost import __version__
from milepost.broker.settings.settings import AUTO_SHARDS, Settings
from milepost.broker.workers.placement import Address, ClusterPlacement
from milepost.broker.workers.workers import ClusterSeat, Place
from milepost.cli.exits import Exit, explain
from milepost.cli.server import logs
from milepost.cli.server.hangs import BEAT_S, HangWatch, Pulse, SharedBeats, end_if_it_hangs
from milepost.cli.server.process import (
    STOP_SIGNALS,
    Post,
    listening,
    rewrite_ready_file,
    run,
    tell_manager,
    write_ready_file,
)
from milepost.cli.server.supervisor import (
    BACKLOG,
    GRACE_S,
    bound,
    cores,
    locked,
    port_of,
    shared,
)
from milepost.errors import BucketUnusable, MilepostError, WrongDataDirectory
from milepost.storage import shards
from milepost.storage.bucket.manifest import SHARDS_MAX
from milepost.storage.catalog.sqlite_catalog import FILE as CATALOG_FILE
from milepost.storage.cluster.document import SECRET_SIZE
from milepost.storage.cluster.link_tls import LinkTls
from milepost.storage.cluster.load import SharedLoads
from milepost.storage.cluster.notice import FOLDER as NOTICES
from milepost.storage.cluster.notice import Notice, Seat
from milepost.storage.cluster.right import SharedRight
from milepost.storage.lock import make_directory

if TYPE_CHECKING:
    from milepost.storage.bucket.objects import Objects
    from milepost.storage.cluster.agent import Agent
    from milepost.storage.cluster.document import ClusterDocument
    from milepost.storage.cluster.member import Order

logger = logging.getLogger(__name__)
T = TypeVar("T")

# Loaded before the agent is forked.
AGENT_NEEDS: Final = (
    "obstore",
    "milepost.storage.bucket.start",
    "milepost.storage.bucket.stores",
    "milepost.storage.cluster.agent",
)
# Loaded when the agent has joined: a broker that is refused says so seconds earlier.
SHARDS_NEED: Final = ("milepost.broker.run", "milepost.rest.serve", "milepost.rest.app")
# Where the caches of shards lie, in the data directory.
FOLDER: Final = "served"
# An agent that died is started again after so long.
PAUSE_S: Final = 0.1
# … and after so long if the system had no room for its process.
NO_ROOM_S: Final = 1.0
# A new cluster has at least so many shards.
FIRST_SHARDS: Final = 4
# The agent's place among the beats, behind those of the shards.
AGENT: Final = SHARDS_MAX


def serve_cluster(settings: Settings, *, ready_file: Path | None = None) -> int:
    """Be one broker of a cluster until a signal ends it; the exit code. In a forked process it returns too,
    when that has ended."""
    data = settings.data
    make_directory(data)
    lock = locked(data, settings.shutdown_timeout_s + GRACE_S)
    try:
        if (data / CATALOG_FILE).exists() or shards.count_of(data) is not None:
            raise WrongDataDirectory(
                f"data directory {data} holds the data of a broker without a bucket; give this one "
                "another --data, which needs nothing in it"
            )
        return Host(settings, ready_file).run()
    finally:
        lock.release()


@dataclass
class Worker:
    """The process of one shard."""

    shard: int
    pid: int
    report: int
    """Where it tells that it is up, and that its shard goes to another broker; −1 when it is dead."""
    watch: HangWatch
    seat: Seat | None = None
    is_handing: bool = False
    """It hands its shard over, and ends by itself."""
    heard: bytes = b""


class Host:
    """The first process of a broker."""

    def __init__(self, settings: Settings, ready_file: Path | None) -> None:
        self._ready_file = ready_file
        self._clients = shared(settings, "port")
        self._tls_clients = shared(settings, "tls_port")
        self._http = shared(settings, "http_port")
        self._https = shared(settings, "https_port")
        with listening(settings.host, settings.cluster_port, "cluster_port"):
            self._hail = bound(settings.host, settings.cluster_port)
        self._hail[0].listen(BACKLOG)
        self._settings = replace(
            settings,
            port=port_of(self._clients),
            tls_port=port_of(self._tls_clients),
            http_port=port_of(self._http),
            https_port=port_of(self._https),
        )
        self._broker = f"{settings.advertised_host}-{port_of(self._hail)}-{uuid4().hex[:8]}"
        self._right = SharedRight()
        self._loads = SharedLoads(SHARDS_MAX)
        self._beats = SharedBeats(SHARDS_MAX + 1)
        self._agent_watch = HangWatch(0)
        # Of each shard's processes: how many have died here, and how many of them hung.
        self._deaths: Counter[int] = Counter()
        self._hangs: Counter[int] = Counter()
        # Closed in the other processes: it ends with this one.
        self._lifeline, self._life = os.pipe()
        # Closed in the agent: it ends with this process and all processes of shards.
        self._kin, self._kin_life = os.pipe()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self._signals: list[str] = []
        self._agent_pid = 0
        self._agent_due_s = 0.0
        self._agent: socket.socket | None = None
        self._is_agent_silent = False
        self._heard = b""
        self._secret = b""
        self._tls = link_tls(settings)
        self._count = 0
        self._workers: dict[int, Worker] = {}
        self._stopping_until: float | None = None
        self._has_left = False
        self._failure: int | None = None
        self._is_announced = False
        self._pid = os.getpid()
        self._began_s = time.monotonic()

    def run(self) -> int:
        for module in AGENT_NEEDS:
            import_module(module)
        before = self._listen()
        try:
            while True:
                if self._has_ended():
                    return Exit.OK if self._failure is None else self._failure
                if self._is_agent_due() and self._fork(self._be_agent):
                    return Exit.OK  # this is the agent, at its end
                self._wait()
                if self._look():
                    return Exit.OK  # this is a shard's process, at its end
        finally:
            if os.getpid() == self._pid:
                self._tidy(before)

    def _has_ended(self) -> bool:
        is_over = self._has_left or self._failure is not None
        return is_over and not self._workers and not self._agent_pid

    # -- signals -----------------------------------------------------------------------------------

    def _listen(self) -> dict[signal.Signals, object]:
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
        for pid in (self._agent_pid, *(one.pid for one in self._workers.values())):
            if pid:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        if self._ready_file is not None:
            self._ready_file.unlink(missing_ok=True)

    # -- one turn ----------------------------------------------------------------------------------

    def _is_agent_due(self) -> bool:
        if self._agent_pid or self._has_left or self._failure is not None:
            return False
        return time.monotonic() >= self._agent_due_s

    def _wait(self) -> None:
        """Until a signal comes, a process dies or is up, or the agent has something to say."""
        timeout: float | None = None
        if self._stopping_until is not None:
            timeout = max(self._stopping_until - time.monotonic(), 0.0)
        elif not self._agent_pid:
            timeout = max(self._agent_due_s - time.monotonic(), 0.0)
        elif self._settings.worker_hang_s:
            timeout = BEAT_S
        heard = [one.report for one in self._workers.values() if one.report >= 0]
        agent: list[int] = []
        if self._agent is not None and not self._is_agent_silent:
            agent.append(self._agent.fileno())
        ready, _, _ = select.select([self._woken, *agent, *heard], [], [], timeout)
        if self._woken in ready:
            os.read(self._woken, 4096)

    def _look(self) -> bool:
        """Take in what happened. True in a process that was forked, at its end."""
        for worker in list(self._workers.values()):
            if worker.report >= 0:
                self._hear(worker)
            found, status = os.waitpid(worker.pid, os.WNOHANG)
            if found:
                self._died(worker, os.waitstatus_to_exitcode(status))
        if self._agent_pid:
            found, status = os.waitpid(self._agent_pid, os.WNOHANG)
            if found:
                self._agent_died(os.waitstatus_to_exitcode(status))
        if self._stopping_until is None:
            self._watch()
        while self._signals:
            self._stop(self._signals.pop(0))
        if self._stopping_until is not None and time.monotonic() >= self._stopping_until:
            self._stopping_until += GRACE_S
            for pid in (self._agent_pid, *(one.pid for one in self._workers.values())):
                if pid:
                    logger.warning("process %d does not end: killed", pid)
                    os.kill(pid, signal.SIGKILL)
            self._has_left = True
        return self._obey()

    def _watch(self) -> None:
        """End processes that stand still."""
        for shard, one in self._workers.items():
            beat, name = self._beats.seen(shard), f"shard {shard}"
            self._hangs[shard] += end_if_it_hangs(one.watch, beat, name, one.pid)
        if self._agent_pid:
            beat = self._beats.seen(AGENT)
            end_if_it_hangs(self._agent_watch, beat, "the agent", self._agent_pid)

    def _hear(self, worker: Worker) -> None:
        if not select.select([worker.report], [], [], 0)[0]:
            return
        said = os.read(worker.report, 4096)
        if not said:  # it is dead
            os.close(worker.report)
            worker.report = -1
            return
        *lines, worker.heard = (worker.heard + said).split(b"\n")
        for line in lines:
            report = json.loads(line)
            if "handing" in report:
                worker.is_handing = True
                continue
            worker.seat = Seat(**report["seat"])
            self._tell({"opened": worker.shard, "seat": list(worker.seat)})
            self._announce()

    def _died(self, worker: Worker, code: int) -> None:
        if worker.report >= 0:
            os.close(worker.report)
        del self._workers[worker.shard]
        self._loads.forget(worker.shard)
        if not self._workers:
            refuse((*self._clients, *self._tls_clients, *self._http, *self._https))
        if code and self._stopping_until is None:
            self._deaths[worker.shard] += 1
            how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
            logger.warning("shard %d (process %d) %s", worker.shard, worker.pid, how)
        self._tell({"ended": worker.shard})
        if self._is_announced:
            self._write_ready_file()

    def _stop(self, name: str) -> None:
        if self._stopping_until is not None:
            return
        logger.info("stopping", extra={"signal": name})
        tell_manager("STOPPING=1")
        self._stopping_until = time.monotonic() + self._settings.shutdown_timeout_s + GRACE_S
        self._tell({"leave": True})
        if not self._count and self._agent_pid:
            # It may wait for a bucket that does not answer, and hears nothing before it has joined.
            os.kill(self._agent_pid, signal.SIGTERM)

    # -- the agent ---------------------------------------------------------------------------------

    def _tell(self, news: dict[str, Any]) -> None:
        if self._agent is not None:
            try:
                self._agent.sendall(json.dumps(news).encode() + b"\n")
            except OSError as error:  # it is dead; the next one is told everything
                logger.debug("the agent does not hear: %s", error)

    def _agent_died(self, code: int) -> None:
        self._agent_pid = 0
        assert self._agent is not None
        self._agent.close()
        self._agent, self._heard = None, b""
        if code == Exit.OK or self._stopping_until is not None:
            self._has_left = True
        elif not self._count:
            # It has said why. What cannot join in the first place is for the operator to mend.
            self._failure = code if code > 0 else Exit.FAILED
        else:
            logger.warning("the agent ended with code %d: it is started again", code)
            self._agent_due_s = time.monotonic() + PAUSE_S
        if self._has_left:
            for worker in self._workers.values():
                os.kill(worker.pid, signal.SIGTERM)

    def _obey(self) -> bool:
        """Do what the agent has said. True in a process that was forked, at its end."""
        if self._agent is None:
            return False
        try:
            said = self._agent.recv(65536)
        except BlockingIOError:
            return False
        except OSError as error:
            logger.debug("the agent is gone: %s", error)
            return False
        if not said:
            self._is_agent_silent = (
                True  # it is about to end: a socket at its end would wake for ever
            )
        self._heard += said
        *lines, self._heard = self._heard.split(b"\n")
        return any(self._carry_out(json.loads(line)) for line in lines)

    def _carry_out(self, order: dict[str, Any]) -> bool:
        if "joined" in order:
            self._count, self._secret = order["joined"], bytes.fromhex(order["secret"])
            for module in SHARDS_NEED:
                import_module(module)
            if self._is_announced:
                self._write_ready_file()  # it names the agent's process, which is another one now
        elif "stands_by" in order:
            self._announce()
        elif "open" in order:
            shard, epoch = order["open"], order["epoch"]
            if shard not in self._workers and self._stopping_until is None:
                return self._start(shard, epoch)
            if shard not in self._workers:
                self._tell({"ended": shard})
        elif "fetch" in order:
            if order["fetch"] not in self._workers and self._stopping_until is None:
                return self._start(order["fetch"], None)
            if order["fetch"] not in self._workers:
                self._tell({"ended": order["fetch"]})
        elif (worker := self._workers.get(order.get("close", order.get("drop", -1)))) is not None:
            is_ending = "close" in order or worker.is_handing
            os.kill(worker.pid, signal.SIGTERM if is_ending else signal.SIGKILL)
        return False

    # -- announcing --------------------------------------------------------------------------------

    def _announce(self) -> None:
        """Clients are served here for the first time, or this broker stands by."""
        settings = self._settings
        self._write_ready_file()
        if self._is_announced:
            return
        self._is_announced = True
        tell_manager("READY=1")
        took_ms = (time.monotonic() - self._began_s) * 1000
        pulsar_url, http_url = self._urls()
        click.echo(
            f"Milepost {__version__} · {pulsar_url} · {http_url} · data in {settings.bucket}, "
            f"{len(self._workers)} of {self._count} shards, after {took_ms:.0f} ms"
        )

    def _urls(self) -> tuple[str, str]:
        settings = self._settings
        return (
            settings.url("pulsar", settings.port) or settings.url("pulsar+ssl", settings.tls_port),
            settings.url("http", settings.http_port) or settings.url("https", settings.https_port),
        )

    def _write_ready_file(self) -> None:
        if self._ready_file is None:
            return
        settings = self._settings
        pulsar_url, http_url = self._urls()
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
            "broker": self._broker,
            "agent": self._agent_pid,
            "shards": [
                {"number": one.shard, "pid": one.pid, "port": one.seat.port}
                for one in sorted(self._workers.values(), key=lambda one: one.shard)
                if one.seat is not None
            ],
        }
        write = rewrite_ready_file if self._is_announced else write_ready_file
        write(self._ready_file, ready)

    # -- processes ---------------------------------------------------------------------------------

    def _fork(self, become: Callable[[socket.socket], None]) -> bool:
        """Make the agent's process. True in it, when it has ended."""
        self._beats.forget(AGENT)
        try:
            ours, theirs = socket.socketpair()
            pid = self._forked(ours.close, theirs.close)
        except OSError as error:
            if not self._count:
                raise
            logger.error("the agent cannot be started: %s", error.strerror or error)
            self._agent_due_s = time.monotonic() + NO_ROOM_S
            return False
        if pid:
            theirs.close()
            ours.setblocking(False)
            self._agent_pid, self._agent, self._is_agent_silent = pid, ours, False
            self._agent_watch = HangWatch(self._settings.worker_hang_s)
            return False
        ours.close()
        os.close(self._kin_life)
        become(theirs)
        return True

    def _forked(self, *undo: Callable[[], None]) -> int:
        """Fork; 0 in the new process, which has handlers and descriptors of its own. `OSError`, after what
        undoes the preparations, if there is no room for it."""
        sys.stdout.flush()
        # Signals wait until the new process has handlers of its own.
        kept = signal.pthread_sigmask(signal.SIG_BLOCK, (*STOP_SIGNALS, signal.SIGCHLD))
        try:
            pid = os.fork()
        except OSError:
            signal.pthread_sigmask(signal.SIG_SETMASK, kept)
            for one in undo:
                one()
            raise
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in STOP_SIGNALS:
                # A terminal tells all processes; these are told by the first.
                ours = signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN
                signal.signal(number, ours)
            for fd in (self._life, self._woken, self._wake):
                os.close(fd)
            for worker in self._workers.values():
                if worker.report >= 0:
                    os.close(worker.report)
            if self._agent is not None:
                self._agent.close()
            os.environ.pop("NOTIFY_SOCKET", None)
        signal.pthread_sigmask(signal.SIG_SETMASK, kept)
        return pid

    def _start(self, shard: int, epoch: int | None) -> bool:
        """Make the process of a shard; without an epoch its owner hands the shard over. True in it, when it
        has ended."""
        self._beats.forget(shard)
        try:
            heard, report = os.pipe()
            pid = self._forked(partial(os.close, heard), partial(os.close, report))
        except (
            OSError
        ) as error:  # the shards that are served here go on; this one is another's to open
            logger.error("shard %d cannot be started: %s", shard, error.strerror or error)
            self._tell({"ended": shard})
            return False
        if pid:
            os.close(report)
            watch = HangWatch(self._settings.worker_hang_s)
            self._workers[shard] = Worker(shard, pid, heard, watch)
            return False
        os.close(heard)
        for sock in self._hail:  # connections are to be refused when the first process is gone
            sock.close()
        logs.name_worker(shard)
        settings = self._settings
        step = 2 if self._tls_clients else 1
        at = settings.worker_port and settings.worker_port + shard * step
        with listening(settings.host, at, "worker_port"):
            own = bound(settings.host, at) if self._clients else ()
            own_tls = bound(settings.host, at and at + 1) if self._tls_clients else ()
        link_at = settings.cluster_port and settings.cluster_port + 1 + shard
        with listening(settings.host, link_at, "cluster_port"):
            link = bound(settings.host, link_at)
        address = Address(port_of(own), port_of(own_tls), port_of(link))
        place = Place(
            data=settings.data,
            placement=ClusterPlacement(shard, self._count, self._broker, address, settings.data),
            secret=self._secret,
            link=link[0],
            clients=(*self._clients, *own),
            tls_clients=(*self._tls_clients, *own_tls),
            http=self._http,
            https=self._https,
            restarts=self._deaths[shard],
            hangs=self._hangs[shard],
            seat=ClusterSeat(self._broker, epoch, self._right, self._loads),
            tls=self._tls,
        )
        settings = replace(settings, data=settings.data / FOLDER / str(shard))
        try:
            run(settings, post=Post(place, self._lifeline, report, Pulse(self._beats, shard)))
        except Exception as error:  # the agent is told, and decides again
            message, code = explain(error)
            logger.warning("shard %d: %s", shard, message)
            logging.shutdown()
            os._exit(code)
        return True

    def _be_agent(self, parent: socket.socket) -> None:
        settings = self._settings
        notice = Notice(
            broker=self._broker,
            host=settings.advertised_host,
            machine=socket.gethostname(),
            pid=self._pid,
            beat=time.time_ns(),  # no beat that another agent of this broker had
            hail_port=port_of(self._hail),
            pulsar_url=settings.url("pulsar", settings.port),
            pulsar_url_tls=settings.url("pulsar+ssl", settings.tls_port),
            http_url=settings.url("http", settings.http_port)
            or settings.url("https", settings.https_port),
            is_leaving=self._stopping_until is not None,
            shards={one.shard: one.seat for one in self._workers.values()},
            listeners=settings.advertised_listeners,
        )
        try:
            asyncio.run(
                be_agent(
                    settings,
                    notice,
                    self._right,
                    self._loads,
                    self._hail[0],
                    parent,
                    (self._lifeline, self._kin),
                    self._tls,
                    Pulse(self._beats, AGENT),
                )
            )
        except Exception as error:
            message, code = explain(error)
            # A broker that is refused says so once: it ends with its first agent.
            if self._count or not isinstance(error, MilepostError):
                logger.error("the agent has ended: %s", message)
            click.echo(f"milepost: {message}", err=True)
            logging.shutdown()
            os._exit(code)


def refuse(sockets: Iterable[socket.socket]) -> None:
    """Refuse connections at once, until a process listens again: without one they would be taken by the
    system and answered by none, and clients would wait for them and not ask another broker.

    A socket that does not listen is left alone: its end of reading would be that of every connection it takes
    later, and half of them would be closed before their first bytes come."""
    for sock in sockets:
        if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            continue
        address = sock.getsockname()
        try:
            sock.shutdown(socket.SHUT_RD)
        except OSError:  # the system cannot do that
            continue
        with suppress(
            OSError
        ):  # a port that was chosen is kept; one that was free is to be taken again
            sock.bind(address)


def shards_asked(settings: Settings) -> int | None:
    """How many shards were asked for; None for as many as there are."""
    return None if settings.shards == AUTO_SHARDS else int(settings.shards)


def link_tls(settings: Settings) -> LinkTls | None:
    """How this broker and the others protect what they say to each other; `InvalidSetting` if it cannot."""
    if not settings.cluster_tls:
        return None
    return LinkTls(
        Path(settings.tls_certificate_file),
        Path(settings.tls_key_file),
        Path(settings.tls_trust_certs_file),
    )


async def be_agent(
    settings: Settings,
    notice: Notice,
    right: SharedRight,
    loads: SharedLoads,
    hail: socket.socket,
    parent: socket.socket,
    lifelines: tuple[int, int],
    tls: LinkTls | None,
    pulse: Pulse,
) -> None:
    """Join the cluster, and be its broker's agent until the broker has left. `lifelines`: pipes that end
    with the first process, and with the last one that serves."""
    from milepost.storage.bucket.stores import open_objects
    from milepost.storage.bucket.watched import WatchedObjects
    from milepost.storage.cluster.agent import Agent
    from milepost.storage.cluster.member import Member

    # What makes a bucket unusable is said once, by what is raised: these requests are not watched.
    unwatched = open_objects(
        settings.bucket, endpoint=settings.bucket_endpoint, region=settings.bucket_region
    )
    objects = WatchedObjects(unwatched)
    document = await _unless_orphaned(lifelines[0], _joined(settings, notice, unwatched, objects))
    if document is None:
        return
    reader, writer = await asyncio.open_connection(sock=parent)

    def say(order: dict[str, Any]) -> None:
        writer.write(json.dumps(order).encode() + b"\n")

    say({"joined": document.shards, "secret": document.secret})
    agent = Agent(
        objects,
        Member(notice, document.shards, loads.known, by_load=settings.balance_by_load),
        right,
        settings.data,
        bytes.fromhex(document.secret),
        lambda order: say(said_to_parent(order)),
        tls=tls,
    )
    loop = asyncio.get_running_loop()

    _end_with(lifelines, agent, settings.shutdown_timeout_s)
    loop.add_signal_handler(signal.SIGTERM, agent.leave)  # of a service manager that tells all
    faulthandler.register(signal.SIGQUIT)
    hearing = loop.create_task(_hear_parent(reader, agent))
    beating = loop.create_task(pulse.run())
    try:
        await agent.run(hail, on_standby=lambda: say({"stands_by": True}))
        with suppress(ConnectionError):  # the first process is gone
            await writer.drain()
    finally:
        hearing.cancel()
        beating.cancel()
        await asyncio.wait([hearing, beating])


async def _joined(
    settings: Settings, notice: Notice, unwatched: Objects, objects: Objects
) -> ClusterDocument:
    """Join the cluster; waits for a bucket that does not answer any more."""
    from milepost.storage.bucket.check import asked, first_contact, probe
    from milepost.storage.bucket.objects import Delete, Scan, perform
    from milepost.storage.cluster.document import found, joined

    await first_contact(unwatched, settings.bucket)
    # A bucket that is not permitted to be listed is asked for lists for ever by what follows.
    await asked(unwatched, settings.bucket, Scan(NOTICES))
    # Before anything is written: the bucket may be another cluster's.
    await perform(objects, found(settings.cluster_name, shards_asked(settings)))
    if not notice.shards:
        try:
            await probe(unwatched, settings.bucket, notice.key, notice.encode())
        except BucketUnusable:
            await unwatched.answer(Delete(notice.key))
            raise
    first = max(min(2 * cores(), SHARDS_MAX), FIRST_SHARDS)
    secret = os.urandom(SECRET_SIZE).hex()
    return await perform(
        objects, joined(settings.cluster_name, shards_asked(settings), first, secret)
    )


async def _unless_orphaned(lifeline: int, work: Coroutine[Any, Any, T]) -> T | None:
    """What some work comes to; None if the first process is gone before: no other one would end this process,
    and it keeps the data directory and the ports."""
    loop = asyncio.get_running_loop()
    is_gone = asyncio.Event()
    working, gone = loop.create_task(work), loop.create_task(is_gone.wait())
    loop.add_reader(lifeline, is_gone.set)
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        loop.remove_reader(lifeline)
        for task in (working, gone):
            task.cancel()
        await asyncio.wait((working, gone))


def _end_with(lifelines: tuple[int, int], agent: Agent, patience_s: float) -> None:
    """Have the agent end when the first process is gone, behind those that serve. One of these that hangs is
    not waited for longer: others could not claim its shard before the agent has ended."""
    loop = asyncio.get_running_loop()
    first, kin = lifelines

    def first_is_gone() -> None:
        loop.remove_reader(first)
        agent.orphaned()
        loop.add_reader(kin, all_are_gone)
        loop.call_later(patience_s, agent.abandon)

    def all_are_gone() -> None:
        loop.remove_reader(kin)
        agent.abandon()

    loop.add_reader(first, first_is_gone)


def said_to_parent(order: Order) -> dict[str, Any]:
    """An order of the agent, as the first process hears it (`Host._carry_out`)."""
    from milepost.storage.cluster.member import Close, Fetch, Open

    if isinstance(order, Open):
        return {"open": order.shard, "epoch": order.epoch}
    if isinstance(order, Fetch):
        return {"fetch": order.shard}
    return {"close" if isinstance(order, Close) else "drop": order.shard}


async def _hear_parent(reader: asyncio.StreamReader, agent: Agent) -> None:
    async for line in reader:
        news = json.loads(line)
        if "opened" in news:
            agent.opened(news["opened"], Seat(*news["seat"]))
        elif "ended" in news:
            agent.ended(news["ended"])
        else:
            agent.leave()
