"""Judge a history: python -m milepost.testing.checker FILE

Exit status 0: no anomaly; 1: anomalies, each shown with its lines; 2: the file is no history.
"""

from __future__ import annotations

import io
import os
import sys
import time
from pathlib import Path

from milepost.testing.checker.checker import judge_file
from milepost.testing.checker.events import BadHistory

USAGE = "usage: python -m milepost.testing.checker FILE"


def main(arguments: list[str]) -> int:
    if arguments in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return 2
    # Names in a history may have characters that the terminal has not, or that no text has.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    path = Path(arguments[0])
    began = time.monotonic()
    try:
        verdict = judge_file(path)
    except (BadHistory, OSError, UnicodeDecodeError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 2
    try:
        for line in verdict.report(path):
            print(line)
        print(f"judged in {time.monotonic() - began:.1f} s", flush=True)
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1 if verdict.found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
