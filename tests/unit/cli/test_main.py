"""The command line itself: help that loads nothing, one-line errors, exit codes."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from milepost import __version__
from milepost.cli import main
from milepost.cli.exits import Exit
from milepost.cli.main import COMMANDS, milepost, run


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, lazy in COMMANDS.items():
        assert (f"  {name} " in shown) != lazy.is_hidden
        assert (lazy.summary in shown) != lazy.is_hidden


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_loads_and_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "-h"]) == 0
    assert f"Usage: milepost {name}" in capsys.readouterr().out


def test_help_imports_neither_the_broker_nor_what_it_stands_on() -> None:
    heavy = ("milepost.broker", "milepost.storage", "fastapi", "google", "uvicorn", "asyncio")
    script = (
        "import sys\nfrom milepost.cli.main import run\nrun(['--help'])\n"
        f"found = [m for m in sys.modules if m.startswith({heavy!r})]\n"
        "print(found, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["serv"], "there is no command 'serv'; did you mean serve? (see `milepost --help`)"),
        (["\x1b[31m"], "there is no command '\\x1b[31m' (see `milepost --help`)"),
        (["version", "x"], "Got unexpected extra argument (x) (see `milepost version --help`)"),
        (
            ["config", "show", "--port"],
            "Option '--port' requires an argument (see `milepost config show --help`)",
        ),
        (
            ["-o", "json", "topics", "stats", "orders", "--token"],
            "Option '--token' requires an argument (see `milepost topics stats --help`)",
        ),
        (
            ["config", "shw"],
            "there is no command 'shw'; did you mean show? (see `milepost config --help`)",
        ),
        (["config", "show", "--prot", "1"], None),
        (
            ["produce", "orders", "-n", "x"],
            "Invalid value for '-n' / '--num-produce': 'x' is not a whole number (see `milepost produce "
            "--help`)",
        ),
        (["config", "show", "--port", "x"], None),
        (["serve", "--log-level", "loud"], None),
        (["serve", "--set", "port"], "--set 'port': expected NAME=VALUE"),
    ],
)
def test_a_wrong_line_is_one_line_and_exit_2(
    args: list[str], line: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(args) == Exit.USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert shown.err.startswith("milepost: ")
    if line is not None:
        assert shown.err == f"milepost: {line}\n"


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == Exit.USAGE
    assert "Commands:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyError("x"), Exit.FAILED),
        (KeyboardInterrupt(), Exit.INTERRUPTED),
        (click.Abort(), Exit.INTERRUPTED),
        (click.ClickException("no"), Exit.USAGE),
    ],
)
def test_whatever_a_command_raises_is_no_traceback(
    error: BaseException,
    code: Exit,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(ctx: click.Context) -> None:
        raise error

    monkeypatch.setattr(milepost, "invoke", fail)
    assert run(["version"]) == code
    assert "Traceback" not in capsys.readouterr().err


def test_a_closed_pipe_is_quiet() -> None:
    """As `milepost config show | head -0` does it, without the race."""
    command = [sys.executable, "-m", "milepost.cli.main", "config", "show"]
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as reader:
        reader.wait()
        assert reader.stdin is not None
        done = subprocess.run(command, stdout=reader.stdin, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (Exit.CLOSED_PIPE, b"")


def test_versions_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert run(["version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"milepost {__version__}"
    assert second.startswith(f"milepost {__version__} (Python ")


def test_main_exits_with_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["milepost", "nothing"])
    monkeypatch.delitem(sys.modules, "obstore", raising=False)  # another test may have loaded it
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == Exit.USAGE


def test_a_command_that_has_used_an_object_store_ends_at_once() -> None:
    """A thread of obstore that lets go of a Python object while the interpreter ends aborts the process:
    `milepost bucket check` ended with signal 6 in place of code 8, in one of three runs."""
    program = (
        "import atexit, sys, obstore; from milepost.cli.main import main; "
        "atexit.register(print, 'the interpreter ends'); sys.argv[1:] = ['nothing']; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (Exit.USAGE, b"")
    assert done.stderr.startswith(b"milepost: ")
