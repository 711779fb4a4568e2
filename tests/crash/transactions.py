"""Transactions under every crash: a workload on a stage, and what must hold on each disk it may leave.

`Story` notes what clients asked for and what they were told, as events that lie in the trace of the disk;
`judge` opens a crash image and compares. For every transaction either all of it is true or nothing:

- its end was answered: it has ended that way, with every message and ack of it that was answered;
- its end was asked for: it has ended that way, or it is open;
- else it is open: its messages are in the log and not visible, its acks pending. Then it can be ended, both
  ways, and what that means survives the next restart.

Every topic has deduplication, an ordinary subscription and a broadcast group: what is sent again is stored
once, and acks count for the subscription that they were made on. What all have acked may be trimmed.
"""

from __future__ import annotations

import errno
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stage.frames import batch, chunk, message
from stage.stage import Stage
from stage.talk import (
    SHARED,
    ack_command,
    ask,
    error_of,
    producer_command,
    request,
    subscribe,
    subscribe_command,
    wire_id,
)

from milepost.broker.operations import topic_lifecycle
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.broker.transactions.coordinator import Outcome
from milepost.positions import TxnId
from milepost.positions.ids import Position
from milepost.positions.names import TopicName
from milepost.positions.spans import Span
from milepost.storage.ledgers.entry import MARKER, Entry
from milepost.testing import Image
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery, Receipt
from milepost.wire.metadata import split_entry

TOPICS = tuple(f"persistent://public/default/{name}" for name in "abc")
SUBSCRIPTION = "s"
GROUP, MEMBER = "g", "m"
SUBSCRIPTIONS = (SUBSCRIPTION, GROUP)
# The consumers of a group are numbered from here on.
GROUP_CONSUMERS = 10
EARLIEST = pb.CommandSubscribe.Earliest
BATCH_COUNT = 3
CONNECTIONS_MAX = 20
OPEN_MAX = 4

ASKED, DONE, REFUSED = "asked", "done", "refused"


class Key(NamedTuple):
    """One entry: unique in a story."""

    topic: str
    sequence_id: int
    chunk_id: int


class Acked(NamedTuple):
    """One message of an entry."""

    key: Key
    at: int


@dataclass
class Sent:
    txn: TxnId | None
    count: int
    fate: str = ASKED
    was_moved_over: bool = False
    """A seek came since, which may have acked it."""
    may_be_trimmed: bool = False
    """Every subscription had acked it when its topic was trimmed."""


@dataclass
class Ack:
    txn: TxnId | None
    messages: list[Acked]
    subscription: str
    fate: str = ASKED
    is_stale: bool = False
    """A seek, or a deletion, came since."""
    left: set[Acked] = field(default_factory=set)
    """Of a whole batch: what another transaction may have acked when this was sent, and keeps."""


@dataclass
class Story:
    """What was asked for and what was answered."""

    sent: dict[Key, Sent] = field(default_factory=dict)
    acks: list[Ack] = field(default_factory=list)
    ends: dict[TxnId, list[list[Any]]] = field(default_factory=dict)
    """By transaction: [outcome, fate] of each end that was asked for. Those that were opened have a list."""
    seen: set[Key] = field(default_factory=set)
    """What a consumer got."""
    lost_topics: set[str] = field(default_factory=set)
    """Truncated or deleted, or it was asked for: what was sent before may be gone."""

    @classmethod
    def of(cls, events: list[tuple[Any, ...]]) -> Story:
        story = cls()
        for name, *arguments in events:
            getattr(story, name)(*arguments)
        return story

    def opened(self, txn: TxnId) -> None:
        self.ends[txn] = []

    def send(self, key: Key, txn: TxnId | None, count: int) -> None:
        self.sent[key] = Sent(txn, count)

    def heard_send(self, key: Key, fate: str) -> None:
        if self.sent[key].fate != DONE:  # it was stored, and what was sent again may be refused
            self.sent[key].fate = fate

    def see(self, key: Key) -> None:
        self.seen.add(key)

    def ack(self, txn: TxnId | None, messages: list[Acked], subscription: str) -> None:
        ack = Ack(txn, messages, subscription)
        if len(messages) > len({one.key for one in messages}):
            ack.left = {
                one
                for before in self.acks
                if before.txn not in (None, txn)
                and before.subscription == subscription
                and before.fate != REFUSED
                and not self._has_ended(before.txn)
                for one in before.messages
            }
        self.acks.append(ack)

    def _has_ended(self, txn: TxnId | None) -> bool:
        return txn is not None and any(fate == DONE for _, fate in self.ends[txn])

    def heard_ack(self, number: int, fate: str) -> None:
        self.acks[number].fate = fate

    def end(self, txn: TxnId, outcome: int) -> None:
        self.ends[txn].append([Outcome(outcome), ASKED])

    def heard_end(self, txn: TxnId, number: int, fate: str) -> None:
        self.ends[txn][number][1] = fate

    def moved(self, topic: str) -> None:
        """A seek was asked for: acks from before it may count or not."""
        for key, sent in self.sent.items():
            sent.was_moved_over |= key.topic == topic
        for ack in self.acks:
            ack.is_stale |= any(one.key.topic == topic for one in ack.messages)

    def trimmed(self, keys: list[Key]) -> None:
        for key in keys:
            self.sent[key].may_be_trimmed = True

    def lost(self, topic: str) -> None:
        self.moved(topic)
        self.lost_topics.add(topic)


