"""Simulated brokers by the seed: none breaks a promise, and a seed repeats itself.

`make check` runs the first seeds, `make test` two thousand, `make campaign` fifty thousand (MILEPOST_SEEDS).
"""

from __future__ import annotations

import os

import pytest

from simulation.world import run_seeds

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
