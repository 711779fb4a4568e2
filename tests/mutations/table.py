"""Plant the bugs of the simulation and of the crash campaigns, and say what finds each: `make plants`.

    python tests/mutations/table.py            # the table, as docs/mutations.md has it
    python tests/mutations/table.py --write    # into docs/mutations.md

A bug that goes unnoticed fails the command. The bugs that `run.py` plants in the sources, one at a time,
are not among them: it names the tests of each itself.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/mutations.md"
BEGIN, END = "<!-- what finds each bug: make plants -->", "<!-- end -->"
TESTS = (
    "tests/simulation/test_plants.py",
    "tests/crash/test_plants.py",
    "tests/crash/test_transaction_plants.py",
)
SHOWN_MAX = 110

# The mistakes that others have made before, by the bug that is planted for each.
CLASSIC = {
    "a sync that does nothing": "sync_lies",
    "a rename whose folder is not synced": "sync_dir_lies",
    "an ack before the sync": "acks answered before the disk",
    "an epoch that is not looked at": "a delivery is not noted behind a seek",
    "a bit of a batch that is off by one": "a bit of a batch is off by one",
    "a checksum that is not looked at": "entries_unchecked",
    "a sync tried again behind one that failed": "sync_tried_again",
    "a cumulative ack of a part that acks the batch": "a cumulative ack of a part acks the batch",
    "a reset without an epoch": "a reset without an epoch",
    "sequence ids that are not kept": "sequence ids of the snapshot are forgotten",
    "retention that reads the wrong cursor": "retention looks at the fastest subscription",
    "an index from a counter": "index_from_a_counter",
    "a late ack that counts behind a seek": "a late ack is applied",
    "a lookup that finds the entry": "a lookup finds the entry, not the message",
}


class Row(NamedTuple):
    bug: str
    found_by: str
    objection: str
    is_found: bool


def rows_of(report: Path) -> list[Row]:
    """What a run of pytest wrote down of each planted bug."""
    rows = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = case.attrib["name"]
        if name.startswith("test_without_a_plant"):
            continue
        bug = name.partition("[")[2].removesuffix("]").removesuffix("-")
        told = [
            one.attrib["value"] for one in case.iter("property") if "summary" in one.attrib["name"]
        ]
        file = case.attrib["classname"].replace(".", "/")
        is_found = case.find("failure") is None and case.find("error") is None
        rows.append(Row(bug.lstrip("_"), f"{file}.py", _short(told[0]) if told else "", is_found))
    return rows


def _short(objection: str) -> str:
    """The seed and the anomaly, without the way to repeat it."""
    text = re.sub(r"(seed \d+): seed \d+; again: [^:]*:", r"\1:", objection)
    return text.replace("|", "/").replace("\n", " ")[:SHOWN_MAX]


def table(rows: list[Row]) -> str:
    others = {bug: name for name, bug in CLASSIC.items()}
    lines = ["| the bug | found by | what it objects to |", "| --- | --- | --- |"]
    for row in sorted(rows, key=lambda row: (row.bug not in others, row.found_by, row.bug)):
        name = row.bug.replace("_", " ")
        if row.bug in others:
            name = f"**{others[row.bug]}** ({name})"
        found = f"`{row.found_by}`" if row.is_found else "NOTHING"
        lines.append(f"| {name} | {found} | {row.objection} |")
    return "\n".join(lines)


def in_page(page: str, text: str) -> str:
    """The page with this table in the place of its own."""
    before, begin, rest = page.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"docs/mutations.md has no place for the table: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{behind}"


def main(arguments: Sequence[str] | None = None, tests: Sequence[str] = TESTS) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/mutations.md")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="milepost-plants-") as name:
        report = Path(name) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", f"--junitxml={report}", *tests]
        environment = {**os.environ, "MILEPOST_CAMPAIGN": "long"}
        subprocess.run(command, cwd=ROOT, env=environment, check=False)
        if not report.exists():
            print("the tests have left no report: the page stays as it is", file=sys.stderr)
            return 2
        rows = rows_of(report)
    if not rows:
        print("no bug was planted: the page stays as it is", file=sys.stderr)
        return 2
    text = table(rows)
    if options.write:
        PAGE.write_text(in_page(PAGE.read_text(), text))
    print(text)
    missed = [row.bug for row in rows if not row.is_found]
    print(f"{len(rows) - len(missed)} of {len(rows)} found", *missed, sep="\n")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