class Workload:
    """Everything that clients, operators and a bad disk do to three topics, in an order drawn from a seed."""

    def __init__(self, seed: int, *, faults: bool = False) -> None:
        self.stage = Stage(traced=True, ledger_entries_max=7)
        self.story = Story()
        self.draw = random.Random(f"transactions/{seed}")
        self.counts: Counter[str] = Counter()
        self._faults = faults
        self._sequences: Counter[str] = Counter()
        self._open: list[TxnId] = []
        self._receipts: dict[str, deque[Key]] = defaultdict(deque)
        self._asked: dict[int, Callable[[str], None]] = {}
        # By consumer.
        self._delivered: dict[int, list[tuple[Delivery, Key, int]]] = defaultdict(list)
        # Messages that can be sent again, each with its frame.
        self._frames: dict[Key, bytes] = {}
        self._plan: list[Any] = []
        book = self.stage.broker.policies.book
        self.stage.run(book.set(Level.NAMESPACE, "public/default", POLICIES["deduplication"], True))
        for topic in TOPICS:
            self.stage.topic(topic)
        self.connect()
        self._verbs: list[tuple[int, Callable[[str], None]]] = [
            (7, self._begin),
            (30, self._send),
            (5, self._resend),
            (26, self._ack),
            (14, self._end),
            (2, self._seek),
            (3, self._unload),
            (3, self._trim),
            (1, self._truncate),
            (1, self._delete),
            (6, self._checkpoint_step),
            (10, self._hold),
            (4 if faults else 0, self._fault),
            (2, self._hang_up),
        ]

    def run(self, operations: int) -> Workload:
        verbs, weights = [v for _, v in self._verbs], [w for w, _ in self._verbs]
        for _ in range(operations):
            (verb,) = self.draw.choices(verbs, weights)
            self.counts[verb.__name__] += 1
            verb(self.draw.choice(TOPICS))
            self._hear()
        self._release()
        return self

    def _note(self, name: str, *arguments: Any) -> None:
        self.stage.files.trace.mark("event", (name, *arguments))
        getattr(self.story, name)(*arguments)

    # -- clients -----------------------------------------------------------------------------------

    def connect(self) -> None:
        """A new connection; a disk that refuses may cost the first one, before it was used."""
        for _ in range(CONNECTIONS_MAX):
            self.client = self.stage.client()
            self._receipts.clear()
            self._asked.clear()
            for number, topic in enumerate(TOPICS):
                self._join(number, topic)
            self.stage.turn()
            if not self.client.is_lost:
                return
        raise AssertionError("no connection lasts")

    def _join(self, number: int, topic: str) -> None:
        self._receipts[topic].clear()
        ask(self.client, producer_command(number, f"p{number}", topic=topic))
        for name, consumer_id, metadata in (
            (SUBSCRIPTION, number, ()),
            (GROUP, GROUP_CONSUMERS + number, _MEMBERSHIP),
        ):
            self._delivered[consumer_id] = []
            command = subscribe_command(
                name,
                SHARED,
                consumer_id,
                topic=topic,
                initialPosition=EARLIEST,
                metadata=metadata,
            )
            ask(self.client, command)
            self.stage.turn()
            self.client.say(pb.CommandFlow(consumer_id=consumer_id, messagePermits=1000))

    def _rejoin(self) -> None:
        """Everything is answered; the clients of topics that were closed are back."""
        self._release()
        self.client.hang_up()
        self.stage.turn()
        self.connect()

    def _release(self) -> None:
        self.stage.engine.holds_journal = False
        self.stage.turn()
        self._hear()
        if self.client.is_lost:
            self.connect()

    def _hear(self) -> None:
        self.stage.turn()
        for heard in self.client.take():
            if isinstance(heard, Receipt):
                topic = TOPICS[heard.producer_id]
                self._note("heard_send", self._receipts[topic].popleft(), DONE)
            elif isinstance(heard, pb.CommandSendError):
                key = self._receipts[TOPICS[heard.producer_id]].popleft()
                self._note("heard_send", key, _fate_of(heard))
            elif isinstance(heard, Delivery):
                topic = TOPICS[heard.consumer_id % GROUP_CONSUMERS]
                key, count = _key_of(topic, heard.entry)
                self._delivered[heard.consumer_id].append((heard, key, count))
                self._note("see", key)
            elif (tell := self._asked.pop(getattr(heard, "request_id", -1), None)) is not None:
                tell(_fate_of(heard))

    def _hang_up(self, topic: str) -> None:
        self.client.hang_up()
        self.stage.turn()
        self.stage.engine.holds_journal = False
        self.stage.turn()
        self.connect()

    def _begin(self, topic: str) -> None:
        if len(self._open) >= OPEN_MAX:
            return
        self._release()
        reply = request(self.stage, self.client, pb.CommandNewTxn(txn_ttl_millis=3_600_000))
        if error_of(reply):
            self._hear()
            return
        txn = TxnId(reply.txnid_most_bits, reply.txnid_least_bits)
        bits = within(txn)
        pairs = [
            pb.Subscription(topic=name, subscription=one)
            for name in TOPICS
            for one in SUBSCRIPTIONS
        ]
        added = [
            request(self.stage, self.client, command)
            for command in (
                pb.CommandAddPartitionToTxn(partitions=TOPICS, **bits),
                pb.CommandAddSubscriptionToTxn(subscription=pairs, **bits),
            )
        ]
        if not any(map(error_of, added)):
            self._note("opened", txn)
            self._open.append(txn)

    def _send(self, topic: str) -> None:
        number = TOPICS.index(topic)
        txn = self.draw.choice([None, *self._open, *self._open])
        bits = {} if txn is None else within(txn)
        sequence_id = self._sequences[topic]
        self._sequences[topic] += 1
        producer = f"p{number}"
        kind = self.draw.choice(("one", "one", "batch", "chunks"))
        frames: list[tuple[Key, int, bytes]] = []
        if kind == "chunks":
            for chunk_id in range(2):
                frame = chunk(sequence_id, chunk_id, 2, producer=producer, **bits)
                frames.append((Key(topic, sequence_id, chunk_id), 1, frame))
        elif kind == "batch":
            frame = batch(sequence_id, BATCH_COUNT, producer=producer, **bits)
            frames.append((Key(topic, sequence_id, -1), BATCH_COUNT, frame))
        else:
            frame = message(sequence_id, producer=producer, **bits)
            frames.append((Key(topic, sequence_id, -1), 1, frame))
        for key, count, _ in frames:
            self._note("send", key, txn, count)
            self._receipts[topic].append(key)
        said = [_addressed(frame, number) for _, _, frame in frames]
        if kind != "chunks":
            self._frames[frames[0][0]] = said[0]
        self.client.say(*said)

    def _resend(self, topic: str) -> None:
        """A client that heard no receipt sends again what is stored: it is stored once."""
        stored = [
            key for key in self._frames if key.topic == topic and self.story.sent[key].fate == DONE
        ]
        if stored:
            key = self.draw.choice(stored)
            self._receipts[topic].append(key)
            self.client.say(self._frames[key])

    def _ack(self, topic: str) -> None:
        name = self.draw.choice(SUBSCRIPTIONS)
        consumer_id = TOPICS.index(topic) + (GROUP_CONSUMERS if name == GROUP else 0)
        if not self._delivered[consumer_id]:
            return
        delivery, key, count = self.draw.choice(self._delivered[consumer_id])
        if key.chunk_id == 0:
            return  # the last chunk speaks for the message
        txn = self.draw.choice([None, *self._open, *self._open])
        fields: dict[str, Any] = {}
        covered = list(range(count))
        if count > 1 and self.draw.random() < 0.5:
            covered = [self.draw.randrange(count)]
            fields["ack_set"] = [((1 << count) - 1) & ~(1 << covered[0])]
        bits = {} if txn is None else within(txn)
        number = len(self.story.acks)
        keys = [key] if key.chunk_id < 0 else [key._replace(chunk_id=0), key]
        self._note("ack", txn, [Acked(one, at) for one in keys for at in covered], name)
        target = wire_id(delivery.ledger_id, delivery.entry_id, **fields)
        command = ack_command(target, consumer_id=consumer_id, **bits)
        self._ask(command, lambda fate: self._note("heard_ack", number, fate))

    def _end(self, topic: str) -> None:
        if not self._open:
            return
        # The oldest is what holds the others back.
        txn = self._open[0] if self.draw.random() < 0.6 else self.draw.choice(self._open)
        outcome = self.draw.choice((Outcome.COMMIT, Outcome.COMMIT, Outcome.ABORT))
        number = len(self.story.ends[txn])
        self._note("end", txn, int(outcome))

        def tell(fate: str) -> None:
            self._note("heard_end", txn, number, fate)
            if fate == DONE and txn in self._open:
                self._open.remove(txn)

        self._ask(pb.CommandEndTxn(txn_action=int(outcome), **within(txn)), tell)

    def _ask(self, command: Any, tell: Callable[[str], None]) -> None:
        self._asked[ask(self.client, command)] = tell

    def _seek(self, topic: str) -> None:
        self._release()
        self._note("moved", topic)
        subscription = self.stage.topic(topic).subscriptions[SUBSCRIPTION]
        cursor = subscription.cursor
        self.stage.seek(subscription, self.draw.randint(cursor.first, cursor.end))
        self._rejoin()

    # -- operators and the disk ----------------------------------------------------------------------

    def _unload(self, topic: str) -> None:
        if self.draw.random() < 0.5:
            self._end(topic)  # its end is on its way meanwhile
        self.stage.engine.holds_journal = False
        closing = topic_lifecycle.close_topic(self.stage.broker, self.stage.topic(topic))
        self.stage.run(closing)
        self._rejoin()

    def _trim(self, topic: str) -> None:
        """An operator skips messages on all subscriptions, and drops what no subscription needs then."""
        self._release()
        self._note("moved", topic)
        wanted = self.draw.randint(0, self.stage.topic(topic).visible_end)
        for subscription in self.stage.topic(topic).subscriptions.values():
            for part in subscription.parts():
                part.skip(min(wanted, part.cursor.end))
        self._release()
        self.stage.tick()  # a group follows its members
        index = topic_lifecycle.trimmable_index(self.stage.topic(topic))
        gone = [
            _key_of(topic, bytes(entry.payload))[0]
            for entry in read(self.stage, topic)
            if entry.last_index < index
        ]
        self._note("trimmed", gone)
        self._attempt(topic_lifecycle.trim(self.stage.broker, self.stage.topic(topic)))

    def _truncate(self, topic: str) -> None:
        self._release()
        self._note("lost", topic)
        self._attempt(topic_lifecycle.truncate(self.stage.broker, self.stage.topic(topic)))

    def _delete(self, topic: str) -> None:
        self._release()
        self._note("lost", topic)
        deletion = topic_lifecycle.delete_topic(
            self.stage.broker, self.stage.topic(topic), force=True
        )
        self._attempt(deletion)
        self._rejoin()

    def _attempt(self, work: Any) -> None:
        task = self.stage.loop.begin(work)
        self.stage.turn()
        if self._faults and task.exception() is not None:
            self.counts["refused"] += 1
            return
        task.result()

    def _checkpoint_step(self, topic: str) -> None:
        """One of the steps of a checkpoint; what others do comes between them."""
        store = self.stage.store
        if not self._plan:
            if store._checkpointing:
                return  # it is being planned
            # Not planned at once, and the end of a transaction comes meanwhile.
            self.stage.engine.holds_journal |= self.draw.random() < 0.5
            store.begin_checkpoint(self._planned)
            self._end(topic)
            return
        plan = self._plan[0]
        try:
            if len(self._plan) == 1:
                plan.flush(self.stage.files)
            elif len(self._plan) == 2:
                plan.record(store.catalog)
            else:
                self._plan = []
                store.finish_checkpoint(plan, None)
                plan.drop_journal(self.stage.files)
                return
        except OSError as error:
            if not self._faults:
                raise
            self._plan = []
            store.finish_checkpoint(plan, error)
            return
        self._plan.append(None)

    def _planned(self, plan: Any) -> None:
        if not isinstance(plan, Exception):
            self._plan = [plan]

    def _hold(self, topic: str) -> None:
        """From now on nothing becomes durable; or again it does."""
        held = self.stage.engine.holds_journal
        if held:
            self._release()
        else:
            self.stage.engine.holds_journal = True

    def _fault(self, topic: str) -> None:
        call = self.draw.choice(("sync", "sync", "append", "create"))
        error = self.draw.choice((errno.EIO, errno.ENOSPC))
        self.stage.files.faults.fail(call, self.draw.randint(1, 3), error=error, under="journal")  # type: ignore[arg-type]


