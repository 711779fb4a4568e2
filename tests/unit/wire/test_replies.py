from __future__ import annotations

import pytest
from google.protobuf.message import Message

from milepost.positions import TxnId
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import (
    FROM_BROKER,
    FROM_CLIENT,
    Kind,
    decode_command,
    kind_name,
    kind_of,
)
from milepost.wire.events import Command
from milepost.wire.replies import ServerError, refusal

LAST = 2**64 - 1

# What the C++ client of release 4.2.0 takes; it closes its connection on anything else.
CPP_TAKES = {
    "SEND_RECEIPT",
    "SEND_ERROR",
    "SUCCESS",
    "ERROR",
    "PARTITIONED_METADATA_RESPONSE",
    "CONSUMER_STATS_RESPONSE",
    "LOOKUP_RESPONSE",
    "PRODUCER_SUCCESS",
    "TOPIC_MIGRATED",
    "CLOSE_PRODUCER",
    "CLOSE_CONSUMER",
    "PING",
    "PONG",
    "AUTH_CHALLENGE",
    "ACTIVE_CONSUMER_CHANGE",
    "GET_LAST_MESSAGE_ID_RESPONSE",
    "GET_TOPICS_OF_NAMESPACE_RESPONSE",
    "GET_SCHEMA_RESPONSE",
    "ACK_RESPONSE",
    "MESSAGE",
}


def read(frame: bytes | None) -> Message:
    assert frame is not None, "no reply"
    total, size = int.from_bytes(frame[:4], "big"), int.from_bytes(frame[4:8], "big")
    assert total == size + 4 == len(frame) - 4
    kind, message = decode_command(frame[8:])
    assert kind in FROM_BROKER, f"{kind_name(kind)} is not a broker's"
    return message


ID = pb.MessageIdData(ledgerId=1, entryId=2)
SCHEMA = pb.Schema(name="s", schema_data=b"{}", type=pb.Schema.Json)
FLAGS = pb.FeatureFlags(supports_topic_watchers=True)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (replies.PING, pb.CommandPing()),
        (replies.PONG, pb.CommandPong()),
        (
            replies.connected("milepost", 20, 5000, FLAGS),
            pb.CommandConnected(
                server_version="milepost",
                protocol_version=20,
                max_message_size=5000,
                feature_flags=FLAGS,
            ),
        ),
        (
            replies.auth_challenge("milepost", 20, "token", b"?"),
            pb.CommandAuthChallenge(
                server_version="milepost",
                protocol_version=20,
                challenge=pb.AuthData(auth_method_name="token", auth_data=b"?"),
            ),
        ),
        (replies.success(7), pb.CommandSuccess(request_id=7)),
        (replies.success(7, SCHEMA), pb.CommandSuccess(request_id=7, schema=SCHEMA)),
        (
            replies.error(replies.UNSOLICITED, 3, "who?"),
            pb.CommandError(request_id=LAST, error=3, message="who?"),  # type: ignore[arg-type]
        ),
        (
            replies.partitions(7, 4),
            pb.CommandPartitionedTopicMetadataResponse(request_id=7, response=0, partitions=4),  # type: ignore[arg-type]
        ),
        (
            replies.lookup_connect(7, "pulsar://h:1"),
            pb.CommandLookupTopicResponse(
                request_id=7,
                response=pb.CommandLookupTopicResponse.Connect,
                brokerServiceUrl="pulsar://h:1",
                authoritative=True,
                proxy_through_service_url=False,
            ),
        ),
        (
            replies.topics(7, ["a", "b"], filtered=True, topics_hash="h", changed=True),
            pb.CommandGetTopicsOfNamespaceResponse(
                request_id=7, topics=["a", "b"], filtered=True, topics_hash="h", changed=True
            ),
        ),
        (
            replies.watch_topic_list(7, 1, ["a"], "h"),
            pb.CommandWatchTopicListSuccess(
                request_id=7, watcher_id=1, topic=["a"], topics_hash="h"
            ),
        ),
        (
            replies.watch_topic_update(1, ["a"], ["b"], "h"),
            pb.CommandWatchTopicUpdate(
                watcher_id=1, new_topics=["a"], deleted_topics=["b"], topics_hash="h"
            ),
        ),
        (
            replies.producer_success(7, "p", last_sequence_id=9, schema_version=bytes(8)),
            pb.CommandProducerSuccess(
                request_id=7,
                producer_name="p",
                last_sequence_id=9,
                schema_version=bytes(8),
                producer_ready=True,
            ),
        ),
        (
            replies.producer_success(7, "p", topic_epoch=2, ready=False),
            pb.CommandProducerSuccess(
                request_id=7,
                producer_name="p",
                last_sequence_id=-1,
                topic_epoch=2,
                producer_ready=False,
            ),
        ),
        (
            replies.send_error(1, 7, 9, "checksum"),
            pb.CommandSendError(producer_id=1, sequence_id=7, error=9, message="checksum"),  # type: ignore[arg-type]
        ),
        (replies.close_producer(1), pb.CommandCloseProducer(producer_id=1, request_id=LAST)),
        (
            replies.close_consumer(1, url="pulsar://h:1"),
            pb.CommandCloseConsumer(
                consumer_id=1, request_id=LAST, assignedBrokerServiceUrl="pulsar://h:1"
            ),
        ),
        (
            replies.ack_failed(1, 7, 22, "no"),
            pb.CommandAckResponse(consumer_id=1, request_id=7, error=22, message="no"),  # type: ignore[arg-type]
        ),
        (
            replies.last_message_id(7, ID),
            pb.CommandGetLastMessageIdResponse(request_id=7, last_message_id=ID),
        ),
        (
            replies.last_message_id(7, replies.message_id_data(-1, -1), ID),
            pb.CommandGetLastMessageIdResponse(
                request_id=7,
                last_message_id=pb.MessageIdData(ledgerId=LAST, entryId=LAST),
                consumer_mark_delete_position=ID,
            ),
        ),
        (
            replies.active_consumer_change(1, True),
            pb.CommandActiveConsumerChange(consumer_id=1, is_active=True),
        ),
        (replies.reached_end_of_topic(1), pb.CommandReachedEndOfTopic(consumer_id=1)),
        (
            replies.schema(7, SCHEMA, bytes(8)),
            pb.CommandGetSchemaResponse(request_id=7, schema=SCHEMA, schema_version=bytes(8)),
        ),
        (
            replies.schema_version(7, bytes(8)),
            pb.CommandGetOrCreateSchemaResponse(request_id=7, schema_version=bytes(8)),
        ),
        (replies.coordinator_connected(7), pb.CommandTcClientConnectResponse(request_id=7)),
        # The first transaction of all: zeros are written, for Go reads them unasked.
        (
            replies.new_transaction(7, TxnId(0, 0)),
            pb.CommandNewTxnResponse(request_id=7, txnid_most_bits=0, txnid_least_bits=0),
        ),
        (
            replies.partitions_added(7, TxnId(3, 5)),
            pb.CommandAddPartitionToTxnResponse(
                request_id=7, txnid_most_bits=3, txnid_least_bits=5
            ),
        ),
        (
            replies.subscriptions_added(7, TxnId(3, 5)),
            pb.CommandAddSubscriptionToTxnResponse(
                request_id=7, txnid_most_bits=3, txnid_least_bits=5
            ),
        ),
        (
            replies.transaction_ended(7, TxnId(3, -1)),
            pb.CommandEndTxnResponse(request_id=7, txnid_most_bits=3, txnid_least_bits=LAST),
        ),
    ],
)
def test_replies(frame: bytes, message: Message) -> None:
    assert read(frame) == message


