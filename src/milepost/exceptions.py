"""`pulsar.exceptions` by its own name: what the official package raises, as the error that is raised here.

    try:
        client.subscribe("orders", "billing")
    except milepost.exceptions.ConsumerBusy:
        ...

Where Milepost tells less apart, several names are one class; where it tells more apart, a name is the
class above (milepost/errors.py has the tree).
"""

from milepost.errors import (
    AlreadyClosed,
    BrokerError,
    ConnectError,
    ConsumerAssignError,
    ConsumerBusy,
    CryptoError,
    IncompatibleSchema,
    InvalidInput,
    InvalidTopicName,
    InvalidTransactionStatus,
    MessageTooBig,
    MetadataError,
    MilepostError,
    NotAllowed,
    NotAuthenticated,
    NotAuthorized,
    NotFound,
    PersistenceError,
    ProducerBusy,
    ProducerFenced,
    ProducerQueueIsFull,
    ProtocolError,
    QuotaExceeded,
    QuotaHold,
    ServiceNotReady,
    SubscriptionNotFound,
    Timeout,
    TooManyRequests,
    TopicNotFound,
    TopicTerminated,
    TransactionConflict,
    TransactionCoordinatorNotFound,
    TransactionNotFound,
    Undecodable,
)

PulsarException = MilepostError
AuthenticationError = NotAuthenticated
AuthorizationError = NotAuthorized
BrokerMetadataError = MetadataError
BrokerPersistenceError = PersistenceError
ChecksumError = Undecodable
ConsumerNotFound = NotFound
ConsumerNotInitialized = AlreadyClosed
CumulativeAcknowledgementNotAllowedError = NotAllowed
ErrorGettingAuthenticationData = ConnectError
Interrupted = AlreadyClosed
InvalidConfiguration = InvalidInput
InvalidMessage = InvalidInput
InvalidTxnStatusError = InvalidTransactionStatus
InvalidUrl = InvalidInput
LookupError = ConnectError
MemoryBufferIsFull = ProducerQueueIsFull
NotAllowedError = NotAllowed
NotConnected = ConnectError
OperationNotSupported = NotAllowed
ProducerBlockedQuotaExceededError = QuotaHold
ProducerBlockedQuotaExceededException = QuotaExceeded
ProducerNotInitialized = AlreadyClosed
ReadError = ConnectError
ServiceUnitNotReady = ServiceNotReady
TooManyLookupRequestException = TooManyRequests
TransactionCoordinatorNotFoundError = TransactionCoordinatorNotFound
UnknownError = BrokerError
UnsupportedVersionError = ProtocolError

__all__ = [
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
]