_MEMBERSHIP = [
    pb.KeyValue(key=key, value=value)
    for key, value in (("milepost.mode", "broadcast"), ("milepost.member", MEMBER))
]


def within(txn: TxnId) -> dict[str, int]:
    return {"txnid_least_bits": txn.least, "txnid_most_bits": txn.most}


def _fate_of(heard: Any) -> str:
    error = error_of(heard)
    if not error:
        return DONE
    text = str(getattr(heard, "message", ""))
    # Of an outcome that is not known nothing can be said; nor of an ack, which is true in memory.
    return ASKED if "journal file" in text else REFUSED


def _addressed(frame: bytes, producer_id: int) -> bytes:
    """A SEND of the stage's producer 0, for another one."""
    from stage.frames import sends

    from milepost.wire.scanners.encode import send_frame

    (send,) = sends(frame)
    entry = split_entry(send.entry)
    options: dict[str, Any] = {"num_messages": send.count}
    if entry.metadata.HasField("chunk_id"):
        options = {"is_chunk": True}
    if entry.metadata.HasField("txnid_least_bits"):
        meta = entry.metadata
        options["txn_id"] = TxnId(meta.txnid_most_bits, meta.txnid_least_bits)
    return b"".join(
        send_frame(
            producer_id,
            send.sequence_id,
            entry.metadata.SerializeToString(),
            entry.payload,
            **options,
        )
    )


