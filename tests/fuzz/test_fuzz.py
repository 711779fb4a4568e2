"""Each target on mutants of real bytes, for a while; and on every input that ever failed.

`MILEPOST_FUZZ_SECONDS` is how long each takes (`make fuzz`: 60, `make campaign`: 30), `MILEPOST_FUZZ_SEED`
another way through. One seed is the same mutants again: every run tries what strangers can send for a second
of the processor a target, and what only a damaged disk or a bad file can hold for half of one.
An input that fails is printed and kept in `corpus/<target>/`; commit it with what mends it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fuzz import wire_targets
from fuzz.harness import Report, Target, fuzz, try_input
from fuzz.targets import TARGETS

SECONDS = float(os.environ.get("MILEPOST_FUZZ_SECONDS", "0.5"))
SECONDS_OF_STRANGERS = float(os.environ.get("MILEPOST_FUZZ_SECONDS", "1"))
FROM_STRANGERS = {target.name for target in wire_targets.TARGETS} | {"topic_names"}
SEED = int(os.environ.get("MILEPOST_FUZZ_SEED", "1"))
CORPUS = Path(__file__).with_name("corpus")

KNOWN = [
    (target, file) for target in TARGETS for file in sorted((CORPUS / target.name).glob("*.hex"))
]


def keep(target: Target, data: bytes) -> Path:
    folder = CORPUS / target.name
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{hashlib.sha256(data).hexdigest()[:12]}.hex"
    file.write_text(data.hex() + "\n")
    return file


def seconds(target: Target) -> float:
    """How long a target is tried here."""
    return SECONDS_OF_STRANGERS if target.name in FROM_STRANGERS else SECONDS


@pytest.mark.timeout(300 + 10 * SECONDS_OF_STRANGERS)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_mutants(target: Target, summary: Callable[[str], None]) -> None:
    report = fuzz(target, seconds=seconds(target), seed=SEED)
    if report.failure is not None:
        file = keep(target, report.failure.data)
        pytest.fail(f"{target.name}, kept as {file.name}: {report.failure.text}")
    summary(str(report))
    assert report.inputs > 20 * seconds(target)
    assert len(report.kinds) > 1


@pytest.mark.parametrize(
    ("target", "file"), KNOWN, ids=[f"{target.name}-{file.stem}" for target, file in KNOWN]
)
def test_what_once_failed(target: Target, file: Path) -> None:
    report = Report()
    data = bytes.fromhex(file.read_text())
    assert try_input(target, data, report, measured=True), report.failure
    assert try_input(target, data, report, measured=False), report.failure
