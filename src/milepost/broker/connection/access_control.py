"""Checks a client's identity and rights for each command, and remembers what it refused.

What is asked is decided in `auth/`; here it is asked for a session or a request, counted by reason and
logged without the credentials. When grants change, it looks at every producer and consumer of the
namespace again and closes those whose right is gone, as upstream does: their clients come back, and are
refused then.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING

from milepost.broker.auth import certificates
from milepost.broker.auth.authorizer import BROKER, Target
from milepost.broker.auth.grant_book import GrantBook
from milepost.broker.auth.operations import Operation, Scope
from milepost.broker.auth.roles import TOKEN, Identity
from milepost.broker.auth.security import Security
from milepost.broker.directory.directory import check_stored
from milepost.broker.transactions.coordinator import is_coordinator_topic
from milepost.errors import MilepostError, NotAuthenticated, NotAuthorized
from milepost.positions.names import NamespaceName, TopicName
from milepost.wire import replies

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from milepost.broker.broker import Broker
    from milepost.broker.connection.session import Session
    from milepost.wire.events import TransactionRequest

logger = logging.getLogger(__name__)


class AccessControl:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._next_reload = 0.0
        self.changes = 0
        """How often rights have changed. A client that was judged before a change and acts behind it is
        looked at again."""
        self.grants = GrantBook(broker.registry, check=check_stored, on_change=self.recheck)
        self.security = Security(
            broker.settings,
            self.grants,
            now_ms=broker.clock.wall_ms,
            admins_of=broker.directory.admins_of,
            on_tls_failure=self._tls_failed,
        )

    async def load(self) -> None:
        for warning in (*self.security.warnings, *self._in_the_clear()):
            logger.warning(warning)
        await self.grants.load()

    def _in_the_clear(self) -> Iterator[str]:
        settings, authenticator = self._broker.settings, self.security.authenticator
        secrets = {*authenticator.methods} - {certificates.METHOD}
        rocketmq_port = max(settings.rocketmq_port, settings.rocketmq_namesrv_port)
        is_plain = max(settings.port, settings.http_port, rocketmq_port) >= 0
        is_private = settings.host in ("127.0.0.1", "::1", "localhost")
        if secrets and is_plain and not is_private and not settings.require_tls_for_credentials:
            yield (
                f"{' and '.join(sorted(secrets))} credentials may cross the network in the clear: "
                "close the plain ports (-1), or set require_tls_for_credentials"
            )

    def tick(self, now: float) -> None:
        """Once a second: have the operator's files changed?"""
        if now >= self._next_reload:
            self._next_reload = now + self._broker.settings.security_files_check_s
            if TOKEN in self.security.reload():
                # An operator changes a key so that tokens of the old one are no longer believed.
                now_ms = self._broker.clock.wall_ms()
                for session in self._broker.sessions:
                    session.credentials.doubt(TOKEN, now_ms)

    # -- may they? ---------------------------------------------------------------------------------

    def check_command(
        self, session: Session, operation: Operation, command: Message | TransactionRequest
    ) -> None:
        """May the client ask this? `NotAuthorized` if not. The command names what it is about."""
        if self.security.authorizer.is_enabled and operation.scope is not Scope.NOTHING:
            target = _target(operation, command)
            self.check(session.credentials.identity, operation, target)

    def check(self, identity: Identity | None, operation: Operation, target: Target) -> None:
        if operation is Operation.LOOK_UP and is_coordinator_topic(target.topic):
            return  # every client that may open transactions asks where, over HTTP too
        try:
            self.security.authorizer.check(identity, operation, target)
        except NotAuthorized as error:
            self._broker.counters.authorizations_refused[operation.name.lower()] += 1
            logger.info("refused: %s", error)
            raise

    def refused(self, who: object, error: MilepostError) -> None:
        """Count a client that was not let in."""
        reason = error.reason if isinstance(error, NotAuthenticated) else "role_not_allowed"
        self._broker.counters.authentications_refused[reason] += 1
        logger.warning("%s is not let in: %s", who, error)

    def _tls_failed(self, error: ssl.SSLError) -> None:
        self._broker.counters.connections_refused["tls_handshake"] += 1
        logger.info("a TLS handshake failed: %s", error.reason or type(error).__name__)

    async def forget_topic(self, name: TopicName) -> None:
        """A topic is being deleted, and its grants with it."""
        if str(name) in self.grants.of(name.namespace).topics:
            await self.grants.edit(name.namespace, lambda grants: grants.without_topic(name))

    # -- may they still? ---------------------------------------------------------------------------

    def recheck(self, namespace: NamespaceName | None = None) -> None:
        """Rights have changed, in one namespace or anywhere: end what could not be opened now."""
        self.changes += 1
        if self.security.authorizer.is_enabled:
            for session in list(self._broker.sessions):
                self._recheck(session, namespace)

    def look_again(self, session: Session, changes: int) -> None:
        """Something was opened that was judged when rights had changed so often: does it still hold?"""
        if self.changes != changes and self.security.authorizer.is_enabled:
            self._recheck(session, None)

    def _recheck(self, session: Session, namespace: NamespaceName | None) -> None:
        authorizer, identity = self.security.authorizer, session.credentials.identity
        for producer in list(session.producers.values()):
            name = producer.topic.name
            if namespace in (None, name.namespace) and not authorizer.may(
                identity, Operation.PRODUCE, Target.of_topic(name)
            ):
                self._broker.counters.rights_ended["produce"] += 1
                logger.info("%s: role %s may no longer produce to %s", session, identity, name)
                self._broker.admissions.remove(producer)
                session.write((replies.close_producer(producer.producer_id),))
        for consumer in list(session.consumers.values()):
            name, label = consumer.subscription.topic.name, consumer.subscription.name
            if namespace in (None, name.namespace) and not authorizer.may(
                identity, Operation.CONSUME, Target.of_topic(name, label)
            ):
                self._broker.counters.rights_ended["consume"] += 1
                logger.info("%s: role %s may no longer consume %s", session, identity, name)
                self._broker.close_consumer(consumer)
        for watcher_id, watched in self._broker.watchers.of(session):
            # The protocol cannot tell a client that its watcher has ended: it just hears of no more topics.
            target = Target.of_namespace(NamespaceName.parse(watched))
            if namespace in (None, target.namespace) and not authorizer.may(
                identity, Operation.LIST_TOPICS, target
            ):
                self._broker.counters.rights_ended["watch"] += 1
                self._broker.watchers.remove(session, watcher_id)


def _target(operation: Operation, command: Message | TransactionRequest) -> Target:
    """What a command is about, by its fields."""
    if operation.scope is Scope.TOPIC:
        subscription = getattr(command, "subscription", "")
        return Target.of_topic(TopicName.parse(getattr(command, "topic")), subscription)  # noqa: B009
    if operation.scope is Scope.NAMESPACE:
        return Target.of_namespace(NamespaceName.parse(getattr(command, "namespace")))  # noqa: B009
    return BROKER
