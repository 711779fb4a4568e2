"""The tour that a newcomer is shown keeps what it says."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pulsar")

TOUR_SECONDS_MAX = 60  # 30 on an idle machine


def test_the_tour_ends_well_and_explains_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "milepost.cli.demo"],
        capture_output=True,
        text=True,
        timeout=TOUR_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    steps = [line for line in done.stdout.splitlines() if line[:2] in {f"{n}." for n in range(10)}]
    assert [step[0] for step in steps] == ["1", "2", "3", "4", "5", "6"]
    others = " ".join(f"order-{n}" for n in range(10) if n not in (3, 7))
    assert others in done.stdout
    assert "acked 2, inflight 8, ready 0" in done.stdout
