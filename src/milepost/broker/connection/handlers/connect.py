"""CONNECT and AUTH_RESPONSE: the handshake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.auth.authenticator import Presented
from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import Work, handles
from milepost.broker.monitoring import connection_log
from milepost.errors import NotAuthenticated, NotAuthorized
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind
from milepost.wire.protocol import State

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session


@handles(Kind.CONNECT, needs=Operation.OPEN)
def connect(session: Session, command: pb.CommandConnect) -> Work:
    """The first command of a connection. The protocol version is the lower of both sides', feature
    flags and `max_message_size` are announced. Where authentication is on, `auth_data` is judged by
    `auth_method_name` (token, basic, tls), and one that does not hold is `AuthenticationError`.
    `original_principal` is for proxy roles alone; with `authenticate_original_credentials` what
    `original_auth_data` proves counts in its place. Anything else is `AuthorizationError`."""
    security = session.broker.access_control.security
    if not security.authenticator.is_enabled:
        session.protocol.accept()
        connection_log.connected(session)
        return None
    return _let_in(session, command)


async def _let_in(session: Session, command: pb.CommandConnect) -> None:
    security = session.broker.access_control.security
    try:
        identity = await security.identify(
            _presented(session, command.auth_method_name, command.auth_data),
            original_role=command.original_principal,
            original=_presented(
                session, command.original_auth_method, command.original_auth_data.encode()
            ),
        )
        if command.HasField("proxy_version") and security.authorizer.is_enabled:
            security.authorizer.check_proxy(identity)
    except (NotAuthenticated, NotAuthorized) as error:
        session.turn_away(error)
        return
    if session.protocol.state is State.CONNECTING:  # it may have ended meanwhile
        session.credentials.accept(identity)
        session.protocol.accept()
        connection_log.connected(session)
        session.flush()


@handles(Kind.AUTH_RESPONSE, needs=Operation.OPEN)
def auth_response(session: Session, command: pb.CommandAuthResponse) -> Work:
    """Answers AUTH_CHALLENGE, which is sent when credentials expire: newer ones of the same role, by the
    same method, keep the connection. Others, or none in time, end it."""
    if not session.credentials.is_challenged:
        return None  # no credentials were asked for
    return _renew(session, command)


async def _renew(session: Session, command: pb.CommandAuthResponse) -> None:
    known = session.credentials.identity
    assert known is not None, "challenged before it was let in"
    security = session.broker.access_control.security
    try:
        shown = _presented(session, known.method, command.response.auth_data)
        identity = await security.authenticator.authenticate(shown)
        if known.original_role:
            # The client behind the proxy answers, and knows nothing of the proxy's own credentials.
            identity = known._replace(
                original_role=identity.role, expires_at_ms=identity.expires_at_ms
            )
        session.credentials.accept(identity)
    except NotAuthenticated as error:
        session.turn_away(error)
        return
    session.broker.counters.authentications_renewed += 1


def _presented(session: Session, method: str, data: bytes) -> Presented:
    return Presented(method, data, session.certificate, session.is_confidential)