def _key_of(topic: str, entry: bytes) -> tuple[Key, int]:
    meta = split_entry(entry).metadata
    chunk_id = meta.chunk_id if meta.HasField("chunk_id") else -1
    return Key(topic, meta.sequence_id, chunk_id), meta.num_messages_in_batch


# -- judging -----------------------------------------------------------------------------------------


def judge(image: Image, *, ends: bool = True) -> list[str]:
    """Everything that is wrong with the broker that this image becomes; `ends`: also behind the ends of
    what is open, and behind another restart."""
    story = Story.of(image.payloads("event"))
    stage = Stage(files=image.files, catalog_image=image.last("catalog"), ledger_entries_max=7)
    try:
        problems = list(problems_of(stage, story))
        if not ends or problems:
            return problems
        client = stage.client()
        send_again(stage, story)
        for number, txn in enumerate(stage_open(stage)):
            outcome = Outcome(number % 2)
            story.ends.setdefault(txn, []).append([outcome, ASKED])
            command = pb.CommandEndTxn(txn_action=int(outcome), **within(txn))
            reply = request(stage, client, command)
            if error_of(reply):
                problems.append(f"{txn} cannot be ended: {reply}")
            story.ends[txn][-1][1] = DONE
        problems += [f"ended: {one}" for one in problems_of(stage, story)]
        stage = stage.restarted(checkpoint=image.point % 2 == 0)
        problems += [f"again: {one}" for one in problems_of(stage, story)]
        return problems
    finally:
        stage.close()


