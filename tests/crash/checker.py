"""The checker: what was promised, what a store holds now, and what is wrong between the two.

`History` notes what a workload asked for and what it was told; `State` is what a reopened store gives
back. Both make one history of messages, which `milepost.testing.checker` judges; `check` adds what that
has no words for: which topics and states there are, the facts of a state, times, and that nothing is there
behind what the journal lost. It judges from outside and knows nothing of journals, ledgers or checkpoints.
Crash images, failing disks, damage and killed processes all use this one.

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
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from milepost.errors import IndexNotFound
from milepost.positions.ids import Position
from milepost.storage.ledgers.log import Log
from milepost.testing.checker import EventHistory, judge_events

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
        self.log = EventHistory(clock=lambda: 0.0)
        """What the one checker judges: messages, trims, deletions and deaths of the process."""
        self.log.note("start")
        self._publishing: dict[int, tuple[str, int]] = {}
        """By ticket: topic, and number of the operation that has no outcome yet."""
        self.deleting: dict[str, int] = {}
        self._trims: dict[str, int] = {}

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
            self._end_deletion(topic)
            self.topics[topic] = TopicHistory()
        else:
            self.topics[topic].states[state] = StateHistory()

    def created(self, topic: str, state: str | None = None) -> None:
        self._note("created", topic, state)
        of = self.topics[topic]
        (of if state is None else of.states[state]).exists = True

    def delete(self, topic: str) -> None:
        self._note("delete", topic)
        if topic not in self.deleting:
            self.deleting[topic] = self.log.invoke("delete", topic=topic)
        self.topics[topic].deletion_asked = True

    def deleted(self, topic: str) -> None:
        self._note("deleted", topic)
        self._end_deletion(topic)
        self.topics[topic].deleted = True

    def delete_state(self, topic: str, state: str) -> None:
        """Its deletion was asked for: nothing is promised of it any more."""
        self._note("delete_state", topic, state)
        del self.topics[topic].states[state]

    # -- messages ----------------------------------------------------------------------------------

    @property
    def asked(self) -> int:
        """How many messages and facts there were so far."""
        return len(self._tickets)

    def publish(self, topic: str, payload: bytes, count: int) -> int:
        self._note("publish", topic, payload, count)
        ticket = self._add(Publish(payload, count), self.topics[topic].publishes)
        name = name_of(payload, count)
        asked = self.log.invoke("publish", topic=topic, message=name, by="producer")
        self._publishing[ticket] = topic, asked
        return ticket

    def stored(self, ticket: int, position: Position, first_index: int) -> None:
        self._note("stored", ticket, position, first_index)
        publish = self._tickets[ticket]
        assert isinstance(publish, Publish)
        publish.fate = Fate.STORED
        publish.position = Position(*position)
        publish.first_index = first_index
        id_, index = [*position, -1], first_index + publish.count - 1
        self._end_publish(ticket, self.log.ok, id=id_, index=index)

    def _end_publish(self, ticket: int, tell: Callable[..., None], **fields: Any) -> None:
        if (open_one := self._publishing.pop(ticket, None)) is not None:
            tell(open_one[1], **fields)

    def _end_deletion(self, topic: str) -> None:
        """It has happened: what was on its way to the topic is gone with it."""
        if topic in self.deleting:
            for ticket in [one for one, (of, _) in self._publishing.items() if of == topic]:
                self._end_publish(ticket, self.log.unknown)
            self.log.ok(self.deleting.pop(topic))

    def refused(self, ticket: int) -> None:
        self._note("refused", ticket)
        self._has_refusals = True
        self._tickets[ticket].fate = Fate.REFUSED
        self._end_publish(ticket, self.log.fail)

    def unknown(self, ticket: int) -> None:
        self._note("unknown", ticket)
        self._has_refusals = True
        self._tickets[ticket].fate = Fate.UNKNOWN
        self._end_publish(ticket, self.log.unknown)

    def trim(self, topic: str, before_index: int) -> None:
        """From now on everything before the index may be gone."""
        self._note("trim", topic, before_index)
        asked = self.log.invoke("trim", topic=topic, index=before_index, policy="the test's")
        self._trims[topic] = asked

    def trimmed(self, topic: str, first_index: int) -> None:
        """Everything before the index is gone for good."""
        self._note("trimmed", topic, first_index)
        self.log.ok(self._trims.pop(topic), first=first_index)

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
        for ticket in list(self._publishing):
            self._end_publish(ticket, self.log.unknown)
        for name in list(self.deleting):
            if name in state.logs:
                self.log.fail(self.deleting.pop(name))
            else:
                self._end_deletion(name)
        self._trims.clear()
        self.log.note("kill")
        self.log.note("start")
        for name, log in state.logs.items():
            self.log.events += scan_of(name, log)
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
    problems = list(_check_messages(history, state))
    for name, of in history.topics.items():
        log = state.logs.get(name)
        if log is None:
            if of.exists and not of.deletion_asked:
                problems.append(Problem("lost-topic", name, "it was created and is not there"))
            continue
        if of.deleted:
            problems.append(Problem("undead", name, "it was deleted and is there"))
        found = _check_order(of, log, in_order=not history._has_refusals)
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


def name_of(payload: bytes, count: int) -> str:
    """In a history: an entry that comes back with another count is another one."""
    return f"{payload[:40].decode('latin-1')} {zlib.crc32(payload):08x} x{count}"


def scan_of(topic: str, log: LogState) -> Iterator[dict[str, Any]]:
    """Everything that is stored, as events: an entry is a message with the index of its last one."""
    yield {"op": "scan", "topic": topic, "first": log.first_index}
    for item in log.items:
        last_index = item.first_index + item.count - 1
        if item.count > 1:
            yield {"op": "fill", "topic": topic, "from": item.first_index, "to": last_index}
        name, id_ = name_of(item.payload, item.count), [*item.position, -1]
        yield {"op": "stored", "topic": topic, "message": name, "id": id_, "index": last_index}
    yield {"op": "scanned", "topic": topic, "end": log.end_index}


def _check_messages(history: History, state: State) -> Iterator[Problem]:
    """What `milepost.testing.checker` says of them."""
    events = history.log.events.copy()
    for name, log in state.logs.items():
        of = history.topics.get(name)
        if of is not None and not of.deleted:
            # A deletion that was only asked for has happened wholly or not at all.
            if name in history.deleting:
                events.append({"is": "fail", "n": history.deleting[name]})
            events += scan_of(name, log)
    for anomaly in judge_events(events).anomalies:
        yield Problem(anomaly.name, "", anomaly.text)


def _check_order(of: TopicHistory, log: LogState, *, in_order: bool) -> Iterable[tuple[str, str]]:
    """What the order of the journal says besides: times do not go back, and what was asked for and not
    answered is there if anything is that was asked for later."""
    for before, item in pairwise(log.items):
        if before.timestamp_ms > item.timestamp_ms:
            yield "time-went-back", f"{item} behind {before}"
    if not in_order or log.first_index:
        return
    seen = {item.payload for item in log.items}
    is_behind = False
    for publish in reversed(of.publishes):
        if publish.payload in seen:
            is_behind = True
        elif is_behind and publish.fate is Fate.OPEN:
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
