"""Brokers of a cluster on a folder, as processes: what becomes of the others when one of them is gone."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Serving

PATIENCE_S = 60

Serve = Callable[..., Serving]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts brokers of one bucket, by name; they end with the test."""
    made: list[Serving] = []
    bucket = ("--bucket", (tmp_path / "bucket").as_uri(), "--shards", "2")

    def start(name: str, *flags: str) -> Serving:
        made.append(Serving(tmp_path / name, *bucket, *flags))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.stop()
        one.process.communicate(timeout=PATIENCE_S)


def ready(broker: Serving) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(broker.ready_file.read_text("utf-8"))
    return found


def pids(broker: Serving) -> list[int]:
    """The agent's process, and those of the shards."""
    return [ready(broker)["agent"], *(one["pid"] for one in ready(broker)["shards"])]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    # A process that has ended stays in the table until its parent has looked.
    return state.rpartition(")")[2].split()[0] != "Z"


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)  # sleep: between two looks


def killed(broker: Serving) -> None:
    """Kill the first process. The others still have its output."""
    broker.process.kill()
    broker.process.wait(PATIENCE_S)


def has_all(broker: Serving) -> bool:
    return len(ready(broker)["shards"]) == 2


def test_a_broker_whose_first_process_is_killed_ends_and_its_directory_and_shards_are_free(
    serve: Serve,
) -> None:
    """Its agent, too: as long as that says on the board that it is there, nobody takes the shards."""
    broker = serve("one")
    until(lambda: has_all(broker))
    left = pids(broker)
    killed(broker)
    until(lambda: not any(map(is_alive, left)))
    again = serve("one")
    until(lambda: has_all(again))
    assert again.get("/admin/v2/brokers/health") == b"ok"


def test_a_process_that_hangs_does_not_keep_the_shards_of_a_broker_whose_first_process_is_killed(
    serve: Serve,
) -> None:
    broker = serve("one", "--set", "shutdown_timeout_s=3")
    until(lambda: has_all(broker))
    agent, *shards = pids(broker)
    os.kill(shards[0], signal.SIGSTOP)
    try:
        killed(broker)
        other = serve("two")
        until(lambda: has_all(other))
        assert not is_alive(agent)
    finally:
        os.kill(shards[0], signal.SIGKILL)