def send_again(stage: Stage, story: Story) -> None:
    """Each producer comes back and sends the last message again that it has a receipt for, in the
    transaction that it was of."""
    client = stage.client()
    for number, topic in enumerate(TOPICS):
        stored = [
            key
            for key, sent in story.sent.items()
            if key.topic == topic and sent.fate == DONE and sent.count == 1 and key.chunk_id < 0
        ]
        if not stored or topic in story.lost_topics:
            continue
        request(stage, client, producer_command(number, f"p{number}", topic=topic))
        key = stored[-1]
        txn = story.sent[key].txn
        bits = {} if txn is None else within(txn)
        frame = message(key.sequence_id, producer=f"p{number}", **bits)
        client.say(_addressed(frame, number))
        stage.turn()
    client.hang_up()
    stage.turn()


def stage_open(stage: Stage) -> list[TxnId]:
    return [txn.txn_id for txn in stage.broker.transactions.coordinator.open.values()]


def problems_of(stage: Stage, story: Story) -> Iterator[str]:
    coordinator = stage.broker.transactions.coordinator
    outcomes: dict[TxnId, Outcome | None] = {}
    for txn, ends in story.ends.items():
        outcome = outcomes[txn] = coordinator.outcome_of(txn)
        answered = {asked for asked, fate in ends if fate == DONE}
        possible = {asked for asked, fate in ends if fate == ASKED}
        if outcome is None and not coordinator.is_open(txn):
            yield f"{txn} is not there"
        if answered and {outcome} != answered:
            yield f"{txn} is {outcome}, answered was {answered}"
        if not answered and outcome is not None and outcome not in possible:
            yield f"{txn} is {outcome}, asked for was {ends}"
    for key in story.seen:
        seen_of = story.sent[key].txn
        if seen_of is not None and outcomes[seen_of] is not Outcome.COMMIT:
            yield f"{key} of {seen_of} was delivered, and is {outcomes[seen_of]!r}"
    for topic in TOPICS:
        if stage.broker.directory.row(TopicName.parse(topic)) is not None:
            yield from _topic_problems(stage, story, topic, outcomes)


