"""What a subscription was shown, held against what it had acked and where it was told to go.

Acks are kept by message, cumulative ones as ids that ascend. A seek makes what was acked from its target on
ready again and leaves everything before it behind, so an ack counts only if no later seek has gone to its
message or below. Where two seeks overlap, or one has no known outcome, either may hold.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from milepost.testing.checker.columns import Column
from milepost.testing.checker.events import NUMBER_MAX, Event
from milepost.testing.checker.messages import GONE, OK, Messages
from milepost.testing.checker.requests import Ack, Before, Given, Seek
from milepost.testing.checker.session import Session
from milepost.testing.checker.verdict import Verdict


class Subscription:
    def __init__(self, name: str, messages: Messages, verdict: Verdict) -> None:
        self.name = name
        self.messages = messages
        self.verdict = verdict
        self.sessions: dict[str, Session] = {}
        self.start = 0
        self._least = 0
        """It begins here or behind; at `start` or before."""
        self._slowest_of: list[Subscription] = []
        """Of a new member of a group, until something is known of where it began: the others."""
        self._began = 0
        self.active: tuple[str, int] | None = None
        # Lines, by message: the latest delivery and behind which line it was sent, the latest ack of any
        # kind, and of the latest ack that was answered its invocation, its answer and (plus one) the session.
        self._delivered = Column()
        self._sent = Column()
        self._asked = Column()
        # Acks that were late when they were asked for: number of the message, line.
        self._late: set[tuple[int, int]] = set()
        self._outside = Column()  # the latest that belongs to no transaction
        self._inside = Column()  # the latest of a transaction, and the first delivery behind it
        self._again = Column()
        self._ack_invoked = Column()
        self._ack_answered = Column()
        self._acker = Column()
        # The same for cumulative acks, by ids that ascend, each the first that reached so far.
        self._up_to: list[int] = []
        self._up_to_acks: list[tuple[int, int, int]] = []
        self._up_to_asked = self._up_to_outside = (-1, 0)
        self._up_to_inside: list[tuple[int, int]] = []
        """Cumulative acks of transactions: id and line."""
        self._freed_up_to: list[tuple[int, int, int]] = []
        """Those that were taken back: id, the line of the ack, the line of the abort."""
        self._up_to_late: list[tuple[int, int, int]] = []
        """Cumulative acks that were late when they were asked for: id, number of the message, line."""
        self._given: dict[int, Given] = {}
        self._given_up_to: dict[int, tuple[list[int], list[Given]]] = {}
        self._freed = Column()
        self._committed_acks: dict[int, tuple[str, int]] = {}
        # Answered seeks whose targets and answers ascend: the last at or below an index is the one that
        # made it ready.
        self._targets: list[int] = []
        self._target_lines: list[int] = []
        self._target_invoked: list[int] = []
        self._seeks: list[Seek] = []
        """Those of which one holds now: the last that was answered, and those beside or behind it."""
        self._held: dict[int, tuple[str, str]] = {}
        """Messages with keys that were received and not acked: key and consumer."""
        self._holders: dict[str, dict[str, int]] = {}
        """By key: consumers, and how many of its messages each holds."""
        self._newest_of_key: dict[str, tuple[int, int, int]] = {}
        """By key: the highest index that came first, in which line, and behind which line it was sent. Behind
        a seek that went back, the highest since then."""
        self._moves: list[Seek] = []
        """Every seek that may have moved the cursor, ever."""
        self._mark: tuple[int, int] | None = None
        self._drained = 0

    def session(self, by: str) -> Session:
        found = self.sessions.get(by)
        if found is None:
            found = self.sessions[by] = Session(len(self.sessions))
        return found

    # -- where it begins ---------------------------------------------------------------------------

    def begin(self, at: int) -> None:
        self.start = self._least = at

    def begin_with_slowest(self, line: int, members: list[Subscription]) -> None:
        """It is new in a broadcast group: it begins where the slowest of its members is."""
        if members:
            self._least = min(one._surely_at() for one in members)
            self._slowest_of, self._began = members.copy(), line

    def _settle_start(self) -> None:
        """By now it has begun, at the latest where the slowest may be."""
        members, self._slowest_of = self._slowest_of, []
        if members:
            self.start = min(one._perhaps_at() for one in members)

    def _surely_at(self) -> int:
        """An index below which everything is acked, whatever became of what has no answer."""
        seeks = self._seeks
        index = min([one.index for one in seeks], default=self._least)
        if not any(one.answered for one in seeks):
            index = min(index, self._least)
        while True:
            number = self.messages.by_index.get(index)
            invoked = self._ack_invoked[number] if number >= 0 else 0
            if invoked <= self._ready_since(index) or self._may_be_ready(index):
                return index
            index += 1

    def _perhaps_at(self) -> int:
        """The highest index below which everything may be acked. An index that no line has told of, below one
        that is known, may be a chunk, which goes with its message."""
        self._settle_start()
        index = max([one.last for one in self._seeks], default=self.start)
        if not any(one.answered for one in self._seeks):
            index = max(index, self.start)
        by_index = self.messages.by_index
        while (known := by_index.first_in(index, NUMBER_MAX)) is not None:
            if not self.is_acked(by_index.get(known), self._moved(known)):
                return known
            index = known + 1
        return index

    # -- consumers ---------------------------------------------------------------------------------

    def keep_modes(self, sessions: Iterable[tuple[str, Session]]) -> None:
        """Its topic was made again: its consumers are what they were, and nothing is known of their order."""
        for by, known in sessions:
            self.session(by).join(known.since, known.mode, alone=False, ordered=False)

    def join(self, line: int, event: Event) -> None:
        self._forget_held(event["by"])
        self.session(event["by"]).join(
            line,
            event.get("mode", "strict"),
            alone=event.get("alone", False),
            ordered=event.get("ordered", False),
        )

    def leave(self, by: str) -> None:
        self.session(by).is_joined = False
        self._forget_held(by)
        if self.active is not None and self.active[0] == by:
            self.active = None

    def broker_ended(self) -> None:
        """Every consumer has lost its connection."""
        self.active = None
        self._mark = None  # acks without an answer may be gone
        self._hold_nothing()
        for session in self.sessions.values():
            session.ordered = False

    def broker_started(self, line: int) -> None:
        """A seek that had no answer from the broker before has held, or never will."""
        for one in self._moves:
            if one.given_up and not one.settled:
                one.settled = line

    def activate(self, line: int, by: str, *, is_over: bool) -> None:
        if is_over:
            if self.active is not None and self.active[0] == by:
                self.active = None
            return
        if self.active is not None and self.active[0] != by:
            text = f"{self.active[0]} and {by} of {self.name}"
            self.verdict.add("double-active", text, self.active[1], line)
        self.active = by, line

    def release(self, by: str, numbers: list[int] | None) -> None:
        """Messages are given back: they may come again, in any order."""
        session = self.session(by)
        session.ordered = False
        if numbers is None:
            self._forget_held(by)
        else:
            for number in numbers:
                self._let_go(number)

    # -- acks --------------------------------------------------------------------------------------

    def ack_asked(
        self, line: int, numbers: list[int], *, cumulative: bool, is_outside: bool = True
    ) -> None:
        """An ack is on its way, of whatever kind: from here on its messages need not come any more.
        `is_outside`: it belongs to no transaction."""
        for number in numbers:
            self._asked[number] = line
            if self._is_late(number):
                self._late.add((number, line))
            if is_outside:
                self._outside[number] = line
            elif not cumulative:
                self._inside[number], self._again[number] = line, 0
            self._let_go(number)
        if cumulative:
            place = self._place(numbers[-1])
            if self._delivered[numbers[-1]] and self._is_late(numbers[-1]):
                self._up_to_late.append((place, numbers[-1], line))
            else:
                self._up_to_asked = max(self._up_to_asked[0], place), line
            if is_outside:
                self._up_to_outside = max(self._up_to_outside[0], place), line
            else:
                self._up_to_inside.append((place, line))

    def asked_before(self, numbers: list[int]) -> Before:
        asked, outside = self._asked, self._outside
        return Before(
            [asked[number] for number in numbers],
            [outside[number] for number in numbers],
            self._up_to_asked,
            self._up_to_outside,
        )

    def ack_refused(self, ack: Ack) -> None:
        """An ack did not happen: its messages have to come, unless another one has acked them since."""
        for number, asked, outside in zip(
            ack.numbers, ack.before.asked, ack.before.outside, strict=True
        ):
            if self._asked[number] == ack.invoked:
                self._asked[number] = asked
            if self._outside[number] == ack.invoked:
                self._outside[number] = outside
        if self._up_to_asked[1] == ack.invoked:
            self._up_to_asked = ack.before.up_to_asked
        if self._up_to_outside[1] == ack.invoked:
            self._up_to_outside = ack.before.up_to_outside

    def ack_answered(
        self, invoked: int, line: int, numbers: list[int], by: str, *, cumulative: bool
    ) -> None:
        """An ack is durable."""
        acker = self.session(by).number + 1
        if cumulative:
            place = self._place(numbers[-1])
            is_late = self._was_late(numbers[-1], invoked)
            if not is_late and (not self._up_to or place > self._up_to[-1]):
                self._up_to.append(place)
                self._up_to_acks.append((invoked, line, acker))
            return
        for number in numbers:
            if self._was_late(number, invoked):
                continue
            # The first answer stands, unless a seek came behind it.
            if self._ack_invoked[number] <= self._ready_since(self.messages.index_of(number)):
                self._ack_invoked[number] = invoked
                self._ack_answered[number] = line
                self._acker[number] = acker

    def ack_given(self, number: int, given: Given, *, cumulative: bool) -> None:
        """An ack for which no answer was asked."""
        if self._is_late(number):
            return
        if not cumulative:
            self._given[number] = given
            return
        places, acks = self._given_up_to.setdefault(given.life, ([], []))
        place = self._place(number)
        if not places or place > places[-1]:
            places.append(place)
            acks.append(given)

    def ack_committed(self, txn: str, line: int, invoked: int, numbers: list[int]) -> None:
        """A committed transaction has acked messages one by one: no other has."""
        for number in numbers:
            other = self._committed_acks.get(number)
            if other is not None and other[0] != txn:
                since = self._ready_since(self.messages.index_of(number))
                if other[1] > since and not self._may_be_ready(self.messages.index_of(number)):
                    text = f"{other[0]} and {txn} both acked {self.messages.name_of(number)}"
                    self.verdict.add("acked-twice", text, other[1], line)
            self._committed_acks[number] = txn, invoked

    def ack_aborted(self, line: int, ack: Ack) -> None:
        """An ack of a transaction was taken back: its messages come again."""
        for number in ack.numbers:
            self._freed[number] = line
        if ack.cumulative:
            self._freed_up_to.append((self._place(ack.numbers[-1]), ack.invoked, line))

    def _freed_at(self, number: int) -> int:
        """The line of the abort that gave the message back; 0 if none did. One that a cumulative ack spoke
        for without its name is given back if no other transaction has acked it."""
        freed, known = self._freed[number], self.messages.places[number]
        if freed or not self._freed_up_to or known is None or self._inside[number]:
            return freed
        up_to = [asked for place, asked in self._up_to_inside if known <= place]
        for place, asked, line in self._freed_up_to:
            if known <= place and up_to == [asked]:
                return line
        return 0

    def _is_late(self, number: int) -> bool:
        """An ack of it is of a delivery that may be older than the seek which made it ready again: the
        consumer need not have heard of that, and then its ack moves nothing."""
        return self._sent[number] < self._ready_since(self.messages.index_of(number))

    def _was_late(self, number: int, invoked: int) -> bool:
        """It was late when it was asked for, or became so. A delivery behind that changes nothing."""
        asked = number, invoked
        if asked in self._late:
            self._late.discard(asked)
            return True
        return self._is_late(number)

    def _place(self, number: int) -> int:
        place = self.messages.places[number]
        if place is None:
            raise ValueError(
                f"a cumulative ack of {self.messages.name_of(number)}, whose id no line has told"
            )
        return place

    # -- seeks -------------------------------------------------------------------------------------

    def seek(self, line: int, event: Event) -> Seek:
        index: int = event["index"]
        last: int = event.get("last", index)
        asked = Seek(event["op"], event["by"], index, max(index, last), line)
        self._seeks.append(asked)
        self._moves.append(asked)
        self._hold_nothing()
        return asked

    def seek_ended(self, line: int, event: Event, asked: Seek) -> None:
        if event["is"] == "fail":
            self._seeks = [one for one in self._seeks if one is not asked]
            self._moves.remove(asked)
        self._hold_nothing()
        if event["is"] != "ok":
            asked.given_up = True
            return
        asked.answered = asked.settled = line
        asked.last = max(event.get("last", 0), asked.last)
        # Seeks of one consumer are obeyed in their order; those that were over are over, and so are those
        # without an answer whose broker had ended.
        self._seeks = [
            one
            for one in self._seeks
            if one is asked
            or (one.by == asked.by and one.invoked > asked.invoked)
            or (one.by != asked.by and (not one.settled or one.settled > asked.invoked))
        ]
        while self._targets and self._targets[-1] >= asked.index:
            self._targets.pop()
            self._target_lines.pop()
            self._target_invoked.pop()
        self._targets.append(asked.index)
        self._target_lines.append(line)
        self._target_invoked.append(asked.invoked)
        self._up_to.clear()
        self._up_to_acks.clear()
        self._up_to_late = [one for one in self._up_to_late if one[2] > asked.invoked]
        self._mark = None
        if asked.op == "seek":
            self.session(asked.by).begin_again(line)

    def _ready_since(self, index: int) -> int:
        """The line of the last answered seek that made the index ready; 0 if none did."""
        at = bisect_right(self._targets, index) if index >= 0 else len(self._targets)
        return self._target_lines[at - 1] if at else 0

    def _may_be_ready(self, index: int) -> bool:
        """A seek of which the outcome is not known may have made the index ready."""
        return any(not one.answered and (index < 0 or one.index <= index) for one in self._seeks)

    # -- deliveries --------------------------------------------------------------------------------

    def receive(self, line: int, event: Event, number: int, life_line: int) -> None:
        session = self.session(event.get("by", ""))
        sent_after = session.sent_after(line, life_line)
        if not self.messages.is_deleting:  # otherwise it may be of the topic that was made again
            self._judge(line, event, session, number, sent_after)
        self._delivered[number] = line
        self._sent[number] = sent_after
        if self._inside[number] and not self._again[number]:
            self._again[number] = line

    def _judge(
        self, line: int, event: Event, session: Session, number: int, sent_after: int
    ) -> None:
        index = self.messages.index_of(number)
        self._check_acks(line, session, number, index, sent_after)
        if self._slowest_of:
            self._settle_start()
            if index >= 0 and not self._moves:
                self.start = min(self.start, index)
        if 0 <= index < self._least and not self._moves:
            text = f"{self.name} began at index {index}, which every member of its group had acked"
            self.verdict.add("redelivered-after-durable-ack", text, self._began, line)
        if index >= 0:
            self._check_seek(line, session, index, sent_after)
            session.awaits_first = False
        if session.ordered and index >= 0:
            self._check_order(line, session, index)
        if (key := event.get("key")) is not None:
            self._check_key(line, event.get("by", ""), key, number, index, sent_after)

    def _check_acks(
        self, line: int, session: Session, number: int, index: int, sent_after: int
    ) -> None:
        if self._may_be_ready(index):
            return
        since = self._ready_since(index)
        invoked, answered = self._ack_invoked[number], self._ack_answered[number]
        own = session.mode == "connection" and self._acker[number] == session.number + 1
        lines: tuple[int, ...] = ()
        if answered and invoked > since and (answered <= sent_after or own):
            lines = invoked, answered
        elif self._up_to:
            place = self.messages.places[number]
            at = bisect_left(self._up_to, place) if place is not None else len(self._up_to)
            if at < len(self._up_to):
                invoked, answered, acker = self._up_to_acks[at]
                own = session.mode == "connection" and acker == session.number + 1
                if (
                    invoked > since
                    and (answered <= sent_after or (own and answered > session.since))
                    and not self._may_leave(number, invoked)
                ):
                    lines = invoked, answered
        if lines:
            text = f"{self.name} got {self.messages.name_of(number)} again"
            self.verdict.add("redelivered-after-durable-ack", text, *lines, line)

    def _may_leave(self, number: int, asked: int) -> bool:
        """A transaction has acked the message, and it was not delivered again before the cumulative ack that
        was asked for in this line: the sender need not have been shown it, and then does not speak for it."""
        known = self.messages.places[number]
        if known is not None and any(
            known <= place and line != asked for place, line in self._up_to_inside
        ):
            return True
        return bool(self._inside[number]) and not 0 < self._again[number] < asked

    def given_before(self, number: int, life: int) -> Given | None:
        """The oldest ack without an answer of an earlier life that covers the message."""
        found = [one for one in (self._given.get(number),) if one is not None and one.life < life]
        place = self.messages.places[number]
        if place is not None:
            for earlier, (places, acks) in self._given_up_to.items():
                at = bisect_left(places, place)
                if (
                    earlier < life
                    and at < len(places)
                    and not self._may_leave(number, acks[at].line)
                ):
                    found.append(acks[at])
        return min(found, key=lambda one: one.t, default=None)

    def has_given(self) -> bool:
        return bool(self._given or self._given_up_to)

    def is_ready_after(self, number: int, line: int) -> bool:
        """A seek behind the line made the message ready, or may have."""
        index = self.messages.index_of(number)
        return self._ready_since(index) > line or self._may_be_ready(index)

    def _check_seek(self, line: int, session: Session, index: int, sent_after: int) -> None:
        if not self._seeks:
            return
        behind = [one for one in self._seeks if not one.answered or one.answered <= sent_after]
        answered = [one for one in behind if one.answered]
        if not answered or len(behind) < len(self._seeks):
            return
        lowest = min(behind, key=lambda one: one.index)
        if index < lowest.index:
            name = "stale-after-seek" if lowest.op == "seek" else "reset-undone"
            text = f"{self.name} got index {index} behind a {lowest.op} to {lowest.index}"
            self.verdict.add(name, text, lowest.answered, line)
        elif session.awaits_first:
            self._check_first(line, index, behind)

    def _check_first(self, line: int, index: int, seeks: list[Seek]) -> None:
        """The first message behind a seek is its target, or the first unacked one behind that."""
        for one in seeks:
            if index < one.index:
                continue
            if index <= one.last or self._unacked_in(one.last, index) is None:
                return
        seek = seeks[-1]
        missed = self._unacked_in(seek.last, index)
        told = 0 if missed is None else self.messages.indexed[self.messages.by_index.get(missed)]
        if len(seeks) > 1:
            name, wanted = "torn-seek", ", ".join(str(one.index) for one in seeks)
        else:
            name = "wrong-first" if seek.op == "seek" else "reset-undone"
            wanted = str(seek.index)
        lines = [one.answered or one.invoked for one in seeks]
        text = f"{self.name} got index {index} first, behind a {seek.op} to {wanted}"
        self.verdict.add(name, text, *lines, told, line)

    def _unacked_in(self, first: int, end: int, *, is_trim: bool = False) -> int | None:
        """The lowest index of the range with a message that is surely there and was never acked."""
        messages = self.messages
        first = first if is_trim else max(first, messages.trim_asked)
        while (index := messages.by_index.first_in(first, end)) is not None:
            number = messages.by_index.get(index)
            is_taken_back = is_trim and self._is_taken_back(number)
            if number not in messages.transactions and (is_taken_back or not self.is_acked(number)):
                return index
            first = index + 1
        return None

    def _is_taken_back(self, number: int) -> bool:
        """Only a transaction that was aborted has acked it."""
        freed, known = self._freed_at(number), self.messages.places[number]
        if not freed or (known is not None and self._is_acked_up_to(known, freed)):
            return False
        return not self._is_acked_outside(number, freed)

    def is_acked(self, number: int, since: int | None = None) -> bool:
        """It was acked, or perhaps was, since it was last made ready, or behind the line `since`."""
        if since is None:
            since = self._ready_since(self.messages.index_of(number))
        if self._asked[number] > since:
            return True
        known = self.messages.places[number]
        if known is None:
            return False
        return self._is_acked_up_to(known, since) or any(
            known <= place and asked > since for place, _, asked in self._up_to_late
        )

    def _is_acked_up_to(self, known: int, since: int) -> bool:
        """A cumulative ack behind the line may have counted that reached the id. One that was late did so
        only if the broker had delivered its message anew."""
        place, asked = self._up_to_asked
        return (asked > since and known <= place) or any(
            known <= place
            and asked > since
            and self._delivered[number] > self._moved(self.messages.index_of(number))
            for place, number, asked in self._up_to_late
        )

    def _is_acked_outside(self, number: int, freed: int) -> bool:
        """It was acked, or perhaps was, by more than a transaction which was aborted in the line `freed`."""
        since = self._ready_since(self.messages.index_of(number))
        if max(self._asked[number], self._ack_answered[number]) > freed:
            return True
        place, asked = self._up_to_outside
        known = self.messages.places[number]
        is_below = known is not None and known <= place
        return self._outside[number] > since or (is_below and asked > since)

    def _check_order(self, line: int, session: Session, index: int) -> None:
        last = session.last_index
        if last >= 0:
            if index <= last:
                text = f"{self.name} got index {index} behind {last}"
                self.verdict.add("reordered", text, session.last_line, line)
            elif (missed := self._unacked_in(last + 1, index)) is not None:
                told = self.messages.indexed[self.messages.by_index.get(missed)]
                text = f"{self.name} got index {index} behind {last}, and not {missed}"
                self.verdict.add("skipped", text, told, session.last_line, line)
        session.last_index, session.last_line = index, line

    def _check_key(
        self, line: int, by: str, key: str, number: int, index: int, sent_after: int
    ) -> None:
        holders = self._holders.setdefault(key, {})
        for other in holders:
            # Before a seek it was another's, and no client has to hear of that at once.
            if other != by and not self._may_have_moved(sent_after):
                held = next(one for one, of in self._held.items() if of == (key, other))
                text = f"{other} still holds a message of key {key!r}, and {by} got another"
                self.verdict.add("key-reorder", text, self._delivered[held], line)
                break
        newest, told, newest_sent = self._newest_of_key.get(key, (-1, 0, 0))
        if index >= 0 and not self._delivered[number]:
            if index > newest or self._may_have_gone_back(index, newest_sent):
                self._newest_of_key[key] = index, line, sent_after
            elif not self._may_have_moved(sent_after):
                text = f"index {index} of key {key!r} came first behind index {newest}"
                self.verdict.add("key-reorder", text, told, line)
        if number not in self._held:
            self._held[number] = key, by
            holders[by] = holders.get(by, 0) + 1

    def _may_have_moved(self, since: int) -> bool:
        """A seek may have taken effect behind the line: what was sent before it is of another order."""
        return any(not one.settled or one.settled > since for one in self._moves)

    def _may_have_gone_back(self, index: int, since: int) -> bool:
        """A seek to the index, or below it, may have taken effect behind the line. One that went further
        excuses nothing, also when its broker ended before the answer: what is sent behind a seek that the
        next broker does not know shows that it was sent before the seek was on disk."""
        return any(
            one.index <= index and (not one.settled or one.settled > since) for one in self._moves
        )

    def _let_go(self, number: int) -> None:
        held = self._held.pop(number, None)
        if held is not None:
            key, by = held
            holders = self._holders[key]
            holders[by] -= 1
            if not holders[by]:
                del holders[by]

    def _hold_nothing(self) -> None:
        """What consumers hold is ready again, with the broker's end or with a move of the cursor: the next
        may get it before they have heard of that."""
        self._held.clear()
        self._holders.clear()

    def _forget_held(self, by: str) -> None:
        for number in [one for one, (_, holder) in self._held.items() if holder == by]:
            self._let_go(number)

    # -- numbers and ends --------------------------------------------------------------------------

    def mark(self, line: int, mark: int) -> None:
        """The mark-delete position only goes forward, but for seeks."""
        is_back = self._mark is not None and mark < self._mark[0] and not self.messages.is_deleting
        if self._mark is not None and is_back and not self._seeks_since(self._mark[1]):
            text = f"the mark-delete of {self.name} is {mark} and was {self._mark[0]}"
            self.verdict.add("regressed", text, self._mark[1], line)
        self._mark = mark, line

    def counted(self, line: int, acked: int, first: int, end: int) -> None:
        """So many indexes of the range are acked while nothing happens: all that surely are, and none that
        surely is not. Indexes without a message of their own may be either."""
        if self._slowest_of or self.messages.is_deleting:
            return  # where it begins shows only with what it gets; or it may be of another topic
        messages = self.messages
        surely = never = told = 0
        index = messages.by_index.first_in(first, end)
        while index is not None:
            number = messages.by_index.get(index)
            if answered := self._durable_ack(number, index):
                surely, told = surely + 1, max(told, answered)
            elif self._must_come(number, index) and not self.is_acked(number, self._moved(index)):
                never += 1
            index = messages.by_index.first_in(index + 1, end)
        if acked < surely:
            text = f"{self.name} counts {acked} acked indexes, {surely} were acked for certain"
            self.verdict.add("bad-accounting", text, told, line)
        elif acked > end - first - never:
            text = f"{self.name} counts {acked} acked indexes of {end - first}, {never} never were"
            self.verdict.add("bad-accounting", text, line)

    def _durable_ack(self, number: int, index: int) -> int:
        """The line of the answer behind which the message is acked whatever happens; 0 if there is none."""
        if self._may_be_ready(index) or self._freed_at(number):
            return 0
        since = self._ready_since(index)
        if self._ack_answered[number] and self._ack_invoked[number] > since:
            return self._ack_answered[number]
        place = self.messages.places[number]
        at = bisect_left(self._up_to, place) if place is not None else len(self._up_to)
        if at == len(self._up_to):
            return 0
        invoked, answered, _ = self._up_to_acks[at]
        return answered if invoked > since and not self._may_leave(number, invoked) else 0

    def _seeks_since(self, line: int) -> bool:
        return any(not one.answered or one.answered > line for one in self._seeks)

    def trimmed(self, line: int, index: int) -> None:
        """Retention has taken everything below the index."""
        if self.messages.is_deleting:
            return
        lowest = max([self.start, self.messages.first, *(one.index for one in self._seeks)])
        if (missed := self._unacked_in(lowest, index, is_trim=True)) is not None:
            number = self.messages.by_index.get(missed)
            text = f"{self.name} had not acked index {missed}"
            self.verdict.add("trimmed-unacked", text, self.messages.indexed[number], line)

    def drained(self, line: int, since: int = 0) -> None:
        """Everything that is left was received: what was not delivered behind `since` never will be."""
        self._settle_start()
        self._drained = line
        messages = self.messages
        missing = swallowed = 0
        evidence = swallowed_at = (0, 0)
        for number in range(len(messages)):
            index = messages.index_of(number)
            delivered = self._delivered[number]
            freed = self._freed_at(number)
            if not self._must_come(number, index):
                continue
            if freed and delivered <= freed and not self._is_acked_outside(number, freed):
                swallowed += 1
                swallowed_at = swallowed_at if swallowed > 1 else (self._asked[number], freed)
            elif undone := self._acked_late(number, index):
                text = f"{self.name} never got index {index} again: an ack from before took it away"
                self.verdict.add("reset-undone", text, *undone, line)
            elif delivered <= max(self._moved(index), since) and not self._may_be_acked(number):
                missing += 1
                if missing == 1:
                    evidence = messages.answered[number], messages.stored[number]
        if missing:
            text = f"{self.name} never got {missing} messages"
            self.verdict.add("stuck", text, *evidence, line)
        if swallowed:
            text = f"{self.name} never got {swallowed} messages again"
            self.verdict.add("aborted-ack", text, *swallowed_at, line)

    def _moved(self, index: int) -> int:
        """The line where the last answered seek was asked for that made the index ready; 0: none did."""
        at = bisect_right(self._targets, index) if index >= 0 else 0
        return self._target_invoked[at - 1] if at else 0

    def _may_be_acked(self, number: int) -> bool:
        """It was acked, or perhaps was. An ack that a consumer sent behind its own request to seek counts if
        the broker had delivered the message anew by then: an ack does not say of which delivery it is."""
        index, known = self.messages.index_of(number), self.messages.places[number]
        moved = self._moved(index)
        since = moved if self._delivered[number] > moved else self._ready_since(index)
        return self._asked[number] > since or (
            known is not None and self._is_acked_up_to(known, since)
        )

    def kept_away(self, number: int, freed: int) -> int:
        """The line where everything was drained and the message had not come again, though the transaction
        that acked it was not committed in the line `freed`; 0 if it came, or need not."""
        came = max(self._delivered[number], self._moved(self.messages.index_of(number))) > freed
        is_needed = self._must_come(number, self.messages.index_of(number))
        if came or not is_needed or self._is_acked_outside(number, freed):
            return 0
        return self._drained if self._drained > freed else 0

    def _acked_late(self, number: int, index: int) -> tuple[int, ...]:
        """The lines that show that the message was kept away by an ack of a delivery before a seek."""
        moved, known = self._moved(index), self.messages.places[number]
        if not moved or self._delivered[number] > moved:
            return ()
        late = [one[2] for one in self._up_to_late if known is not None and known <= one[0]]
        asked = max([self._asked[number], *late])
        if asked <= moved or (known is not None and self._is_acked_up_to(known, moved)):
            return ()  # acked by what came behind the seek, perhaps
        return moved, asked

    def _must_come(self, number: int, index: int) -> bool:
        messages = self.messages
        is_there = messages.fates[number] == OK or messages.stored[number] > 0
        if not is_there or messages.fates[number] == GONE or messages.is_deleting:
            return False
        if number in messages.transactions and not messages.seen[number]:
            return False
        lowest = max(self.start, messages.first, messages.trim_asked)
        lowest = max([lowest, *(one.last for one in self._seeks)])
        return index >= lowest if index >= 0 else not lowest
