"""Bugs to plant: one small change of the sources each, and the tests that have to notice it.

Each line of text must be there exactly once, so that a list that is out of date says so.
"""

from __future__ import annotations

from typing import NamedTuple


class Bug(NamedTuple):
    path: str
    right: str
    wrong: str
    tests: str


_B, _C, _S = "src/milepost/broker/", "src/milepost/cursor/", "src/milepost/storage/"
_P, _W = "src/milepost/positions/", "src/milepost/wire/"
_CURSOR = "tests/unit/cursor tests/property/test_cursor.py"
_LOG = "tests/unit/storage/ledgers/test_log.py tests/crash/test_containment.py"
_RECOVERY = "tests/unit/storage/test_recovery.py tests/crash/test_containment.py"
_ACKS = (
    "tests/unit/broker/subscription/test_ack_journal.py "
    "tests/unit/broker/subscription/test_subscription.py"
)
_TORN = "tests/unit/broker/dispatch/test_unshown.py"
_TRANSACTIONS = (
    "tests/unit/broker/operations/test_transactions.py "
    "tests/unit/broker/operations/test_transactions_under_attack.py "
    "tests/unit/broker/transactions"
)
_CHUNKS = (
    "tests/unit/broker/subscription/test_subscription_chunks.py "
    "tests/unit/broker/dispatch/test_chunk_gate.py"
)
_LOSSES = "tests/unit/storage/test_checkpoint.py tests/unit/storage/test_engine.py"
_ADDRESSES = "tests/unit/broker/messages/test_ids_to_indexes.py"
_LONG_ACKS = (
    "tests/unit/broker/connection/handlers/test_ack.py "
    "tests/unit/broker/connection/test_session.py tests/unit/broker/connection/test_session_disk.py"
)
_PROTOCOL = "tests/unit/wire/test_protocol.py tests/unit/wire/scanners/test_long_command.py"
_ADMISSION = (
    "tests/unit/broker/topic/test_producer_admission.py "
    "tests/unit/broker/topic/test_producer_access.py"
)

