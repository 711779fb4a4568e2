"""Sends acks: those of one turn of the loop in few commands.

A round is an `AckGroup` and the receipt that everyone in it waits for. While two rounds are unanswered the
next one goes on gathering: the broker commits acks in groups too, so nothing would be gained by more. A
round that the connection took with it is sent again on the next one, before any new permits, so that
what was acked is not delivered again. A seek makes rounds of older epochs void: their receipts are
given, for there is nothing left to wait for (PIP-194).

    sender.gather().add(entry)
    await sender.receipt()                      # on disk

Without receipts a round is sent within a tenth of a second, and no caller waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from milepost.client.connection.connection import Connection
from milepost.client.messages.acks import IDS_MAX, AckGroup
from milepost.client.messages.message import DeliveredEntry
from milepost.errors import ConnectError, MilepostError, Timeout
from milepost.positions import MessageId, TxnId, unsigned64
from milepost.wire import pulsar_pb2 as pb

ROUNDS_UNANSWERED_MAX: Final = 2
UNANSWERED_DELAY_S: Final = 0.1


class _Round:
    __slots__ = ("commands_left", "failure", "group", "receipt", "timer", "token")

    def __init__(self, epoch: int, receipt: asyncio.Future[None]) -> None:
        self.group = AckGroup(epoch)
        self.receipt = receipt
        # Commands of it that are not answered yet.
        self.commands_left = 0
        self.failure: MilepostError | None = None
        # Changes with every sending: an answer to an earlier one is none.
        self.token: object = None
        self.timer: asyncio.TimerHandle | None = None

    def settle(self, error: MilepostError | None = None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.receipt.done():
            return
        if error is None:
            self.receipt.set_result(None)
        else:
            self.receipt.set_exception(error)
            self.receipt.exception()  # seen: a caller that acks without waiting does not ask


class AckSender:
    def __init__(
        self,
        consumer_id: int,
        *,
        has_receipts: bool,
        timeout_s: float,
        settled: Callable[[DeliveredEntry], None],
    ) -> None:
        """`settled`: told of each entry whose acks the broker has answered. What was acked may have
        been on its way here a second time; the broker has sent that before it answered, so it is here
        by now, and no consumer is to get it any more."""
        self._settled = settled
        self._consumer_id = consumer_id
        self._has_receipts = has_receipts
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._epoch = 0
        # The round that gathers; None until a message is acked.
        self._open: _Round | None = None
        self._unanswered: list[_Round] = []
        self._flush_due: asyncio.Handle | None = None

    # -- gather --------------------------------------------------------------------------------------

    def gather(self) -> AckGroup:
        """The group that takes acks now; it is sent by itself soon."""
        if self._open is None:
            self._open = self._begin()
            self._flush_soon()
        return self._open.group

    def _begin(self) -> _Round:
        round_ = _Round(self._epoch, self._loop.create_future())
        if self._has_receipts:
            round_.timer = self._loop.call_later(self._timeout_s, self._overdue, round_)
        return round_

    def send_apart(self, ids: Iterable[MessageId]) -> asyncio.Future[None]:
        """Ack ids that came from elsewhere, in a round of their own: the broker may refuse one, and
        no other caller is to pay for it. `InvalidMessageId` if one cannot be acked alone."""
        round_ = self._begin()
        try:
            for message_id in ids:
                round_.group.add_id(message_id)
        except BaseException:
            round_.settle()
            raise
        if self._connection is None:
            self._unanswered.append(round_)  # sent with those that got no answer
        else:
            self._send(round_, self._connection)
        return round_.receipt

    def receipt(self) -> asyncio.Future[None]:
        """Done when what was gathered last is on disk. Several may wait for it: shield it."""
        if self._open is not None and self._has_receipts:
            return self._open.receipt
        done: asyncio.Future[None] = self._loop.create_future()
        done.set_result(None)
        return done

    def _flush_soon(self) -> None:
        if self._flush_due is not None or self._connection is None:
            return
        if self._has_receipts:
            self._flush_due = self._loop.call_soon(self._flush_if_allowed)
        else:
            self._flush_due = self._loop.call_later(UNANSWERED_DELAY_S, self.flush)

    def enough(self) -> None:
        """To be called after gathering: a full group does not wait for its time."""
        if not self._has_receipts and self._open is not None and len(self._open.group) >= IDS_MAX:
            self.flush()

    # -- send ----------------------------------------------------------------------------------------

    def _flush_if_allowed(self) -> None:
        self._flush_due = None
        if len(self._unanswered) < ROUNDS_UNANSWERED_MAX:
            self.flush()

    def flush(self) -> None:
        """Send what is gathered now."""
        if self._flush_due is not None:
            self._flush_due.cancel()
            self._flush_due = None
        if self._connection is None or self._open is None:
            return
        round_, self._open = self._open, None
        self._send(round_, self._connection)

    def _send(self, round_: _Round, connection: Connection) -> None:
        commands = self._commands(round_.group)
        if not self._has_receipts:
            for command in commands:
                connection.send(command)
            round_.settle()
            return
        token = round_.token = object()
        round_.commands_left = len(commands)
        round_.failure = None
        if not commands:
            round_.settle()
            return
        self._unanswered.append(round_)
        for command in commands:
            connection.ask(command).add_done_callback(
                lambda answer: self._answered(round_, token, answer)
            )

    def ask_in(
        self, txn_id: TxnId, group: AckGroup, connection: Connection
    ) -> list[asyncio.Future[Any]]:
        """Send acks of a transaction, at once and always to be answered. They are not sent again on
        another connection: a broker takes the second one for a conflict."""
        commands = self._commands(group)
        for command in commands:
            command.txnid_least_bits = unsigned64(txn_id.least)
            command.txnid_most_bits = unsigned64(txn_id.most)
        return [connection.ask(command) for command in commands]

    def _commands(self, group: AckGroup) -> list[pb.CommandAck]:
        commands = [
            pb.CommandAck(
                consumer_id=self._consumer_id, ack_type=pb.CommandAck.Individual, message_id=ids
            )
            for ids in group.individual()
        ]
        if group.cumulative is not None:
            commands.append(
                pb.CommandAck(
                    consumer_id=self._consumer_id,
                    ack_type=pb.CommandAck.Cumulative,
                    message_id=[group.cumulative],
                )
            )
        return commands

    # -- answers -------------------------------------------------------------------------------------

    def _answered(self, round_: _Round, token: object, answer: asyncio.Future[Any]) -> None:
        failure = None if answer.cancelled() else answer.exception()
        if round_.token is not token or isinstance(failure, ConnectError):
            return  # it is sent again, or was settled meanwhile
        assert failure is None or isinstance(failure, MilepostError), failure
        round_.failure = round_.failure or failure
        round_.commands_left -= 1
        if round_.commands_left:
            return
        self._unanswered.remove(round_)
        if round_.failure is None:
            for entry in round_.group.entries:
                self._settled(entry)
        round_.settle(round_.failure)
        if self._open is not None:
            self._flush_soon()

    def _overdue(self, round_: _Round) -> None:
        round_.token = None
        if round_ is self._open:
            self._open = None
        elif round_ in self._unanswered:
            self._unanswered.remove(round_)
        round_.settle(Timeout(f"no answer to an ack in {self._timeout_s:g} s"))

    # -- connections come and go ---------------------------------------------------------------------

    def attached(self, connection: Connection) -> None:
        """Subscribed (again): send first what got no answer."""
        self._connection = connection
        again, self._unanswered = self._unanswered, []
        for round_ in again:
            self._send(round_, connection)
        self.flush()

    def detached(self) -> None:
        self._connection = None
        for round_ in self._unanswered:
            round_.token = None

    def begin_epoch(self, epoch: int) -> None:
        """A seek: what was acked before it means nothing any more."""
        self._epoch = epoch
        if self._open is not None:
            self._open.settle()
            self._open = None
        for round_ in self._unanswered:
            round_.token = None
            round_.settle()
        self._unanswered.clear()

    def close(self, error: MilepostError | None = None) -> None:
        """Nothing more will be sent or answered."""
        if self._flush_due is not None:
            self._flush_due.cancel()
            self._flush_due = None
        self._connection = None
        left, self._unanswered = self._unanswered, []
        if self._open is not None:
            left.append(self._open)
            self._open = None
        for round_ in left:
            round_.token = None
            round_.settle(error)

    async def drain(self) -> None:
        """Send everything and wait for all receipts, whatever they say."""
        self.flush()
        waiting = [round_.receipt for round_ in self._unanswered]
        if waiting:
            await asyncio.wait(waiting)
