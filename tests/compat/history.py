"""What clients did to a topic while its broker was killed, and what is wrong with how it ended.

`History` is written by many threads while they run: each publish, receipt, delivery and ack is one
append to a list. A *generation* is one life of the broker process; a kill ends it. `Table` is the truth
at the end: every message that is stored, with its index and its id, read from the data directory.
`judge` holds the two together and names every broken promise; it knows no socket, thread or file.

    history = History()
    history.sent(key)                                   # before it is sent
    history.receipt(key, (3, 0, -1))                    # when it was answered
    history.delivered(Seen("s", "c", 0, key, (3, 0, -1)))
    history.killed(at=12.5)                             # generation 0 is over
    assert judge(history, table, deduplicated=True) == []

A message is known by its key, (producer, sequence); a place is (ledger, entry, batch index), the last
being -1 outside batches. A chunked message has the place and the index of its last chunk, as on the wire.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

Key = tuple[int, int]
Place = tuple[int, int, int]

# The id in the receipt of a publish that the broker knew already.
DUPLICATE: Place = (-1, -1, -1)


class Problem(NamedTuple):
    """One broken promise. The names of anomalies are those of the storage's checker, and
    redelivered-after-durable-ack, ack-window-exceeded, undelivered and bad-accounting."""

    anomaly: str
    text: str


class Sent(NamedTuple):
    generation: int
    """The life of the broker in which it was handed to the client library: it cannot be stored in an
    earlier one."""


class Receipt(NamedTuple):
    key: Key
    place: Place
    generation: int


class Seen(NamedTuple):
    """A message came to a consumer."""

    subscription: str
    consumer: str
    generation: int
    """The broker that delivered it lived in this generation or in a later one."""
    key: Key
    place: Place
    index: int | None = None  # type: ignore[assignment]
    """As the broker entry metadata says; None where the client does not show it."""


class Acked(NamedTuple):
    subscription: str
    consumer: str
    generation: int
    """The broker that was told lived in this generation."""
    places: tuple[Place, ...]
    """All messages that it covers; of a cumulative ack the last."""
    is_cumulative: bool
    at: float
    """When it was given, on the monotonic clock."""
    allowance: float
    """Seconds that the client itself may sit on it."""


@dataclass
class History:
    publishes: dict[Key, Sent] = field(default_factory=dict)
    lanes: dict[int, int] = field(default_factory=dict)
    """Producers whose messages have keys: message n has key n modulo this, and only messages of one
    key keep their order."""
    receipts: list[Receipt] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    """Publishes that the client library gave up: stored or not, nobody knows."""
    deliveries: list[Seen] = field(default_factory=list)
    reached: dict[str, set[Place]] = field(default_factory=dict)
    """By subscription, where it has got messages from."""
    answered: list[Acked] = field(default_factory=list)
    """Acks for which an answer came: these are durable."""
    given: list[Acked] = field(default_factory=list)
    """Acks for which none was asked: durable within a window."""
    again: list[str] = field(default_factory=list)
    """Deliveries, on one connection, of what was acked and answered there before."""
    kills: list[float] = field(default_factory=list)
    """When each generation ended. Invariant: as many as there were generations before this one."""
    stalls: dict[int, float] = field(default_factory=dict)
    """By generation, the longest that an answer to an ack took: nothing can be written faster than
    the broker gets to run."""
    accounts: list[tuple[str, dict[str, int]]] = field(default_factory=list)
    """By subscription, the counts of one look at its cursor."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    """Told of progress, for whoever waits for it."""

    @property
    def generation(self) -> int:
        return len(self.kills)

    def sent(self, key: Key) -> None:
        self.publishes[key] = Sent(self.generation)

    def lane(self, key: Key) -> Key:
        """Within a lane messages keep their order."""
        producer, sequence = key
        return producer, sequence % self.lanes.get(producer, 1)

    def receipt(self, key: Key, place: Place) -> None:
        self.receipts.append(Receipt(key, place, self.generation))
        self.progress()

    def delivered(self, seen: Seen) -> None:
        self.deliveries.append(seen)
        self.reached.setdefault(seen.subscription, set()).add(seen.place)

    @property
    def lag(self) -> int:
        """Roughly, messages that the slowest subscription has yet to see."""
        return len(self.receipts) - min(map(len, tuple(self.reached.values())), default=0)

    def ack_answered(self, ack: Acked, after: float) -> None:
        self.answered.append(ack)
        self.stalls[ack.generation] = max(self.stalls.get(ack.generation, 0.0), after)

    def killed(self, at: float) -> None:
        self.kills.append(at)

    def progress(self) -> None:
        with self.changed:
            self.changed.notify_all()


class Message(NamedTuple):
    """One stored message."""

    index: int  # type: ignore[assignment]  # in place of tuple.index, which has no use here
    place: Place
    key: Key | None
    """None: bytes that nobody published."""


class Table:
    """Everything that is stored, in order, and how to find it."""

    def __init__(self, messages: Iterable[Message], end_index: int) -> None:
        self.messages = list(messages)
        self.end_index = end_index
        self.by_place = {message.place: message for message in self.messages}
        self.by_key: dict[Key, list[Message]] = defaultdict(list)
        for message in self.messages:
            if message.key is not None:
                self.by_key[message.key].append(message)


class Verdict(NamedTuple):
    problems: list[Problem]
    redelivered: int
    """Acks, given without asking for an answer, that did not survive a kill."""
    worst_age_s: float
    """How long before the kill the oldest of those was given, beyond what its client sat on it."""


def judge(
    history: History, table: Table, *, deduplicated: bool, window_s: float = 0.1
) -> list[Problem]:
    return full_verdict(history, table, deduplicated=deduplicated, window_s=window_s).problems


def full_verdict(
    history: History, table: Table, *, deduplicated: bool, window_s: float = 0.1
) -> Verdict:
    problems = [
        *_stored(history, table, deduplicated),
        *_in_order(history, table),
        *_seen_alike(history, table),
        *_all_delivered(history, table),
        *_durable_acks(history, table),
        *_accounts(history),
        *(Problem("redelivered-after-durable-ack", text) for text in history.again),
    ]
    lost = list(_lost_acks(history, table))
    for age, limit, text in lost:
        if age > window_s + limit:
            problems.append(Problem("ack-window-exceeded", f"{text}, {age * 1000:.0f} ms before"))
    return Verdict(problems, len(lost), max((age for age, _, _ in lost), default=0.0))


# -- messages ----------------------------------------------------------------------------------------


def _stored(history: History, table: Table, deduplicated: bool) -> Iterator[Problem]:
    """I1, I2, I5, I6: every receipt stands, nothing came from nowhere, nothing came too often."""
    for message in table.messages:
        if message.key is None or message.key not in history.publishes:
            yield Problem("phantom", f"{message} was never published")
    answered: dict[Key, Receipt] = {}
    for receipt in history.receipts:
        if receipt.key in answered:
            yield Problem("duplicate", f"{receipt} is the second receipt of its message")
        answered[receipt.key] = receipt
        stored = table.by_key.get(receipt.key, [])
        if not stored:
            yield Problem("lost", f"{receipt} is not stored")
        elif receipt.place == DUPLICATE:
            if not deduplicated:
                yield Problem("inconsistent-position", f"{receipt} without an id")
        elif all(message.place != receipt.place for message in stored):
            yield Problem("inconsistent-position", f"{receipt} is stored as {stored}")
    for key, stored in table.by_key.items():
        # A client library sends again, after each kill, what it has no answer for.
        if key in history.publishes and not deduplicated:
            last = answered[key].generation if key in answered else history.generation
            allowed = 1 + last - history.publishes[key].generation
        else:
            allowed = 1
        if len(stored) > allowed:
            yield Problem("duplicate", f"{key} is stored as {stored}; allowed are {allowed}")


def _in_order(history: History, table: Table) -> Iterator[Problem]:
    """I3, I4: indexes are dense, places ascend, and a producer's messages keep their order."""
    for before, message in zip(table.messages, table.messages[1:], strict=False):
        if message.index <= before.index:
            yield Problem("reused-index", f"{message} behind {before}")
        if message.place <= before.place:
            yield Problem("inconsistent-position", f"{message} behind {before}")
    newest: dict[Key, Message] = {}
    for message in table.messages:
        if message.key is None or table.by_key[message.key][0] is not message:
            continue  # only the first of several copies has a place in the order
        lane = history.lane(message.key)
        last = newest.get(lane)
        if last is not None and last.key is not None and last.key > message.key:
            yield Problem("reordered", f"{message} behind {last}")
        newest[lane] = message
    receipts: dict[Key, Receipt] = {}
    for receipt in history.receipts:
        lane = history.lane(receipt.key)
        if lane in receipts and receipts[lane].key > receipt.key:
            yield Problem("reordered", f"{receipt} came behind {receipts[lane]}")
        receipts[lane] = receipt