def _topic_problems(
    stage: Stage, story: Story, name: str, outcomes: dict[TxnId, Outcome | None]
) -> Iterator[str]:
    topic = stage.topic(name)
    stored = [(_key_of(name, bytes(e.payload))[0], e) for e in read(stage, name)]
    entries = dict(stored)
    for key, times in Counter(key for key, _ in stored).items():
        if times > 1:
            yield f"{key} is stored {times} times"
    transactions = topic.transactions
    of_open = {} if transactions is None else dict(transactions.open_messages())
    may_be_gone = name in story.lost_topics
    for key, sent in story.sent.items():
        if key.topic != name:
            continue
        entry = entries.get(key)
        if entry is None:
            if sent.fate == DONE and not may_be_gone and not sent.may_be_trimmed:
                yield f"{key} of {sent.txn} had a receipt and is gone"
            continue
        if sent.fate == REFUSED:
            yield f"{key} was refused and is there"
        if sent.txn is None:
            if topic.is_hidden(entry.last_index):
                yield f"{key} is of no transaction, and hidden"
            continue
        outcome, index = outcomes[sent.txn], entry.last_index
        is_open = sent.txn in of_open and index in of_open[sent.txn]
        if topic.is_hidden(index) != (outcome is Outcome.ABORT):
            yield f"{key} of {sent.txn}, {outcome!r}, is hidden: {topic.is_hidden(index)}"
        if is_open != (outcome is None):
            yield f"{key} of {sent.txn}, {outcome!r}, is held back: {is_open}"
        if outcome is None and index < topic.visible_end:
            yield f"{key} of {sent.txn}, which is open, is visible"
    yield from _delivery_problems(stage, story, name, entries, outcomes)
    for subscription in SUBSCRIPTIONS:
        if subscription in topic.subscriptions:
            yield from _ack_problems(stage, story, name, entries, outcomes, subscription)


