"""The tour fails, and says how, when what it shows is not as promised."""

from __future__ import annotations

import sys

import pytest

from milepost.cli.exits import Exit
from milepost.cli.main import run
from milepost.cli.tour.tour import expect


def test_a_promise_that_holds_is_silent() -> None:
    expect("received", ["a"], ["a"])


def test_a_promise_that_does_not_hold_is_told() -> None:
    with pytest.raises(Exception, match=r"the tour failed: received: expected \['a'\], got \[\]"):
        expect("received", ["a"], [])


def test_without_the_official_client_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pulsar", None)
    assert run(["demo"]) == Exit.USAGE
    assert capsys.readouterr().err == (
        "milepost: the tour needs the official Pulsar client; pip install pulsar-client\n"
    )
