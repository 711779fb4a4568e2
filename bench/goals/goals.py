"""The goals of speed: what is promised, and what is known of why one is missed.

A goal is a figure of Milepost, or the ratio of two figures of the same turn: of two workloads, or of one on
Milepost and on a peer. Its `why` is shown where the goal is missed, so it must be true whenever that happens.
"""

from __future__ import annotations

from typing import NamedTuple

from bench.goals.figures import PULSAR, Side

RATE, CPU, P50, P99, RSS = "rate", "cpu", "p50_ms", "p99_ms", "rss_mib"
"""Messages a second; the server's CPU seconds for a million; latencies; resident memory."""
SYNC, MB_RATE, DISK_RATE = "sync_ms", "mb_rate", "disk_mb_rate"
"""How long the disk takes for a sync; MB a second of the broker, and of the disk alone."""
OPEN, SECONDS, GROWTH = "open_s", "seconds", "growth"
"""Times; a p99 of publishing as a multiple of the quiet one."""
LOAD = "load_share"
"""Which part of a core the load generator took."""
UPKEEP_GROUP = "upkeep"


class Bound(NamedTuple):
    sign: str
    limit: float

    @property
    def is_upper(self) -> bool:
        return self.sign == "≤"

    def holds(self, value: float) -> bool:
        return value <= self.limit if self.is_upper else value >= self.limit

    def __str__(self) -> str:
        return f"{self.sign} {self.limit:,g}"


def at_most(limit: float) -> Bound:
    return Bound("≤", limit)


def at_least(limit: float) -> Bound:
    return Bound("≥", limit)


class Goal(NamedTuple):
    text: str
    over: Side | None
    """What is measured; None where no benchmark can tell."""
    bound: Bound
    unit: str
    why: str
    under: Side | None = None
    """What it is divided by."""
    detail_unit: str = ""
    """Of both figures of a ratio."""


class Comparison(NamedTuple):
    """A figure that Milepost and its peers have beside each other."""

    text: str
    workload: str
    measure: str
    unit: str
    more_is_better: bool = True


_LONE_CPU = (
    "Many calls of Python stand between the bytes of a request and its answer, and none of them stands "
    "out; on top come the kernel's reads, writes and syncs. Compiled they take less "
    "([decision 25](decisions/0025-compiled-is-worth-it-where-operations-come-singly.md))."
)
_LONE_P50 = (
    "An answer waits for one sync and for the broker's CPU. Where the disk is quick, the CPU is the "
    "larger part of it, and the multiple grows."
)
_DISTURBED = (
    "The work is done in slices of a quarter or half a millisecond, in which the loop answers no client. The "
    "p99 of a phase is that of ten of its messages: ten milliseconds of slow syncs of a shared disk show too."
)


def _lone(what: str, workload: str) -> list[Goal]:
    return [
        Goal(
            f"a lone {what}: the broker's CPU", Side(workload, CPU), at_most(100), "µs", _LONE_CPU
        ),
        Goal(
            f"a lone {what}: p50 to the disk's sync",
            Side(workload, P50),
            at_most(1.6),
            "×",
            _LONE_P50,
            Side(workload, SYNC),
            "ms",
        ),
    ]


def _beside(work: str) -> Goal:
    text = f"p99 of publishing beside: {work}"
    return Goal(text, Side(upkeep(work), GROWTH), at_most(2), "×", _DISTURBED)


def upkeep(work: str) -> str:
    """The name of the workload that looks at one kind of upkeep."""
    return f"{UPKEEP_GROUP}: {work}"


UPKEEP_WORKS = (
    "peek far into a backlog",
    "analyse a backlog",
    "statistics",
    "open",
    "unload",
    "clear a backlog",
    "expire messages",
    "evict by quota",
    "trim ledgers",
    "delete",
)
DELAYED = "delayed messages become due"

