"""Every error Milepost raises on purpose.

    MilepostError
    ├── InvalidInput            the caller's value is wrong; nothing changed
    │   ├── InvalidMessageId
    │   ├── InvalidTopicName
    │   ├── InvalidRange
    │   ├── InvalidAckSet
    │   ├── InvalidPartitions
    │   │   └── FewerPartitions
    │   ├── InvalidSetting
    │   │   └── MissingFile     a file that was named and is not there; also a NotFound
    │   ├── InvalidOption
    │   ├── InvalidCheckpoint
    │   ├── InvalidPolicy       a policy of the wrong type, or that contradicts itself
    │   │   └── PolicyOutOfRange
    │   ├── UnknownCompression
    │   ├── InvalidSchema
    │   ├── SchemaMismatch      a value that its schema has no room for
    │   │   └── UndeclaredField
    │   └── DecompressionError  a payload that does not unpack
    │       └── UncompressedSizeError
    ├── MetadataError           what the broker knows of an object is against it
    │   └── NotFound            the object named is not there
    │       ├── TopicNotFound
    │       ├── SubscriptionNotFound
    │       ├── SchemaNotFound
    │       ├── LedgerNotFound
    │       ├── IndexNotFound
    │       ├── TransactionNotFound
    │       ├── TransactionCoordinatorNotFound
    │       └── DataLoss            what was to be read is there no more; names the range
    ├── AlreadyExists
    ├── Busy                    another client has it; may work later
    │   ├── ConsumerBusy
    │   ├── ProducerBusy
    │   ├── ProducerFenced      … and will not give it back to this producer
    │   ├── SubscriptionInUse
    │   ├── QuotaHold           a backlog is too large: wait
    │   ├── QuotaExceeded       … or give up
    │   ├── ServiceNotReady
    │   │   ├── ShardAway       nothing was done
    │   │   │   └── CutOff      … for the bucket takes nothing from the broker
    │   │   ├── CallCut         … or it may have been
    │   │   └── UnknownListener
    │   └── TooManyRequests
    ├── NotAllowed              understood, and refused
    │   ├── OutOfOrderAppend
    │   ├── StaleEpoch
    │   ├── NotPersistent
    │   │   └── NothingStored
    │   ├── UnknownCluster
    │   ├── Absent              Apache Pulsar has it; the message says why Milepost has not
    │   ├── PreconditionFailed  … until something else is different
    │   │   └── UnexpectedPosition
    │   ├── IncompatibleSchema
    │   ├── EncryptionRequired
    │   ├── TopicTerminated
    │   ├── TransactionConflict     another transaction has acked it
    │   ├── InvalidTransactionStatus
    │   │   └── TransactionTimedOut
    │   └── ConsumerAssignError
    ├── NotAuthenticated        who is asking cannot be told; `reason` is a counter's label
    ├── NotAuthorized           … or can, and has not the right
    ├── PersistenceError        the disk said no; what was not answered is not stored
    │   ├── OutcomeUnknown      … or may be stored: unknown until the next start
    │   ├── DiskFull
    │   └── Fenced              another broker has taken the bucket over: this one must stop
    ├── CorruptData             bytes on disk are not what was written; names file and offset
    │   └── UnknownFormat       written by a newer version: refused, untouched
    ├── DataDirectoryLocked     another process owns the data directory
    ├── WrongDataDirectory      a data directory of another kind: of shards, or of one process
    ├── BucketUnusable          the bucket is not there, not permitted, or in use
    │   └── WrongBucket         … or of another cluster, or of another kind of start
    ├── ClientError             a client gave up, or was asked for what it cannot do
    │   ├── Timeout             no answer within the time given; it may still have happened
    │   ├── ConnectError        the connection failed or was lost
    │   ├── AlreadyClosed       used after close
    │   ├── MessageTooBig       more than the broker takes, and chunking is off
    │   ├── ProducerQueueIsFull
    │   ├── CryptoError         a message cannot be encrypted or decrypted
    │   ├── WrongContext        another event loop, or a process forked after connecting
    │   ├── TransactionHasOperationFailed   a send or an ack of it failed: aborted instead
    │   └── BrokerError         the broker refused with a code that has no class of its own
    ├── Undecodable             a stored entry or value that cannot be read as what it claims to be
    └── ProtocolError           a peer's bytes are not the protocol; `reason` is a counter's label

An error knows how the two edges say it: `wire_code` is Pulsar's ServerError number, `http_status`
the REST status. Messages carry the values that failed ("expected entry 8, got 9").
"""

from __future__ import annotations

from typing import ClassVar


class MilepostError(Exception):
    """The root; catching it catches everything Milepost raises on purpose."""

    wire_code: ClassVar[int] = 0  # UnknownError
    http_status: ClassVar[int] = 500


class InvalidInput(MilepostError, ValueError):
    wire_code = 22  # NotAllowedError
    http_status = 400


class InvalidMessageId(InvalidInput):
    """A message id, as text or bytes, that no client could have made."""


class InvalidTopicName(InvalidInput):
    wire_code = 17


