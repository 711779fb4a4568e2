"""The enumerations and policy classes of the official package.

Plain values; the numbers are those of the wire where there are any.

    client.subscribe(topic, "s", ConsumerType.Shared,
                     dead_letter_policy=ConsumerDeadLetterPolicy(max_redeliver_count=3))
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from milepost.errors import InvalidInput
from milepost.wire.murmur import SLOT_COUNT


class CompressionType(IntEnum):
    NONE = 0
    LZ4 = 1
    ZLib = 2
    ZSTD = 3
    SNAPPY = 4


class ConsumerType(IntEnum):
    Exclusive = 0
    Shared = 1
    Failover = 2
    KeyShared = 3


class InitialPosition(IntEnum):
    Latest = 0
    Earliest = 1


class PartitionsRoutingMode(IntEnum):
    UseSinglePartition = 0
    RoundRobinDistribution = 1
    CustomPartition = 2


class BatchingType(IntEnum):
    Default = 0
    KeyBased = 1


class KeySharedMode(IntEnum):
    AutoSplit = 0
    Sticky = 1


class ProducerAccessMode(IntEnum):
    Shared = 0
    Exclusive = 1
    WaitForExclusive = 2
    ExclusiveWithFencing = 3


class ConsumerCryptoFailureAction(IntEnum):
    """What becomes of a message that cannot be decrypted."""

    # It stays unacked, for a consumer that has the key.
    FAIL = 0
    # It is acked, and no consumer sees it.
    DISCARD = 1
    # It is handed out as it is; `Message.encryption_context` says how it was encrypted.
    CONSUME = 2


class RegexSubscriptionMode(IntEnum):
    PersistentOnly = 0
    NonPersistentOnly = 1
    AllTopics = 2


@dataclass(frozen=True, slots=True)
class ConsumerBatchReceivePolicy:
    """When `batch_receive` returns: at so many messages, so many bytes, or after a time."""

    # Below 1: no limit.
    max_num_message: int = -1
    max_num_bytes: int = 10 * 1024 * 1024
    # Below 1: wait until one of the others is reached.
    timeout_ms: int = 100

    def __post_init__(self) -> None:
        if self.max_num_message < 1 and self.max_num_bytes < 1 and self.timeout_ms < 1:
            raise InvalidInput("a batch receive policy without any limit never returns")


@dataclass(frozen=True, slots=True)
class ConsumerKeySharedPolicy:
    """How keys are shared out: split by the broker, or by ranges that the consumer keeps."""

    key_shared_mode: KeySharedMode = KeySharedMode.AutoSplit
    allow_out_of_order_delivery: bool = False
    # Of 65,536 slots, both ends inclusive.
    sticky_ranges: list[tuple[int, int]] | None = None

    def __post_init__(self) -> None:
        if self.key_shared_mode == KeySharedMode.Sticky and not self.sticky_ranges:
            raise InvalidInput("KeySharedMode.Sticky needs sticky_ranges")
        for first, last in self.sticky_ranges or ():
            if not 0 <= first <= last < SLOT_COUNT:
                raise InvalidInput(
                    f"sticky range ({first}, {last}); allowed is 0 to {SLOT_COUNT - 1}"
                )


@dataclass(frozen=True, slots=True)
class ConsumerDeadLetterPolicy:
    """Where a message goes that was redelivered too often (and, by retry, how it comes back)."""

    max_redeliver_count: int
    # `<topic>-<subscription>-DLQ` unless given.
    dead_letter_topic: str | None = None
    # A subscription to be made on the dead letter topic, so that nothing sent there is lost.
    initial_subscription_name: str | None = None
    # `<topic>-<subscription>-RETRY` unless given; used by `reconsume_later`.
    retry_letter_topic: str | None = None

    def __post_init__(self) -> None:
        if self.max_redeliver_count is None or self.max_redeliver_count < 1:
            raise InvalidInput(
                f"max_redeliver_count {self.max_redeliver_count} must be greater than 0"
            )


@dataclass(frozen=True, slots=True)
class NegativeAckBackoff:
    """The delay of a redelivery by how often the message came: `first_ms × multiplier^count`."""

    first_ms: int = 1_000
    max_ms: int = 60_000
    multiplier: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.first_ms <= self.max_ms or self.multiplier < 1:
            raise InvalidInput(
                f"negative ack back-off from {self.first_ms} to {self.max_ms} ms"
                f" by {self.multiplier}"
            )

    def delay_ms(self, redelivery_count: int) -> int:
        """For a message that has been redelivered so often before."""
        # The exponent is bounded so that no float overflows before the maximum is taken.
        return int(min(self.first_ms * self.multiplier ** min(redelivery_count, 64), self.max_ms))
