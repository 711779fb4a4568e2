"""CONNECT and AUTH_RESPONSE: the handshake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.handlers.registry import Work, handles
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.session import Session


@handles(Kind.CONNECT, needs=Operation.OPEN)
def connect(session: Session, command: pb.CommandConnect) -> Work:
    """The first command of a connection. The protocol version is the lower of both sides', feature
    flags and `max_message_size` are announced. Every role is let in: credentials are not checked."""
    session.protocol.accept()
    return None


@handles(Kind.AUTH_RESPONSE, needs=Operation.OPEN)
def auth_response(session: Session, command: pb.CommandAuthResponse) -> Work:
    """Answers a challenge. None is ever sent, so it changes nothing."""
    return None
