"""Make docs/benchmarks.md and its pictures of the file that a run has left.

python -m bench report
python -m bench report --figures bench/out/goals.json --docs docs
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.goals.figures import Run
from bench.goals.measure import OUT
from bench.goals.page import GOALS_PLOT, PEERS_PLOT, page
from bench.goals.plots import goals_plot, peers_plot
from bench.goals.servers import ROOT


def write(run: Run, docs: Path) -> None:
    """The page, and beside it the pictures; a picture of peers that were not there goes."""
    pictures = docs / "benchmarks"
    pictures.mkdir(parents=True, exist_ok=True)
    (docs / "benchmarks.md").write_text(page(run), encoding="utf-8")
    (pictures / GOALS_PLOT).write_text(goals_plot(run), encoding="utf-8")
    if plot := peers_plot(run):
        (pictures / PEERS_PLOT).write_text(plot, encoding="utf-8")
    else:
        (pictures / PEERS_PLOT).unlink(missing_ok=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench report", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--figures", type=Path, default=OUT, help="what a run has left")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="the folder of the page")
    arguments = parser.parse_args(argv)
    try:
        data = json.loads(arguments.figures.read_text(encoding="utf-8"))
    except FileNotFoundError:
        print("there are no figures yet: `python -m bench` makes them", file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:
        print(f"{arguments.figures} has no figures: {error}", file=sys.stderr)
        return 2
    try:
        run = Run.from_json(data)
    except TypeError as error:
        print(f"{arguments.figures} is not of a run: {error}", file=sys.stderr)
        return 2
    try:
        write(run, arguments.docs)
    except OSError as error:
        print(f"the page cannot be written: {error}", file=sys.stderr)
        return 2
    print(f"{arguments.docs / 'benchmarks.md'} and its pictures are made")
    return 0


if __name__ == "__main__":
    sys.exit(main())
