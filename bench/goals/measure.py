"""Measure the goals, and print one table of them.

    python -m bench                                        # the goals, alone; then `python -m bench report`
    MILEPOST_PEER=… python -m bench                        # beside Apache Pulsar and Kafka (bench/peers.py)
    python -m bench goals --before v0.1.0                  # beside an earlier commit of Milepost
    python -m bench goals --only acks-32,idle --turns 1    # some workloads
    python -m bench goals --scale 0.05                     # a twentieth of the counts: to try it out

Every server has its turn at each workload before the next turn begins, and the order changes from turn to
turn. A ratio is the median of the turns' ratios. Peers are stopped before memory, starts and disturbances are
measured. What was measured is kept in `bench/out/goals.json` after each workload.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import Awaitable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import uvloop

from bench.goals import figures, machine
from bench.goals.figures import BEFORE, KAFKA, OURS, Measures, Run, without_paths
from bench.goals.goals import UPKEEP_GROUP
from bench.goals.judgement import Verdict, rows
from bench.goals.servers import ROOT, NoCommit, Server, earlier, gathered
from bench.goals.terminal import tables
from bench.goals.workloads import (
    FRESH,
    IN_TURNS,
    NAMES,
    ON_KAFKA,
    OWN,
    disturbed,
)
from bench.load.kafka import KafkaLoad
from bench.load.workloads import Load

OUT = ROOT / "bench" / "out" / "goals.json"
TURNS = 3
# Beside other work a turn takes minutes; one that a peer no longer answers takes for ever.
TURN_TIMEOUT_S = 1800.0


class Measuring:
    """A run that goes on: what it has so far is in the file."""

    def __init__(self, run: Run, out: Path) -> None:
        self.run = run
        self._out = out
        self._began = time.perf_counter()

    def begin(self, workload: str) -> None:
        seconds = time.perf_counter() - self._began
        print(f"  {seconds:5.0f} s  {workload}", flush=True)

    async def take(
        self, workload: str, server: str, work: Awaitable[Measures], turn: int = 0
    ) -> None:
        """Keep what one turn shows. One that breaks down, or stands still, is noted, and the others go on."""
        try:
            async with asyncio.timeout(TURN_TIMEOUT_S):
                self.add(workload, server, await work, turn)
        except Exception as error:
            self.fail(workload, server, error)

    def add(self, workload: str, server: str, measures: Measures, turn: int = 0) -> None:
        figures.add(self.run.figures, workload, server, measures, turn)

    def fail(self, workload: str, server: str, error: Exception) -> None:
        told = without_paths(f"{type(error).__name__}: {error}".strip(": \n").splitlines()[0])[:200]
        self.run = self.run._replace(failures={**self.run.failures, f"{workload} {server}": told})
        print(f"           {workload} on {server} broke down: {told}", flush=True)

    def keep(self) -> None:
        self.run = self.run._replace(seconds=round(time.perf_counter() - self._began))
        self._out.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.run.to_json(), indent=1, ensure_ascii=False)
        self._out.write_text(f"{text}\n", encoding="utf-8")


async def measure(arguments: argparse.Namespace, before: Path | None) -> Run:
    chosen = arguments.only
    measuring = Measuring(_empty(arguments), arguments.out)
    if any(name in IN_TURNS or name in OWN for name in chosen):
        async with gathered(before) as (servers, absent):
            titles = {server.key: server.title for server in servers}
            measuring.run = measuring.run._replace(servers=titles, absent=absent)
            print(f"  in turns: {', '.join(titles.values())}", flush=True)
            for peer, reason in absent.items():
                print(f"  without {peer}: {reason}", flush=True)
            await _in_turns(measuring, servers, chosen, arguments)
    sources = {OURS: None, **({BEFORE: before} if before else {})}
    for name in chosen:
        if name in FRESH:
            measuring.begin(name)
            for key, source in sources.items():
                await measuring.take(name, key, FRESH[name](source, arguments.scale))
            measuring.keep()
    if UPKEEP_GROUP in chosen:
        measuring.begin(UPKEEP_GROUP)
        for key, source in sources.items():
            try:
                async for name, found in disturbed(source, arguments.scale):
                    measuring.add(name, key, found)
            except Exception as error:
                measuring.fail(UPKEEP_GROUP, key, error)
    measuring.keep()
    return measuring.run


def _empty(arguments: argparse.Namespace) -> Run:
    return Run(
        made=machine.today(),
        commit=machine.commit(),
        before=machine.commit(arguments.before) if arguments.before else "",
        machine=machine.describe(),
        servers={OURS: "Milepost"},
        absent={},
        figures={},
        failures={},
        scale=arguments.scale,
        turns=arguments.turns,
    )


async def _in_turns(
    measuring: Measuring,
    servers: Sequence[Server],
    chosen: Sequence[str],
    arguments: argparse.Namespace,
) -> None:
    """Workloads that are divided by each other stand side by side: OWN goes through all of them in a turn.
    Every turn has topics of its own: what is left of an earlier one would be opened, read and sought too."""
    rounds = [[name] for name in IN_TURNS if name in chosen]
    if own := [name for name in OWN if name in chosen]:
        rounds.append(own)
    for names in rounds:
        measuring.begin(", ".join(names))
        for turn in range(arguments.turns):
            for server in reversed(servers) if turn % 2 else servers:
                load = _load(server, arguments.scale)
                for name in names:
                    if (work := _work(name, server.key, load)) is not None:
                        await measuring.take(name, server.key, work, turn)
        measuring.keep()


def _load(server: Server, scale: float) -> Load | KafkaLoad:
    if server.key == KAFKA:
        return KafkaLoad(server.target, scale)
    return Load(server.target, scale)


def _work(name: str, key: str, load: Load | KafkaLoad) -> Awaitable[Measures] | None:
    if isinstance(load, KafkaLoad):
        return ON_KAFKA[name](load) if name in ON_KAFKA else None
    if name in IN_TURNS:
        return IN_TURNS[name](load)
    return OWN[name](load) if key in (OURS, BEFORE) else None


def _names(told: str) -> list[str]:
    chosen = told.split(",")
    if unknown := sorted({*chosen} - {*NAMES}):
        raise argparse.ArgumentTypeError(
            f"no workload is called {', '.join(map(repr, unknown))}; there are {', '.join(NAMES)}"
        )
    return chosen


def _turns(told: str) -> int:
    if told.isdecimal() and told.isascii() and int(told) > 0:
        return int(told)
    raise argparse.ArgumentTypeError(f"{told!r} is no number of turns: 1 or more")


def _scale(told: str) -> float:
    with suppress(ValueError):
        if 0 < (scale := float(told)) < math.inf:
            return scale
    raise argparse.ArgumentTypeError(f"{told!r} is no scale: a twentieth of the counts is 0.05")


def _clear(out: Path) -> None:
    """No figures of another run, and a file that can be written: told now, not behind the first workload."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("", encoding="utf-8")
    out.unlink()


