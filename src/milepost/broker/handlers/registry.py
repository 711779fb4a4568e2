"""Which function answers which command."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from milepost.broker.session import Session

Work = Coroutine[Any, Any, None] | None
HandlerFunction = Callable[["Session", Any], Work]
F = TypeVar("F", bound=Callable[..., Work])


class Handler(NamedTuple):
    kind: int
    handle: HandlerFunction
    doc: str


HANDLERS: dict[int, Handler] = {}


def handles(kind: int) -> Callable[[F], F]:
    """Register a handler; its docstring is its paragraph in docs/wire.md."""

    def register(function: F) -> F:
        assert kind not in HANDLERS, f"command {kind} has two handlers"
        assert function.__doc__, f"the handler of command {kind} says nothing of itself"
        HANDLERS[kind] = Handler(kind, function, function.__doc__)
        return function

    return register
