"""docs/client.md: every program on it runs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import milepost.testing

PAGE = Path(__file__).parents[2] / "docs" / "client.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
SHOWN = "pulsar://127.0.0.1:6650"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with milepost.testing.broker() as running:
        yield running.url


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_page(
    program: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SHOWN in program
    monkeypatch.chdir(tmp_path)
    if "private.pem" in program:
        make_keys(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(program.replace(SHOWN, url), str(PAGE), "exec"), names)


def make_keys(folder: Path) -> None:
    """By the commands that the page shows."""
    commands = re.findall(r"^    (openssl .*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)


def test_there_are_programs() -> None:
    assert len(PROGRAMS) >= 8
