"""Simulated brokers by the seed: none breaks a promise, and a seed repeats itself.

`make check` runs the first seeds, `make test` two thousand, `make campaign` fifty thousand (MILEPOST_SEEDS).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from simulation import speed, world
from simulation.world import run_seeds

TESTS = Path(__file__).parents[1]

QUICK = 40
SEEDS = int(os.environ.get("MILEPOST_SEEDS", "2000"))
# Of so many seeds each is one test, so that every worker has some.
BLOCK = 250


def test_no_early_seed_breaks_a_promise() -> None:
    run_seeds(range(QUICK))


def test_an_ack_that_the_broker_never_took_may_be_lost_with_its_connection() -> None:
    """The broker waits for the disk and takes nothing; the client acks without an answer, and hangs up."""
    run_seeds([716_400])


def test_an_ack_of_a_part_of_a_batch_that_an_abort_brought_back_names_that_part() -> None:
    """Its client holds another delivery of the batch; an ack of the whole entry would speak for both."""
    run_seeds([726_760])


def test_a_resend_of_what_was_trimmed_before_a_crash_is_stored_once() -> None:
    run_seeds([781_910])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(QUICK, SEEDS, BLOCK))
def test_no_seed_breaks_a_promise(first: int) -> None:
    run_seeds(range(first, min(first + BLOCK, SEEDS)))


def test_a_seed_repeats_itself() -> None:
    hashes = run_seeds(range(8))
    assert hashes == run_seeds(range(8))
    assert len(set(hashes)) == len(hashes)


@pytest.mark.slow
def test_a_seed_repeats_itself_in_another_process() -> None:
    """Whatever the order of its sets is; 200 has its data in a bucket."""
    told = set()
    for order in ("0", "4242"):
        command = [sys.executable, "-m", "simulation.world", "1", "42", "200"]
        environment = {**os.environ, "PYTHONHASHSEED": order}
        done = subprocess.run(
            command, cwd=TESTS, env=environment, capture_output=True, check=True, timeout=300
        )
        hashes = re.findall(rb"^[0-9a-f]{64}$", done.stderr, re.MULTILINE)
        assert len(hashes) == 3
        told.add((*hashes, done.stdout))
    assert len(told) == 1


@pytest.mark.parametrize(
    ("start", "arguments", "problem"),
    [
        (world.main, ["one"], "whole numbers are wanted, not 'one'"),
        (world.main, ["1", "²"], "whole numbers are wanted, not '1 ²'"),
        (world.main, [], "which seeds"),
        (speed.main, ["0"], "how many worlds"),
        (speed.main, ["-3"], "how many worlds"),
        (speed.main, ["10", "20"], "how many worlds"),
        (speed.main, ["many"], "whole numbers are wanted"),
    ],
)
def test_what_is_no_seed_and_no_count_is_refused_with_one_line(
    start: Callable[[list[str]], None], arguments: list[str], problem: str
) -> None:
    with pytest.raises(SystemExit, match=problem) as refused:
        start(arguments)
    assert "\n" not in str(refused.value)
