"""What the client says in a transaction, in which order, and what becomes of it when an answer is lost."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from client.stub import Stub, scripted
from milepost.aio import TransactionState
from milepost.errors import (
    MilepostError,
    OutcomeUnknown,
    PersistenceError,
    Timeout,
    TransactionCoordinatorNotFound,
    TransactionHasOperationFailed,
    TransactionNotFound,
)
from milepost.positions import TxnId
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.events import (
    Ack,
    AddSubscriptions,
    AddTopics,
    Command,
    EndTransaction,
    NewTransaction,
    Sends,
    TransactionRequest,
)
from milepost.wire.scanners.encode import ack_response, send_receipt

NAMES = {
    NewTransaction: "NewTxn",
    AddTopics: "AddPartitionToTxn",
    AddSubscriptions: "AddSubscriptionToTxn",
    EndTransaction: "EndTxn",
}
NAMED = {
    AddTopics: replies.partitions_added,
    AddSubscriptions: replies.subscriptions_added,
    EndTransaction: replies.transaction_ended,
}


class Coordinating(Stub):
    """One broker with coordinators: it writes down what it hears of transactions, and obeys."""

    def __init__(self, shared: Any = None) -> None:
        super().__init__(shared)
        self.heard: list[str] = shared.heard if shared else []
        self.coordinators = 3
        # Requests (by their names) that are obeyed, and the connection dies before the answer.
        self.lost: list[str] = []
        # Requests that are not answered at all until the event is set.
        self.slow: dict[str, asyncio.Event] = {}
        # Why requests are refused.
        self.refused: dict[str, MilepostError] = {}
        self.waiting: list[asyncio.Future[None]] = []
        self.remembers_ends = True
        self.ended: set[int] = set()

    def data_received(self, data: bytes) -> None:
        for event in self.events(data):
            if isinstance(event, Command):
                self.answer(event.message)
            elif isinstance(event, Sends):
                for send in event.sends:
                    self.heard.append(f"SEND {send.sequence_id} in {send.traits.transaction}")
                    self.protocol.write(
                        send_receipt(event.producer_id, send.sequence_id, 1, send.sequence_id)
                    )
            elif isinstance(event, Ack):
                self.heard.append(
                    f"ACK {[one.entry_id for one in event.ids]} in {event.transaction}"
                )
                assert event.request_id is not None
                self.settle("ACK", ack_response(event.consumer_id, event.request_id))
            elif isinstance(event, TransactionRequest):
                self.transact(event)
        self.flush()

    def answer(self, message: Any) -> None:
        if isinstance(message, pb.CommandPartitionedTopicMetadata) and (
            "transaction_coordinator_assign" in message.topic
        ):
            self.protocol.write(replies.partitions(message.request_id, self.shared.coordinators))
        else:
            super().answer(message)

    def answer_more(self, message: Any) -> None:
        assert isinstance(message, pb.CommandTcClientConnectRequest), message
        name = "TcClientConnectRequest"
        self.heard.append(f"{name} {message.tc_id}")
        if error := self.shared.refused.get(name):
            self.refuse(Command(0, message), error)
        else:
            self.settle(name, replies.coordinator_connected(message.request_id))

    def transact(self, asked: TransactionRequest) -> None:
        name = NAMES[type(asked)]
        if isinstance(asked, NewTransaction):
            self.heard.append(f"{name} {asked.coordinator}")
        elif isinstance(asked, EndTransaction):
            assert asked.action is not None
            action = pb.TxnAction.Name(cast("pb.TxnAction", asked.action))
            self.heard.append(f"{name} {asked.txn_id.least} {action}")
        else:
            self.heard.append(f"{name} {asked.txn_id.least}")
        if error := self.shared.refused.get(name):
            self.refuse(asked, error)
        elif isinstance(asked, NewTransaction):
            txn_id = TxnId(asked.coordinator, len(self.heard))
            self.settle(name, replies.new_transaction(asked.request_id, txn_id))
        else:
            txn_id = asked.txn_id
            if isinstance(asked, EndTransaction):
                if txn_id.least in self.shared.ended and not self.shared.remembers_ends:
                    self.refuse(asked, TransactionNotFound(f"no {txn_id}"))
                    return
                self.shared.ended.add(txn_id.least)
            self.settle(name, NAMED[type(asked)](asked.request_id, txn_id))

    def refuse(self, asked: Command | TransactionRequest, error: MilepostError) -> None:
        refusal = replies.refusal(asked, error.wire_code, str(error))
        assert refusal is not None
        self.protocol.write(refusal)

    def settle(self, name: str, answer: bytes) -> None:
        if name in self.shared.lost:
            self.shared.lost.remove(name)
            self.transport.abort()
        elif name in self.shared.slow:
            later = asyncio.ensure_future(self.later(self.shared.slow[name], answer))
            self.shared.waiting.append(later)
        else:
            self.protocol.write(answer)

    async def later(self, event: asyncio.Event, answer: bytes) -> None:
        await event.wait()
        self.protocol.write(answer)
        self.flush()

    def of(self, name: str) -> list[str]:
        return [one for one in self.heard if one.startswith(name)]


async def test_a_topic_is_added_once_and_before_its_first_message() -> None:
    async with scripted(Coordinating) as (client, stub):
        producer = await client.create_producer("t", batching_enabled=False)
        async with client.transaction() as txn:
            for one in [producer.send_nowait(b"x", txn=txn) for _ in range(3)]:
                await one
        inside = f"in {txn.id}"
        assert stub.heard[stub.heard.index("NewTxn 0") + 1 :] == [
            f"AddPartitionToTxn {txn.id.least}",
            f"SEND 0 {inside}",
            f"SEND 1 {inside}",
            f"SEND 2 {inside}",
            f"EndTxn {txn.id.least} COMMIT",
        ]


async def test_what_waits_for_its_transaction_keeps_its_place() -> None:
    """A message outside of it that was sent later does not overtake it."""
    async with scripted(Coordinating) as (client, stub):
        stub.slow["AddPartitionToTxn"] = asyncio.Event()
        producer = await client.create_producer("t", batching_enabled=False)
        txn = await client.transaction()
        sent = [producer.send_nowait(b"x", txn=txn), producer.send_nowait(b"y")]
        while not stub.of("AddPartitionToTxn"):
            await asyncio.sleep(0.001)  # sleep: until the stub has heard it
        assert stub.of("SEND") == []
        stub.slow["AddPartitionToTxn"].set()
        for one in sent:
            await one
        assert stub.of("SEND") == [f"SEND 0 in {txn.id}", "SEND 1 in None"]
        await txn.commit()


async def test_a_topic_that_is_refused_fails_its_messages_alone() -> None:
    async with scripted(Coordinating) as (client, stub):
        stub.refused["AddPartitionToTxn"] = TransactionNotFound("no such")
        producer = await client.create_producer("t", batching_enabled=False)
        txn = await client.transaction()
        inside, outside = producer.send_nowait(b"x", txn=txn), producer.send_nowait(b"y")
        with pytest.raises(TransactionNotFound, match="no such"):
            await inside
        await outside
        assert stub.of("SEND") == ["SEND 1 in None"]
        with pytest.raises(TransactionHasOperationFailed, match="no such"):
            await txn.commit()
        assert stub.of("EndTxn") == [f"EndTxn {txn.id.least} ABORT"]


async def test_the_end_waits_for_messages_and_acks() -> None:
    async with scripted(Coordinating) as (client, stub):
        stub.slow["ACK"] = asyncio.Event()
        consumer = await client.subscribe("t", "s")
        producer = await client.create_producer(
            "t", batching_enabled=True, batching_max_publish_delay_ms=60_000
        )
        stub.deliver(7, b"m", epoch=0)
        message = await consumer.receive(10_000)
        txn = await client.transaction()
        sent = producer.send_nowait(b"x", txn=txn)
        acked = consumer.acknowledge_nowait(message, txn=txn)
        ending = asyncio.ensure_future(txn.commit())
        # The commit sends the batch, whose time has not come.
        await sent
        while not stub.of("ACK"):
            await asyncio.sleep(0.001)  # sleep: until the stub has heard it
        assert txn.state is TransactionState.COMMITTING
        assert not stub.of("EndTxn")
        stub.slow["ACK"].set()
        await acked
        await ending
        assert stub.heard[-1] == f"EndTxn {txn.id.least} COMMIT"
        assert stub.of("ACK") == [f"ACK [7] in {txn.id}"]


@pytest.mark.parametrize("action", ["commit", "abort"])
async def test_an_end_whose_answer_was_lost_is_said_again(action: str) -> None:
    async with scripted(Coordinating) as (client, stub):
        txn = await client.transaction()
        stub.lost.append("EndTxn")
        await getattr(txn, action)()
        said = f"EndTxn {txn.id.least} {action.upper()}"
        assert stub.of("EndTxn") == [said, said]
        assert txn.state.value == {"commit": "COMMITTED", "abort": "ABORTED"}[action]
        # It introduced itself to the coordinator again.
        assert len(stub.of("TcClientConnectRequest")) == 2


async def test_an_end_that_was_lost_and_forgotten_is_unknown() -> None:
    """Apache Pulsar forgets a transaction with its end: the second time there is no telling."""
    async with scripted(Coordinating) as (client, stub):
        stub.remembers_ends = False
        txn = await client.transaction()
        stub.lost.append("EndTxn")
        with pytest.raises(OutcomeUnknown, match="the answer was lost"):
            await txn.commit()
        assert txn.state is TransactionState.ERROR


async def test_an_ack_whose_answer_was_lost_fails_the_transaction() -> None:
    """Said twice it would be a conflict with itself; nothing of it is committed."""
    async with scripted(Coordinating) as (client, stub):
        consumer = await client.subscribe("t", "s")
        stub.deliver(7, b"m", epoch=0)
        message = await consumer.receive(10_000)
        txn = await client.transaction()
        stub.lost.append("ACK")
        acked = consumer.acknowledge_nowait(message, txn=txn)
        with pytest.raises(TransactionHasOperationFailed):
            await txn.commit()
        assert isinstance(acked.exception(), MilepostError)
        assert len(stub.of("ACK")) == 1
        assert txn.state is TransactionState.ABORTED


@pytest.mark.parametrize("is_told_before", [False, True])
async def test_an_ack_says_why_its_subscription_was_not_added(is_told_before: bool) -> None:
    async with scripted(Coordinating, operation_timeout_seconds=1) as (client, stub):
        stub.refused["AddSubscriptionToTxn"] = PersistenceError("the disk is full")
        consumer = await client.subscribe("t", "s")
        stub.deliver(7, b"m", epoch=0)
        message = await consumer.receive(10_000)
        txn = await client.transaction()
        if is_told_before:
            with pytest.raises(Timeout):
                await txn.add_subscription(consumer.topic(), "s")
        with pytest.raises(Timeout, match="coordinator 0 did not answer in 1 s: the disk is full"):
            await consumer.acknowledge(message, txn=txn)
        assert not stub.of("ACK")
        with pytest.raises(TransactionHasOperationFailed, match="the disk is full"):
            await txn.commit()


async def test_an_ack_without_an_answer() -> None:
    async with scripted(Coordinating, operation_timeout_seconds=1) as (client, stub):
        stub.slow["ACK"] = asyncio.Event()
        consumer = await client.subscribe("t", "s")
        stub.deliver(7, b"m", epoch=0)
        message = await consumer.receive(10_000)
        txn = await client.transaction()
        with pytest.raises(Timeout, match="t: no answer to an ack in 1 s"):
            await consumer.acknowledge(message, txn=txn)
        stub.slow["ACK"].set()
        await txn.abort()


async def test_a_message_whose_receipt_was_lost_is_sent_again_in_its_transaction() -> None:
    async with scripted(Coordinating) as (client, stub):
        producer = await client.create_producer("t", batching_enabled=False)
        txn = await client.transaction()
        await producer.send(b"x", txn=txn)
        stub.hang_up()
        await producer.send(b"y", txn=txn)
        await txn.commit()
        assert stub.of("SEND")[-1] == f"SEND 1 in {txn.id}"
        assert len(stub.of("AddPartitionToTxn")) == 1


async def test_coordinators_take_turns_and_are_greeted_once() -> None:
    async with scripted(Coordinating) as (client, stub):
        ids = [(await client.transaction()).id for _ in range(6)]
        assert [one.most for one in ids] == [0, 1, 2, 0, 1, 2]
        assert stub.of("TcClientConnectRequest") == [
            "TcClientConnectRequest 0",
            "TcClientConnectRequest 1",
            "TcClientConnectRequest 2",
        ]


async def test_many_at_once_greet_a_coordinator_once() -> None:
    async with scripted(Coordinating) as (client, stub):
        stub.coordinators = 1
        opened = await asyncio.gather(*(client.transaction_of(60) for _ in range(20)))
        assert len({txn.id for txn in opened}) == 20
        assert len(stub.of("TcClientConnectRequest")) == 1
        await asyncio.gather(*(txn.commit() for txn in opened))


async def test_a_broker_without_coordinators() -> None:
    async with scripted(Coordinating) as (client, stub):
        stub.coordinators = 0
        with pytest.raises(TransactionCoordinatorNotFound, match="transactionCoordinatorEnabled"):
            await client.transaction()
        # It may be switched on later.
        stub.coordinators = 1
        assert (await client.transaction()).id.most == 0


async def test_a_coordinator_that_moves_is_asked_again() -> None:
    async with scripted(Coordinating, operation_timeout_seconds=1) as (client, stub):
        txn = await client.transaction()
        stub.refused["EndTxn"] = TransactionCoordinatorNotFound("moved")
        ending = asyncio.ensure_future(txn.commit())
        while len(stub.of("EndTxn")) < 2:
            await asyncio.sleep(0.001)  # sleep: until the stub has heard it twice
        del stub.refused["EndTxn"]
        await ending
        assert txn.state is TransactionState.COMMITTED


async def test_an_end_without_an_answer_may_be_asked_for_again() -> None:
    async with scripted(Coordinating, operation_timeout_seconds=1) as (client, stub):
        txn = await client.transaction()
        stub.slow["EndTxn"] = asyncio.Event()
        with pytest.raises(Timeout, match="coordinator 0 did not answer in 1 s"):
            await txn.commit()
        assert txn.state is TransactionState.COMMITTING
        with pytest.raises(MilepostError, match="is COMMITTING"):
            await txn.abort()
        stub.slow["EndTxn"].set()
        await txn.commit()
        assert txn.state is TransactionState.COMMITTED


async def test_an_end_asked_for_again_and_forgotten_is_unknown() -> None:
    async with scripted(Coordinating, operation_timeout_seconds=1) as (client, stub):
        stub.remembers_ends = False
        txn = await client.transaction()
        stub.slow["EndTxn"] = asyncio.Event()
        with pytest.raises(Timeout):
            await txn.commit()
        del stub.slow["EndTxn"]
        with pytest.raises(OutcomeUnknown, match="the answer was lost"):
            await txn.commit()
        assert txn.state is TransactionState.ERROR


async def test_a_commit_whose_caller_is_cancelled_goes_on() -> None:
    async with scripted(Coordinating) as (client, stub):
        stub.slow["EndTxn"] = asyncio.Event()
        txn = await client.transaction()
        ending = asyncio.ensure_future(txn.commit())
        while not stub.of("EndTxn"):
            await asyncio.sleep(0.001)  # sleep: until the stub has heard it
        ending.cancel()
        stub.slow["EndTxn"].set()
        await txn.commit()
        assert txn.state is TransactionState.COMMITTED
        assert len(stub.of("EndTxn")) == 1


async def test_a_block_left_by_cancelling_aborts() -> None:
    async with scripted(Coordinating) as (client, stub):
        entered = asyncio.Event()
        ids: list[TxnId] = []

        async def work() -> None:
            async with client.transaction() as txn:
                ids.append(txn.id)
                entered.set()
                await asyncio.Event().wait()

        working = asyncio.ensure_future(work())
        await entered.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert stub.of("EndTxn") == [f"EndTxn {ids[0].least} ABORT"]
