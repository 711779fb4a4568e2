"""Take the events of a history one by one, and have the verdict at the end.

Each event changes what is known of its topic, its subscription or its transaction; what it contradicts is
an anomaly, named with the lines of both. What only the whole history can show (a transaction that is there
in part, an ack that was older than the window) is judged behind the last line.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path

from milepost.testing.checker.events import (
    BadHistory,
    Event,
    checked_events,
    checked_header,
    read_events,
    read_header,
)
from milepost.testing.checker.messages import Messages
from milepost.testing.checker.requests import Ack, Given, Seek, Undone
from milepost.testing.checker.subscription import Subscription
from milepost.testing.checker.transactions import Transactions
from milepost.testing.checker.verdict import Verdict

WINDOW_S = 0.1


class Checker:
    def __init__(self, window_s: float = WINDOW_S) -> None:
        self.verdict = Verdict(window_s)
        self._topics: dict[str, Messages] = {}
        self._subscriptions: dict[tuple[str, str], Subscription] = {}
        self._transactions = Transactions(self.verdict)
        self._groups: dict[tuple[str, str], list[Subscription]] = {}
        """Broadcast groups, by topic and name: their members."""
        self._seeks: dict[int, tuple[Subscription, Seek]] = {}
        self._life = 0
        """The broker that runs, or ran last, from 0."""
        self._life_lines = [0]
        self._has_started = False
        self._ends: dict[int, float] = {}
        """By life, when it was killed."""
        self._ended_line = 0
        self._stalls: dict[int, float] = {}
        """By life, the longest that an answer to an ack took: no broker writes faster than it runs."""
        self._undone: list[tuple[Subscription, Undone]] = []
        """Acks without an answer that a kill has undone, also of subscriptions that are gone."""
        self._opened: dict[str, tuple[str, int]] = {}
        self._bounds: dict[str, tuple[int, int, int]] = {}

    def take(self, line: int, event: Event) -> None:
        """One event, as `read_events` gives it."""
        op, kind = event["op"], event.get("is")
        self.verdict.events[op if kind is None else f"{op} {kind}"] += 1
        try:
            if kind is None:
                _OBSERVED[op](self, line, event)
            elif kind == "invoke":
                _INVOKED[op](self, line, event)
            else:
                _ENDED[op](self, line, event)
        except ValueError as error:
            raise BadHistory(line, str(error)) from None

    def finish(self) -> Verdict:
        self._transactions.finish()
        for subscription, undone in self._undone:
            self._judge_undone(subscription, undone)
        return self.verdict

    def _judge_undone(self, subscription: Subscription, undone: Undone) -> None:
        verdict = self.verdict
        verdict.acks_undone += 1
        verdict.undone_age_s = max(verdict.undone_age_s, undone.age_s)
        # The broker had no time while it answered no client: that is the machine's, not the window's.
        if undone.age_s > verdict.window_s + self._stalls.get(undone.given.life, 0.0):
            age_ms = undone.age_s * 1000
            text = f"{subscription.name} had an ack {age_ms:.0f} ms before the end of its broker"
            verdict.add("ack-window-exceeded", text, undone.given.line, undone.line)

    # -- finding -----------------------------------------------------------------------------------

    def _topic(self, event: Event) -> Messages:
        name: str = event["topic"]
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = Messages(name, self.verdict)
        return found

    def _subscription(self, event: Event) -> Subscription:
        key = event["topic"], event["sub"]
        found = self._subscriptions.get(key)
        if found is None:
            found = Subscription(key[1], self._topic(event), self.verdict)
            self._subscriptions[key] = found
        return found

    def _of_topic(self, name: str) -> Iterator[Subscription]:
        for (topic, _), subscription in self._subscriptions.items():
            if topic == name:
                yield subscription

    def _numbers(self, event: Event) -> list[int]:
        """The messages that an event names, by their names or by their ids."""
        topic = self._topic(event)
        found = [topic.by_place.get(place) for place in event.get("ids", ())]
        found += [topic.numbers.get(name) for name in event.get("messages", ())]
        if not found:
            raise ValueError(f"{event['op']} without messages and without ids")
        known = [number for number in found if number is not None]
        if len(known) < len(found):
            raise ValueError(f"{event['op']} of a message that no line has told of")
        return known

    # -- publishing --------------------------------------------------------------------------------

    def _publish(self, line: int, event: Event) -> None:
        topic = event["of"] = self._topic(event)
        number = topic.publish(line, event, self._life)
        if (txn := event.get("txn")) is not None:
            self._transactions.sent(txn, topic, number)

    def _published(self, line: int, event: Event) -> None:
        topic: Messages = event["invoked"]["of"]
        if topic.successor is None:
            topic.ended(line, event, self._life)
        else:
            self._topic(event["invoked"]).ended_elsewhere(event, self._life)

    def _end_asked(self, line: int, event: Event) -> None:
        self._transactions.end_asked(line, event)

    def _end_answered(self, line: int, event: Event) -> None:
        self._transactions.ended(line, event)

    # -- consuming ---------------------------------------------------------------------------------

    def _receive(self, line: int, event: Event) -> None:
        topic = self._topic(event)
        number = topic.sighted(line, event)
        if number is None:
            return
        if number in topic.transactions:
            self._transactions.seen(line, topic, number)
        if "sub" not in event:
            return
        subscription = self._subscription(event)
        life = event.get("life", 0)
        if life > self._life:
            raise ValueError(f"life {life} has not begun")
        if subscription.has_given():
            self._check_given(line, event, subscription, number)
        subscription.receive(line, event, number, self._life_lines[life])

    def _check_given(
        self, line: int, event: Event, subscription: Subscription, number: int
    ) -> None:
        life = event.get("life")
        if life is None:
            session = subscription.session(event.get("by", ""))
            sent_after = session.sent_after(line, 0)
            life = bisect_right(self._life_lines, sent_after) - 1
        given = subscription.given_before(number, life)
        if given is None or given.life not in self._ends or subscription.messages.is_deleting:
            return
        if subscription.is_ready_after(number, given.line):
            return
        age_s = self._ends[given.life] - given.t - given.slack
        self._undone.append((subscription, Undone(given, age_s, line)))

    def _ack_asked(self, line: int, event: Event) -> None:
        subscription, numbers = self._subscription(event), self._numbers(event)
        cumulative = event.get("cumulative", False)
        txn = event.get("txn")
        before = subscription.asked_before(numbers)
        subscription.ack_asked(line, numbers, cumulative=cumulative, is_outside=txn is None)
        ack = event["ack"] = Ack(
            subscription, numbers, event["by"], line, before, cumulative=cumulative
        )
        if txn is not None:
            self._transactions.of(txn).acks.append(ack)

    def _ack_answered(self, line: int, event: Event) -> None:
        asked = event["invoked"]
        if "t" in asked and "t" in event:
            took = event["t"] - asked["t"]
            self._stalls[self._life] = max(self._stalls.get(self._life, 0.0), took)
        ack: Ack = asked["ack"]
        if event["is"] == "fail":
            ack.subscription.ack_refused(ack)
        if "txn" in asked:
            self._transactions.acked(line, asked["txn"], ack, is_ok=event["is"] == "ok")
        elif event["is"] == "ok":
            ack.answered(line)

    def _ack_given(self, line: int, event: Event) -> None:
        subscription, numbers = self._subscription(event), self._numbers(event)
        cumulative = event.get("cumulative", False)
        subscription.ack_asked(line, numbers, cumulative=cumulative)
        life = event.get("life", self._life)
        given = Given(life, event["t"], event.get("slack", 0.0), line)
        for number in numbers[-1:] if cumulative else numbers:
            subscription.ack_given(number, given, cumulative=cumulative)

    def _seek(self, line: int, event: Event) -> None:
        subscription = self._subscription(event)
        self._seeks[event["n"]] = subscription, subscription.seek(line, event)

    def _seek_ended(self, line: int, event: Event) -> None:
        subscription, asked = self._seeks.pop(event["n"])
        subscription.seek_ended(line, event, asked)

    def _join(self, line: int, event: Event) -> None:
        self._subscription(event).join(line, event)

    def _leave(self, line: int, event: Event) -> None:
        self._subscription(event).leave(event["by"])

    def _active(self, line: int, event: Event) -> None:
        self._subscription(event).activate(line, event["by"], is_over=event.get("over", False))

    def _release(self, line: int, event: Event) -> None:
        numbers = self._numbers(event) if "messages" in event or "ids" in event else None
        self._subscription(event).release(event["by"], numbers)

    def _subscribe(self, line: int, event: Event) -> None:
        subscription = self._subscription(event)
        subscription.begin(event.get("at", 0))
        if (group := event.get("group")) is not None:
            members = self._groups.setdefault((event["topic"], group), [])
            subscription.begin_with_slowest(line, members)
            members.append(subscription)

    def _unsubscribe(self, line: int, event: Event) -> None:
        gone = self._subscriptions.pop((event["topic"], event["sub"]), None)
        if gone is None:
            raise ValueError(f"no line has told of {event['sub']}")
        for members in self._groups.values():
            if gone in members:
                members.remove(gone)

    def _drained(self, line: int, event: Event) -> None:
        since = self._ended_line if event.get("again") else 0
        self._subscription(event).drained(line, since)

    # -- brokers and topics ------------------------------------------------------------------------

    def _start(self, line: int, event: Event) -> None:
        if self._has_started:
            self._life += 1
            self._life_lines.append(line)
            for subscription in self._subscriptions.values():
                subscription.broker_started(line)
        self._has_started = True
        self._opened.clear()

    def _kill(self, line: int, event: Event) -> None:
        if "t" in event:
            self._ends[self._life] = event["t"]
        self._ended_line = line
        for subscription in self._subscriptions.values():
            subscription.broker_ended()

    def _declare(self, line: int, event: Event) -> None:
        self._topic(event).deduplicated = event.get("deduplicated", True)

    def _trim(self, line: int, event: Event) -> None:
        event["of"] = self._topic(event)
        event["of"].ask_trim(event["index"])

    def _trimmed(self, line: int, event: Event) -> None:
        asked = event["invoked"]
        topic: Messages = asked["of"]
        if event["is"] == "fail":
            topic.refuse_trim(asked["index"])
        if event["is"] != "ok" or topic.successor is not None:
            return
        first = event.get("first", asked["index"])
        if asked.get("policy") is None:
            for subscription in self._of_topic(topic.topic):
                subscription.trimmed(line, first)
        topic.first = max(topic.first, first)

    def _delete(self, line: int, event: Event) -> None:
        self._topic(event).deletions += 1

    def _deleted(self, line: int, event: Event) -> None:
        asked = event["invoked"]
        topic, name = self._topic(asked), asked["topic"]
        if event["is"] == "fail":
            topic.deletions -= 1
        elif event["is"] == "ok":
            made_again = self._topics[name] = topic.deleted(asked["line"])
            for key in [key for key in self._subscriptions if key[0] == name]:
                gone = self._subscriptions.pop(key)
                # Their consumers may have joined it anew before the answer was heard.
                if joined := [one for one in gone.sessions.items() if one[1].is_joined]:
                    new = Subscription(gone.name, made_again, self.verdict)
                    new.keep_modes(joined)
                    self._subscriptions[key] = new
            for of_topic in [key for key in self._groups if key[0] == name]:
                del self._groups[of_topic]
            self._bounds.pop(name, None)
            self._opened.pop(name, None)

    # -- looking -----------------------------------------------------------------------------------

    def _scan(self, line: int, event: Event) -> None:
        self._topic(event).begin_scan(line, event)

    def _stored(self, line: int, event: Event) -> None:
        topic = self._topic(event)
        number = topic.found(line, event, self._life)
        if number is not None and number in topic.transactions:
            self._transactions.seen(line, topic, number)

    def _fill(self, line: int, event: Event) -> None:
        self._topic(event).fill(line, event)

    def _scanned(self, line: int, event: Event) -> None:
        self._topic(event).end_scan(line, event, self._life)

    def _lookup(self, line: int, event: Event) -> None:
        self._topic(event).look_up(line, event)

    def _opened_again(self, line: int, event: Event) -> None:
        name, state = event["topic"], event["state"]
        known, told = self._opened.setdefault(name, (state, line))
        if known != state and not self._topic(event).is_deleting:
            self.verdict.add("unstable-recovery", f"{name} is another than before", told, line)

    def _counts(self, line: int, event: Event) -> None:
        parts = [event[name] for name in ("ready", "delayed", "inflight", "acked")]
        first, end = event["first"], event["end"]
        if min(*parts, first) < 0 or sum(parts) != end - first:
            text = f"{event['sub']}: {parts} are not the {end - first} from {first} to {end}"
            self.verdict.add("bad-accounting", text, line)
        elif event.get("now"):
            self._subscription(event).counted(line, event["acked"], first, end)
        if (mark := event.get("mark")) is not None:
            self._subscription(event).mark(line, mark)
        name = event["topic"]
        known = self._bounds.get(name)
        is_back = known is not None and (first < known[0] or end < known[1])
        if known is not None and is_back and not self._topic(event).is_deleting:
            text = f"{name} has indexes {first} to {end} and had {known[0]} to {known[1]}"
            self.verdict.add("regressed", text, known[2], line)
        self._bounds[name] = first, end, line


_INVOKED = {
    "publish": Checker._publish,
    "ack": Checker._ack_asked,
    "seek": Checker._seek,
    "reset": Checker._seek,
    "commit": Checker._end_asked,
    "abort": Checker._end_asked,
    "trim": Checker._trim,
    "delete": Checker._delete,
}
_ENDED = {
    "publish": Checker._published,
    "ack": Checker._ack_answered,
    "seek": Checker._seek_ended,
    "reset": Checker._seek_ended,
    "commit": Checker._end_answered,
    "abort": Checker._end_answered,
    "trim": Checker._trimmed,
    "delete": Checker._deleted,
}
_OBSERVED = {
    "topic": Checker._declare,
    "subscribe": Checker._subscribe,
    "unsubscribe": Checker._unsubscribe,
    "start": Checker._start,
    "kill": Checker._kill,
    "join": Checker._join,
    "leave": Checker._leave,
    "active": Checker._active,
    "release": Checker._release,
    "receive": Checker._receive,
    "ack": Checker._ack_given,
    "counts": Checker._counts,
    "lookup": Checker._lookup,
    "opened": Checker._opened_again,
    "scan": Checker._scan,
    "stored": Checker._stored,
    "fill": Checker._fill,
    "scanned": Checker._scanned,
    "drained": Checker._drained,
}


def judge(lines: Iterable[str]) -> Verdict:
    """The verdict on a history, read once."""
    numbered = iter(lines)
    header = read_header(next(numbered, ""))
    return _judged(header, read_events(numbered))


def judge_events(events: Iterable[Event]) -> Verdict:
    """The verdict on a history that was never written as text: what its lines would say, the first one
    included. None of the events is changed."""
    copies = (event.copy() for event in events)
    header = checked_header(next(copies, {}))
    return _judged(header, checked_events(copies))


def _judged(header: Event, events: Iterable[tuple[int, Event]]) -> Verdict:
    checker = Checker(header.get("window_s", WINDOW_S))
    for line, event in events:
        checker.take(line, event)
    return checker.finish()


def judge_file(path: Path) -> Verdict:
    with path.open(encoding="utf-8", errors="strict") as file:
        return judge(file)
