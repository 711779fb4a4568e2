"""The goals of speed: how figures become a table, a verdict, a page and pictures."""

from __future__ import annotations

import asyncio
import json
import sys
from argparse import Namespace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import peers
from bench.goals import figures, goals, measure, report, workloads
from bench.goals.figures import BEFORE, KAFKA, OURS, PULSAR, Run, Side
from bench.goals.goals import COMPARISONS, GOALS, Goal, at_least, at_most
from bench.goals.judgement import Verdict, judge, rows
from bench.goals.measure import main as run_goals
from bench.goals.page import page
from bench.goals.plots import Bar, bars_svg, goals_plot, peers_plot
from bench.goals.servers import Server, gathered
from bench.goals.terminal import tables
from bench.load.target import Target

ABSENT = {PULSAR: "MILEPOST_PEER names no program", KAFKA: "MILEPOST_PEER names no program"}
RATE_TO_PULSAR = Goal(
    "rate to Apache Pulsar's",
    Side("w", "rate"),
    at_least(2),
    "×",
    "too slow",
    Side("w", "rate", PULSAR),
    "msg/s",
)


def run_of(**changes: object) -> Run:
    """A run that has measured nothing yet."""
    run = Run(
        made="2026-11-18 12:00 UTC",
        commit="abc",
        before="",
        machine={"memory": "4 GiB"},
        servers={OURS: "Milepost"},
        absent={},
        figures={},
        failures={},
    )
    return run._replace(**changes)  # type: ignore[arg-type]


def sides() -> list[Side]:
    return [side for goal in GOALS for side in (goal.over, goal.under) if side is not None]


def full_run(value: float = 1.0) -> Run:
    """Every figure that a goal or a comparison asks for, of every server."""
    run = run_of(
        servers={
            OURS: "Milepost",
            BEFORE: "Milepost before",
            PULSAR: "Apache Pulsar 4.2.4",
            KAFKA: "Apache Kafka",
        },
        before="def",
    )
    asked = {(side.workload, side.measure) for side in sides()}
    asked |= {(one.workload, one.measure) for one in COMPARISONS}
    for workload, name in sorted(asked):
        for server in run.servers:
            figures.add(run.figures, workload, server, {name: value})
    return run


# Figures.


def test_a_figure_has_a_number_for_each_turn_and_its_median_counts() -> None:
    found: figures.Figures = {}
    for turn, value in enumerate((3.0, 1.0, 2.0)):
        figures.add(found, "w", OURS, {"rate": value, "p50_ms": None}, turn)
    assert found == {"w": {OURS: {"rate": [3.0, 1.0, 2.0]}}}
    assert figures.middle(found, Side("w", "rate")) == 2.0
    assert figures.middle(found, Side("w", "p50_ms")) is None


def test_a_ratio_is_the_median_of_the_ratios_of_each_turn() -> None:
    """In the second turn the machine was slow for both."""
    found: figures.Figures = {"w": {OURS: {"rate": [20, 3, 22]}, PULSAR: {"rate": [10, 1, 11]}}}
    assert figures.ratio(found, Side("w", "rate"), Side("w", "rate", PULSAR)) == 2


def test_a_turn_that_broke_down_has_no_ratio() -> None:
    """It broke down on each of them once, not in the same turn."""
    found: figures.Figures = {}
    for server, turn, rate in ((OURS, 0, 20), (OURS, 2, 90), (PULSAR, 1, 1), (PULSAR, 2, 30)):
        figures.add(found, "w", server, {"rate": rate}, turn)
    assert found["w"][OURS]["rate"] == [20, None, 90]
    assert figures.middle(found, Side("w", "rate")) == 55
    assert figures.ratio(found, Side("w", "rate"), Side("w", "rate", PULSAR)) == 3
    del found["w"][PULSAR]["rate"][2]
    assert figures.ratio(found, Side("w", "rate"), Side("w", "rate", PULSAR)) is None


