"""The result codes that callbacks get, in the official package's numbers.

>>> result_of(errors.Timeout("no receipt in 30 s"))
<Result.Timeout: 3>
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from milepost import errors


class Result(IntEnum):
    Ok = 0
    UnknownError = 1
    InvalidConfiguration = 2
    Timeout = 3
    LookupError = 4
    ConnectError = 5
    ReadError = 6
    AuthenticationError = 7
    AuthorizationError = 8
    ErrorGettingAuthenticationData = 9
    BrokerMetadataError = 10
    BrokerPersistenceError = 11
    ChecksumError = 12
    ConsumerBusy = 13
    NotConnected = 14
    AlreadyClosed = 15
    InvalidMessage = 16
    ConsumerNotInitialized = 17
    ProducerNotInitialized = 18
    ProducerBusy = 19
    TooManyLookupRequestException = 20
    InvalidTopicName = 21
    InvalidUrl = 22
    ServiceUnitNotReady = 23
    OperationNotSupported = 24
    ProducerBlockedQuotaExceededError = 25
    ProducerBlockedQuotaExceededException = 26
    ProducerQueueIsFull = 27
    MessageTooBig = 28
    TopicNotFound = 29
    SubscriptionNotFound = 30
    ConsumerNotFound = 31
    UnsupportedVersionError = 32
    TopicTerminated = 33
    CryptoError = 34
    IncompatibleSchema = 35
    ConsumerAssignError = 36
    CumulativeAcknowledgementNotAllowedError = 37
    TransactionCoordinatorNotFoundError = 38
    InvalidTxnStatusError = 39
    NotAllowedError = 40
    TransactionConflict = 41
    TransactionNotFound = 42
    ProducerFenced = 43
    MemoryBufferIsFull = 44
    Interrupted = 45


# The first that fits: subclasses stand before what they are kinds of.
_RESULTS: Final[tuple[tuple[type[errors.MilepostError], Result], ...]] = (
    (errors.Timeout, Result.Timeout),
    (errors.ConnectError, Result.ConnectError),
    (errors.AlreadyClosed, Result.AlreadyClosed),
    (errors.MessageTooBig, Result.MessageTooBig),
    (errors.ProducerQueueIsFull, Result.ProducerQueueIsFull),
    (errors.CryptoError, Result.CryptoError),
    (errors.NotAuthenticated, Result.AuthenticationError),
    (errors.NotAuthorized, Result.AuthorizationError),
    (errors.TopicTerminated, Result.TopicTerminated),
    (errors.IncompatibleSchema, Result.IncompatibleSchema),
    (errors.PersistenceError, Result.BrokerPersistenceError),
    (errors.ConsumerBusy, Result.ConsumerBusy),
    (errors.ProducerBusy, Result.ProducerBusy),
    (errors.ProducerFenced, Result.ProducerFenced),
    (errors.ServiceNotReady, Result.ServiceUnitNotReady),
    (errors.TooManyRequests, Result.TooManyLookupRequestException),
    (errors.TopicNotFound, Result.TopicNotFound),
    (errors.SubscriptionNotFound, Result.SubscriptionNotFound),
    (errors.InvalidTopicName, Result.InvalidTopicName),
    (errors.InvalidInput, Result.InvalidConfiguration),
    (errors.ConsumerAssignError, Result.ConsumerAssignError),
    (errors.TransactionCoordinatorNotFound, Result.TransactionCoordinatorNotFoundError),
    (errors.TransactionNotFound, Result.TransactionNotFound),
    (errors.TransactionConflict, Result.TransactionConflict),
    (errors.InvalidTransactionStatus, Result.InvalidTxnStatusError),
    (errors.MetadataError, Result.BrokerMetadataError),
    (errors.NotAllowed, Result.NotAllowedError),
)


def result_of(error: BaseException | None) -> Result:
    if error is None:
        return Result.Ok
    for kind, result in _RESULTS:
        if isinstance(error, kind):
            return result
    return Result.UnknownError
