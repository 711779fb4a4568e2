"""docs/testing.md: every program on it is a test that passes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pulsar")

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def test_the_programs_of_the_page(tmp_path: Path) -> None:
    assert len(PROGRAMS) == 3
    for number, program in enumerate(PROGRAMS):
        (tmp_path / f"test_{number}.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "3 passed" in done.stdout
