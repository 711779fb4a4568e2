"""The runner of the campaigns tells what its parts did, and fails when one of them does: campaign.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from campaign import PARTS, Part, counts_of, main
from crash import test_images as crash_images
from crash import test_transaction_images as transactions
from stage.pieces import piece_of

TESTS = """
import os
import pytest

def test_it(summary):
    assert os.environ["MILEPOST_NUMBER"] == "3"
    summary("3 of 3: 0 anomalies")
    {}
"""


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Part:
    """A part of one test, at a hundredth of its 300."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # each start is quicker
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout")
    monkeypatch.setenv("SCALE", "0.01")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text(
        "from stage.pieces import pytest_collection_modifyitems\n"
        "from stage.summaries import pytest_terminal_summary, summary\n"
    )
    return Part("it", "a try", (str(tmp_path / "test_it.py"),), {"MILEPOST_NUMBER": 300}, jobs=0)


@pytest.mark.parametrize(
    ("last", "code", "told"),
    [("pytest.skip()", 1, "FAILED: 1 skipped"), ("pass", 0, "passed: 1 passed")],
    ids=["a part that does nothing", "a part that holds"],
)
def test_a_run(
    part: Part, last: str, code: int, told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    Path(part.tests[0]).write_text(TESTS.format(last))
    assert main(["it"], (part, part._replace(name="another"))) == code
    row = capfd.readouterr().out.splitlines()[-1]
    assert row.startswith("| it | ")
    assert told in row
    assert row.endswith("| a try; number 3; test_it: 3 of 3: 0 anomalies |")


def test_one_part_that_fails_fails_the_whole(
    part: Part, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "test_bad.py"
    bad.write_text(TESTS.format("assert False"))
    Path(part.tests[0]).write_text(TESTS.format("pass"))
    assert main([], (part._replace(name="bad", tests=(str(bad),)), part)) == 1
    *_, first, second = capfd.readouterr().out.splitlines()
    assert first.startswith("| bad | ")
    assert "FAILED: 1 failed" in first
    assert second.startswith("| it | ")
    assert "passed: 1 passed" in second


def test_parts_that_wait_run_beside_the_others(
    part: Part, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each of the two waits until the other has begun; the table has them in their order."""
    waits = """
import os, time
def test_it():
    open({mine!r}, "w").close()
    until = time.monotonic() + 30
    while not os.path.exists({other!r}):
        assert time.monotonic() < until, "the other has not begun"
        time.sleep(0.01)  # sleep: between two looks
"""
    marks = [str(tmp_path / "one"), str(tmp_path / "two")]
    parts = []
    for lane, mine, other in (("work", *marks), ("soak", *marks[::-1])):
        test = tmp_path / f"test_{lane}.py"
        test.write_text(waits.format(mine=mine, other=other))
        parts.append(part._replace(name=lane, tests=(str(test),), lane=lane))
    assert main([], tuple(parts)) == 0
    *_, first, second = capfd.readouterr().out.splitlines()
    assert first.startswith("| work | ")
    assert second.startswith("| soak | ")
    assert re.search(r"\| \d+ s \| \d+ s \| passed: 1 passed", first)


def test_pieces_are_the_whole(
    part: Part, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each test is in one of the pieces."""
    Path(part.tests[0]).write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('number', range(5))\n"
        "def test_it(number, summary): summary('done')\n"
    )
    told = []
    for piece in ("1/2", "2/2"):
        monkeypatch.setenv("PIECE", piece)
        assert main(["it"], (part,)) == 0
        row = capfd.readouterr().out.splitlines()[-1]
        assert f"piece {piece}" in row
        told += re.findall(r"test_it\[(\d)\]: done", row)
    assert sorted(told) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("piece", ["0/2", "3/2", "2", "a/b"])
def test_no_piece(piece: str) -> None:
    with pytest.raises(ValueError, match="the second of eight is 2/8"):
        piece_of(piece)


@pytest.mark.parametrize(
    ("name", "told", "problem"),
    [
        *[("SCALE", told, "is no scale") for told in ("0", "-1", "nan", "inf", "1e400", "much")],
        *[("PIECE", told, "is no piece") for told in ("0/8", "9/8", "eight")],
    ],
)
def test_a_scale_or_piece_that_is_none(
    name: str,
    told: str,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line, and no part has begun."""
    monkeypatch.setenv(name, told)
    assert main(["seeds"], (PARTS[0]._replace(tests=("nowhere",)),)) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith(f"{told!r} {problem}; ")
    assert err.count("\n") == 1


def test_a_part_that_is_named_twice_runs_once(
    part: Part, capfd: pytest.CaptureFixture[str]
) -> None:
    Path(part.tests[0]).write_text(TESTS.format("pass"))
    assert main(["it", "it"], (part,)) == 0
    assert capfd.readouterr().out.count("| it | ") == 1


def test_a_part_whose_process_is_killed(part: Part, capfd: pytest.CaptureFixture[str]) -> None:
    """What it wrote need not be text, and stays in its row."""
    end = "os.write(2, b'\\xff'); os.kill(os.getpid(), 9)"
    Path(part.tests[0]).write_text(f"import os\nos.write(1, b'1 passed | \\xff\\n')\n{end}\n")
    assert main(["it"], (part,)) == 1
    row = capfd.readouterr().out.splitlines()[-1]
    assert "FAILED: killed by SIGKILL" in row
    assert row.count("|") == 6


def test_the_page_says_how_many_images_there_are() -> None:
    """The goal is a hundred thousand."""
    (factor,) = next(part for part in PARTS if part.name == "images").counts.values()
    each = (
        crash_images.LOTS_LONG * crash_images.SEEDS_PER_LOT * crash_images.IMAGES,
        crash_images.STOPPED * crash_images.STOPPED_IMAGES * crash_images.IMAGES_OF_EACH,
        2 * transactions.LOTS_LONG * transactions.SEEDS_PER_LOT * transactions.IMAGES,
    )
    counts = [count * factor for count in each]
    assert sum(counts) >= 100_000
    page = (Path(__file__).parents[1] / "docs/reliability.md").read_text()
    told = "{:,} crash images of stores, {:,} of recoveries that were stopped, {:,} of transactions"
    assert told.format(*counts) in page


def test_a_part_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["seeds", "sedes"]) == 2
    assert "no part sedes; there are seeds, " in capsys.readouterr().err


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_every_part_is_there(part: Part) -> None:
    """Its files exist, each of its counts is read by one of the tests, and no scale makes it nothing."""
    root = Path(__file__).parent.parent
    tests = [root / name for name in part.tests]
    assert all(test.exists() for test in tests)
    folders = [test if test.is_dir() else test.parent for test in tests]
    helpers = [helper for folder in folders for helper in folder.glob("*.py")]
    helpers.append(root / "tests/stage/counts.py")
    for name in part.counts:
        assert any(f'"{name}"' in helper.read_text() for helper in helpers), name
    assert set(counts_of(part, 0.0).values()) == {"1"}
