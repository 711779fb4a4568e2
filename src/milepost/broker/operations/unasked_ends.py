"""Ends that no client has asked for: of transactions whose time is over, or whose run of a series is.

A client may have opened very many of them. They are ended bit by bit, and others have their turns between.
What waits here cannot be committed any more, but for one whose time is over: its client may still be faster.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from milepost.broker.topic.transaction_ends import Done
from milepost.broker.transactions.coordinator import ABORT, Transaction
from milepost.errors import MilepostError

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.operations.transactions import Transactions

logger = logging.getLogger(__name__)

# Transactions that are ended in one go: about ten milliseconds.
ENDS_STEP: Final = 100


class UnaskedEnds:
    def __init__(self, broker: Broker, service: Transactions) -> None:
        self._broker = broker
        self._service = service
        # The oldest first, with the callers that wait for the end of each.
        self._left: dict[Transaction, list[Done]] = {}
        self._is_running = False

    def abort(self, txns: Sequence[Transaction], done: Done | None = None) -> None:
        """Abort transactions of a series: none of them can be committed from now on. `done` is called for
        each that may be aborted. One whose commit may be on the disk already is committed: whether its step
        counts has to be known before another run commits it."""
        for txn in txns:
            if txn.decided is None:
                txn.decided = ABORT
        self.end([txn for txn in txns if txn.decided is ABORT], done)
        self.end([txn for txn in txns if txn.decided is not ABORT])

    def end(self, txns: Sequence[Transaction], done: Done | None = None) -> None:
        """End transactions as was decided, or abort them because their time is over."""
        for txn in txns:
            waiting = self._left.setdefault(txn, [])
            if done is not None:
                waiting.append(done)
        if self._left and not self._is_running:
            self._end_some()
            if self._left:
                self._is_running = True
                self._broker.spawn(self._run())

    async def _run(self) -> None:
        try:
            while self._left:
                await asyncio.sleep(0)
                self._end_some()
        finally:
            self._is_running = False

    def _end_some(self) -> None:
        service = self._service
        for txn, waiting in list(islice(self._left.items(), ENDS_STEP)):
            del self._left[txn]
            answered = partial(_answer, txn, waiting)
            if not service.coordinator.is_open(txn.txn_id):
                answered(None)
            elif txn.decided is not None:
                service.end(txn.txn_id, txn.decided, answered)
            elif not txn.is_ending:  # by its client, meanwhile
                self._broker.counters.transactions_timed_out += 1
                logger.info("transaction %s is aborted: its time is over", txn.txn_id)
                service.end(txn.txn_id, ABORT, answered)


def _answer(txn: Transaction, waiting: Sequence[Done], error: MilepostError | None) -> None:
    if error is not None:  # it is tried again when its time is over
        logger.warning("transaction %s cannot be ended: %s", txn.txn_id, error)
    for done in waiting:
        done(error)
