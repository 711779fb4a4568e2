"""Histories written by threads and by processes that may be killed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from milepost.testing.checker import (
    BadHistory,
    EventHistory,
    History,
    judge,
    judge_events,
    judge_file,
    merged,
)
from milepost.testing.checker.events import Event


def test_threads_write_whole_lines_in_their_order(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl", buffered=True)

    def publish(by: str) -> None:
        for number in range(200):
            sent = history.invoke("publish", topic=by, message=f"m{number}", by=by)
            history.ok(sent, id=[1, number, -1], index=number)

    threads = [threading.Thread(target=publish, args=(by,)) for by in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history.close()
    verdict = judge_file(tmp_path / "history.jsonl")
    assert not verdict.anomalies
    assert verdict.events == {"publish invoke": 800, "publish ok": 800}
    assert history.counts == verdict.events
    assert len(list(history.lines())) == 1601


def test_every_outcome_can_be_said() -> None:
    history = History(window_s=0.5)
    for outcome in (history.ok, history.fail, history.unknown):
        outcome(history.invoke("abort", txn="x"))
    assert judge(history.lines()).events["abort fail"] == 1
    with pytest.raises(KeyError):
        history.ok(0)


def test_no_history_is_overwritten(tmp_path: Path) -> None:
    History(tmp_path / "one").close()
    with pytest.raises(FileExistsError):
        History(tmp_path / "one")


def test_histories_of_processes_become_one_by_their_clock(tmp_path: Path) -> None:
    sent, got = History(tmp_path / "sent"), History(tmp_path / "got", first_n=1000)
    number = sent.invoke("publish", topic="t", message="a", by="p", t=1)
    got.note("receive", topic="t", message="a", t=2)
    sent.ok(number, id=[1, 0, -1], t=3)
    for one in (sent, got):
        one.close()
    with (tmp_path / "sent").open("a") as file:
        file.write('{"is":"invoke","op":"pu')  # it was killed in the middle of a line
    merged([tmp_path / "sent", tmp_path / "got"], tmp_path / "both")
    verdict = judge_file(tmp_path / "both")
    assert not verdict.anomalies
    assert verdict.events.total() == 3
    assert verdict.window_s == 0.1
    merged([tmp_path / "got", []], tmp_path / "one")
    assert judge_file(tmp_path / "one").found == {"phantom": 1}


def test_histories_that_become_one_have_one_window(tmp_path: Path) -> None:
    one, same, other = (list(History(window_s=window_s).lines()) for window_s in (0.5, 0.5, 0.2))
    merged([one, same], tmp_path / "both")
    assert judge_file(tmp_path / "both").window_s == 0.5
    with pytest.raises(ValueError, match=r"several windows: \[0.2, 0.5\]"):
        merged([one, other], tmp_path / "none")


@pytest.mark.parametrize("first", [[], [{"op": "start"}], [{"history": 1, "window_s": "soon"}]])
def test_events_without_a_first_line_are_refused(first: list[Event]) -> None:
    with pytest.raises(BadHistory):
        judge_events(first)


def test_events_are_judged_as_their_lines_are() -> None:
    history = EventHistory(clock=lambda: 1.0)
    sent = history.invoke("publish", topic="t", message="a", by="p")
    history.ok(sent, id=[1, 0, -1], index=0)
    history.note("receive", topic="t", message="b", id=[1, 1, -1])
    lines = [*history.lines()]
    verdict = judge_events(history.events)
    assert [one.name for one in verdict.anomalies] == ["phantom"]
    assert verdict.anomalies == judge(lines).anomalies
    assert [*history.lines()] == lines, "judging has changed them"
