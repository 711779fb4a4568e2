"""A process of several that stands still is noticed, killed and started again. A machine that was paused is
not taken for that."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from e2e.conftest import Serving

PATIENCE_S = 60
HANG_S = 5


@pytest.fixture
def serve(data: Path) -> Iterator[Callable[..., Serving]]:
    """Starts a broker that ends with the test."""
    made: list[Serving] = []

    def start(*flags: str) -> Serving:
        made.append(Serving(data, *flags, "--set", f"worker_hang_s={HANG_S}"))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.stop()
        one.process.communicate()


def ready(broker: Serving) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(broker.ready_file.read_text("utf-8"))
    return found


def is_healthy(broker: Serving) -> bool:
    try:
        return broker.get("/admin/v2/brokers/health") == b"ok"
    except HTTPError as refused:
        if refused.code != 503:
            raise
        return False


def until(what: Callable[[], bool]) -> float:
    """Wait; how long it took."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() < began + PATIENCE_S, "it does not happen"
        time.sleep(0.05)  # sleep: between two looks
    return time.monotonic() - began


def test_a_worker_that_stands_still_is_killed_and_started_again(
    serve: Callable[..., Serving],
) -> None:
    broker = serve("--workers", "2")
    before = [one["pid"] for one in ready(broker)["workers"]]
    os.kill(before[1], signal.SIGSTOP)
    took_s = until(lambda: ready(broker)["workers"][1]["pid"] != before[1])
    assert HANG_S <= took_s < HANG_S + PATIENCE_S
    assert ready(broker)["workers"][0]["pid"] == before[0]
    metrics = broker.get("/metrics").decode()
    for number in (0, 1):
        assert f'milepost_worker_hangs_total{{worker="{number}"}} {number}.0' in metrics
        assert f'milepost_worker_restarts_total{{worker="{number}"}} {number}.0' in metrics
    log = broker.log.read_text("utf-8")
    assert f"worker 1 (process {before[1]}) has stood still for {HANG_S} s (stopped by" in log
    assert f"worker 1 (process {before[1]}) is killed: it hangs" in log


def test_a_worker_that_goes_on_in_time_is_left_alone(serve: Callable[..., Serving]) -> None:
    broker = serve("--workers", "2")
    before = [one["pid"] for one in ready(broker)["workers"]]
    for _ in range(2):
        os.kill(before[1], signal.SIGSTOP)
        time.sleep(HANG_S - 3)  # sleep: the time for which it stands still
        os.kill(before[1], signal.SIGCONT)
        time.sleep(1)  # sleep: it goes on
    assert [one["pid"] for one in ready(broker)["workers"]] == before
    assert "stood still" not in broker.log.read_text("utf-8")


def test_a_pause_of_all_processes_is_no_hang(serve: Callable[..., Serving]) -> None:
    """As of a machine that was suspended: those that look went on before those that are looked at."""
    broker = serve("--workers", "2")
    before = [one["pid"] for one in ready(broker)["workers"]]
    for pid in (broker.process.pid, *before):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(HANG_S + 3)  # sleep: the pause
    os.kill(broker.process.pid, signal.SIGCONT)
    time.sleep(HANG_S / 2)  # sleep: the workers go on later
    for pid in before:
        os.kill(pid, signal.SIGCONT)
    time.sleep(2)  # sleep: time to judge them
    assert broker.get("/admin/v2/brokers/health") == b"ok"
    assert [one["pid"] for one in ready(broker)["workers"]] == before
    assert "stood still" not in broker.log.read_text("utf-8")


def test_a_process_of_a_shard_and_the_agent_that_stand_still_are_killed_and_started_again(
    serve: Callable[..., Serving], tmp_path: Path
) -> None:
    broker = serve("--bucket", (tmp_path / "bucket").as_uri(), "--shards", "2")
    until(lambda: len(ready(broker)["shards"]) == 2)
    first = ready(broker)["shards"][0]
    os.kill(first["pid"], signal.SIGSTOP)
    metric = f'milepost_worker_hangs_total{{worker="{first["number"]}"}} 1.0'
    until(lambda: metric in broker.get("/metrics").decode())
    assert first not in ready(broker)["shards"]
    log = broker.log.read_text("utf-8")
    assert f"shard {first['number']} (process {first['pid']}) is killed: it hangs" in log
    agent = ready(broker)["agent"]
    os.kill(agent, signal.SIGSTOP)
    until(lambda: f"the agent (process {agent}) is killed" in broker.log.read_text("utf-8"))
    # The next one joins. The shards are served again as soon as each has seen that it is still its owner's.
    until(lambda: len(ready(broker)["shards"]) == 2 and ready(broker)["agent"] != agent)
    until(lambda: is_healthy(broker))