class InvalidRange(InvalidInput):
    """A range that is empty, reversed or negative where that has no meaning."""


class InvalidAckSet(InvalidInput):
    """Ack-set words that do not fit the batch they speak of."""


class InvalidPartitions(InvalidInput):
    """A number of partitions that no topic can have."""

    http_status = 406


class FewerPartitions(InvalidPartitions):
    """A partition, once there, stays: its messages and its indexes are in it."""

    http_status = 422


class InvalidSetting(InvalidInput):
    """A setting that cannot be used; the message has file and line, key, value and what is allowed."""


class InvalidOption(InvalidInput):
    """An option of the Spark source or sink that is unknown or has no such value."""


class InvalidCheckpoint(InvalidInput):
    """Offsets of a checkpoint or a manifest that are none, or of other topics."""


class InvalidPolicy(InvalidInput):
    """A policy that cannot be obeyed; the message names it and what is allowed."""


class PolicyOutOfRange(InvalidPolicy):
    """A number of a policy that is too small or too large."""

    http_status = 412


class UnknownCompression(InvalidInput):
    """A compression type that no client of this protocol knows."""


class DecompressionError(InvalidInput):
    """A payload that is not what its compression type says."""


class UncompressedSizeError(DecompressionError):
    """A payload that does not unpack to the size that its metadata claims."""


class InvalidSchema(InvalidInput):
    """A schema whose definition is not what its type asks for."""

    wire_code = 18  # IncompatibleSchema: what upstream answers, and clients take for final
    http_status = 422


class SchemaMismatch(InvalidInput, TypeError):
    """A value that does not fit the schema that is to encode it, or bytes that are not of it."""


class UndeclaredField(SchemaMismatch, AttributeError):
    """A record has no field of that name."""


class MetadataError(MilepostError):
    """What the broker knows of an object is against it: it is not there, or asks for something else."""

    wire_code = 1  # MetadataError


class NotFound(MetadataError, LookupError):
    http_status = 404


class MissingFile(InvalidSetting, NotFound):
    """A file that a setting or a command line names, and that is not there."""


class TopicNotFound(NotFound):
    wire_code = 11


class SubscriptionNotFound(NotFound):
    wire_code = 12


class SchemaNotFound(NotFound):
    """The topic has no schema, or no such version of it."""

    wire_code = 11  # TopicNotFound: clients take it for "no schema"


class LedgerNotFound(NotFound):
    """A position in a ledger that this log never had, or has trimmed."""


class IndexNotFound(NotFound):
    """An index below the first retained or at or past the end."""


class TransactionNotFound(NotFound):
    """A transaction that never was, has ended and is forgotten, or is another role's."""

    wire_code = 24


class TransactionCoordinatorNotFound(NotFound):
    """No coordinator of that number, or none at all: transactions are switched off."""

    wire_code = 20


class DataLoss(NotFound):
    """Messages that a query still had to read were trimmed, or their topic was deleted."""


class AlreadyExists(MilepostError):
    http_status = 409


class Busy(MilepostError):
    """Understood and permitted, but not now."""

    wire_code = 6
    http_status = 409


class ConsumerBusy(Busy):
    wire_code = 5


class ProducerBusy(Busy):
    wire_code = 16


class ProducerFenced(Busy):
    wire_code = 25


class SubscriptionInUse(Busy, MetadataError):
    """Others are connected to what is to be deleted."""

    wire_code = 1  # MetadataError, as clients expect of UNSUBSCRIBE
    http_status = 412


class QuotaHold(Busy):
    """A topic's backlog is past its quota; its producers keep what they have and ask again."""

    wire_code = 7
    http_status = 412


class QuotaExceeded(Busy):
    """A topic's backlog is past its quota; its producers fail what they have."""

    wire_code = 8
    http_status = 412


class ServiceNotReady(Busy):
    """Clients come back after a while."""

    wire_code = 6
    http_status = 503


class ShardAway(ServiceNotReady):
    """The process of a shard is not there, or about to end. What was asked of it was not begun."""


class CutOff(ShardAway):
    """The broker cannot write to its bucket: another one may serve by now, and what it knows may be old."""


class CallCut(ServiceNotReady):
    """The process of a shard ended over a call, which may have been carried out or not."""


class UnknownListener(ServiceNotReady):
    """A client asks for an address of a listener that is not advertised."""

    http_status = 412


class TooManyRequests(Busy):
    """A configured maximum is reached."""

    wire_code = 14
    http_status = 429


class NotAllowed(MilepostError):
    wire_code = 22
    http_status = 405


class OutOfOrderAppend(NotAllowed):
    """A ledger takes entry last + 1 and nothing else."""


class StaleEpoch(NotAllowed):
    """An epoch that did not grow (PIP-194: it "only can bigger than the old epoch")."""


class NotPersistent(NotAllowed):
    """Something that only a persistent topic has (PIP-415: 406)."""

    http_status = 406


class NothingStored(NotPersistent):
    """Something about stored messages, asked of a topic that stores none."""

    http_status = 405


