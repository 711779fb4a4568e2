"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.conftest import ENVIRONMENT, MILEPOST, Serving

pytest.importorskip("pulsar")

README = Path(__file__).parents[2] / "README.md"


def test_the_commands_of_the_readme(serving: Serving, data: Path) -> None:
    """As they stand, in their order; the last one when the broker is gone."""
    (block,) = re.findall(r"```sh\n(milepost topics .*?)```", README.read_text("utf-8"), re.DOTALL)
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert lines.pop() == ["milepost", "verify", "data"]
    shown = [milepost("--admin-url", serving.ready["http_url"], *words) for _, *words in lines]
    assert shown[2].startswith("1 0 ")  # the partition of the key, and its first index
    assert shown[2].split()[2].startswith(shown[3].strip())  # the id, with its place in a batch
    assert "billing" in shown[-1]
    serving.stop()
    assert milepost("verify", str(data)).endswith("all intact\n")


def milepost(*args: str) -> str:
    done = subprocess.run(
        [*MILEPOST, *args],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{args}: {done.stderr}"
    return done.stdout


def test_the_programs_of_the_readme(serving: Serving) -> None:
    """One after the other: the second reads what the first has sent."""
    programs = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert len(programs) == 2
    shown = "pulsar://127.0.0.1:6650"
    for program in programs:
        assert shown in program
        done = subprocess.run(
            [sys.executable, "-c", program.replace(shown, serving.ready["pulsar_url"])],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "b'one coffee'" in done.stdout
