"""The anomalies that a history has, by name, each with the lines that show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

# What each name means, for people who read a verdict.
ANOMALIES: Final = {
    "lost": "a message had its receipt and is not stored",
    "inconsistent-position": "a message, an id and an index are not one to one",
    "hole": "an index between the first and the end holds nothing",
    "reused-index": "one index was given to two messages",
    "reordered": "messages of one producer, or of one ordered consumer, changed their order",
    "phantom": "a message that no producer sent",
    "duplicate": "a message is stored more often than it may be",
    "aborted-read": "a message that was refused, given up or aborted is there",
    "redelivered-after-durable-ack": "an ack was answered, and the message came again",
    "ack-window-exceeded": "an ack without an answer was older than the window, and is lost",
    "stale-after-seek": "behind a seek came a message from before its target",
    "wrong-first": "behind a seek the first message was not its target",
    "torn-seek": "behind several seeks the first message is the target of none",
    "skipped": "an ordered consumer was not shown a message between two others",
    "torn-chunk": "a chunked message came in part, or with another first id",
    "bad-lookup": "an index was looked up and another message, or none, was found",
    "bad-accounting": "ready, delayed, inflight and acked are not all there is",
    "regressed": "a first index, an end or a mark-delete position went back",
    "double-active": "two consumers were active at once",
    "key-reorder": "messages of one key were with two consumers, or out of order",
    "reset-undone": "behind a reset came what it had left behind, or not what it went to",
    "trimmed-unacked": "retention took a message that a subscription had not acked",
    "split-brain": "two owners answered for the same indexes, or one that was fenced did",
    "unstable-recovery": "opened twice, the same data are different",
    "stuck": "everything was drained, and a message was never delivered",
    "dirty-read": "a message of a transaction was seen before its commit was asked for",
    "torn-transaction": "a transaction is there in part",
    "aborted-ack": "an ack of an aborted transaction kept its message away",
    "acked-twice": "two committed transactions have acked the same message",
}

# Anomalies of one name that are kept with their lines; the others are counted.
KEPT_MAX: Final = 1000


class Anomaly(NamedTuple):
    name: str
    text: str
    lines: tuple[int, ...]
    """The lines that show it, in order: the fewest that do."""


class Verdict:
    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self.anomalies: list[Anomaly] = []
        self.found: Counter[str] = Counter()
        """By name, how many there are."""
        self.events: Counter[str] = Counter()
        """By operation and outcome, how many were judged."""
        self.acks_undone = 0
        """Acks without an answer that did not survive the end of their broker."""
        self.undone_age_s = 0.0
        """How long before that end the oldest of these was given, beyond what its client sat on it."""

    def add(self, name: str, text: str, *lines: int) -> None:
        assert name in ANOMALIES, name
        self.found[name] += 1
        if self.found[name] <= KEPT_MAX:
            shown = tuple(sorted({line for line in lines if line > 0}))
            self.anomalies.append(Anomaly(name, text, shown))

    def report(self, history: Path | None = None, shown_max: int = 20) -> Iterator[str]:
        """The verdict, line by line; with the file of the history, its lines too."""
        yield f"{self.events.total()} events: " + ", ".join(
            f"{count} {kind}" for kind, count in sorted(self.events.items())
        )
        if self.acks_undone:
            yield (
                f"{self.acks_undone} acks without an answer were undone by a kill, the oldest given "
                f"{self.undone_age_s * 1000:.0f} ms before (allowed: {self.window_s * 1000:.0f} ms)"
            )
        if not self.found:
            yield "no anomaly"
            return
        yield f"{self.found.total()} anomalies: " + ", ".join(
            f"{count} {name}" for name, count in self.found.most_common()
        )
        shown = self.anomalies[:shown_max]
        evidence = _lines_of(history, {line for one in shown for line in one.lines})
        for one in shown:
            yield f"{one.name}: {one.text} ({ANOMALIES[one.name]})"
            yield from (f"    line {line}: {evidence.get(line, '')}".rstrip() for line in one.lines)
        if len(shown) < self.found.total():
            yield f"… and {self.found.total() - len(shown)} more"


def _lines_of(history: Path | None, wanted: set[int]) -> dict[int, str]:
    if history is None:
        return {}
    with history.open(encoding="utf-8") as file:
        return {n: line.strip() for n, line in enumerate(file, 1) if n in wanted}