class UnknownCluster(NotAllowed):
    """A cluster that is not there; a broker is in one."""

    http_status = 403


class Absent(NotAllowed):
    """A resource that Apache Pulsar has and Milepost has not, with the status that says so."""

    def __init__(self, http_status: int, message: str) -> None:
        super().__init__(http_status, message)  # both, so that it survives pickling
        self.http_status = http_status  # type: ignore[misc]  # each has upstream's own
        self.message = message

    def __str__(self) -> str:
        return self.message


class PreconditionFailed(NotAllowed):
    """Something about the object or the broker must be different for it; the message says what."""

    http_status = 412


class UnexpectedPosition(PreconditionFailed):
    """A reset that said where the subscription is, and it is elsewhere. Nothing changed."""


class IncompatibleSchema(NotAllowed):
    """A schema that the topic's strategy does not allow beside those it has."""

    wire_code = 18
    http_status = 409


class EncryptionRequired(NotAllowed, MetadataError):
    """A producer, or a message, that is not encrypted where the namespace asks for it."""

    wire_code = 1  # MetadataError: clients ask again, as the policy may be taken back
    http_status = 412


class TopicTerminated(NotAllowed):
    """A publish to a topic that an operator has ended."""

    wire_code = 15


class TransactionConflict(NotAllowed):
    """An ack of what another transaction, or an ack outside of all, has taken."""

    wire_code = 23
    http_status = 409


class InvalidTransactionStatus(NotAllowed):
    """Something that an open transaction allows, asked of one that has ended, or the other end."""

    wire_code = 21
    http_status = 409


class TransactionTimedOut(InvalidTransactionStatus):
    """The transaction was open for longer than its time: it is aborted."""


class ConsumerAssignError(NotAllowed):
    """Key ranges that a Key_Shared consumer cannot have: out of bounds, overlapping, or none."""

    wire_code = 19


class NotAuthenticated(MilepostError):
    """Credentials that are missing or do not hold. The message never repeats them.

    `reason` is a short label for counting ("token_expired").
    """

    wire_code = 3
    http_status = 401

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, message)  # both, so that it survives pickling
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return self.message


class NotAuthorized(MilepostError):
    """A role without the right; the message names the role, the right and the object."""

    wire_code = 4
    http_status = 403


class PersistenceError(MilepostError):
    """Not stored. The receipt, ack or seek that waited for it fails."""

    wire_code = 2
    http_status = 500


class OutcomeUnknown(PersistenceError):
    """Stored or not: undecided until the journal can be read again."""


class DiskFull(PersistenceError):
    http_status = 507


class Fenced(PersistenceError):
    """Another broker has taken the bucket over. Nothing more may be answered from here."""


class CorruptData(MilepostError):
    wire_code = 2


class UnknownFormat(CorruptData):
    """A file says a format version that this release does not know."""


class DataDirectoryLocked(MilepostError):
    http_status = 409


class WrongDataDirectory(MilepostError):
    """A directory that holds data of another kind of start. The message says which, and what to do."""

    http_status = 409


class BucketUnusable(MilepostError):
    """A bucket that a broker cannot keep its data in. The message says why, and what to do."""


class WrongBucket(BucketUnusable):
    """A bucket with data of another kind of start, or of another cluster: no later start changes that."""


class ClientError(MilepostError):
    """This side of a connection: nothing is known of the other."""


class Timeout(ClientError, TimeoutError):
    """No answer came in time. What was asked may have been done all the same."""

    http_status = 504


class ConnectError(ClientError, ConnectionError):
    """No broker there, or the connection broke before the answer."""

    wire_code = 6
    http_status = 503


class AlreadyClosed(ClientError):
    """The client, producer, consumer or reader was closed, by its user or by an error it told of."""


class MessageTooBig(ClientError):
    wire_code = 22
    http_status = 413


class ProducerQueueIsFull(ClientError):
    """More messages wait for their receipt than `max_pending_messages` allows."""

    http_status = 429


class CryptoError(ClientError):
    """A key that is missing or does not fit, or a payload that it does not open."""


class WrongContext(ClientError):
    """A client belongs to the event loop and the process in which it was made."""


class TransactionHasOperationFailed(ClientError):
    """A commit of a transaction in which a send or an ack had failed: it is aborted."""


class BrokerError(ClientError):
    """A refusal by its number: `code` is Pulsar's ServerError."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message, code)
        self.message = message
        self.code = code

    def __str__(self) -> str:
        return self.message


class Undecodable(MilepostError, ValueError):
    """An entry or a value whose bytes are not what its metadata or schema says."""

    wire_code = 9  # ChecksumError
    http_status = 422


class ProtocolError(MilepostError, ValueError):
    """A peer's bytes are not the protocol: its connection ends, everyone else is served.

    `reason` is a short label for counting ("frame_too_large"); the message names the value.
    """

    wire_code = 10  # UnsupportedVersionError
    http_status = 400

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(reason, message)  # both, so that it survives pickling
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return self.message
