"""The frame that makes a client drop a chunked message of which it has a part.

The C++ client up to 4.2, and so the Python one, keeps the chunks it has when it loses its connection or is
closed by a seek. When the first chunk comes again it takes that for an error and drops the message; a
minute later it acks the chunks that it had, and the message is lost. A chunk of the same uuid with a
number that cannot be makes it drop what it has, and changes nothing else.

It is sent before the first chunk of a message that the client may have a part of: one that was delivered
before, and one that an earlier broker process may have delivered. To a client that has no part of it it
is an uncached chunk, worth a line in its log.
"""

from __future__ import annotations

import re
from typing import Final

from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.peer import Buffer
from milepost.storage.ledgers.entry import Entry
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.metadata import entry_metadata
from milepost.wire.scanners.encode import encode_entry_head

# Clients forget unfinished messages by themselves after a minute; a consumer that comes this long after
# its topic was opened has nothing from before.
RECOVERY_MS: Final = 120_000

_CPP: Final = re.compile(r"Pulsar-CPP-v(\d+)\.(\d+)\b")
_LAST_THAT_KEEPS: Final = (4, 2)

# The id of no entry: if the client asks for it again, there is nothing to bring.
_NOWHERE: Final = (-1, -1)


def keeps_halves(client_version: str) -> bool:
    """Does this client keep a part of a message that begins again?

    >>> keeps_halves("Pulsar-CPP-v4.2.0"), keeps_halves("Pulsar-CPP-v4.3.1"), keeps_halves("Java-4")
    (True, False, False)
    """
    found = _CPP.match(client_version)
    return found is not None and (int(found[1]), int(found[2])) <= _LAST_THAT_KEEPS


def needs_restart(consumer: Consumer, first_index: int) -> bool:
    """May the consumer's client have a part of the message that begins at this index? To be asked
    before the message is delivered."""
    if not keeps_halves(consumer.peer.client_version):
        return False
    subscription = consumer.subscription
    topic = subscription.topic
    is_recovered = (
        first_index < topic.recovered_end
        and consumer.connected_since_ms < topic.opened_ms + RECOVERY_MS
    )
    return is_recovered or subscription.cursor.was_delivered(first_index)


def restart_frame(consumer: Consumer, entry: Entry) -> list[Buffer]:
    """What to send before the first chunk of such a message. It takes a permit, which the client gives
    back."""
    chunk = entry_metadata(entry.payload)
    metadata = pb.MessageMetadata(
        producer_name=chunk.producer_name,
        sequence_id=chunk.sequence_id,
        publish_time=chunk.publish_time,
        uuid=chunk.uuid,
        num_chunks_from_msg=chunk.num_chunks_from_msg,
        total_chunk_msg_size=chunk.total_chunk_msg_size,
        chunk_id=chunk.num_chunks_from_msg,
    ).SerializeToString()
    body = encode_entry_head(metadata, b"")
    return [consumer.encoder.head(*_NOWHERE, len(body)), body]
