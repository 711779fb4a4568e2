from __future__ import annotations

import pytest

from milepost.positions import TxnId
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import encode_command
from milepost.wire.events import Ack, Flow, WireId
from milepost.wire.scanners.ack_scan import read_ack, read_flow, scan_ack, scan_flow, wire_id

LAST = 2**64 - 1  # -1 in an unsigned field


def scanned(ack: pb.CommandAck) -> Ack | None:
    data = encode_command(ack)
    return scan_ack(b"<" + data + b">", 1, 1 + len(data))


def ids(*positions: tuple[int, int]) -> list[pb.MessageIdData]:
    return [pb.MessageIdData(ledgerId=ledger, entryId=entry) for ledger, entry in positions]


@pytest.mark.parametrize(
    ("ack", "event"),
    [
        (
            pb.CommandAck(consumer_id=1, ack_type=0, message_id=ids((7, 0))),
            Ack(1, False, [WireId(7, 0)], None),
        ),
        (
            pb.CommandAck(consumer_id=300, ack_type=1, message_id=ids((7, 500)), request_id=900),
            Ack(300, True, [WireId(7, 500)], 900),
        ),
        (
            pb.CommandAck(consumer_id=1, ack_type=0, message_id=ids((7, 1), (7, 200), (8, 0))),
            Ack(1, False, [WireId(7, 1), WireId(7, 200), WireId(8, 0)], None),
        ),
        (
            pb.CommandAck(consumer_id=1, ack_type=0, message_id=[]),
            Ack(1, False, [], None),
        ),
        (
            # What C++ sends first for a batch that begins its ledger: the entry before it.
            pb.CommandAck(consumer_id=1, ack_type=1, message_id=ids((7, LAST))),
            Ack(1, True, [WireId(7, -1)], None),
        ),
        (
            pb.CommandAck(
                consumer_id=1, ack_type=0, message_id=ids((7, 0)), validation_error=2, request_id=0
            ),
            Ack(1, False, [WireId(7, 0)], 0, pb.CommandAck.ChecksumMismatch),
        ),
        (
            pb.CommandAck(
                consumer_id=1,
                ack_type=0,
                message_id=[
                    pb.MessageIdData(
                        ledgerId=7,
                        entryId=0,
                        partition=2,
                        batch_index=1,
                        ack_set=[28, -1, -(2**63)],
                        batch_size=130,
                    ),
                    pb.MessageIdData(ledgerId=7, entryId=0, ack_set=[28]),
                ],
            ),
            Ack(
                1,
                False,
                [WireId(7, 0, 2, 1, (28, -1, -(2**63))), WireId(7, 0, ack_set=(28,))],
                None,
            ),
        ),
    ],
)
def test_acks_as_clients_write_them(ack: pb.CommandAck, event: Ack) -> None:
    assert scanned(ack) == event
    assert read_ack(ack) == event


def test_many_ids() -> None:
    ack = pb.CommandAck(consumer_id=1, ack_type=0, message_id=ids(*((7, e) for e in range(5000))))
    event = scanned(ack)
    assert event is not None
    assert event.ids == [WireId(7, entry) for entry in range(5000)]


@pytest.mark.parametrize(
    "ack",
    [
        pb.CommandAck(
            consumer_id=1,
            ack_type=0,
            message_id=[
                pb.MessageIdData(
                    ledgerId=7,
                    entryId=9,
                    first_chunk_message_id=pb.MessageIdData(ledgerId=LAST, entryId=4),
                )
            ],
        ),
        pb.CommandAck(consumer_id=1, ack_type=0, properties=[pb.KeyLongValue(key="a", value=1)]),
    ],
)
def test_rare_acks_are_left_to_the_library(ack: pb.CommandAck) -> None:
    assert scanned(ack) is None
    assert read_ack(ack).consumer_id == 1


def test_what_only_the_library_reads() -> None:
    chunked = pb.MessageIdData(
        ledgerId=7, entryId=9, first_chunk_message_id=pb.MessageIdData(ledgerId=7, entryId=4)
    )
    assert wire_id(chunked) == WireId(7, 9, first_chunk=(7, 4))


@pytest.mark.parametrize(
    ("fields", "transaction"),
    [
        ({"txnid_most_bits": 3, "txnid_least_bits": LAST}, TxnId(3, -1)),
        # Zeros are the first transaction of all, and one number has zero for the other.
        ({"txnid_most_bits": 0, "txnid_least_bits": 0}, TxnId(0, 0)),
        ({"txnid_least_bits": 0}, TxnId(0, 0)),
        ({"txnid_most_bits": 5}, TxnId(5, 0)),
    ],
)
def test_an_ack_in_a_transaction(fields: dict[str, int], transaction: TxnId) -> None:
    ack = pb.CommandAck(consumer_id=LAST, ack_type=1, request_id=7, **fields)
    assert scanned(ack) == read_ack(ack) == Ack(-1, True, [], 7, None, transaction)


def test_a_packed_ack_set_is_left_to_the_library() -> None:
    body = bytes.fromhex("080110001a08080710002a021c01")
    data = b"\x08\x0a\x52" + bytes([len(body)]) + body
    assert scan_ack(data, 0, len(data)) is None
    assert read_ack(pb.CommandAck.FromString(body)).ids == [WireId(7, 0, ack_set=(28, 1))]


@pytest.mark.parametrize("ack_type", [2, 127, 128])
def test_an_ack_type_of_the_future(ack_type: int) -> None:
    data = bytearray(encode_command(pb.CommandAck(consumer_id=1, ack_type=0)))
    data[-1] = ack_type
    assert scan_ack(bytes(data), 0, len(data)) is None


def test_no_cut_is_taken_for_a_whole() -> None:
    data = encode_command(
        pb.CommandAck(
            consumer_id=1,
            ack_type=0,
            message_id=[pb.MessageIdData(ledgerId=700, entryId=900, ack_set=[28])],
            request_id=900,
        )
    )
    for cut in range(len(data)):
        assert scan_ack(data[:cut], 0, cut) is None
        assert scan_ack(data, 0, cut) is None


def test_an_id_that_runs_over_its_end() -> None:
    data = bytearray(
        encode_command(pb.CommandAck(consumer_id=1, ack_type=0, message_id=ids((7, 5))))
    )
    assert data[8:10] == b"\x1a\x04"
    data[9] = 3
    assert scan_ack(bytes(data), 0, len(data)) is None


@pytest.mark.parametrize("permits", [0, 1, 127, 128, 1000, 2**31, 2**32 - 1])
def test_flow(permits: int) -> None:
    flow = pb.CommandFlow(consumer_id=300, messagePermits=permits)
    data = encode_command(flow)
    assert scan_flow(b"<" + data + b">", 1, 1 + len(data)) == Flow(300, permits)
    assert read_flow(flow) == Flow(300, permits)


@pytest.mark.parametrize(
    "body",
    ["", "08", "0801", "080110", "080110e8", "1001", "10010801", "080110011801", "08011203616263"],
)
def test_what_is_no_usual_flow(body: str) -> None:
    data = b"\x08\x0b\x5a" + bytes([len(body) // 2]) + bytes.fromhex(body)
    assert scan_flow(data, 0, len(data)) is None


def test_another_command_is_no_flow() -> None:
    data = encode_command(pb.CommandUnsubscribe(consumer_id=1, request_id=2))
    assert scan_flow(data, 0, len(data)) is None
    assert scan_ack(data, 0, len(data)) is None
