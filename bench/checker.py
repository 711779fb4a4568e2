"""How fast a history is judged, and in how much memory.

    python -m bench checker             # a million events
    python -m bench --full checker      # ten millions: the promise itself, some minutes

The history is what four producers and two subscriptions do to one topic while its broker is killed now and
then: for each message a publish and its receipt, two deliveries, an ack with an answer and one without,
and its line in the scan at the end. It is judged by the command, in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import bench
from bench import Result, at_most

EVENTS = 1_000_000
EVENTS_FULL = 10_000_000
EVENTS_PER_MESSAGE = 8
MESSAGES_PER_LIFE = 50_000
# What is promised of ten million events.
SECONDS_MAX = 300
GIB_MAX = 2.0


def lines(messages: int) -> Iterator[str]:
    yield '{"history":1}\n{"op":"start"}\n'
    for number in range(messages):
        at = f'"id":[{1 + number // 50_000},{number % 50_000},-1],"index":{number}'
        name, t = f'"topic":"t","message":"m{number}"', f'"t":{number / 1000}'
        if number and not number % MESSAGES_PER_LIFE:
            yield f'{{"op":"kill",{t}}}\n{{"op":"start"}}\n'
            for by in "ab":
                yield f'{{"op":"join","topic":"t","sub":"{by}","by":"{by}","mode":"connection"}}\n'
        yield (
            f'{{"is":"invoke","op":"publish","n":{number * 2},{name},"by":"p{number % 4}",{t}}}\n'
            f'{{"is":"ok","n":{number * 2},{at},{t}}}\n'
            f'{{"op":"receive",{name},"sub":"a","by":"a",{at},{t}}}\n'
            f'{{"op":"receive",{name},"sub":"b","by":"b",{at},{t}}}\n'
            f'{{"is":"invoke","op":"ack","n":{number * 2 + 1},"topic":"t","sub":"a","by":"a",'
            f'"messages":["m{number}"],{t}}}\n'
            f'{{"is":"ok","n":{number * 2 + 1},{t}}}\n'
            f'{{"op":"ack","topic":"t","sub":"b","by":"b","messages":["m{number}"],{t}}}\n'
        )
    yield '{"op":"scan","topic":"t","first":0}\n'
    for number in range(messages):
        at = f'"id":[{1 + number // 50_000},{number % 50_000},-1],"index":{number}'
        yield f'{{"op":"stored","topic":"t","message":"m{number}",{at}}}\n'
    yield f'{{"op":"scanned","topic":"t","end":{messages}}}\n'


def run() -> list[Result]:
    events = EVENTS_FULL if bench.FULL else EVENTS
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "history.jsonl"
        with path.open("w") as file:
            file.writelines(lines(events // EVENTS_PER_MESSAGE))
        command = [sys.executable, "-m", "milepost.testing.checker", str(path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, said
    share = events / EVENTS_FULL
    name = f"history of {events // 1_000_000} M events"
    return [
        at_most(f"{name}, CPU to judge", usage.ru_utime + usage.ru_stime, "s", SECONDS_MAX * share),
        at_most(f"{name}, memory", usage.ru_maxrss / 1024**2, "GiB", GIB_MAX * max(share, 0.2)),
    ]
