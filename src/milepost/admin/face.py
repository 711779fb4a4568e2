"""Makes the methods of both clients from one description of the calls.

`call` makes a method of a script. On a `SyncFace` it returns the result, on an `AsyncFace`
(`aio.py`) a coroutine of it, with the same arguments; type checkers see both.

    class Calls:
        get_tenants = call(tenants.get_tenants)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, overload

from milepost.admin.errors import AdminError
from milepost.admin.request import Answer, Request, Script

if TYPE_CHECKING:
    from typing import Self

    from milepost.admin.aio import AsyncFace

P = ParamSpec("P")
T = TypeVar("T")


class Transport(Protocol):
    """Exchanges a request for an answer; a refusal is raised as `AdminError`."""

    def exchange(self, request: Request) -> Answer: ...

    def close(self) -> None: ...


class SyncFace:
    """Calls return their result."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def run(self, script: Script[T]) -> T:
        """Exchange what a script asks for until it returns. It hears refusals, and may go on."""
        try:
            request = next(script)
            while True:
                try:
                    answer = self._transport.exchange(request)
                except AdminError as error:
                    request = script.throw(error)
                else:
                    request = script.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class call(Generic[P, T]):
    """A script as a method of either face."""

    def __init__(self, script: Callable[P, Script[T]]) -> None:
        self.script = script
        self.__doc__ = script.__doc__

    @overload
    def __get__(self, face: None, owner: type) -> call[P, T]: ...

    @overload
    def __get__(self, face: SyncFace, owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, face: AsyncFace, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    def __get__(self, face: SyncFace | AsyncFace | None, owner: type) -> Any:
        if face is None:
            return self
        run: Callable[[Script[T]], Any] = face.run

        @functools.wraps(self.script)
        def bound(*args: P.args, **kwargs: P.kwargs) -> Any:
            return run(self.script(*args, **kwargs))

        return bound
