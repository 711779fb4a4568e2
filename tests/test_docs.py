"""What is documented is true, and what exists is documented.

One check is one test function: collect the names that the code has, collect those that a page has,
compare. `page` reads a page, `table` its rows.
"""

from __future__ import annotations

import inspect
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tidy import snippets
from tidy.house import BROKER_LAYERS

from milepost import errors
from milepost.cli import manual

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
MAKE_COMMAND = re.compile(r"\bmake ([a-z][a-z-]*)")
COMMANDS_OF_THE_README = {"run", "test"}


def page(name: str) -> str:
    path = ROOT / name
    assert path.is_file(), f"{name} is missing"
    return path.read_text("utf-8")


def table(text: str) -> Iterator[list[str]]:
    """Cells of every table row, without heads and rules."""
    for line in text.splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def pages() -> list[str]:
    """Every Markdown page that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in sorted(set(listed.stdout.splitlines())) if (ROOT / name).is_file()]


def error_classes() -> dict[str, type[errors.MilepostError]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.MilepostError)
    }


def code_blocks(text: str) -> str:
    """Fenced blocks and inline code: where commands stand, as opposed to prose."""
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))


def named_paths(text: str) -> list[str]:
    """Inline code that names a file or a folder of the project; routes begin with a slash."""
    found = re.findall(r"`([\w.-]+(?:/[\w.-]+)*/?)`", text)
    return [name for name in found if "/" in name or name.endswith((".py", ".md"))]


def section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


# Errors.


def test_every_error_has_its_row_and_every_row_its_error() -> None:
    rows = {row[0].strip("`– ") for row in table(page("docs/errors.md"))} - {"error"}
    assert rows == set(error_classes())


@pytest.mark.parametrize("name", error_classes())
def test_an_error_page_row_has_the_numbers_of_the_class(name: str) -> None:
    error = error_classes()[name]
    (row,) = [row for row in table(page("docs/errors.md")) if row[0].strip("`– ") == name]
    _, wire_code, http_status, meaning, remedy = row
    assert (wire_code, http_status) == (str(error.wire_code), str(error.http_status))
    assert meaning
    assert remedy
    is_inner = errors.MilepostError not in error.__bases__ and error is not errors.MilepostError
    assert row[0].startswith("–") == is_inner


def test_the_error_tree_is_drawn_in_full() -> None:
    """The module's docstring is the tree: each class once, under its base."""
    drawn: dict[str, str] = {}
    above: list[str] = []
    for line in (inspect.getdoc(errors) or "").splitlines():
        if found := re.match(r"    (│?[ │]*[├└]── )?(\w+)", line):
            depth = len(found[1] or "") // 4
            del above[depth:]
            drawn[found[2]] = above[-1] if above else ""
            above.append(found[2])
    classes = error_classes()
    assert drawn == {
        name: next((base.__name__ for base in error.__bases__ if base.__name__ in classes), "")
        for name, error in classes.items()
    }


# Commands and links.


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", page("Makefile"), re.MULTILINE))


@pytest.mark.parametrize("name", pages())
def test_every_make_command_on_a_page_is_a_target(name: str) -> None:
    assert set(MAKE_COMMAND.findall(code_blocks(page(name)))) <= targets()


def test_the_readme_says_how_to_run_and_how_to_test() -> None:
    text = page("README.md")
    if not text:
        pytest.skip("the README is not written yet")
    assert set(MAKE_COMMAND.findall(code_blocks(text))) >= COMMANDS_OF_THE_README
    assert targets() >= COMMANDS_OF_THE_README


@pytest.mark.parametrize("name", pages())
def test_links_between_pages_lead_somewhere(name: str) -> None:
    broken = [
        link
        for link in LINK.findall(page(name))
        if not re.match(r"[a-z]+:|#", link)
        and not (ROOT / name).parent.joinpath(link.partition("#")[0]).exists()
    ]
    assert broken == []


