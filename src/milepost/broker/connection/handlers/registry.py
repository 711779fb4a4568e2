"""Which function answers which command, and the right that the client needs for it.

    @handles(Kind.SUBSCRIBE, needs=Operation.CONSUME)
    async def subscribe(session, command): ...

The command's own fields (`topic`, `namespace`, `subscription`) say what the operation is done to. There
is no handler without a need: the session judges it before the handler hears of the command.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from milepost.broker.auth.operations import Operation, Scope

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session

Work = Coroutine[Any, Any, None] | None
HandlerFunction = Callable[["Session", Any], Work]
F = TypeVar("F", bound=Callable[..., Work])


class Handler(NamedTuple):
    kind: int
    handle: HandlerFunction
    needs: Operation
    doc: str


HANDLERS: dict[int, Handler] = {}


# The field of a command that names what an operation is done to.
NAMED_BY = {Scope.NAMESPACE: "namespace", Scope.TOPIC: "topic"}


def handles(kind: int, *, needs: Operation) -> Callable[[F], F]:
    """Register a handler; its docstring is its paragraph in docs/wire.md."""

    def register(function: F) -> F:
        assert kind not in HANDLERS, f"command {kind} has two handlers"
        assert function.__doc__, f"the handler of command {kind} says nothing of itself"
        HANDLERS[kind] = Handler(kind, function, needs, function.__doc__)
        return function

    return register
