"""The list of planted bugs is true to the sources: each can be planted, and its tests are there."""

from __future__ import annotations

from pathlib import Path

import pytest
from crash.test_plants import PLANTS as CRASH
from crash.test_transaction_plants import PLANTS as TRANSACTIONS
from simulation.plants import BUGS as SIMULATED
from simulation.plants import Bug as Simulated

from mutations.planted import BUGS, Bug
from mutations.table import CLASSIC, rows_of, table

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
