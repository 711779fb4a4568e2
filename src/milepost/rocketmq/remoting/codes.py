"""Codes of requests and answers by upstream's numbers, and the one for each of Milepost's errors."""

from __future__ import annotations

from enum import IntEnum

from milepost.errors import (
    Busy,
    MilepostError,
    NotAuthenticated,
    NotAuthorized,
    SubscriptionNotFound,
    TopicNotFound,
)


class Ask(IntEnum):
    """Requests that are answered. Every other code is refused with REQUEST_CODE_NOT_SUPPORTED."""

    PULL_MESSAGE = 11
    QUERY_MESSAGE = 12
    UPDATE_CONSUMER_OFFSET = 15
    UPDATE_AND_CREATE_TOPIC = 17
    GET_BROKER_CONFIG = 26
    GET_BROKER_RUNTIME_INFO = 28
    SEARCH_OFFSET_BY_TIMESTAMP = 29
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    VIEW_MESSAGE_BY_ID = 33
    HEART_BEAT = 34
    UNREGISTER_CLIENT = 35
    PUT_KV_CONFIG = 100
    DELETE_KV_CONFIG = 102
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
    GET_TOPIC_STATS_INFO = 202
    GET_CONSUMER_CONNECTION_LIST = 203
    GET_PRODUCER_CONNECTION_LIST = 204
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    DELETE_SUBSCRIPTIONGROUP = 207
    GET_CONSUME_STATS = 208
    DELETE_TOPIC_IN_BROKER = 215
    DELETE_TOPIC_IN_NAMESRV = 216
    INVOKE_BROKER_TO_RESET_OFFSET = 222
    QUERY_TOPIC_CONSUME_BY_WHO = 300
    GET_CONSUMER_RUNNING_INFO = 307
    VIEW_BROKER_STATS_DATA = 315
    GET_TOPIC_CONFIG = 351


class Status(IntEnum):
    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    MESSAGE_ILLEGAL = 13
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    INVALID_PARAMETER = 29
    CONSUMER_NOT_ONLINE = 206


class RemotingRefusal(MilepostError):
    """A request that is answered with a code of its own."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status


# From the special to the general: the first that fits counts.
_STATUSES: tuple[tuple[type[MilepostError], Status], ...] = (
    (NotAuthenticated, Status.NO_PERMISSION),
    (NotAuthorized, Status.NO_PERMISSION),
    (TopicNotFound, Status.TOPIC_NOT_EXIST),
    (SubscriptionNotFound, Status.SUBSCRIPTION_GROUP_NOT_EXIST),
    (Busy, Status.SYSTEM_BUSY),
)


def status_of(error: MilepostError) -> Status:
    """
    >>> status_of(TopicNotFound("x")), status_of(MilepostError("x"))
    (<Status.TOPIC_NOT_EXIST: 17>, <Status.SYSTEM_ERROR: 1>)
    """
    if isinstance(error, RemotingRefusal):
        return error.status
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return Status.SYSTEM_ERROR
