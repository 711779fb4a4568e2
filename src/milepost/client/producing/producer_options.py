"""The options of `Client.create_producer`, checked once.

The fields are the arguments of the method (signatures.py): first those of the official package, in its
order, then, by name only, our own. Everything below reads them and nothing changes them.

>>> ProducerOptions("orders", compression_type=CompressionType.ZSTD).max_pending_messages
1000
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from milepost.client.messages.key_reader import CryptoKeyReader
from milepost.client.option_checks import check, check_schema
from milepost.client.policies import (
    BatchingType,
    CompressionType,
    PartitionsRoutingMode,
    ProducerAccessMode,
)
from milepost.errors import InvalidInput

if TYPE_CHECKING:
    from milepost.schemas import Schema


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    topic: str
    producer_name: str | None = None
    # None: messages are bytes.
    schema: Schema | None = None
    initial_sequence_id: int | None = None
    send_timeout_millis: int = 30_000
    compression_type: CompressionType = CompressionType.NONE
    max_pending_messages: int = 1000
    max_pending_messages_across_partitions: int = 50_000
    block_if_queue_full: bool = False
    # None: as the official package has it. Its asyncio client batches, unless it is to chunk; its
    # synchronous one does not.
    batching_enabled: bool | None = None
    batching_max_messages: int = 1000
    batching_max_allowed_size_in_bytes: int = 128 * 1024
    batching_max_publish_delay_ms: int = 10
    chunking_enabled: bool = False
    message_routing_mode: PartitionsRoutingMode = PartitionsRoutingMode.RoundRobinDistribution
    # Without effect: all partitions are opened at once.
    lazy_start_partitioned_producers: bool = False
    properties: dict[str, str] | None = None
    batching_type: BatchingType = BatchingType.Default
    # The name of the key that messages are encrypted with, which `crypto_key_reader` has.
    encryption_key: str | None = None
    crypto_key_reader: CryptoKeyReader | None = None
    access_mode: ProducerAccessMode = ProducerAccessMode.Shared
    message_router: Callable[[Any, int], int] | None = None
    _: KW_ONLY
    # Bytes of payload in one chunk; 0: as many as the broker takes.
    chunk_max_size: int = 0
    # For dead letter topics: a subscription that is made before the first message.
    initial_subscription_name: str | None = None

    def __post_init__(self) -> None:
        if self.batching_enabled and self.chunking_enabled:
            raise InvalidInput("batching_enabled and chunking_enabled exclude each other")
        check_schema(self.schema)
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
        if self.encryption_key is not None and self.crypto_key_reader is None:
            raise InvalidInput(f"encryption_key {self.encryption_key!r} needs a crypto_key_reader")

    @property
    def batches(self) -> bool:
        """Whether messages are gathered, as the asyncio client has it."""
        if self.batching_enabled is None:
            return not self.chunking_enabled
        return self.batching_enabled