def test_a_ratio_that_is_not_that_of_two_medians_is_explained() -> None:
    """The peer was cold in the first turn, and someone else was busy in the last."""
    ours, theirs = [0.579, 0.218, 0.1208], [7.01, 0.168, 0.21]
    workload = "topics-1000"
    found = {workload: {OURS: {goals.OPEN: ours}, PULSAR: {goals.OPEN: theirs}}}
    run = run_of(servers={OURS: "Milepost", PULSAR: "Apache Pulsar"}, figures=found)
    (row,) = [line for line in page(run).splitlines() if line.startswith("| open 1,000 topics")]
    assert "| 0.218 | – | 0.210 | 0.575 × (turns 0.083 to 1.30) |" in row
    goal = RATE_TO_PULSAR._replace(
        over=Side(workload, goals.OPEN), under=Side(workload, goals.OPEN, PULSAR), detail_unit="s"
    )
    assert judge(run, goal).detail == "0.218 against 0.210 s; turns 0.083 to 1.30"


def test_a_run_is_the_same_after_it_was_kept() -> None:
    run = full_run()
    assert Run.from_json(json.loads(json.dumps(run.to_json()))) == run


# Turns.


def test_a_turn_meets_nothing_of_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a turn reads but does not ack would come to the consumers of the next one, ahead of its own."""
    monkeypatch.delenv("MILEPOST_PEER", raising=False)
    kept = tmp_path / "goals.json"
    options = ["--only", "latency", "--turns", "2", "--scale", "0.02", "--out", str(kept)]
    status = run_goals(options)
    run = Run.from_json(json.loads(kept.read_text()))
    assert (status, run.failures) == (0, {})
    assert len(run.figures["latency"][OURS][goals.P50]) == 2


# Verdicts.


@pytest.mark.parametrize(
    ("theirs", "verdict"), [(10.0, Verdict.MET), (10.1, Verdict.MISSED), (5.0, Verdict.MET)]
)
def test_a_ratio_to_a_peer_is_judged_by_its_bound(theirs: float, verdict: Verdict) -> None:
    run = run_of(figures={"w": {OURS: {"rate": [20.0]}, PULSAR: {"rate": [theirs]}}})
    row = judge(run, RATE_TO_PULSAR)
    assert row.verdict == verdict
    assert row.value == 20 / theirs
    assert row.detail == f"20.0 against {theirs:.{1 if theirs >= 10 else 2}f} msg/s"


def test_without_a_peer_its_goal_says_so() -> None:
    row = judge(run_of(figures={"w": {OURS: {"rate": [20.0]}}}, absent=ABSENT), RATE_TO_PULSAR)
    assert (row.verdict, row.value, row.reason) == (Verdict.NO_PEER, None, ABSENT[PULSAR])


def test_a_workload_that_broke_down_is_not_measured_and_says_why() -> None:
    row = judge(run_of(failures={f"w {PULSAR}": "TimeoutError: slow"}), RATE_TO_PULSAR)
    assert (row.verdict, row.reason) == (Verdict.NOT_MEASURED, "TimeoutError: slow")


def test_upkeep_that_broke_down_is_the_reason_of_each_of_its_goals() -> None:
    run = run_of(failures={f"{goals.UPKEEP_GROUP} {OURS}": "AssertionError: refused"})
    reasons = [row.reason for row in rows(run) if "beside" in row.goal.text]
    assert reasons == ["AssertionError: refused"] * (len(goals.UPKEEP_WORKS) + 1)


def test_before_is_judged_by_the_same_ratio() -> None:
    of_a_peer = {OURS: {"rate": [20.0]}, BEFORE: {"rate": [15.0]}, PULSAR: {"rate": [10.0]}}
    assert judge(run_of(figures={"w": of_a_peer}), RATE_TO_PULSAR).before == 1.5
    own = Goal("cost", Side("many", "cpu"), at_most(3), "×", "why", Side("one", "cpu"))
    run = run_of(
        figures={
            "one": {OURS: {"cpu": [1.0]}, BEFORE: {"cpu": [2.0]}},
            "many": {OURS: {"cpu": [2.0]}, BEFORE: {"cpu": [8.0]}},
        }
    )
    row = judge(run, own)
    assert (row.value, row.before) == (2.0, 4.0)
    assert row.strain == pytest.approx(2 / 3)
    assert row.strain_before == pytest.approx(4 / 3)


# The goals.


def test_every_goal_says_why_it_may_be_missed() -> None:
    assert all(goal.why.endswith(".") for goal in GOALS)
    assert len({goal.text for goal in GOALS}) == len(GOALS)


def test_every_figure_that_is_asked_for_is_of_a_workload() -> None:
    """A goal without its workload would stay unmeasured for ever."""
    asked = {side.workload.partition(":")[0] for side in sides()}
    asked |= {comparison.workload for comparison in COMPARISONS}
    assert asked <= set(workloads.NAMES)
    of_peers = {side.workload for side in sides() if side.server != OURS}
    assert of_peers <= set(workloads.IN_TURNS)
    assert set(workloads.ON_KAFKA) <= set(workloads.IN_TURNS)


def test_no_workload_is_run_for_nothing() -> None:
    asked = {side.workload.partition(":")[0] for side in sides()}
    asked |= {comparison.workload for comparison in COMPARISONS}
    assert set(workloads.NAMES) == asked


# What is told.


def test_the_table_has_a_row_for_each_goal_and_the_ratios_to_the_peers() -> None:
    told = tables(full_run())
    for row in rows(full_run()):
        assert f"\n{row.goal.text}" in told
    assert "1.00 ×" in told
    assert "before" in told
    assert Verdict.NO_PEER not in told


def test_the_table_of_a_run_alone_says_that_there_is_no_peer() -> None:
    told = tables(run_of(absent=ABSENT))
    assert sum(Verdict.NO_PEER in line for line in told.splitlines()) > len(COMPARISONS)


def test_the_page_tells_why_a_goal_is_missed_and_nothing_of_one_that_is_met() -> None:
    run = full_run(1000.0)
    text = page(run).partition("## What is not reached")[2].partition("\n## ")[0]
    for row in rows(run):
        assert (row.goal.text in text) == (row.verdict != Verdict.MET)
    assert page(run).count("**missed**") == sum(row.verdict == Verdict.MISSED for row in rows(run))


def test_the_page_names_machine_commit_and_day() -> None:
    text = page(run_of(before="def", absent=ABSENT))
    for told in ("4 GiB", "abc", "def", "2026-11-18", ABSENT[PULSAR]):
        assert told in text


def test_figures_of_a_part_of_the_size_do_not_count_and_the_page_says_so() -> None:
    assert "do not count" in page(run_of(scale=0.1))
    assert "do not count" not in page(run_of())


def test_what_went_wrong_is_told_without_folders() -> None:
    told = figures.without_paths("[Errno 2] No such file: '/opt/peers/peer' at pulsar://a:1/b")
    assert told == "[Errno 2] No such file: '…' at pulsar://a:1/b"


def test_the_report_writes_the_page_and_its_pictures(tmp_path: Path) -> None:
    kept = tmp_path / "goals.json"
    kept.write_text(json.dumps(full_run().to_json()))
    assert report.main(["--figures", str(kept), "--docs", str(tmp_path)]) == 0
    text = (tmp_path / "benchmarks.md").read_text()
    pictures = sorted(path.name for path in (tmp_path / "benchmarks").iterdir())
    assert pictures == ["goals.svg", "peers.svg"]
    assert all(f"(benchmarks/{name})" in text for name in pictures)
    kept.write_text(json.dumps(run_of(absent=ABSENT).to_json()))
    report.main(["--figures", str(kept), "--docs", str(tmp_path)])
    assert [path.name for path in (tmp_path / "benchmarks").iterdir()] == ["goals.svg"]


def test_without_figures_there_is_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.main(["--figures", str(tmp_path / "none"), "--docs", str(tmp_path)]) == 2
    assert "no figures yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "problem"),
    [("", "has no figures"), ('{"made"', "has no figures"), ("[]", "is not of a run"),
     ('{"made": 1}', "is not of a run")],
)  # fmt: skip
def test_a_file_that_is_of_no_run_is_refused_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    (tmp_path / "figures").write_text(text)
    for figures_of, docs in ((tmp_path / "figures", tmp_path / "docs"), (tmp_path, tmp_path)):
        assert report.main(["--figures", str(figures_of), "--docs", str(docs)]) == 2
        assert problem in (told := capsys.readouterr().err) or figures_of == tmp_path
        assert told.count("\n") == 1
    assert not (tmp_path / "docs").exists()


def test_a_page_that_cannot_be_written_is_told_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "goals.json"
    kept.write_text(json.dumps(full_run().to_json()))
    assert report.main(["--figures", str(kept), "--docs", str(kept)]) == 2
    assert capsys.readouterr().err.startswith("the page cannot be written: ")


def test_the_page_tells_what_broke_down() -> None:
    text = page(full_run()._replace(failures={f"acks-32 {PULSAR}": "TimeoutError: a|b"}))
    assert "## What broke down" in text
    assert f"| acks-32 {PULSAR} | TimeoutError: a/b |" in text
    assert "broke down" not in page(full_run())


# What is asked for.


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--only", ""], "no workload is called ''"),
        (["--only", "idle,"], "no workload is called ''"),
        (["--only", "nope"], "no workload is called 'nope'; there are publish-1"),
        *[(["--turns", told], "is no number of turns") for told in ("0", "-1", "²", "many")],
        *[(["--scale", told], "is no scale") for told in ("0", "-1", "nan", "inf", "much")],
        (["--before", "nothing"], "nothing is no commit"),
        (["--before=--output=x"], "--output=x is no commit"),
        (["--before", "HEAD^{tree}"], "is no commit"),
        (["--out", "/dev/null/x"], "File exists"),
        (["--out", "/"], "Is a directory"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused_before_anything_is(
    options: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one line behind the usage, and figures of the run before stay."""
    kept = tmp_path / "goals.json"
    kept.write_text("{}")
    with pytest.raises(SystemExit) as ended:
        measure.main(["--out", str(kept), "--only", "idle", *options])
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert not out
    assert problem in err.splitlines()[-1]
    assert kept.exists()


