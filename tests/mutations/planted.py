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
_TRANSACTIONS = (
    "tests/unit/broker/operations/test_transactions.py "
    "tests/unit/broker/operations/test_transactions_under_attack.py "
    "tests/unit/broker/transactions"
)
_ADDRESSES = "tests/unit/broker/messages/test_ids_to_indexes.py"

BUGS = (
    # Acks on their way to the journal.
    Bug(
        _B + "subscription/ack_journal.py",
        "self._ranges += ranges\n",
        "self._ranges = [*ranges]\n",
        _ACKS,
    ),
    Bug(
        _B + "subscription/ack_journal.py",
        "ranges, self._ranges = self._ranges, []",
        "ranges, self._ranges = sorted(dict(sorted(self._ranges, reverse=True)).items()), []",
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
        "if self._ranges or self._waiting or self.is_behind:",
        "if self._ranges or self.is_behind:",
        _ACKS,
    ),
    Bug(
        _B + "subscription/ack_journal.py",
        "if not ranges and not self.is_behind:",
        "if not ranges:",
        _ACKS,
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
        "return end if pending is None else first + pending\n\n\ndef released",
        "return end\n\n\ndef released",
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
        "if record.sequence <= self._folded[state_id]:",
        "if record.sequence < self._folded[state_id]:",
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
        "        if txn.is_ending:\n",
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
        _B + "operations/transactions.py",
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
)
