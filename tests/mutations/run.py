"""Plant bugs, one at a time, and see whether tests notice: `make mutations`.

Two kinds: those of `planted.py`, written by hand, and those that operators make of the syntax tree of the
cursor (`--seed`, `--count`). Everything happens in a copy of the sources; what survives is printed, and the
exit code is 1 when less than 95 % was noticed. Survivors that change nothing are explained in
docs/mutations.md.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from stage.pieces import piece_of

from mutations.planted import BUGS, Bug

ROOT = Path(__file__).parents[2]
NOTICED_MIN = 0.95
TIMEOUT_S = 300

# What operators change, and who has to notice.
GROWN = {
    "src/milepost/cursor/cursor.py": "tests/unit/cursor tests/property/test_cursor.py",
    "src/milepost/cursor/inflight.py": "tests/unit/cursor tests/property/test_cursor.py",
    "src/milepost/cursor/redeliveries.py": "tests/unit/cursor tests/property/test_cursor.py",
    "src/milepost/cursor/delays.py": "tests/unit/cursor tests/property/test_cursor.py",
}
_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def grown(path: str, tests: str) -> Iterator[Bug]:
    """Every bug that swapping one operator of a file makes, as a change of its text."""
    text = (ROOT / path).read_text()
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            swapped = _SWAPS.get(type(node.ops[0]))
            if swapped is None:
                continue
            was, node.ops[0] = ast.unparse(node), swapped()  # type: ignore[assignment]
        elif isinstance(node, ast.BinOp | ast.BoolOp):
            swapped = _SWAPS.get(type(node.op))
            if swapped is None:
                continue
            was, node.op = ast.unparse(node), swapped()  # type: ignore[assignment]
        else:
            continue
        line, end = node.lineno - 1, node.end_lineno
        if end != node.lineno or node.end_col_offset is None:
            continue
        source = lines[line]
        right = source[node.col_offset : node.end_col_offset]
        if ast.unparse(ast.parse(right, mode="eval")) != was or "assert" in source:
            continue
        wrong = source[: node.col_offset] + f"({ast.unparse(node)})" + source[node.end_col_offset :]
        before, after = "".join(lines[max(line - 1, 0) : line]), "".join(lines[line + 1 : line + 2])
        if text.count(before + source + after) == 1:
            yield Bug(path, before + source + after, before + wrong + after, tests)


def is_noticed(bug: Bug, folder: Path) -> bool:
    path = folder / bug.path
    text = path.read_text()
    if text.count(bug.right) != 1:
        raise SystemExit(f"{bug.path}: {text.count(bug.right)} times: {bug.right!r}")
    path.write_text(text.replace(bug.right, bug.wrong))
    try:
        return are_red(bug.tests, folder)
    finally:
        path.write_text(text)


def are_red(tests: str, folder: Path) -> bool:
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MILEPOST_EXAMPLES": "100",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *tests.split()],
            cwd=folder,
            env=environment,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    if done.returncode not in (0, 1, 2):
        raise SystemExit(done.stdout.decode()[-2000:] + done.stderr.decode()[-2000:])
    return done.returncode != 0


def _part(told: str) -> tuple[int, int]:
    try:
        return piece_of(told)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(told: str) -> int:
    if told.isdecimal() and told.isascii():
        return int(told)
    raise argparse.ArgumentTypeError(f"{told!r} is no count: 0 or more")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=_count, default=30, help="how many of the grown ones")
    parser.add_argument("--only", default="", help="bugs of paths that contain this")
    parser.add_argument("--part", type=_part, default="1/1", help="the second of four parts is 2/4")
    options = parser.parse_args(arguments)
    number, parts = options.part
    made = [bug for path, tests in GROWN.items() for bug in grown(path, tests)]
    random.Random(options.seed).shuffle(made)
    bugs = [bug for bug in (*BUGS, *made[: options.count]) if options.only in bug.path]
    bugs = bugs[(number - 1) * len(bugs) // parts : number * len(bugs) // parts]
    if not bugs:
        parser.error("no bug is left to be planted: see --only, --part and --count")
    survivors: list[Bug] = []
    with tempfile.TemporaryDirectory(prefix="milepost-mutations-") as name:
        folder = Path(name)
        for part in ("src", "tests"):
            shutil.copytree(ROOT / part, folder / part)
        shutil.copy(ROOT / "pyproject.toml", folder)
        for tests in sorted({bug.tests for bug in bugs}):
            if are_red(tests, folder):  # they would notice anything
                raise SystemExit(f"red without any bug: {tests}")
        for number, bug in enumerate(bugs, 1):
            noticed = is_noticed(bug, folder)
            word = "noticed" if noticed else "SURVIVED"
            print(f"{number:3}/{len(bugs)} {word}: {bug.path}: {bug.wrong.strip()!r}", flush=True)
            if not noticed:
                survivors.append(bug)
    share = 1 - len(survivors) / len(bugs)
    print(f"{len(bugs) - len(survivors)} of {len(bugs)} noticed: {share:.0%}")
    return int(share < NOTICED_MIN)


if __name__ == "__main__":
    raise SystemExit(main())
