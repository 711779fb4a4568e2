"""Groups: nothing is loaded for help, and a wrong name is answered with a near one."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from unit.cli.conftest import Line

from milepost.cli import main
from milepost.cli.admin import admin_group, topics_group
from milepost.cli.groups import Group, Lazy, LazyGroup

TABLES = {"milepost": main.COMMANDS, "admin": admin_group.TABLE, "topics": topics_group.TABLE}


def every_row() -> list[tuple[str, str]]:
    return [(group, name) for group, table in TABLES.items() for name in table]


@pytest.mark.parametrize(("group", "name"), every_row())
def test_every_row_leads_to_a_command(group: str, name: str) -> None:
    table = TABLES[group]
    command = LazyGroup(group, table=table).get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    help_line = command.get_short_help_str(limit=200)
    assert table[name].summary
    assert help_line


@pytest.mark.parametrize(
    ("args", "near"),
    [
        (("topics", "lst"), "list"),
        (("namespaces", "lst"), "list"),
        (("admin", "topic"), "topics"),
        (("topics", "get-message-id-by-indx"), "get-message-id-by-index"),
    ],
)
def test_a_wrong_name_is_answered_with_a_near_one(
    line: Line, args: tuple[str, ...], near: str
) -> None:
    line(*args)
    assert f"there is no command {args[-1]!a}; did you mean {near}?" in line.err


def test_hidden_rows_are_not_in_the_help(line: Line) -> None:
    assert "persistent " not in line("admin", "--help")
    assert "  topics" in line.out
    assert Lazy("m:a", "s").is_hidden is False


@pytest.mark.parametrize("is_broken", [False, True])
def test_the_collector_rests_while_a_command_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_broken: bool
) -> None:
    module = f"loaded_by_a_group_{is_broken}"
    code = ["import click, gc", "was_enabled = gc.isenabled()", "command = click.Command('one')"]
    (tmp_path / f"{module}.py").write_text("\n".join([*code, "1 / 0" if is_broken else ""]))
    monkeypatch.syspath_prepend(tmp_path)
    assert gc.isenabled()
    if is_broken:
        with pytest.raises(ZeroDivisionError):
            Lazy(f"{module}:command", "s").command("one")
    else:
        Lazy(f"{module}:command", "s").command("one")
        assert sys.modules.pop(module).was_enabled is False
    assert gc.isenabled()


def every_group(command: click.Command, path: str) -> Iterator[tuple[str, click.Group]]:
    if isinstance(command, click.Group):
        yield path, command
        context = click.Context(command, info_name=path)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from every_group(inner, f"{path} {name}")


@pytest.mark.parametrize(("path", "group"), list(every_group(main.milepost, "milepost")))
def test_help_cuts_no_sentence_and_names_are_near_in_every_group(
    path: str, group: click.Group
) -> None:
    assert isinstance(group, Group)
    # As on a command line: click keeps a command's option for help once it has made one.
    context = click.Context(group, info_name=path, help_option_names=["-h", "--help"])
    _, _, shown = group.get_help(context).partition("Commands:")
    assert "..." not in shown


@pytest.mark.parametrize(("path", "group"), list(every_group(main.milepost, "milepost")))
def test_every_option_says_what_it_is_for(path: str, group: click.Group) -> None:
    context = click.Context(group, info_name=path)
    commands = {name: group.get_command(context, name) for name in group.list_commands(context)}
    silent = [
        f"{path} {name} {option.opts[0]}"
        for name, command in [("", group), *commands.items()]
        if command is not None
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden and not option.help
    ]
    assert not silent
