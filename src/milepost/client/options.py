"""What a producer, consumer or reader was asked to be: the official package's options, checked once.

`Client` makes these from its arguments; everything below reads them and nothing changes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from milepost.client.policies import (
    BatchingType,
    CompressionType,
    ConsumerBatchReceivePolicy,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    ConsumerType,
    InitialPosition,
    NegativeAckBackoff,
    PartitionsRoutingMode,
    ProducerAccessMode,
)
from milepost.errors import InvalidInput

if TYPE_CHECKING:
    from milepost.schemas import Schema


def check(what: str, value: Any, minimum: int, maximum: int = 2**31 - 1) -> None:
    """`InvalidInput` unless `value` is a whole number within both bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{what} is {value!r}, not a whole number")
    if not minimum <= value <= maximum:
        raise InvalidInput(f"{what} {value}; allowed are {minimum} to {maximum}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    producer_name: str | None = None
    schema: Schema | None = None
    initial_sequence_id: int | None = None
    send_timeout_millis: int = 30_000
    compression_type: CompressionType = CompressionType.NONE
    max_pending_messages: int = 1000
    max_pending_messages_across_partitions: int = 50_000
    block_if_queue_full: bool = False
    batching_enabled: bool = False
    batching_max_messages: int = 1000
    batching_max_allowed_size_in_bytes: int = 128 * 1024
    batching_max_publish_delay_ms: int = 10
    batching_type: BatchingType = BatchingType.Default
    chunking_enabled: bool = False
    # Bytes of payload in one chunk; 0: as many as the broker takes.
    chunk_max_size: int = 0
    message_routing_mode: PartitionsRoutingMode = PartitionsRoutingMode.RoundRobinDistribution
    message_router: Callable[[Any, int], int] | None = None
    properties: dict[str, str] = field(default_factory=dict)
    access_mode: ProducerAccessMode = ProducerAccessMode.Shared
    # For dead letter topics: a subscription that is made before the first message.
    initial_subscription_name: str | None = None

    def __post_init__(self) -> None:
        if self.batching_enabled and self.chunking_enabled:
            raise InvalidInput("batching_enabled and chunking_enabled exclude each other")
        check("send_timeout_millis", self.send_timeout_millis, 0)
        check("max_pending_messages", self.max_pending_messages, 1)
        check("batching_max_messages", self.batching_max_messages, 1)
        check("batching_max_allowed_size_in_bytes", self.batching_max_allowed_size_in_bytes, 1)
        check("batching_max_publish_delay_ms", self.batching_max_publish_delay_ms, 0)
        check("chunk_max_size", self.chunk_max_size, 0)
        if self.initial_sequence_id is not None:
            check("initial_sequence_id", self.initial_sequence_id, 0, 2**63 - 1)
        if self.message_routing_mode == PartitionsRoutingMode.CustomPartition and (
            self.message_router is None
        ):
            raise InvalidInput("PartitionsRoutingMode.CustomPartition needs a message_router")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    subscription_name: str
    consumer_type: ConsumerType = ConsumerType.Exclusive
    schema: Schema | None = None
    receiver_queue_size: int = 1000
    max_total_receiver_queue_size_across_partitions: int = 50_000
    consumer_name: str | None = None
    unacked_messages_timeout_ms: int | None = None
    negative_ack_redelivery_delay_ms: int = 60_000
    negative_ack_backoff: NegativeAckBackoff | None = None
    is_read_compacted: bool = False
    properties: dict[str, str] = field(default_factory=dict)
    initial_position: InitialPosition = InitialPosition.Latest
    replicate_subscription_state_enabled: bool = False
    max_pending_chunked_message: int = 10
    auto_ack_oldest_chunked_message_on_queue_full: bool = False
    expire_time_of_incomplete_chunked_message_ms: int = 60_000
    start_message_id_inclusive: bool = False
    batch_receive_policy: ConsumerBatchReceivePolicy = field(
        default_factory=ConsumerBatchReceivePolicy
    )
    key_shared_policy: ConsumerKeySharedPolicy | None = None
    batch_index_ack_enabled: bool = True
    # An ack is answered when it is on disk; False: sent within a tenth of a second, never answered.
    ack_receipt_enabled: bool = True
    dead_letter_policy: ConsumerDeadLetterPolicy | None = None
    # Whether `reconsume_later` may be used: the consumer then also reads its retry topic.
    retry_enabled: bool = False
    priority_level: int = 0
    # "broadcast": the subscription is a group each of whose members gets every message.
    mode: str | None = None
    # Who it is in that group, the same after a restart; None: the address it comes from.
    member: str | None = None
    # Where members start that the group does not know: "minimum", "latest", "earliest".
    start: str | None = None
    # Readers: a cursor that the broker forgets.
    is_durable: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.subscription_name, str) or not self.subscription_name:
            raise InvalidInput(f"subscription name {self.subscription_name!r} is empty")
        check("receiver_queue_size", self.receiver_queue_size, 0, 1_000_000)
        check("negative_ack_redelivery_delay_ms", self.negative_ack_redelivery_delay_ms, 0)
        check("max_pending_chunked_message", self.max_pending_chunked_message, 1, 100_000)
        timeout_ms = self.unacked_messages_timeout_ms
        if timeout_ms is not None:
            check("unacked_messages_timeout_ms", timeout_ms, 10_000)
        check("priority_level", self.priority_level, 0, 2**16)
        self._check_broadcast()

    def _check_broadcast(self) -> None:
        if self.mode not in (None, "broadcast"):
            raise InvalidInput(f"mode {self.mode!r}; known is 'broadcast'")
        if self.mode is None:
            if self.member is not None or self.start is not None:
                raise InvalidInput("member and start are for mode='broadcast'")
        elif self.consumer_type is ConsumerType.Exclusive:
            # The default; members are Shared consumers, each with a cursor of its own.
            object.__setattr__(self, "consumer_type", ConsumerType.Shared)
        elif self.consumer_type is not ConsumerType.Shared:
            raise InvalidInput(f"members of a broadcast group are Shared, not {self.consumer_type}")

    @property
    def all_properties(self) -> dict[str, str]:
        """With those that say what the consumer is to a Milepost broker."""
        said = {
            "milepost.mode": self.mode,
            "milepost.member": self.member,
            "milepost.start": self.start,
        }
        return {**self.properties, **{key: text for key, text in said.items() if text is not None}}

    @property
    def is_shared(self) -> bool:
        """Several consumers get messages at once, and each is acked for itself."""
        return self.consumer_type in (ConsumerType.Shared, ConsumerType.KeyShared)


Options = TypeVar("Options", ProducerOptions, ConsumerOptions)

# Of the official package: every partition is opened at once, nothing is cached, nothing encrypted.
_WITHOUT_EFFECT: Final = frozenset(
    (
        "broker_consumer_stats_cache_time_ms",
        "lazy_start_partitioned_producers",
        "crypto_failure_action",
    )
)


def made_of(kind: type[Options], **given: Any) -> Options:
    """Options as their class; a name that it does not have is a `TypeError`, as of any call."""
    known = {one.name: one for one in fields(kind)}
    for name, value in list(given.items()):
        if name in _WITHOUT_EFFECT:
            del given[name]
        elif name not in known:
            raise TypeError(f"there is no option {name!r}")
        elif value is None and name != "subscription_name" and known[name].default is not None:
            del given[name]  # None is the official package's word for the default
    return kind(**given)
