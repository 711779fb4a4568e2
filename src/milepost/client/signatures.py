"""Builds the signatures of methods from the options, for both clients.

What a user may say of a producer is the class `ProducerOptions`; `create_producer` takes its arguments.
The synchronous client's methods are the asyncio one's, waited for. Type checkers, `help` and `inspect`
see the whole signature everywhere.

    class Client:
        @taking(ProducerOptions)
        async def create_producer(self, options: ProducerOptions) -> Producer: ...

    client.create_producer("orders", producer_name="till-1")
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")
Self = TypeVar("Self")
Options = TypeVar("Options")


def taking(
    kind: Callable[P, Options],
) -> Callable[[Callable[[Self, Options], T]], Callable[Concatenate[Self, P], T]]:
    """The method is called with the arguments of a class, and is given the object made of them."""

    def decorate(method: Callable[[Self, Options], T]) -> Callable[Concatenate[Self, P], T]:
        def made(*args: P.args, **kwargs: P.kwargs) -> Options:
            try:
                return kind(*args, **kwargs)
            except (
                TypeError
            ) as error:  # the caller knows the method's name, and no class of options
                class_name = f"{getattr(kind, '__name__', '')}.__init__()"
                told = str(error).replace(class_name, f"{method.__qualname__}()")
                raise TypeError(told).with_traceback(error.__traceback__) from None

        @wraps(method)
        def call(self: Self, /, *args: P.args, **kwargs: P.kwargs) -> T:
            return method(self, made(*args, **kwargs))

        @wraps(method)
        async def wait(self: Self, /, *args: P.args, **kwargs: P.kwargs) -> Any:
            return await cast("Awaitable[Any]", method(self, made(*args, **kwargs)))

        # What was a coroutine function is one, also for who asks.
        taken = wait if inspect.iscoroutinefunction(method) else call
        _show(taken, kind, method)
        return cast("Callable[Concatenate[Self, P], T]", taken)

    return decorate


def like(
    source: Callable[Concatenate[Any, P], object],
) -> Callable[[Callable[..., T]], Callable[Concatenate[Any, P], T]]:
    """The method takes what another takes, and hands it on."""

    def decorate(method: Callable[..., T]) -> Callable[Concatenate[Any, P], T]:
        _show(method, source, method)
        return method

    return decorate


class Waiting(Protocol):
    """A loop on a thread of its own (loop_thread.py)."""

    def run(self, work: Coroutine[Any, Any, T]) -> T: ...
    def call(self, function: Callable[..., T], *args: Any) -> T: ...


class Facade:
    """An object on a loop, for other threads."""

    def __init__(self, inner: Any, loop: Waiting, owner: object = None) -> None:
        """`owner`: who ends the loop when it is forgotten, and so lives as long as this."""
        self._inner = inner
        self._loop = loop
        self._owner = owner

    def __repr__(self) -> str:
        return repr(self._inner)


def inner_of(value: object) -> Any:
    """What a facade stands for; any other value as it is."""
    return value._inner if isinstance(value, Facade) else value


def blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """A facade's method that has the object's coroutine done on its loop, and waits for it."""
    name = method.__name__

    @wraps(method)
    def call(self: Facade, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if "txn" in kwargs:
            kwargs["txn"] = inner_of(kwargs["txn"])
        work: Coroutine[Any, Any, T] = getattr(self._inner, name)(*args, **kwargs)
        return self._loop.run(work)

    return call


def on_loop(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """… the object's plain method, which changes something, called on its loop."""
    name = method.__name__

    @wraps(method)
    def call(self: Facade, /, *args: P.args, **kwargs: P.kwargs) -> T:
        bound: Callable[P, T] = getattr(self._inner, name)
        return self._loop.call(lambda: bound(*args, **kwargs))

    return call


def direct(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """… the object's plain method, which only tells what is, called right here."""
    name = method.__name__

    @wraps(method)
    def call(self: Facade, /, *args: P.args, **kwargs: P.kwargs) -> T:
        told: T = getattr(self._inner, name)(*args, **kwargs)
        return told

    return call


def _show(method: Callable[..., Any], source: Callable[..., Any], returns: Any) -> None:
    """Have `inspect` tell the arguments of `source`."""
    given = inspect.signature(source)
    parameters = list(given.parameters.values())
    if not parameters or parameters[0].name != "self":
        parameters.insert(0, inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD))
    result = returns.__annotations__.get("return", inspect.Signature.empty)
    method.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        parameters, return_annotation=result
    )
