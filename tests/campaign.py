"""The campaigns at length, and a table of what each part did.

    make campaign                          # all of them
    make campaign PARTS="seeds kills"      # some
    make campaign SCALE=0.01               # a hundredth of each: do they still run?
    make campaign PARTS=seeds PIECE=2/8    # the second of eight pieces, to go on another day

A part is a run of pytest with counts in its environment. Parts that work go one after the other; those that
mostly wait, for a clock or for processes of their own, run beside them. The table has the counts and what the
tests tell of themselves, with the time, the processor's time, the date and the commit, ready for
docs/reliability.md. One part that fails, or in which no test ran, fails the whole.
"""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import NamedTuple

from stage.pieces import piece_of

SECTION = re.compile(r"^=+ campaigns =+$\n((?:(?!=|\d+ \w+ed).*\n)*)", re.MULTILINE)
OUTCOME = re.compile(r"^=* ?(\d+ (?:passed|failed|skipped|error).*?) ?=*$", re.MULTILINE)
SHOWN_MAX = 300


class Part(NamedTuple):
    name: str
    what: str
    tests: tuple[str, ...]
    counts: dict[str, int]
    """What the environment says, at full length; SCALE makes it less."""
    jobs: int = 2
    lane: str = "work"
    """Parts of one lane go one after the other, beside those of other lanes."""


_CRASH, _COMPAT, _SPARK = "tests/crash/test_", "tests/compat/test_", "tests/spark/test_"

PARTS = (
    Part(
        "seeds",
        "simulated worlds: faults, kills, lost power, clock jumps",
        ("tests/simulation",),
        {"MILEPOST_SEEDS": 50_000},
    ),
    Part(
        "properties",
        "random inputs and orders against twins that are plainly right",
        ("tests/property", "tests/unit", _COMPAT + "message_ids.py"),
        {"MILEPOST_EXAMPLES": 300},
    ),
    Part(
        "fuzz",
        "mutants of every kind of bytes that come from outside",
        ("tests/fuzz", "tests/e2e/test_rest_schema.py"),
        {"MILEPOST_FUZZ_SECONDS": 30, "MILEPOST_REST_CASES": 10_000},
    ),
    Part(
        "images",
        "crash images: the power fails at any point",
        (
            _CRASH + "images.py",
            _CRASH + "transaction_images.py",
            _CRASH + "folded_facts.py",
            _CRASH + "plants.py",
        ),
        {"MILEPOST_IMAGES_FACTOR": 14},
    ),
    Part(
        "disks",
        "failing, full and damaged disks",
        (
            _CRASH + "faults.py",
            _CRASH + "damage.py",
            _CRASH + "unexpected.py",
            _CRASH + "containment.py",
        ),
        {"MILEPOST_IMAGES_FACTOR": 20},
    ),
    Part(
        "kills",
        "a process that writes is killed, and its directory read",
        (_CRASH + "kill.py",),
        {"MILEPOST_KILL_DIRECTORIES": 39},
    ),
    Part(
        "load",
        "the broker is killed under official clients",
        (
            _COMPAT + "kill_under_load.py",
            _COMPAT + "bank.py",
            _COMPAT + "shared_transactions.py",
            "tests/rocketmq/test_kills.py",
        ),
        {
            "MILEPOST_KILLS": 170,
            "MILEPOST_BANK_SECONDS": 600,
            "MILEPOST_SHARED_ROUNDS": 40,
            "MILEPOST_ROCKETMQ_KILLS": 25,
        },
        lane="soak",
    ),
    Part(
        "storms",
        "seeks, resets and reconnections without end",
        (
            _COMPAT + "seek_storm.py",
            "tests/rip/test_reset_races.py",
            "tests/rip/test_broadcast_races.py",
            "tests/client/test_races.py",
            "tests/scenarios/test_operators.py",
        ),
        {"MILEPOST_RACES": 20_000, "MILEPOST_OPERATORS": 3_000, "MILEPOST_SEEKS": 1_000},
    ),
    Part(
        "endurance",
        "connections that come and go, and a long load with pauses",
        (_COMPAT + "endurance.py", _COMPAT + "silent_connections.py"),
        {"MILEPOST_CONNECTIONS": 10_000, "MILEPOST_SOAK_SECONDS": 3600},
        lane="soak",
    ),
    Part(
        "cluster",
        "three brokers and their store are killed, paused, cut off and moved",
        (_COMPAT + "cluster_faults.py",),
        {"MILEPOST_CLUSTER_ROUNDS": 20},
        jobs=0,
        lane="cluster",
    ),
    Part(
        "spark",
        "drivers and executors are killed",
        (
            _SPARK + "campaign.py",
            _SPARK + "transactional_kills.py",
            _SPARK + "archive_kills.py",
            _SPARK + "cluster.py",
            _SPARK + "secured.py",
        ),
        {"MILEPOST_SPARK_RUNS": 10},
        jobs=0,
        lane="cluster",
    ),
)


