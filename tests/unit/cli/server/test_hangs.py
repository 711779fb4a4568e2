from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import time
from pathlib import Path

import pytest

from milepost.cli.server.hangs import (
    BEAT_S,
    LATE_S,
    HangWatch,
    Pulse,
    SharedBeats,
    end_if_it_hangs,
    state_of,
)


def verdicts(watch: HangWatch, *looks: tuple[float, int]) -> list[str]:
    return [watch.look(now, beat).name for now, beat in looks]


def test_a_process_that_does_not_beat_is_asked_once_and_then_killed_once() -> None:
    watch = HangWatch(2)
    looks = [(10 + n * BEAT_S, 5) for n in range(10)]
    assert verdicts(watch, *looks) == [*["WELL"] * 4, "ASK", "WAIT", "KILL", *["WAIT"] * 3]


def test_one_that_beats_again_begins_anew() -> None:
    watch = HangWatch(1)
    assert verdicts(watch, (1.0, 5), (1.5, 5), (2.0, 5), (2.5, 6), (3.0, 6), (3.5, 6)) == [
        "WELL", "WELL", "ASK", "WELL", "WELL", "ASK",
    ]  # fmt: skip


def test_one_that_has_never_beaten_is_being_started() -> None:
    assert set(verdicts(HangWatch(1), *((float(n), 0) for n in range(100)))) == {"WELL"}


def test_no_limit_means_never() -> None:
    assert set(verdicts(HangWatch(0), *((float(n), 5) for n in range(100)))) == {"WELL"}


def test_a_late_look_says_nothing_of_the_time_before_it() -> None:
    watch = HangWatch(3)
    late = 2.0 + LATE_S + 0.1
    looks = ((1.0, 5), (2.0, 5), (late, 5), (late + 1, 5), (late + 2, 5), (late + 3, 5))
    assert verdicts(watch, *looks) == ["WELL", "WELL", "WELL", "WELL", "WELL", "ASK"]


def test_the_system_says_what_a_process_does() -> None:
    assert state_of(os.getpid()) in ("busy", "the system does not say why")


@pytest.mark.parametrize("stuck", [True, False])
def test_a_process_whose_loop_is_blocked_tells_its_stacks_and_is_killed(
    tmp_path: Path, stuck: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A real process: what its loop waits for is in the log."""
    beats = SharedBeats(2)
    stacks = tmp_path / "stacks"
    pid = os.fork()
    if not pid:  # pragma: no cover
        try:
            with stacks.open("wb") as told:
                faulthandler.register(signal.SIGQUIT, told)
                asyncio.run(_beating(beats, stuck))
        finally:
            os._exit(0)
    watch, is_killed = HangWatch(1), False
    until = time.monotonic() + (20 if stuck else 3)
    while not is_killed and time.monotonic() < until:
        is_killed = end_if_it_hangs(watch, beats.seen(1), "worker 1", pid)
        time.sleep(BEAT_S / 2)  # sleep: between two looks
    if not is_killed:
        os.kill(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert is_killed == stuck
    assert ("_blocked" in stacks.read_text("utf-8")) == stuck
    assert (f"worker 1 (process {pid}) is killed: it hangs" in caplog.text) == stuck


async def _beating(beats: SharedBeats, stuck: bool) -> None:
    beating = asyncio.ensure_future(Pulse(beats, 1).run())
    await asyncio.sleep(BEAT_S * 1.5)  # sleep: it beats for a while
    if stuck:
        _blocked()
    await beating


def _blocked() -> None:
    time.sleep(60)  # sleep: the loop that stands still
