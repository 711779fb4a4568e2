"""Settings for all tests."""

from __future__ import annotations

import gc
import os
import signal

from hypothesis import HealthCheck, settings
from stage.counts import examples
from stage.pieces import pytest_collection_modifyitems
from stage.summaries import pytest_terminal_summary, summary

from milepost.storage.ledgers.paging import LoopFiles

__all__ = ["pytest_collection_modifyitems", "pytest_terminal_summary", "summary"]  # for every test

# Machines are shared: an example that took long once says nothing. Time limits are pytest-timeout's.
# CI judges a change by the same examples every time; everybody else's runs look for new ones.
settings.register_profile(
    "milepost",
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("milepost")


def pytest_collection_finish() -> None:
    """The modules and thousands of tests that are there now stay to the end: the collector of garbage, which
    would look through all of them again and again, is not to."""
    gc.collect()
    gc.freeze()


# The loop of a broker never waits for the disk. A step of a test itself may, in `stage.here`.
LoopFiles.is_forbidden = True

# A shell's background jobs ignore Ctrl-C, and so does whatever they start; tests send it to see it heard.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
