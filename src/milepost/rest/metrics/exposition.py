"""Writes the text of `/metrics` in slices.

A thousand topics are a hundred thousand lines, which take a while to make. So lines are written here by the
stretch, and others have their turn in between. What was read at one moment is the caller's business. The few
families that do not grow with the topics are left to the library, and so is how a family is announced.

    text = Exposition(encode, slices)
    text.add(registry)                                      # whole, by the library
    await text.family(Gauge("a", "Of b.", labels=["b"]), [('{b="c"}', 1.0), …])
    async for part in text.parts(): …                       # b'# HELP … # TYPE a gauge\na{b="c"} 1.0\n'
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Protocol

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from milepost.broker.limits.time_slices import TimeSlices

go_text: Callable[[float], str] = floatToGoString

# How OpenMetrics ends; the older text has no end.
_EOF = b"# EOF\n"
# Lines written between two looks at the clock.
STRETCH = 32
# Bytes handed to the connection at a time.
PIECE_SIZE = 256 * 1024


class _Collected(Protocol):
    """What the library makes text of."""

    def collect(self) -> Iterable[Metric]: ...


Encode = Callable[[Any], bytes]


class _One:
    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)


def labels_text(labels: Sequence[tuple[str, str]]) -> str:
    """Names and values as they stand in a line, the names in order."""
    pairs = [f'{name}="{_escaped(value)}"' for name, value in sorted(labels)]
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class Exposition:
    def __init__(self, encode: Encode, slices: TimeSlices) -> None:
        """`encode` is the library's: of the text that was asked for."""
        self._encode = encode
        self.slices = slices
        self._parts: list[bytes] = []
        self._has_end = False
        # Numbers as they are written. Most are small, and the same of very many topics.
        self._texts: dict[float, str] = {}

    def add(self, collected: _Collected) -> None:
        """Families as the library writes them, in one go."""
        text = self._encode(collected)
        if text.endswith(_EOF):
            self._has_end = True
            text = text[: -len(_EOF)]
        self._parts.append(text)

    async def family(self, family: Metric, values: Iterable[tuple[str, float]]) -> None:
        """An empty family, and what it says by its labels' text."""
        self.add(_One(family))
        name = family.name + "_total" * isinstance(family, CounterMetricFamily)
        lines: list[str] = []
        texts = self._texts
        for labels, value in values:
            text = texts.get(value)
            if text is None:
                text = texts[value] = go_text(value)
            lines.append(f"{name}{labels} {text}\n")
            if len(lines) == STRETCH:
                self._parts.append("".join(lines).encode())
                lines.clear()
                await self.pause()
        self._parts.append("".join(lines).encode())
        await self.pause()

    async def pause(self) -> None:
        """Let others have their turn, if it is time."""
        if self.slices.is_over:
            await self.slices.rest()

    async def parts(self) -> AsyncIterator[bytes]:
        """All of it, a piece at a time: to copy some megabytes in one go would hold others too."""
        if self._has_end:
            self._parts.append(_EOF)
        piece: list[bytes] = []
        size = 0
        for part in self._parts:
            piece.append(part)
            size += len(part)
            if size >= PIECE_SIZE:
                yield b"".join(piece)
                piece, size = [], 0
                await self.pause()
        yield b"".join(piece)
