"""Transactions from end to end: who gets what before the end, after a commit and after an abort.

The same against an Apache Pulsar with `transactionCoordinatorEnabled` (`PULSAR_TEST_URL`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import milepost
from milepost.aio import Client, Transaction, TransactionState
from milepost.client.policies import ConsumerType, InitialPosition
from milepost.client.transactions.coordinators import ASSIGN_TOPIC
from milepost.errors import (
    InvalidInput,
    InvalidTransactionStatus,
    Timeout,
    TransactionConflict,
    TransactionHasOperationFailed,
    TransactionNotFound,
    TransactionTimedOut,
)
from milepost.positions import TxnId

Connect = Callable[..., Client]


@pytest.fixture(autouse=True)
def coordinator(service: str, is_milepost: bool) -> None:
    if is_milepost:
        return
    with milepost.Client(service) as client:
        if not client.get_topic_partitions(ASSIGN_TOPIC)[0].endswith("-partition-0"):
            pytest.skip("the broker has no transaction coordinator")


# Nothing comes within this time: long for a broker that has it, short for a test.
SILENCE_MS = 300


async def received(consumer: Any, count: int) -> list[bytes]:
    return [(await consumer.receive(10_000)).data() for _ in range(count)]


async def gets_nothing(consumer: Any) -> bool:
    with pytest.raises(Timeout):
        await consumer.receive(SILENCE_MS)
    return True


async def shared(client: Client, topic: str, **options: Any) -> Any:
    return await client.subscribe(
        topic,
        "s",
        consumer_type=ConsumerType.Shared,
        initial_position=InitialPosition.Earliest,
        **options,
    )


# -- messages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("batching", [False, True])
async def test_messages_come_with_the_commit_and_in_order(
    connect: Connect, topic: str, batching: bool
) -> None:
    async with connect() as client:
        producer = await client.create_producer(topic, batching_enabled=batching)
        consumer = await shared(client, topic)
        await producer.send(b"before")
        assert await received(consumer, 1) == [b"before"]
        async with client.transaction(timeout=60) as txn:
            sent = [producer.send_nowait(b"%d" % number, txn=txn) for number in range(5)]
            for one in sent:
                await one
            await producer.send(b"behind")
            assert await gets_nothing(consumer)
            assert txn.state is TransactionState.OPEN
        assert txn.state is TransactionState.COMMITTED
        assert await received(consumer, 6) == [b"0", b"1", b"2", b"3", b"4", b"behind"]


async def test_aborted_messages_never_come(connect: Connect, topic: str) -> None:
    async with connect() as client:
        producer = await client.create_producer(topic, batching_enabled=False)
        consumer = await shared(client, topic)
        opened: list[Transaction] = []

        async def fail() -> None:
            async with client.transaction() as txn:
                opened.append(txn)
                await producer.send(b"aborted", txn=txn)
                await producer.send(b"behind")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert opened[0].state is TransactionState.ABORTED
        assert await received(consumer, 1) == [b"behind"]
        reader = await client.create_reader(topic, milepost.MessageId.earliest)
        assert (await reader.read_next(10_000)).data() == b"behind"
        assert not await reader.has_message_available()


async def test_two_topics_are_committed_together(
    connect: Connect, topic: str, partition: Callable[[str, int], None]
) -> None:
    parted = f"{topic}-parted"
    partition(parted, 3)
    async with connect() as client:
        plain = await client.create_producer(topic, batching_enabled=False)
        spread = await client.create_producer(parted, batching_enabled=False)
        consumer = await shared(client, [topic, parted])
        async with client.transaction() as txn:
            await plain.send(b"plain", txn=txn)
            for number in range(6):
                await spread.send(b"%d" % number, txn=txn)
            assert await gets_nothing(consumer)
        assert sorted(await received(consumer, 7)) == [b"0", b"1", b"2", b"3", b"4", b"5", b"plain"]


async def test_batches_do_not_mix_transactions(connect: Connect, topic: str) -> None:
    """A batch is one entry, and an entry belongs to one transaction or to none."""
    async with connect() as client:
        producer = await client.create_producer(
            topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
        )
        consumer = await shared(client, topic)
        first, second = await client.transaction(), await client.transaction()
        for number in range(9):
            txn = (None, first, second)[number % 3]
            producer.send_nowait(b"%d" % number, txn=txn)
        await second.abort()  # sends what is gathered
        await producer.flush()
        await first.commit()
        # Apache Pulsar stores the first messages of a transaction behind others that came later.
        assert sorted(await received(consumer, 6)) == [b"0", b"1", b"3", b"4", b"6", b"7"]
        assert await gets_nothing(consumer)


async def test_a_chunked_message(connect: Connect, topic: str) -> None:
    async with connect() as client:
        producer = await client.create_producer(
            topic, batching_enabled=False, chunking_enabled=True, chunk_max_size=1000
        )
        consumer = await shared(client, topic)
        large = bytes(range(256)) * 20
        txn = await client.transaction()
        await producer.send(large[::-1], txn=txn)
        await txn.abort()
        async with client.transaction() as txn:
            await producer.send(large, txn=txn)
        message = await consumer.receive(10_000)
        assert message.data() == large
        async with client.transaction() as txn:
            await consumer.acknowledge(message, txn=txn)
        consumer.redeliver_unacknowledged_messages()
        assert await gets_nothing(consumer)


async def test_ids_count_up(connect: Connect) -> None:
    async with connect() as client:
        opened = [await client.transaction() for _ in range(3)]
        ids = [txn.id for txn in opened]
        assert all(isinstance(one, TxnId) for one in ids)
        assert len(set(ids)) == 3
        for txn in opened:
            assert str(txn.id) in repr(txn)
            await txn.abort()


# -- acks --------------------------------------------------------------------------------------------


async def published(client: Client, topic: str, count: int, **options: Any) -> None:
    async with await client.create_producer(topic, **options) as producer:
        for one in [producer.send_nowait(b"%d" % number) for number in range(count)]:
            await one


@pytest.mark.parametrize("receipts", [True, False])
async def test_acks_count_with_the_commit(connect: Connect, topic: str, receipts: bool) -> None:
    """Of a consumer whose other acks are not answered, those in a transaction are."""
    async with connect() as client:
        consumer = await shared(client, topic, ack_receipt_enabled=receipts)
        await published(client, topic, 3, batching_enabled=False)
        messages = [await consumer.receive(10_000) for _ in range(3)]
        async with client.transaction() as txn:
            await consumer.acknowledge(messages[0], txn=txn)
            await consumer.acknowledge([messages[1], messages[2].message_id()], txn=txn)
        await consumer.close()
        consumer = await shared(client, topic)
        assert await gets_nothing(consumer)


async def test_aborted_acks_come_again(connect: Connect, topic: str) -> None:
    async with connect() as client:
        consumer = await shared(client, topic)
        await published(client, topic, 2, batching_enabled=False)
        messages = [await consumer.receive(10_000) for _ in range(2)]
        txn = await client.transaction()
        await consumer.acknowledge(messages, txn=txn)
        await txn.abort()
        again = [await consumer.receive(10_000) for _ in range(2)]
        assert sorted(one.data() for one in again) == [b"0", b"1"]
        # Either copy may be acked now.
        await consumer.acknowledge(messages[0])
        async with client.transaction() as txn:
            await consumer.acknowledge(messages[1], txn=txn)
        await consumer.close()
        assert await gets_nothing(await shared(client, topic))


async def test_one_message_in_two_transactions(connect: Connect, topic: str) -> None:
    async with connect() as client:
        consumer = await shared(client, topic)
        await published(client, topic, 1, batching_enabled=False)
        message = await consumer.receive(10_000)
        first, second = await client.transaction(), await client.transaction()
        await consumer.acknowledge(message, txn=first)
        with pytest.raises(TransactionConflict):
            await consumer.acknowledge(message, txn=second)
        # Half of it is not committed, though its caller saw the failure.
        with pytest.raises(TransactionHasOperationFailed) as caught:
            await second.commit()
        assert isinstance(caught.value.__cause__, TransactionConflict)
        assert second.state is TransactionState.ABORTED
        await first.commit()
        third = await client.transaction()
        with pytest.raises(TransactionConflict):
            await consumer.acknowledge(message, txn=third)
        await third.abort()


async def test_messages_of_one_batch_in_two_transactions(connect: Connect, topic: str) -> None:
    async with connect() as client:
        consumer = await shared(client, topic)
        await published(client, topic, 5, batching_enabled=True)
        messages = [await consumer.receive(10_000) for _ in range(5)]
        assert messages[4].message_id().batch_index == 4
        first, second = await client.transaction(), await client.transaction()
        await consumer.acknowledge(messages[:2], txn=first)
        await consumer.acknowledge(messages[2], txn=second)
        with pytest.raises(TransactionConflict):
            await consumer.acknowledge(messages[1].message_id(), txn=second)
        await second.abort()
        await first.commit()
        await consumer.close()
        consumer = await shared(client, topic)
        assert await received(consumer, 3) == [b"2", b"3", b"4"]
        assert await gets_nothing(consumer)


@pytest.mark.parametrize("batching", [False, True])
async def test_a_cumulative_ack(connect: Connect, topic: str, batching: bool) -> None:
    async with connect() as client:

        async def subscribed() -> Any:
            return await client.subscribe(topic, "s", initial_position=InitialPosition.Earliest)

        consumer = await subscribed()
        await published(client, topic, 6, batching_enabled=batching)
        messages = [await consumer.receive(10_000) for _ in range(6)]
        txn = await client.transaction()
        await consumer.acknowledge_cumulative(messages[3], txn=txn)
        second = await client.transaction()
        with pytest.raises(TransactionConflict):
            await consumer.acknowledge_cumulative(messages[4], txn=second)
        await second.abort()
        await txn.abort()
        consumer.redeliver_unacknowledged_messages()
        messages = [await consumer.receive(10_000) for _ in range(6)]
        assert [one.data() for one in messages] == [b"%d" % number for number in range(6)]
        async with client.transaction() as txn:
            await consumer.acknowledge_cumulative(messages[3].message_id(), txn=txn)
        await consumer.close()
        consumer = await subscribed()
        assert await received(consumer, 2) == [b"4", b"5"]


async def test_consume_and_produce_as_one_step(connect: Connect, topic: str) -> None:
    """What transactions are for: read, compute, write and acknowledge, once each."""
    async with connect() as client:
        source = await shared(client, topic)
        result = await shared(client, f"{topic}-out")
        await published(client, topic, 10, batching_enabled=True)
        producer = await client.create_producer(f"{topic}-out", batching_enabled=True)
        failures = {2, 5}
        done = 0
        while done < 10:
            message = await source.receive(10_000)
            try:
                async with client.transaction() as txn:
                    await producer.send(message.data() + b"!", txn=txn)
                    await source.acknowledge(message, txn=txn)
                    if int(message.data()) in failures:
                        failures.remove(int(message.data()))
                        raise ZeroDivisionError
            except ZeroDivisionError:
                continue
            done += 1
        assert sorted(await received(result, 10)) == [b"%d!" % number for number in range(10)]
        assert await gets_nothing(result)
        await source.close()
        assert await gets_nothing(await shared(client, topic))


# -- ends --------------------------------------------------------------------------------------------


async def test_a_transaction_that_has_ended_takes_nothing_more(
    connect: Connect, topic: str
) -> None:
    async with connect() as client:
        producer = await client.create_producer(topic, batching_enabled=False)
        consumer = await shared(client, topic)
        await producer.send(b"0")
        message = await consumer.receive(10_000)
        committed, aborted = await client.transaction(), await client.transaction()
        await committed.commit()
        await committed.commit()  # changes nothing
        await aborted.abort()
        await aborted.abort()
        with pytest.raises(InvalidTransactionStatus, match="is COMMITTED, not OPEN"):
            await committed.abort()
        with pytest.raises(InvalidTransactionStatus, match="is ABORTED, not OPEN"):
            await aborted.commit()
        with pytest.raises(InvalidTransactionStatus):
            await producer.send(b"1", txn=committed)
        with pytest.raises(InvalidTransactionStatus):
            await consumer.acknowledge(message, txn=aborted)


async def test_a_transaction_ended_inside_its_block(connect: Connect, topic: str) -> None:
    async with connect() as client:
        producer = await client.create_producer(topic, batching_enabled=False)
        consumer = await shared(client, topic)
        async with client.transaction() as txn:
            await producer.send(b"0", txn=txn)
            await txn.abort()
        assert txn.state is TransactionState.ABORTED
        async with client.transaction() as txn:
            await producer.send(b"1", txn=txn)
            await txn.commit()
        assert await received(consumer, 1) == [b"1"]


async def test_time_is_up(connect: Connect, topic: str) -> None:
    async with connect() as client:
        producer = await client.create_producer(topic, batching_enabled=False)
        consumer = await shared(client, topic)
        await producer.send(b"acked")
        acked = await consumer.receive(10_000)
        txn = await client.transaction(timeout=0.5)
        await producer.send(b"late", txn=txn)
        await consumer.acknowledge(acked, txn=txn)
        await producer.send(b"behind")
        # The broker ends it by itself.
        assert sorted(await received(consumer, 2)) == [b"acked", b"behind"]
        while txn.state is TransactionState.OPEN:
            await asyncio.sleep(0.01)  # sleep: the client's clock, which began a moment later
        assert txn.state is TransactionState.TIME_OUT
        with pytest.raises(TransactionTimedOut):
            await producer.send(b"later", txn=txn)
        with pytest.raises(TransactionTimedOut):
            await txn.commit()


async def test_leaving_the_block_too_late_is_an_error(connect: Connect, topic: str) -> None:
    async with connect() as client:
        producer = await client.create_producer(topic, batching_enabled=False)

        async def dawdle() -> None:
            async with client.transaction(timeout=0.5) as txn:
                await producer.send(b"late", txn=txn)
                while txn.state is TransactionState.OPEN:
                    await asyncio.sleep(0.01)  # sleep: until its time is up

        with pytest.raises(TransactionTimedOut):
            await dawdle()


async def test_closing_the_client_aborts(connect: Connect, topic: str) -> None:
    async with connect() as client:
        consumer = await shared(client, topic)
        async with connect() as other:
            producer = await other.create_producer(topic, batching_enabled=False)
            txn = await other.transaction(timeout=600)
            await producer.send(b"forgotten", txn=txn)
            await producer.send(b"behind")
        assert txn.state is TransactionState.ABORTED
        assert await received(consumer, 1) == [b"behind"]


# -- bad input ---------------------------------------------------------------------------------------


async def test_what_is_no_transaction_of_this_client(connect: Connect, topic: str) -> None:
    async with connect() as client, connect() as other:
        producer = await client.create_producer(topic, batching_enabled=False)
        consumer = await shared(client, topic)
        await producer.send(b"0")
        message = await consumer.receive(10_000)
        async with other.transaction() as txn:
            with pytest.raises(InvalidInput, match="of another client"):
                await producer.send(b"1", txn=txn)
            with pytest.raises(InvalidInput, match="of another client"):
                await consumer.acknowledge(message, txn=txn)
        with pytest.raises(InvalidInput, match="txn is a str"):
            await producer.send(b"1", txn="txn")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="txn is a int"):
            await consumer.acknowledge(message, txn=7)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "60", None])
async def test_a_timeout_that_is_none(connect: Connect, timeout: Any) -> None:
    async with connect() as client:
        with pytest.raises(InvalidInput):
            client.transaction(timeout)


async def test_an_unknown_transaction(connect: Connect, topic: str) -> None:
    """Of a broker that has forgotten it: told so, and nothing is sent to the topic."""
    async with connect() as client:
        producer = await client.create_producer(topic, batching_enabled=False)
        txn = await client.transaction()
        await txn.abort()
        forged = await client.transaction()
        forged._id = TxnId(txn.id.most, txn.id.least + 1_000_000)
        with pytest.raises(TransactionNotFound):
            await producer.send(b"1", txn=forged)
        with pytest.raises((TransactionNotFound, TransactionHasOperationFailed)):
            await forged.commit()
        assert forged.state is TransactionState.ERROR


# -- the synchronous client --------------------------------------------------------------------------


def test_the_synchronous_client(service: str, topic: str) -> None:
    with milepost.Client(service) as client:
        producer = client.create_producer(topic)
        consumer = client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        results: list[milepost.Result] = []
        with client.transaction(timeout=60) as txn:
            producer.send(b"0", txn=txn)
            producer.send_async(b"1", lambda result, _: results.append(result), txn=txn)
            assert txn.state is milepost.TransactionState.OPEN
            assert isinstance(txn.id, TxnId)
        assert results == [milepost.Result.Ok]
        messages = [consumer.receive(10_000) for _ in range(2)]
        assert [message.data() for message in messages] == [b"0", b"1"]
        opened: list[milepost.Transaction] = []

        def fail() -> None:
            with client.transaction() as txn:
                opened.append(txn)
                consumer.acknowledge(messages[0], txn=txn)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert opened[0].state is milepost.TransactionState.ABORTED
        assert consumer.receive(10_000).data() == b"0"
        txn = client.transaction()
        for message in messages:
            consumer.acknowledge(message, txn=txn)
        txn.commit()
        with pytest.raises(milepost.InvalidTransactionStatus):
            txn.abort()
