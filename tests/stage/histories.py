"""Histories of a broker that keeps its promises, made up from a seed: no judge may object to one.

`World` is a broker of a few lines that has no network, no disk and no bug, with clients that do at random
what clients do: publish (batched, chunked, in transactions), receive, ack with and without asking for an
answer, seek, reset, look, trim; and kills, after which clients send again. It writes what they see.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

Event = dict[str, Any]

TOPICS = {"t": True, "u": False}  # with deduplication, and without
WINDOW_S = 0.1
STEPS = 140


class Entry(NamedTuple):
    name: str | None
    """None: a chunk of a message that ends later."""
    place: list[int]
    key: str
    txn: str | None = None


class Waiting(NamedTuple):
    """A publish that has no outcome yet."""

    n: int
    name: str
    topic: str


class Group:
    """A subscription."""

    def __init__(self, topic: str, name: str, consumers: list[str]) -> None:
        self.topic, self.name, self.consumers = topic, name, consumers
        self.acked: set[int] = set()
        self.inflight: dict[int, str] = {}
        self.in_transactions: dict[int, str] = {}
        self.given: dict[int, float] = {}
        """Acks without an answer: when."""

    @property
    def is_ordered(self) -> bool:
        return len(self.consumers) == 1


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.events: list[Event] = [{"history": 1, "window_s": WINDOW_S}]
        self.t = 0.0
        self.n = 0
        self.life = 0
        self.logs: dict[str, list[Entry]] = {topic: [] for topic in TOPICS}
        self.firsts = dict.fromkeys(TOPICS, 0)
        self.waiting: dict[tuple[str, str], list[Waiting]] = {}
        self.groups = [Group(topic, "e", ["c0"]) for topic in TOPICS]
        self.groups += [Group(topic, "s", ["c1", "c2"]) for topic in TOPICS]
        self.open: dict[str, bool | None] = {}
        """Transactions: None while open, whether committed."""
        self.names = 0
        self.seen: set[tuple[str, str]] = set()
        """Names of which the index was told."""

    def run(self) -> list[Event]:
        for topic, deduplicated in TOPICS.items():
            self.note("topic", topic=topic, deduplicated=deduplicated)
        self.start()
        weights = {
            self.publish: 8, self.receive: 14, self.ack: 8, self.seek: 1, self.reset: 1, self.kill: 1,
            self.transact: 5, self.look: 2, self.trim: 1, self.leave: 1,
        }  # fmt: skip
        for step in self.random.choices([*weights], [*weights.values()], k=STEPS):
            step()
        self.end()
        return self.events

    # -- writing -----------------------------------------------------------------------------------

    def note(self, op: str, **fields: Any) -> None:
        self.t += self.random.choice((0.001, 0.01, 0.05))
        self.events.append({"op": op, "t": round(self.t, 3), **fields})

    def invoke(self, op: str, **fields: Any) -> int:
        self.note(op, **fields)
        self.n += 1
        self.events[-1] = {"is": "invoke", "n": self.n, **self.events[-1]}
        return self.n

    def outcome(self, kind: str, n: int, **fields: Any) -> None:
        self.note("", **fields)
        del self.events[-1]["op"]
        self.events[-1] = {"is": kind, "n": n, **self.events[-1]}

    # -- publishing --------------------------------------------------------------------------------

    def publish(self) -> None:
        topic, by = self.random.choice([*TOPICS]), self.random.choice(("p", "q"))
        waiting = self.waiting.setdefault((topic, by), [])
        for _ in range(self.random.randint(1, 3)):
            self.names += 1
            name = f"m{self.names}"
            waiting.append(
                Waiting(self.invoke("publish", topic=topic, message=name, by=by), name, topic)
            )
        if len(waiting) == 1 and self.random.random() < 0.2:
            one = waiting.pop()
            kind = self.random.choice(("fail", "unknown"))
            if kind == "unknown" and self.random.random() < 0.5:
                self.append(one)
            self.outcome(kind, one.n)
        elif self.random.random() < 0.7:
            self.answer(topic, by)

    def append(self, one: Waiting, txn: str | None = None) -> int:
        log, chance = self.logs[one.topic], self.random.random()
        last = log[-1].place if log else [1, -1, -1]
        place = [last[0], last[1] + 1, -1]
        if chance < 0.2:
            log.append(Entry(None, place, ""))
            place = [place[0], place[1] + 1, -1]
        elif chance < 0.5:
            place = [last[0], last[1], last[2] + 1] if last[2] >= 0 else [*place[:2], 0]
        elif chance < 0.6:
            place = [last[0] + 1, 0, -1]
        log.append(Entry(one.name, place, f"k{len(one.name) % 2}", txn))
        return len(log) - 1

    def answer(self, topic: str, by: str, resent: frozenset[str] = frozenset()) -> None:
        waiting = self.waiting.get((topic, by), [])
        while waiting:
            one = waiting.pop(0)
            if one.name in resent and TOPICS[topic]:
                self.outcome("ok", one.n, id=None)
                continue
            index = self.append(one)
            fields: dict[str, Any] = {"index": index} if self.random.random() < 0.7 else {}
            if fields:
                self.seen.add((topic, one.name))
                fields["owner"] = self.life
            self.outcome("ok", one.n, id=self.logs[topic][index].place, **fields)

    # -- consuming ---------------------------------------------------------------------------------

    def start(self) -> None:
        self.note("start")
        for group in self.groups:
            for state in range(2):
                self.note("opened", topic=group.topic, state=f"{self.life}", note=state)
            self.join(group)

    def join(self, group: Group) -> None:
        group.inflight.clear()
        for number, consumer in enumerate(group.consumers):
            mode = "strict" if group.is_ordered else ("connection", "queue")[number]
            alone = group.is_ordered
            self.note(
                "join", topic=group.topic, sub=group.name, by=consumer, mode=mode, alone=alone, ordered=alone
            )  # fmt: skip

    def leave(self) -> None:
        group = self.random.choice(self.groups)
        for consumer in group.consumers:
            self.note("leave", topic=group.topic, sub=group.name, by=consumer)
        self.join(group)

    def ready(self, group: Group) -> list[int]:
        found = []
        for index, entry in enumerate(self.logs[group.topic]):
            if entry.txn is not None and self.open[entry.txn] is None:
                break  # what is behind it waits for its end
            if entry.name is None or (entry.txn is not None and not self.open[entry.txn]):
                continue
            if index < self.firsts[group.topic] or index in group.acked:
                continue
            if index not in group.inflight and index not in group.in_transactions:
                found.append(index)
        return found

    def receive(self) -> None:
        group = self.random.choice(self.groups)
        for index in self.ready(group)[: self.random.randint(1, 4)]:
            self.deliver(group, index)

    def deliver(self, group: Group, index: int) -> None:
        entry = self.logs[group.topic][index]
        assert entry.name is not None
        held = [
            by for at, by in group.inflight.items() if self.logs[group.topic][at].key == entry.key
        ]
        by = held[0] if held else self.random.choice(group.consumers)
        fields: dict[str, Any] = {} if group.is_ordered else {"key": entry.key, "life": self.life}
        group.inflight[index] = by
        self.seen.add((group.topic, entry.name))
        self.note(
            "receive", topic=group.topic, sub=group.name, by=by, message=entry.name, id=entry.place,
            index=index, **fields,
        )  # fmt: skip

    def ack(self) -> None:
        group = self.random.choice(self.groups)
        if not group.inflight:
            return
        index = self.random.choice([*group.inflight])
        cumulative = group.is_ordered and self.random.random() < 0.5
        fields: dict[str, Any] = {
            "topic": group.topic,
            "sub": group.name,
            "by": group.inflight[index],
        }
        fields["ids"] = [self.logs[group.topic][index].place]
        if cumulative:
            fields["cumulative"] = True
            covered = [one for one in group.inflight if one <= index]
            covered += [one for one in self.ready(group) if one <= index]
            covered += [one for one in group.given if one <= index]
        else:
            covered = [index]
        chance = self.random.random()
        if chance < 0.4:
            self.note("ack", **fields)
            for one in covered:
                group.given.setdefault(one, self.t)
        else:
            n = self.invoke("ack", **fields)
            if chance < 0.9:
                self.outcome("ok", n)
            elif chance < 0.95:
                self.outcome("unknown", n)
                covered = covered if self.random.random() < 0.5 else []
            else:
                self.outcome("fail", n)
                covered = []
            for one in covered:
                group.given.pop(one, None)
        for one in covered:
            group.acked.add(one)
            group.inflight.pop(one, None)

    def move(self, group: Group, index: int) -> None:
        group.acked = set(range(index))
        group.given.clear()
        group.in_transactions.clear()

    def seek(self) -> None:
        group = self.random.choice([one for one in self.groups if one.is_ordered])
        index = self.random.randint(self.firsts[group.topic], len(self.logs[group.topic]))
        n = self.invoke("seek", topic=group.topic, sub=group.name, by="c0", index=index)
        if self.random.random() < 0.8:
            self.outcome("ok", n)
            self.move(group, index)
            group.inflight.clear()
        else:
            self.outcome("unknown", n)
            if self.random.random() < 0.5:
                self.move(group, index)
            self.join(group)

    def reset(self) -> None:
        group = self.random.choice(self.groups)
        if group.in_transactions:
            return
        index = self.random.randint(self.firsts[group.topic], len(self.logs[group.topic]))
        n = self.invoke("reset", topic=group.topic, sub=group.name, by="operator", index=index)
        self.outcome("ok", n)
        self.move(group, index)
        self.join(group)

    # -- transactions ------------------------------------------------------------------------------

    def transact(self) -> None:
        going = [name for name, ended in self.open.items() if ended is None]
        if not going:
            self.names += 1
            self.open[f"x{self.names}"] = None
            return
        txn, chance = self.random.choice(going), self.random.random()
        if chance < 0.5:
            topic = self.random.choice([*TOPICS])
            self.names += 1
            name = f"m{self.names}"
            n = self.invoke("publish", topic=topic, message=name, by=txn, txn=txn)
            self.append(Waiting(n, name, topic), txn)
            self.outcome("ok", n, id=self.logs[topic][-1].place)
        elif chance < 0.7:
            group = self.random.choice([one for one in self.groups if not one.is_ordered])
            if not group.inflight:
                return
            index = self.random.choice([*group.inflight])
            name, by = self.logs[group.topic][index].name, group.inflight.pop(index)
            fields = {"topic": group.topic, "sub": group.name, "by": by, "txn": txn}
            n = self.invoke("ack", ids=[self.logs[group.topic][index].place], **fields)
            self.outcome("ok", n)
            group.in_transactions[index] = txn
        else:
            self.end_transaction(txn)

    def end_transaction(self, txn: str) -> None:
        commits = self.random.random() < 0.7
        n = self.invoke("commit" if commits else "abort", txn=txn)
        is_known = self.random.random() < 0.8
        if not is_known:
            commits = commits and self.random.random() < 0.5
        self.outcome("ok" if is_known else "unknown", n)
        self.open[txn] = commits
        for group in self.groups:
            for index in [one for one, of in group.in_transactions.items() if of == txn]:
                del group.in_transactions[index]
                if commits:
                    group.acked.add(index)

    # -- brokers -----------------------------------------------------------------------------------

    def kill(self) -> None:
        self.note("kill")
        for group in self.groups:
            young = [one for one, at in group.given.items() if self.t - at < WINDOW_S * 0.9]
            if young and self.random.random() < 0.7:
                group.acked.difference_update(young)
            group.given.clear()
        stored = {}
        for key, waiting in self.waiting.items():
            kept = waiting[: self.random.randint(0, len(waiting))]
            stored[key] = frozenset(one.name for one in kept)
            for one in kept:
                self.append(one)
        self.life += 1
        self.start()
        for topic, by in self.waiting:
            self.answer(topic, by, stored[topic, by])

    def trim(self) -> None:
        topic = self.random.choice([*TOPICS])
        left = [
            min([*self.ready(group), *group.inflight, *group.in_transactions], default=None)
            for group in self.groups
            if group.topic == topic
        ]
        ends = [one for one in left if one is not None]
        open_ones = [
            i for i, e in enumerate(self.logs[topic]) if e.txn and self.open[e.txn] is None
        ]
        end = min([*ends, *open_ones, len(self.logs[topic])])
        # An ack without an answer is no reason to throw a message away before it is on disk.
        given = [one for group in self.groups if group.topic == topic for one in group.given]
        end = min([end, *given])
        if end > self.firsts[topic]:
            n = self.invoke("trim", topic=topic, index=end)
            self.outcome("ok", n, first=end)
            self.firsts[topic] = end

    def look(self) -> None:
        group = self.random.choice(self.groups)
        log, first = self.logs[group.topic], self.firsts[group.topic]
        unacked = [
            index
            for index, entry in enumerate(log)
            if index >= first and index not in group.acked and entry.name is not None
            and not (entry.txn is not None and self.open[entry.txn] is False)
        ]  # fmt: skip
        inflight = len(group.inflight)
        counts = {"ready": len(unacked) - inflight, "delayed": 0, "inflight": inflight}
        counts["acked"] = len(log) - first - len(unacked)
        mark = min(unacked, default=len(log))
        self.note(
            "counts", topic=group.topic, sub=group.name, first=first, end=len(log), **counts, mark=mark,
            now=True,
        )  # fmt: skip
        if log:
            index = self.random.randrange(len(log))
            entry = log[index]
            if entry.name is not None and (entry.txn is None or self.open[entry.txn]):
                found = None if index < first else entry.place
                self.note("lookup", topic=group.topic, index=index, id=found)

    # -- the end -----------------------------------------------------------------------------------

    def end(self) -> None:
        for topic, by in self.waiting:
            self.answer(topic, by)
        for txn in [name for name, ended in self.open.items() if ended is None]:
            self.end_transaction(txn)
        for group in self.groups:
            self.note("leave", topic=group.topic, sub=group.name, by=group.consumers[0])
            self.join(group)
            for index in self.ready(group):
                self.deliver(group, index)
        for topic, log in self.logs.items():
            first = self.firsts[topic]
            self.note("scan", topic=topic, first=first)
            for index, entry in enumerate(log[first:], first):
                if entry.name is None or (entry.txn is not None and not self.open[entry.txn]):
                    self.note("fill", topic=topic, **{"from": index, "to": index + 1})
                else:
                    self.note(
                        "stored", topic=topic, message=entry.name, id=entry.place, index=index
                    )
            self.note("scanned", topic=topic, end=len(log))
        for group in self.groups:
            self.note("drained", topic=group.topic, sub=group.name)
