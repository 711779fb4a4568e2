"""Publishes messages: durable, then visible, then the receipt; owns log and subscriptions.

    sends ─▶ judge (dedup) ─▶ log.append ─▶ journal
                                              └▶ durable: visible to every cursor, then receipts out

Durable before visible, visible before receipt. On one connection the receipt goes ahead of the message
that a consumer of it gets; which of two connections hears first is open. A step here never suspends; the
journal calls back on the same loop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from milepost.broker.messages.chunked import ChunkedMessages, ChunkLimits, ChunkSearch
from milepost.broker.messages.compacted import Compacted, CompactionRuns
from milepost.broker.messages.send_verdict import SendVerdict
from milepost.broker.metrics.counters import Counters, error_name, wire_error_name
from milepost.broker.metrics.histogram import ENTRY_SIZES, WRITE_TIMES_MS, Histogram
from milepost.broker.metrics.rates import Rates
from milepost.broker.policies.effective import DEFAULTS
from milepost.broker.topic.dedup import Dedup
from milepost.broker.topic.producer import Producer
from milepost.broker.topic.producer_access import ProducerAccess
from milepost.broker.topic.receipts import Awaited, Publication
from milepost.errors import (
    EncryptionRequired,
    InvalidTransactionStatus,
    MilepostError,
    NotAllowed,
    OutcomeUnknown,
    PersistenceError,
    ServiceNotReady,
    TopicTerminated,
)
from milepost.positions.ids import Position
from milepost.positions.names import TopicName
from milepost.positions.ranges import IndexRanges, Range, joined
from milepost.storage.ledgers.entry import (
    BATCH,
    CHUNK,
    DELAYED,
    HEADER_SIZE,
    LAST_CHUNK,
    MARKER,
    TXN,
    Block,
    NewEntry,
)
from milepost.wire import replies
from milepost.wire.events import PLAIN, ChunkInfo, Send, Traits
from milepost.wire.metadata import entry_metadata

if TYPE_CHECKING:
    from milepost.broker.limits.publish_rate import PublishThrottle
    from milepost.broker.limits.subscribe_rate import SubscribeGate
    from milepost.broker.limits.token_bucket import Throttle
    from milepost.broker.peer import Peer
    from milepost.broker.subscription.subscription import Subscription
    from milepost.broker.transactions.coordinator import Coordinator
    from milepost.broker.transactions.topic_transactions import TopicTransactions
    from milepost.positions.transactions import TxnId
    from milepost.storage.catalog.catalog import TopicRow
    from milepost.storage.interface import Log

# In the catalog's `doc` of a topic.
CREATED_MS = "created_ms"

_DUPLICATE = (-1, -1)

# How far chunks are looked for that a cumulative ack covers, in entries, and at a time.
CHUNKS_ENTRIES_MAX = 10_000
STRETCH_ENTRIES = 128


class StoredChunk(NamedTuple):
    """Where a chunk lies."""

    log_index: int
    ledger_id: int
    entry_id: int
    is_last: bool


class Topic:
    def __init__(
        self,
        row: TopicRow,
        log: Log,
        *,
        access: ProducerAccess[Producer],
        chunk_search: ChunkSearch,
        dedup: Dedup | None = None,
        coordinator: Coordinator | None = None,
        now_ms: Callable[[], int],
        now_s: Callable[[], float],
        afterwards: Callable[[Callable[[], None]], None],
        mark_dirty: Callable[[int], None],
        counters: Counters | None = None,
    ) -> None:
        """`now_s` never goes back: by it is measured how long something takes. `afterwards` calls a
        function when consumers have got what is visible now. `mark_dirty` has the next checkpoint store
        a state of the topic anew."""
        self.row = row
        self.name = TopicName.parse(row.name)
        self.log = log
        self.unreadable = IndexRanges()
        """Indexes of entries that a read met damaged, since the topic was opened."""
        self.access = access
        self._chunk_search = chunk_search
        self.dedup = dedup
        """None: duplicates are not looked for."""
        self.dedup_state_id: int | None = None
        self.transactions: TopicTransactions | None = None
        """What transactions have done to it; None while none ever did."""
        self.coordinator = coordinator
        self.producers: dict[str, Producer] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.being_made: set[str] = set()
        """Subscriptions on their way to the catalog: they count as those that are there."""
        self.afterwards = afterwards
        self._mark_dirty = mark_dirty
        self.counters = counters or Counters()
        """Of the whole broker."""
        self.now_ms = now_ms
        self.now_s = now_s
        self.policies = DEFAULTS
        """What holds for it; `PolicyEnforcement` keeps it up to date."""
        self.subscribe_gate: SubscribeGate | None = None
        """Turns consumers away that come too often."""
        self.dispatch_throttle: Throttle | None = None
        """How fast messages may go out, to all subscriptions together."""
        self.throttle: PublishThrottle | None = None
        """Holds producers that are too fast. None means there is no limit."""
        self.group_throttle: PublishThrottle | None = None
        """The same for all topics of its resource group together."""
        self.chunked = ChunkedMessages(now_s=now_s)
        self.chunk_limits = ChunkLimits()
        self.opened_ms = now_ms()
        self.recovered_end = log.end_index
        """Where the log ended then: entries below may have been delivered by an earlier process."""
        # Of a new topic there is nothing to recall.
        self.chunked.is_recalled = log.end_index == log.first_index
        # Position of a chunk → first index of its message, for chunks that were asked for.
        self._first_chunks: OrderedDict[Position, int] = OrderedDict()
        # The last refusal of the journal that `chunked`, and `dedup`, were told of.
        self._chunks_refused = self._ids_refused = -1
        self.messages_in = 0
        self.bytes_in = 0
        self.messages_out = 0
        self.bytes_out = 0
        self.chunks_in = 0
        self.messages_dropped = 0
        """Messages that a subscription's consumers were too slow for, of one that is not persistent."""
        self.publishes_held = 0
        """How often a producer was not read for a while, being faster than the publish rate."""
        self.rates = Rates()
        self.write_times = Histogram(WRITE_TIMES_MS)
        """How long entries took to be durable."""
        self.entry_sizes = Histogram(ENTRY_SIZES)
        self.entries_in = self.entries_out = 0
        self.published_ms = 0
        """When something was last stored, by this process."""
        self.compacted: Compacted | None = None
        """What compaction has left of it; None while it never ran."""
        self.compactions = CompactionRuns()
        self.is_closed = False
        """Unloaded or deleted: another object, or none, stands for its name now."""

    def __repr__(self) -> str:
        return f"<Topic {self.name}>"

    @property
    def created_ms(self) -> int:
        """When it was made; of one that did not note it, when its first message came that is kept."""
        first = self.log.ledgers[0].first_time_ms if self.log.ledgers else self.opened_ms
        return int(self.row.doc.get(CREATED_MS, first))

    @property
    def is_terminated(self) -> bool:
        """It takes no more messages, ever."""
        return bool(self.row.doc.get("terminated"))

    def check_open(self) -> None:
        """A client that waited for the topic to open must not join one that was closed in the meantime."""
        if self.is_closed:
            raise ServiceNotReady(f"{self.name} was closed meanwhile")

    def check_published_to(self) -> None:
        """May there be producers?"""
        self.check_open()
        if self.is_terminated:
            raise TopicTerminated(f"{self.name} is terminated")
        if lacks := self.log.damage or self.log.loss:
            # It needs an operator, so the refusal is one that clients take for final. A C++ client that is
            # let in sends, is refused, and connects again, for ever and without a word to its user.
            raise NotAllowed(f"{self.name} takes no messages: {lacks}")

    # -- publish -----------------------------------------------------------------------------------

    def publish(self, producer: Producer, sends: Sequence[Send]) -> Publication:
        """Judge and number the sends, and send them to the journal as one block."""
        if producer.must_resend:
            return self._refuse_behind(producer, sends)
        if not self.chunked.is_recalled and self._needs_recall(sends):
            self._recall_chunks()
        if not self.chunked.is_empty:
            self._look_up_duplicates(sends)
        publication = Publication(producer)
        answers = publication.answers
        items: list[NewEntry] = []
        if self.dedup is None and not self.policies.judges_sends:
            # Traits that were judged just now, and the flags that they mean: those of one transaction
            # are one object.
            known: Traits | None = PLAIN
            flags = 0
            left = iter(sends)
            for send in left:
                _, _, count, _, entry, traits = send
                if traits is known:
                    # A plain tuple has the shape of a NewEntry at a quarter of its price.
                    items.append((entry, count, flags, b""))  # type: ignore[arg-type]
                    answers.append(send)
                    continue
                if traits is PLAIN:
                    known, flags = PLAIN, 0
                    publication.belongs(len(items), None)
                    items.append((entry, count, 0, b""))  # type: ignore[arg-type]
                    answers.append(send)
                    continue
                taken, known = len(items), None
                self._take(send, producer, publication, items)
                if producer.must_resend:
                    for behind in left:
                        self._refuse_one(behind, publication, _behind(producer))
                elif (
                    traits.transaction is not None
                    and len(items) > taken
                    and traits.chunk is None
                    and traits.deliver_at_time is None
                ):
                    known, flags = traits, items[-1][2]
        else:
            for send in sends:
                self._take(send, producer, publication, items)
        producer.pending.append(publication)
        if not items:
            publication.answered()
            return publication
        if len(items) == len(answers):
            publication.all_are_stored(keep_sends=self.dedup is not None or publication.has_chunks)
        publication.began = self.now_s()
        try:
            publication.block = block = self.log.append(items, self.now_ms(), publication.durable)
        except MilepostError as error:  # damaged, deleted, or more than a ledger can number
            self.refuse_all(publication, sends, error)
            return publication
        # From before the first entry to the last index.
        last_indexes = block.last_indexes
        publication.count = last_indexes[-1] - last_indexes[0] + items[0][1]
        publication.size_bytes = sum(block.sizes) - len(items) * HEADER_SIZE
        if publication.has_chunks:
            publication.size_bytes -= sum([len(item[3]) for item in items])
        return publication

    def refuse_all(self, publication: Awaited, sends: Sequence[Send], error: MilepostError) -> None:
        """The log takes none of the sends; if it may take them later, their client sends them again."""
        producer = publication.producer
        self.counters.publishes_refused[error_name(error)] += len(sends)
        self.chunked.refused()
        if self.dedup is not None:
            self.dedup.refused()
        publication.refuse(error, sends)
        if error.wire_code != NotAllowed.wire_code:
            producer.must_resend = True
        publication.answered()

    def _refuse_behind(self, producer: Producer, sends: Sequence[Send]) -> Publication:
        """Store none of the sends: they came behind one that their client sends again."""
        publication = Publication(producer)
        for send in sends:
            self._refuse_one(send, publication, _behind(producer))
        producer.pending.append(publication)
        publication.answered()
        return publication

    def _take(
        self, send: Send, producer: Producer, publication: Publication, items: list[NewEntry]
    ) -> None:
        """One send that is not plain, or one whose sequence id has to be judged."""
        if producer.must_resend:
            self._refuse_one(send, publication, _behind(producer))
            return
        traits = send.traits
        if traits.fault is not None:
            self.counters.publishes_refused[wire_error_name(traits.fault.error)] += 1
            publication.answers.append(
                replies.send_error(
                    producer.producer_id, send.sequence_id, traits.fault.error, traits.fault.message
                )
            )
            return
        # A batch is no chunk, whatever its metadata says; clients see it the same way.
        chunk = None if traits.is_batch else traits.chunk
        fault = self._fault_of(send, producer)
        if fault is None and chunk is not None:
            fault = self.chunked.refusal(
                chunk, producer.name, self.chunk_limits, traits.transaction
            )
        if fault is not None:
            if isinstance(fault, EncryptionRequired):
                producer.must_resend = True
            self._refuse_one(send, publication, fault)
            return
        if self.dedup is not None and not producer.wrote(send.entry):
            # After a restart its sequence id would count for whom it names, whose publishes would be
            # taken for duplicates and dropped.
            self._refuse_one(send, publication, NotAllowed("an entry that names another producer"))
            return
        verdict = self._judge(send, producer, chunk)
        if verdict is SendVerdict.DUPLICATE:
            self.counters.duplicates_dropped += 1
            publication.answers.append((send, self._place_of(chunk)))
            return
        if verdict is SendVerdict.UNKNOWN:
            error = PersistenceError(f"sequence id {send.sequence_id} is on its way already")
            if self.dedup is None:  # which keeps the order by sequence ids
                producer.must_resend = True
            self._refuse_one(send, publication, error)
            return
        flags = MARKER if traits.is_marker else BATCH if traits.is_batch else 0
        beside = b""
        if chunk is not None:
            publication.has_chunks = True
            index = self.log.next_index + sum(item[1] for item in items)
            flags, beside = self.chunked.tie(chunk, index, producer.name, traits.transaction)
        if traits.transaction is not None:
            flags |= TXN
            assert self.transactions is not None, f"{self} was added to {traits.transaction}"
            self.transactions.writes(traits.transaction)
        publication.belongs(len(items), traits.transaction)
        if traits.deliver_at_time is not None:
            flags |= DELAYED
        items.append(NewEntry(send.entry, send.count, flags, beside))
        publication.answers.append(send)

    def _fault_of(self, send: Send, producer: Producer) -> MilepostError | None:
        """What the topic's policies, or its transaction, have against a send."""
        traits, policies = send.traits, self.policies
        if traits.transaction is not None:
            try:
                self._check_transaction(traits.transaction, producer.peer.role)
            except MilepostError as error:
                return error
        size_max = policies.max_message_size
        # As upstream: the broker's own maximum holds for chunks, not the topic's.
        if size_max and len(send.entry) > size_max and traits.chunk is None:
            return NotAllowed(
                f"a message of {len(send.entry)} bytes; {self.name} takes {size_max} at most"
            )
        if policies.encryption_required and not entry_metadata(send.entry).encryption_keys:
            return EncryptionRequired(
                f"a message that is not encrypted; {self.name} requires encryption"
            )
        delays, time_ms = policies.delays, traits.deliver_at_time
        if time_ms is not None and delays is not None and delays.max_ms:
            delay_ms = time_ms - send.publish_time
            if delay_ms > delays.max_ms:
                return NotAllowed(
                    f"a delay of {delay_ms} ms; {self.name} allows {delays.max_ms} at most"
                )
        return None

    def _check_transaction(self, txn_id: TxnId, role: str | None) -> None:
        if self.coordinator is None:
            raise NotAllowed(f"{self.name} takes no messages of transactions")
        self.coordinator.check_send(txn_id, self.row.name, role)
        if self.transactions is None:
            raise InvalidTransactionStatus(
                f"{self.name} was deleted and made again since it was added to transaction {txn_id}"
            )

    def _refuse_one(self, send: Send, publication: Publication, error: MilepostError) -> None:
        self.counters.publishes_refused[error_name(error)] += 1
        publication.answers.append(
            replies.send_error(
                publication.producer.producer_id, send.sequence_id, error.wire_code, str(error)
            )
        )

    def _judge(self, send: Send, producer: Producer, chunk: ChunkInfo | None) -> SendVerdict:
        if self.dedup is not None and not send.traits.is_marker:
            return self.dedup.judge(
                producer.name, send.sequence_id, send.highest_sequence_id, chunk
            )
        return SendVerdict.NEW if chunk is None else self.chunked.judge(chunk)

    def _place_of(self, chunk: ChunkInfo | None) -> tuple[int, int]:
        """The id to answer a duplicate with: for a chunk the place where it lies, if that is known,
        because a chunked message's id is made of the ids of its chunks."""
        index = None if chunk is None else self.chunked.index_of(chunk)
        if index is None or not self.log.first_index <= index < self.log.end_index:
            return _DUPLICATE
        return self.log.locate(index).position

    def on_durable(self, awaited: Awaited, error: PersistenceError | None) -> None:
        """The journal's answer to a block: its entries are visible from now on, or its producer resends."""
        if error is not None:
            self.refuse(awaited, error)
            awaited.answered()
            return
        if self.transactions is not None:
            if awaited.transactions:
                self._note_transactions(awaited)
            # The next opening looks through the entries since the last snapshot: let it be few.
            self._mark_dirty(self.transactions.state_id)
        if self.subscriptions:
            self.show()
        awaited.visible()

    def account_for(self, publication: Publication) -> None:
        """What is visible is remembered, counted and answered."""
        block = publication.block
        assert block is not None
        if publication.answers and (self.dedup is not None or publication.has_chunks):
            # Dispatch asks where the chunks of a message lie.
            self._remember(publication, block)
        if publication.producer.peer.has_consumers:
            # One connection may get both: as upstream, the receipt ahead of the message.
            self._stored(publication, block)
        else:
            # Messages go out first: a consumer waits for them, while the producer only hears of its success.
            self.afterwards(partial(self._stored, publication, block))

    @property
    def visible_end(self) -> int:
        """Behind the last index that consumers may see: nothing from the first message of an open
        transaction on."""
        end_index = self.log.end_index
        transactions = self.transactions
        return end_index if transactions is None else transactions.visible_end(end_index)

    def is_hidden(self, index: int) -> bool:
        """Does it belong to an aborted transaction, or mark the end of one?"""
        return self.transactions is not None and index in self.transactions.hidden

    def visible_ranges(self) -> IndexRanges:
        """Every index that consumers may see (a copy)."""
        visible = IndexRanges([(self.log.first_index, self.visible_end)])
        if self.transactions is not None:
            visible.discard_all(self.transactions.hidden)
        return visible

    def next_visible(self, index: int) -> int:
        """The first index at or behind one that consumers may see; the visible end if there is none."""
        if self.transactions is None:
            return index
        return self.transactions.hidden.next_absent(index, self.visible_end)

    def visible_count(self, first: int, end: int) -> int:
        """How many of these indexes consumers may see, or could once their transaction is committed."""
        hidden = (
            0 if self.transactions is None else self.transactions.hidden.count_within(first, end)
        )
        return end - first - hidden

    def visible_size(self, index: int) -> int:
        """Bytes from an index on to the visible end, aborted messages between included."""
        return self.log.size_from(index) - self.log.size_from(max(self.visible_end, index))

    def show(self) -> None:
        """Let subscriptions see what has become visible."""
        end_index = self.visible_end
        for subscription in self.subscriptions.values():
            if subscription.cursor.end < end_index:
                subscription.extend(end_index)

    def _note_transactions(self, awaited: Awaited) -> None:
        """Know which indexes belong to which transaction, before a consumer could see them."""
        block = awaited.block
        assert self.transactions is not None
        assert block is not None
        runs, last_indexes = awaited.transactions, block.last_indexes
        if len(runs) == 1 and runs[0][0] == 0 and runs[0][1] is not None:  # all of one transaction
            first = block.end_index - awaited.count
            self.transactions.wrote(runs[0][1], first, block.end_index)
            return
        ends = [place for place, _ in runs[1:]] + [len(last_indexes)]
        for (place, txn_id), end_place in zip(runs, ends, strict=True):
            if txn_id is not None:
                first = last_indexes[place - 1] + 1 if place else block.end_index - awaited.count
                self.transactions.wrote(txn_id, first, last_indexes[end_place - 1] + 1)

    def _stored(self, publication: Publication, block: Block) -> None:
        """Count what is durable and visible, and send its receipts."""
        producer = publication.producer
        count, size_bytes, counters = publication.count, publication.size_bytes, self.counters
        self.messages_in += count
        self.bytes_in += size_bytes
        self.published_ms = block.timestamp_ms
        producer.messages_in += count
        producer.bytes_in += size_bytes
        entries = len(block.sizes)
        self.entries_in += entries
        counters.entries_in += entries
        times, took_ms = self.write_times, (self.now_s() - publication.began) * 1000
        times.running[bisect_left(WRITE_TIMES_MS, took_ms)] += entries
        times.running_total += took_ms * entries
        if entries == 1:
            sizes = self.entry_sizes
            sizes.running[bisect_left(ENTRY_SIZES, size_bytes)] += 1
            sizes.running_total += size_bytes
        else:
            self.entry_sizes.add_all(publication.entry_sizes(block))
        counters.messages_in += count
        counters.bytes_in += size_bytes
        publication.answered()

    def refuse(self, publication: Awaited, error: PersistenceError) -> None:
        """The journal has refused its block: its producer is to send again, and what came behind it."""
        producer = publication.producer
        producer.must_resend = True
        self.counters.publishes_refused[error_name(error)] += len(publication)
        # Once for each failure, by the first publication that it refuses: what was sent since is not refused.
        through = self.log.refused_through
        if through != self._chunks_refused:
            self._chunks_refused = through
            self.chunked.refused()
        is_unknown = isinstance(error, OutcomeUnknown)
        if self.dedup is not None and not is_unknown and through != self._ids_refused:
            self._ids_refused = through
            self.dedup.refused()
        if is_unknown:
            # Neither a receipt nor an error would be true. The client resends what it has no
            # answer for, and the sequence ids decide.
            producer.peer.fail(f"the outcome of a publish to {self.name} is unknown: {error}")
        publication.refuse(error)

    def _remember(self, publication: Publication, block: Block) -> None:
        """Sequence ids that are durable now, and where the chunks lie."""
        producer = publication.producer
        for send, last_index in zip(publication.stored_sends(), block.last_indexes, strict=True):
            chunk = None if send.traits.is_batch else send.traits.chunk
            if self.dedup is not None and not send.traits.is_marker:
                self.dedup.persisted(
                    producer.name, send.sequence_id, send.highest_sequence_id, chunk
                )
            if chunk is not None:
                self.chunks_in += 1
                self.chunked.stored(chunk, last_index)
        if self.dedup_state_id is not None:
            self._mark_dirty(self.dedup_state_id)

    def last_sequence_id(self, producer_name: str) -> int:
        """What the producer last published; -1 if that is not known."""
        return -1 if self.dedup is None else self.dedup.last_sequence_id(producer_name)

    # -- chunked messages (PIP-107) ----------------------------------------------------------------

    def chunk_indexes(self, ledger_id: int, entry_id: int) -> tuple[int, ...]:
        """The indexes of all chunks of the message whose last chunk lies there, in order."""
        last_index = self.lookup(ledger_id, entry_id)[0]
        indexes = self.chunked.indexes_of(last_index)
        if indexes is None:
            position = Position(ledger_id, entry_id)
            find = partial(self._chunk_search.find_whole, self.log, self.chunked, position)
            indexes = self.log.bring(find)
        return indexes

    def chunk_ranges(self, ledger_id: int, entry_id: int) -> list[Range]:
        """The same as ranges."""
        return joined(self.chunk_indexes(ledger_id, entry_id))

    def chunks_within(self, first: int, end: int) -> list[StoredChunk]:
        """The chunks in `[first, end)`; of so many entries at most."""
        found: list[StoredChunk] = []
        index, left = max(first, self.log.first_index), CHUNKS_ENTRIES_MAX
        while index < end and left > 0:
            stretch = self.log.stretch(index, min(left, STRETCH_ENTRIES))
            if stretch is None:
                break
            for at, flags in enumerate(stretch.flags):
                last_index = stretch.base_index + stretch.last_indexes[at]
                if flags & (CHUNK | LAST_CHUNK) and last_index < end:
                    is_last, entry_id = bool(flags & LAST_CHUNK), stretch.first_entry_id + at
                    found.append(StoredChunk(last_index, stretch.ledger_id, entry_id, is_last))
            left -= stretch.entries
            index = stretch.end_index
        return found

    def first_chunk_index(self, ledger_id: int, entry_id: int) -> int:
        """Where the chunked message begins whose chunk lies there."""
        position = Position(ledger_id, entry_id)
        index = self._first_chunks.get(position)
        if index is None:
            find = partial(self._chunk_search.find_first, self.log, self._first_chunks, position)
            index = self.log.bring(find)
        return index

    def _look_up_duplicates(self, sends: Sequence[Send]) -> None:
        """Lack where chunks lie that are stored already, before anything is judged: their receipts say it."""
        for send in sends:
            if send.traits is not PLAIN and send.traits.chunk is not None:
                self._place_of(send.traits.chunk)

    def _has_ended(self, txn_id: TxnId) -> bool:
        """Is a transaction, of which a message is stored here, open no more?"""
        return self.transactions is None or self.transactions.messages_of(txn_id) is None

    def _recall_chunks(self) -> None:
        """Remember what an earlier process has stored of messages that are unfinished."""
        recall = self._chunk_search.recall
        self.log.bring(partial(recall, self.log, self.recovered_end, self.chunked, self._has_ended))

    def _needs_recall(self, sends: Sequence[Send]) -> bool:
        """Does one of the sends go on with a message that is not remembered?"""
        # Asked for all that comes to a topic with messages of an earlier process: what neighbours share, as
        # those of one transaction do, is looked at once.
        known = PLAIN
        for send in sends:
            traits = send.traits
            if traits is known:
                continue
            known, chunk = traits, None if traits.is_batch else traits.chunk
            if chunk is not None and not chunk.is_first and not self.chunked.knows(chunk):
                return True
        return False

    # -- addresses ---------------------------------------------------------------------------------

    def lookup(self, ledger_id: int, entry_id: int) -> tuple[int, int, int]:
        """First index, end index and flags of the entry at a position."""
        return self.log.indexes_at(ledger_id, entry_id)

    def has_trimmed(self, ledger_id: int) -> bool:
        """Does a ledger lie before what is retained?"""
        ledgers = self.log.ledgers
        return bool(ledgers) and 0 <= ledger_id < ledgers[0].ledger_id

    def first_index_of(self, ledger_id: int) -> int:
        """The first index of a ledger, or of what followed it."""
        return self.log.index_from(Position(ledger_id, 0))

    def acked_position(self, mark_delete_index: int) -> Position:
        """The last entry with everything up to its end acked: of a batch that is acked in part, the
        one before it. (first ledger, -1) before all."""
        index = mark_delete_index
        if index >= self.log.first_index:
            located = self.log.locate(index)
            if located.span.end_index == index + 1:
                return located.position
            index = located.span.first_index - 1
        if index >= self.log.first_index:
            return self.log.locate(index).position
        ledgers = self.log.ledgers
        return Position(ledgers[0].ledger_id, -1) if ledgers else Position(-1, -1)

    def last_dispatchable(self, view: Compacted | None = None) -> tuple[Position, int] | None:
        """The newest message: its entry, and its batch index or -1; None if there is none.

        No marker ends one, and no chunk does that leaves its message unfinished. `view`: for those who
        read compacted, what was left out is not there.
        """
        index, first_index = self.visible_end - 1, self.log.first_index
        hidden = None if self.transactions is None else self.transactions.hidden
        while index >= first_index:
            if hidden is not None and index in hidden:
                # An aborted transaction may have left millions at the end.
                visible = hidden.last_absent(first_index, index)
                if visible is None:
                    return None
                index = visible
            if view is not None and (kept := view.last_kept(index)) != index:
                index = kept
                continue
            located = self.log.locate(index)
            if not located.flags & MARKER and located.flags & (CHUNK | LAST_CHUNK) != CHUNK:
                batch_index = index - located.span.first_index if located.flags & BATCH else -1
                return located.position, batch_index
            index = located.span.first_index - 1
        return None

    # -- who is here -------------------------------------------------------------------------------

    def peers(self) -> set[Peer]:
        found = {producer.peer for producer in self.producers.values()}
        for subscription in self.subscriptions.values():
            found |= {consumer.peer for consumer in subscription.consumers}
        return found


def _behind(producer: Producer) -> PersistenceError:
    return PersistenceError(
        f"a message that producer {producer.name} sent before this one was not stored: open the "
        "producer again and send both again, in order"
    )
