"""Passwords and client certificates with the official client, over TLS and not."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import bcrypt
import pulsar
import pytest
from compat.broker_process import BrokerProcess
from stage.certificates import Authority, Issued

from milepost.broker.auth.passwords import apr1

Connect = Callable[..., pulsar.Client]

AT_ONCE_S = 20.0


class World(NamedTuple):
    """A broker with every method, its authority, and where the test's files are."""

    broker: BrokerProcess
    authority: Authority
    folder: Path
    passwords: Path

    @property
    def trusted(self) -> str:
        return str(self.folder / "ca.pem")

    def certificate(self, name: str, issued: Issued) -> pulsar.AuthenticationTLS:
        files = issued.write(self.folder, name)
        return pulsar.AuthenticationTLS(str(files.certificate), str(files.key))

    def options(self, authentication: Any) -> dict[str, Any]:
        return {
            "authentication": authentication,
            "tls_trust_certs_file_path": self.trusted,
            "tls_validate_hostname": True,
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with made(tmp_path_factory.mktemp("auth")) as world:
        yield world


@pytest.fixture
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One whose files a test may change."""
    with made(tmp_path_factory.mktemp("changing")) as world:
        yield world


@contextmanager
def made(folder: Path) -> Iterator[World]:
    authority = Authority("Test authority")
    (folder / "ca.pem").write_bytes(authority.pem)
    (folder / "trusted.pem").write_bytes(authority.pem)
    server = authority.issue("localhost", is_server=True).write(folder, "server")
    passwords = folder / "users"
    blowfish = bcrypt.hashpw(b"secret-b", bcrypt.gensalt(4)).decode()
    sha = "{SHA}" + base64.b64encode(hashlib.sha1(b"secret-s").digest()).decode()
    passwords.write_text(f"bob:{blowfish}\nsue:{sha}\nann:{apr1(b'secret-a', 'saltsalt')}\n")
    passwords.chmod(0o600)
    broker = BrokerProcess(
        folder / "broker",
        authentication=True,
        authorization=True,
        superuser_roles="root,bob,sue,ann",
        basic_auth_file=passwords,
        tls_port=0,
        https_port=0,
        tls_certificate_file=server.certificate,
        tls_key_file=server.key,
        tls_trust_certs_file=folder / "trusted.pem",
        security_files_check_s=0.2,
    )
    broker.start()
    yield World(broker, authority, folder, passwords)
    log = broker.log.read_text()
    broker.kill()
    assert "secret-" not in log
    assert "Traceback" not in log


@pytest.fixture
def tls(world: World) -> Iterator[Callable[..., pulsar.Client]]:
    """Clients that connect by TLS."""
    made: list[pulsar.Client] = []

    def connect(authentication: Any = None, to: World = world, **options: Any) -> pulsar.Client:
        url = f"pulsar+ssl://localhost:{to.broker.tls_port}"
        given = {**to.options(authentication), "operation_timeout_seconds": 10, **options}
        made.append(
            pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error), **given)
        )
        return made[-1]

    yield connect
    for client in made:
        client.shutdown()


def _round_trip(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"hello")
    assert consumer.receive(10_000).data() == b"hello"
    consumer.close()


@pytest.mark.parametrize(
    ("user", "password"),
    [("bob", "secret-b"), ("sue", "secret-s"), ("ann", "secret-a")],
    ids=["bcrypt", "sha", "apr1"],  # names of topics are of these, and are logged
)
def test_each_kind_of_password(
    world: World, connect: Connect, tls: Connect, topic: str, user: str, password: str
) -> None:
    _round_trip(
        connect(world.broker, authentication=pulsar.AuthenticationBasic(user, password)), topic
    )
    _round_trip(tls(pulsar.AuthenticationBasic(user, password)), topic)


@pytest.mark.parametrize(
    ("user", "password"),
    [
        ("bob", "secret-s"),
        ("bob", ""),
        ("nobody", "secret-b"),
        ("BOB", "secret-b"),
        ("", "secret-b"),
        ("bob", "x" * 5000),
    ],
    ids=["another's", "none", "nobody", "case", "no user", "long"],
)
def test_a_wrong_password_is_refused_clearly_and_at_once(
    world: World, connect: Connect, topic: str, user: str, password: str
) -> None:
    began = time.monotonic()
    with pytest.raises(pulsar.AuthenticationError):
        connect(
            world.broker, authentication=pulsar.AuthenticationBasic(user, password)
        ).create_producer(topic)
    assert time.monotonic() - began < AT_ONCE_S


def test_a_certificate_is_a_role(world: World, tls: Connect, topic: str) -> None:
    root = world.certificate("root", world.authority.issue("root"))
    _round_trip(tls(root), topic)
    carol = world.certificate("carol", world.authority.issue("carol"))
    with pytest.raises(pulsar.AuthorizationError):
        tls(carol).create_producer(topic)


def test_certificates_that_are_no_role(
    world: World, tls: Connect, connect: Connect, topic: str
) -> None:
    two = world.certificate("two", world.authority.issue("root", "carol"))
    with pytest.raises(pulsar.AuthenticationError):
        tls(two).create_producer(topic)
    with pytest.raises(pulsar.AuthenticationError):
        tls().create_producer(topic)  # by TLS, and nobody
    with pytest.raises(pulsar.AuthenticationError):
        connect(world.broker).create_producer(topic)


@pytest.mark.parametrize("which", ["a stranger's", "expired"])
def test_certificates_that_nobody_trusts_end_in_the_handshake(
    world: World, tls: Connect, topic: str, which: str
) -> None:
    authority = Authority("Somebody else") if which == "a stranger's" else world.authority
    bad = world.certificate("bad", authority.issue("root", expired=which == "expired"))
    with pytest.raises(pulsar.PulsarException):
        tls(bad, operation_timeout_seconds=3).create_producer(topic)


def test_a_client_that_does_not_trust_the_broker_goes_away(
    world: World, tls: Connect, topic: str
) -> None:
    (world.folder / "other.pem").write_bytes(Authority("other").pem)
    root = world.certificate("root", world.authority.issue("root"))
    client = tls(
        root, tls_trust_certs_file_path=str(world.folder / "other.pem"), operation_timeout_seconds=3
    )
    with pytest.raises(pulsar.PulsarException):
        client.create_producer(topic)


def _https(world: World, authority: Authority, issued: Issued | None) -> tuple[int, Any]:
    context = ssl.create_default_context(cadata=authority.pem.decode())
    if issued is not None:
        context.load_cert_chain(*issued.write(world.folder, "https"))
    connection = http.client.HTTPSConnection(
        "localhost", world.broker.https_port, timeout=10, context=context
    )
    try:
        connection.request("GET", "/lookup/v2/topic/persistent/public/default/x")
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_https_knows_the_certificate_too(world: World) -> None:
    status, found = _https(world, world.authority, world.authority.issue("root"))
    assert status == 200
    port = world.broker.tls_port_of("persistent://public/default/x")
    assert found["brokerUrlTls"] == f"pulsar+ssl://127.0.0.1:{port}"
    assert found["httpUrlTls"] == f"https://127.0.0.1:{world.broker.https_port}"
    assert _https(world, world.authority, world.authority.issue("carol"))[0] == 403
    assert _https(world, world.authority, None)[0] == 401


def test_changed_passwords_and_certificates_are_taken_and_nobody_is_cut_off(
    changing: World, connect: Connect, tls: Connect, topic: str
) -> None:
    old = changing.certificate("old", changing.authority.issue("root"))
    client = tls(old, changing)
    producer = client.create_producer(topic)
    producer.send(b"before")
    opened = _opened(changing)
    # Another authority for the broker and for its clients, and a user less.
    other = Authority("Newer authority")
    other.issue("localhost", is_server=True).write(changing.folder, "server")
    (changing.folder / "trusted.pem").write_bytes(other.pem)
    kept = changing.passwords.read_text()
    changing.passwords.write_text("\n".join(kept.splitlines()[1:]))
    _wait(lambda: _is_new(changing, other))
    producer.send(b"after")  # by the connection that it had
    if not changing.broker.worker_ports:  # looking at a worker's own port opens one
        assert _opened(changing) == opened
    (changing.folder / "newer.pem").write_bytes(other.pem)
    newer = {"tls_trust_certs_file_path": str(changing.folder / "newer.pem")}
    _round_trip(tls(changing.certificate("new", other.issue("root")), changing, **newer), topic)
    with pytest.raises(pulsar.PulsarException):
        tls(old, changing, **newer, operation_timeout_seconds=3).create_producer(topic)
    with pytest.raises(pulsar.AuthenticationError):
        connect(
            changing.broker, authentication=pulsar.AuthenticationBasic("bob", "secret-b")
        ).create_producer(topic)
    # A list of revoked certificates is a change like others.
    mallory = other.issue("root")
    client = tls(changing.certificate("mallory", mallory), changing, **newer)
    client.create_producer(topic).close()
    (changing.folder / "trusted.pem").write_bytes(other.pem + other.revoke(mallory))
    _wait(lambda: not _is_let_in(changing, other, mallory))


def _opened(world: World) -> float:
    _, text = world.broker.rest("GET", "/metrics")
    found = [
        line
        for line in text.decode().splitlines()
        if line.startswith("milepost_connections_opened_total")
    ]
    assert found
    return sum(float(line.rsplit(" ", 1)[1]) for line in found)


def _is_new(world: World, authority: Authority) -> bool:
    """Is there a certificate of this authority, at the port of each worker too?"""
    context = ssl.create_default_context(cadata=authority.pem.decode())
    try:
        for port in world.broker.worker_tls_ports:
            with socket.create_connection(("127.0.0.1", port), 10) as plain:
                context.wrap_socket(plain, server_hostname="localhost").close()
        return _https(world, authority, authority.issue("root"))[0] == 200
    except (ssl.SSLError, OSError):
        return False


def _is_let_in(world: World, authority: Authority, issued: Issued) -> bool:
    try:
        return _https(world, authority, issued)[0] == 200
    except (ssl.SSLError, OSError):
        return False


def _wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.1)  # sleep: between two looks at a condition with a deadline
