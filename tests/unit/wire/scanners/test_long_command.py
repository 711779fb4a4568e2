"""A long command: its parts say together what it said, and only the last one asks for an answer."""

from __future__ import annotations

import pytest

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import decode_command, encode_command
from milepost.wire.events import Ack
from milepost.wire.scanners import long_command
from milepost.wire.scanners.ack_scan import read_ack, scan_ack
from milepost.wire.scanners.long_command import IDS_MAX, SIZE_MIN, LongCommand


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_command, "IDS_MAX", 3)
    monkeypatch.setattr(long_command, "SIZE_MIN", 10)


def ack(count: int, **fields: object) -> pb.CommandAck:
    ids = [pb.MessageIdData(ledgerId=700, entryId=entry) for entry in range(count)]
    values = {"consumer_id": 300, "ack_type": 0, "message_id": ids, **fields}
    return pb.CommandAck(**values)  # type: ignore[arg-type]


def parts(command: pb.CommandAck) -> list[Ack] | None:
    """What the parts of a command say; None if it has none."""
    data = encode_command(command)
    found = LongCommand.of(b"<" + data + b">", 1, 1 + len(data))
    if found is None:
        return None
    said: list[Ack] = []
    goes_on = True
    while goes_on:
        part, goes_on = found.take()
        event = scan_ack(part, 0, len(part))
        assert event is not None
        said.append(event)
    return said


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("count", [4, 5, 6, 7, 20])
def test_the_parts_say_what_the_whole_says(count: int) -> None:
    command = ack(count, request_id=2**40, validation_error=pb.CommandAck.DecryptionError)
    said, whole = parts(command), read_ack(command)
    assert said is not None
    assert [message_id for part in said for message_id in part.ids] == whole.ids
    assert [len(part.ids) for part in said[:-1]] == [3] * (len(said) - 1)
    assert {part.consumer_id for part in said} == {300}
    assert said[-1][3:] == whole[3:]
    assert all(part.request_id is None for part in said[:-1])


@pytest.mark.usefixtures("short")
def test_ids_may_be_of_any_length() -> None:
    command = ack(10)
    for number, message_id in enumerate(command.message_id):
        message_id.ack_set.extend([-1] * number * 5)
    said = parts(command)
    assert said is not None
    assert [one for part in said for one in part.ids] == read_ack(command).ids


@pytest.mark.usefixtures("short")
def test_no_part_of_a_cumulative_ack_names_one_message() -> None:
    """The broker obeys a cumulative ack of one id and no other."""
    said = parts(ack(7, ack_type=1, request_id=5))
    assert said is not None
    assert [(part.is_cumulative, len(part.ids), part.request_id) for part in said] == [(True, 3, 5)]


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    "command",
    [
        ack(3),
        ack(0),
        ack(9, txnid_most_bits=1),
        ack(9, request_id=4, txnid_least_bits=1),
        ack(9, properties=[pb.KeyLongValue(key="a", value=1)]),
    ],
)
def test_what_is_not_long_or_not_plain_has_no_parts(command: pb.CommandAck) -> None:
    assert parts(command) is None


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("count", [29, 30, 31, 300])
def test_of_a_transaction_that_is_too_long_only_the_first_ids_are_read(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(long_command, "TRANSACTION_PARTS_MAX", 10)
    monkeypatch.setattr(long_command, "IDS_PER_LOOK", 3)  # it is not looked through at once
    command = ack(count, request_id=4, txnid_least_bits=1)
    data = encode_command(command)
    found = LongCommand.of(data, 0, len(data))
    assert found is not None
    while not found.is_looked_through:
        found.look()
    assert found.is_unusual
    assert found.is_cut == (count > 30)
    whole = found.whole()
    said = scan_ack(whole, 0, len(whole))
    expected = read_ack(command)
    assert said == (expected._replace(ids=expected.ids[:3]) if count > 30 else expected)


@pytest.mark.usefixtures("short")
def test_what_is_cut_or_something_else_has_no_parts() -> None:
    data = encode_command(ack(9, request_id=1))
    for cut in range(len(data)):
        assert LongCommand.of(data, 0, cut) is None
        assert LongCommand.of(data[:cut], 0, len(data)) is None
    flow = encode_command(pb.CommandFlow(consumer_id=1, messagePermits=1)) * 9
    assert LongCommand.of(flow, 0, len(flow)) is None


def test_the_shortest_command_that_can_be_long_is_looked_at() -> None:
    command = ack(0)
    command.message_id.extend(pb.MessageIdData(ledgerId=1, entryId=1) for _ in range(IDS_MAX + 1))
    assert len(encode_command(command)) > SIZE_MIN
    said = parts(command)
    assert said is not None
    assert [len(part.ids) for part in said] == [IDS_MAX, 1]


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("count", [4, 6, 7])
@pytest.mark.parametrize("epoch", [None, 2**50])
def test_the_parts_of_a_redeliver_say_what_the_whole_says(count: int, epoch: int | None) -> None:
    ids = [pb.MessageIdData(ledgerId=700, entryId=entry, partition=1) for entry in range(count)]
    command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=300, message_ids=ids)
    if epoch is not None:
        command.consumer_epoch = epoch
    data = encode_command(command)
    found = LongCommand.of(b"<" + data + b">", 1, 1 + len(data))
    assert found is not None
    said: list[pb.CommandRedeliverUnacknowledgedMessages] = []
    goes_on = True
    while goes_on:
        part, goes_on = found.take()
        message = decode_command(part).message
        assert isinstance(message, pb.CommandRedeliverUnacknowledgedMessages)
        said.append(message)
    assert [one for part in said for one in part.message_ids] == ids
    assert [len(part.message_ids) for part in said[:-1]] == [3] * (len(said) - 1)
    assert {part.consumer_id for part in said} == {300}
    # It counts for what the first part brings back too.
    assert {part.HasField("consumer_epoch") for part in said} == {epoch is not None}
    assert {part.consumer_epoch for part in said} == {epoch or command.consumer_epoch}
