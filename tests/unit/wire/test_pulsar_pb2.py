"""The generated module is what pulsar.proto says, and pulsar.proto says what the protocol does."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.wire import pulsar_pb2 as pb

SOURCES = Path(pb.__file__).parent.parent.parent
GENERATED = ("milepost/wire/pulsar_pb2.py", "milepost/wire/pulsar_pb2.pyi")


def test_the_generated_files_are_up_to_date(tmp_path: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    arguments = ["protoc", f"-I{SOURCES}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    assert protoc.main([*arguments, "milepost/wire/pulsar.proto"]) == 0
    for name in GENERATED:
        assert (tmp_path / name).read_text() == (SOURCES / name).read_text(), f"regenerate {name}"


def test_a_command_has_the_number_of_its_type() -> None:
    base = pb.BaseCommand.DESCRIPTOR
    kinds = dict(pb.BaseCommand.Type.items())
    fields = {field.number for field in base.fields} - {1}
    assert fields == set(kinds.values())
    assert len([number for number in kinds.values() if number < 1000]) == 58
    # Milepost's own, far from where the protocol grows.
    assert {name for name, number in kinds.items() if number >= 1000} == {
        "GET_MESSAGE_ID_BY_INDEX",
        "GET_MESSAGE_ID_BY_INDEX_RESPONSE",
    }
    assert all(base.fields_by_number[n].message_type.name.startswith("Command") for n in fields)


def test_numbers_of_the_future_stay_free() -> None:
    assert not set(pb.BaseCommand.Type.values()) & set(range(70, 82))


def test_transactions_have_the_numbers_that_clients_know() -> None:
    kinds = pb.BaseCommand.Type
    numbers = {name: number for name, number in kinds.items() if 50 <= number < 64}
    assert sorted(numbers.values()) == list(range(50, 64))
    # Each answer is the next number.
    for name in ("NEW_TXN", "ADD_PARTITION_TO_TXN", "ADD_SUBSCRIPTION_TO_TXN", "END_TXN"):
        assert numbers[f"{name}_RESPONSE"] == numbers[name] + 1
    assert numbers["TC_CLIENT_CONNECT_RESPONSE"] == numbers["TC_CLIENT_CONNECT_REQUEST"] + 1
    assert (kinds.NEW_TXN, kinds.END_TXN, kinds.TC_CLIENT_CONNECT_REQUEST) == (50, 56, 62)
    assert (kinds.END_TXN_ON_PARTITION, kinds.END_TXN_ON_SUBSCRIPTION) == (58, 60)
    assert (pb.TxnAction.COMMIT, pb.TxnAction.ABORT) == (0, 1)


# Numbers that are easy to get wrong: gaps, late additions, and PIPs' own.
NUMBERS = {
    "CommandSeek": {"message_publish_time": 4, "consumer_epoch": 5},
    "MessageIdData": {"batch_index": 4, "ack_set": 5, "batch_size": 6, "first_chunk_message_id": 7},
    "CommandConsumerStats": {"request_id": 1, "consumer_id": 4},
    "KeySharedMeta": {"keySharedMode": 1, "hashRanges": 3, "allowOutOfOrderDelivery": 4},
    "Schema": {"name": 1, "schema_data": 3, "type": 4, "properties": 5},
    "CommandAck": {"message_id": 3, "validation_error": 4, "txnid_least_bits": 6, "request_id": 8},
    "CommandAckResponse": {"consumer_id": 1, "error": 4, "message": 5, "request_id": 6},
    "CommandMessage": {"redelivery_count": 3, "ack_set": 4, "consumer_epoch": 5},
    "CommandSubscribe": {"initialPosition": 13, "keySharedMeta": 17, "consumer_epoch": 19},
    "CommandRedeliverUnacknowledgedMessages": {"message_ids": 2, "consumer_epoch": 3},
    "CommandLookupTopicResponse": {"response": 3, "request_id": 4, "error": 6, "message": 7},
    "CommandPartitionedTopicMetadataResponse": {"partitions": 1, "request_id": 2, "response": 3},
    "CommandSend": {"num_messages": 3, "highest_sequence_id": 6, "is_chunk": 7, "message_id": 9},
    "CommandSendReceipt": {"message_id": 3, "highest_sequence_id": 4},
    "CommandConnect": {"protocol_version": 4, "auth_method_name": 5, "feature_flags": 10},
    "CommandConnected": {"protocol_version": 2, "max_message_size": 3, "feature_flags": 4},
    "CommandNewTxn": {"request_id": 1, "txn_ttl_millis": 2, "tc_id": 3},
    "CommandNewTxnResponse": {"txnid_least_bits": 2, "txnid_most_bits": 3, "error": 4},
    "CommandAddPartitionToTxn": {"txnid_least_bits": 2, "txnid_most_bits": 3, "partitions": 4},
    "CommandAddSubscriptionToTxn": {"txnid_most_bits": 3, "subscription": 4},
    "Subscription": {"topic": 1, "subscription": 2},
    "CommandEndTxn": {"txnid_least_bits": 2, "txnid_most_bits": 3, "txn_action": 4},
    "CommandEndTxnResponse": {"txnid_most_bits": 3, "error": 4, "message": 5},
    "CommandTcClientConnectRequest": {"request_id": 1, "tc_id": 2},
    "CommandTcClientConnectResponse": {"request_id": 1, "error": 2, "message": 3},
    "BrokerEntryMetadata": {"broker_timestamp": 1, "index": 2},
    "SingleMessageMetadata": {"payload_size": 3, "sequence_id": 8, "null_partition_key": 10},
    "MessageMetadata": {
        "partition_key": 6,
        "compression": 8,
        "uncompressed_size": 9,
        "num_messages_in_batch": 11,
        "event_time": 12,
        "ordering_key": 18,
        "deliver_at_time": 19,
        "marker_type": 20,
        "txnid_least_bits": 22,
        "txnid_most_bits": 23,
        "highest_sequence_id": 24,
        "uuid": 26,
        "num_chunks_from_msg": 27,
        "total_chunk_msg_size": 28,
        "chunk_id": 29,
        "null_partition_key": 30,
    },
}


@pytest.mark.parametrize("name", NUMBERS)
def test_field_numbers(name: str) -> None:
    fields = pb.DESCRIPTOR.message_types_by_name[name].fields_by_name
    assert {field: fields[field].number for field in NUMBERS[name]} == NUMBERS[name]


def test_defaults_that_a_silent_peer_means() -> None:
    assert pb.MessageIdData().partition == pb.MessageIdData().batch_index == -1
    assert pb.CommandProducerSuccess().last_sequence_id == -1
    assert pb.CommandProducerSuccess().producer_ready
    assert pb.CommandSubscribe().durable
    assert pb.CommandSubscribe().force_topic_creation
    assert pb.CommandPartitionedTopicMetadata().metadata_auto_creation_enabled
    assert pb.CommandGetTopicsOfNamespaceResponse().changed
    assert pb.CommandSend().num_messages == pb.MessageMetadata().num_messages_in_batch == 1


def test_server_errors() -> None:
    assert len(pb.ServerError.items()) == 26
    assert (pb.ServerError.ChecksumError, pb.ServerError.NotAllowedError) == (9, 22)
    assert pb.ServerError.ProducerFenced == 25