def test_message_ids_leave_out_what_is_the_default() -> None:
    assert replies.message_id_data(1, 2) == ID
    full = replies.message_id_data(1, 2, partition=3, batch_index=4)
    assert (full.partition, full.batch_index) == (3, 4)


# --- refusals ---------------------------------------------------------------------------------

REQUESTS: list[Message] = [
    pb.CommandConnect(client_version="c"),
    pb.CommandAuthResponse(),
    pb.CommandPing(),
    pb.CommandPong(),
    pb.CommandPartitionedTopicMetadata(topic="t", request_id=7),
    pb.CommandLookupTopic(topic="t", request_id=7),
    pb.CommandGetTopicsOfNamespace(namespace="n", request_id=7),
    pb.CommandWatchTopicList(request_id=7, watcher_id=1, namespace="n", topics_pattern=".*"),
    pb.CommandWatchTopicListClose(request_id=7, watcher_id=1),
    pb.CommandProducer(topic="t", producer_id=1, request_id=7),
    pb.CommandSend(producer_id=1, sequence_id=7),
    pb.CommandCloseProducer(producer_id=1, request_id=7),
    pb.CommandSubscribe(
        topic="t",
        subscription="s",
        subType=pb.CommandSubscribe.Shared,
        consumer_id=1,
        request_id=7,
    ),
    pb.CommandFlow(consumer_id=1, messagePermits=1),
    pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, request_id=7),
    pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1),
    pb.CommandSeek(consumer_id=1, request_id=7),
    pb.CommandGetLastMessageId(consumer_id=1, request_id=7),
    pb.CommandConsumerStats(consumer_id=1, request_id=7),
    pb.CommandUnsubscribe(consumer_id=1, request_id=7),
    pb.CommandCloseConsumer(consumer_id=1, request_id=7),
    pb.CommandGetSchema(request_id=7, topic="t"),
    pb.CommandGetOrCreateSchema(request_id=7, topic="t", schema=SCHEMA),
    pb.CommandGetMessageIdByIndex(request_id=7, topic="t", index=3),
    pb.CommandTcClientConnectRequest(request_id=7, tc_id=2),
    pb.CommandNewTxn(request_id=7, tc_id=2),
    pb.CommandAddPartitionToTxn(request_id=7, txnid_most_bits=2, txnid_least_bits=5),
    pb.CommandAddSubscriptionToTxn(request_id=7, txnid_most_bits=2, txnid_least_bits=5),
    pb.CommandEndTxn(request_id=7, txnid_most_bits=2, txnid_least_bits=5),
]

