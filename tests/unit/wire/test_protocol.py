"""Both ends, fed by hand: what may be said when, and what comes of what may not."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import Message

from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import FROM_CLIENT, REPEATED_MAX, Kind, decode_command
from milepost.wire.events import (
    Ack,
    ClientEvent,
    Command,
    Delivery,
    Fault,
    Flow,
    Receipt,
    Sends,
    ServerEvent,
    WireId,
)
from milepost.wire.frames import FRAME_PADDING, HANDSHAKE_FRAME_MAX, command_frame
from milepost.wire.protocol import (
    COMMAND_SIZE_MAX,
    HEARD_MAX,
    SEND_WEIGHT,
    TRANSACTION_WEIGHT,
    UNUSUAL_IDS_MAX,
    ClientProtocol,
    ServerProtocol,
    State,
)
from milepost.wire.replies import PING, PONG, reply
from milepost.wire.scanners import ack_slices, long_command
from milepost.wire.scanners.encode import MessageEncoder, send_frame, send_receipt
from milepost.wire.scanners.varint import encode_varint

CONNECT = pb.CommandConnect(
    client_version="Pulsar-CPP-v4.2.0",
    protocol_version=20,
    feature_flags=pb.FeatureFlags(supports_broker_entry_metadata=True),
)
LOOKUP = pb.CommandLookupTopic(topic="t", request_id=2)
SUBSCRIBE = pb.CommandSubscribe(
    topic="t", subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=1, request_id=3
)
METADATA = pb.MessageMetadata(
    producer_name="p", sequence_id=7, publish_time=1_794_741_333_444
).SerializeToString()
SEND = b"".join(send_frame(3, 7, METADATA, b"payload"))


def ready(max_message_size: int = 10_000) -> ServerProtocol:
    protocol = ServerProtocol(server_version="milepost", max_message_size=max_message_size)
    protocol.receive(reply(CONNECT))
    protocol.accept()
    protocol.data_to_send()
    protocol.heard = False
    return protocol


def sent(protocol: ServerProtocol | ClientProtocol) -> list[Message]:
    """What waits to be sent, as commands; simple frames only."""
    messages = []
    data = b"".join(protocol.data_to_send())
    while data:
        total = int.from_bytes(data[:4], "big")
        messages.append(decode_command(data[8 : 4 + total]).message)
        data = data[4 + total :]
    return messages


def reason_of(events: list[ServerEvent] | list[ClientEvent]) -> str:
    assert events, "nothing happened"
    last = events[-1]
    assert isinstance(last, Fault)
    return last.error.reason


class TestHandshake:
    def test_connect_waits_to_be_accepted(self) -> None:
        protocol = ServerProtocol(server_version="milepost", max_message_size=10_000)
        assert protocol.state is State.NEW
        assert protocol.receive(reply(CONNECT)) == [Command(Kind.CONNECT, CONNECT)]
        assert protocol.state is State.CONNECTING
        assert protocol.data_to_send() == []
        assert protocol.peer is not None
        assert protocol.peer.software == "Pulsar-CPP-v4.2.0"
        assert protocol.peer.reads_broker_entry
        protocol.accept()
        [answer] = sent(protocol)
        assert isinstance(answer, pb.CommandConnected)
        assert (answer.server_version, answer.protocol_version) == ("milepost", 20)
        assert answer.max_message_size == 10_000
        assert answer.feature_flags.supports_get_partitioned_metadata_without_auto_creation
        assert protocol.state is State.READY

    def test_connect_refused(self) -> None:
        protocol = ServerProtocol(server_version="milepost")
        protocol.receive(reply(CONNECT))
        protocol.refuse(pb.ServerError.AuthenticationError, "who are you?")
        [answer] = sent(protocol)
        assert answer == pb.CommandError(
            request_id=2**64 - 1, error=pb.AuthenticationError, message="who are you?"
        )
        assert protocol.state is State.CLOSED
        assert protocol.error is None
        assert protocol.receive(reply(LOOKUP)) == []

    def test_a_client_may_be_challenged_in_between(self) -> None:
        protocol = ServerProtocol(server_version="milepost")
        protocol.receive(reply(CONNECT))
        response = pb.CommandAuthResponse(response=pb.AuthData(auth_data=b"token"))
        assert protocol.receive(reply(response)) == [Command(Kind.AUTH_RESPONSE, response)]
        assert protocol.state is State.CONNECTING

    @pytest.mark.parametrize(
        "frame", [reply(LOOKUP), SEND, PING, reply(pb.CommandConnected(server_version="x"))]
    )
    def test_nothing_before_connect(self, frame: bytes) -> None:
        protocol = ServerProtocol(server_version="milepost")
        assert reason_of(protocol.receive(frame)) == "before_connect"
        assert protocol.data_to_send() == []

    @pytest.mark.parametrize("frame", [reply(LOOKUP), SEND])
    def test_nothing_before_connected(self, frame: bytes) -> None:
        protocol = ServerProtocol(server_version="milepost")
        events = protocol.receive(reply(CONNECT) + frame)
        assert len(events) == 2
        assert reason_of(events) == "before_connect"

    def test_ping_while_the_first_is_answered(self) -> None:
        protocol = ServerProtocol(server_version="milepost")
        protocol.receive(reply(CONNECT) + PING)
        assert protocol.data_to_send() == [PONG]

    def test_a_second_connect(self) -> None:
        protocol = ServerProtocol(server_version="milepost")
        assert reason_of(protocol.receive(reply(CONNECT) * 2)) == "second_connect"
        assert reason_of(ready().receive(reply(CONNECT))) == "second_connect"

    def test_a_stranger_gets_little_memory(self) -> None:
        protocol = ServerProtocol(server_version="milepost")
        assert protocol.receive(HANDSHAKE_FRAME_MAX.to_bytes(4, "big")) == []
        protocol = ServerProtocol(server_version="milepost")
        events = protocol.receive((HANDSHAKE_FRAME_MAX + 1).to_bytes(4, "big"))
        assert reason_of(events) == "frame_too_large"

    @pytest.mark.parametrize("version", [0, 10_000])
    def test_any_version_is_negotiated(self, version: int) -> None:
        protocol = ServerProtocol(server_version="milepost")
        protocol.receive(reply(pb.CommandConnect(client_version="c", protocol_version=version)))
        protocol.accept()
        [answer] = sent(protocol)
        assert isinstance(answer, pb.CommandConnected)
        assert answer.protocol_version == min(version, 21)


class TestCommands:
    def test_rare_commands_come_as_they_are(self) -> None:
        events = ready().receive(reply(LOOKUP) + reply(SUBSCRIBE))
        assert events == [Command(Kind.LOOKUP, LOOKUP), Command(Kind.SUBSCRIBE, SUBSCRIBE)]

    def test_hot_commands_have_events_of_their_own(self) -> None:
        ack = pb.CommandAck(
            consumer_id=1,
            ack_type=0,
            message_id=[pb.MessageIdData(ledgerId=7, entryId=8)],  # type: ignore[arg-type]
        )
        flow = pb.CommandFlow(consumer_id=1, messagePermits=1000)
        events = ready().receive(reply(ack) + SEND + SEND + reply(flow))
        assert [type(event) for event in events] == [Ack, Sends, Flow]
        assert events[0] == Ack(1, False, [WireId(7, 8)], None)
        sends = events[1]
        assert isinstance(sends, Sends)
        assert len(sends.sends) == 2

    def test_unusual_forms_of_hot_commands(self) -> None:
        """Fields in another order, known to the library alone."""
        flow = bytes.fromhex("08 0b 5a 05 10e807 0801")
        ack = bytes.fromhex("08 0a 52 06 1000 0801 4007")
        send = bytes.fromhex("08 06 32 04 1007 0803")
        entry = SEND[8 + 8 :]
        events = ready().receive(
            b"".join(
                (4 + len(command) + len(tail)).to_bytes(4, "big")
                + len(command).to_bytes(4, "big")
                + command
                + tail
                for command, tail in ((flow, b""), (ack, b""), (send, entry), (send, entry))
            )
            + SEND
        )
        assert events[:2] == [Flow(1, 1000), Ack(1, False, [], 7)]
        assert len(events) == 3, "sends of one producer are one event, however they are written"
        sends = events[2]
        assert isinstance(sends, Sends)
        assert [send.entry for send in sends.sends] == [entry] * 3

    def test_a_bad_checksum_is_that_messages_fault(self) -> None:
        events = ready().receive(SEND + SEND[:-1] + b"X" + SEND)
        assert len(events) == 1
        sends = events[0]
        assert isinstance(sends, Sends)
        faults = [send.traits.fault for send in sends.sends]
        assert faults[0] is faults[2] is None
        assert faults[1] is not None
        assert faults[1].error == pb.ChecksumError

    @pytest.mark.parametrize("kind", sorted(set(Kind.values()) - FROM_CLIENT))
    def test_what_only_a_broker_says(self, kind: int) -> None:
        message = BROKER_SAYS.get(kind) or BROKERS_SAY[kind]
        reason = reason_of(ready().receive(reply(message)))
        assert reason == "unexpected_command"

    def test_the_largest_message(self) -> None:
        protocol = ready(max_message_size=10_000)
        size = 10_000 + FRAME_PADDING + 4 - len(SEND) + len(b"payload")
        largest = b"".join(send_frame(3, 7, METADATA, bytes(size)))
        [event] = protocol.receive(largest)
        assert isinstance(event, Sends)
        too_large = b"".join(send_frame(3, 7, METADATA, bytes(size + 1)))
        assert reason_of(protocol.receive(too_large[:4])) == "frame_too_large"

    def test_a_long_ack_comes_in_parts_and_nothing_overtakes_it(self) -> None:
        protocol = ready(max_message_size=COMMAND_SIZE_MAX)
        count = 2 * long_command.IDS_MAX + 1
        ids = [pb.MessageIdData(ledgerId=7, entryId=entry) for entry in range(count)]
        ack = pb.CommandAck(consumer_id=1, ack_type=0, message_id=ids, request_id=5)
        flow = reply(pb.CommandFlow(consumer_id=1, messagePermits=3))
        assert protocol.receive(reply(ack) + flow[:3]) == []
        assert protocol.has_more
        events = protocol.receive(flow[3:])  # comes while the parts are heard
        assert protocol.has_more
        while protocol.has_more:
            events += protocol.receive(b"")
        assert [type(event) for event in events] == [Ack, Ack, Ack, Flow]
        acks = [event for event in events if isinstance(event, Ack)]
        assert [(len(one.ids), one.goes_on, one.request_id) for one in acks] == [
            (long_command.IDS_MAX, True, None),
            (long_command.IDS_MAX, True, None),
            (1, False, 5),
        ]
        assert [one.entry_id for part in acks for one in part.ids] == list(range(count))

    def test_slices_of_a_part_go_on_as_long_as_the_ack_does(self) -> None:
        """A part of a long ACK may have a set so large that it is cut too."""
        protocol = ready(max_message_size=COMMAND_SIZE_MAX)
        words = [0x5555_5555_5555_5555] * (3 * ack_slices.RANGES_MAX // 32)
        ids = [pb.MessageIdData(ledgerId=7, entryId=0, ack_set=words)]
        ids += [
            pb.MessageIdData(ledgerId=7, entryId=one + 1) for one in range(long_command.IDS_MAX)
        ]
        ack = pb.CommandAck(consumer_id=1, ack_type=0, message_id=ids, request_id=5)
        events = protocol.receive(reply(ack))
        while protocol.has_more:
            events += protocol.receive(b"")
        acks = [event for event in events if isinstance(event, Ack)]
        assert len([one for one in acks if one.window is not None]) == 3
        assert [one.goes_on for one in acks] == [True] * (len(acks) - 1) + [False]
        assert [one.request_id for one in acks] == [None] * (len(acks) - 1) + [5]

    def test_a_long_ack_that_names_what_no_id_is_ends_the_connection_in_its_place(self) -> None:
        protocol = ready(max_message_size=COMMAND_SIZE_MAX)
        good = b"\x1a\x04\x08\x07\x10\x08"
        body = b"\x08\x01\x10\x00" + good * long_command.IDS_MAX + b"\x1a\x04\x08\x07\x08\x08"
        command = b"\x08\x0a\x52" + encode_varint(len(body)) + body
        events = protocol.receive(command_frame(command))
        while protocol.has_more:
            events += protocol.receive(b"")
        assert isinstance(events[0], Ack)
        assert reason_of(events[1:]) == "bad_command"
        assert protocol.receive(b"") == []
        assert not protocol.has_more

    def test_an_unusual_ack_has_a_length(self) -> None:
        """Fields in another order, and more ids than the library can read while others wait."""
        protocol = ready(max_message_size=COMMAND_SIZE_MAX)
        for count in (UNUSUAL_IDS_MAX, UNUSUAL_IDS_MAX + 1):
            body = b"\x10\x00\x08\x01" + b"\x1a\x04\x08\x07\x10\x08" * count
            command = b"\x08\x0a\x52" + encode_varint(len(body)) + body
            [event] = protocol.receive(command_frame(command))
            if count == UNUSUAL_IDS_MAX:
                assert isinstance(event, Ack)
                assert len(event.ids) == count
            else:
                assert reason_of([event]) == "bad_command"

    def test_an_unusual_redeliver_has_a_length(self) -> None:
        protocol = ready(max_message_size=COMMAND_SIZE_MAX)
        ids = b"\x12\x04\x08\x07\x10\x08" * (UNUSUAL_IDS_MAX + 1)
        body = ids + b"\x08\x01"
        command = b"\x08\x14\xa2\x01" + encode_varint(len(body)) + body
        assert reason_of(protocol.receive(command_frame(command))) == "bad_command"

    def test_a_long_redeliver_comes_in_parts_that_know_their_number(self) -> None:
        protocol = ready(max_message_size=COMMAND_SIZE_MAX)
        ids = [pb.MessageIdData(ledgerId=7, entryId=n) for n in range(2 * long_command.IDS_MAX + 1)]
        command = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids)
        assert protocol.receive(reply(command) + PING) == []
        heard: list[tuple[int, int]] = []
        while protocol.has_more:
            for event in protocol.receive(b""):
                assert isinstance(event, Command)
                heard.append((protocol.part, len(event.message.message_ids)))  # type: ignore[attr-defined]
        assert heard == [(0, long_command.IDS_MAX), (1, long_command.IDS_MAX), (2, 1)]
        assert protocol.data_to_send() == [PONG]
        assert protocol.part == 0

    def test_what_was_received_whole_is_heard_whole_when_nothing_else_is(self) -> None:
        protocol = ready(max_message_size=COMMAND_SIZE_MAX)
        ids = [pb.MessageIdData(ledgerId=7, entryId=n) for n in range(long_command.IDS_MAX + 1)]
        ack = pb.CommandAck(consumer_id=1, ack_type=0, message_id=ids, request_id=5)
        flow = reply(pb.CommandFlow(consumer_id=1, messagePermits=3))
        assert protocol.receive(reply(ack) + flow) == []
        protocol.close()
        events = []
        while protocol.has_more:
            events += protocol.receive(flow)
        assert [type(event) for event in events] == [Ack, Ack]

    def test_commands_have_a_size(self) -> None:
        protocol = ready(max_message_size=10 * COMMAND_SIZE_MAX)
        ids = [pb.MessageIdData(ledgerId=2**40, entryId=entry) for entry in range(100_000)]
        redeliver = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=ids)
        assert len(reply(redeliver)) > COMMAND_SIZE_MAX
        events = protocol.receive(reply(redeliver))
        while protocol.has_more:
            events += protocol.receive(b"")
        event = events[-1]
        assert isinstance(event, Command)
        large = pb.CommandLookupTopic(topic="t" * COMMAND_SIZE_MAX, request_id=2)
        assert reason_of(protocol.receive(reply(large))) == "bad_command_size"


class TestAlive:
    def test_ping_is_answered_ahead_of_what_waits(self) -> None:
        protocol = ready()
        protocol.write(b"bulk")
        protocol.writelines([b"more", b"bulk"])
        assert protocol.receive(PING) == []
        assert protocol.data_to_send() == [PONG, b"bulk", b"more", b"bulk"]
        assert protocol.data_to_send() == []

    def test_our_own_ping(self) -> None:
        protocol = ready()
        protocol.write(b"bulk")
        protocol.ping()
        assert protocol.data_to_send() == [PING, b"bulk"]
        assert protocol.receive(PONG) == []

    @pytest.mark.parametrize("frame", [PING, PONG, SEND, reply(LOOKUP)])
    def test_any_whole_frame_is_a_sign_of_life(self, frame: bytes) -> None:
        protocol = ready()
        protocol.receive(frame[:-1])
        assert not protocol.heard
        protocol.receive(frame[-1:])
        assert protocol.heard


class TestFaults:
    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (bytes(4), "frame_short"),
            (bytes.fromhex("00000003"), "frame_short"),
            (bytes.fromhex("7fffffff"), "frame_too_large"),
            (bytes.fromhex("ffffffff"), "frame_too_large"),
            (bytes.fromhex("0000000400000000"), "bad_command_size"),
            (bytes.fromhex("0000000900000006"), "bad_command_size"),
            (bytes.fromhex("0000000600000002ffff"), "bad_command"),
            (bytes.fromhex("000000070000000208120 0".replace(" ", "")), "bad_command_size"),
            (b"GET / HTTP/1.1\r\n", "frame_too_large"),
            (bytes.fromhex("16030100"), "frame_too_large"),
        ],
    )
    def test_bad_bytes(self, data: bytes, reason: str) -> None:
        protocol = ready()
        events = protocol.receive(SEND + data + SEND)
        assert isinstance(events[0], Sends), "what came before still counts"
        assert reason_of(events) == reason
        assert len(events) == 2
        assert protocol.state is State.CLOSED
        assert protocol.error is not None
        assert protocol.error.reason == reason
        assert protocol.receive(SEND) == [], "nothing is heard after a fault"
        assert protocol.data_to_send() == []

    @pytest.mark.parametrize("kind", [49, 69, 70, 99])
    def test_unknown_commands_are_told_so(self, kind: int) -> None:
        protocol = ready()
        command = bytes([0x08, kind, 0x1A, 0x00])
        events = protocol.receive(bytes.fromhex("0000000800000004") + command)
        assert reason_of(events) == "unknown_command"
        [answer] = sent(protocol)
        assert isinstance(answer, pb.CommandError)
        assert answer.error == pb.UnsupportedVersionError
        assert str(kind) in answer.message

    def test_a_request_of_the_future_is_refused_and_the_connection_lives(self) -> None:
        protocol = ready()
        producer = pb.CommandProducer(topic="t", producer_id=1, request_id=5)
        body = producer.SerializeToString() + b"\x50\x09"
        command = b"\x08\x05\x2a" + bytes([len(body)]) + body
        frame = (len(command) + 4).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command
        [event] = protocol.receive(frame + SEND)
        assert isinstance(event, Sends)
        [answer] = sent(protocol)
        assert answer == pb.CommandError(
            request_id=5,
            error=pb.UnsupportedVersionError,
            message="PRODUCER with producer_access_mode 9",
        )

    @pytest.mark.parametrize(
        ("request_", "what"),
        [
            pytest.param(
                pb.CommandAddPartitionToTxn(partitions=["t"] * (REPEATED_MAX + 1)),
                f"ADD_PARTITION_TO_TXN with {REPEATED_MAX + 1} partitions",
                id="topics of a transaction",
            ),
            pytest.param(
                pb.CommandAddSubscriptionToTxn(
                    subscription=[pb.Subscription(topic="t", subscription="s")] * (REPEATED_MAX + 1)
                ),
                f"ADD_SUBSCRIPTION_TO_TXN with {REPEATED_MAX + 1} subscription",
                id="subscriptions of a transaction",
            ),
            pytest.param(
                pb.CommandEndTxn(also_txnid_least_bits=[1] * (REPEATED_MAX + 1)),
                f"END_TXN with {REPEATED_MAX + 1} also_txnid_least_bits",
                id="transactions that end together",
            ),
            pytest.param(
                pb.CommandAddPartitionToTxn(partitions=["t" * 1000] * (COMMAND_SIZE_MAX // 1000)),
                "a command of 10",
                id="names of topics that are too long together",
            ),
            pytest.param(
                pb.CommandAddSubscriptionToTxn(
                    subscription=[pb.Subscription(topic="t" * 1000, subscription="s")]
                    * (COMMAND_SIZE_MAX // 1000)
                ),
                "a command of 10",
                id="names of subscriptions that are too long together",
            ),
        ],
    )
    def test_a_request_that_names_too_much_is_refused_and_the_connection_lives(
        self, request_: Any, what: str
    ) -> None:
        protocol = ready(max_message_size=2 * COMMAND_SIZE_MAX)
        request_.request_id, request_.txnid_least_bits, request_.txnid_most_bits = 5, 300, 7
        events = protocol.receive(reply(request_) + SEND)
        while protocol.has_more:
            events += protocol.receive(b"")
        [event] = events
        assert isinstance(event, Sends)
        [answer] = sent(protocol)
        assert isinstance(
            answer,
            pb.CommandAddPartitionToTxnResponse
            | pb.CommandAddSubscriptionToTxnResponse
            | pb.CommandEndTxnResponse,
        )
        assert (answer.request_id, answer.txnid_least_bits, answer.txnid_most_bits) == (5, 300, 7)
        assert answer.error == pb.TooManyRequests
        assert answer.message.startswith(what)

    def test_too_many_properties_are_refused_where_there_is_an_answer(self) -> None:
        protocol = ready(max_message_size=COMMAND_SIZE_MAX)
        producer = pb.CommandProducer(topic="t", producer_id=1, request_id=5)
        producer.metadata.extend([pb.KeyValue(key="k", value="v")] * (REPEATED_MAX + 1))
        assert protocol.receive(reply(producer)) == []
        [answer] = sent(protocol)
        assert isinstance(answer, pb.CommandError)
        assert (answer.request_id, answer.error) == (5, pb.TooManyRequests)

    def test_too_many_properties_of_half_a_request_end_the_connection(self) -> None:
        """Which request would the refusal be of?"""
        producer = pb.CommandProducer(topic="t", producer_id=1)
        producer.metadata.extend([pb.KeyValue(key="k", value="v")] * (REPEATED_MAX + 1))
        body = producer.SerializePartialToString()
        command = b"\x08\x05\x2a" + encode_varint(len(body)) + body
        frame = (len(command) + 4).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command
        protocol = ready(max_message_size=COMMAND_SIZE_MAX)
        assert reason_of(protocol.receive(frame)) == "bad_command"
        assert sent(protocol) == []

    def test_an_ack_of_the_future_ends_the_connection(self) -> None:
        """It has no answer that could carry the refusal."""
        body = bytes.fromhex("08011002")
        command = b"\x08\x0a\x52" + bytes([len(body)]) + body
        frame = (len(command) + 4).to_bytes(4, "big") + len(command).to_bytes(4, "big") + command
        assert reason_of(ready().receive(frame)) == "unknown_value"

    def test_closed_by_us(self) -> None:
        protocol = ready()
        protocol.receive(SEND[:10])
        protocol.write(b"bye")
        protocol.close()
        assert protocol.receive(SEND[10:]) == []
        assert protocol.data_to_send() == [b"bye"]
        assert protocol.error is None


BROKERS_SAY: dict[int, Message] = {
    Kind.END_TXN_ON_PARTITION: pb.CommandEndTxnOnPartition(request_id=1),
    Kind.END_TXN_ON_PARTITION_RESPONSE: pb.CommandEndTxnOnPartitionResponse(request_id=1),
    Kind.END_TXN_ON_SUBSCRIPTION: pb.CommandEndTxnOnSubscription(request_id=1),
    Kind.END_TXN_ON_SUBSCRIPTION_RESPONSE: pb.CommandEndTxnOnSubscriptionResponse(request_id=1),
}

BROKER_SAYS: dict[int, Message] = {
    Kind.NEW_TXN_RESPONSE: pb.CommandNewTxnResponse(request_id=1),
    Kind.ADD_PARTITION_TO_TXN_RESPONSE: pb.CommandAddPartitionToTxnResponse(request_id=1),
    Kind.ADD_SUBSCRIPTION_TO_TXN_RESPONSE: pb.CommandAddSubscriptionToTxnResponse(request_id=1),
    Kind.END_TXN_RESPONSE: pb.CommandEndTxnResponse(request_id=1),
    Kind.TC_CLIENT_CONNECT_RESPONSE: pb.CommandTcClientConnectResponse(request_id=1),
    Kind.CONNECTED: pb.CommandConnected(server_version="x"),
    Kind.AUTH_CHALLENGE: pb.CommandAuthChallenge(),
    Kind.SUCCESS: pb.CommandSuccess(request_id=1),
    Kind.ERROR: pb.CommandError(request_id=1, error=pb.UnknownError, message=""),
    Kind.PARTITIONED_METADATA_RESPONSE: pb.CommandPartitionedTopicMetadataResponse(request_id=1),
    Kind.LOOKUP_RESPONSE: pb.CommandLookupTopicResponse(request_id=1),
    Kind.GET_TOPICS_OF_NAMESPACE_RESPONSE: pb.CommandGetTopicsOfNamespaceResponse(request_id=1),
    Kind.WATCH_TOPIC_LIST_SUCCESS: pb.CommandWatchTopicListSuccess(
        request_id=1, watcher_id=1, topics_hash=""
    ),
    Kind.WATCH_TOPIC_UPDATE: pb.CommandWatchTopicUpdate(watcher_id=1, topics_hash=""),
    Kind.PRODUCER_SUCCESS: pb.CommandProducerSuccess(request_id=1, producer_name="p"),
    Kind.SEND_RECEIPT: pb.CommandSendReceipt(producer_id=1, sequence_id=1),
    Kind.SEND_ERROR: pb.CommandSendError(
        producer_id=1, sequence_id=1, error=pb.UnknownError, message=""
    ),
    Kind.MESSAGE: pb.CommandMessage(
        consumer_id=1, message_id=pb.MessageIdData(ledgerId=1, entryId=1)
    ),
    Kind.ACK_RESPONSE: pb.CommandAckResponse(consumer_id=1),
    Kind.GET_LAST_MESSAGE_ID_RESPONSE: pb.CommandGetLastMessageIdResponse(
        request_id=1, last_message_id=pb.MessageIdData(ledgerId=1, entryId=1)
    ),
    Kind.CONSUMER_STATS_RESPONSE: pb.CommandConsumerStatsResponse(request_id=1),
    Kind.ACTIVE_CONSUMER_CHANGE: pb.CommandActiveConsumerChange(consumer_id=1),
    Kind.REACHED_END_OF_TOPIC: pb.CommandReachedEndOfTopic(consumer_id=1),
    Kind.TOPIC_MIGRATED: pb.CommandTopicMigrated(
        resource_id=1, resource_type=pb.CommandTopicMigrated.Producer
    ),
    Kind.GET_SCHEMA_RESPONSE: pb.CommandGetSchemaResponse(request_id=1),
    Kind.GET_OR_CREATE_SCHEMA_RESPONSE: pb.CommandGetOrCreateSchemaResponse(request_id=1),
    Kind.GET_MESSAGE_ID_BY_INDEX_RESPONSE: pb.CommandGetMessageIdByIndexResponse(request_id=1),
}


class TestClient:
    CONNECTED = pb.CommandConnected(
        server_version="milepost", protocol_version=20, max_message_size=10_000
    )

    @staticmethod
    def ready() -> ClientProtocol:
        protocol = ClientProtocol()
        protocol.connect(CONNECT)
        protocol.receive(reply(TestClient.CONNECTED))
        protocol.data_to_send()
        return protocol

    def test_the_handshake(self) -> None:
        protocol = ClientProtocol()
        protocol.connect(CONNECT)
        assert sent(protocol) == [CONNECT]
        assert protocol.state is State.CONNECTING
        events = protocol.receive(reply(self.CONNECTED))
        assert events == [Command(Kind.CONNECTED, self.CONNECTED)]
        assert protocol.state is State.READY
        assert protocol.max_message_size == 10_000
        assert protocol.peer is not None
        assert protocol.peer.protocol_version == 20

    def test_a_challenge_and_a_refusal_come_before_connected(self) -> None:
        protocol = ClientProtocol()
        protocol.connect(CONNECT)
        challenge = pb.CommandAuthChallenge()
        refusal = BROKER_SAYS[Kind.ERROR]
        events = protocol.receive(reply(challenge) + reply(refusal))
        assert [event.kind for event in events if isinstance(event, Command)] == [
            Kind.AUTH_CHALLENGE,
            Kind.ERROR,
        ]

    def test_a_broker_that_announces_no_limit(self) -> None:
        protocol = ClientProtocol()
        protocol.connect(CONNECT)
        protocol.receive(reply(pb.CommandConnected(server_version="old")))
        assert protocol.max_message_size == 5 * 1024 * 1024 - 10 * 1024

    def test_nothing_else_comes_before_connected(self) -> None:
        protocol = ClientProtocol()
        assert reason_of(protocol.receive(reply(self.CONNECTED))) == "before_connect"
        protocol = ClientProtocol()
        protocol.connect(CONNECT)
        events = protocol.receive(reply(BROKER_SAYS[Kind.SUCCESS]))
        assert reason_of(events) == "before_connect"
        assert reason_of(self.ready().receive(reply(self.CONNECTED))) == "second_connect"

    def test_messages_and_receipts(self) -> None:
        head = MessageEncoder(1, partition=2).head(7, 8, entry_size=5, consumer_epoch=3)
        events = self.ready().receive(head + b"entry" + send_receipt(1, 9, 7, 8))
        assert events == [
            Delivery(1, 7, 8, 2, 0, (), 3, b"entry"),
            Receipt(1, 9, 0, 7, 8),
        ]

    def test_unusual_messages_and_receipts(self) -> None:
        receipt = BROKER_SAYS[Kind.SEND_RECEIPT]
        message = pb.CommandMessage(
            consumer_id=1, message_id=pb.MessageIdData(ledgerId=7, entryId=8, batch_size=3)
        )
        events = self.ready().receive(reply(receipt) + reply(message))
        assert events == [Receipt(1, 1, 0, -1, -1), Delivery(1, 7, 8, -1, 0, (), -1, b"")]

    @pytest.mark.parametrize("kind", sorted(BROKER_SAYS))
    def test_everything_a_broker_says_is_heard(self, kind: int) -> None:
        [event] = self.ready().receive(reply(BROKER_SAYS[kind]))
        if kind == Kind.CONNECTED:
            assert isinstance(event, Fault)
        else:
            assert not isinstance(event, Fault)

    def test_what_only_a_client_says(self) -> None:
        assert reason_of(self.ready().receive(reply(LOOKUP))) == "unexpected_command"
        assert reason_of(self.ready().receive(SEND)) == "bad_command_size"

    def test_ping(self) -> None:
        protocol = self.ready()
        protocol.send(LOOKUP)
        assert protocol.receive(PING) == []
        assert protocol.data_to_send() == [PONG, reply(LOOKUP)]

    def test_an_error_code_of_the_future_is_still_an_error(self) -> None:
        error = bytearray(reply(pb.CommandError(request_id=1, error=pb.MetadataError, message="m")))
        at = error.index(b"\x10\x01")
        error[at + 1] = 99
        [event] = self.ready().receive(bytes(error))
        assert event == Command(Kind.ERROR, event.message)  # type: ignore[union-attr]
        assert isinstance(event, Command)
        assert isinstance(event.message, pb.CommandError)
        assert event.message.error == pb.UnknownError
        assert event.message.message == "m"

    def test_any_other_value_of_the_future_is_a_fault(self) -> None:
        lookup = bytearray(
            reply(
                pb.CommandLookupTopicResponse(
                    request_id=1, response=pb.CommandLookupTopicResponse.Connect
                )
            )
        )
        lookup[lookup.index(b"\x18\x01") + 1] = 9
        assert reason_of(self.ready().receive(bytes(lookup))) == "unknown_value"

    def test_an_unknown_value_inside_a_part_is_a_fault(self) -> None:
        schema = pb.Schema(name="s", schema_data=b"", type=pb.Schema.Json)
        answer = pb.CommandGetSchemaResponse(request_id=1, schema=schema)
        frame = replies.reply(answer)
        assert frame.count(b"\x20\x02") == 1
        frame = frame.replace(b"\x20\x02", b"\x20\x63")
        assert reason_of(self.ready().receive(frame)) == "unknown_value"

    def test_a_frame_over_the_clients_limit(self) -> None:
        protocol = ClientProtocol(frame_max=100)
        protocol.connect(CONNECT)
        assert reason_of(protocol.receive((101).to_bytes(4, "big"))) == "frame_too_large"


class TestWorkInOneTurn:
    """However large an ACK or REDELIVER is, each call hears a bounded part of it."""

    EVERY_SECOND = 0x5555_5555_5555_5555

    def heard(self, data: bytes, frame_max: int = 8 * 1024 * 1024) -> list[tuple[int, int]]:
        """Ids and words of ack sets that each call heard."""
        protocol = ready(max_message_size=frame_max)
        work: list[tuple[int, int]] = []
        events = protocol.receive(data + PING)
        while True:
            ids = words = 0
            for event in events:
                if isinstance(event, Ack):
                    ids += len(event.ids)
                    words += sum(len(one.ack_set) for one in event.ids)
                elif isinstance(event, Command):
                    ids += len(event.message.message_ids)  # type: ignore[attr-defined]
                else:
                    raise AssertionError(event)
            work.append((ids, words))
            if not protocol.has_more:
                assert protocol.data_to_send() == [PONG]
                return work
            events = protocol.receive(b"")

    def test_one_large_set(self) -> None:
        """Less than 100 kB that mean a quarter of a million ranges."""
        one = pb.MessageIdData(ledgerId=7, entryId=8, ack_set=[self.EVERY_SECOND] * 7_800)
        command = reply(pb.CommandAck(consumer_id=1, ack_type=0, message_id=[one], request_id=5))
        work = self.heard(command)
        assert sum(words for _, words in work) == 7_800
        assert max(words for _, words in work) <= ack_slices.RANGES_MAX // 32

    def test_many_ids_with_sets(self) -> None:
        ids = [
            pb.MessageIdData(ledgerId=7, entryId=n, ack_set=[self.EVERY_SECOND] * 50)
            for n in range(2_000)
        ]
        work = self.heard(reply(pb.CommandAck(consumer_id=1, ack_type=0, message_id=ids)))
        assert sum(words for _, words in work) == 2_000 * 50
        assert max(words for _, words in work) <= ack_slices.RANGES_MAX // 32

    @pytest.mark.parametrize("kind", [pb.CommandAck, pb.CommandRedeliverUnacknowledgedMessages])
    def test_a_frame_full_of_ids_is_looked_through_in_steps(self, kind: Any) -> None:
        one = pb.MessageIdData(ledgerId=7, entryId=8)
        count = 150_000
        command = kind(consumer_id=1)
        if kind is pb.CommandAck:
            command.ack_type = 0
            command.message_id.extend([one] * count)
        else:
            command.message_ids.extend([one] * count)
        work = self.heard(reply(command))
        assert sum(ids for ids, _ in work) == count
        assert max(ids for ids, _ in work) <= long_command.IDS_MAX
        silent = sum(ids == 0 for ids, _ in work)
        assert silent >= count // long_command.IDS_PER_LOOK - 1

    def test_an_id_larger_than_any_batch_is_refused(self) -> None:
        one = pb.MessageIdData(ledgerId=7, entryId=8, ack_set=[-1] * 20_000)
        command = pb.CommandAck(consumer_id=1, ack_type=0, message_id=[one])
        protocol = ready(max_message_size=8 * 1024 * 1024)
        assert reason_of(protocol.receive(reply(command))) == "bad_command_size"


@pytest.mark.parametrize("before", [b"", SEND], ids=["alone", "behind a SEND"])
def test_very_many_commands_of_transactions_are_heard_in_several_goes(before: bytes) -> None:
    protocol, most = ready(), HEARD_MAX // TRANSACTION_WEIGHT
    new = reply(pb.CommandNewTxn(request_id=1, txn_ttl_millis=60_000, tc_id=0))
    heard = protocol.receive(before + new * (most + 3))
    assert (len(heard) - bool(before), protocol.has_more) == (most, True)
    assert (len(protocol.receive(b"")), protocol.has_more) == (3, False)


def test_very_many_sends_that_few_clients_write_so_are_heard_in_several_goes() -> None:
    """Each takes the library ten times as long as the scanner takes for one as clients write it."""
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1)
    unusual = b"".join(send_frame(3, 7, metadata.SerializeToString(), b"payload"))
    protocol, most = ready(), HEARD_MAX // SEND_WEIGHT
    [first] = protocol.receive(unusual * (most + 3))
    assert protocol.has_more
    [rest] = protocol.receive(b"")
    assert isinstance(first, Sends)
    assert isinstance(rest, Sends)
    assert (len(first.sends), len(rest.sends), protocol.has_more) == (most, 3, False)
    [usual] = protocol.receive(SEND * (2 * HEARD_MAX))
    assert isinstance(usual, Sends)
    assert (len(usual.sends), protocol.has_more) == (2 * HEARD_MAX, False)
