"""Milepost: a message broker for official Apache Pulsar clients in which every position is exact.

The public names, loaded when they are first used: importing `milepost` alone imports nothing else. They
are those of the official `pulsar` package, so that code ports by changing the import; the asyncio client
is `milepost.aio`.
"""

from __future__ import annotations

__version__ = "0.1.0"

# As in `typing`, which is not imported for it: type checkers go by the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from milepost import aio as asyncio
    from milepost import exceptions, schema
    from milepost.client.connection.auth import (
        Authentication,
        AuthenticationBasic,
        AuthenticationTLS,
        AuthenticationToken,
    )
    from milepost.client.loggers import (
        ConsoleLogger,
        FileLogger,
        LoggerLevel,
    )
    from milepost.client.messages.encryption import (
        EncryptionContext,
        EncryptionKey,
    )
    from milepost.client.messages.key_reader import (
        CryptoKeyReader,
    )
    from milepost.client.messages.message import (
        Message,
    )
    from milepost.client.policies import (
        BatchingType,
        CompressionType,
        ConsumerBatchReceivePolicy,
        ConsumerCryptoFailureAction,
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
    from milepost.client.results import (
        Result,
    )
    from milepost.client.sync import (
        Client,
        Consumer,
        Producer,
        Reader,
        TableView,
        Transaction,
    )
    from milepost.client.transactions.transaction import (
        TransactionState,
    )
    from milepost.errors import (
        IndexNotFound,
        InvalidInput,
        InvalidMessageId,
        InvalidTransactionStatus,
        MilepostError,
        NotAllowed,
        NotAuthenticated,
        NotAuthorized,
        PersistenceError,
        ServiceNotReady,
        TransactionHasOperationFailed,
        TransactionTimedOut,
    )
    from milepost.exceptions import (
        AlreadyClosed,
        AuthenticationError,
        AuthorizationError,
        BrokerMetadataError,
        BrokerPersistenceError,
        ChecksumError,
        ConnectError,
        ConsumerAssignError,
        ConsumerBusy,
        ConsumerNotFound,
        ConsumerNotInitialized,
        CryptoError,
        CumulativeAcknowledgementNotAllowedError,
        ErrorGettingAuthenticationData,
        IncompatibleSchema,
        Interrupted,
        InvalidConfiguration,
        InvalidMessage,
        InvalidTopicName,
        InvalidTxnStatusError,
        InvalidUrl,
        LookupError,
        MemoryBufferIsFull,
        MessageTooBig,
        NotAllowedError,
        NotConnected,
        OperationNotSupported,
        ProducerBlockedQuotaExceededError,
        ProducerBlockedQuotaExceededException,
        ProducerBusy,
        ProducerFenced,
        ProducerNotInitialized,
        ProducerQueueIsFull,
        PulsarException,
        ReadError,
        ServiceUnitNotReady,
        SubscriptionNotFound,
        Timeout,
        TooManyLookupRequestException,
        TopicNotFound,
        TopicTerminated,
        TransactionConflict,
        TransactionCoordinatorNotFoundError,
        TransactionNotFound,
        UnknownError,
        UnsupportedVersionError,
    )
    from milepost.positions import (
        ChunkMessageId,
        MessageId,
    )
    from milepost.schemas import (
        BytesSchema,
    )

# Which module has which names.
_HOMES = {
    "client.connection.auth": (
        "Authentication",
        "AuthenticationBasic",
        "AuthenticationTLS",
        "AuthenticationToken",
    ),
    "client.messages.encryption": (
        "EncryptionContext",
        "EncryptionKey",
    ),
    "client.messages.key_reader": ("CryptoKeyReader",),
    "client.loggers": (
        "ConsoleLogger",
        "FileLogger",
        "LoggerLevel",
    ),
    "client.messages.message": ("Message",),
    "client.policies": (
        "BatchingType",
        "CompressionType",
        "ConsumerBatchReceivePolicy",
        "ConsumerCryptoFailureAction",
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
    "client.sync": (
        "Client",
        "Consumer",
        "Producer",
        "Reader",
        "TableView",
        "Transaction",
    ),
    "client.transactions.transaction": ("TransactionState",),
    "errors": (
        "IndexNotFound",
        "InvalidInput",
        "InvalidMessageId",
        "InvalidTransactionStatus",
        "MilepostError",
        "NotAllowed",
        "NotAuthenticated",
        "NotAuthorized",
        "PersistenceError",
        "ServiceNotReady",
        "TransactionHasOperationFailed",
        "TransactionTimedOut",
    ),
    "exceptions": (
        "AlreadyClosed",
        "AuthenticationError",
        "AuthorizationError",
        "BrokerMetadataError",
        "BrokerPersistenceError",
        "ChecksumError",
        "ConnectError",
        "ConsumerAssignError",
        "ConsumerBusy",
        "ConsumerNotFound",
        "ConsumerNotInitialized",
        "CryptoError",
        "CumulativeAcknowledgementNotAllowedError",
        "ErrorGettingAuthenticationData",
        "IncompatibleSchema",
        "Interrupted",
        "InvalidConfiguration",
        "InvalidMessage",
        "InvalidTopicName",
        "InvalidTxnStatusError",
        "InvalidUrl",
        "LookupError",
        "MemoryBufferIsFull",
        "MessageTooBig",
        "NotAllowedError",
        "NotConnected",
        "OperationNotSupported",
        "ProducerBlockedQuotaExceededError",
        "ProducerBlockedQuotaExceededException",
        "ProducerBusy",
        "ProducerFenced",
        "ProducerNotInitialized",
        "ProducerQueueIsFull",
        "PulsarException",
        "ReadError",
        "ServiceUnitNotReady",
        "SubscriptionNotFound",
        "Timeout",
        "TooManyLookupRequestException",
        "TopicNotFound",
        "TopicTerminated",
        "TransactionConflict",
        "TransactionCoordinatorNotFoundError",
        "TransactionNotFound",
        "UnknownError",
        "UnsupportedVersionError",
    ),
    "positions": (
        "ChunkMessageId",
        "MessageId",
    ),
    "schemas": ("BytesSchema",),
}

# The official package's modules, as attributes.
_MODULES = {"asyncio": "aio", "exceptions": "exceptions", "schema": "schema"}

__all__ = [
    "AlreadyClosed",
    "Authentication",
    "AuthenticationBasic",
    "AuthenticationError",
    "AuthenticationTLS",
    "AuthenticationToken",
    "AuthorizationError",
    "BatchingType",
    "BrokerMetadataError",
    "BrokerPersistenceError",
    "BytesSchema",
    "ChecksumError",
    "ChunkMessageId",
    "Client",
    "CompressionType",
    "ConnectError",
    "ConsoleLogger",
    "Consumer",
    "ConsumerAssignError",
    "ConsumerBatchReceivePolicy",
    "ConsumerBusy",
    "ConsumerCryptoFailureAction",
    "ConsumerDeadLetterPolicy",
    "ConsumerKeySharedPolicy",
    "ConsumerNotFound",
    "ConsumerNotInitialized",
    "ConsumerType",
    "CryptoError",
    "CryptoKeyReader",
    "CumulativeAcknowledgementNotAllowedError",
    "EncryptionContext",
    "EncryptionKey",
    "ErrorGettingAuthenticationData",
    "FileLogger",
    "IncompatibleSchema",
    "IndexNotFound",
    "InitialPosition",
    "Interrupted",
    "InvalidConfiguration",
    "InvalidInput",
    "InvalidMessage",
    "InvalidMessageId",
    "InvalidTopicName",
    "InvalidTransactionStatus",
    "InvalidTxnStatusError",
    "InvalidUrl",
    "KeySharedMode",
    "LoggerLevel",
    "LookupError",
    "MemoryBufferIsFull",
    "Message",
    "MessageId",
    "MessageTooBig",
    "MilepostError",
    "NegativeAckBackoff",
    "NotAllowed",
    "NotAllowedError",
    "NotAuthenticated",
    "NotAuthorized",
    "NotConnected",
    "OperationNotSupported",
    "PartitionsRoutingMode",
    "PersistenceError",
    "Producer",
    "ProducerAccessMode",
    "ProducerBlockedQuotaExceededError",
    "ProducerBlockedQuotaExceededException",
    "ProducerBusy",
    "ProducerFenced",
    "ProducerNotInitialized",
    "ProducerQueueIsFull",
    "PulsarException",
    "ReadError",
    "Reader",
    "RegexSubscriptionMode",
    "Result",
    "ServiceNotReady",
    "ServiceUnitNotReady",
    "SubscriptionNotFound",
    "TableView",
    "Timeout",
    "TooManyLookupRequestException",
    "TopicNotFound",
    "TopicTerminated",
    "Transaction",
    "TransactionConflict",
    "TransactionCoordinatorNotFoundError",
    "TransactionHasOperationFailed",
    "TransactionNotFound",
    "TransactionState",
    "TransactionTimedOut",
    "UnknownError",
    "UnsupportedVersionError",
    "__version__",
    "asyncio",
    "exceptions",
    "schema",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"milepost.{_MODULES[name]}")
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"milepost.{module}"), name)
    raise AttributeError(f"module 'milepost' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
