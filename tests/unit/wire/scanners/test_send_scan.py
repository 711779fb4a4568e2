"""A SEND is read twice in these tests: by the loop, and by the way for what the loop leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.positions import TxnId, unsigned64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import encode_command
from milepost.wire.events import BATCH, PLAIN, Send, Sends, ServerEvent, Traits
from milepost.wire.frames import HEADER_SIZE, command_frame, entry_frame
from milepost.wire.markers import transaction_of
from milepost.wire.metadata import split_entry
from milepost.wire.scanners.encode import send_frame
from milepost.wire.scanners.send_scan import add_send, read_send, scan_sends

FRAME_MAX = 5 * 1024 * 1024
NOW = 1_794_741_333_444


def metadata(sequence_id: int = 7, publish_time: int = NOW, **fields: Any) -> bytes:
    return pb.MessageMetadata(
        producer_name="standalone-0-0", sequence_id=sequence_id, publish_time=publish_time, **fields
    ).SerializeToString()


def frame(
    producer_id: int = 3, sequence_id: int = 7, payload: bytes = b"x" * 100, **more: Any
) -> bytes:
    command = {
        key: more.pop(key)
        for key in ("num_messages", "highest_sequence_id", "is_chunk")
        if key in more
    }
    data = metadata(sequence_id, **more)
    return b"".join(send_frame(producer_id, sequence_id, data, payload, **command))


def command_size(data: bytes, at: int) -> int:
    return int.from_bytes(data[at + 4 : at + 8], "big")


def entry_of(data: bytes) -> bytes:
    return data[HEADER_SIZE + command_size(data, 0) :]


def scanned(data: bytes) -> tuple[int, list[ServerEvent]]:
    events: list[ServerEvent] = []
    at = scan_sends(data, 0, FRAME_MAX, events)
    return at, events


def read(data: bytes) -> Send:
    """By the library."""
    entry_at = HEADER_SIZE + command_size(data, 0)
    command = pb.BaseCommand.FromString(data[HEADER_SIZE:entry_at])
    return read_send(command.send, data, entry_at, len(data))


def both(data: bytes) -> Send:
    """Taken by the loop, and read the same the long way."""
    at, events = scanned(data)
    assert at == len(data), "left alone by the loop"
    [event] = events
    assert isinstance(event, Sends)
    assert event.producer_id == 3
    [send] = event.sends
    assert send == read(data)
    return send


def left_alone(data: bytes) -> Send:
    assert scanned(data) == (0, [])
    return read(data)


def fault(data: bytes) -> tuple[int, str]:
    send = left_alone(data)
    assert send.traits.fault is not None, "not refused"
    assert send.entry == b"", "an entry that must not be stored"
    return send.traits.fault


def test_a_plain_message() -> None:
    data = frame()
    assert both(data) == Send(7, 0, 1, NOW, entry_of(data), PLAIN)
    assert entry_of(data).startswith(b"\x0e\x01")


@pytest.mark.parametrize("sequence_id", [0, 127, 128, 16384, 2**35, 2**63 - 1])
def test_sequence_ids(sequence_id: int) -> None:
    assert both(frame(sequence_id=sequence_id)).sequence_id == sequence_id


@pytest.mark.parametrize("producer_id", [0, 127, 128, 20_000, 2**63 - 1])
def test_producer_ids(producer_id: int) -> None:
    """A client with many producers sends for all of them on one connection."""
    at, events = scanned(frame(producer_id=producer_id) * 2)
    assert at == 2 * len(frame(producer_id=producer_id))
    assert events == [Sends(producer_id, [read(frame(producer_id=producer_id))] * 2)]


def test_a_batch_and_what_clients_say_of_it() -> None:
    data = frame(
        num_messages=9, highest_sequence_id=11, num_messages_in_batch=5, payload=bytes(540)
    )
    send = both(data)
    assert send == Send(7, 11, 5, NOW, entry_of(data), BATCH)


def test_a_keyed_message() -> None:
    data = frame(
        partition_key="k",
        ordering_key=b"o",
        properties=[pb.KeyValue(key="a", value="b")],
        event_time=NOW,
        uncompressed_size=100,
    )
    assert both(data).traits is PLAIN


def test_a_chunk_and_a_delayed_message() -> None:
    data = frame(
        is_chunk=True, uuid="p-7", num_chunks_from_msg=3, total_chunk_msg_size=300, chunk_id=2
    )
    chunk = both(data).traits.chunk
    assert chunk == ("p-7", 2, 3, 300)
    assert chunk is not None
    assert chunk.is_last
    assert not chunk.is_first
    assert both(frame(deliver_at_time=NOW + 1)).traits.deliver_at_time == NOW + 1


@pytest.mark.parametrize("size", [0, 127, 128, 300])
def test_names(size: int) -> None:
    named = pb.MessageMetadata(producer_name="n" * size, sequence_id=7, publish_time=NOW)
    assert both(b"".join(send_frame(3, 7, named.SerializeToString(), b"x"))).publish_time == NOW


def test_a_command_without_a_sequence_id_is_left_alone() -> None:
    """Its number of messages stands where a sequence id does: 08 03 18 07."""
    data = frame()
    at = data.index(bytes.fromhex("08031007"))
    assert scanned(data[: at + 2] + b"\x18" + data[at + 3 :]) == (0, [])


def test_an_empty_payload_and_an_empty_name() -> None:
    data = pb.MessageMetadata(producer_name="", sequence_id=7, publish_time=NOW)
    smallest = b"".join(send_frame(3, 7, data.SerializeToString(), b""))
    assert both(smallest).count == 1


def test_sends_of_one_producer_are_one_event() -> None:
    frames = [frame(1, 0), frame(1, 1), frame(2, 5), frame(2, 6), frame(1, 2)]
    at, events = scanned(b"".join(frames))
    assert at == sum(map(len, frames))
    found = [
        (event.producer_id, [send.sequence_id for send in event.sends])
        for event in events
        if isinstance(event, Sends)
    ]
    assert found == [(1, [0, 1]), (2, [5, 6]), (1, [2])]


def test_sends_join_those_that_came_before() -> None:
    events: list[ServerEvent] = []
    first = add_send(events, 3, read(frame(sequence_id=6)))
    scan_sends(frame() + frame(sequence_id=8), 0, FRAME_MAX, events)
    assert len(events) == 1
    assert [send.sequence_id for send in first] == [6, 7, 8]


def test_publish_times_are_not_mixed_up() -> None:
    times = [NOW, NOW, NOW + 1, NOW, 2**41]
    data = b"".join(frame(publish_time=time) for time in times)
    _, [event] = scanned(data)
    assert isinstance(event, Sends)
    assert [send.publish_time for send in event.sends] == times


def test_the_loop_stops_where_the_bytes_do() -> None:
    whole = frame()
    for cut in range(len(whole)):
        at, events = scanned(whole + whole[:cut])
        assert at == len(whole)
        assert len(events) == 1


def test_the_loop_stops_at_another_command() -> None:
    ping = command_frame(bytes.fromhex("0812920100")) + bytes(100)
    at, events = scanned(frame() + ping)
    assert at == len(frame())
    assert len(events) == 1


def test_a_frame_over_the_limit_is_left_to_be_refused() -> None:
    data = frame()
    assert scan_sends(data, 0, len(data) - 5, []) == 0
    assert scan_sends(data, 0, len(data) - 4, []) == len(data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(frame(producer_id=2**63), id="a negative producer id"),
        pytest.param(frame(publish_time=5), id="a time without a date"),
        pytest.param(frame(publish_time=2**42), id="a time after 2109"),
        pytest.param(
            b"".join(send_frame(3, 7, metadata(sequence_id=8), b"x")), id="sequence ids differ"
        ),
        # Read as six bytes, the time and the long tag behind it would be another time and its rest.
        pytest.param(
            b"".join(
                send_frame(
                    3,
                    7,
                    bytes.fromhex("0a0170 1007 1805 8280808001 48")
                    + b"\x85\x01"
                    + b"\x48\x05" * 35,
                    b"x",
                )
            ),
            id="a short time before a long tag",
        ),
        pytest.param(
            b"".join(send_frame(3, 7, metadata() + b"\x18\x05", b"x")), id="publish time twice"
        ),
        pytest.param(
            b"".join(send_frame(3, 7, metadata() + b"\xfb\x07\xfc\x07", b"x")), id="a group"
        ),
    ],
)
def test_the_unusual_is_read_the_long_way(data: bytes) -> None:
    send = left_alone(data)
    assert send.traits.fault is None
    assert send.entry == entry_of(data)


def without_checksum(data: bytes) -> bytes:
    entry_at = HEADER_SIZE + command_size(data, 0)
    total = len(data) - 4 - 6
    return total.to_bytes(4, "big") + data[4:entry_at] + data[entry_at + 6 :]


def test_the_checksum_may_be_missing() -> None:
    """Protocol versions below 6 have none: nothing to verify, stored as it came."""
    data = without_checksum(frame())
    send = left_alone(data)
    assert send == Send(7, 0, 1, NOW, entry_of(data), PLAIN)


class TestFaults:
    def test_a_flipped_bit_anywhere_in_the_entry(self) -> None:
        whole = frame(payload=b"abc")
        for at in range(HEADER_SIZE + command_size(whole, 0) + 2, len(whole)):
            damaged = bytearray(whole)
            damaged[at] ^= 0x10
            error, message = fault(bytes(damaged))
            assert error == pb.ServerError.ChecksumError
            assert message.startswith("checksum 0x")

    @pytest.mark.parametrize("size", range(10))
    def test_an_entry_cut_short(self, size: int) -> None:
        data = frame()
        entry_at = HEADER_SIZE + command_size(data, 0)
        cut = (entry_at - 4 + size).to_bytes(4, "big") + data[4 : entry_at + size]
        error, message = fault(cut)
        assert error in (pb.ServerError.ChecksumError, pb.ServerError.NotAllowedError)
        assert message

    def test_metadata_beyond_the_frame(self) -> None:
        data = bytearray(without_checksum(frame()))
        entry_at = HEADER_SIZE + command_size(bytes(data), 0)
        data[entry_at : entry_at + 4] = (2**31).to_bytes(4, "big")
        error, message = fault(bytes(data))
        assert error == pb.ServerError.NotAllowedError
        assert message.startswith("metadata of 2147483648 bytes in ")

    @pytest.mark.parametrize("inside", range(len(metadata())))
    def test_metadata_does_not_go_on_in_the_payload(self, inside: int) -> None:
        """The bytes would make sense if the size were not there."""
        whole = metadata()
        data = b"".join(send_frame(3, 7, whole[:inside], whole[inside:] + b"payload"))
        error, message = fault(data)
        assert error == pb.ServerError.NotAllowedError
        assert message

    def test_broker_entry_metadata_from_a_client(self) -> None:
        """Only the broker says which index a message has."""
        whole = without_checksum(frame())
        entry_at = HEADER_SIZE + command_size(whole, 0)
        forged = whole[4:entry_at] + bytes.fromhex("0e020000000408011002") + whole[entry_at:]
        error, _ = fault(len(forged).to_bytes(4, "big") + forged)
        assert error == pb.ServerError.NotAllowedError

    def test_metadata_that_contradicts_itself(self) -> None:
        assert fault(frame(num_messages_in_batch=0)) == (
            22,
            "a batch of 0 messages; allowed are 1 to 1048576",
        )

    def test_a_batch_too_large_for_its_payload(self) -> None:
        few = frame(num_messages_in_batch=3, payload=bytes(18))
        assert both(few).count == 3
        assert fault(frame(num_messages_in_batch=3, payload=bytes(17))) == (
            22,
            "3 messages in a payload of 17 bytes",
        )

    def test_a_negative_sequence_id(self) -> None:
        assert fault(frame(sequence_id=2**64 - 1)) == (22, "sequence id -1")

    def test_highest_below_lowest(self) -> None:
        assert fault(frame(highest_sequence_id=6)) == (22, "highest sequence id 6 below 7")
        assert both(frame(highest_sequence_id=7)).highest_sequence_id == 7

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            (
                {"message_id": pb.MessageIdData(ledgerId=1, entryId=2)},
                "only a shadow topic takes a message id with SEND",
            ),
        ],
    )
    def test_commands_that_cannot_be_obeyed(self, changed: dict[str, Any], message: str) -> None:
        command = pb.BaseCommand(
            type=pb.BaseCommand.SEND, send=pb.CommandSend(producer_id=3, sequence_id=7, **changed)
        ).SerializeToString()
        entry = entry_of(frame())
        total = 4 + len(command) + len(entry)
        data = total.to_bytes(4, "big") + len(command).to_bytes(4, "big") + command + entry
        assert fault(data) == (22, message)

    @pytest.mark.parametrize("claim", [None, TxnId(0, 8), TxnId(1, 7)])
    def test_command_and_metadata_name_different_transactions(self, claim: TxnId | None) -> None:
        """Published outside of its transaction a message would be delivered before the commit."""
        told = {"txnid_most_bits": 0, "txnid_least_bits": 7}
        assert fault(in_transaction(claim, **told)) == (
            22,
            f"transaction {claim} in the command, (0,7) in the metadata",
        )


@pytest.mark.parametrize("txn_id", [TxnId(0, 0), TxnId(0, 7), TxnId(15, 2**40), TxnId(-1, -1)])
@pytest.mark.parametrize("fields", [{}, {"num_messages_in_batch": 1, "payload": bytes(6)}])
def test_a_send_in_a_transaction_is_scanned(txn_id: TxnId, fields: dict[str, Any]) -> None:
    told = {
        "txnid_most_bits": unsigned64(txn_id.most),
        "txnid_least_bits": unsigned64(txn_id.least),
    }
    data = in_transaction(txn_id, **told, **fields)
    events: list[ServerEvent] = []
    assert scan_sends(data, 0, 10_000, events) == len(data), "left to the library"
    assert both(data).traits == Traits(is_batch=bool(fields), transaction=txn_id)


@pytest.mark.parametrize("txn_id", [TxnId(0, 0), TxnId(3, 2**40), TxnId(-1, -1)])
@pytest.mark.parametrize("fields", [{}, {"num_messages_in_batch": 1, "payload": bytes(6)}])
def test_a_transaction_named_by_the_command_alone_is_written_to_the_metadata(
    txn_id: TxnId, fields: dict[str, Any]
) -> None:
    """As Go sends it: readers of the log would not know of it."""
    send = left_alone(in_transaction(txn_id, **fields))
    assert send.traits == Traits(is_batch=bool(fields), transaction=txn_id)
    before = split_entry(entry_of(frame(**fields)))
    after = split_entry(send.entry)
    assert after.is_intact
    assert after.checksum is not None
    assert after.payload == before.payload
    assert transaction_of(after.metadata) == txn_id
    after.metadata.ClearField("txnid_most_bits")
    after.metadata.ClearField("txnid_least_bits")
    assert after.metadata == before.metadata
    assert fault(in_transaction(txn_id, marker_type=21)) == (
        22,
        f"a marker of transaction {txn_id}, which the broker alone writes",
    )


def in_transaction(claim: TxnId | None, **metadata: Any) -> bytes:
    """A SEND whose command names one transaction and whose metadata what is given."""
    named = {}
    if claim is not None:
        named["txnid_most_bits"] = unsigned64(claim.most)
        named["txnid_least_bits"] = unsigned64(claim.least)
    command = encode_command(pb.CommandSend(producer_id=3, sequence_id=7, **named))
    entry = entry_of(frame(**metadata))
    return entry_frame(command, len(entry)) + entry


def test_memory_of_shapes_is_bounded() -> None:
    from milepost.wire.scanners import send_scan

    for size in range(3 * send_scan._KNOWN_SHAPES_MAX):
        assert both(frame(uncompressed_size=size)).traits is PLAIN
    assert len(send_scan._known_shapes) <= send_scan._KNOWN_SHAPES_MAX
    for size in range(3 * send_scan._KNOWN_SHAPE_SIZE_MAX):
        assert both(frame(schema_version=b"v" * size)).traits is PLAIN
    assert max(map(len, send_scan._known_shapes)) <= send_scan._KNOWN_SHAPE_SIZE_MAX
