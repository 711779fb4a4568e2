"""The events that protocol objects yield.

The hot ones are named tuples made by hand-written scanners; every other command arrives as
`Command(kind, message)`, where `message` is the protobuf command itself and `kind` its number
(`pulsar_pb2.BaseCommand.Type`). All ids here are signed. Nothing here has behaviour.

    match event:
        case Sends(producer_id, sends): ...
        case Ack() | Flow(): ...
        case NewTransaction() | AddTopics() | AddSubscriptions() | EndTransaction(): ...
        case Command(message=pb.CommandSubscribe() as subscribe): ...
        case Fault(error): ...      # always the last event of a connection
"""

from __future__ import annotations

from typing import Final, NamedTuple

from google.protobuf.message import Message

from milepost.errors import ProtocolError
from milepost.positions import TxnId


class WireId(NamedTuple):
    """A message id as commands carry it."""

    ledger_id: int
    entry_id: int
    partition: int = -1
    """-1: the topic is not partitioned."""
    batch_index: int = -1
    """-1: the whole entry is meant."""
    ack_set: tuple[int, ...] = ()
    """Signed 64-bit words, a set bit is still to be acked (PIP-54); empty means no set was given."""
    first_chunk: tuple[int, int] | None = None
    """(ledger, entry) of the first chunk, when this is the id of a chunked message (PIP-107)."""


class ChunkInfo(NamedTuple):
    """What a chunk says about its place in its message."""

    uuid: str
    """The same for all chunks of one message; not unique for ever (producer name + sequence id)."""
    chunk_id: int
    num_chunks: int
    """Invariant: 0 ≤ chunk_id < num_chunks."""
    total_size: int
    """Bytes of the whole message as the producer claims; nothing is ever allocated by it."""

    @property
    def is_first(self) -> bool:
        return self.chunk_id == 0

    @property
    def is_last(self) -> bool:
        return self.chunk_id == self.num_chunks - 1


class SendFault(NamedTuple):
    """Why one SEND is refused while its connection lives on: the two fields of SEND_ERROR."""

    error: int
    """A `ServerError` number: ChecksumError or NotAllowedError."""
    message: str


class Traits(NamedTuple):
    """What sets an entry apart from a plain message. Most sends share the one value `PLAIN`."""

    is_batch: bool = False
    """Decided by presence of the batch size: a batch of one is a batch."""
    is_marker: bool = False
    """Presence of a marker type: a server's own entry, never delivered."""
    deliver_at_time: int | None = None
    """Milliseconds; not to be delivered before."""
    chunk: ChunkInfo | None = None
    fault: SendFault | None = None
    """Set: answer SEND_ERROR with it, store nothing; the entry is empty then."""
    transaction: TxnId | None = None
    """The transaction it is published in, by the command and the metadata alike."""


PLAIN: Final = Traits()
BATCH: Final = Traits(is_batch=True)


class Send(NamedTuple):
    """One SEND of a producer."""

    sequence_id: int
    highest_sequence_id: int
    """As given (to be echoed in the receipt); 0 when the client sent none, as C++ never does."""
    count: int  # type: ignore[assignment]  # in place of tuple.count, which has no use here
    """Messages in the entry, from its metadata and not from the claim beside it. At least 1."""
    publish_time: int
    """Milliseconds, the producer's clock."""
    entry: bytes
    """What is to be stored: from the checksum's magic to the end of the frame, as sent."""
    traits: Traits


class Sends(NamedTuple):
    """Consecutive SENDs of one producer, in order."""

    producer_id: int
    sends: list[Send]


class Ack(NamedTuple):
    consumer_id: int
    is_cumulative: bool
    ids: list[WireId]
    """The same entry may come several times: official clients repeat it for each batch index."""
    request_id: int | None
    """Given: the client waits for ACK_RESPONSE."""
    validation_error: int | None = None
    """`CommandAck.ValidationError`, when the client gave the message up as unreadable."""
    transaction: TxnId | None = None
    """The transaction it is part of; None: it counts at once."""
    goes_on: bool = False
    """More of the same command follows (`long_command.py`, `ack_slices.py`), and the answer comes behind
    the last of it."""
    window: tuple[int, int] | None = None
    """The batch indexes `[first, end)` that the ack set of its one id speaks of; None: of all."""
    is_cut: bool = False
    """It is part of a transaction and too long: only some of its ids are here, to be refused together."""


class Flow(NamedTuple):
    consumer_id: int
    permits: int
    """0 to 2^32 − 1, as sent."""


class TransactionSeries(NamedTuple):
    """The numbered step that a transaction is part of, by Milepost's own field of NEW_TXN and END_TXN."""

    name: str
    run: str
    step: int | None


class NewTransaction(NamedTuple):
    """NEW_TXN."""

    request_id: int
    timeout_ms: int
    coordinator: int
    series: TransactionSeries | None = None

    @property
    def kind(self) -> int:
        return 50


class AddTopics(NamedTuple):
    """ADD_PARTITION_TO_TXN."""

    request_id: int
    txn_id: TxnId
    topics: tuple[str, ...]

    @property
    def kind(self) -> int:
        return 52


class AddSubscriptions(NamedTuple):
    """ADD_SUBSCRIPTION_TO_TXN."""

    request_id: int
    txn_id: TxnId
    pairs: tuple[tuple[str, str], ...]
    """(topic, subscription)"""

    @property
    def kind(self) -> int:
        return 54


class EndTransaction(NamedTuple):
    """END_TXN."""

    request_id: int
    txn_id: TxnId
    action: int | None
    """`TxnAction`; None if the client gave none."""
    also: tuple[int, ...] = ()
    """Second halves of ids of further transactions that end with it, by Milepost's own field."""
    series: TransactionSeries | None = None
    """The run of a series that it aborts in place of one transaction, by Milepost's own field."""

    @property
    def kind(self) -> int:
        return 56


TransactionRequest = NewTransaction | AddTopics | AddSubscriptions | EndTransaction


class Receipt(NamedTuple):
    """SEND_RECEIPT, as the client reads it."""

    producer_id: int
    sequence_id: int
    highest_sequence_id: int
    ledger_id: int
    """-1 with entry -1: stored before (a duplicate), or no id was given."""
    entry_id: int


class Delivery(NamedTuple):
    """MESSAGE, as the client reads it."""

    consumer_id: int
    ledger_id: int
    entry_id: int
    partition: int
    redelivery_count: int
    ack_set: tuple[int, ...]
    """Empty: nothing of the entry is acked yet."""
    consumer_epoch: int
    """-1: none was given, and the message passes every epoch filter."""
    entry: bytes
    """Broker entry metadata (if any), checksum, metadata, payload: see metadata.split_entry."""
    stored_entries: int = 0
    """So many entries as the log has them are in `entry`, and the ids are those of the first; 0 for a
    message as every client reads it. Only consumers that asked for runs get any."""


class Command(NamedTuple):
    """Any command without a scanner of its own."""

    kind: int
    """`BaseCommand.Type`."""
    message: Message


class Fault(NamedTuple):
    """The peer's bytes were not the protocol. Send what is to be sent, then close."""

    error: ProtocolError


ServerEvent = Sends | Ack | Flow | TransactionRequest | Command | Fault
ClientEvent = Receipt | Delivery | Command | Fault