def test_a_turn_that_stands_still_is_noted_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "TURN_TIMEOUT_S", 0.01)

    async def stands_still() -> figures.Measures:
        await asyncio.Event().wait()
        return {}

    async def works() -> figures.Measures:
        return {"rate": 3.0}

    async def run() -> Run:
        measuring = measure.Measuring(run_of(), tmp_path / "goals.json")
        await measuring.take("w", PULSAR, stands_still())
        await measuring.take("w", PULSAR, works(), 1)
        return measuring.run

    told = asyncio.run(run())
    assert told.failures == {f"w {PULSAR}": "TimeoutError"}
    assert told.figures == {"w": {PULSAR: {"rate": [None, 3.0]}}}


def test_each_turn_has_topics_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To open those of the turn before costs a broker nothing: its median was that of doing nothing."""
    topics = []

    async def opens(load: measure.Load) -> figures.Measures:
        topics.append(load.topic("it"))
        await asyncio.sleep(0.002)  # sleep: runs are named by the millisecond in which they begin
        return {}

    monkeypatch.setattr(measure, "IN_TURNS", {"w": opens})
    servers = [Server(OURS, "Milepost", Target("pulsar://127.0.0.1:1"))]
    measuring = measure.Measuring(run_of(), tmp_path / "goals.json")
    arguments = Namespace(turns=3, scale=1.0)
    asyncio.run(measure._in_turns(measuring, servers, ["w"], arguments))
    assert len({*topics}) == 3


@pytest.mark.parametrize("end", ["signal.pause()", "sys.exit()"], ids=["is deaf", "has ended"])
def test_a_peer_that_is_ready_and_does_not_answer_is_left_out(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "peer"
    program.write_text(
        f"#!{sys.executable}\nimport os, signal, sys\n"
        f"print('ready 1 pid', os.getpid(), flush=True)\n{end}\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv(peers.PROGRAM_NAME, str(program))

    async def run() -> None:
        async with gathered(None) as (servers, absent):
            assert [server.key for server in servers] == [OURS, KAFKA]
            assert absent[PULSAR].startswith("said that it is ready, and does not answer")

    asyncio.run(run())


# Pictures.


def test_a_picture_is_small_and_the_same_for_the_same_figures() -> None:
    for plot in (goals_plot, peers_plot):
        picture = plot(full_run())
        ElementTree.fromstring(picture)
        assert picture == plot(full_run())
        assert len(picture) < 20_000


def test_bars_go_to_either_side_of_one_and_stay_inside() -> None:
    picture = bars_svg("a < b", [Bar("half", 0.5, "red"), Bar("endless", 1e9, "red", mark=1e-9)])
    root = ElementTree.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    _, half, endless = root.findall(f"{space}rect")
    one = int(half.attrib["x"]) + int(half.attrib["width"])
    assert int(endless.attrib["x"]) == one
    assert one + int(endless.attrib["width"]) <= int(root.attrib["width"])
