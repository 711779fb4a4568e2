"""What failed beside other work is judged alone: judge.py."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from judge import ACCIDENTS_MAX, ROUNDS, main, tell, verdict

FAILED = int(pytest.ExitCode.TESTS_FAILED)
BROKEN = int(pytest.ExitCode.INTERNAL_ERROR)


class Alone:
    """Runs that end as they are told to."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.asked: list[Sequence[str]] = []

    def __call__(self, names: Sequence[str]) -> int:
        self.asked.append(names)
        return self.codes.pop(0)


@pytest.mark.parametrize(
    ("code", "failed", "alone", "expected"),
    [
        (0, [], [], 0),
        (FAILED, ["a"], [0] * ROUNDS, 0),
        (FAILED, ["a", "b"], [0, FAILED], FAILED),
        (FAILED, ["a"], [0, 0, BROKEN], BROKEN),
        (FAILED, list("abcd")[: ACCIDENTS_MAX + 1], [], FAILED),
        (FAILED, [], [], FAILED),  # nobody knows what failed
        (BROKEN, ["a"], [], BROKEN),
    ],
)
def test_the_verdict(code: int, failed: list[str], alone: list[int], expected: int) -> None:
    runs = Alone(*alone)
    assert verdict(code, failed, runs) == expected
    assert runs.codes == []
    assert runs.asked == [failed] * len(alone)


@pytest.mark.parametrize(
    ("holds_alone", "code"), [(True, 0), (False, FAILED)], ids=["an accident", "a defect"]
)
def test_real_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holds_alone: bool, code: int
) -> None:
    """A test that fails the first time, and then holds or not; beside one that always holds."""
    (tmp_path / "test_it.py").write_text(
        "from pathlib import Path\n"
        "def test_other(): pass\n"
        "def test_it():\n"
        "    with Path(__file__).with_name('runs').open('a+') as runs:\n"
        "        runs.write('x')\n"
        "        runs.seek(0)\n"
        f"        assert runs.read() != 'x' and {holds_alone}\n",
        "utf-8",
    )
    judge = Path(__file__).with_name("judge.py")
    ran = subprocess.run(
        [sys.executable, str(judge), "-q", "-p", "no:cacheprovider", "test_it.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # each start is quicker
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == code, ran.stdout
    assert len((tmp_path / "runs").read_text("utf-8")) == (1 + ROUNDS if holds_alone else 2)
    assert ("to be mended:\n  test_it.py::test_it\n" in ran.stdout) == holds_alone
    looks = "1, to be mended:\n  1 × test_it.py::test_it" if holds_alone else "0"
    monkeypatch.chdir(tmp_path)
    assert tell() == f"Second looks: {looks}"
    assert main(["--forget"]) == 0
    assert tell() == "Second looks: 0"
