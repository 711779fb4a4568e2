"""Pure values for where a message is: addresses, indexes, ack sets, names.

Everything here is compared, printed and stored; nothing here changes, waits or asks. The package
imports only the standard library and `milepost.errors`.

ackset        the ack set of a batch: which of its messages are not acked yet (PIP-54)
ids           positions and message ids: their order, text and bytes
labels        checks the names of subscriptions, producers and consumers
names         parses names of tenants, namespaces and topics
pages         how `IndexRanges` stores a set of indexes
ranges        `IndexRanges`: a set of indexes as half-open ranges
severity      the verdicts on progress, in order of trouble
spans         `Span`: the indexes of one entry
transactions  `TxnId`: which transaction
varints       whole numbers as varints: seven bits a byte
"""

from milepost.positions.ackset import BATCH_SIZE_MAX, AckSet
from milepost.positions.ids import (
    EARLIEST,
    LATEST,
    ChunkMessageId,
    MessageId,
    Position,
    signed64,
    unsigned64,
)
from milepost.positions.names import NamespaceName, TopicName
from milepost.positions.ranges import IndexRanges
from milepost.positions.spans import Span
from milepost.positions.transactions import TxnId

__all__ = [
    "Position",
    "MessageId",
    "ChunkMessageId",
    "EARLIEST",
    "LATEST",
    "signed64",
    "unsigned64",
    "Span",
    "IndexRanges",
    "AckSet",
    "BATCH_SIZE_MAX",
    "TopicName",
    "NamespaceName",
    "TxnId",
]
