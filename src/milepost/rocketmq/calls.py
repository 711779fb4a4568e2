"""One call: which client makes it, with which rights.

A client proves its role with a Milepost token, which it shows as the access key of its credentials, as their
session token, or as a bearer token. The secret that goes with the access key is not asked for: RocketMQ's
signature is made with a secret that the server has to know, and Milepost keeps none. An access key that is
no token is refused, and the refusal says so.

The rights are those of every other way in: to produce, to consume by a subscription, to look a topic up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.broker.auth.authenticator import Presented
from milepost.broker.auth.authorizer import Target
from milepost.broker.auth.operations import Operation
from milepost.broker.auth.roles import TOKEN, Identity
from milepost.broker.connection.server import is_this_machine
from milepost.errors import NotAuthenticated, NotAuthorized
from milepost.positions.names import TopicName
from milepost.rocketmq.codes import Code, Refused
from milepost.rocketmq.names import split_group

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.rocketmq.grpc.call import GrpcCall

CLIENT_ID = "x-mq-client-id"
LANGUAGE = "x-mq-language"
VERSION = "x-mq-client-version"
SESSION_TOKEN = "x-mq-session-token"  # noqa: S105  # the name of a header
AUTHORIZATION = "authorization"
CLIENT_ID_LENGTH_MAX = 256

DATE_TIME = "x-mq-date-time"
# Go's clients say KEY//RocketMQ: a region and a service follow the key.
_ACCESS_KEY = re.compile(r"Credential=([^,\s/]*)")
_SIGNATURE = re.compile(r"Signature=([0-9a-fA-F]{40})(?![0-9a-zA-Z])")


class Call(NamedTuple):
    client: str
    """By which the client is known: what it calls itself, and its role. No client speaks for another."""
    identity: Identity | None
    """None: clients are not asked who they are."""
    address: str
    remaining_s: float | None
    """How long the client waits for the answer; None: for ever."""
    language: str = ""
    version: str = ""
    """Both as the client says them."""

    @property
    def role(self) -> str:
        """Empty where clients are not asked who they are."""
        return "" if self.identity is None else str(self.identity)


class Callers:
    """Who makes a call, and whether the client may."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def enter(self, asked: GrpcCall) -> Call:
        """The call that a client makes; `Refused` or `NotAuthenticated` if it may not be made."""
        self.check_served()
        headers = asked.headers
        client_id = headers.get(CLIENT_ID, "")
        if not client_id:
            raise Refused(Code.CLIENT_ID_REQUIRED, f"the header {CLIENT_ID} is missing")
        if len(client_id) > CLIENT_ID_LENGTH_MAX or not client_id.isprintable():
            raise Refused(Code.BAD_REQUEST, f"client id {client_id[:40]!a}… cannot be used")
        identity = None
        if self._broker.access_control.security.authenticator.is_enabled:
            identity = await self._identify(asked)
        role = "" if identity is None else str(identity)
        return Call(
            f"{role}/{client_id}",
            identity,
            asked.address,
            asked.remaining_s,
            headers.get(LANGUAGE, ""),
            headers.get(VERSION, ""),
        )

    def check_served(self) -> None:
        """`CutOff` while another broker may serve these clients."""
        self._broker.check_served()

    def check(self, call: Call, operation: Operation, topic: TopicName, group: str = "") -> None:
        """`NotAuthorized` if the client has not the right to do this."""
        access = self._broker.access_control
        if access.security.authorizer.is_enabled:
            target = Target.of_topic(topic, split_group(group)[0])
            access.check(call.identity, operation, target)

    @property
    def changes(self) -> int:
        """How often rights have changed: a call that has waited is judged again if they have."""
        return self._broker.access_control.changes

    async def _identify(self, asked: GrpcCall) -> Identity:
        access, address = self._broker.access_control, asked.address
        try:
            is_confidential = is_this_machine(address) or asked.is_encrypted
            presented = presented_by(asked.headers, is_confidential=is_confidential)
            if isinstance(presented, Signed):
                return access.security.identify_key(*presented, is_confidential=is_confidential)
            return await access.security.identify(presented)
        except (NotAuthenticated, NotAuthorized) as error:
            access.refused(f"a RocketMQ client from {address}", error)
            raise


class Signed(NamedTuple):
    """A text that a client has signed with the secret of its access key."""

    key: str
    said: bytes
    signature: bytes


def presented_by(headers: Mapping[str, Any], *, is_confidential: bool) -> Presented | Signed:
    """What the headers of a call show. A token in the place of an access key has no signature to be checked:
    clients sign with any secret then."""
    authorization = str(headers.get(AUTHORIZATION, ""))
    scheme, _, value = authorization.partition(" ")
    shown, key = str(headers.get(SESSION_TOKEN, "")), _ACCESS_KEY.search(authorization)
    if not is_token(shown):  # else it says more than the access key beside it
        if scheme.lower() == "bearer":
            return Presented(TOKEN, value.strip().encode(), None, is_confidential)
        shown = "" if key is None else key[1]
    if not shown:
        return Presented("none")
    if not is_token(shown):
        found = _SIGNATURE.search(authorization)
        signature = b"" if found is None else bytes.fromhex(found[1])
        return Signed(shown, str(headers.get(DATE_TIME, "")).encode(), signature)
    return Presented(TOKEN, shown.encode(), None, is_confidential)


def is_token(shown: str) -> bool:
    """Is it a token of Milepost's, and no access key?

    >>> is_token("eyJ0.eyJ1.c2ln"), is_token("LTAI5.key")
    (True, False)
    """
    return shown.count(".") == 2