def read(stage: Stage, name: str) -> list[Entry]:
    """Every entry of a topic that is no marker."""
    log, entries = stage.topic(name).log, []
    for ledger in log.ledgers:
        entry_id = 0
        while entry_id < ledger.entries:
            position = Position(ledger.ledger_id, entry_id)
            plan = stage.run(stage.engine.look(lambda at=position: log.plan_read(at)))  # type: ignore[misc]
            got = plan.perform(stage.files)
            entries += [one for one in got if not one.flags & MARKER]
            entry_id += len(got)
    return entries


def _delivery_problems(
    stage: Stage,
    story: Story,
    name: str,
    entries: dict[Key, Entry],
    outcomes: dict[TxnId, Outcome | None],
) -> Iterator[str]:
    """A new consumer gets what is committed, in order, up to the first message of an open transaction."""
    topic, client = stage.topic(name), stage.client()
    subscribe(
        stage,
        client,
        "judge",
        topic=name,
        permits=1000,
        initialPosition=EARLIEST,
        durable=False,
    )
    got = [_key_of(name, one.entry)[0] for one in client.take() if isinstance(one, Delivery)]
    client.hang_up()
    stage.turn()
    wanted = []
    for key in entries:
        txn = story.sent[key].txn if key in story.sent else None
        if txn is not None and outcomes[txn] is None:
            break
        if txn is None or outcomes[txn] is Outcome.COMMIT:
            wanted.append(key)
    # A chunked message comes whole, when its last chunk is there.
    whole = {key._replace(chunk_id=0) for key in wanted if key.chunk_id == 1}
    wanted = [
        key
        for key in wanted
        if key.chunk_id < 0
        or (key._replace(chunk_id=0) in whole and key._replace(chunk_id=0) in wanted)
    ]
    if sorted(got) != sorted(wanted):
        yield f"{name}: delivered are {got}, not {wanted}; visible are {topic.visible_end}"


def _ack_problems(
    stage: Stage,
    story: Story,
    name: str,
    entries: dict[Key, Entry],
    outcomes: dict[TxnId, Outcome | None],
    subscription: str,
) -> Iterator[str]:
    topic = stage.topic(name)
    *_, part = topic.subscriptions[subscription].parts()  # of a group its member, if there is one
    cursor = part.cursor
    may: set[Acked] = set()
    must: set[Acked] = set()
    pending: dict[Acked, TxnId] = {}
    for ack in story.acks:
        if ack.subscription != subscription:
            continue
        for one in ack.messages:
            if one.key.topic != name or one.key not in entries:
                continue
            if ack.is_stale:
                continue
            counts = ack.txn is None or outcomes[ack.txn] is Outcome.COMMIT
            if counts:
                may.add(one)
            if ack.fate == DONE and counts and one not in ack.left:
                must.add(one)
            if ack.fate == DONE and ack.txn is not None and outcomes[ack.txn] is None:
                pending[one] = ack.txn
    for key, entry in entries.items():
        for at in range(entry.count):
            one, index = Acked(key, at), entry.span.first_index + at
            if not cursor.first <= index < cursor.end or topic.is_hidden(index):
                continue
            is_acked = cursor.is_acked(Span(index, 1))
            if one in must and not is_acked:
                yield f"the ack of {one} was answered, and does not count"
            if is_acked and one not in may and not story.sent[key].was_moved_over:
                yield f"{one} is acked by no transaction that was committed"
            if one in pending and not is_acked and not cursor.pended_within([(index, index + 1)]):
                yield f"the ack of {one} in {pending[one]}, which is open, is not pending"