# Requests whose failure C++, or Java, looks for elsewhere than in ERROR.
OWN_REPLY = {
    "LOOKUP": "LOOKUP_RESPONSE",
    "PARTITIONED_METADATA": "PARTITIONED_METADATA_RESPONSE",
    "GET_SCHEMA": "GET_SCHEMA_RESPONSE",
    "GET_OR_CREATE_SCHEMA": "GET_OR_CREATE_SCHEMA_RESPONSE",
    "GET_MESSAGE_ID_BY_INDEX": "GET_MESSAGE_ID_BY_INDEX_RESPONSE",
    "CONSUMER_STATS": "CONSUMER_STATS_RESPONSE",
    "ACK": "ACK_RESPONSE",
    "NEW_TXN": "NEW_TXN_RESPONSE",
    "ADD_PARTITION_TO_TXN": "ADD_PARTITION_TO_TXN_RESPONSE",
    "ADD_SUBSCRIPTION_TO_TXN": "ADD_SUBSCRIPTION_TO_TXN_RESPONSE",
    "END_TXN": "END_TXN_RESPONSE",
}
TRANSACTIONAL = {"NEW_TXN", "ADD_PARTITION_TO_TXN", "ADD_SUBSCRIPTION_TO_TXN", "END_TXN"}
UNANSWERED = {"PING", "PONG", "FLOW", "REDELIVER_UNACKNOWLEDGED_MESSAGES", "SEND"}


def test_every_request_is_listed() -> None:
    assert {kind_of(request) for request in REQUESTS} == FROM_CLIENT


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: kind_name(kind_of(r)))
def test_each_request_is_refused_in_its_own_reply(request_: Message) -> None:
    name = kind_name(kind_of(request_))
    frame = refusal(Command(kind_of(request_), request_), ServerError.TopicNotFound, "no topic t")
    if name in UNANSWERED:
        assert frame is None
        return
    answer = read(frame)
    reply_name = kind_name(kind_of(answer))
    assert reply_name == OWN_REPLY.get(name, "ERROR")
    never_sent_by_cpp = {"GET_OR_CREATE_SCHEMA", "GET_MESSAGE_ID_BY_INDEX", *TRANSACTIONAL}
    assert reply_name in CPP_TAKES or name in never_sent_by_cpp
    fields = {field.name: value for field, value in answer.ListFields()}
    assert fields["request_id"] == (LAST if name in ("CONNECT", "AUTH_RESPONSE") else 7)
    assert ServerError.TopicNotFound in (fields.get("error"), fields.get("error_code"))
    assert "no topic t" in (fields.get("message"), fields.get("error_message"))
    if name in TRANSACTIONAL:
        assert fields["txnid_most_bits"] == 2
        assert fields.get("txnid_least_bits", 5) == 5


def test_lookups_that_failed_say_so() -> None:
    """Beside the code: C++ looks at the response type first."""
    lookup = pb.CommandLookupTopic(topic="t", request_id=7)
    answer = read(refusal(Command(Kind.LOOKUP, lookup), 11, ""))
    assert isinstance(answer, pb.CommandLookupTopicResponse)
    assert answer.response == pb.CommandLookupTopicResponse.Failed
    partitions = pb.CommandPartitionedTopicMetadata(topic="t", request_id=7)
    answer = read(refusal(Command(Kind.PARTITIONED_METADATA, partitions), 11, ""))
    assert isinstance(answer, pb.CommandPartitionedTopicMetadataResponse)
    assert answer.response == pb.CommandPartitionedTopicMetadataResponse.Failed


def test_an_ack_without_a_request_has_no_refusal() -> None:
    ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual)
    assert refusal(Command(Kind.ACK, ack), 22, "no") is None


def test_no_error_code_is_invented() -> None:
    """One that C++ does not know makes it drop the connection and try for ever."""
    answer = read(replies.error(7, 99, "?"))
    assert isinstance(answer, pb.CommandError)
    assert answer.error == ServerError.UnknownError
