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
    from milepost.client.loggers import ConsoleLogger, LoggerLevel
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
        IncompatibleSchema,
        IndexNotFound,
        InvalidInput,
        InvalidMessageId,
        InvalidTopicName,
        MessageTooBig,
        MilepostError,
        NotAllowed,
        NotAuthenticated,
        NotAuthorized,
        PersistenceError,
        ProducerBusy,
        ProducerFenced,
        ProducerQueueIsFull,
        ServiceNotReady,
        SubscriptionNotFound,
        Timeout,
        TopicNotFound,
        TopicTerminated,
    )
    from milepost.errors import MilepostError as PulsarException
    from milepost.errors import NotAllowed as NotAllowedError
    from milepost.errors import NotAuthenticated as AuthenticationError
    from milepost.errors import NotAuthorized as AuthorizationError
    from milepost.errors import PersistenceError as BrokerPersistenceError
    from milepost.errors import ServiceNotReady as ServiceUnitNotReady
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
    "client.loggers": (
        "ConsoleLogger",
        "LoggerLevel",
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
        "IncompatibleSchema",
        "NotAllowed",
        "NotAuthenticated",
        "NotAuthorized",
        "PersistenceError",
        "ServiceNotReady",
        "TopicTerminated",
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

# What the official package calls what has another name here.
_OFFICIAL = {
    "PulsarException": "MilepostError",
    "AuthenticationError": "NotAuthenticated",
    "AuthorizationError": "NotAuthorized",
    "NotAllowedError": "NotAllowed",
    "BrokerPersistenceError": "PersistenceError",
    "ServiceUnitNotReady": "ServiceNotReady",
}

__all__ = [
    "AlreadyClosed",
    "Authentication",
    "AuthenticationBasic",
    "AuthenticationError",
    "AuthenticationTLS",
    "AuthenticationToken",
    "AuthorizationError",
    "BatchingType",
    "BrokerPersistenceError",
    "ChunkMessageId",
    "Client",
    "CompressionType",
    "ConnectError",
    "ConsoleLogger",
    "Consumer",
    "ConsumerAssignError",
    "ConsumerBatchReceivePolicy",
    "ConsumerBusy",
    "ConsumerDeadLetterPolicy",
    "ConsumerKeySharedPolicy",
    "ConsumerType",
    "IncompatibleSchema",
    "IndexNotFound",
    "InitialPosition",
    "InvalidInput",
    "InvalidMessageId",
    "InvalidTopicName",
    "KeySharedMode",
    "LoggerLevel",
    "Message",
    "MessageId",
    "MessageTooBig",
    "MilepostError",
    "NegativeAckBackoff",
    "NotAllowed",
    "NotAllowedError",
    "NotAuthenticated",
    "NotAuthorized",
    "PartitionsRoutingMode",
    "PersistenceError",
    "Producer",
    "ProducerAccessMode",
    "ProducerBusy",
    "ProducerFenced",
    "ProducerQueueIsFull",
    "PulsarException",
    "Reader",
    "RegexSubscriptionMode",
    "Result",
    "ServiceNotReady",
    "ServiceUnitNotReady",
    "SubscriptionNotFound",
    "Timeout",
    "TopicNotFound",
    "TopicTerminated",
    "__version__",
    "schema",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    name = _OFFICIAL.get(name, name)
    if name == "schema":
        # `pulsar.schema` by its own name.
        return import_module("milepost.schemas")
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"milepost.{module}"), name)
    raise AttributeError(f"module 'milepost' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