# -- deliveries --------------------------------------------------------------------------------------


def _seen_alike(history: History, table: Table) -> Iterator[Problem]:
    """I2, I5: whoever saw a message saw it where, and as what, it is."""
    for seen in history.deliveries:
        message = table.by_place.get(seen.place)
        if message is None:
            yield Problem("phantom", f"{seen} is not stored")
        elif message.key != seen.key or seen.index not in (None, message.index):
            yield Problem("inconsistent-position", f"{seen} is stored as {message}")


def _all_delivered(history: History, table: Table) -> Iterator[Problem]:
    """I20: every subscription, being as old as the topic, got every message."""
    for subscription, places in history.reached.items():
        missing = [message for message in table.messages if message.place not in places]
        if missing:
            yield Problem(
                "undelivered", f"{subscription} never got {len(missing)}, first {missing[0]}"
            )


def _durable_acks(history: History, table: Table) -> Iterator[Problem]:
    """I7: what was acked, and answered, is not delivered in a later generation."""
    singly: dict[tuple[str, Place], int] = {}
    up_to: dict[str, dict[int, int]] = defaultdict(dict)
    for ack in history.answered:
        for place in ack.places:
            if ack.is_cumulative:
                index = table.by_place[place].index
                ends = up_to[ack.subscription]
                ends[ack.generation] = max(ends.get(ack.generation, -1), index)
            else:
                key = ack.subscription, place
                singly[key] = min(singly.get(key, ack.generation), ack.generation)
    for seen in history.deliveries:
        acked_in = singly.get((seen.subscription, seen.place))
        if acked_in is not None and acked_in < seen.generation:
            yield Problem("redelivered-after-durable-ack", f"{seen}, acked in {acked_in}")
        message = table.by_place.get(seen.place)
        if message is None:
            continue
        for generation, end in up_to[seen.subscription].items():
            if generation < seen.generation and message.index <= end:
                yield Problem(
                    "redelivered-after-durable-ack", f"{seen}, acked to {end} in {generation}"
                )


