"""The checker: what was promised, what a store holds now, and what is wrong between the two.

`History` notes what a workload asked for and what it was told; `State` is what a reopened store gives
back; `check` compares them and names every anomaly. It judges from outside: it knows payloads,
positions, indexes and facts, and nothing of journals, ledgers or checkpoints. Crash images, failing
disks, damage and killed processes all use this one.

    history = History()
    ticket = history.publish("orders", b"a", count=3)       # before it is sent
    history.stored(ticket, Position(1, 0), first_index=0)   # when it was answered
    ...                                                     # crash, reopen
    assert check(history, read_state(store)) == []
    history.settle(read_state(store))                       # what is visible now must stay

Every call is also an event, a plain tuple: `History(record=events.append)` notes them, and
`History.of(events)` is the history again, so that it can lie in a trace or in a file of lines.

Payloads are unique in a topic. What is open (asked for, not answered) may be there or not; what was
refused may not. A fact that was refused is the exception: its state had changed in memory, and what
is stored next of that state has it too. So the facts that are there are the first so many, always.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from milepost.errors import IndexNotFound
from milepost.positions.ids import Position
from milepost.storage.ledgers.log import Log

Event = tuple[Any, ...]


class Fate(enum.Enum):
    OPEN = "open"  # asked for; stored or not, nobody was told
    STORED = "stored"
    REFUSED = "refused"
    UNKNOWN = "unknown"  # stored or not, and whoever asked was told that nobody knows
    LOST = "lost"  # open when the process died, and not there when it came back


class Problem(NamedTuple):
    """One broken promise. Names of anomalies: lost, hole, reused-index, phantom, duplicate, …"""

    anomaly: str
    topic: str
    text: str


class Item(NamedTuple):
    """One entry as a reader sees it."""

    position: Position
    first_index: int
    count: int  # type: ignore[assignment]
    timestamp_ms: int
    payload: bytes


class LogState(NamedTuple):
    first_index: int
    end_index: int
    items: list[Item]


@dataclass
class State:
    """Everything a reader can see of a store: equal states, equal stores."""

    logs: dict[str, LogState] = field(default_factory=dict)
    facts: dict[tuple[str, str], list[bytes]] = field(default_factory=dict)
    """By topic and state: the facts that are true of it, in order."""


@dataclass
class Publish:
    payload: bytes
    count: int
    fate: Fate = Fate.OPEN
    position: Position | None = None
    first_index: int = -1


@dataclass
class Fact:
    data: bytes
    fate: Fate = Fate.OPEN


@dataclass
class StateHistory:
    facts: list[Fact] = field(default_factory=list)
    exists: bool = False


@dataclass
class TopicHistory:
    publishes: list[Publish] = field(default_factory=list)
    states: dict[str, StateHistory] = field(default_factory=dict)
    trim_asked: int = 0
    trimmed: int = 0
    exists: bool = False
    deletion_asked: bool = False
    deleted: bool = False


class History:
    def __init__(self, record: Callable[[Event], object] | None = None) -> None:
        self.topics: dict[str, TopicHistory] = {}
        self._tickets: list[Publish | Fact] = []
        # Did the disk ever say no? Then what is open may be lost already, and later ones stored.
        self._has_refusals = False
        self.record = record

    @classmethod
    def of(cls, events: Iterable[Event]) -> History:
        history = cls()
        for name, *arguments in events:
            getattr(history, name)(*arguments)
        return history

    def _note(self, *event: Any) -> None:
        if self.record is not None:
            self.record(event)

    # -- topics and states -------------------------------------------------------------------------

    def create(self, topic: str, state: str | None = None) -> None:
        """A topic, or a state of one, is to be made."""
        self._note("create", topic, state)
        if state is None:
            self.topics[topic] = TopicHistory()
        else:
            self.topics[topic].states[state] = StateHistory()

    def created(self, topic: str, state: str | None = None) -> None:
        self._note("created", topic, state)
        of = self.topics[topic]
        (of if state is None else of.states[state]).exists = True

    def delete(self, topic: str) -> None:
        self._note("delete", topic)
        self.topics[topic].deletion_asked = True

    def deleted(self, topic: str) -> None:
        self._note("deleted", topic)
        self.topics[topic].deleted = True

    def delete_state(self, topic: str, state: str) -> None:
        """Its deletion was asked for: nothing is promised of it any more."""
        self._note("delete_state", topic, state)
        del self.topics[topic].states[state]

    # -- messages ----------------------------------------------------------------------------------

    def publish(self, topic: str, payload: bytes, count: int) -> int:
        self._note("publish", topic, payload, count)
        return self._add(Publish(payload, count), self.topics[topic].publishes)

    def stored(self, ticket: int, position: Position, first_index: int) -> None:
        self._note("stored", ticket, position, first_index)
        publish = self._tickets[ticket]
        assert isinstance(publish, Publish)
        publish.fate = Fate.STORED
        publish.position = Position(*position)
        publish.first_index = first_index

    def refused(self, ticket: int) -> None:
        self._note("refused", ticket)
        self._has_refusals = True
        self._tickets[ticket].fate = Fate.REFUSED

    def unknown(self, ticket: int) -> None:
        self._note("unknown", ticket)
        self._has_refusals = True
        self._tickets[ticket].fate = Fate.UNKNOWN

    def trim(self, topic: str, before_index: int) -> None:
        """From now on everything before the index may be gone."""
        self._note("trim", topic, before_index)
        of = self.topics[topic]
        of.trim_asked = max(of.trim_asked, before_index)

    def trimmed(self, topic: str, first_index: int) -> None:
        """Everything before the index is gone for good."""
        self._note("trimmed", topic, first_index)
        of = self.topics[topic]
        of.trimmed = max(of.trimmed, first_index)

    # -- facts -------------------------------------------------------------------------------------

    def tell(self, topic: str, state: str, fact: bytes) -> int:
        self._note("tell", topic, state, fact)
        return self._add(Fact(fact), self.topics[topic].states[state].facts)

    def told(self, ticket: int) -> None:
        self._note("told", ticket)
        self._tickets[ticket].fate = Fate.STORED

    def _add(self, what: Any, to: list[Any]) -> int:
        to.append(what)
        self._tickets.append(what)
        return len(self._tickets) - 1

    # -- after a restart ---------------------------------------------------------------------------

    def settle(self, state: State) -> None:
        """The process died and came back: what was open is decided by what is there now."""
        self._note("settle", state)
        for name, of in list(self.topics.items()):
            log = state.logs.get(name)
            if log is None and not of.exists:
                del self.topics[name]
            if log is None:
                continue
            of.exists, of.deletion_asked = True, False
            seen = {item.payload: item for item in log.items}
            for publish in of.publishes:
                if publish.fate in (Fate.OPEN, Fate.UNKNOWN):
                    publish.fate = Fate.LOST
                    if item := seen.get(publish.payload):
                        publish.fate = Fate.STORED
                        publish.position, publish.first_index = item.position, item.first_index
            of.trimmed = max(of.trimmed, log.first_index)
            for key in list(of.states):
                if not of.states[key].exists and (name, key) not in state.facts:
                    del of.states[key]
        for (name, key), there in state.facts.items():
            known = self.topics[name].states.setdefault(key, StateHistory(_as_stored(there)))
            known.exists = True
            at = 0
            for fact in known.facts:
                if fact.fate is Fate.LOST:
                    continue
                present = at < len(there) and there[at] == fact.data
                at += present
                if fact.fate is not Fate.STORED:
                    fact.fate = Fate.STORED if present else Fate.LOST


def _as_stored(facts: list[bytes]) -> list[Fact]:
    return [Fact(fact, Fate.STORED) for fact in facts]


def read_log(log: Log) -> LogState:
    """Everything in a log, read as a consumer would, a few entries at a time."""
    items: list[Item] = []
    for ledger in list(log.ledgers):
        entry_id = 0
        while entry_id < ledger.entries:
            entries = log.read(Position(ledger.ledger_id, entry_id), entries_max=7)
            assert entries, f"{ledger} gave nothing at {entry_id}"
            items += [
                Item(e.position, e.span.first_index, e.count, e.timestamp_ms, bytes(e.payload))
                for e in entries
            ]
            entry_id += len(entries)
    return LogState(log.first_index, log.end_index, items)


def check(history: History, state: State) -> list[Problem]:
    """Every promise of the history that the state breaks."""
    problems: list[Problem] = []
    for name, of in history.topics.items():
        log = state.logs.get(name)
        if log is None:
            if of.exists and not of.deletion_asked:
                problems.append(Problem("lost-topic", name, "it was created and is not there"))
            continue
        if of.deleted:
            problems.append(Problem("undead", name, "it was deleted and is there"))
        # A deletion that was only asked for has happened wholly or not at all.
        found = _check_log(of, log, in_order=not history._has_refusals)
        problems += [Problem(kind, name, text) for kind, text in found]
        for key, known in of.states.items():
            there = state.facts.get((name, key))
            if there is not None:
                found = _check_facts(key, known.facts, there)
                problems += [Problem(kind, name, text) for kind, text in found]
            elif known.exists:
                problems.append(Problem("lost-state", name, f"{key} is not there"))
    problems += [
        Problem("phantom", name, "nobody created it") for name in state.logs.keys() - history.topics
    ]
    return problems


def _check_log(of: TopicHistory, log: LogState, *, in_order: bool) -> Iterable[tuple[str, str]]:
    yield from _check_density(log)
    order = {publish.payload: number for number, publish in enumerate(of.publishes)}
    seen: dict[bytes, Item] = {}
    newest = -1
    for item in log.items:
        number = order.get(item.payload)
        if number is None:
            yield "phantom", f"{item.payload[:40]!r} at {item.position} was never published"
            continue
        if item.payload in seen:
            yield "duplicate", f"{item.payload[:40]!r} at {seen[item.payload].position} and again"
        seen[item.payload] = item
        publish = of.publishes[number]
        if publish.fate in (Fate.REFUSED, Fate.LOST):
            yield "aborted-read", f"{item.payload[:40]!r} was {publish.fate.value} and is there"
        if number < newest:
            yield "reordered", f"{item.payload[:40]!r} comes behind what was published later"
        newest = max(newest, number)
        if item.count != publish.count:
            yield "inconsistent-position", f"{item} has not the {publish.count} messages sent"
        if publish.fate is Fate.STORED and (item.position, item.first_index) != (
            publish.position,
            publish.first_index,
        ):
            yield "inconsistent-position", f"{item} moved from {publish}"
    yield from _check_presence(of, log, seen, newest if in_order else -1)


def _check_density(log: LogState) -> Iterable[tuple[str, str]]:
    index = log.first_index
    for before, item in zip([None, *log.items], log.items, strict=False):
        if item.first_index != index:
            kind = "hole" if item.first_index > index else "reused-index"
            yield kind, f"{item} where index {index} was expected"
        index = item.first_index + item.count
        if before and before.position >= item.position:
            yield "inconsistent-position", f"{item} behind {before}"
        if before and before.timestamp_ms > item.timestamp_ms:
            yield "time-went-back", f"{item} behind {before}"
    if index != log.end_index:
        yield "hole", f"the last message ends at {index}, the log at {log.end_index}"


def _check_presence(
    of: TopicHistory, log: LogState, seen: dict[bytes, Item], newest: int
) -> Iterable[tuple[str, str]]:
    if log.first_index > of.trim_asked:
        yield "lost", f"begins at {log.first_index}, trimmed was up to {of.trim_asked}"
    if log.first_index < of.trimmed:
        yield "untrimmed", f"begins at {log.first_index}, trimmed was up to {of.trimmed}"
    for number, publish in enumerate(of.publishes):
        if publish.payload in seen:
            continue
        if publish.fate is Fate.STORED:
            if publish.first_index + publish.count > log.first_index:
                where = "middle" if number < newest else "postfix"
                yield "lost", f"{publish} had a receipt ({where} of the log)"
        elif publish.fate is Fate.OPEN and number < newest and not log.first_index:
            # The journal is in order: what was sent later is there only if this is.
            yield "hole", f"{publish} is not there, what was published behind it is"


def _check_facts(key: str, facts: Sequence[Fact], there: list[bytes]) -> Iterable[tuple[str, str]]:
    """Those there are in order, all that were answered among them, none before an absent one."""
    at, ended = 0, False
    for number, fact in enumerate(facts):
        if at < len(there) and there[at] == fact.data and fact.fate is not Fate.LOST:
            at += 1
            if ended:
                yield "hole", f"fact {number} of {key} is there, one before it is not"
        elif fact.fate is Fate.STORED:
            yield "lost-fact", f"fact {number} of {key} ({fact.data[:20].hex()}) was answered"
        elif fact.fate is not Fate.LOST:
            ended = True
    if at < len(there):
        yield "phantom-fact", f"{key} has {len(there)} facts, {len(there) - at} are not explained"


def check_lookups(name: str, log: Log, state: LogState) -> list[Problem]:
    """Index, position and time are names of one message: each look-up is the inverse of another."""
    problems: list[str] = []

    def expect(what: str, found: object, wanted: object) -> None:
        if found != wanted:
            problems.append(f"{what} gives {found}, not {wanted}")

    earliest: dict[int, int] = {}
    for item in state.items:
        end_index = item.first_index + item.count
        for index in {item.first_index, (item.first_index + end_index) // 2, end_index - 1}:
            expect(f"locate({index})", log.locate(index).position, item.position)
        found = log.at(item.position)
        expect(f"at({item.position})", tuple(found.span), (item.first_index, item.count))
        expect(f"time at({item.position})", found.timestamp_ms, item.timestamp_ms)
        expect(f"index_from({item.position})", log.index_from(item.position), item.first_index)
        earliest.setdefault(item.timestamp_ms, item.first_index)
    for time_ms, index in earliest.items():
        expect(f"index_at({time_ms})", log.index_at(time_ms), index)
    for index in (state.first_index - 1, state.end_index):
        with suppress(IndexNotFound):
            problems.append(f"locate({index}) gives {log.locate(index)}, nothing is there")
    return [Problem("bad-lookup", name, text) for text in problems]