class Result(NamedTuple):
    part: Part
    counts: dict[str, str]
    has_passed: bool
    seconds: float
    cpu_s: float
    """Of every process that the part started and waited for."""
    outcome: str
    told: list[str]


def scale_of(told: str) -> float:
    """By what the counts are multiplied: nothing is the full length."""
    try:
        scale = float(told or 1)
    except ValueError:
        scale = math.nan
    if 0 < scale < math.inf:
        return scale
    raise ValueError(f"{told!r} is no scale; a hundredth of each is 0.01")


def counts_of(part: Part, scale: float) -> dict[str, str]:
    """At least one of everything."""
    return {name: str(max(1, round(count * scale))) for name, count in part.counts.items()}


def read(output: str) -> tuple[str, list[str]]:
    """What pytest said at its end, and what the campaigns told of themselves."""
    outcomes = OUTCOME.findall(output)
    section = SECTION.search(output)
    told = section.group(1).splitlines() if section is not None else []
    return (outcomes[-1] if outcomes else "no outcome"), [one for one in told if one.strip()]


def run(part: Part, scale: float, piece: str = "") -> Result:
    """One part, its output shown as it comes, each line with the part's name."""
    workers = ["-n", str(part.jobs)] if part.jobs else []
    command = [sys.executable, "-m", "pytest", "-q", *workers, "--timeout", "7200", *part.tests]
    counts = counts_of(part, scale)
    if piece:
        counts["MILEPOST_PIECE"] = piece
    print(f"== {part.name}: {part.what} ({counts})", flush=True)
    began = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(
        command,
        env={**os.environ, **counts},
        stdout=subprocess.PIPE,
        encoding="utf-8",
        errors="backslashreplace",  # what a test writes need not be text
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            print(f"{part.name}: {line}", end="", flush=True)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    outcome, told = read("".join(lines))
    if process.returncode < 0:
        outcome = f"killed by {signal.Signals(-process.returncode).name}, {outcome}"
    # A part whose tests were all skipped has shown nothing.
    has_passed = not process.returncode and " passed" in outcome
    seconds, cpu_s = time.monotonic() - began, usage.ru_utime + usage.ru_stime
    return Result(part, counts, has_passed, seconds, cpu_s, outcome, told)


def run_all(parts: list[Part], scale: float, piece: str = "") -> list[Result]:
    """Every part, lane beside lane; the results in the order of the parts."""
    lanes: dict[str, list[Part]] = {}
    for part in parts:
        lanes.setdefault(part.lane, []).append(part)

    def run_lane(of: list[Part]) -> list[Result]:
        return [run(part, scale, piece) for part in of]

    with ThreadPoolExecutor(len(lanes)) as pool:
        results = [one for lane in pool.map(run_lane, lanes.values()) for one in lane]
    return sorted(results, key=lambda result: parts.index(result.part))


def table(results: list[Result], commit: str) -> str:
    """Rows of Markdown, for docs/reliability.md."""
    rows = [
        f"{datetime.now(UTC):%Y-%m-%d}, commit {commit}:",
        "",
        "| part | time | CPU | outcome | what was done |",
        "| --- | --- | --- | --- | --- |",
    ]
    for part, counts, has_passed, seconds, cpu_s, outcome, told in results:
        sizes = [
            f"{name.removeprefix('MILEPOST_').lower().replace('_', ' ')} {count}"
            for name, count in counts.items()
        ]
        did = "; ".join([part.what, *sizes, *(one[:SHOWN_MAX] for one in told)])
        verdict = "passed" if has_passed else "FAILED"
        times = f"{seconds:.0f} s", f"{cpu_s:.0f} s"
        cells = part.name, *times, f"{verdict}: {outcome}", did
        rows.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(rows)


def main(names: list[str], parts: tuple[Part, ...] = PARTS) -> int:
    known = {part.name: part for part in parts}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no part {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    piece = os.environ.get("PIECE", "")
    try:
        scale = scale_of(os.environ.get("SCALE", ""))
        if piece:
            piece_of(piece)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    results = run_all([known[name] for name in dict.fromkeys(names or known)], scale, piece)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], check=False, capture_output=True, text=True
    ).stdout.strip()
    print(f"\n{table(results, commit or 'unknown')}")
    return 0 if all(result.has_passed for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
