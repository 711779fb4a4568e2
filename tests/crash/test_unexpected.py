"""An error that no code foresaw, raised at each place that everybody relies on.

It is contained and counted, and the broker is sound; or the broker is told that it cannot go on, and its
health says so. Never is a thread gone without a word.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stage.frames import message
from stage.talk import ask, producer_command

from milepost.broker.broker import Broker
from milepost.broker.connection.access_control import AccessControl
from milepost.broker.connection.session import Session
from milepost.broker.limits.memory import MemoryLimit
from milepost.broker.metrics.rates import RateBoard
from milepost.broker.monitoring.self_check import SelfCheck
from milepost.broker.operations import housekeeping
from milepost.broker.operations.policy_enforcement import PolicyEnforcement
from milepost.broker.run import run_broker
from milepost.broker.settings.settings import Settings
from milepost.broker.subscription.read_loop import ReadLoop
from milepost.broker.topic.topic import Topic
from milepost.clock import SystemClock
from milepost.errors import PersistenceError
from milepost.positions.names import TopicName
from milepost.storage import engine as engine_module
from milepost.storage.engine import StorageEngine, open_store
from milepost.storage.journal.journal import Journal
from milepost.storage.journal.runway import Runway
from milepost.storage.store import Store
from milepost.testing.peer import Loopback

NAME = TopicName.parse("persistent://public/default/t")


class Surprise(Exception):
    pass


def raising_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Callable[[], bool]:
    """Let a call raise when it comes next; whether it did."""
    real, fired = getattr(owner, name), []

    def call(*args: Any, **kwargs: Any) -> Any:
        if not fired:
            fired.append(name)
            raise Surprise(name)
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, call)
    return lambda: bool(fired)


async def with_broker(data: Path, test: Callable[[Broker], Any]) -> None:
    store, lock = open_store(data, SystemClock())
    engine = StorageEngine(store, lock)
    broker = Broker(Settings(data=data), engine, SystemClock())
    await broker.start()
    try:
        await test(broker)
    finally:
        await broker.close()


# Where it is raised, what makes the broker come by, and where it is counted.
CONTAINED: list[tuple[Any, str, Callable[[Broker], Any], str]] = [
    (AccessControl, "tick", Broker._tick, "guard"),
    (MemoryLimit, "end_stalled", Broker._tick, "pressure"),
    (PolicyEnforcement, "tick", Broker._tick, "steward"),
    (RateBoard, "tick", Broker._tick, "rates"),
    (Broker, "_tick_subscription", Broker._tick, "progress"),
    (Session, "tick", Broker._tick, "session"),
    (Broker, "_drop_idle", Broker._tick, "tick"),
    (housekeeping.Housekeeping, "_expire", lambda b: b.housekeeping.expire(), "housekeeping"),
    (
        housekeeping.Housekeeping,
        "_check_quota",
        lambda b: b.housekeeping.check_quotas(),
        "housekeeping",
    ),
    (housekeeping.Housekeeping, "_begin_trim", lambda b: b.housekeeping.trim(), "housekeeping"),
    (housekeeping.Housekeeping, "_compact", lambda b: b.housekeeping.compact(), "housekeeping"),
]


@pytest.mark.parametrize(
    ("owner", "name", "comes_by", "place"), CONTAINED, ids=[row[1] for row in CONTAINED]
)
def test_a_step_that_breaks_down_costs_itself(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    comes_by: Callable[[Broker], Any],
    place: str,
) -> None:
    async def test(broker: Broker) -> None:
        topic = await broker.topic(NAME)
        await broker.create_subscription(topic, "s", 0)
        Loopback(broker)
        fired = raising_once(monkeypatch, owner, name)
        comes_by(broker)
        while not fired():  # a tick that takes long on a busy machine rests before it goes on
            await asyncio.sleep(0)
        assert broker.counters.unexpected_errors == {place: 1}
        await SelfCheck(broker).check()

    asyncio.run(with_broker(tmp_path, test))


def test_a_feed_that_breaks_down_costs_its_subscription(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(broker: Broker) -> None:
        await SelfCheck(broker).check()
        fired = raising_once(monkeypatch, ReadLoop, "_run")
        topic = await broker.topic(NAME)
        subscription = await broker.create_subscription(topic, "s", 0)
        subscription.rescan()
        await asyncio.sleep(0)
        while not fired():
            await asyncio.sleep(0)
        assert broker.counters.unexpected_errors == {"feed": 1}
        await SelfCheck(broker).check()

    asyncio.run(with_broker(tmp_path, test))


def test_a_task_that_breaks_down_is_counted(tmp_path: Path) -> None:
    async def breaks() -> None:
        raise Surprise("task")

    async def test(broker: Broker) -> None:
        broker.spawn(breaks())
        while not broker.counters.unexpected_errors:
            await asyncio.sleep(0)
        assert broker.counters.unexpected_errors == {"task": 1}

    asyncio.run(with_broker(tmp_path, test))


def test_one_who_waits_for_a_commit_and_breaks_down_keeps_nobody_else(tmp_path: Path) -> None:
    def breaks(error: PersistenceError | None) -> None:
        raise Surprise("done")

    async def test(broker: Broker) -> None:
        broker.store.barrier(breaks)
        await broker.engine.flush()
        assert broker.counters.unexpected_errors == {"commit": 1}
        await SelfCheck(broker).check()

    asyncio.run(with_broker(tmp_path, test))


def test_a_receipt_that_cannot_be_told_keeps_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(broker: Broker) -> None:
        topic = await broker.topic(NAME)
        client = Loopback(broker)
        ask(client, producer_command(topic=str(NAME)))
        while not topic.producers:
            await asyncio.sleep(0)
        fired = raising_once(monkeypatch, Topic, "on_durable")
        client.say(message(1))
        while not broker.counters.unexpected_errors:
            await asyncio.sleep(0)
        assert fired()
        assert broker.counters.unexpected_errors == {"commit": 1}
        await SelfCheck(broker).check()

    asyncio.run(with_broker(tmp_path, test))


@pytest.mark.parametrize("name", ["receive", "lost"])
def test_a_connection_that_breaks_down_costs_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def test() -> None:
        running = await run_broker(Settings(data=tmp_path, host="127.0.0.1", port=0))
        broker = running.broker
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            fired = raising_once(monkeypatch, Session, name)
            writer.write(b"no frame at all")
            await asyncio.wait_for(reader.read(), 20)
            writer.close()
            while running.open or not fired():
                await asyncio.sleep(0)
            assert broker.counters.unexpected_errors == {"connection": 1}
            assert not broker.sessions
            await SelfCheck(broker).check()
        finally:
            await running.close()

    asyncio.run(test())


def test_a_runway_that_cannot_be_laid_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(broker: Broker) -> None:
        fired = raising_once(monkeypatch, Runway, "lay")
        await SelfCheck(broker).check()
        while not broker.counters.unexpected_errors:
            await asyncio.sleep(0)
        assert fired()
        assert broker.counters.unexpected_errors == {"runway": 1}
        await SelfCheck(broker).check()

    asyncio.run(with_broker(tmp_path, test))


def test_a_checkpoint_that_breaks_down_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "CHECKPOINT_RETRY_S", 0.0)

    async def test(broker: Broker) -> None:
        await SelfCheck(broker).check()
        fired = raising_once(monkeypatch, Store, "_plan")
        stored = asyncio.Event()
        broker.engine.watch(on_checkpoint=stored.set)
        broker.engine._start_checkpoint()
        await asyncio.wait_for(stored.wait(), 20)
        assert fired()
        assert broker.engine.checkpoint_failures == 1
        await SelfCheck(broker).check()

    asyncio.run(with_broker(tmp_path, test))


FATAL = [
    (Journal, "commit", "the journal cannot go on"),
    (StorageEngine, "_change_catalog", "the catalog cannot go on"),
    (Store, "finish_checkpoint", "a checkpoint is recorded and cannot be finished"),
]


@pytest.mark.parametrize(("owner", "name", "what"), FATAL, ids=[row[1] for row in FATAL])
def test_a_thread_that_breaks_down_is_told_and_never_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, what: str
) -> None:
    reasons: list[str] = []

    async def test(broker: Broker) -> None:
        await SelfCheck(broker).check()
        told = asyncio.Event()

        def fatal(reason: str) -> None:
            reasons.append(reason)
            told.set()

        broker.engine.watch(on_fatal=fatal)
        fired = raising_once(monkeypatch, owner, name)
        broker.store.barrier(lambda error: None)
        waiting = asyncio.ensure_future(broker.engine.checkpoint())
        await asyncio.wait_for(told.wait(), 20)
        assert fired()
        with pytest.raises(PersistenceError, match=f"{what}: Surprise"):
            await SelfCheck(broker).check()
        waiting.cancel()
        await asyncio.wait([waiting])

    asyncio.run(with_broker(tmp_path, test))
    assert reasons == [f"{what}: Surprise: {name}"]


PROCESS = """
import sys
from milepost.broker.broker import Broker
from milepost.cli.main import main
from milepost.storage.journal.journal import Journal

