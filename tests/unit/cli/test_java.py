"""Java is found, or one line says how to get it."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.cli import java
from milepost.cli.exits import Exit
from milepost.cli.main import run


def home(folder: Path, script: str) -> str:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(folder)


def test_a_java_that_is_new_enough_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", home(tmp_path, """echo 'openjdk version "21.0.1"' >&2"""))
    assert java.missing() is None


@pytest.mark.parametrize(
    ("script", "said"),
    [("""echo 'java version "1.8.0_402"' >&2""", "is release 8"), ("true", "is release unknown")],
)
def test_an_old_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", home(tmp_path, script))
    assert (java.missing() or "").startswith("Spark needs Java 17 or newer: install it")
    assert said in (java.missing() or "")


def test_none_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert "cannot be run" in (java.missing() or "")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java.missing() == java.HINT


def test_a_pipeline_without_java_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    # Said before the broker is asked, and behind what is missing.
    assert run(["pipeline", "progress", str(tmp_path), "--record", "1s"]) == Exit.USAGE
    assert capsys.readouterr().err == f"milepost: {java.HINT}\n"
