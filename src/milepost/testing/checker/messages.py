"""The messages of one topic: what was asked for, what was answered, and where each was seen.

A message has a number, in the order in which messages were handed over. Judged here are invariants of the
log: every receipt stands; message, id and index are one to one; indexes are dense; the order of a lane
holds; nothing is there that no producer sent, that was refused, or that is there already. A scan is the
truth about the topic at its moment; without one, deliveries alone are compared.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from milepost.testing.checker.columns import Column, Sparse
from milepost.testing.checker.events import NUMBER_MAX, Event, id_text
from milepost.testing.checker.verdict import Verdict

OPEN: Final = 0
OK: Final = 1
FAILED: Final = 2
UNKNOWN: Final = 3
GONE: Final = 4  # unknown, and not there when the next broker was looked into
FATES: Final = {"ok": OK, "fail": FAILED, "unknown": UNKNOWN}


class Scan:
    """One look at everything that is stored, while its lines come."""

    def __init__(self, line: int, first: int | None) -> None:
        self.line = line
        self.first = first
        self.next = first
        """The index that must come next; None if only messages are listed, not every index."""
        self.count = 0
        self.lowest: int | None = None
        self.last_place = -1
        self.last_index = -1
        self.last_line = 0
        self.newest: dict[int, int] = {}
        """By lane, the newest message so far."""
        self.counts: Counter[int] = Counter()
        """Where a message may have several places, how many were found."""


class Owner:
    """A broker that answered for the topic: between which indexes, and since when."""

    def __init__(self, line: int) -> None:
        self.lowest, self.highest = NUMBER_MAX, -1
        self.lowest_line = self.highest_line = self.first_line = line

    def answered(self, index: int, line: int) -> None:
        if index < self.lowest:
            self.lowest, self.lowest_line = index, line
        if index > self.highest:
            self.highest, self.highest_line = index, line


class Messages:
    def __init__(self, topic: str, verdict: Verdict) -> None:
        self.topic = topic
        self.verdict = verdict
        self.deduplicated = True
        self.numbers: dict[str, int] = {}
        self.fates = bytearray()
        self.places: list[int | None] = []
        self.transactions: dict[int, str] = {}
        # Lines, by message: where it was handed over, answered, given its place and index, seen, stored.
        self.invoked = Column()
        self.answered = Column()
        self.placed = Column()
        self.indexed = Column()
        self.seen = Column()
        self.stored = Column()
        # Lives of the broker, from 1, in which it was handed over and in which it got its outcome.
        self.life_invoked = Column()
        self.life_ended = Column()
        self._indexes = Column()  # plus one
        self._originals: dict[int, int] = {}
        """A message that is stored once more has a number for each copy: that of the first."""
        self._lanes: dict[tuple[str, str], int] = {}
        self._lane_of = Column()
        self._answered_last: dict[int, int] = {}
        self._first_chunks: dict[int, tuple[int, int]] = {}
        self._receipt_places: dict[int, int] = {}
        self.by_place: dict[int, int] = {}
        self.by_index = Sparse()
        self.scan: Scan | None = None
        self.scanned = 0
        """The line where the last whole scan began."""
        self._retained: tuple[int, int | None] = (0, None)
        """First index and lowest id of the last scan."""
        self.first = 0
        self.trim_asked = 0
        self._trims: list[int] = []
        """Up to where trims were asked for, but for those that were refused."""
        self.deletions = 0
        """Requests to delete it that were not refused: whether it is the same topic as before, or one that
        was made again with the first index, is not known."""
        self.successor: Messages | None = None
        self._owners: dict[int, Owner] = {}

    def __len__(self) -> int:
        return len(self.fates)

    @property
    def is_deleting(self) -> bool:
        return self.deletions > 0

    def _object(self, name: str, text: str, *lines: int) -> None:
        """An anomaly, unless it may be of a topic that was deleted and made again."""
        if not self.deletions:
            self.verdict.add(name, text, *lines)

    def index_of(self, number: int) -> int:
        """The index of a message; -1 while no line has told it."""
        return self._indexes[number] - 1

    def name_of(self, number: int) -> str:
        line = self.invoked[number]
        return f"message {number} of {self.topic} (line {line})"

    # -- the end of a topic, and of what is in it ------------------------------------------------------

    def ask_trim(self, index: int) -> None:
        self._trims.append(index)
        self.trim_asked = max(self.trim_asked, index)

    def refuse_trim(self, index: int) -> None:
        self._trims.remove(index)
        self.trim_asked = max(self._trims, default=0)

    def deleted(self, asked: int) -> Messages:
        """The topic as it is made again. A message may be in it though it was handed over before, if no
        answer says that it was in the old one: that is one from before the deletion was asked for."""
        new = self.successor = Messages(self.topic, self.verdict)
        new.deduplicated = self.deduplicated
        new.deletions = self.deletions - 1
        new._lanes = self._lanes
        for name, number in self.numbers.items():
            fate = self.fates[number]
            if fate in (OPEN, UNKNOWN) or (fate == OK and self.answered[number] > asked):
                copy = new.numbers[name] = len(new.fates)
                new.fates.append(UNKNOWN if fate == OK else fate)
                new.places.append(None)
                new.invoked[copy] = self.invoked[number]
                new.life_invoked[copy] = self.life_invoked[number]
                new.life_ended[copy] = self.life_ended[number]
                new._lane_of[copy] = self._lane_of[number]
                if number in self.transactions:
                    new.transactions[copy] = self.transactions[number]
        return new

    def ended_elsewhere(self, event: Event, life: int) -> None:
        """The outcome of a publish that was under way when its topic was made again, perhaps in this one."""
        number = self.numbers.get(event["invoked"]["message"])
        if number is not None:
            fate = FATES[event["is"]]
            self.fates[number] = UNKNOWN if fate == OK else fate
            self.life_ended[number] = life + 1

    # -- publishing --------------------------------------------------------------------------------

    def publish(self, line: int, event: Event, life: int) -> int:
        name = event["message"]
        known = self.numbers.get(name)
        if known is not None:
            raise ValueError(
                f"message {name!r} was published before, in line {self.invoked[known]}: names are unique"
            )
        number = self.numbers[name] = len(self.fates)
        self.fates.append(OPEN)
        self.places.append(None)
        self.invoked[number] = line
        self.life_invoked[number] = life + 1
        lane = event["by"], event.get("lane", "")
        self._lane_of[number] = self._lanes.setdefault(lane, len(self._lanes))
        return number

    def ended(self, line: int, event: Event, life: int) -> None:
        """The outcome of a publish."""
        number = self.numbers[event["invoked"]["message"]]
        self.fates[number] = FATES[event["is"]]
        self.life_ended[number] = life + 1
        if event["is"] != "ok":
            return
        self.answered[number] = line
        lane = self._lane_of[number]
        before = self._answered_last.get(lane, -1)
        if before > number:
            text = "a receipt came behind that of a later message"
            self.verdict.add("reordered", text, self.answered[before], line)
        place = event.get("id")
        if place is not None:
            self._receipt(line, number, place, event.get("index"))
            earlier = self.places[before] if 0 <= before < number else None
            if earlier is not None and earlier > place:
                text = "a later message has an earlier id"
                self._object("reordered", text, self.answered[before], line)
        elif "id" in event and not self.deduplicated:
            text = f"{self.name_of(number)} has a receipt without an id"
            self.verdict.add("inconsistent-position", text, line)
        self._answered_last[lane] = max(before, number)
        if (first := event.get("first")) is not None:
            self._first_chunks[number] = first, line
        if (owner := event.get("owner")) is not None:
            self._owned(line, event["invoked"]["line"], owner, event.get("index"))

    def _receipt(self, line: int, number: int, place: int, index: int | None) -> None:
        known = self.places[number]
        if not self.deduplicated:
            self._receipt_places[number] = place
        elif known is not None and known != place:
            text = f"the receipt says {id_text(place)}, it was seen at {id_text(known)}"
            self._object("inconsistent-position", text, self.placed[number], line)
            return
        copy = self._claim(line, number, place)
        if copy is not None:
            self._claim_index(line, copy, index)

    def _owned(self, line: int, invoked: int, owner: int, index: int | None) -> None:
        for other, of in self._owners.items():
            if other == owner:
                continue
            if index is not None and of.lowest <= index <= of.highest:
                text = f"owners {other} and {owner} both answered around index {index}"
                self._object("split-brain", text, of.lowest_line, of.highest_line, line)
            elif other > owner and invoked > of.first_line:
                text = f"owner {owner} answered what was asked behind an answer of owner {other}"
                self._object("split-brain", text, of.first_line, invoked, line)
        mine = self._owners.setdefault(owner, Owner(line))
        if index is not None:
            mine.answered(index, line)

    # -- seeing ------------------------------------------------------------------------------------

    def sighted(self, line: int, event: Event) -> int | None:
        """A message was received or found; its number, or None if no producer sent it."""
        name = event["message"]
        number = self.numbers.get(name) if name is not None else None
        if number is None:
            self.verdict.add("phantom", f"{name!r} of {self.topic} was never sent", line)
            return None
        fate = self.fates[number]
        if fate in (FAILED, GONE):
            why = "was refused" if fate == FAILED else "was not there before"
            self.verdict.add(
                "aborted-read", f"{name!r} {why} and is there", self.invoked[number], line
            )
        self._check_chunks(line, event, number)
        place = event.get("id")
        copy = number if place is None else self._claim(line, number, place, is_sight=True)
        if copy is None:
            copy = number
        else:
            self._claim_index(line, copy, event.get("index"))
        self.seen[copy] = line
        return copy

    def _check_chunks(self, line: int, event: Event, number: int) -> None:
        if event.get("whole") is False:
            self.verdict.add("torn-chunk", f"{self.name_of(number)} came in part", line)
        first = event.get("first")
        if first is None:
            return
        known, told = self._first_chunks.setdefault(number, (first, line))
        if known != first:
            text = f"its first chunk is {id_text(known)} and {id_text(first)}"
            self._object("torn-chunk", text, told, line)

    def _claim(self, line: int, number: int, place: int, *, is_sight: bool = False) -> int | None:
        """A line says where the message is: its number, that of its copy, or None if it cannot be."""
        holder = self.by_place.get(place)
        if holder is not None and (not self.deletions or self.original(holder) == number):
            if self.original(holder) == number:
                return holder
            text = f"{id_text(place)} is {self.name_of(holder)} and {self.name_of(number)}"
            self.verdict.add("inconsistent-position", text, self.placed[holder], line)
            return None
        known = self.places[number]
        if known is not None and not self.deletions:
            if not self.deduplicated:
                number = self._copy(number)
            elif is_sight:
                # Two sights are two copies; a sight and a receipt that it contradicts are one, misplaced.
                name = "duplicate" if self.seen[number] else "inconsistent-position"
                text = f"{self.name_of(number)} is at {id_text(known)} and at {id_text(place)}"
                self.verdict.add(name, text, self.placed[number], line)
                return None
        self.by_place[place] = number
        self.places[number] = place
        self.placed[number] = line
        return number

    def original(self, number: int) -> int:
        return self._originals.get(number, number)

    def _copy(self, number: int) -> int:
        copy = len(self.fates)
        self._originals[copy] = number
        self.fates.append(OPEN)
        self.places.append(None)
        for column in (self.invoked, self.life_invoked, self._lane_of):
            column[copy] = column[number]
        if number in self.transactions:
            self.transactions[copy] = self.transactions[number]
        return copy

    def _claim_index(self, line: int, number: int, index: int | None) -> None:
        if index is None:
            return
        known = self._indexes[number] - 1
        if known == index:
            return
        if known >= 0 and not self.deletions:
            text = f"{self.name_of(number)} has index {known} and {index}"
            self.verdict.add("inconsistent-position", text, self.indexed[number], line)
            return
        holder = self.by_index.get(index)
        if holder >= 0 and holder != number and not self.deletions:
            text = f"index {index} is {self.name_of(holder)} and {self.name_of(number)}"
            self.verdict.add("reused-index", text, self.indexed[holder], line)
            return
        self.by_index.put(index, number)
        self._indexes[number] = index + 1
        self.indexed[number] = line

    def look_up(self, line: int, event: Event) -> None:
        """An index was looked up."""
        index, place = event["index"], event["id"]
        number = self.by_index.get(index) if index >= 0 else -1
        if number < 0:
            if place is not None:
                self._found_elsewhere(line, index, place)
            return
        known = self.places[number]
        is_retained = index >= self.trim_asked and not self.is_deleting
        if place is None and is_retained and self.answered[number]:
            text = f"index {index} was not found"
            self.verdict.add("bad-lookup", text, self.indexed[number], line)
        elif place is not None and known is not None and place != known:
            text = f"index {index} gave {id_text(place)}, it is {id_text(known)}"
            self._object("bad-lookup", text, self.indexed[number], line)

    def _found_elsewhere(self, line: int, index: int, place: int) -> None:
        """A lookup found a message for an index of which no line has told: it may be one whose index is not
        known yet, and for what was trimmed the first that is left."""
        found = self.by_place.get(place)
        if index < 0:
            self.verdict.add("bad-lookup", f"index {index} was found", line)
        elif found is not None and index >= self.trim_asked and (at := self.index_of(found)) >= 0:
            text = f"index {index} gave {id_text(place)}, which is index {at}"
            self._object("bad-lookup", text, self.indexed[found], line)

    # -- scans -------------------------------------------------------------------------------------

    def begin_scan(self, line: int, event: Event) -> None:
        self.scan = Scan(line, event.get("first"))

    def found(self, line: int, event: Event, life: int) -> int | None:
        """One stored message of a scan."""
        scan = self._scan()
        index, place = event.get("index"), event["id"]
        if index is not None:
            self._expect(scan, line, index)
            scan.next = None if scan.next is None else index + 1
            scan.last_index = index
        if place is not None:
            if place <= scan.last_place:
                text = f"{id_text(place)} is behind {id_text(scan.last_place)}"
                self.verdict.add("inconsistent-position", text, scan.last_line, line)
            scan.last_place = place
            scan.lowest = place if scan.lowest is None else scan.lowest
        scan.last_line = line
        scan.count += 1
        number = self.sighted(line, event)
        if number is None:
            return None
        original = self.original(number)
        if not self._is_again(scan, line, number, original, life):
            lane = self._lane_of[number]
            newest = scan.newest.get(lane, -1)
            if newest > original and not (scan.first and self._was_sent_again(original)):
                text = f"{self.name_of(number)} is behind {self.name_of(newest)}"
                self.verdict.add("reordered", text, self.stored[newest], line)
            scan.newest[lane] = max(newest, original)
        self.stored[number] = line
        return number

    def _was_sent_again(self, number: int) -> bool:
        """It may have been, through a kill; and its first copy may have been trimmed."""
        return not self.deduplicated and self.life_ended[number] != self.life_invoked[number]

    def _is_again(self, scan: Scan, line: int, number: int, original: int, life: int) -> bool:
        """Whether the scan has found the message before. A client sends again, after each kill, what
        has no answer: without deduplication each of these may be there."""
        before = self.stored[number]
        if self.deduplicated:
            if before > scan.line:
                text = f"{self.name_of(number)} is there twice"
                self.verdict.add("duplicate", text, before, line)
            return before > scan.line
        scan.counts[original] += 1
        allowed = 1 + (self.life_ended[original] or life + 1) - self.life_invoked[original]
        if scan.counts[original] > allowed:
            text = f"{self.name_of(original)} is there more than {allowed} times"
            self.verdict.add("duplicate", text, self.stored[original] or before, line)
        return scan.counts[original] > 1

    def fill(self, line: int, event: Event) -> None:
        """Indexes of a scan that hold no message of their own."""
        scan = self._scan()
        if event["to"] < event["from"]:
            raise ValueError(f"a fill from {event['from']} to {event['to']}, which is before it")
        self._expect(scan, line, event["from"])
        scan.next = None if scan.next is None else event["to"]
        scan.last_index = event["to"] - 1
        scan.last_line = line

    def _expect(self, scan: Scan, line: int, index: int) -> None:
        if index <= scan.last_index:
            text = f"index {index} of {self.topic} is behind index {scan.last_index}"
            self.verdict.add("reused-index", text, scan.last_line, line)
        elif scan.next is not None and index != scan.next:
            text = f"{self.topic} has nothing at index {scan.next} to {index - 1}"
            self.verdict.add("hole", text, scan.last_line or scan.line, line)

    def end_scan(self, line: int, event: Event, life: int) -> None:
        scan = self._scan()
        self.scan = None
        self.scanned = scan.line
        self._retained = scan.first or 0, scan.lowest
        end = event.get("end")
        if end is not None and scan.next is not None and scan.next != end:
            text = f"{self.topic} ends at {end}, its last message before {scan.next}"
            self.verdict.add("hole", text, scan.last_line or scan.line, line)
        first = scan.first or 0
        if first > self.trim_asked:
            text = f"{self.topic} begins at {first}, trimmed was up to {self.trim_asked}"
            self._object("lost", text, scan.line)
        if scan.first is not None and first < self.first:
            text = f"{self.topic} begins at {first} and began at {self.first} before"
            self._object("regressed", text, scan.line)
        self.first = max(self.first, first)
        for number in range(len(self.fates)):
            if self.stored[number] < scan.line:
                self._absent(number, scan, line, life)
        for number, place in self._receipt_places.items():
            if self.stored[self.by_place[place]] < scan.line < self.stored[number]:
                text = f"the receipt of {self.name_of(number)} says {id_text(place)}"
                lines = self.answered[number], self.stored[number]
                self._object("inconsistent-position", text, *lines)

    def _absent(self, number: int, scan: Scan, line: int, life: int) -> None:
        fate = self.fates[number]
        was_there = self.stored[number]
        if fate == UNKNOWN and self.life_ended[number] <= life and not was_there:
            self.fates[number] = GONE
        if not was_there and fate != OK:
            return
        if number in self.transactions or self.is_deleting:
            return
        if self.is_trimmed(number):
            return
        place = self.places[number]
        if scan.lowest is None or place is None:
            where = "all" if not scan.count else "middle"
        elif place < scan.lowest:
            where = "prefix"
        else:
            where = "middle" if place < scan.last_place else "postfix"
        shown = "had its receipt" if fate == OK else "was there before"
        text = f"{self.name_of(number)} {shown} ({where} of the topic)"
        self.verdict.add("lost", text, self.answered[number] or was_there, line)

    def is_trimmed(self, number: int) -> bool:
        """It lay before what the last scan found first, and trims had been asked for."""
        if self.is_deleting:
            return True
        first, lowest = self._retained
        index, place = self.index_of(number), self.places[number]
        if index >= 0:
            return index < first
        return first > 0 and (place is None or lowest is None or place < lowest)

    def _scan(self) -> Scan:
        if self.scan is None:
            raise ValueError(f"no scan of {self.topic} has begun")
        return self.scan
