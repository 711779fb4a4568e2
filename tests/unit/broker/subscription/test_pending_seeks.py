"""Who waits for seeks hears when the last of them is durable, behind its own answer."""

from __future__ import annotations

from milepost.broker.subscription.pending_seeks import PendingSeeks
from milepost.errors import PersistenceError


def test_without_a_seek_nobody_waits() -> None:
    heard: list[str] = []
    PendingSeeks().after(lambda: heard.append("at once"))
    assert heard == ["at once"]


def test_the_last_of_several_lets_them_go_also_when_it_failed() -> None:
    seeks, heard = PendingSeeks(), []
    first = seeks.begin(lambda error: heard.append("first"))
    second = seeks.begin(lambda error: heard.append(f"second {error}"))
    seeks.after(lambda: heard.append("resumed"))
    first(None)
    assert heard == ["first"]
    second(PersistenceError("full"))
    assert heard == ["first", "second full", "resumed"]
    seeks.after(lambda: heard.append("at once"))
    assert heard[-1] == "at once"
