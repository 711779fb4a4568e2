"""The goals of speed with one table at the end, or benchmarks by name.

    python -m bench                             # the goals (bench/goals/measure.py), then their page
    python -m bench --full                      # the goals, and every benchmark at its full size: hours
    python -m bench storage cursor
    python -m bench --strict storage            # exit status 1 if a target is missed
    python -m bench --full compaction           # at its full size, which takes minutes
    python -m bench broker --only publish-1     # some have options of their own
    python -m bench goals --before HEAD~50      # … as the goals have
    python -m bench report                      # make the page again

The exit status is 0 whatever the figures are: they depend on the machine. A benchmark that breaks down
is an error.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence

import bench
from bench import (
    Result,
    attacks,
    auth,
    broker,
    bucket,
    checker,
    cli,
    client,
    cluster,
    compaction,
    console,
    cursor,
    delayed,
    metrics,
    patterns,
    progress,
    rest,
    rocketmq,
    spark,
    spark_kafka,
    steps,
    storage,
    transactions,
    upkeep,
    wire,
)
from bench.goals import measure, report

MODULES = {
    "storage": storage,
    "cursor": cursor,
    "delayed": delayed,
    "compaction": compaction,
    "upkeep": upkeep,
    "attacks": attacks,
    "steps": steps,
    "checker": checker,
    "wire": wire,
    "rest": rest,
    "auth": auth,
    "patterns": patterns,
    "progress": progress,
    "console": console,
    "metrics": metrics,
    "bucket": bucket,
    "client": client,
    "cluster": cluster,
    "transactions": transactions,
    "rocketmq": rocketmq,
    "cli": cli,
    "spark": spark,
    "spark-kafka": spark_kafka,
}
# These print as they go and have options of their own.
BROKER, GOALS, REPORT = "broker", "goals", "report"
NAMES = (*MODULES, BROKER)
STRICT = "--strict"
FULL = "--full"


def show(results: Iterable[Result]) -> int:
    """Print a table; returns how many targets were missed."""
    verdicts = {True: "ok", False: "MISSED", None: ""}
    missed = 0
    for name, value, unit, target, ok in results:
        digits = 0 if abs(value) >= 100 else 2
        wanted = f"target {target}" if target else ""
        line = f"  {name:<68}{value:>10,.{digits}f} {unit:<5} {wanted:<18}{verdicts[ok]}"
        print(line.rstrip(), flush=True)
        missed += ok is False
    return missed


def main(argv: list[str]) -> int:
    # Processes started here load bytecode, as they do from an installed package. Where none may be written,
    # compiling the sources is more than half of each start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if argv in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    strict = STRICT in argv
    bench.FULL = FULL in argv
    argv = [argument for argument in argv if argument not in (STRICT, FULL)]
    if argv[:1] == [BROKER] and len(argv) > 1 and argv[1].startswith("-"):
        missed = broker.main(argv[1:])
        return missed if strict else 0
    if argv[:1] == [GOALS]:
        return measure.main([*argv[1:], *([STRICT] if strict else [])])
    if argv[:1] == [REPORT]:
        return report.main(argv[1:])
    unknown = [name for name in argv if name not in NAMES]
    if unknown:
        known = ", ".join((*NAMES, GOALS, REPORT))
        print(f"no benchmark is called {unknown[0]}; there are {known}", file=sys.stderr)
        return 2
    if argv:
        return named(argv, strict=strict)
    failed = goals(strict=strict)
    return named(NAMES, strict=strict) or failed if bench.FULL else failed


def goals(*, strict: bool) -> int:
    """Measure the goals, and make their page of what was measured, even if something broke down."""
    failed = measure.main([STRICT] if strict else [])
    return report.main([]) or failed


def named(names: Sequence[str], *, strict: bool) -> int:
    missed = 0
    for name in names:
        began = time.perf_counter()
        print(f"{name}", flush=True)
        if name == BROKER:
            missed += broker.main([])
        else:
            missed += show(Result(*result) for result in MODULES[name].run())
        print(f"  took {time.perf_counter() - began:.0f} s", flush=True)
    if missed:
        print("some targets were missed")
    return 1 if missed and strict else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
