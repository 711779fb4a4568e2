"""Pulsar's bytes, without a socket: frames, commands, entries, and the two ends of a connection.

Who reads this package from the outside needs four things:

- `ServerProtocol` and `ClientProtocol`: bytes in, events out, bytes to send (protocol.py, with a worked
  example); the events are in events.py, labels of what goes wrong in reasons.py;
- `replies` and `encode`: what a broker answers, rare and hot; both give the bytes of whole frames;
- `metadata`, `batches`, `chunks`, `compression`: entries and messages taken apart and put together;
- `pulsar_pb2`, by convention `pb`: the protocol's messages, generated from pulsar.proto.

    protocol = ServerProtocol(server_version="milepost")
    for event in protocol.receive(data):
        match event:
            case Sends(producer_id, sends): ...
            case Command(message=pb.CommandConnect()): protocol.accept()
            case Fault(error): ...

It never opens, waits or asks the time, and it trusts nothing: a number from a peer is compared with the
bytes that are there before it is used. Ids are signed everywhere but inside protobuf messages, whose
fields are unsigned (`signed64`, `unsigned64` of `milepost.positions`; `wire_id` for message ids).

batches      packs and unpacks batches
chunks       puts chunks together again
commands     command numbers, and parsing and encoding of commands that are not hot
compression  compresses and decompresses payloads
events       the events that protocol objects yield
extensions   metadata keys by which clients ask for what Pulsar's protocol does not have
frames       cuts frames out of bytes, and builds them
markers      the entries that end transactions
metadata     the parts of an entry: broker entry metadata, checksum, message metadata, payload
murmur       Murmur3, the hash of Key_Shared slots
peer         what the other side said of itself in the handshake
protocol     `ServerProtocol` and `ClientProtocol`: bytes in, events out
reasons      the reasons why a connection was ended, as labels
replies      builds the broker's replies that are not hot, errors included
scanners/    the hottest frames, read and written by hand
"""

from milepost.wire import pulsar_pb2, replies
from milepost.wire.batches import SingleMessage, join_batch, split_batch
from milepost.wire.chunks import ChunkAssembler, Orphan, Repeated, Waiting, Whole
from milepost.wire.commands import Kind, encode_command, kind_name, kind_of
from milepost.wire.compression import compress, decompress
from milepost.wire.events import (
    PLAIN,
    Ack,
    ChunkInfo,
    ClientEvent,
    Command,
    Delivery,
    Fault,
    Flow,
    Receipt,
    Send,
    SendFault,
    Sends,
    ServerEvent,
    Traits,
    WireId,
)
from milepost.wire.frames import FRAME_PADDING, MESSAGE_SIZE_MAX_DEFAULT, Buffer, crc32c
from milepost.wire.markers import (
    TXN_ABORT,
    TXN_COMMIT,
    marker_of,
    transaction_marker,
    transaction_of,
)
from milepost.wire.metadata import (
    BrokerEntry,
    EntryParts,
    chunk_info,
    encode_broker_entry,
    is_batch,
    is_marker,
    message_count,
    parse_metadata,
    split_broker_entry,
    split_entry,
    sticky_key,
)
from milepost.wire.murmur import SLOT_COUNT, key_slot, murmur3_32
from milepost.wire.peer import PROTOCOL_VERSION, Peer
from milepost.wire.protocol import ClientProtocol, RunReader, ServerProtocol, State
from milepost.wire.reasons import Reason
from milepost.wire.replies import UNSOLICITED, ServerError, refusal
from milepost.wire.scanners import encode
from milepost.wire.scanners.ack_scan import wire_id
from milepost.wire.scanners.encode import (
    MessageEncoder,
    ack_response,
    send_frame,
    send_receipt,
    send_receipts,
)

__all__ = [
    # the two ends of a connection
    "ServerProtocol",
    "ClientProtocol",
    "RunReader",
    "State",
    "Peer",
    "PROTOCOL_VERSION",
    # what happened
    "ServerEvent",
    "ClientEvent",
    "Sends",
    "Send",
    "Traits",
    "PLAIN",
    "SendFault",
    "ChunkInfo",
    "Ack",
    "Flow",
    "WireId",
    "Receipt",
    "Delivery",
    "Command",
    "Fault",
    "Reason",
    # commands and answers
    "pulsar_pb2",
    "Kind",
    "ServerError",
    "kind_of",
    "kind_name",
    "encode_command",
    "wire_id",
    "replies",
    "refusal",
    "UNSOLICITED",
    "encode",
    "MessageEncoder",
    "send_receipt",
    "send_receipts",
    "ack_response",
    "send_frame",
    # entries and messages
    "BrokerEntry",
    "EntryParts",
    "encode_broker_entry",
    "split_broker_entry",
    "split_entry",
    "parse_metadata",
    "is_batch",
    "is_marker",
    "message_count",
    "chunk_info",
    "sticky_key",
    "SingleMessage",
    "split_batch",
    "join_batch",
    "compress",
    "decompress",
    "TXN_COMMIT",
    "TXN_ABORT",
    "transaction_marker",
    "marker_of",
    "transaction_of",
    "ChunkAssembler",
    "Waiting",
    "Whole",
    "Repeated",
    "Orphan",
    # numbers
    "Buffer",
    "FRAME_PADDING",
    "MESSAGE_SIZE_MAX_DEFAULT",
    "crc32c",
    "SLOT_COUNT",
    "key_slot",
    "murmur3_32",
]
