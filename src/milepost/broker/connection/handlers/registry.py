"""Which function answers which command, and the right that the client needs for it.

    @handles(Kind.SUBSCRIBE, needs=Operation.CONSUME)
    async def subscribe(session, command): ...

The command's own fields (`topic`, `namespace`, `subscription`) say what the operation is done to. There
is no handler without a need: the session judges it before the handler hears of the command.

    @hears(Kind.SEND)
    def send(session, event): ...

SEND, ACK and FLOW come as events of the scanners. The session calls their handlers directly, and judges
nothing: each names a producer or consumer that was judged when it was opened. Commands of transactions come
as events too, and are handled as every other command.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from milepost.broker.auth.operations import Operation

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session
    from milepost.wire.events import Ack

Work = Coroutine[Any, Any, None] | None
HandlerFunction = Callable[["Session", Any], Work]
F = TypeVar("F", bound=Callable[..., Work])


class Unfinished(Exception):
    """An event was obeyed in part: `rest` is to be obeyed next, when others have had their turn."""

    def __init__(self, rest: Ack) -> None:
        super().__init__(rest)
        self.rest = rest


class Handler(NamedTuple):
    kind: int
    handle: HandlerFunction
    needs: Operation
    doc: str


HANDLERS: dict[int, Handler] = {}
EVENT_HANDLERS: dict[int, Handler] = {}
"""Of the commands that come as events: for the list of the protocol, not for calling them."""


def handles(kind: int, *, needs: Operation) -> Callable[[F], F]:
    """Register the handler of a command; its docstring is its section in docs/wire.md."""
    return _register(HANDLERS, kind, needs)


def hears(kind: int) -> Callable[[F], F]:
    """Register the handler of a command that comes as an event."""
    return _register(EVENT_HANDLERS, kind, Operation.HELD)


def _register(table: dict[int, Handler], kind: int, needs: Operation) -> Callable[[F], F]:
    def register(function: F) -> F:
        is_taken = kind in HANDLERS or kind in EVENT_HANDLERS
        assert not is_taken, f"command {kind} has two handlers"
        assert function.__doc__, f"the handler of command {kind} says nothing of itself"
        table[kind] = Handler(kind, function, needs, function.__doc__)
        return function

    return register
