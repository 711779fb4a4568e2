"""All benchmarks, or some by name.

    python -m bench
    python -m bench storage cursor
    python -m bench --strict                    # exit status 1 if a target is missed
    python -m bench --full compaction           # at its full size, which takes minutes
    python -m bench broker --only publish-1     # the broker's has options of its own

The exit status is 0 whatever the figures are: they depend on the machine. A benchmark that breaks down
is an error.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable

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
# It starts a broker in a process of its own and prints as it goes.
BROKER = "broker"
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
    strict = STRICT in argv
    bench.FULL = FULL in argv
    argv = [argument for argument in argv if argument not in (STRICT, FULL)]
    if argv[:1] == [BROKER] and len(argv) > 1 and argv[1].startswith("-"):
        missed = broker.main(argv[1:])
        return missed if strict else 0
    unknown = [name for name in argv if name not in NAMES]
    if unknown:
        print(f"no benchmark is called {unknown[0]}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    missed = 0
    for name in argv or NAMES:
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
