"""The list of planted bugs is true to the sources: each can be planted, and its tests are there."""

from __future__ import annotations

from pathlib import Path

import pytest
from crash.test_plants import PLANTS as CRASH
from crash.test_transaction_plants import PLANTS as TRANSACTIONS
from simulation.plants import BUGS as SIMULATED
from simulation.plants import Bug as Simulated

from mutations import run
from mutations import table as tables
from mutations.planted import BUGS, Bug
from mutations.table import CLASSIC, PAGE, in_page, rows_of, table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("bug", BUGS, ids=[f"{bug.path}: {bug.right[:40]}" for bug in BUGS])
def test_a_bug_can_be_planted(bug: Bug) -> None:
    assert (ROOT / bug.path).read_text().count(bug.right) == 1
    assert bug.wrong != bug.right
    for tests in bug.tests.split():
        assert (ROOT / tests).exists(), tests


@pytest.mark.parametrize("bug", SIMULATED, ids=lambda bug: bug.name)
def test_a_bug_of_the_simulation_can_be_planted(bug: Simulated) -> None:
    """Every one of them: `make test` plants a quarter."""
    *_, source = bug.planted()
    compile(source, bug.where, "exec")


def test_every_classic_mistake_is_planted_and_thirty_of_our_own() -> None:
    planted = {bug.name for bug in SIMULATED} | {"sync_lies", "sync_dir_lies"}
    planted |= {plant.__name__ for plant in CRASH}
    planted |= {plant.__name__.lstrip("_") for plant, _ in TRANSACTIONS}
    assert {*CLASSIC.values()} <= planted
    assert len(planted - {*CLASSIC.values()}) >= 30


def test_the_table_names_what_found_a_bug_and_what_nothing_found(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        """<testsuites><testsuite>
        <testcase classname="tests.simulation.test_plants" name="test_it[a late ack is applied]">
        <properties><property name="campaign summary"
         value="seed 7: seed 7; again: cd tests &amp;&amp; python -m simulation.world 7: lost"/></properties>
        </testcase>
        <testcase classname="tests.crash.test_plants" name="test_it[_of_ours-]"><failure/></testcase>
        <testcase classname="tests.crash.test_plants" name="test_without_a_plant_nobody_objects[damage]"/>
        </testsuite></testsuites>"""
    )
    *_, first, second = table(rows_of(report)).splitlines()
    assert first == (
        "| **a late ack that counts behind a seek** (a late ack is applied)"
        " | `tests/simulation/test_plants.py` | seed 7: lost |"
    )
    assert second == "| of ours | NOTHING |  |"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        *[(["--part", told], "is no piece") for told in ("0/4", "5/4", "1/0", "2", "a/b")],
        *[(["--count", told], "is no count") for told in ("-1", "many")],
        (["--only", "nowhere"], "no bug is left to be planted"),
    ],
    ids=str,
)
def test_what_plants_nothing_is_refused_with_one_line(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run.main(arguments)
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err.splitlines()[-1]


def test_a_table_goes_where_the_page_has_its_place() -> None:
    page = PAGE.read_text()
    begin, end = page.index(tables.BEGIN), page.index(tables.END)
    changed = in_page(page, "rows")
    assert changed == f"{page[:begin]}{tables.BEGIN}\nrows\n{page[end:]}"
    for without in (tables.BEGIN, tables.END):
        with pytest.raises(ValueError, match="has no place for the table"):
            in_page(page.replace(without, ""), "rows")


@pytest.mark.parametrize("text", [None, "", "def test_without_a_plant(): pass"])
def test_a_page_stays_as_it_is_where_nothing_was_planted(
    text: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A bug that was not planted is missing from it, and from those that went unnoticed."""
    page, tests = tmp_path / "page.md", tmp_path / "test_it.py"
    page.write_text(PAGE.read_text())
    monkeypatch.setattr(tables, "PAGE", page)
    if text is not None:
        tests.write_text(text)
    assert tables.main(["--write"], [str(tests)]) == 2
    assert capfd.readouterr().err.splitlines()[-1].endswith(": the page stays as it is")
    assert page.read_text() == PAGE.read_text()
