"""What the README shows works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.conftest import Serving

pytest.importorskip("pulsar")

README = Path(__file__).parents[2] / "README.md"


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
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "b'one coffee'" in done.stdout
