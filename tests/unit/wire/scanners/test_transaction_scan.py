"""Commands of transactions read by hand, and those that are left to the library."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message

from milepost.positions import TxnId
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import encode_command
from milepost.wire.events import (
    AddSubscriptions,
    AddTopics,
    EndTransaction,
    NewTransaction,
    ServerEvent,
    TransactionRequest,
    TransactionSeries,
)
from milepost.wire.frames import command_frame
from milepost.wire.scanners.encode import transaction_response
from milepost.wire.scanners.transaction_scan import (
    SIZE_MAX,
    read_transaction,
    scan_transaction,
    scan_transactions,
)

LAST = 2**64 - 1  # -1 in an unsigned field
TXN = {"request_id": 300, "txnid_least_bits": 7, "txnid_most_bits": 0}


def scanned(command: Message) -> TransactionRequest | None:
    data = encode_command(command)
    return scan_transaction(b"<" + data + b">", 1, 1 + len(data))


@pytest.mark.parametrize(
    ("command", "event"),
    [
        (
            pb.CommandNewTxn(request_id=1, txn_ttl_millis=60_000, tc_id=0),
            NewTransaction(1, 60_000, 0),
        ),
        (
            pb.CommandNewTxn(request_id=LAST, txn_ttl_millis=LAST, tc_id=LAST),
            NewTransaction(-1, -1, -1),
        ),
        (pb.CommandAddPartitionToTxn(**TXN), AddTopics(300, TxnId(0, 7), ())),
        (
            pb.CommandAddPartitionToTxn(**TXN, partitions=["a", "ü" * 100]),
            AddTopics(300, TxnId(0, 7), ("a", "ü" * 100)),
        ),
        (
            pb.CommandAddSubscriptionToTxn(
                **TXN,
                subscription=[
                    pb.Subscription(topic="t" * 130, subscription="s"),
                    pb.Subscription(topic="u", subscription=""),
                ],
            ),
            AddSubscriptions(300, TxnId(0, 7), (("t" * 130, "s"), ("u", ""))),
        ),
        (
            pb.CommandEndTxn(**TXN, txn_action=pb.COMMIT),
            EndTransaction(300, TxnId(0, 7), pb.COMMIT),
        ),
        (
            pb.CommandEndTxn(**TXN | {"txnid_most_bits": LAST}, txn_action=pb.ABORT),
            EndTransaction(300, TxnId(-1, 7), pb.ABORT),
        ),
    ],
)
def test_usual_commands(command: Message, event: TransactionRequest) -> None:
    assert scanned(command) == event == read_transaction(command)


@pytest.mark.parametrize(
    ("command", "event"),
    [
        (pb.CommandNewTxn(request_id=1), NewTransaction(1, 0, 0)),
        (
            pb.CommandNewTxn(
                request_id=1,
                txn_ttl_millis=5,
                tc_id=0,
                series=pb.TxnSeries(name="n", run="r", step=0),
            ),
            NewTransaction(1, 5, 0, TransactionSeries("n", "r", 0)),
        ),
        (
            pb.CommandNewTxn(request_id=1, series=pb.TxnSeries(name="n", run="r")),
            NewTransaction(1, 0, 0, TransactionSeries("n", "r", None)),
        ),
        (pb.CommandAddPartitionToTxn(request_id=1), AddTopics(1, TxnId(0, 0), ())),
        (
            pb.CommandAddPartitionToTxn(**TXN, partitions=["t" * SIZE_MAX]),
            AddTopics(300, TxnId(0, 7), ("t" * SIZE_MAX,)),
        ),
        (pb.CommandEndTxn(**TXN), EndTransaction(300, TxnId(0, 7), None)),
        (
            pb.CommandEndTxn(**TXN, txn_action=pb.ABORT, also_txnid_least_bits=[8, LAST]),
            EndTransaction(300, TxnId(0, 7), pb.ABORT, (8, -1)),
        ),
    ],
)
def test_what_the_library_reads(command: Message, event: TransactionRequest) -> None:
    assert scanned(command) is None
    assert read_transaction(command) == event


@pytest.mark.parametrize(
    "fields",
    [
        "08011005180020 02",  # an end of the future
        "0801100518002000 2001",  # two ends
        "08011005180028 01",  # another field
        "100508011800 2000",  # another order
        "0801100518002080",  # it ends in a number
    ],
)
def test_unusual_ends_are_left_alone(fields: str) -> None:
    data = bytes.fromhex(fields)
    command = bytes.fromhex("0838c203") + bytes([len(data)]) + data
    assert scan_transaction(command, 0, len(command)) is None


def test_text_that_is_none_is_left_alone() -> None:
    data = bytes.fromhex("0834a203" + "0908011005180022" + "01ff")
    assert scan_transaction(data, 0, len(data)) is None
    usual = data[:-1] + b"t"
    assert scan_transaction(usual, 0, len(usual)) == AddTopics(1, TxnId(0, 5), ("t",))


def test_other_commands_are_none_of_its_business() -> None:
    assert scanned(pb.CommandFlow(consumer_id=1, messagePermits=1)) is None
    assert read_transaction(pb.CommandFlow(consumer_id=1, messagePermits=1)) is None


@pytest.mark.parametrize("txn_id", [TxnId(0, 0), TxnId(0, 300), TxnId(-1, -1)])
@pytest.mark.parametrize("request_id", [0, 300, -1])
@pytest.mark.parametrize(
    "answer",
    [
        pb.CommandNewTxnResponse,
        pb.CommandAddPartitionToTxnResponse,
        pb.CommandAddSubscriptionToTxnResponse,
        pb.CommandEndTxnResponse,
    ],
)
def test_answers_are_the_librarys(answer: type[Message], request_id: int, txn_id: TxnId) -> None:
    message = answer(
        request_id=request_id % 2**64,
        txnid_least_bits=txn_id.least % 2**64,
        txnid_most_bits=txn_id.most % 2**64,
    )
    data = encode_command(message)
    kind = data[1]
    assert transaction_response(kind, request_id, txn_id)[8:] == data


def frames_of(*commands: Message) -> bytes:
    return b"".join(command_frame(encode_command(command)) for command in commands)


NEW = pb.CommandNewTxn(request_id=1, txn_ttl_millis=60_000, tc_id=0)
END = pb.CommandEndTxn(**TXN, txn_action=pb.COMMIT)


@pytest.mark.parametrize(
    "behind",
    [
        b"",
        frames_of(END)[:-1],
        frames_of(END)[:9],
        frames_of(pb.CommandFlow(consumer_id=1, messagePermits=1)),
        frames_of(pb.CommandNewTxn(request_id=1)),
        bytes(12),
        b"\xff" * 12,
    ],
    ids=["nothing", "not whole", "not a size", "another", "unusual", "zeros", "nonsense"],
)
def test_those_of_one_read_are_read_together_up_to_what_is_none(behind: bytes) -> None:
    data, events = frames_of(NEW, END), list[ServerEvent]()
    assert scan_transactions(data + behind, 0, events, 100) == (len(data), 2)
    assert events == [NewTransaction(1, 60_000, 0), EndTransaction(300, TxnId(0, 7), pb.COMMIT)]


def test_no_more_are_read_together_than_asked_for() -> None:
    size, events = len(frames_of(NEW)), list[ServerEvent]()
    assert scan_transactions(frames_of(NEW) * 5, size, events, 3) == (4 * size, 3)
    assert events == [NewTransaction(1, 60_000, 0)] * 3
