"""The tour that a newcomer is shown keeps what it says; here without Java, which not everybody has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pulsar")

TOUR_SECONDS_MAX = 120  # 30 on an idle machine


def test_the_tour_ends_well_and_explains_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "milepost.cli.tour.demo", "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=TOUR_SECONDS_MAX,
        check=False,
        env={**os.environ, "JAVA_HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    steps = re.findall(r"^(\d+)\. ", done.stdout, re.MULTILINE)
    assert steps == ["1", "2", "3", "4", "5", "6", "7"]
    others = " ".join(f"order-{n}" for n in range(10) if n not in (3, 7))
    assert others in done.stdout
    assert "acked 2, inflight 8, ready 0" in done.stdout
    told = done.stdout.partition("\n7. ")[2].splitlines()
    assert "Spark" in told[0]
    assert "install" in told[1]
    assert told[-2].startswith("Next: `make run`")
    assert told[-1].startswith("README.md")
    assert not (tmp_path / "out").exists()


def test_the_tour_of_a_cluster_loses_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "milepost.cli.tour.demo", "--cluster"],
        capture_output=True,
        text=True,
        timeout=TOUR_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert re.findall(r"^(\d+)\. ", done.stdout, re.MULTILINE) == ["1", "2", "3", "4", "5"]
    (killed,) = re.findall(r"Kill (broker-\d) ", done.stdout)
    (heir,) = re.findall(r"(broker-\d) has taken over", done.stdout)
    assert killed != heir
    assert "300 orders, each once, in order" in done.stdout
    assert "every entry intact" in done.stdout
