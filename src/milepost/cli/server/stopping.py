"""Handles SIGTERM and Ctrl-C.

with stopping() as stop:
    while not stop.wait(10): work()

A second signal does not wait: it ends the process as it always did.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stopping() -> Iterator[threading.Event]:
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def asked(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in SIGNALS:
        signal.signal(number, asked)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
