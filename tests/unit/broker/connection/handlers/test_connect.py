"""CONNECT and AUTH_RESPONSE."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stage.certificates import Authority
from stage.security import SECURED, shown, token
from stage.stage import Stage
from stage.talk import error_of, minimal, produce

from milepost.broker.auth.roles import Identity
from milepost.broker.connection.handlers import HANDLERS
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind


def test_connected_says_what_may_be_sent(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(max_message_size=123_456)
    client = stage.loop.do(lambda: Loopback(stage.broker, protocol_version=13))
    stage.turn()
    (connected,) = client.take()
    assert isinstance(connected, pb.CommandConnected)
    assert connected.max_message_size == 123_456
    assert connected.protocol_version == 13
    assert connected.server_version.startswith("Milepost")
    assert connected.feature_flags.supports_get_partitioned_metadata_without_auto_creation


def test_a_second_connect_closes_the_connection(stage: Stage) -> None:
    client = stage.client()
    client.say(pb.CommandConnect(client_version="again"))
    stage.turn()
    assert client.is_lost
    assert stage.broker.counters.frames_refused == {"second_connect": 1}


def test_an_answer_to_a_challenge_that_never_was_changes_nothing(stage: Stage) -> None:
    client = stage.client()
    client.say(pb.CommandAuthResponse(client_version="x"))
    stage.turn()
    assert client.take() == []
    assert produce(stage, client).producer_name == "p"


# -- with authentication -------------------------------------------------------------------------------


@pytest.fixture
def secured(make_stage: Callable[..., Stage]) -> Stage:
    return make_stage(**SECURED, proxy_roles="proxy", authentication_refresh_s=5)


def _now_s(stage: Stage) -> int:
    return stage.clock.wall_ms() // 1000


def test_a_token_lets_its_role_in(secured: Stage) -> None:
    client = secured.client(**shown("root"))
    assert client.session.credentials.identity == Identity("root", "token")
    assert produce(secured, client).producer_name == "p"


@pytest.mark.parametrize(
    ("connect", "reason"),
    [
        ({}, "no_credentials"),
        ({"auth_method_name": "none"}, "no_credentials"),
        ({"auth_method_name": "kerberos", "auth_data": b"x"}, "unknown_method"),
        ({"auth_method_name": "token"}, "no_credentials"),
        ({"auth_method_name": "token", "auth_data": b"a.b.c"}, "token_malformed"),
        (shown("root", exp=1), "token_expired"),
        (shown("root", nbf=2**33), "token_not_yet_valid"),
        (shown("ro\not"), "bad_role"),
        ({"auth_method_name": "tls"}, "unknown_method"),
        ({"auth_method_name": "basic", "auth_data": b"root:root"}, "unknown_method"),
        ({**shown("root"), "original_principal": "a"}, "role_not_allowed"),
        ({**shown("root"), "proxy_version": "x"}, "role_not_allowed"),
        (shown("proxy"), "role_not_allowed"),
        ({**shown("proxy"), "original_principal": "proxy"}, "role_not_allowed"),
        ({**shown("proxy"), "original_principal": "a\nb"}, "bad_role"),
    ],
)
def test_who_is_not_let_in(
    secured: Stage, connect: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = secured.loop.do(lambda: Loopback(secured.broker, **connect))
    secured.turn()
    (error,) = client.take()
    assert isinstance(error, pb.CommandError)
    assert error.error in (pb.AuthenticationError, pb.AuthorizationError)
    assert client.is_lost
    assert secured.broker.counters.authentications_refused == {reason: 1}
    data = connect.get("auth_data", b"").decode() or "no secret"
    assert data not in error.message
    assert data not in caplog.text
    assert "is not let in" in caplog.text


def test_a_proxy_role_speaks_for_another(secured: Stage) -> None:
    client = secured.client(**shown("proxy"), original_principal="a", proxy_version="1")
    assert client.session.credentials.identity == Identity("proxy", "token", None, "a")


def test_commands_that_did_not_wait_to_be_let_in_are_no_protocol(secured: Stage) -> None:
    client = secured.client(handshake=False)
    client._protocol.connect(pb.CommandConnect(client_version="x"))
    client.say(pb.CommandLookupTopic(topic="t", request_id=1))
    secured.turn()
    assert client.is_lost
    assert secured.broker.counters.lookups == 0


def test_a_certificate_lets_its_common_name_in(
    make_stage: Callable[..., Stage], tmp_path: Path
) -> None:
    authority = Authority("test")
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    files = authority.issue("localhost", is_server=True).write(tmp_path, "server")
    stage = make_stage(
        authentication=True,
        tls_port=0,
        tls_certificate_file=str(files.certificate),
        tls_key_file=str(files.key),
        tls_trust_certs_file=str(tmp_path / "ca.pem"),
    )
    certificate = {"subject": ((("commonName", "carol"),),)}
    client = stage.client(auth_method_name="tls", auth_data=b"none", certificate=certificate)
    assert client.session.credentials.identity == Identity("carol", "tls")
    without = stage.client(auth_method_name="tls", auth_data=b"carol")
    assert without.is_lost


def _answer(token: str, method: str = "token") -> pb.CommandAuthResponse:
    response = pb.AuthData(auth_method_name=method, auth_data=token.encode())
    return pb.CommandAuthResponse(client_version="x", response=response)


def test_a_token_that_expires_is_asked_for_again_and_renewed(secured: Stage) -> None:
    client = secured.client(**shown("root", exp=_now_s(secured) + 10))
    produce(secured, client)
    secured.tick(9)
    assert not client.take_all(pb.CommandAuthChallenge)
    secured.tick(1)
    (challenge,) = client.take_all(pb.CommandAuthChallenge)
    assert challenge.challenge.auth_method_name == "token"
    assert challenge.challenge.auth_data == b"PulsarAuthRefresh"
    client.say(_answer(token("root", exp=_now_s(secured) + 10)))
    secured.tick(9)
    assert not client.is_closing
    assert client.session.producers
    assert secured.broker.counters.authentications_renewed == 1
    secured.tick(1)
    assert client.take_all(pb.CommandAuthChallenge)


def test_a_challenge_without_an_answer_ends_the_connection(secured: Stage) -> None:
    client = secured.client(**shown("root", exp=_now_s(secured) + 10))
    secured.tick(10)
    assert len(client.take_all(pb.CommandAuthChallenge)) == 1
    secured.tick(4)
    assert not client.is_closing
    secured.tick(1)
    assert client.is_lost
    assert secured.broker.counters.connections_closed == {"credentials_expired": 1}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda now: token("root", exp=now - 1), "token_expired"),
        (lambda now: token("other"), "role_changed"),
        (lambda now: "a.b.c", "token_malformed"),
        (lambda now: "", "no_credentials"),
    ],
)
def test_a_bad_answer_ends_the_connection(
    secured: Stage, answer: Callable[[int], str], reason: str
) -> None:
    client = secured.client(**shown("root", exp=_now_s(secured) + 10))
    secured.tick(10)
    client.say(_answer(answer(_now_s(secured))))
    secured.turn()
    assert client.is_lost
    assert secured.broker.counters.authentications_refused == {reason: 1}


def test_the_answer_is_judged_by_the_method_of_the_beginning(
    make_stage: Callable[..., Stage],
) -> None:
    """Else an expired token could be renewed by no credentials at all, where anonymous are let in."""
    stage = make_stage(**SECURED, anonymous_role="root2")
    client = stage.client(**shown("root2", exp=_now_s(stage) + 10))
    stage.tick(10)
    client.say(_answer("", method="none"))
    stage.turn()
    assert client.is_lost


def test_a_client_that_cannot_refresh_ends_when_its_token_does(secured: Stage) -> None:
    client = secured.client(handshake=False)
    client._protocol.connect(
        pb.CommandConnect(
            client_version="old", protocol_version=12, **shown("root", exp=_now_s(secured) + 10)
        )
    )
    client.say()
    secured.tick(9)
    assert not client.is_closing
    secured.tick(1)
    assert client.is_lost


def test_a_client_that_hears_no_error_in_the_handshake_is_told_at_its_first_request(
    secured: Stage,
) -> None:
    """The C++ client takes an ERROR before CONNECTED for a broken connection, and tries on."""
    client = secured.client(client_version="Pulsar-CPP-v4.2.0", **shown("root", exp=1))
    assert not client.is_closing
    for kind, handler in HANDLERS.items():
        if kind in (Kind.CONNECT, Kind.AUTH_RESPONSE):
            continue
        client.say(minimal(kind))
        secured.turn()
        errors = {error_of(heard) for heard in client.take()}
        # Where there is no answer to carry it, there is none.
        assert errors <= {"AuthenticationError"}, handler
    assert not client.session.producers
    assert not client.session.consumers
    assert secured.broker.counters.lookups == 0
    client.say(_answer(token("root")))  # too late: nobody asked
    secured.turn()
    assert client.session.credentials.identity is None
    secured.tick(10)
    assert client.is_lost
