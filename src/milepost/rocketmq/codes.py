"""The codes by which RocketMQ answers, and the one for each of Milepost's errors.

Nearly every refusal is the status of an ordinary answer; the gRPC status is OK then. Clients throw by the
class of the code (400xx, 404xx, …) and retry by it, so that a code is chosen for what its clients do.
"""

from __future__ import annotations

from enum import IntEnum

from milepost.errors import (
    Busy,
    IncompatibleSchema,
    InvalidInput,
    InvalidTopicName,
    MessageTooBig,
    MilepostError,
    NotAllowed,
    NotAuthenticated,
    NotAuthorized,
    NotFound,
    PersistenceError,
    ServiceNotReady,
    SubscriptionNotFound,
    TooManyRequests,
    TopicNotFound,
)
from milepost.rocketmq import rocketmq_pb2 as pb


class Code(IntEnum):
    OK = 20000
    MULTIPLE_RESULTS = 30000
    BAD_REQUEST = 40000
    ILLEGAL_ACCESS_POINT = 40001
    ILLEGAL_TOPIC = 40002
    ILLEGAL_CONSUMER_GROUP = 40003
    ILLEGAL_MESSAGE_TAG = 40004
    ILLEGAL_MESSAGE_KEY = 40005
    ILLEGAL_MESSAGE_GROUP = 40006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40007
    INVALID_TRANSACTION_ID = 40008
    ILLEGAL_MESSAGE_ID = 40009
    ILLEGAL_FILTER_EXPRESSION = 40010
    ILLEGAL_INVISIBLE_TIME = 40011
    ILLEGAL_DELIVERY_TIME = 40012
    INVALID_RECEIPT_HANDLE = 40013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40014
    UNRECOGNIZED_CLIENT_TYPE = 40015
    MESSAGE_CORRUPTED = 40016
    CLIENT_ID_REQUIRED = 40017
    ILLEGAL_POLLING_TIME = 40018
    UNAUTHORIZED = 40100
    FORBIDDEN = 40300
    NOT_FOUND = 40400
    MESSAGE_NOT_FOUND = 40401
    TOPIC_NOT_FOUND = 40402
    CONSUMER_GROUP_NOT_FOUND = 40403
    MESSAGE_BODY_TOO_LARGE = 41301
    MESSAGE_BODY_EMPTY = 41302
    TOO_MANY_REQUESTS = 42900
    MESSAGE_PROPERTIES_TOO_LARGE = 43101
    INTERNAL_SERVER_ERROR = 50001
    NOT_IMPLEMENTED = 50100
    MASTER_PERSISTENCE_TIMEOUT = 50401


class Refused(MilepostError):
    """A call that is answered with a code of its own."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


# From the special to the general: the first that fits counts.
_CODES: tuple[tuple[type[MilepostError], Code], ...] = (
    (NotAuthenticated, Code.UNAUTHORIZED),
    (NotAuthorized, Code.FORBIDDEN),
    (TopicNotFound, Code.TOPIC_NOT_FOUND),
    (SubscriptionNotFound, Code.CONSUMER_GROUP_NOT_FOUND),
    (NotFound, Code.NOT_FOUND),
    (InvalidTopicName, Code.ILLEGAL_TOPIC),
    (InvalidInput, Code.BAD_REQUEST),
    (MessageTooBig, Code.MESSAGE_BODY_TOO_LARGE),
    # A client that hears one of these waits a little and asks again.
    (TooManyRequests, Code.TOO_MANY_REQUESTS),
    (ServiceNotReady, Code.TOO_MANY_REQUESTS),
    (IncompatibleSchema, Code.FORBIDDEN),
    (Busy, Code.FORBIDDEN),
    (NotAllowed, Code.FORBIDDEN),
    (PersistenceError, Code.MASTER_PERSISTENCE_TIMEOUT),
)


def code_of(error: MilepostError) -> Code:
    """
    >>> code_of(TopicNotFound("x")), code_of(MilepostError("x"))
    (<Code.TOPIC_NOT_FOUND: 40402>, <Code.INTERNAL_SERVER_ERROR: 50001>)
    """
    if isinstance(error, Refused):
        return error.code
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return Code.INTERNAL_SERVER_ERROR


def status(code: Code, message: str = "") -> pb.Status:
    return pb.Status(code=code, message=message or code.name)


OK = status(Code.OK)
