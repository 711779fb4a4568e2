"""One request: its fields, who asks, with which rights, and the answer.

A client proves its role with a Milepost token, which it shows as the access key of its credentials (mqadmin
has them in `conf/tools.yml`) or as their security token; the secret is not asked for then. Or it shows an
access key that the broker knows, and signs the request with its secret. With `authentication` on, a request
without either is refused.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from milepost.broker.auth.authenticator import Presented
from milepost.broker.auth.authorizer import BROKER, Target
from milepost.broker.auth.operations import Operation
from milepost.broker.auth.roles import TOKEN, Identity
from milepost.errors import (
    InvalidInput,
    NotAuthenticated,
    NotAuthorized,
    TopicNotFound,
)
from milepost.positions.names import NamespaceName, TopicName
from milepost.rocketmq import names
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.calls import is_token
from milepost.rocketmq.remoting.codes import RemotingRefusal, Status
from milepost.rocketmq.remoting.frames import Command

if TYPE_CHECKING:
    from milepost.broker.auth.security import Security
    from milepost.broker.broker import Broker
    from milepost.rocketmq.clients import Clients

logger = logging.getLogger("milepost.audit")

# Names of fields. The last one says how the key of a query is meant; some of upstream's clients add it when
# the request is signed.
ACCESS_KEY, SECURITY_TOKEN, SIGNATURE = "AccessKey", "SecurityToken", "Signature"
UNIQUE_KEY = "_UNIQUE_KEY_QUERY"

RETRIES = "%RETRY%"
"""Before the name of a group: the topic of its retries, which mqadmin asks for whatever it wants of a group.
Here a group has none; it has a route, and nothing is in it."""

INT64_MAX = 2**63 - 1


class Peer(NamedTuple):
    """The other end of a connection."""

    host: str
    """Its address, without its port."""
    is_confidential: bool
    """Is it on this machine, or does it speak TLS?"""
    own_host: str
    """The address of this end."""
    own_port: int
    """Where it has connected to."""


class Answer(NamedTuple):
    status: Status = Status.SUCCESS
    body: bytes = b""
    fields: Mapping[str, str] = {}
    remark: str = ""


class Request:
    def __init__(
        self, broker: Broker, peer: Peer, command: Command, clients: Clients | None
    ) -> None:
        """`clients` are those of the gRPC edge."""
        self.broker = broker
        self.clients = clients
        self.peer = peer
        self.command = command
        self.identity: Identity | None = None
        """None: clients are not asked who they are."""

    # -- who asks ----------------------------------------------------------------------------------

    async def identify(self) -> None:
        """`CutOff` while another broker may serve; `NotAuthenticated` for one that shows no
        token, or a bad one."""
        broker = self.broker
        broker.check_served()
        access = broker.access_control
        if not access.security.authenticator.is_enabled:
            return
        try:
            self.identity = await self._identity(access.security)
        except (NotAuthenticated, NotAuthorized) as error:
            access.refused(f"mqadmin from {self.peer.host}", error)
            raise

    async def _identity(self, security: Security) -> Identity:
        is_confidential, fields = self.peer.is_confidential, self.command.fields
        shown = fields.get(SECURITY_TOKEN) or fields.get(ACCESS_KEY) or ""
        if not shown:
            return await security.identify(Presented("none"))
        if is_token(shown):
            data = shown.encode()
            return await security.identify(Presented(TOKEN, data, None, is_confidential))
        key, signature = fields.get(ACCESS_KEY, ""), signature_of(self.command)
        for left_out in (SIGNATURE,), (SIGNATURE, UNIQUE_KEY):
            said = signed(self.command, left_out)
            try:
                return security.identify_key(key, said, signature, is_confidential=is_confidential)
            except NotAuthenticated:
                if UNIQUE_KEY not in fields or UNIQUE_KEY in left_out:
                    raise
        raise AssertionError("the last one returns or raises")

    def check(self, operation: Operation, target: Target = BROKER) -> None:
        """`NotAuthorized` if the client has not the right to do this."""
        access = self.broker.access_control
        if access.security.authorizer.is_enabled:
            access.check(self.identity, operation, target)

    def check_topic(self, operation: Operation, topic: TopicName, group: str = "") -> None:
        self.check(operation, Target.of_topic(topic, group))

    def may(self, operation: Operation, topic: TopicName, group: str = "") -> bool:
        """Has the client the right to do this? For lists that leave out what it has no right to."""
        authorizer = self.broker.access_control.security.authorizer
        target = Target.of_topic(topic, group)
        return not authorizer.is_enabled or authorizer.may(self.identity, operation, target)

    def check_namespace(self, operation: Operation) -> None:
        self.check(operation, Target.of_namespace(self.namespace))

    @property
    def who(self) -> str:
        """Who asks, for histories and the audit log."""
        return f"mqadmin {self.identity}" if self.identity is not None else "mqadmin"

    def note(self, action: str, what: object, **values: object) -> None:
        """Log a change with its author."""
        told = "".join(f" {name}={value}" for name, value in values.items())
        logger.info("%s %s by %s%s", action, what, self.who, told)

    # -- its fields --------------------------------------------------------------------------------

    def text(self, name: str) -> str:
        value = self.command.fields.get(name, "")
        if not value:
            raise RemotingRefusal(Status.INVALID_PARAMETER, f"the field {name} is missing")
        return value

    def flag(self, name: str) -> bool:
        return self.command.fields.get(name, "").lower() == "true"

    def number(self, name: str, *, low: int = 0, high: int = INT64_MAX, default: int = 0) -> int:
        text = self.command.fields.get(name)
        if text is None:
            return default
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            raise RemotingRefusal(
                Status.INVALID_PARAMETER, f"{name} = {text[:40]!a}: expected a whole number"
            )
        value = int(text)
        if not low <= value <= high:
            raise RemotingRefusal(
                Status.INVALID_PARAMETER, f"{name} = {value}: expected {low} to {high}"
            )
        return value

    @property
    def body(self) -> bytes:
        if self.command.dropped:
            raise InvalidInput(f"a body of {self.command.dropped} bytes is too large here")
        return self.command.body

    # -- what it is about --------------------------------------------------------------------------

    @property
    def namespace(self) -> NamespaceName:
        return NamespaceName.parse(self.broker.settings.rocketmq_namespace)

    def topic_named(self, name: str) -> TopicName:
        return names.topic_of(pb.Resource(name=name), self.broker.settings.rocketmq_namespace)

    @property
    def topic(self) -> TopicName:
        """The topic that it names, whether it is there or not."""
        return self.topic_named(self.text("topic"))

    def known_topic(self, operation: Operation, group: str = "") -> TopicName:
        """The topic that it names, for something that needs a right; `TopicNotFound` if it is not there."""
        name = self.topic
        self.check_topic(operation, name, group)
        self.check_known(name)
        return name

    def check_known(self, name: TopicName) -> None:
        self.broker.directory.check_namespace(name)
        if name.partition >= 0 or not self.broker.directory.exists(name):
            raise TopicNotFound(f"topic {name.local_name} does not exist")

    def group(self, field: str = "consumerGroup") -> str:
        return names.group_of(pb.Resource(name=self.text(field)))


def queues_of(broker: Broker, name: TopicName) -> list[TopicName]:
    """The queues of a topic, in order: its partitions, or the topic itself."""
    count = broker.directory.partitions(name)
    if count is None:
        return [name]
    return [name.partition_name(number) for number in range(count)]


def signed(command: Command, left_out: Collection[str]) -> bytes:
    """What a client signs: the values of the fields in the order of their names, and the body."""
    values = [value for name, value in sorted(command.fields.items()) if name not in left_out]
    return "".join(values).encode() + command.body


def signature_of(command: Command) -> bytes:
    """Empty: it is none."""
    try:
        return base64.b64decode(command.fields.get(SIGNATURE, "").encode(), validate=True)
    except ValueError:
        return b""
