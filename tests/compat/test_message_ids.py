"""Ids and the official client: what either serialises, the other reads; both order alike.

The official `pulsar.MessageId` is the peer, from the `pulsar-client` wheel. It cannot be told to
make a batch size or a chunk id, so those go in as bytes and come back as the bytes it writes.
"""

from __future__ import annotations

import itertools

import _pulsar
import pulsar
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from stage.counts import examples

from milepost.errors import InvalidMessageId
from milepost.positions.ids import EARLIEST, LATEST, ChunkMessageId, MessageId
from milepost.testing.strategies import chunk_message_ids, message_ids


def peer_of(message_id: MessageId) -> _pulsar.MessageId:
    return _pulsar.MessageId(
        message_id.partition, message_id.ledger_id, message_id.entry_id, message_id.batch_index
    )


def read(data: bytes) -> MessageId | InvalidMessageId:
    try:
        return MessageId.deserialize(data)
    except InvalidMessageId as error:
        return error


def peer_read(data: bytes) -> _pulsar.MessageId | None:
    try:
        return _pulsar.MessageId.deserialize(data)
    except ValueError:
        return None


def numbers(peer: _pulsar.MessageId) -> tuple[int, int, int, int]:
    return peer.ledger_id(), peer.entry_id(), peer.partition(), peer.batch_index()


def ours(message_id: MessageId) -> tuple[int, int, int, int]:
    return (
        message_id.ledger_id,
        message_id.entry_id,
        message_id.partition,
        message_id.batch_index,
    )


@settings(max_examples=examples(1_000))
@given(message_ids())
@example(MessageId(7, 12))
@example(MessageId(7, 12, partition=3))
@example(MessageId(7, 12, batch_index=0, batch_size=1))
@example(MessageId(7, 12, partition=0, batch_index=4, batch_size=5))
def test_the_peer_reads_our_ids_and_writes_them_alike(message_id: MessageId) -> None:
    data = message_id.serialize()
    peer = _pulsar.MessageId.deserialize(data)
    assert numbers(peer) == ours(message_id)
    assert peer.serialize() == data


@settings(max_examples=examples(1_000))
@given(message_ids())
def test_we_read_the_peers_ids_and_write_them_alike(message_id: MessageId) -> None:
    data = peer_of(message_id).serialize()
    back = MessageId.deserialize(data)
    assert ours(back) == ours(message_id)
    assert back.serialize() == data


@settings(max_examples=examples(1_000))
@given(chunk_message_ids())
@example(ChunkMessageId(MessageId(7, 9), MessageId(7, 12)))
@example(ChunkMessageId(MessageId(7, 9, partition=3), MessageId(8, 0, partition=3)))
def test_the_peer_reads_our_chunk_ids_and_writes_them_alike(chunked: ChunkMessageId) -> None:
    data = chunked.serialize()
    peer = _pulsar.MessageId.deserialize(data)
    assert numbers(peer) == ours(chunked)
    assert peer.serialize() == data
    assert peer == peer_of(chunked.last_chunk_message_id)
    # The peer prints both chunks too, in its own brackets; we read what it prints.
    parsed = MessageId.parse(str(peer))
    assert repr(parsed) == repr(chunked)


@settings(max_examples=examples(300))
@given(message_ids())
def test_we_read_what_the_peer_prints(message_id: MessageId) -> None:
    assert ours(MessageId.parse(str(peer_of(message_id)))) == ours(message_id)


@pytest.mark.parametrize(
    ("mine", "peers"), [(EARLIEST, pulsar.MessageId.earliest), (LATEST, pulsar.MessageId.latest)]
)
def test_earliest_and_latest_are_the_peers(mine: MessageId, peers: _pulsar.MessageId) -> None:
    assert mine.serialize() == peers.serialize()
    assert MessageId.deserialize(peers.serialize()) == mine
    assert _pulsar.MessageId.deserialize(mine.serialize()) == peers


EDGES = (-(2**63), -1, 0, 1, 2**63 - 1)


def test_every_comparison_inside_a_partition_is_the_peers() -> None:
    ids = [MessageId(*at, 3, b) for at in itertools.product(EDGES, EDGES) for b in (-1, 0, 1)]
    peers = [peer_of(message_id) for message_id in ids]
    for (one, one_peer), (two, two_peer) in itertools.product(
        zip(ids, peers, strict=True), repeat=2
    ):
        assert (one < two) == (one_peer < two_peer)
        assert (one <= two) == (one_peer <= two_peer)
        assert (one > two) == (one_peer > two_peer)
        assert (one >= two) == (one_peer >= two_peer)
        assert (one == two) == (one_peer == two_peer)
        assert (one != two) == (one_peer != two_peer)


def test_across_partitions_only_the_peers_contradiction_is_ours_to_settle() -> None:
    ids = [MessageId(*at) for at in itertools.product((1, 2), (0, 1), (-1, 0, 1), (-1, 0, 1))]
    for one, two in itertools.product(ids, repeat=2):
        assert (one == two) == (peer_of(one) == peer_of(two))
        if one.partition != two.partition and one._replace(partition=two.partition) == two:
            # Each is the greater to the peer. To us, one of them is.
            assert peer_of(one) > peer_of(two)
            assert peer_of(two) > peer_of(one)
            assert (one > two) != (two > one)
        else:
            assert (one < two) == (peer_of(one) < peer_of(two))
            assert (one > two) == (peer_of(one) > peer_of(two))


def test_a_batch_size_is_carried_and_not_compared_by_either() -> None:
    few, many = MessageId(1, 2, -1, 3, 10), MessageId(1, 2, -1, 3, 20)
    few_peer, many_peer = (_pulsar.MessageId.deserialize(x.serialize()) for x in (few, many))
    assert few == many
    assert few_peer == many_peer
    assert few_peer.serialize() == few.serialize() != many_peer.serialize()


def test_either_reads_a_first_chunk_that_claims_a_batch() -> None:
    data = bytes.fromhex("08011002200230053a080801100020023003")
    assert (
        MessageId.deserialize(data).serialize() == _pulsar.MessageId.deserialize(data).serialize()
    )


FIELDS = st.one_of(
    st.sampled_from([
        "0801", "1002", "1804", "2003", "300a", "3a0408011000", "3a06080110001804", "2807", "2a020708",
        "4807", "5203616263", "4d01020304", "493132333435363738", "08ffffffffffffffffff01",
        "18ffffffffffffffffff01", "188580808010", "08ffffffffffffffffff7f", "08810010",
    ]).map(bytes.fromhex),
    st.binary(min_size=1, max_size=3),
)  # fmt: skip


# What we refuse though the peer reads it: no client writes it, and it has no meaning.
STRICTER = (
    "itself a chunk id",
    "a second first chunk",
    "after the last",
    "two partitions",
    "has no field number of protobuf",
    "wire type 3",
    "wire type 4",
)


@settings(max_examples=examples(3_000))
@given(st.sampled_from([b"", b"\x08\x01\x10\x02"]), st.lists(FIELDS, max_size=5).map(b"".join))
def test_either_reads_what_the_other_reads_or_we_say_why_not(begin: bytes, rest: bytes) -> None:
    mine, peer = read(begin + rest), peer_read(begin + rest)
    if isinstance(mine, InvalidMessageId):
        assert peer is None or any(reason in str(mine) for reason in STRICTER)
    else:
        assert peer is not None
        assert numbers(peer) == ours(mine)
        if not isinstance(mine, ChunkMessageId):
            assert peer.serialize() == mine.serialize()