def main(argv: Sequence[str] | None = None) -> int:
    """1 if a workload broke down on Milepost itself; a peer that does is only noted."""
    parser = argparse.ArgumentParser(
        prog="python -m bench goals", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--only", type=_names, default=NAMES, help=f"comma-separated; of {', '.join(NAMES)}"
    )
    parser.add_argument(
        "--turns", type=_turns, default=TURNS, help="how often each server has its turn"
    )
    parser.add_argument("--scale", type=_scale, default=1.0, help="multiplies all counts")
    parser.add_argument("--before", default="", help="a commit to measure beside this one")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a goal is missed")
    parser.add_argument("--out", type=Path, default=OUT, help="the file that keeps the figures")
    arguments = parser.parse_args(argv)
    with ExitStack() as stack:
        try:
            before = stack.enter_context(earlier(arguments.before))
            _clear(arguments.out)
        except (NoCommit, OSError) as error:
            parser.error(str(error))
        run = uvloop.run(measure(arguments, before))
    print(tables(run))
    is_broken = any(place.endswith(f" {OURS}") for place in run.failures)
    is_missed = any(row.verdict == Verdict.MISSED for row in rows(run))
    return int(is_broken or (arguments.strict and is_missed))


if __name__ == "__main__":
    sys.exit(main())
