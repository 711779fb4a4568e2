"""Signatures: said once, seen everywhere, and calls that arrive."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from milepost.client.signatures import Facade, blocking, direct, like, on_loop, taking


@dataclass
class Order:
    topic: str
    size: int = 3


class Inner:
    @taking(Order)
    async def make(self, order: Order) -> str:
        """Make it."""
        return f"{order.topic} {order.size}"

    def place(self, content: bytes, key: str | None = None) -> tuple[bytes, str | None]:
        return content, key

    @like(place)
    async def send(self, *args: Any, **fields: Any) -> tuple[bytes, str | None]:
        return self.place(*args, **fields)


class Loop:
    """Runs it here, and counts."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        self.runs += 1
        with pytest.raises(StopIteration) as stopped:
            work.send(None)
        return stopped.value.value

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        self.runs += 1
        return function(*args)


class Outer(Facade):
    make = blocking(Inner.make)
    send = blocking(Inner.send)
    place = on_loop(Inner.place)
    peek = direct(Inner.place)


def test_a_method_takes_what_its_options_take() -> None:
    assert str(inspect.signature(Inner.make)) == "(self, topic: 'str', size: 'int' = 3) -> 'str'"
    assert Inner.make.__doc__ == "Make it."
    assert inspect.iscoroutinefunction(Inner.make)
    with pytest.raises(TypeError, match="nonsense"):
        Inner().make("t", nonsense=1).send(None)  # type: ignore[call-arg]


def test_a_method_takes_what_another_takes() -> None:
    for method in (Inner.send, Outer.send):
        names = list(inspect.signature(method).parameters)
        assert names == ["self", "content", "key"]


def test_calls_arrive() -> None:
    loop = Loop()
    outer = Outer(Inner(), loop)
    assert outer.make("t", size=4) == "t 4"
    assert outer.make(topic="t") == "t 3"
    assert outer.send(b"x", "k") == (b"x", "k")
    assert outer.place(b"x", key="k") == (b"x", "k")
    assert loop.runs == 4
    assert outer.peek(b"y") == (b"y", None)
    assert loop.runs == 4
    assert not inspect.iscoroutinefunction(Outer.make)


def test_a_missing_argument_is_told_of_the_method() -> None:
    with pytest.raises(TypeError, match=r"^Inner\.make\(\) missing .* argument: 'topic'"):
        Inner().make().send(None)  # type: ignore[call-arg]
