"""Markers of transactions, byte for byte."""

from __future__ import annotations

import pytest

from milepost.positions import TxnId
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.frames import crc32c
from milepost.wire.markers import (
    TXN_ABORT,
    TXN_COMMIT,
    marker_of,
    transaction_marker,
    transaction_of,
)
from milepost.wire.scanners.shape import read_shape


def test_a_marker_is_checksum_and_metadata_and_no_payload() -> None:
    metadata = bytes.fromhex(
        "0a11" + b"pulsar.txn.marker".hex()  # producer name
        + "10ffffffffffffffffff01"  # sequence id -1
        + "1880d095ffbc31"  # publish time
        + "a00115"  # marker type 21
        + "b00107b80100"  # least and most bits
    )  # fmt: skip
    covered = len(metadata).to_bytes(4, "big") + metadata
    assert (
        transaction_marker(TXN_COMMIT, TxnId(0, 7), publish_time=1_700_000_000_000)
        == b"\x0e\x01" + crc32c(covered).to_bytes(4, "big") + covered
    )


@pytest.mark.parametrize("txn_id", [TxnId(0, 0), TxnId(0, 2**40), TxnId(3, -1)])
@pytest.mark.parametrize("publish_time", [0, 127, 2**41])
def test_its_metadata_is_the_librarys(txn_id: TxnId, publish_time: int) -> None:
    written = pb.MessageMetadata(
        producer_name="pulsar.txn.marker",
        sequence_id=2**64 - 1,
        publish_time=publish_time,
        marker_type=TXN_ABORT,
        txnid_least_bits=txn_id.least % 2**64,
        txnid_most_bits=txn_id.most % 2**64,
    )
    assert transaction_marker(TXN_ABORT, txn_id, publish_time)[10:] == written.SerializeToString()


def test_what_ends_no_transaction_is_no_marker_of_one() -> None:
    plain = {"producer_name": "p", "sequence_id": 0, "publish_time": 0}
    subscription_snapshot = pb.MessageMetadata(
        **plain, marker_type=12, txnid_most_bits=0, txnid_least_bits=0
    )
    in_a_transaction = pb.MessageMetadata(**plain, txnid_most_bits=0, txnid_least_bits=0)
    assert marker_of(subscription_snapshot) is None
    assert marker_of(in_a_transaction) is None
    # Zeros are an id.
    assert transaction_of(in_a_transaction) == TxnId(0, 0)
    assert transaction_of(pb.MessageMetadata(**plain)) is None


def test_other_marker_types_are_not_made() -> None:
    with pytest.raises(AssertionError, match="marker type 20"):
        transaction_marker(20, TxnId(0, 0), publish_time=0)


@pytest.mark.parametrize("half", [{"txnid_least_bits": 7}, {"txnid_most_bits": 7}])
def test_one_number_alone_has_zero_for_the_other(half: dict[str, int]) -> None:
    """For the scanner that lets entries in, too."""
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, **half)
    data = metadata.SerializeToString()
    txn_id = transaction_of(metadata)
    assert txn_id == TxnId(half.get("txnid_most_bits", 0), half.get("txnid_least_bits", 0))
    assert read_shape(data, 0, len(data)).traits.transaction == txn_id
