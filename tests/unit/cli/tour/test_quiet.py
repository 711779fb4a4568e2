"""A start that goes well is not heard; one that fails is heard in full."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

from milepost.cli.tour.quiet import quiet


def greet() -> None:
    subprocess.run([sys.executable, "-c", "import os; os.write(2, b'hello')"], check=True)


def test_a_child_is_not_heard(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet():
        greet()
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"


def test_unless_it_failed(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with quiet():
            greet()
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert capfd.readouterr().err == "hello"


def test_an_interrupt_is_no_failure(capfd: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        with quiet():
            greet()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert capfd.readouterr().err == ""


def test_or_somebody_debugs(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "level", logging.DEBUG)
    logging.getLogger().manager._clear_cache()  # type: ignore[attr-defined]
    with quiet():
        greet()
    logging.getLogger().manager._clear_cache()  # type: ignore[attr-defined]
    assert capfd.readouterr().err == "hello"
