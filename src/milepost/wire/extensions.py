"""Metadata keys by which clients ask for what Pulsar's protocol does not have.

A broker that does not know a key ignores it, so a client asks only where it knows that it talks to Milepost,
or where the answer of a broker without the key is as good.

    >>> asks(pb.CommandProducer(metadata=[extension(NEEDS_DEDUPLICATION)]), NEEDS_DEDUPLICATION)
    True
"""

from __future__ import annotations

from typing import Final

from milepost.wire import pulsar_pb2 as pb

# Of a consumer. Milepost delivers chunks of whole messages only, in the order of those. A reader of a part of
# a topic must see every chunk where it lies; Apache Pulsar always does that.
EVERY_CHUNK: Final = "milepost.every-chunk"
# Of an Exclusive or Failover consumer. Consecutive entries may come in one MESSAGE, as the log has them
# (`CommandMessage.stored_entries`, docs/format.md), so that neither side does anything for each of them but
# what the consumer does. A broker whose entries have another format must ignore it.
STORED_ENTRIES: Final = "milepost.stored-entries"
# Of a consumer. Refuse it where its durable subscription does not exist, and make none.
EXISTING_SUBSCRIPTION: Final = "milepost.existing-subscription"
# Of a producer. Refuse it where the topic does not deduplicate, before it can send anything.
NEEDS_DEDUPLICATION: Final = "milepost.needs-deduplication"

# Of a subscription, among its properties: what it is the progress of, if that is no consumer which stays.
READER: Final = "milepost.reader"
SPARK: Final = "spark"

_YES: Final = "true"


def extension(key: str) -> pb.KeyValue:
    """The item of a command's metadata that asks for it."""
    return pb.KeyValue(key=key, value=_YES)


def asks(command: pb.CommandProducer | pb.CommandSubscribe, key: str) -> bool:
    """Whether a command asks for it."""
    return any(item.key == key and item.value == _YES for item in command.metadata)
