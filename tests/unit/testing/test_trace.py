"""Trace: a list that reads like a story."""

from __future__ import annotations

import pytest

from milepost.testing.trace import (
    Append,
    Damage,
    Mark,
    Sync,
    SyncDir,
    SyncEffect,
    Trace,
    folder_of,
)


def test_marks_stand_between_operations() -> None:
    trace = Trace()
    trace.ops.append(Append("a", 0, 0, b"abc"))
    trace.mark("receipt", 17)
    trace.mark("checkpoint")
    assert len(trace) == 3
    assert trace.ops[1:] == [Mark("receipt", 17), Mark("checkpoint", None)]


@pytest.mark.parametrize(
    ("op", "text"),
    [
        (Append("j/1", 0, 512, b"abc"), "append j/1 [512, 515)"),
        (Sync("j/1", 0, 1, SyncEffect.FAILED), "sync j/1 (failed)"),
        (SyncDir("", SyncEffect.NOTHING), "sync folder . (nothing)"),
        (Damage("j/1", 0, b""), "damage j/1"),
        (Mark("catalog", "x" * 1_000), "mark catalog '" + "x" * 59),
    ],
)
def test_an_operation_says_what_it_is(op: object, text: str) -> None:
    assert str(op) == text


@pytest.mark.parametrize(("path", "folder"), [("a", ""), ("f/a", "f"), ("f/g/a", "f/g"), ("", "")])
def test_folder_of(path: str, folder: str) -> None:
    assert folder_of(path) == folder