start = Broker.start

def commit(self):
    raise RuntimeError("nobody expected this")

async def started(self):
    await start(self)
    Journal.commit = commit
    self.store.barrier(lambda error: None)

Broker.start = started
sys.argv = ["milepost", "serve", "--data", sys.argv[1], "--port", "0", "--http-port", "0"]
main()
"""


def test_a_process_whose_journal_breaks_down_exits_with_a_reason(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "the journal cannot go on: RuntimeError: nobody expected this" in done.stderr


AFTERWARDS = """
import asyncio, os, signal, sys, threading
from milepost.broker.broker import Broker
from milepost.cli.main import main

start, hook = Broker.start, threading.excepthook

def breaks():
    raise RuntimeError("nobody expected this")

def said(broker):
    print("counted", dict(broker.counters.unexpected_errors), file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

def once_it_runs(broker, loop):
    if threading.excepthook is hook or loop.get_exception_handler() is None:
        loop.call_soon(once_it_runs, broker, loop)
    elif sys.argv[2] == "thread":
        threading.Thread(target=breaks, name="extra").start()
    else:
        loop.call_soon(breaks)
        loop.call_soon(said, broker)

async def started(self):
    await start(self)
    loop = asyncio.get_running_loop()
    loop.call_soon(once_it_runs, self, loop)

Broker.start = started
what = sys.argv[2]
sys.argv = ["milepost", "serve", "--data", sys.argv[1], "--port", "0", "--http-port", "0"]
"""


@pytest.mark.parametrize(
    ("what", "code", "told"),
    [
        ("thread", 1, "thread extra has ended: RuntimeError: nobody expected this"),
        ("loop", 0, "counted {'loop': 1}"),
    ],
)
def test_a_thread_ends_the_process_with_a_reason_and_a_callback_is_counted(
    tmp_path: Path, what: str, code: int, told: str
) -> None:
    program = AFTERWARDS.replace("sys.argv[2] ==", "what ==") + "main()\n"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "data"), what],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert told in done.stderr
