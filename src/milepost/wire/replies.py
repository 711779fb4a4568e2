"""Builds the broker's replies that are not hot, errors included.

The type of an error's reply matters as much as its code. The C++ client resolves a CommandError only
for generic requests; for a lookup, a partition count, a schema or consumer statistics it ignores it
and hangs until its timeout. `refusal` knows the reply that answers each request.

Nothing here makes a command that the C++ client of release 4.2.0 closes its connection for, but
`reached_end_of_topic` and `watch_topic_*`: ask `Peer.understands` before sending one of those.

    >>> from milepost.wire.commands import decode_command
    >>> lookup = Command(pb.BaseCommand.LOOKUP, pb.CommandLookupTopic(topic="x", request_id=1))
    >>> frame = refusal(lookup, pb.TopicNotFound, "no topic x")     # None: nothing answers the command
    >>> type(decode_command(frame[8:]).message).__name__
    'CommandLookupTopicResponse'

Ids are given signed. `UNSOLICITED` is the request id of what no request asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, cast

from google.protobuf.message import Message

from milepost.positions import TxnId, unsigned64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import encode_command
from milepost.wire.events import (
    AddSubscriptions,
    AddTopics,
    Command,
    EndTransaction,
    NewTransaction,
    TransactionRequest,
)
from milepost.wire.frames import command_frame
from milepost.wire.scanners.encode import success as plain_success
from milepost.wire.scanners.encode import transaction_response
from milepost.wire.scanners.transaction_scan import read_transaction

ServerError = pb.ServerError

UNSOLICITED: Final = -1


def reply(message: Message) -> bytes:
    """The frame of any command."""
    return command_frame(encode_command(message))


# --- handshake ------------------------------------------------------------------------------------

PING: Final = reply(pb.CommandPing())
PONG: Final = reply(pb.CommandPong())


def connected(
    server_version: str, protocol_version: int, max_message_size: int, flags: pb.FeatureFlags
) -> bytes:
    """CONNECTED. C++ closes the connection when the server version is missing."""
    return reply(
        pb.CommandConnected(
            server_version=server_version,
            protocol_version=protocol_version,
            max_message_size=max_message_size,
            feature_flags=flags,
        )
    )


def auth_challenge(
    server_version: str, protocol_version: int, auth_method: str, challenge: bytes
) -> bytes:
    """AUTH_CHALLENGE. C++ takes it only after CONNECTED, to refresh its credentials."""
    return reply(
        pb.CommandAuthChallenge(
            server_version=server_version,
            protocol_version=protocol_version,
            challenge=pb.AuthData(auth_method_name=auth_method, auth_data=challenge),
        )
    )


# --- generic --------------------------------------------------------------------------------------


def success(
    request_id: int, schema: pb.Schema | None = None, *, cursor_epoch: int | None = None
) -> bytes:
    """`cursor_epoch` (Milepost's own) only to consumers that follow resets in place."""
    if schema is None and cursor_epoch is None:
        return plain_success(request_id)
    return reply(
        pb.CommandSuccess(
            request_id=unsigned64(request_id), schema=schema, cursor_epoch=cursor_epoch
        )
    )


def error(request_id: int, code: int, message: str) -> bytes:
    """ERROR: only for requests whose reply has no error fields of its own (see `refusal`)."""
    return reply(
        pb.CommandError(request_id=unsigned64(request_id), error=_code(code), message=message)
    )


# --- lookup ---------------------------------------------------------------------------------------


def partitions(request_id: int, count: int) -> bytes:
    """PARTITIONED_METADATA_RESPONSE; 0: the topic is not partitioned."""
    return reply(
        pb.CommandPartitionedTopicMetadataResponse(
            request_id=unsigned64(request_id),
            response=pb.CommandPartitionedTopicMetadataResponse.Success,
            partitions=count,
        )
    )


def lookup_connect(
    request_id: int, url: str, url_tls: str = "", *, via_proxy: bool = False
) -> bytes:
    """LOOKUP_RESPONSE: this broker serves the topic."""
    return _lookup(request_id, pb.CommandLookupTopicResponse.Connect, url, url_tls, True, via_proxy)


def topics(
    request_id: int,
    names: Iterable[str],
    *,
    filtered: bool,
    topics_hash: str = "",
    changed: bool = True,
) -> bytes:
    """GET_TOPICS_OF_NAMESPACE_RESPONSE."""
    return reply(
        pb.CommandGetTopicsOfNamespaceResponse(
            request_id=unsigned64(request_id),
            topics=names,
            filtered=filtered,
            topics_hash=topics_hash or None,
            changed=changed,
        )
    )


def watch_topic_list(
    request_id: int, watcher_id: int, names: Iterable[str], topics_hash: str
) -> bytes:
    """WATCH_TOPIC_LIST_SUCCESS."""
    return reply(
        pb.CommandWatchTopicListSuccess(
            request_id=unsigned64(request_id),
            watcher_id=unsigned64(watcher_id),
            topic=names,
            topics_hash=topics_hash,
        )
    )


def watch_topic_update(
    watcher_id: int, new: Iterable[str], deleted: Iterable[str], topics_hash: str
) -> bytes:
    """WATCH_TOPIC_UPDATE."""
    return reply(
        pb.CommandWatchTopicUpdate(
            watcher_id=unsigned64(watcher_id),
            new_topics=new,
            deleted_topics=deleted,
            topics_hash=topics_hash,
        )
    )


# --- producing ------------------------------------------------------------------------------------


def producer_success(
    request_id: int,
    producer_name: str,
    *,
    last_sequence_id: int = -1,
    schema_version: bytes | None = None,
    topic_epoch: int | None = None,
    ready: bool = True,
) -> bytes:
    """PRODUCER_SUCCESS. Not `ready`: waiting for exclusive access; a second one says when it is."""
    return reply(
        pb.CommandProducerSuccess(
            request_id=unsigned64(request_id),
            producer_name=producer_name,
            last_sequence_id=last_sequence_id,
            schema_version=schema_version,
            topic_epoch=None if topic_epoch is None else unsigned64(topic_epoch),
            producer_ready=ready,
        )
    )


def send_error(producer_id: int, sequence_id: int, code: int, message: str) -> bytes:
    """SEND_ERROR. On any code but ChecksumError C++ drops its connection and sends again."""
    return reply(
        pb.CommandSendError(
            producer_id=unsigned64(producer_id),
            sequence_id=unsigned64(sequence_id),
            error=_code(code),
            message=message,
        )
    )


def close_producer(
    producer_id: int, request_id: int = UNSOLICITED, url: str = "", url_tls: str = ""
) -> bytes:
    """CLOSE_PRODUCER. With a URL the client reconnects there at once, else after a pause."""
    return reply(
        pb.CommandCloseProducer(
            producer_id=unsigned64(producer_id),
            request_id=unsigned64(request_id),
            assignedBrokerServiceUrl=url or None,
            assignedBrokerServiceUrlTls=url_tls or None,
        )
    )


# --- consuming ------------------------------------------------------------------------------------


def close_consumer(
    consumer_id: int, request_id: int = UNSOLICITED, url: str = "", url_tls: str = ""
) -> bytes:
    """CLOSE_CONSUMER. With a URL the client reconnects there at once, else after a pause."""
    return reply(
        pb.CommandCloseConsumer(
            consumer_id=unsigned64(consumer_id),
            request_id=unsigned64(request_id),
            assignedBrokerServiceUrl=url or None,
            assignedBrokerServiceUrlTls=url_tls or None,
        )
    )


def ack_failed(consumer_id: int, request_id: int, code: int, message: str) -> bytes:
    """ACK_RESPONSE of an ack that was not taken (`encode.ack_response` for one that was)."""
    return reply(
        pb.CommandAckResponse(
            consumer_id=unsigned64(consumer_id),
            request_id=unsigned64(request_id),
            error=_code(code),
            message=message,
        )
    )


def last_message_id(
    request_id: int,
    last: pb.MessageIdData,
    mark_delete: pb.MessageIdData | None = None,
) -> bytes:
    """GET_LAST_MESSAGE_ID_RESPONSE; no mark-delete position where there is none yet."""
    return reply(
        pb.CommandGetLastMessageIdResponse(
            request_id=unsigned64(request_id),
            last_message_id=last,
            consumer_mark_delete_position=mark_delete,
        )
    )


def message_id_by_index(request_id: int, message_id: pb.MessageIdData) -> bytes:
    """GET_MESSAGE_ID_BY_INDEX_RESPONSE, to Milepost's own client."""
    return reply(
        pb.CommandGetMessageIdByIndexResponse(
            request_id=unsigned64(request_id), message_id=message_id
        )
    )


def message_id_data(
    ledger_id: int, entry_id: int, partition: int = -1, batch_index: int = -1
) -> pb.MessageIdData:
    """A message id for the fields of other replies; defaults are left out."""
    return pb.MessageIdData(
        ledgerId=unsigned64(ledger_id),
        entryId=unsigned64(entry_id),
        partition=None if partition == -1 else partition,
        batch_index=None if batch_index == -1 else batch_index,
    )


def active_consumer_change(consumer_id: int, is_active: bool) -> bytes:
    """ACTIVE_CONSUMER_CHANGE, to each consumer of a Failover subscription."""
    return reply(
        pb.CommandActiveConsumerChange(consumer_id=unsigned64(consumer_id), is_active=is_active)
    )


def sought(consumer_id: int, consumer_epoch: int, cursor_epoch: int) -> bytes:
    """SEEK from the broker: the cursor was moved under a consumer, whose messages carry this epoch
    from now on; it has been moved so often. Only to consumers that asked for it (`milepost.reset`): no
    official client knows it."""
    return reply(
        pb.CommandSeek(
            consumer_id=unsigned64(consumer_id),
            request_id=unsigned64(UNSOLICITED),
            consumer_epoch=consumer_epoch,
            cursor_epoch=cursor_epoch,
        )
    )


def reached_end_of_topic(consumer_id: int) -> bytes:
    """REACHED_END_OF_TOPIC. Never to C++ 4.2.0 and older: they close their connection on it."""
    return reply(pb.CommandReachedEndOfTopic(consumer_id=unsigned64(consumer_id)))


# --- schemas --------------------------------------------------------------------------------------


def schema(request_id: int, found: pb.Schema, version: bytes) -> bytes:
    """GET_SCHEMA_RESPONSE."""
    return reply(
        pb.CommandGetSchemaResponse(
            request_id=unsigned64(request_id), schema=found, schema_version=version
        )
    )


def schema_version(request_id: int, version: bytes) -> bytes:
    """GET_OR_CREATE_SCHEMA_RESPONSE."""
    return reply(
        pb.CommandGetOrCreateSchemaResponse(
            request_id=unsigned64(request_id), schema_version=version
        )
    )


# --- transactions ---------------------------------------------------------------------------------


def coordinator_connected(request_id: int) -> bytes:
    """TC_CLIENT_CONNECT_RESPONSE."""
    return reply(pb.CommandTcClientConnectResponse(request_id=unsigned64(request_id)))


def new_transaction(request_id: int, txn_id: TxnId) -> bytes:
    """NEW_TXN_RESPONSE."""
    return transaction_response(51, request_id, txn_id)


def partitions_added(request_id: int, txn_id: TxnId) -> bytes:
    """ADD_PARTITION_TO_TXN_RESPONSE."""
    return transaction_response(53, request_id, txn_id)


def subscriptions_added(request_id: int, txn_id: TxnId) -> bytes:
    """ADD_SUBSCRIPTION_TO_TXN_RESPONSE."""
    return transaction_response(55, request_id, txn_id)


def transaction_ended(request_id: int, txn_id: TxnId) -> bytes:
    """END_TXN_RESPONSE."""
    return transaction_response(57, request_id, txn_id)


# --- refusals -------------------------------------------------------------------------------------


def refusal(command: Command | TransactionRequest, code: int, message: str) -> bytes | None:
    """The reply that tells the client its request failed; None where no reply exists.

    SEND is refused by `send_error`, in its turn among the receipts.
    """
    if not isinstance(command, Command):
        return _transaction_refusal(command, code, message)
    request = command.message
    answer: Message
    match request:
        case (
            pb.CommandSubscribe()
            | pb.CommandProducer()
            | pb.CommandUnsubscribe()
            | pb.CommandCloseProducer()
            | pb.CommandCloseConsumer()
            | pb.CommandSeek()
            | pb.CommandGetLastMessageId()
            | pb.CommandGetTopicsOfNamespace()
            | pb.CommandWatchTopicList()
            | pb.CommandWatchTopicListClose()
            # In the reply of its own the Go client does not look for an error.
            | pb.CommandTcClientConnectRequest()
        ):
            return error(request.request_id, code, message)
        case pb.CommandConnect() | pb.CommandAuthResponse():
            return error(UNSOLICITED, code, message)
        case pb.CommandLookupTopic():
            answer = pb.CommandLookupTopicResponse(
                request_id=request.request_id,
                response=pb.CommandLookupTopicResponse.Failed,
                error=_code(code),
                message=message,
            )
        case pb.CommandPartitionedTopicMetadata():
            answer = pb.CommandPartitionedTopicMetadataResponse(
                request_id=request.request_id,
                response=pb.CommandPartitionedTopicMetadataResponse.Failed,
                error=_code(code),
                message=message,
            )
        case (
            pb.CommandGetSchema()
            | pb.CommandGetOrCreateSchema()
            | pb.CommandConsumerStats()
            | pb.CommandGetMessageIdByIndex()
        ):
            answer = _OWN_REPLIES[type(request)](
                request_id=request.request_id, error_code=_code(code), error_message=message
            )
        case (
            pb.CommandNewTxn()
            | pb.CommandAddPartitionToTxn()
            | pb.CommandAddSubscriptionToTxn()
            | pb.CommandEndTxn()
        ):
            asked = read_transaction(request)
            assert asked is not None
            return _transaction_refusal(asked, code, message)
        case pb.CommandAck() if request.HasField("request_id"):
            answer = pb.CommandAckResponse(
                consumer_id=request.consumer_id,
                request_id=request.request_id,
                error=_code(code),
                message=message,
            )
        case _:
            return None
    return reply(answer)


def _transaction_refusal(asked: TransactionRequest, code: int, message: str) -> bytes:
    """Java looks in the answer of its own for the failure of each, and would wait for its time-out."""
    if isinstance(asked, NewTransaction):
        txn_id: dict[str, int] = {"txnid_most_bits": unsigned64(asked.coordinator)}
    else:
        txn_id = {
            "txnid_most_bits": unsigned64(asked.txn_id.most),
            "txnid_least_bits": unsigned64(asked.txn_id.least),
        }
    answer = _TRANSACTION_REPLIES[type(asked)]
    request_id = unsigned64(asked.request_id)
    return reply(answer(request_id=request_id, error=_code(code), message=message, **txn_id))


def _code(code: int) -> pb.ServerError:
    """A number every client can read: one it does not know makes C++ drop the connection."""
    return cast("pb.ServerError", code) if code in _CODES else ServerError.UnknownError


_CODES: Final = frozenset(ServerError.values())
_OWN_REPLIES: Final[dict[type[Message], Callable[..., Message]]] = {
    pb.CommandGetSchema: pb.CommandGetSchemaResponse,
    pb.CommandGetOrCreateSchema: pb.CommandGetOrCreateSchemaResponse,
    pb.CommandConsumerStats: pb.CommandConsumerStatsResponse,
    pb.CommandGetMessageIdByIndex: pb.CommandGetMessageIdByIndexResponse,
}
_TRANSACTION_REPLIES: Final[dict[type[TransactionRequest], Callable[..., Message]]] = {
    NewTransaction: pb.CommandNewTxnResponse,
    AddTopics: pb.CommandAddPartitionToTxnResponse,
    AddSubscriptions: pb.CommandAddSubscriptionToTxnResponse,
    EndTransaction: pb.CommandEndTxnResponse,
}


def _lookup(
    request_id: int,
    response: pb.CommandLookupTopicResponse.LookupType,
    url: str,
    url_tls: str,
    authoritative: bool,
    via_proxy: bool,
) -> bytes:
    return reply(
        pb.CommandLookupTopicResponse(
            request_id=unsigned64(request_id),
            response=response,
            brokerServiceUrl=url or None,
            brokerServiceUrlTls=url_tls or None,
            authoritative=authoritative,
            proxy_through_service_url=via_proxy,
        )
    )
