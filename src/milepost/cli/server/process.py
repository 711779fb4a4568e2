"""Runs the broker and its HTTP server in one process until it is stopped.

    data directory locked and recovered ─▶ binary port ─▶ HTTP port ─▶ "ready"
    SIGTERM, SIGINT or SIGHUP ─▶ HTTP closed ─▶ broker drained and closed ─▶ exit 0
    SIGQUIT ─▶ the stack of every thread on standard error, as a JVM does it; the broker goes on

Nothing has to be saved on the way out: what was answered is on disk. A drain that takes longer than
`shutdown_timeout_s`, or for which a second signal does not wait, is cut off, and the next start
recovers as after a crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import faulthandler
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from milepost import __version__
from milepost.broker.settings.settings import EVERYWHERE, Settings
from milepost.broker.workers import hand_over
from milepost.broker.workers.hand_over import LINGER_S, Fetched, HandOver
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.server.hangs import Pulse
from milepost.cli.server.settings_options import FLAGS
from milepost.storage import descriptors
from milepost.storage.cluster.load import LOOK_S, LoadMeter, SharedLoads

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.connection.server import RunningBroker
    from milepost.broker.workers.workers import Place
    from milepost.rest.serve import HttpServer
    from milepost.rocketmq.remoting.server import RemotingServer
    from milepost.rocketmq.server import RocketMqServer
    from milepost.storage.interface import Engine
    from milepost.storage.recovery import RecoveryReport

logger = logging.getLogger(__name__)
T = TypeVar("T")

# Not everywhere are there terminals that hang up.
STOP_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
)

# A message is many small values that live until the next commit, and no cycle. With the defaults the
# collector looks through them all the time: publishing to a thousand topics costs a fifth more. But while
# it looks the loop stands still: 20,000 new values that stay, as those of unfinished chunks do, took 12 ms.
COLLECTOR_THRESHOLDS = (5_000, 20, 50)

# A thread that comes back from the disk while the loop is busy waits this long before it may ask for the
# interpreter, and the journal's comes back twice for every commit. With the default of five milliseconds
# a producer beside a loop without a pause waits for ten; shorter, it costs nothing to speak of.
SWITCH_INTERVAL_S = 0.0005


# What the process of a shard reports when its shard is about to go to another broker.
HANDING = b'{"handing": true}\n'


class Post(NamedTuple):
    """What a process that starts several workers gives to one of them, beside the settings."""

    place: Place
    lifeline: int
    """A pipe that ends when that process is gone."""
    report: int
    """A pipe that is told that the worker is up, and that its shard is about to go to another broker."""
    pulse: Pulse
    """Tells that process that this one does not hang."""


def run(settings: Settings, *, ready_file: Path | None = None, post: Post | None = None) -> None:
    """Start, say so, wait for a signal, stop. Errors of the start are raised."""
    gc.disable()  # a start makes much and drops little: looking through it is a quarter of its time
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    descriptors.raise_limit()
    descriptors.SPARE.hold(descriptors.SPARE_COUNT)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_run(settings, ready_file, post))
    finally:
        gc.enable()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed; everything works without it."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


# What tells a process that another one has started not to wait for the drain.
HURRY = getattr(signal, "SIGUSR1", signal.SIGTERM)


class Stop:
    """What signals ask for: the first to stop, another one not to wait for the drain.

    A process that another one has started is told to stop by that one, and by a service manager or a shell
    that tells all processes: the same word twice. It does not wait only when it hears `HURRY`.
    """

    def __init__(self, *, is_supervised: bool = False) -> None:
        self._is_supervised = is_supervised
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
                loop.add_signal_handler(number, self.signalled, signal.Signals(number).name)
        if self._is_supervised:
            loop.add_signal_handler(HURRY, self._hurry, HURRY.name)

    def signalled(self, name: str) -> None:
        if not self.asked.is_set():
            logger.info("stopping", extra={"signal": name})
            self.asked.set()
        elif not self._is_supervised:
            self._hurry(name)

    def _hurry(self, name: str) -> None:
        if not self.hurried.is_set():
            logger.warning("not drained; the next start recovers", extra={"signal": name})
            self.asked.set()
            self.hurried.set()


async def _run(settings: Settings, ready_file: Path | None, post: Post | None) -> None:
    stop = Stop(is_supervised=post is not None)
    stop.listen()
    if post is not None:
        _end_with(post.lifeline, stop)
    if hasattr(signal, "SIGQUIT"):
        faulthandler.register(signal.SIGQUIT)
    place = None if post is None else post.place
    found = await _fetched(settings, place)
    place = place if found is None else found.place
    started = await _unless_stopped(stop, _start_broker(settings, place), is_alone=post is None)
    if started is None:
        return
    broker, took_ms = started
    broker.broker.engine.watch(on_fatal=_give_up)
    threading.excepthook = _thread_ended
    asyncio.get_running_loop().set_exception_handler(partial(_contained, broker.broker))
    handing: HandOver | None = None
    beating: asyncio.Future[None] | None = None
    try:
        async with contextlib.AsyncExitStack() as edges:
            if found is not None:
                await hand_over.taken(found, took_ms)
            rocketmq = await _start_rocketmq(settings, broker)
            if rocketmq is not None:
                edges.push_async_callback(rocketmq.close)
            remoting = await _start_remoting(settings, broker, rocketmq)
            if remoting is not None:
                edges.push_async_callback(remoting.close)
            # The last: where REST says that the broker is ready, all its ports answer.
            http = await _start_http(settings, broker)
            edges.push_async_callback(http.close)
            gc.freeze()  # modules and classes stay: the collector need not look at them again
            gc.set_threshold(*COLLECTOR_THRESHOLDS)
            gc.enable()
            if post is None:
                _announce(settings, broker, http, took_ms, ready_file)
            else:
                assert broker.broker.workers is not None, "a post without workers"
                handing = _offer(broker, post)
                await broker.broker.workers.listen()
                post.pulse.beat()  # a worker that is up is judged from now on
                _report(broker, post)
                beating = asyncio.ensure_future(post.pulse.run())  # to the end of the drain
                if post.place.seat is not None:
                    broker.broker.spawn(_measured(post.place.seat.loads, post.place.placement.own))
            await _until_stopped(stop, handing)
            if post is None:
                tell_manager("STOPPING=1")
            elif handing is not None and not handing.is_under_way:
                assert broker.broker.workers is not None, "a post without workers"
                await broker.broker.workers.gate.close()
                await _fold_ahead(broker.broker.engine, stop, settings.shutdown_timeout_s / 2)
    finally:
        await _drain(settings.shutdown_timeout_s, broker.close(), stop.hurried)
        if beating is not None:
            beating.cancel()
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)


async def _unless_stopped(
    stop: Stop, starting: Coroutine[Any, Any, T], *, is_alone: bool
) -> T | None:
    """What a start comes to; None if a signal has ended it: one that waits for a bucket that does not answer
    may take for ever. A process that another one has started is ended by that one, if need be."""
    task = asyncio.ensure_future(starting)
    if is_alone:
        asked = asyncio.ensure_future(stop.asked.wait())
        await asyncio.wait((task, asked), return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            return None
    return await task


async def _fetched(settings: Settings, place: Place | None) -> Fetched | None:
    """Have a shard handed over by its owner, if it is to be so."""
    if place is None or place.seat is None or place.seat.epoch is not None:
        return None
    return await hand_over.fetched(place, settings.advertised_host)


def _offer(running: RunningBroker, post: Post) -> HandOver | None:
    """Hand the shard over when another broker asks for it."""
    if post.place.seat is None:
        return None

    def begin() -> None:
        with contextlib.suppress(BrokenPipeError):  # the process that started this one is gone
            os.write(post.report, HANDING)

    handing = HandOver(running.broker, running.stop_listening, begin)
    handing.listen()
    return handing


async def _measured(loads: SharedLoads, shard: int) -> None:
    """Tell the agent, for ever, how much of a core this process takes."""
    meter = LoadMeter(time.monotonic(), time.process_time())
    while True:
        await asyncio.sleep(LOOK_S)
        load = meter.look(time.monotonic(), time.process_time())
        if load is not None:
            loads.tell(shard, load)


async def _until_stopped(stop: Stop, handing: HandOver | None) -> None:
    """Wait for a signal, or until the shard is another broker's."""
    waits = [asyncio.ensure_future(stop.asked.wait())]
    if handing is not None:
        waits.append(asyncio.ensure_future(handing.is_over.wait()))
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    if handing is not None and handing.is_under_way:
        hurry = asyncio.ensure_future(stop.hurried.wait())
        await asyncio.wait((waits[1], hurry), return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        await asyncio.sleep(LINGER_S)  # clients read where to go
    for wait in waits:
        wait.cancel()


def _give_up(reason: str) -> None:
    """End the process at once: what it would answer from now on could not be relied upon.

    Nothing is lost by that: what was answered is on disk, and the next start recovers.
    """
    logger.critical("exiting: %s", reason)
    logging.shutdown()
    sys.stderr.write(f"milepost: {reason}\n")
    sys.stderr.flush()
    os._exit(Exit.FAILED)


def _thread_ended(args: threading.ExceptHookArgs) -> None:
    """A thread that the broker relies on has ended by an error."""
    name = "?" if args.thread is None else args.thread.name
    logger.critical("thread %s has ended", name, exc_info=args.exc_value)
    _give_up(f"thread {name} has ended: {args.exc_type.__name__}: {args.exc_value}")


def _contained(broker: Broker, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The loop went on behind an error of a callback or task."""
    error = context.get("exception")
    if isinstance(error, Exception):
        broker.unexpected("loop", error)
    else:
        loop.default_exception_handler(context)


async def _start_broker(settings: Settings, place: Place | None) -> tuple[RunningBroker, float]:
    """The broker, and how many milliseconds it took to recover and listen."""
    from milepost.broker.run import run_broker

    began = time.perf_counter()
    with listening(settings.host, settings.port, "port"):
        running = await run_broker(settings, place=place)
    return running, (time.perf_counter() - began) * 1000


async def _start_http(settings: Settings, running: RunningBroker) -> HttpServer:
    # In a thread: the binary port answers meanwhile.
    rest = await asyncio.to_thread(import_module, "milepost.rest.serve")
    with listening(settings.host, settings.http_port, "http_port"):
        http: HttpServer = await rest.start_http(running.broker, settings.host, settings.http_port)
    return http


async def _start_rocketmq(settings: Settings, running: RunningBroker) -> RocketMqServer | None:
    if settings.rocketmq_port < 0 and settings.rocketmq_tls_port < 0:
        return None
    try:
        edge = await asyncio.to_thread(import_module, "milepost.rocketmq.server")
    except ImportError as error:
        raise CommandFailed(
            f"RocketMQ clients need a package that is not installed: {error}; "
            "install it with pip install 'milepost[rocketmq]'",
            Exit.USAGE,
        ) from None
    name = "rocketmq_port" if settings.rocketmq_port >= 0 else "rocketmq_tls_port"
    with listening(settings.host, getattr(settings, name), name):
        server: RocketMqServer = await edge.start_rocketmq(running.broker)
    return server


async def _start_remoting(
    settings: Settings, running: RunningBroker, rocketmq: RocketMqServer | None
) -> RemotingServer | None:
    if settings.rocketmq_namesrv_port < 0 and settings.rocketmq_namesrv_tls_port < 0:
        return None
    edge = await asyncio.to_thread(import_module, "milepost.rocketmq.remoting.server")
    is_plain = settings.rocketmq_namesrv_port >= 0
    name = "rocketmq_namesrv_port" if is_plain else "rocketmq_namesrv_tls_port"
    with listening(settings.host, getattr(settings, name), name):
        clients = None if rocketmq is None else rocketmq.clients
        server: RemotingServer = await edge.start_remoting(running.broker, clients)
    return server


@contextlib.contextmanager
def listening(host: str, port: int, name: str) -> Iterator[None]:
    """Inside, an address that cannot be had is told with the flag, or the setting, that changes it."""
    flag = f"--{name.replace('_', '-')}" if name in FLAGS else name
    where = f"{host}:{port}"
    try:
        yield
    except (socket.gaierror, UnicodeError):  # the latter for a part that is empty or too long
        raise CommandFailed(
            f"cannot listen on {where}: there is no such host; choose another --host", Exit.USAGE
        ) from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CommandFailed(
                f"cannot listen on {where}: the port is in use; stop what listens there, or choose "
                f"another {flag}",
                Exit.CONFLICT,
            ) from None
        if error.errno == errno.EADDRNOTAVAIL:
            raise CommandFailed(
                f"cannot listen on {where}: this machine does not have that address; choose "
                "another --host",
                Exit.USAGE,
            ) from None
        if error.errno == errno.EACCES and error.filename is None:
            raise CommandFailed(
                f"cannot listen on {where}: not permitted; choose a {flag} from 1024 up",
                Exit.USAGE,
            ) from None
        raise


def _end_with(lifeline: int, stop: Stop) -> None:
    """Stop when the process is gone that started this one: no other would start it again, or end it."""
    loop = asyncio.get_running_loop()

    def gone() -> None:
        loop.remove_reader(lifeline)
        stop.signalled("the supervisor is gone")

    loop.add_reader(lifeline, gone)


def _report(running: RunningBroker, post: Post) -> None:
    """Tell the process that started this worker that clients can connect."""
    recovered = _tell_of_recovery(running)
    address = post.place.placement.address(post.place.placement.own)
    seat = {
        "epoch": running.broker.engine.epoch,
        "host": running.broker.settings.advertised_host,
        "port": address.port,
        "tls_port": address.tls_port,
        "link_port": address.link_port,
    }
    report = json.dumps({"entries": recovered.entries, "seat": seat})
    os.write(post.report, report.encode() + b"\n")
    if post.place.seat is None:
        os.close(post.report)


async def _fold_ahead(engine: Engine, stop: Stop, limit_s: float) -> None:
    """Make a checkpoint while clients are still served: the drain, and the next owner, have less to do."""
    folding = asyncio.ensure_future(engine.checkpoint())
    hurry = asyncio.ensure_future(stop.hurried.wait())
    await asyncio.wait((folding, hurry), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    hurry.cancel()
    if folding.done() and (error := folding.exception()) is not None:
        logger.warning("no checkpoint before the drain: %s", error)


def _tell_of_recovery(running: RunningBroker) -> RecoveryReport:
    recovered = running.broker.store.report
    for damage in recovered.damages:
        logger.error("%s; what it struck is closed to change: docs/operating.md", damage)
    if recovered.cut_bytes:
        logger.info(
            "the journal ended in %d bytes that no client had been answered for",
            recovered.cut_bytes,
        )
    return recovered


def _announce(
    settings: Settings,
    running: RunningBroker,
    http: HttpServer,
    took_ms: float,
    ready_file: Path | None,
) -> None:
    pulsar_url = running.broker.lookup_url() or running.broker.lookup_url_tls()
    http_url = http.url
    recovered = _tell_of_recovery(running)
    if ready_file is not None:
        ready = {
            "pid": os.getpid(),
            "host": settings.host,
            "port": running.port,
            "http_port": http.port,
            "tls_port": running.broker.tls_port,
            "https_port": running.broker.https_port,
            "rocketmq_port": running.broker.rocketmq_port,
            "rocketmq_tls_port": running.broker.rocketmq_tls_port,
            "rocketmq_namesrv_port": running.broker.rocketmq_namesrv_port,
            "rocketmq_namesrv_tls_port": running.broker.rocketmq_namesrv_tls_port,
            "pulsar_url": pulsar_url,
            "http_url": http_url,
            "data": str(settings.data.absolute()),
        }
        write_ready_file(ready_file, ready)
    tell_manager("READY=1")
    click.echo(
        f"Milepost {__version__} · {pulsar_url} · {http_url} · data in "
        f"{settings.bucket or settings.data}, "
        f"recovered {recovered.entries} entries in {took_ms:.0f} ms"
    )
    announce_more(
        settings,
        http_url,
        {
            "clients": max(running.broker.rocketmq_port, running.broker.rocketmq_tls_port),
            "mqadmin": max(
                running.broker.rocketmq_namesrv_port, running.broker.rocketmq_namesrv_tls_port
            ),
        },
    )


def announce_more(
    settings: Settings, http_url: str, rocketmq_ports: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Say what else is there, and what keeps clients on other machines out."""
    if http_url:
        click.echo(f"Console: {http_url}/console/")
    host = settings.advertised_host
    shown = [f"{host}:{port} for {who}" for who, port in rocketmq_ports.items() if port >= 0]
    if shown:
        click.echo(f"RocketMQ: {', '.join(shown)}")
    is_named = settings.advertised_address or settings.advertised_listeners
    if settings.host in EVERYWHERE and not is_named:
        click.echo(
            f"Lookups name {host}: for clients on other machines give --set advertised_address=NAME, "
            "the name by which they reach this one"
        )


def write_ready_file(file: Path, ready: dict[str, Any]) -> None:
    """Renamed into place: a program that waits for the file never reads half of it."""
    beside = file.with_name(file.name + ".new")
    beside.write_text(json.dumps(ready) + "\n", "utf-8")
    beside.rename(file)


def rewrite_ready_file(file: Path, ready: dict[str, Any]) -> None:
    """Replace the file of a broker that serves. A disk that is full for now must not end it."""
    try:
        write_ready_file(file, ready)
    except OSError as error:
        reason = error.strerror or error
        logger.error("%s cannot be written, and says what was before: %s", file, reason)


def tell_manager(state: str) -> None:
    """A service manager that asked to be told (systemd, `Type=notify`) is; there may be none."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.sendto(state.encode(), address)
    except OSError as error:
        logger.warning("NOTIFY_SOCKET %s: not told %s: %s", path, state, error)


async def _drain(
    timeout_s: float, close: Coroutine[Any, Any, None], hurried: asyncio.Event
) -> None:
    closing = asyncio.ensure_future(close)
    hurry = asyncio.ensure_future(hurried.wait())
    try:
        await asyncio.wait((closing, hurry), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        hurry.cancel()
        if not closing.done():
            if not hurried.is_set():
                logger.warning("not drained within %g s; the next start recovers", timeout_s)
            closing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await closing
