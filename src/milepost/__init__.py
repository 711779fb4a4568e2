"""Milepost: a message broker for official Apache Pulsar clients in which every position is exact.

The public names, loaded when they are first used: importing `milepost` alone imports nothing else. They
are those of the official `pulsar` package, so that code ports by changing the import; the asyncio client
is `milepost.aio`.
"""

from __future__ import annotations

__version__ = "0.1.0.dev0"

# As in `typing`, which is not imported for it: type checkers go by the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from milepost.client.auth import (
        Authentication,
        AuthenticationBasic,
        AuthenticationTLS,
        AuthenticationToken,
    )
    from milepost.client.message import Message
    from milepost.client.policies import (
        BatchingType,
        CompressionType,
        ConsumerBatchReceivePolicy,
        ConsumerDeadLetterPolicy,
        ConsumerKeySharedPolicy,
        ConsumerType,
        InitialPosition,
        KeySharedMode,
        NegativeAckBackoff,
        PartitionsRoutingMode,
        ProducerAccessMode,
        RegexSubscriptionMode,
    )
    from milepost.client.results import Result
    from milepost.client.sync import (
        Client,
        Consumer,
        Producer,
        Reader,
    )
    from milepost.errors import (
        AlreadyClosed,
        ConnectError,
        ConsumerAssignError,
        ConsumerBusy,
        IndexNotFound,
        InvalidInput,
        InvalidMessageId,
        InvalidTopicName,
        MessageTooBig,
        MilepostError,
        ProducerBusy,
        ProducerFenced,
        ProducerQueueIsFull,
        SubscriptionNotFound,
        Timeout,
        TopicNotFound,
    )
    from milepost.errors import MilepostError as PulsarException
    from milepost.positions import (
        ChunkMessageId,
        MessageId,
    )

# Which module has which names.
_HOMES = {
    "client.sync": (
        "Client",
        "Consumer",
        "Producer",
        "Reader",
    ),
    "client.message": ("Message",),
    "client.auth": (
        "Authentication",
        "AuthenticationBasic",
        "AuthenticationTLS",
        "AuthenticationToken",
    ),
    "client.policies": (
        "BatchingType",
        "CompressionType",
        "ConsumerBatchReceivePolicy",
        "ConsumerDeadLetterPolicy",
        "ConsumerKeySharedPolicy",
        "ConsumerType",
        "InitialPosition",
        "KeySharedMode",
        "NegativeAckBackoff",
        "PartitionsRoutingMode",
        "ProducerAccessMode",
        "RegexSubscriptionMode",
    ),
    "client.results": ("Result",),
    "positions": (
        "ChunkMessageId",
        "MessageId",
    ),
    "errors": (
        "AlreadyClosed",
        "ConnectError",
        "ConsumerAssignError",
        "ConsumerBusy",
        "IndexNotFound",
        "InvalidInput",
        "InvalidMessageId",
        "InvalidTopicName",
        "MessageTooBig",
        "MilepostError",
        "ProducerBusy",
        "ProducerFenced",
        "ProducerQueueIsFull",
        "SubscriptionNotFound",
        "Timeout",
        "TopicNotFound",
    ),
}

__all__ = [
    "AlreadyClosed",
    "Authentication",
    "AuthenticationBasic",
    "AuthenticationTLS",
    "AuthenticationToken",
    "BatchingType",
    "ChunkMessageId",
    "Client",
    "CompressionType",
    "ConnectError",
    "Consumer",
    "ConsumerAssignError",
    "ConsumerBatchReceivePolicy",
    "ConsumerBusy",
    "ConsumerDeadLetterPolicy",
    "ConsumerKeySharedPolicy",
    "ConsumerType",
    "IndexNotFound",
    "InitialPosition",
    "InvalidInput",
    "InvalidMessageId",
    "InvalidTopicName",
    "KeySharedMode",
    "Message",
    "MessageId",
    "MessageTooBig",
    "MilepostError",
    "NegativeAckBackoff",
    "PartitionsRoutingMode",
    "Producer",
    "ProducerAccessMode",
    "ProducerBusy",
    "ProducerFenced",
    "ProducerQueueIsFull",
    "PulsarException",
    "Reader",
    "RegexSubscriptionMode",
    "Result",
    "SubscriptionNotFound",
    "Timeout",
    "TopicNotFound",
    "__version__",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "PulsarException":
        # What every error of the official package is.
        name = "MilepostError"
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"milepost.{module}"), name)
    raise AttributeError(f"module 'milepost' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
