"""How long the broker's loop is held by one step while clients attack it, in processor time.

    python -m bench steps
    python -m bench --full steps        # more rounds

The attacks are those of `bench/attacks.py`, and one connection publishes beside them as it does there. While
a step runs, every other client waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import uvloop

import bench
from bench import Result, at_most
from bench.attacks import ATTACKS, ROUNDS, ROUNDS_FULL
from bench.load.attacker import Attacker
from bench.load.beside import compare
from bench.load.step_times import started_noting_steps
from bench.load.workloads import Load

LONGEST_MS_MAX = 5.0
LONG_MS = 1.0


async def measure(names: Sequence[str] = ()) -> list[Result]:
    rounds = ROUNDS_FULL if bench.FULL else ROUNDS
    results = []
    for name in names or ATTACKS:
        async with (
            started_noting_steps() as (target, steps),
            Attacker("bench.attacks", name, target.url) as attacker,
        ):
            steps.forget()
            await compare(Load(target), "beside", attacker.attack, rounds=rounds)
        longest, what = steps.noted[0] if steps.noted else (0.0, "none")
        long_count = sum(took >= LONG_MS for took, _ in steps.noted)
        results.append(at_most(f"{name}: longest step ({what})", longest, "ms", LONGEST_MS_MAX))
        results.append(Result(f"{name}: steps of {LONG_MS:g} ms or more", long_count, ""))
    return results


def run() -> Iterator[Result]:
    yield from uvloop.run(measure())