GOALS: tuple[Goal, ...] = (
    Goal(
        "1,000 topics at the rate of one: CPU to that of one topic",
        Side("topics-1000-paced", CPU),
        at_most(1.5),
        "×",
        "Messages to one topic share a read, a block of the journal and a wake-up; each of a thousand "
        "topics has one message in these, so its own part of the work weighs more.",
        Side("topics-1-paced", CPU),
        "CPU s a million",
    ),
    Goal(
        "1,000 topics: rate to Apache Pulsar's",
        Side("topics-1000", RATE),
        at_least(2),
        "×",
        "A message to one of a thousand topics costs several times the CPU of one to a single topic, and "
        "the broker works on one core where Apache Pulsar uses all.",
        Side("topics-1000", RATE, PULSAR),
        "msg/s",
    ),
    Goal(
        "opening 1,000 topics",
        Side("topics-1000", OPEN),
        at_most(0.5),
        "s",
        "Each topic is three requests and a row of the catalog. Nearly all of the time is the broker's "
        "CPU, which has to be had.",
    ),
    *_lone("publish", "lone-publish"),
    *_lone("ack", "lone-ack"),
    *_lone("seek", "lone-seek"),
    Goal(
        "acks with receipts of 32 consumers: rate to Apache Pulsar's",
        Side("acks-32", RATE),
        at_least(1),
        "×",
        "Each answer waits until the ack is on disk. Apache Pulsar answers from memory, and writes later.",
        Side("acks-32", RATE, PULSAR),
        "acks/s",
    ),
    Goal(
        "1 KiB batched: rate to Apache Pulsar's",
        Side("batched-1KiB", RATE),
        at_least(1.5),
        "×",
        "Most of it is the kernel copying: from the socket, into the journal and into the ledger.",
        Side("batched-1KiB", RATE, PULSAR),
        "msg/s",
    ),
    Goal(
        "1 KiB batched: CPU for a million",
        Side("batched-1KiB", CPU),
        at_most(5),
        "s",
        "Most of it is the kernel copying: from the socket, into the journal and into the ledger.",
    ),
    Goal(
        "100 KiB messages: bytes to what the disk writes",
        Side("publish-100KiB", MB_RATE),
        at_least(0.8),
        "×",
        "Every byte is written twice, to the journal and to the ledger, and comes over a socket from a "
        "process beside the broker. The disk's own rate is that of one file, written and synced 4 MiB at a "
        "time.",
        Side("publish-100KiB", DISK_RATE),
        "MB/s",
    ),
    Goal(
        "catch-up of 100 B batched: rate to Apache Pulsar's",
        Side("catch-up", RATE),
        at_least(1.5),
        "×",
        "The load takes what it gets in one process of Python. Where it takes a whole core (the table of "
        "the peers says how much), it is what was measured.",
        Side("catch-up", RATE, PULSAR),
        "msg/s",
    ),
    Goal(
        "fan-out to 10 subscriptions: CPU to that of one",
        Side("fan-out-10", CPU),
        at_most(3),
        "×",
        "What is read once is still written to each consumer by itself, and each subscription keeps its "
        "own progress.",
        Side("fan-out-1", CPU),
        "CPU s a million",
    ),
    *map(_beside, UPKEEP_WORKS),
    _beside("10,000 delayed messages due in a second")._replace(
        over=Side(upkeep(DELAYED), GROWTH),
        why="Messages that become due in no order are looked up and delivered one by one, sixteen at a time, "
        "which takes a good part of the loop's time while it lasts.",
    ),
    Goal(
        "compiled with mypyc: CPU of the whole, uncompiled to compiled",
        None,
        at_least(1.3),
        "×",
        "Compiling is no part of a benchmark. The attempt and its figures are in "
        "[decision 25](decisions/0025-compiled-is-worth-it-where-operations-come-singly.md): the gain was "
        "at the mark and not above it, so the broker stays uncompiled.",
    ),
    Goal(
        "memory of an idle broker",
        Side("idle", RSS),
        at_most(64),
        "MiB",
        "Nearly all of it is modules of Python that are loaded.",
    ),
    Goal(
        "memory with 10,000 topics, a subscription each",
        Side("many-topics", RSS),
        at_most(400),
        "MiB",
        "Each topic and each subscription is some dozens of objects of Python.",
    ),
    Goal(
        "memory with 10,000 idle connections",
        Side("idle-connections", RSS),
        at_most(300),
        "MiB",
        "Each connection has a transport, a protocol and a session of its own.",
    ),
    Goal(
        "start to the first answer",
        Side("start", SECONDS),
        at_most(0.5),
        "s",
        "Nearly all of it is CPU that loads modules; where a core is not free at once, it takes "
        "longer.",
    ),
    Goal(
        "restart after a kill with 10,000 topics",
        Side("restart", SECONDS),
        at_most(3),
        "s",
        "Beside the start itself, the state of every topic is read and the journal replayed.",
    ),
)

COMPARISONS: tuple[Comparison, ...] = (
    Comparison("publish 100 B unbatched, 1 producer", "publish-1", RATE, "msg/s"),
    Comparison("publish 100 B unbatched, 16 producers", "publish-16", RATE, "msg/s"),
    Comparison("publish 100 B batched", "batched-100B", RATE, "msg/s"),
    Comparison("publish 1 KiB batched", "batched-1KiB", RATE, "msg/s"),
    Comparison("publish 1 KiB batched, CPU for a million", "batched-1KiB", CPU, "s", False),
    Comparison("publish 100 KiB messages", "publish-100KiB", RATE, "msg/s"),
    Comparison("publish to 1,000 topics", "topics-1000", RATE, "msg/s"),
    Comparison("publish to 1,000 topics, CPU for a million", "topics-1000", CPU, "s", False),
    Comparison("open 1,000 topics", "topics-1000", OPEN, "s", False),
    Comparison("catch-up, 100 B batched", "catch-up", RATE, "msg/s"),
    Comparison("acks with receipts, 32 consumers", "acks-32", RATE, "acks/s"),
    Comparison("a lone ack with a receipt, p50", "lone-ack", P50, "ms", False),
    Comparison("a lone publish, p50", "lone-publish", P50, "ms", False),
    Comparison("publish → receive at 1,000/s, p50", "latency", P50, "ms", False),
    Comparison("publish → receive at 1,000/s, p99", "latency", P99, "ms", False),
)
