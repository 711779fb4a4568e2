"""The page about the command line has every command and every exit code."""

from __future__ import annotations

import re

from milepost.cli.admin import topics_group
from milepost.cli.exits import Exit
from milepost.cli.main import COMMANDS
from milepost.cli.manual import page


def test_every_command_has_its_section() -> None:
    heads = set(re.findall(r"^#+ `milepost ([^`]+)`$", page(), re.MULTILINE))
    assert heads >= {name for name in COMMANDS if name not in ("admin", "standalone")}
    assert heads >= {f"topics {name}" for name in topics_group.TABLE}


def test_every_exit_code_has_its_row() -> None:
    rows = re.findall(r"^\| ([0-9, ]+) \| ", page(), re.MULTILINE)
    assert [int(code) for row in rows for code in row.split(",")] == list(Exit)


def test_an_option_stands_with_its_words() -> None:
    assert "| `-i, --index INTEGER` | From 0.  [required] |" in page()
