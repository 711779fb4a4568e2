"""Run the test suites that official clients bring along, against a Milepost broker: `make suites`.

A suite is a checkout of the client's repository, named by a variable of the environment. It is copied, and
run as it stands but for places of files. What is left out is in `left_out.py`, with reasons.

    MILEPOST_SUITE_PYTHON=… MILEPOST_SUITE_GO=… make suites

Each suite ends with a line, and with 1 if something failed:

    python  170 passed, 0 failed, 2 tests and 2 files left out
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

sys.path[:0] = [str(Path(__file__).parents[1])]

from suites import left_out  # noqa: E402
from suites.standalone import standalone, taken_ports, token  # noqa: E402

TEST_TIMEOUT_S = 300
SUITE_TIMEOUT_S = 1800


class Outcome(NamedTuple):
    passed: int
    failed: list[str]
    skipped: int
    left_out: str


def python(checkout: Path, scratch: Path) -> Outcome:
    """`pulsar-client-python`: its unittest files, with the wheel that is installed here."""
    tests = scratch / "tests"
    shutil.copytree(checkout / "tests", tests)
    conf = tests / "test-conf"
    secret = scratch / "secret.key"
    secret.write_bytes(os.urandom(32))
    secret.chmod(0o600)
    (tests / ".test-token.txt").write_text(token(secret, "token-principal"))
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    command += ["--timeout", str(TEST_TIMEOUT_S)]
    command += [f"--deselect={name}" for name in left_out.PYTHON]
    places = {"/pulsar/data/tokens/": scratch, "test-conf/": conf}
    # They are read as users' scripts are: neither our settings of pytest nor our sources are theirs.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    counts: Counter[str] = Counter()
    failed: list[str] = []
    with standalone(scratch, conf / "standalone-ssl.conf", places, conf / ".htpasswd", secret):
        # Each file in a process of its own, as their script has it: loggers of one hold up another.
        for path in sorted(tests.glob("*_test.py")):
            if path.name not in left_out.PYTHON_FILES:
                report = scratch / f"{path.name}.xml"
                _run([*command, f"--junitxml={report}", path.name], tests, environment)
                _count(report, counts, failed)
    tests_out, files_out = len(left_out.PYTHON), len(left_out.PYTHON_FILES)
    names = f"{tests_out} tests and {files_out} files left out"
    return Outcome(counts["passed"], failed, counts["skipped"], names)


def _count(report: Path, counts: Counter[str], failed: list[str]) -> None:
    if not report.is_file():
        failed.append(f"{report.stem}: it did not end")
        return
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
        counts[min(kinds, default="passed")] += 1
        if kinds & {"failure", "error"}:
            failed.append(f"{case.get('classname')}::{case.get('name')}")


def go(checkout: Path, scratch: Path, only: str = "") -> Outcome:
    """`pulsar-client-go`: the packages `pulsar` and `pulsaradmin`, with what Go's module proxy has.

    `only`: a pattern; tests whose names do not match it are not run.
    """
    assert shutil.which("go"), "there is no Go compiler here"
    tree, home = scratch / "tree", scratch / "pulsar"
    shutil.copytree(checkout, tree, ignore=shutil.ignore_patterns(".git"))
    for path in (tree, *tree.rglob("*")):  # nobody may write to what the module proxy gave
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    for name in ("certs", "tokens", "conf"):
        shutil.copytree(tree / "integration-tests" / name, home / name)
    places = {f"/pulsar/{name}/": home / name for name in ("certs", "tokens", "conf")}
    for path in tree.rglob("*_test.go"):
        text = path.read_text()
        changed = re.sub(r"/pulsar/(certs|tokens|conf)/", rf"{home}/\1/", text)
        if changed != text and '"/pulsar/' in text:
            path.write_text(changed)
    skip = "^(" + "|".join(left_out.GO) + ")$"
    command = ["go", "test", "-json", f"-timeout={SUITE_TIMEOUT_S}s", f"-skip={skip}"]
    command += [f"-run={only}", "./pulsar"] if only else ["./pulsar", "./pulsaradmin/..."]
    conf = home / "conf"
    secret = home / "tokens" / "secret.key"
    with standalone(scratch, conf / "standalone.conf", places, conf / ".htpasswd", secret):
        output = _run(command, tree, dict(os.environ))
    counts: Counter[str] = Counter()
    failed = []
    for line in output.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        test, action = event.get("Test", ""), event.get("Action", "")
        if "/" in test or action not in ("pass", "fail", "skip"):
            continue
        if test:
            counts[action] += 1
        if action == "fail":
            failed.append(test or event["Package"])
    return Outcome(counts["pass"], failed, counts["skip"], f"{len(left_out.GO)} tests left out")


def _run(command: list[str], directory: Path, environment: dict[str, str]) -> str:
    """What it wrote, until it ended or its time did."""
    with subprocess.Popen(
        command, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            return process.communicate(timeout=SUITE_TIMEOUT_S)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()[0]


SUITES: dict[str, Callable[[Path, Path], Outcome]] = {"python": python, "go": go}


def main() -> int:
    status = 0
    for name, suite in SUITES.items():
        variable = f"MILEPOST_SUITE_{name.upper()}"
        checkout = os.environ.get(variable, "")
        if not checkout:
            print(f"{name:7} not run: {variable} names no checkout of the client")
            continue
        taken = taken_ports()
        if taken:
            print(f"{name:7} not run: it needs the ports {taken}, which somebody has")
            status = 1
            continue
        with tempfile.TemporaryDirectory() as scratch:
            outcome = suite(Path(checkout), Path(scratch))
        skipped = f", {outcome.skipped} skipped by itself" if outcome.skipped else ""
        print(
            f"{name:7} {outcome.passed} passed, {len(outcome.failed)} failed{skipped}, "
            f"{outcome.left_out}"
        )
        for one in outcome.failed:
            print(f"        failed: {one}")
        status |= bool(outcome.failed) or not outcome.passed
    return status


if __name__ == "__main__":
    sys.exit(main())