BUGS = (
    # Acks on their way to the journal.
    Bug(
        _B + "subscription/ack_journal.py",
        "self.noted += ranges\n",
        "self.noted = [*ranges]\n",
        _ACKS,
    ),
    Bug(
        _B + "subscription/ack_journal.py",
        "ranges, self.noted = self.noted, []",
        "ranges, self.noted = sorted(dict(sorted(self.noted, reverse=True)).items()), []",
        _ACKS,
    ),
    Bug(
        _B + "subscription/ack_journal.py",
        "self.is_behind = error is not None",
        "self.is_behind = False",
        _ACKS,
    ),
    Bug(
        _B + "subscription/ack_journal.py",
        "if self.noted or self._noted_sets or self._waiting or self.is_behind:",
        "if self.noted or self._noted_sets or self.is_behind:",
        _ACKS,
    ),
    Bug(
        _B + "subscription/ack_journal.py",
        "if not ranges and not self.is_behind:",
        "if not ranges:",
        _ACKS,
    ),
    # What acks do not speak for.
    Bug(
        _B + "dispatch/unshown.py",
        "            named = left\n",
        "",
        _TORN,
    ),
    Bug(
        _B + "dispatch/unshown.py",
        "if is_all and not left:",
        "if False:",
        _TORN,
    ),
    Bug(
        _B + "dispatch/unshown.py",
        "if is_all and not left:",
        "if not left:",
        _TORN,
    ),
    Bug(
        _B + "dispatch/unshown.py",
        "            hidden = self._hidden[holder] = self.torn.copy()\n",
        "            hidden = self._hidden[holder] = IndexRanges()\n",
        _TORN,
    ),
    Bug(
        _B + "dispatch/unshown.py",
        "if not hidden or end - 1 in hidden or hidden.next_range(0, end) is None:",
        "if not hidden or hidden.next_range(0, end) is None:",
        _TORN,
    ),
    Bug(
        _B + "dispatch/unshown.py",
        "        return meant[-1][1] if meant else end\n",
        "        return end\n",
        _TORN,
    ),
    Bug(
        _B + "dispatch/unshown.py",
        "            self._hidden[holder] = IndexRanges()\n",
        "            pass\n",
        _TORN,
    ),
    Bug(
        _B + "dispatch/unshown.py",
        "return named if is_single else _outside(self._cursor.pended_within(named), named)",
        "return named",
        _TORN,
    ),
    Bug(
        _B + "dispatch/unshown.py",
        "            unsent.discard_all(self._cursor.inflight_within(holder, unsent))\n",
        "",
        _TORN,
    ),
    Bug(
        _B + "subscription/pending_acks.py",
        "            return unshown.spoken_for(consumer.holder, of_one_id)\n",
        "            return of_one_id\n",
        _TORN,
    ),
    Bug(
        _B + "dispatch/unshown.py",
        "        if self.torn.next_range(first, end) is not None:",
        "        if False:",
        _TORN,
    ),
    Bug(
        _B + "dispatch/unshown.py",
        "        if from_others and len(self._hidden) > 1:\n",
        "        if False:\n",
        _TORN,
    ),
    Bug(
        _B + "dispatch/chunk_gate.py",
        "end if left is None else min(end, left)",
        "end",
        _TORN,
    ),
    # Addresses.
    Bug(
        _B + "messages/lookup_by_index.py",
        "            if not located.flags & MARKER and not",
        "            if located is not entries[0] and not",
        "tests/unit/broker/messages/test_lookup_by_index.py",
    ),
    Bug(
        _B + "messages/ids_to_indexes.py",
        "if 0 <= batch_index < end - first:",
        "if 0 <= batch_index <= end - first:",
        _ADDRESSES,
    ),
    Bug(
        _B + "messages/ids_to_indexes.py",
        "        end = end if pending is None else first + pending\n",
        "",
        _ADDRESSES,
    ),
    Bug(
        _B + "messages/ids_to_indexes.py",
        "        if topic.has_trimmed(ledger_id):\n            return []",
        "        if not topic.has_trimmed(ledger_id):\n            return []",
        _ADDRESSES,
    ),
    Bug(
        _B + "topic/topic.py",
        "sum(item[1] for item in items)",
        "len(items)",
        "tests/unit/broker/topic/test_topic.py",
    ),
    Bug(
        "src/milepost/broker/subscription/read_loop.py",
        "            if epoch == self._subscription.cursor.epoch:\n                self._in_vain = demand",
        "            self._in_vain = demand",
        "tests/unit/broker/subscription/test_read_loop.py",
    ),
    # Slices.
    Bug(
        _W + "scanners/ack_slices.py",
        "BATCH_SIZE_MAX if is_last else at * 64",
        "at * 64",
        "tests/unit/wire/scanners/test_ack_slices.py",
    ),
    Bug(
        _W + "scanners/ack_slices.py",
        "window = (first * 64,",
        "window = (at * 64,",
        "tests/unit/wire/scanners/test_ack_slices.py",
    ),
    Bug(
        _W + "scanners/ack_slices.py",
        "one & two for one, two",
        "one | two for one, two",
        "tests/unit/wire/scanners/test_ack_slices.py",
    ),
    Bug(
        _W + "scanners/shape.py",
        "payload_min = -(-payload_min //",
        "payload_min = (payload_min //",
        "tests/unit/wire/scanners/test_shape.py",
    ),
    # Storage.
    Bug(_S + "ledgers/log.py", "<= RELATIVE_INDEX_MAX\n", "<= 2 * RELATIVE_INDEX_MAX\n", _LOG),
    Bug(
        _S + "ledgers/log.py",
        "time_ms = now_ms if now_ms > last_time_ms else last_time_ms",
        "time_ms = now_ms",
        _LOG,
    ),
    Bug(
        _S + "ledgers/log.py",
        "while at < len(self._ledgers) - 1 and",
        "while at < len(self._ledgers) and",
        _LOG,
    ),
    Bug(
        _S + "ledgers/log.py",
        "self._ledgers[at].end_index <= before_index",
        "self._ledgers[at].end_index < before_index",
        _LOG,
    ),
    Bug(
        _S + "ledgers/ledger.py",
        "if last_indexes[0] < self.end_index:",
        "if last_indexes[0] + 1 < self.end_index:",
        _RECOVERY,
    ),
    Bug(_S + "recovery.py", "self._refuse_topic(topic_id, reason)\n\n", "pass\n\n", _RECOVERY),
    Bug(
        _S + "recovery.py",
        "if record.sequence <= self._folded_through(state_id):",
        "if record.sequence < self._folded_through(state_id):",
        "tests/crash/test_folded_facts.py tests/unit/storage/test_recovery.py",
    ),
    Bug(
        _S + "recovery.py",
        "found.next_sequence = record.sequence + 1",
        "found.next_sequence = record.sequence",
        _RECOVERY,
    ),
    Bug(
        _S + "ledgers/mileposts.py",
        "page = max(bisect_left(self._fences[column], value) - 1, 0)",
        "page = max(bisect_left(self._fences[column], value) - 2, 0)",
        "tests/unit/storage/ledgers/test_mileposts.py tests/property/test_storage_lookup.py",
    ),
    Bug(
        _S + "ledgers/entry.py",
        "            index += count\n",
        "            index += 1\n",
        "tests/unit/storage/ledgers/test_entry.py",
    ),
    # Values that cursors are made of.
    Bug(
        _P + "ackset.py",
        "(self.bits & -self.bits).bit_length() - 1",
        "self.bits.bit_length() - 1",
        _ADDRESSES,
    ),
    Bug(
        _C + "facts.py",
        "if not first < end <= INDEX_MAX:",
        "if not first <= end <= INDEX_MAX:",
        _CURSOR,
    ),
    Bug(_C + "snapshot.py", "set_count < 3 or at != len(body)", "set_count < 3", _CURSOR),
    # Transactions.
    Bug(  # a marker before its data: messages behind an end that is on its way
        _B + "transactions/coordinator.py",
        "        if txn.is_ending or txn.decided is not None:\n",
        "        if False:\n",
        _TRANSACTIONS,
    ),
    Bug(  # … and ends before the entries that they end, when a topic is opened
        _B + "operations/transactions.py",
        "        for fact in unread:\n            transactions.replay(fact)\n",
        "        pass\n",
        _TRANSACTIONS,
    ),
    Bug(  # pending acks not restored
        _B + "subscription/pending_acks.py",
        "                if acks.epoch == part.cursor.epoch:\n",
        "                if acks.epoch != part.cursor.epoch:\n",
        _TRANSACTIONS,
    ),
    Bug(  # a commit applied twice
        _B + "transactions/coordinator.py",
        "        self._ended[least] = outcome\n",
        "        pass\n",
        _TRANSACTIONS,
    ),
    Bug(  # a lookup that counts markers
        _B + "messages/lookup_by_index.py",
        "is_system = located.flags & MARKER or topic.is_hidden(index)",
        "is_system = False",
        _TRANSACTIONS,
    ),
    Bug(  # an end that is true before it is durable
        _B + "operations/transactions.py",
        "        ends, parts = self._parts(asked)\n",
        "        ends, parts = self._parts(asked)\n        self._make_true(ends, parts)\n",
        _TRANSACTIONS,
    ),
    Bug(  # a snapshot that counts an end in flight
        _S + "store.py",
        "        if self._is_planning:\n",
        "        if False:\n",
        _TRANSACTIONS,
    ),
    Bug(  # a snapshot in place of an end, behind a refusal
        _S + "store.py",
        "            self.submit(STATE, state_id, (self._open_states[state_id](),), _unheard)\n"
        "        return",
        "            fact = self._open_states[state_id]()\n        return",
        _TRANSACTIONS,
    ),
    Bug(  # what is hidden is forgotten by a restart
        _B + "transactions/topic_transactions.py",
        "        topic.hidden = IndexRanges.from_bytes(sized())\n",
        "        sized()\n",
        _TRANSACTIONS,
    ),
    Bug(  # a time-out begins again with a restart
        _B + "transactions/coordinator.py",
        "left_ms = min(max(opened_ms + timeout_ms - now_ms, 0), timeout_ms)",
        "left_ms = timeout_ms",
        _TRANSACTIONS,
    ),
    Bug(  # what the disk refused to add stays added
        _B + "operations/transactions.py",
        "                undo()\n",
        "                pass\n",
        _TRANSACTIONS,
    ),
    Bug(  # a fact that is journaled behind what relies on it
        _S + "store.py",
        "        if self._gathered:\n            self.submit_gathered()\n",
        "        pass\n",
        "tests/unit/storage/test_store.py",
    ),
    Bug(  # facts that the snapshot of their state has already, told again behind it
        _S + "store.py",
        "                whole.add(state_id)\n",
        "                pass\n",
        "tests/unit/storage/test_store.py",
    ),
    Bug(  # an end that forgets the acks of its transaction
        _B + "topic/transaction_ends.py",
        "        if subscriptions and self._transactions.has_acked(txn_id):\n",
        "        if False:\n",
        _TRANSACTIONS,
    ),
    Bug(  # whose an ended transaction was
        _B + "transactions/coordinator.py",
        "            self._owners[least] = txn.owner\n",
        "            pass\n",
        _TRANSACTIONS,
    ),
    # What attacks and faults once found, in the order of docs/reliability.md.
    Bug(  # a slot that its holder's chunked message does not keep
        _B + "dispatch/dispatchers.py",
        "                self._assignment.delivered(consumer.holder, slot, first, end)\n",
        "                pass\n",
        _CHUNKS,
    ),
    Bug(  # a queue that fills in the middle of a message stops it
        _B + "dispatch/chunk_handover.py",
        "return self.consumer.peer.is_writable and self.consumer.held is None",
        "return self.consumer.can_take and self.consumer.held is None",
        _CHUNKS,
    ),
    Bug(  # the last chunk of a message whose first was skipped goes out alone
        _B + "dispatch/chunk_gate.py",
        "        if first_index == index or self._cursor.is_withheld(first_index):\n",
        "        if True:\n",
        "tests/unit/broker/dispatch/test_chunk_gate.py",
    ),
    Bug(  # a restart's permit that is not given back
        _B + "subscription/subscription.py",
        "        restarts = needs_restart(consumer, message.indexes[0])\n",
        "        restarts = needs_restart(consumer, message.indexes[0])\n"
        "        consumer.permits -= restarts\n",
        "tests/unit/broker/dispatch/test_chunk_restart.py",
    ),
    Bug(  # payloads that are read for an ack
        _S + "ledgers/heads.py",
        "size = min(place.end - place.offset, size_max)",
        "size = place.end - place.offset",
        "tests/unit/broker/connection/test_session_disk.py",
    ),
    Bug(  # every FLOW looks again at what waits for a stuck consumer
        _B + "subscription/subscription.py",
        "                self.cursor.set_aside(entry.last_index - entry.count + 1, "
        "entry.last_index + 1)\n",
        "",
        "tests/unit/broker/dispatch/test_passed_over.py",
    ),
    Bug(  # no end of running ahead
        _B + "subscription/subscription.py",
        "if cursor.aside_count - self._damaged_count < "
        "self.limits.look_ahead(len(self.consumers)):",
        "if True:",
        "tests/unit/broker/dispatch/test_passed_over.py",
    ),
    Bug(  # a producer may leave any number of messages unfinished
        _B + "messages/chunked.py",
        "        if not self._is_past(producer, limits):\n",
        "        if True:\n",
        "tests/unit/broker/messages/test_chunked.py",
    ),
    Bug(  # unfinished messages that every step walks over
        _B + "dispatch/chunk_gate.py",
        "            cursor.withhold(index, index + 1)\n"
        "            self._parts.add(index, index + 1)\n"
        "            return Met(given_up=given_up)\n",
        "            self._parts.add(index, index + 1)\n            return Met(given_up=given_up)\n",
        "tests/unit/broker/dispatch/test_chunk_gate.py",
    ),
    Bug(  # a damaged ledger is rolled, and its damage forgotten
        _S + "ledgers/log.py",
        "        if self.refusal is not None:\n",
        "        if False:\n",
        _LOSSES,
    ),
    Bug(  # a start that does not look at what the catalog remembers
        _S + "store.py",
        "        if not losses:\n            return\n        log.loss =",
        "        if True:\n            return\n        log.loss =",
        _LOSSES,
    ),
    Bug(  # a ledger that fails every checkpoint
        _S + "checkpoint.py",
        "                self._contain(ledger, failure, files)\n",
        "                raise\n",
        _LOSSES,
    ),
    Bug(  # a loss that holds the journal of all topics
        _S + "checkpoint.py",
        "        if isinstance(failure, Shortage):\n",
        "        if False:\n",
        _LOSSES,
    ),
    Bug(  # connections that take the storage's descriptors
        _B + "limits/connection_limits.py",
        "        if self.count >= self.room:\n",
        "        if False:\n",
        "tests/unit/broker/limits/test_connection_limits.py",
    ),
    Bug(  # a wall clock that jumps makes a member old
        _B + "topic_loader.py",
        "            return int(broker.clock.monotonic() * 1000)\n",
        "            return broker.clock.wall_ms()\n",
        "tests/unit/broker/operations/test_broadcast_members.py",
    ),
    Bug(  # two requests to grow a topic that both read before they write
        _B + "directory/directory.py",
        "        def store(catalog: Catalog) -> tuple[Doc, int, list[TopicRow]]:\n"
        "            doc = catalog.doc(PARTITIONED, key)\n",
        "        known = self._partitioned[key]\n\n"
        "        def store(catalog: Catalog) -> tuple[Doc, int, list[TopicRow]]:\n"
        "            doc = known\n",
        "tests/scenarios/test_catalog_races.py",
    ),
    Bug(  # the journal's thread ends without a word
        _S + "journal/committer.py",
        "                        self._loop.call_soon_threadsafe(self._break, error)\n",
        "                        pass\n",
        "tests/crash/test_unexpected.py",
    ),
    Bug(  # a journal that cannot go on while health is well
        _S + "journal/committer.py",
        '        self.failure = f"{what}',
        '        self.told = f"{what}',
        "tests/crash/test_unexpected.py",
    ),
    Bug(  # one read loop that breaks down ends the round of all
        _B + "subscription/flush_round.py",
        "                run()\n            except Exception as error:\n",
        "                run()\n            except OSError as error:\n",
        "tests/crash/test_unexpected.py",
    ),
    Bug(  # a reader that is to start a time ago gets everything
        _B + "connection/handlers/subscribe.py",
        'if command.HasField("start_message_id") and not goes_back:',
        'if command.HasField("start_message_id"):',
        "tests/unit/broker/connection/handlers/test_subscribe.py",
    ),
    Bug(  # the end of a topic while messages are held
        _B + "subscription/notices.py",
        "or cursor.backlog > cursor.withheld_count:",
        "or cursor.counts().ready > cursor.withheld_count:",
        "tests/unit/broker/subscription/test_notices_end.py",
    ),
    Bug(  # a partition that was never used is not there
        _B + "directory/directory.py",
        "        return 0 <= name.partition < partitions\n",
        "        return False\n",
        "tests/unit/broker/connection/handlers/test_subscribe.py",
    ),
    Bug(  # headers in lower case, in which the Java admin client finds no properties
        "src/milepost/rest/resources/messages.py",
        "        return self\n",
        "        return HeaderName(super().lower())\n",
        "tests/e2e/test_rest.py",
    ),
    Bug(  # a slash that comes encoded in a topic's name
        "src/milepost/rest/raw_path.py",
        "    if named is None:\n",
        "    if True:\n",
        "tests/unit/rest/test_raw_path.py",
    ),
    Bug(  # an unload that goes on in the same ledger
        _B + "operations/topic_lifecycle.py",
        "        if _goes_on(topic):\n",
        "        if False:\n",
        "tests/unit/broker/operations/test_topic_lifecycle.py",
    ),
    Bug(  # a receipt behind its message on the same connection
        _B + "topic/topic.py",
        "        if publication.producer.peer.has_consumers:\n",
        "        if False:\n",
        "tests/unit/broker/connection/handlers/test_produce.py",
    ),
    Bug(  # … where messages come one by one
        _B + "topic/singles.py",
        "        if self._peer.has_consumers:\n",
        "        if False:\n",
        "tests/unit/broker/topic/test_singles.py",
    ),
    Bug(  # receipts of one producer out of order
        _B + "topic/singles.py",
        "if pending[0] is not single:",
        "if False:",
        "tests/unit/broker/topic/test_singles.py",
    ),
    Bug(  # peeking that makes no subscription
        "src/milepost/rest/resources/messages.py",
        "if name in topic.subscriptions or not (create and topic.policies.auto_subscriptions):",
        "if True:",
        "tests/unit/rest/resources/test_messages.py",
    ),
    Bug(  # upstream's dynamic settings are refused by name
        _B + "dynamic_settings.py",
        "        if key in kept_settings.NAMES:\n            kept_settings.check(key, text)\n",
        "        if False:\n            kept_settings.check(key, text)\n",
        "tests/unit/rest/resources/test_broker_config.py",
    ),
    Bug(  # an answer that forgets what was wrong with earlier parts
        _B + "connection/handlers/ack.py",
        "    if failures and error is None:\n",
        "    if False and failures:\n",
        _LONG_ACKS,
    ),
    Bug(  # what is left of an ack of many chunks is dropped
        _B + "connection/handlers/ack.py",
        "    if rest:\n        raise Unfinished",
        "    if False:\n        raise Unfinished",
        _LONG_ACKS,
    ),
    Bug(  # failures of earlier parts are forgotten where one waits for the disk
        _B + "connection/handlers/ack.py",
        "        session.ack_failures = failures\n",
        "        session.ack_failures = None\n",
        _LONG_ACKS,
    ),
    Bug(  # a later frame overtakes the rest of an ack
        _B + "connection/session.py",
        "[unfinished.rest, *events[obeyed_count + 1 :]]",
        "[*events[obeyed_count + 1 :], unfinished.rest]",
        _LONG_ACKS,
    ),
    Bug(  # what came behind an event that waits twice is dropped
        _B + "connection/session.py",
        "self._unheard = [*self._unheard, *events[1:]]",
        "self._unheard = [*self._unheard]",
        _LONG_ACKS,
    ),
    Bug(  # a client that hangs up takes the rest of its ack with it
        _B + "connection/session.py",
        "        if self.protocol.has_more or self._unheard is not None:\n            self._is_gone = True",
        "        if False:\n            self._is_gone = True",
        _LONG_ACKS,
    ),
    Bug(  # the last slice of a part answers for the whole
        _W + "protocol.py",
        "self._slice, self._slices = _going_on(self._slice), map(_going_on, self._slices)",
        "pass",
        _PROTOCOL,
    ),
    Bug(  # every part of a long ack is a whole one
        _W + "protocol.py",
        "events[:] = [_going_on(e) if isinstance(e, Ack) else e for e in events]",
        "pass",
        _PROTOCOL,
    ),
    Bug(  # every part of a long ack has the request id
        _W + "scanners/long_command.py",
        "        if not goes_on or self._shape.repeats_tail:\n",
        "        if True:\n",
        _PROTOCOL,
    ),
    Bug(  # a second long REDELIVER releases nothing
        _B + "connection/handlers/redeliver.py",
        "                session.released.clear()\n",
        "                pass\n",
        "tests/unit/broker/connection/handlers/test_redeliver.py",
    ),
    Bug(  # a part of a long REDELIVER brings back what went out again
        _B + "connection/handlers/redeliver.py",
        "            named = session.released\n",
        "            named = None\n",
        "tests/unit/broker/connection/handlers/test_redeliver.py",
    ),
    Bug(  # read loops that waited for a round are forgotten behind a commit
        _B + "subscription/flush_round.py",
        "self._read_loops[:0] = earlier",
        "pass",
        "tests/unit/broker/subscription/test_flush_round.py",
    ),
    Bug(  # those in line are not told of a fencing producer that comes back
        _B + "topic/producer_access.py",
        "Standing.GRANTED, self.epoch, to_refuse=to_refuse)",
        "Standing.GRANTED, self.epoch)",
        "tests/unit/broker/topic/test_producer_access.py",
    ),
    Bug(  # a producer that opens again loses its place
        _B + "topic/producer_access.py",
        "        self._alone = None\n        self._is_kept = True\n",
        "        self._alone = None\n",
        _ADMISSION,
    ),
    Bug(  # a place that is not taken again is kept for ever
        _B + "connection/handlers/produce.py",
        "        if had_place:\n            admissions.give_place_up(topic)\n",
        "        if False:\n            admissions.give_place_up(topic)\n",
        _ADMISSION,
    ),
    Bug(  # only the last consumer that let go is unblocked
        _B + "subscription/subscription.py",
        "                is_blocked = is_blocked or consumer.is_blocked\n",
        "                is_blocked = consumer.is_blocked\n",
        "tests/unit/broker/subscription",
    ),
    Bug(  # an ack of what is held back behind a seek counts
        _B + "subscription/subscription.py",
        "            if out := self._held.acked(ranges) if self._held.holding else ranges:\n",
        "            if out := ranges:\n",
        "tests/unit/broker/subscription",
    ),
    Bug(  # an ack behind the visible end counts
        _B + "messages/ids_to_indexes.py",
        "            if found and found[-1][1] > end_index:\n",
        "            if False:\n",
        _ADDRESSES,
    ),
    Bug(  # chunks that have begun are not looked at when others are done
        _B + "dispatch/chunk_gate.py",
        "        if not self._lasts.count and not self._firsts.count:\n",
        "        if not self._lasts.count or not self._firsts.count:\n",
        _CHUNKS,
    ),
    Bug(  # a commit acks what was pending before a seek
        _B + "subscription/pending_acks.py",
        "        if pending.epoch == cursor.epoch:",
        "        if True:",
        _TRANSACTIONS + " tests/unit/broker/subscription/test_pending_acks.py",
    ),
)
