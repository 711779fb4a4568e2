"""Pure values for where a message is: addresses, indexes, ack sets, names.

Everything here is compared, printed and stored; nothing here changes, waits or asks. The package
imports only the standard library and `milepost.errors`.

ackset    which messages of one batch are still to be acked (PIP-54)
ids       positions, message ids, chunk ids, their order, text and bytes
labels    what clients call their subscriptions, producers and consumers
names     names of topics and namespaces, as Pulsar writes them
pages     how a set of indexes is kept
ranges    a set of indexes, seen as disjoint half-open ranges
spans     the indexes that one entry holds
varints   whole numbers in as few bytes as they need, seven bits a byte, low bits first
verdicts  verdicts on a group's progress, from none to most trouble, and which of several counts
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
]
