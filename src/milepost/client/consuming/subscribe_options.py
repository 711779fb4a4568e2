"""The options of `Client.subscribe` and `Client.create_reader`, checked once.

The fields are the arguments of both methods (signatures.py): first those of the official package, in its
order, then, by name only, our own. Everything below reads them and nothing changes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from milepost.client.messages.key_reader import CryptoKeyReader
from milepost.client.option_checks import check, check_schema
from milepost.client.policies import (
    ConsumerBatchReceivePolicy,
    ConsumerCryptoFailureAction,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    ConsumerType,
    InitialPosition,
    NegativeAckBackoff,
    RegexSubscriptionMode,
)
from milepost.errors import InvalidInput
from milepost.positions import MessageId

if TYPE_CHECKING:
    from milepost.schemas import Schema

# One, several, or all that match.
Topics = str | list[str] | re.Pattern[str]


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    topic: Topics
    subscription_name: str
    consumer_type: ConsumerType = ConsumerType.Exclusive
    schema: Schema | None = None
    # Called with the consumer and each message, on a thread of its own: of the synchronous client.
    message_listener: Callable[[Any, Any], object] | None = None
    receiver_queue_size: int = 1000
    max_total_receiver_queue_size_across_partitions: int = 50_000
    consumer_name: str | None = None
    unacked_messages_timeout_ms: int | None = None
    # Without effect: nothing is cached.
    broker_consumer_stats_cache_time_ms: int = 30_000
    negative_ack_redelivery_delay_ms: int = 60_000
    is_read_compacted: bool = False
    properties: dict[str, str] | None = None
    # Seconds between two looks for new topics, where the broker does not tell of them by itself.
    pattern_auto_discovery_period: float = 60
    initial_position: InitialPosition = InitialPosition.Latest
    crypto_key_reader: CryptoKeyReader | None = None
    replicate_subscription_state_enabled: bool = False
    max_pending_chunked_message: int = 10
    auto_ack_oldest_chunked_message_on_queue_full: bool = False
    start_message_id_inclusive: bool = False
    batch_receive_policy: ConsumerBatchReceivePolicy | None = None
    key_shared_policy: ConsumerKeySharedPolicy | None = None
    batch_index_ack_enabled: bool = True
    regex_subscription_mode: RegexSubscriptionMode = RegexSubscriptionMode.PersistentOnly
    dead_letter_policy: ConsumerDeadLetterPolicy | None = None
    crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL
    # Whether a topic that is text is a pattern.
    is_pattern_topic: bool = False
    _: KW_ONLY
    negative_ack_backoff: NegativeAckBackoff | None = None
    expire_time_of_incomplete_chunked_message_ms: int = 60_000
    # An ack is answered when it is on disk; False: sent within a tenth of a second, never answered.
    ack_receipt_enabled: bool = True
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
        check_schema(self.schema)
        check("receiver_queue_size", self.receiver_queue_size, 0, 1_000_000)
        check("negative_ack_redelivery_delay_ms", self.negative_ack_redelivery_delay_ms, 0)
        check("max_pending_chunked_message", self.max_pending_chunked_message, 1, 100_000)
        timeout_ms = self.unacked_messages_timeout_ms
        if timeout_ms is not None:
            check("unacked_messages_timeout_ms", timeout_ms, 10_000)
        check("priority_level", self.priority_level, 0, 2**16)
        self._check_type()
        self._check_broadcast()

    def _check_type(self) -> None:
        try:
            object.__setattr__(self, "consumer_type", ConsumerType(self.consumer_type))
        except ValueError:
            known = ", ".join(f"ConsumerType.{kind.name}" for kind in ConsumerType)
            raise InvalidInput(f"consumer_type {self.consumer_type!r}; there are {known}") from None

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
        ours = {key: text for key, text in said.items() if text is not None}
        return {**(self.properties or {}), **ours}

    @property
    def is_shared(self) -> bool:
        """Several consumers get messages at once, and each is acked for itself."""
        return self.consumer_type in (ConsumerType.Shared, ConsumerType.KeyShared)


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    topic: str
    # Where to begin: one of this, `start_index` and `start_timestamp`.
    start_message_id: MessageId | None = None
    schema: Schema | None = None
    # Called with the reader and each message, on a thread of its own: of the synchronous client.
    reader_listener: Callable[[Any, Any], object] | None = None
    receiver_queue_size: int = 1000
    reader_name: str | None = None
    subscription_role_prefix: str | None = None
    is_read_compacted: bool = False
    crypto_key_reader: CryptoKeyReader | None = None
    start_message_id_inclusive: bool = False
    crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL
    _: KW_ONLY
    start_index: int | None = None
    start_timestamp: int | None = None
    properties: dict[str, str] | None = None
    max_pending_chunked_message: int = 10
    expire_time_of_incomplete_chunked_message_ms: int = 60_000
    # The subscription's name; made up unless given.
    subscription_name: str | None = None

    def of_consumer(self, made_up_name: str) -> ConsumerOptions:
        """The consumer that a reader is: its cursor is forgotten, its acks are not waited for."""
        name = f"reader-{made_up_name}"
        if self.subscription_role_prefix:
            name = f"{self.subscription_role_prefix}-{name}"
        return ConsumerOptions(
            self.topic,
            self.subscription_name or name,
            schema=self.schema,
            receiver_queue_size=self.receiver_queue_size,
            consumer_name=self.reader_name,
            is_read_compacted=self.is_read_compacted,
            properties=self.properties,
            crypto_key_reader=self.crypto_key_reader,
            max_pending_chunked_message=self.max_pending_chunked_message,
            start_message_id_inclusive=self.start_message_id_inclusive,
            crypto_failure_action=self.crypto_failure_action,
            expire_time_of_incomplete_chunked_message_ms=(
                self.expire_time_of_incomplete_chunked_message_ms
            ),
            ack_receipt_enabled=False,
            is_durable=False,
        )
