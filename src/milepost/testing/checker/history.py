"""Write a history, from as many threads and processes as there are.

    history = History(path)
    asked = history.invoke("ack", topic="t", sub="s", by="c", messages=["a"])
    history.ok(asked)                      # or fail, or unknown
    history.note("kill", t=time.monotonic())

Without a path the lines stay in memory. A line is in the file when the call returns, so that a process
which is killed behind an invocation has told it. `merged` puts histories of several processes into one,
by the time that each line has.
"""

from __future__ import annotations

import heapq
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from milepost.testing.checker.events import INVOKE, VERSION, Event

BUFFER_SIZE = 1 << 20


def _encoder() -> Callable[[Any], str]:
    """Compact JSON. The library makes its encoder anew for every line, which takes longer than the line."""
    of_library = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return of_library.encode
    text = json.encoder.encode_basestring_ascii
    pieces = make(None, of_library.default, text, None, ":", ",", False, False, False)
    return lambda event: "".join(pieces(event, 0))


_encode = _encoder()


class History:
    """Invariant: lines stand in the order in which the calls were made."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        first_n: int = 0,
        window_s: float = 0.1,
        buffered: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`first_n`: processes whose histories are merged number their operations apart. `buffered`: the
        process will not be killed, so lines may wait until they are read."""
        self.counts: Counter[str] = Counter()
        """As a verdict counts them: by `op`, or by `op outcome`, how many were written."""
        self._numbers = itertools.count(first_n)
        self._ops: dict[int, str] = {}
        self._lock = threading.Lock()
        self._clock = clock
        self._lines: list[str] = []
        self._path = path
        self._file: IO[bytes] | None = None
        if path is not None:
            self._file = path.open("xb", buffering=BUFFER_SIZE if buffered else 0)
        self._write({"history": VERSION, "window_s": window_s})

    def invoke(self, op: str, **fields: Any) -> int:
        """Say, before it is done, what is asked for. The number is for its outcome."""
        with self._lock:
            n = next(self._numbers)
            self._ops[n] = op
            self._write({"is": INVOKE, "op": op, "n": n, **fields}, f"{op} {INVOKE}")
        return n

    def ok(self, n: int, **fields: Any) -> None:
        self._end("ok", n, fields)

    def fail(self, n: int, **fields: Any) -> None:
        """It did not happen, and never will."""
        self._end("fail", n, fields)

    def unknown(self, n: int, **fields: Any) -> None:
        """It happened or not, or it still may."""
        self._end("unknown", n, fields)

    def note(self, op: str, **fields: Any) -> None:
        """Say what was observed."""
        with self._lock:
            self._write({"op": op, **fields}, op)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def lines(self) -> Iterator[str]:
        """Everything that was written."""
        if self._path is None:
            yield from self._lines
        else:
            if self._file is not None and not self._file.closed:
                self._file.flush()
            with self._path.open(encoding="utf-8") as file:
                yield from file

    def _end(self, outcome: str, n: int, fields: dict[str, Any]) -> None:
        with self._lock:
            op = self._ops.pop(n)
            self._write({"is": outcome, "n": n, **fields}, f"{op} {outcome}")

    def _write(self, event: dict[str, Any], counted: str | None = None) -> None:
        if "t" not in event and counted is not None:
            event["t"] = self._clock()
        self._keep(event)
        if counted is not None:
            self.counts[counted] += 1

    def _keep(self, event: Event) -> None:
        line = _encode(event) + "\n"
        if self._file is None:
            self._lines.append(line)
        else:
            self._file.write(line.encode())


class EventHistory(History):
    """A history in memory that becomes text only where its lines are asked for. What an event was given must
    not be changed afterwards."""

    def __init__(self, **options: Any) -> None:
        self.events: list[Event] = []
        """As `judge_events` takes them."""
        super().__init__(**options)

    def lines(self) -> Iterator[str]:
        for event in self.events:
            yield _encode(event) + "\n"

    def _keep(self, event: Event) -> None:
        self.events.append(event)


def merged(histories: Iterable[Path | Iterable[str]], into: Path) -> None:
    """Make one history of those of several processes of one machine, in the order of their clock.

    The last line of a process that was killed may be cut: what it says was not done yet. All of them have
    one window of acks without an answer.
    """
    parts = [_whole_lines(one) for one in histories]
    headers = [json.loads(next(part, "{}")) for part in parts]
    windows = {header["window_s"] for header in headers if "window_s" in header}
    if len(windows) > 1:
        raise ValueError(f"histories of several windows: {sorted(windows)}")
    with into.open("w", encoding="utf-8") as file:
        header = {"history": VERSION, **({"window_s": windows.pop()} if windows else {})}
        file.write(_encode(header) + "\n")
        for line in heapq.merge(*parts, key=_time_of):
            file.write(line)


def _time_of(line: str) -> float:
    return float(json.loads(line)["t"])


def _whole_lines(history: Path | Iterable[str]) -> Iterator[str]:
    if isinstance(history, Path):
        with history.open(encoding="utf-8") as file:
            yield from _whole_lines(file)
        return
    yield from (line for line in history if line.endswith("\n"))
