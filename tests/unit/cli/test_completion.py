"""`milepost completion`: the script asks this program, and this program answers."""

from __future__ import annotations

import pytest
from click.shell_completion import BashComplete
from unit.cli.conftest import Line

from milepost.cli.completion import SHELLS
from milepost.cli.main import milepost


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_a_shell(line: Line, shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # click looks whether a bash is there that is new enough.
    monkeypatch.setattr(BashComplete, "_check_version", staticmethod(lambda: None))
    shown = line("completion", shell)
    assert line.code == 0
    assert f"_MILEPOST_COMPLETE={shell}_complete" in shown


def test_a_shell_that_is_not_known(line: Line) -> None:
    line("completion", "tcsh")
    assert line.code == 2


@pytest.mark.parametrize(
    ("words", "incomplete", "found"),
    [
        ([], "top", ["topics", "top", "topicPolicies"]),
        (["topics"], "set-reten", ["set-retention"]),
        (["serve"], "--log-", ["--log-format", "--log-level"]),
    ],
)
def test_what_is_completed(words: list[str], incomplete: str, found: list[str]) -> None:
    shell = BashComplete(milepost, {}, "milepost", "_MILEPOST_COMPLETE")
    assert [one.value for one in shell.get_completions(words, incomplete)] == found
