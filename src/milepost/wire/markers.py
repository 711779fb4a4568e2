"""Markers of transactions: the entries by which a topic's log says that a transaction has ended.

A marker is an entry without a payload. Its metadata has a marker type and the transaction's id; it takes
an index as every entry does, and no consumer gets it.

    >>> from milepost.wire.metadata import split_entry
    >>> entry = transaction_marker(TXN_COMMIT, TxnId(0, 7), publish_time=1700000000000)
    >>> metadata = split_entry(entry).metadata
    >>> marker_of(metadata)
    (21, TxnId(most=0, least=7))
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from milepost.positions import TxnId, signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.scanners.encode import encode_entry_head
from milepost.wire.scanners.varint import encode_varint

# `MessageMetadata.marker_type`, in upstream's numbers. 20 (committing) is no longer written.
TXN_COMMIT: Final = 21
TXN_ABORT: Final = 22

MARKER_PRODUCER: Final = "pulsar.txn.marker"
_NO_SEQUENCE_ID: Final = -1
# What the metadata of every marker begins with, up to the publish time. There is a marker for each topic of
# each transaction, so its few fields are written by hand, as the library would write them.
_PRODUCER: Final = b"".join(
    (
        b"\x0a",
        encode_varint(len(MARKER_PRODUCER)),
        MARKER_PRODUCER.encode(),
        b"\x10",
        encode_varint(_NO_SEQUENCE_ID),
        b"\x18",
    )
)


def transaction_marker(marker_type: int, txn_id: TxnId, publish_time: int) -> bytes:
    """The entry as a log stores it: checksum and metadata. The broker's block in front is not in it."""
    most, least = txn_id
    metadata = b"".join(
        (
            _before_id(marker_type, publish_time),
            encode_varint(least),
            b"\xb8\x01",
            encode_varint(most),
        )
    )
    return encode_entry_head(metadata, b"")


@lru_cache(maxsize=4)
def _before_id(marker_type: int, publish_time: int) -> bytes:
    """The metadata up to the id of the transaction: many transactions end in one millisecond."""
    assert marker_type in (TXN_COMMIT, TXN_ABORT), f"marker type {marker_type} ends no transaction"
    return b"".join(
        (
            _PRODUCER,
            encode_varint(publish_time),
            b"\xa0\x01",
            encode_varint(marker_type),
            b"\xb0\x01",
        )
    )


def marker_of(metadata: pb.MessageMetadata) -> tuple[int, TxnId] | None:
    """The end that an entry marks and of which transaction; None for every other entry."""
    if metadata.marker_type not in (TXN_COMMIT, TXN_ABORT):
        return None
    txn_id = transaction_of(metadata)
    return None if txn_id is None else (metadata.marker_type, txn_id)


def transaction_of(metadata: pb.MessageMetadata) -> TxnId | None:
    """The transaction that an entry was published in; of a marker, the one that it ends.

    Zeros are an id; one number alone has zero for the other. The scanner that let the entry in takes it so:
    read otherwise, a topic with such an entry could never be opened again.
    """
    if not (metadata.HasField("txnid_most_bits") or metadata.HasField("txnid_least_bits")):
        return None
    return TxnId(signed64(metadata.txnid_most_bits), signed64(metadata.txnid_least_bits))
