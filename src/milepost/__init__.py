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
    from milepost import aio
    from milepost import exceptions as exceptions
    from milepost import schema as schema
    from milepost.client.connection.auth import Authentication as Authentication
    from milepost.client.connection.auth import AuthenticationBasic as AuthenticationBasic
    from milepost.client.connection.auth import AuthenticationTLS as AuthenticationTLS
    from milepost.client.connection.auth import AuthenticationToken as AuthenticationToken
    from milepost.client.loggers import ConsoleLogger as ConsoleLogger
    from milepost.client.loggers import FileLogger as FileLogger
    from milepost.client.loggers import LoggerLevel as LoggerLevel
    from milepost.client.messages.encryption import EncryptionContext as EncryptionContext
    from milepost.client.messages.encryption import EncryptionKey as EncryptionKey
    from milepost.client.messages.key_reader import CryptoKeyReader as CryptoKeyReader
    from milepost.client.messages.message import Message as Message
    from milepost.client.policies import BatchingType as BatchingType
    from milepost.client.policies import CompressionType as CompressionType
    from milepost.client.policies import ConsumerBatchReceivePolicy as ConsumerBatchReceivePolicy
    from milepost.client.policies import ConsumerCryptoFailureAction as ConsumerCryptoFailureAction
    from milepost.client.policies import ConsumerDeadLetterPolicy as ConsumerDeadLetterPolicy
    from milepost.client.policies import ConsumerKeySharedPolicy as ConsumerKeySharedPolicy
    from milepost.client.policies import ConsumerType as ConsumerType
    from milepost.client.policies import InitialPosition as InitialPosition
    from milepost.client.policies import KeySharedMode as KeySharedMode
    from milepost.client.policies import NegativeAckBackoff as NegativeAckBackoff
    from milepost.client.policies import PartitionsRoutingMode as PartitionsRoutingMode
    from milepost.client.policies import ProducerAccessMode as ProducerAccessMode
    from milepost.client.policies import RegexSubscriptionMode as RegexSubscriptionMode
    from milepost.client.results import Result as Result
    from milepost.client.sync import Client as Client
    from milepost.client.sync import Consumer as Consumer
    from milepost.client.sync import Producer as Producer
    from milepost.client.sync import Reader as Reader
    from milepost.client.sync import TableView as TableView
    from milepost.client.sync import Transaction as Transaction
    from milepost.client.transactions.transaction import TransactionState as TransactionState
    from milepost.errors import IndexNotFound as IndexNotFound
    from milepost.errors import InvalidInput as InvalidInput
    from milepost.errors import InvalidMessageId as InvalidMessageId
    from milepost.errors import InvalidTransactionStatus as InvalidTransactionStatus
    from milepost.errors import MilepostError as MilepostError
    from milepost.errors import NotAllowed as NotAllowed
    from milepost.errors import NotAuthenticated as NotAuthenticated
    from milepost.errors import NotAuthorized as NotAuthorized
    from milepost.errors import PersistenceError as PersistenceError
    from milepost.errors import ServiceNotReady as ServiceNotReady
    from milepost.errors import TransactionHasOperationFailed as TransactionHasOperationFailed
    from milepost.errors import TransactionTimedOut as TransactionTimedOut
    from milepost.exceptions import *  # noqa: F403
    from milepost.positions import ChunkMessageId as ChunkMessageId
    from milepost.positions import MessageId as MessageId
    from milepost.schemas import BytesSchema as BytesSchema

    asyncio = aio

# Which module has which names; those that are nowhere here are exceptions of the official package.
_HOMES = {
    "client.connection.auth": (
        "Authentication AuthenticationBasic AuthenticationTLS AuthenticationToken"
    ),
    "client.loggers": "ConsoleLogger FileLogger LoggerLevel",
    "client.messages.encryption": "EncryptionContext EncryptionKey",
    "client.messages.key_reader": "CryptoKeyReader",
    "client.messages.message": "Message",
    "client.policies": (
        "BatchingType CompressionType ConsumerBatchReceivePolicy ConsumerCryptoFailureAction "
        "ConsumerDeadLetterPolicy ConsumerKeySharedPolicy ConsumerType InitialPosition "
        "KeySharedMode NegativeAckBackoff PartitionsRoutingMode ProducerAccessMode "
        "RegexSubscriptionMode"
    ),
    "client.results": "Result",
    "client.sync": "Client Consumer Producer Reader TableView Transaction",
    "client.transactions.transaction": "TransactionState",
    "errors": (
        "IndexNotFound InvalidInput InvalidMessageId InvalidTransactionStatus MilepostError "
        "NotAllowed NotAuthenticated NotAuthorized PersistenceError ServiceNotReady "
        "TransactionHasOperationFailed TransactionTimedOut"
    ),
    "positions": "ChunkMessageId MessageId",
    "schemas": "BytesSchema",
}

# The official package's modules, as attributes.
_MODULES = {"asyncio": "aio", "exceptions": "exceptions", "schema": "schema"}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__all__":
        return __dir__()
    if name in _MODULES:
        return import_module(f"milepost.{_MODULES[name]}")
    home = next((home for home, names in _HOMES.items() if name in names.split()), "exceptions")
    module = import_module(f"milepost.{home}")
    if home == "exceptions" and name not in module.__all__:
        raise AttributeError(f"module 'milepost' has no attribute {name!r}")
    return getattr(module, name)


def __dir__() -> list[str]:
    from milepost import exceptions

    return sorted(
        ["__version__", *_MODULES, *exceptions.__all__, *" ".join(_HOMES.values()).split()]
    )
