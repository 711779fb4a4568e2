"""A loop whose connections do not outlive it."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_and_collect(
    play: Coroutine[Any, Any, T], loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> T:
    """As `asyncio.run`, for tests that end while peers still connect or say goodbye by TLS.

    The loop forgets such sockets: it closes before their connections are lost, and a server that closes right
    behind an accept drops what it accepted. The garbage collector would complain of them in the middle of
    another test.
    """
    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            return runner.run(play)
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