def _lost_acks(history: History, table: Table) -> Iterator[tuple[float, float, str]]:
    """I8: acks that a kill undid: how old they were, how old they may be, and which."""
    latest: dict[tuple[str, Place], Seen] = {}
    lowest: dict[tuple[str, int], Seen] = {}
    for seen in history.deliveries:
        at = seen.subscription, seen.place
        if at not in latest or latest[at].generation < seen.generation:
            latest[at] = seen
        _keep_lower(lowest, seen.generation, seen)
    # Now: the lowest that came in a generation or in any later one.
    for subscription in {name for name, _ in lowest}:
        for generation in range(history.generation, 0, -1):
            if (seen_then := lowest.get((subscription, generation))) is not None:
                _keep_lower(lowest, generation - 1, seen_then)
    for ack in history.given:
        if ack.generation >= len(history.kills):
            continue  # that broker was not killed
        age = history.kills[ack.generation] - ack.at - ack.allowance
        # The broker had no time while it answered nobody: that is the machine's, not the window's.
        limit = history.stalls.get(ack.generation, 0.0)
        for place in ack.places:
            if ack.is_cumulative:
                again = lowest.get((ack.subscription, ack.generation + 1))
                undone = again is not None and again.place <= place
            else:
                again = latest.get((ack.subscription, place))
                undone = again is not None and again.generation > ack.generation
            if undone:
                yield age, limit, f"{again} was acked in generation {ack.generation}"
                break


def _keep_lower(lowest: dict[tuple[str, int], Seen], generation: int, seen: Seen) -> None:
    low = lowest.get((seen.subscription, generation))
    if low is None or seen.place < low.place:
        lowest[seen.subscription, generation] = seen


def _accounts(history: History) -> Iterator[Problem]:
    """I13: ready, inflight and acked are all there is."""
    for subscription, counts in history.accounts:
        parts = [counts[name] for name in ("ready", "delayed", "inflight", "acked")]
        if min(parts) < 0 or sum(parts) != counts["end"] - counts["first"]:
            yield Problem("bad-accounting", f"{subscription}: {counts}")