@pytest.mark.parametrize("name", ["docs/reliability.md", "docs/threats.md"])
def test_every_test_that_a_page_names_is_there(name: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page(name))
    assert len(named) > 30
    gone = [f"{path}::{test}" for path, test in named if f"def {test}(" not in page(path)]
    assert gone == []


def test_every_page_is_in_the_index() -> None:
    folder = ROOT / "docs"
    linked = {(folder / link).resolve() for link in LINK.findall(page("docs/README.md"))}
    missing = [
        name
        for name in pages()
        if name.startswith("docs/")
        and name != "docs/README.md"
        and not {(ROOT / name).resolve(), (ROOT / name).resolve().parent} & linked
    ]
    assert missing == []


# Blocks of code.


@pytest.mark.parametrize("name", pages())
def test_every_block_of_a_page_is_run_by_a_test_or_says_why_not(name: str) -> None:
    for block in snippets.blocks(name, page(name)):
        assert (block.test is None) != (block.reason is None), (
            f"{name}: {block.text[:60]!r}: name the test that runs it in tests/tidy/snippets.py"
        )
        if block.test is not None:
            assert Path(name).name in page(block.test), f"{block.test} does not read {name}"


@pytest.mark.parametrize("table", [snippets.RUN, snippets.SHOWN])
def test_every_block_that_is_named_is_there(table: dict[str, dict[str, str]]) -> None:
    stale = [
        f"{name}: {start}"
        for name, starts in table.items()
        for start in starts
        if not any(one.text.startswith(start) for one in snippets.blocks(name, page(name)))
    ]
    assert stale == []


# Pages that are made.


def test_the_page_about_the_command_line_is_made_from_the_commands() -> None:
    assert page("docs/cli.md") == manual.page(), "run `make docs`"


# The tests of the tests: what the helpers must see.


# The map of the sources.


def test_every_path_on_the_page_about_the_design_exists() -> None:
    names = named_paths(page("docs/design.md"))
    places = (ROOT, ROOT / "src/milepost", ROOT / "docs")
    assert [name for name in names if not any((place / name).exists() for place in places)] == []


def test_the_map_has_every_room_of_the_broker_in_the_order_of_its_layers() -> None:
    rows = table(section(page("docs/design.md"), "File map"))
    mapped = [row[0].strip("`") for row in rows if re.match(r"`broker/\w", row[0])]
    broker = ROOT / "src/milepost/broker"
    rooms = {f"broker/{path.parent.name}/" for path in broker.glob("*/__init__.py")}
    files = {f"broker/{path.name}" for path in broker.glob("*.py")} - {"broker/__init__.py"}
    assert set(mapped) == rooms | files
    assert [Path(name).stem for name in mapped] == list(BROKER_LAYERS)


def test_thirty_changes_have_a_file_where_they_begin() -> None:
    rows = [
        row for row in table(section(page("docs/design.md"), "Find your way")) if row[0] != "change"
    ]
    assert len(rows) == 30
    assert [change for change, begin in rows if not named_paths(begin)] == []


def test_helpers_see_what_is_there() -> None:
    assert list(table("# x\n| a | b |\n| --- | --- |\n| `c` | d |\ntext\n")) == [
        ["a", "b"],
        ["`c`", "d"],
    ]
    assert code_blocks("make believe `make x`\n```sh\nmake y\n```\n").count("make") == 2
    assert {"docs/errors.md", "docs/ethos.md", "SECURITY.md"} <= set(pages())
    assert {"run", "check"} <= targets()
    named = "`a/b.py` `c/` `/route/x` `d.md` `Class.method` a/e.py `f`"
    assert named_paths(named) == ["a/b.py", "c/", "d.md"]
    assert section("# a\n\n## b\nc\n\n## d\ne\n", "b") == "c\n"
    found = snippets.blocks("docs/x.md", "a\n```sh\nls\n```\n- b\n\n  ```python\n  x = 1\n  ```\n")
    assert [(one.kind, one.text) for one in found] == [("sh", "ls"), ("python", "x = 1")]
    assert found[0].test is found[0].reason is None
    assert "DiskFull" in error_classes()
