"""Forged and misdirected credentials with the official client, against a broker that trusts a public key.

Each is one that some broker, somewhere, has once let in.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pulsar
import pytest
from compat.broker_process import BrokerProcess
from rsa_keys import key_pair
from stage.certificates import Authority, Issued

Connect = Callable[..., pulsar.Client]

PUBLIC, PRIVATE = key_pair()
HERE = "milepost"


def signed(role: str | None, *, by: bytes = PRIVATE, **claims: Any) -> str:
    own = {} if role is None else {"sub": role}
    return jwt.encode({"aud": HERE, **own, **claims}, by.decode(), "RS256")


def _part(value: bytes | dict[str, Any]) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _made(header: dict[str, Any], secret: bytes | None = None) -> str:
    """A token with any header, signed with a secret or not at all."""
    text = f"{_part(header)}.{_part({'sub': 'root', 'aud': HERE})}"
    mark = b"" if secret is None else hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return f"{text}.{_part(mark)}"


def _embedded() -> str:
    """Signed by a stranger who shows the key to check it with."""
    public, private = key_pair(1)
    jwk = json.loads(
        jwt.algorithms.RSAAlgorithm.to_jwk(jwt.algorithms.RSAAlgorithm("").prepare_key(public))
    )  # type: ignore[arg-type]
    headers = {"jwk": jwk, "jku": "http://localhost/keys", "kid": "../../../dev/null"}
    return jwt.encode({"sub": "root", "aud": HERE}, private.decode(), "RS256", headers)


def _swapped() -> str:
    """The signature of one token under the claims of another."""
    head, _, mark = signed("nobody").split(".")
    return f"{head}.{signed('root').split('.')[1]}.{mark}"


WRONG: dict[str, Callable[[], str]] = {
    "the public key as a secret": lambda: _made({"alg": "HS256", "typ": "JWT"}, PUBLIC),
    "the public key, trimmed, as a secret": lambda: _made({"alg": "HS256"}, PUBLIC.strip()),
    "unsigned": lambda: _made({"alg": "none"}),
    "unsigned, spelt otherwise": lambda: _made({"alg": "nOnE"}),
    "without an algorithm": lambda: _made({"typ": "JWT"}),
    "with a key of its own": _embedded,
    "by another key": lambda: signed("root", by=key_pair(1)[1]),
    "claims and signature of two": _swapped,
    "for another audience": lambda: signed("root", aud="elsewhere"),
    "for others beside": lambda: signed("root", aud=["elsewhere", "nowhere"]),
    "for nobody in particular": lambda: signed("root", aud=None),
    "expired": lambda: signed("root", exp=1),
    "not yet valid": lambda: signed("root", nbf=2**33),
    "without a role": lambda: signed(None),
    "a role of two lines": lambda: signed("root\nadmin"),
    "a role that is no text": lambda: signed(None, sub=7),
    "an empty role": lambda: signed(""),
}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("Forgeries")


@pytest.fixture(scope="module")
def revoked(authority: Authority) -> Issued:
    return authority.issue("root")


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority, revoked: Issued
) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("forgeries")
    (folder / "public.pem").write_bytes(PUBLIC)
    (folder / "trusted.pem").write_bytes(authority.pem + authority.revoke(revoked))
    server = authority.issue("localhost", is_server=True).write(folder, "server")
    broker = BrokerProcess(
        folder / "broker",
        authentication=True,
        authorization=True,
        superuser_roles="root,proxy",
        proxy_roles="proxy",
        token_public_key=folder / "public.pem",
        token_audience_claim="aud",
        token_audience=HERE,
        tls_port=0,
        tls_certificate_file=server.certificate,
        tls_key_file=server.key,
        tls_trust_certs_file=folder / "trusted.pem",
    )
    broker.start()
    yield broker
    log = broker.log.read_text()
    broker.kill()
    assert "eyJ" not in log, "a token, or a part of one"
    assert "Traceback" not in log


def test_the_right_one_is_let_in(broker: BrokerProcess, connect: Connect, topic: str) -> None:
    for audience in (HERE, ["elsewhere", HERE]):
        authentication = pulsar.AuthenticationToken(signed("root", aud=audience))
        client = connect(broker, authentication=authentication)
        client.create_producer(topic).send(b"hello")


@pytest.mark.parametrize("which", WRONG)
def test_a_forged_token_is_refused_clearly(
    broker: BrokerProcess, connect: Connect, topic: str, which: str
) -> None:
    wrong = WRONG[which]()
    client = connect(broker, authentication=pulsar.AuthenticationToken(wrong))
    with pytest.raises(pulsar.AuthenticationError):
        client.create_producer(topic)
    path = "/admin/v2/namespaces/public"
    status, answer = broker.rest("GET", path, None, {"authorization": f"Bearer {wrong}"})
    assert status == 401, answer


def test_a_proxy_that_speaks_for_nobody_is_refused(
    broker: BrokerProcess, connect: Connect, topic: str
) -> None:
    client = connect(broker, authentication=pulsar.AuthenticationToken(signed("proxy")))
    with pytest.raises((pulsar.AuthenticationError, pulsar.AuthorizationError)):
        client.create_producer(topic)
    headers = {"authorization": f"Bearer {signed('proxy')}"}
    assert broker.rest("GET", "/admin/v2/tenants", None, headers)[0] == 403
    # The official package does not speak for others; a request may, and only a proxy's.
    spoken = {**headers, "x-original-principal": "root"}
    assert broker.rest("GET", "/admin/v2/tenants", None, spoken)[0] == 200
    for role, original in (("proxy", "proxy"), ("nobody", "root"), ("proxy", "root\tx")):
        forged = {"authorization": f"Bearer {signed(role)}", "x-original-principal": original}
        assert broker.rest("GET", "/admin/v2/tenants", None, forged)[0] in (401, 403), original


def test_another_method_is_not_taken_for_one_that_is_there(
    broker: BrokerProcess, connect: Connect, topic: str
) -> None:
    client = connect(broker, authentication=pulsar.AuthenticationBasic("root", "root"))
    with pytest.raises(pulsar.AuthenticationError):
        client.create_producer(topic)


def test_a_revoked_certificate_ends_in_the_handshake(
    broker: BrokerProcess, authority: Authority, revoked: Issued, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    for name, issued, is_in in (("fine", authority.issue("root"), True), ("bad", revoked, False)):
        files = issued.write(tmp_path, name)
        client = pulsar.Client(
            f"pulsar+ssl://localhost:{broker.tls_port}",
            authentication=pulsar.AuthenticationTLS(str(files.certificate), str(files.key)),
            tls_trust_certs_file_path=str(tmp_path / "ca.pem"),
            tls_validate_hostname=True,
            operation_timeout_seconds=30 if is_in else 3,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        try:
            if is_in:
                client.create_producer(topic).send(b"hello")
            else:
                with pytest.raises(pulsar.PulsarException):
                    client.create_producer(topic)
        finally:
            client.shutdown()
