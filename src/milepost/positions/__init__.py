"""Pure values for where a message is: addresses, indexes, ack sets, names.

Everything here is compared, printed and stored; nothing here changes, waits or asks. The package
imports only the standard library and `milepost.errors`.
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
