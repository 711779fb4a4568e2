"""Who the client is: tokens that are renewed, passwords, certificates, and clear refusals."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import bcrypt
import pytest
from stage.certificates import Authority
from stage.security import SECURED, token

import milepost.testing
from milepost import errors
from milepost.aio import Client
from milepost.client.connection.auth import (
    AuthenticationBasic,
    AuthenticationTLS,
    AuthenticationToken,
)
from milepost.testing.broker import BrokerForTest


class World(NamedTuple):
    broker: BrokerForTest
    authority: Authority
    folder: Path

    @property
    def tls_url(self) -> str:
        return f"pulsar+ssl://localhost:{self.broker.running.broker.tls_port}"

    @property
    def trusted(self) -> str:
        return str(self.folder / "ca.pem")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority("Test authority")
    (folder / "ca.pem").write_bytes(authority.pem)
    server = authority.issue("localhost", is_server=True).write(folder, "server")
    passwords = folder / "users"
    passwords.write_text(f"bob:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    passwords.chmod(0o600)
    settings = {
        **SECURED,
        "superuser_roles": "root,bob",
        "authentication_refresh_s": 1,
        "basic_auth_file": str(passwords),
        "tls_port": 0,
        "https_port": 0,
        "tls_certificate_file": str(server.certificate),
        "tls_key_file": str(server.key),
        "tls_trust_certs_file": str(folder / "ca.pem"),
    }
    with milepost.testing.broker(**settings) as broker:
        yield World(broker, authority, folder)


async def round_trip(client: Client, topic: str) -> None:
    async with client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic)
        await producer.send(b"hello")
        message = await consumer.receive(10_000)
        assert message.data() == b"hello"
        await consumer.acknowledge(message)


async def test_a_token(world: World, topic: str) -> None:
    await round_trip(Client(world.broker.url, AuthenticationToken(token("root"))), topic)


async def test_a_password(world: World, topic: str) -> None:
    await round_trip(Client(world.broker.url, AuthenticationBasic("bob", "secret")), topic)


@pytest.mark.parametrize("validate", [False, True])
async def test_a_certificate(world: World, topic: str, validate: bool) -> None:
    files = world.authority.issue("root").write(world.folder, f"root-{validate}")
    client = Client(
        world.tls_url,
        AuthenticationTLS(str(files.certificate), str(files.key)),
        tls_trust_certs_file_path=world.trusted,
        tls_validate_hostname=validate,
    )
    await round_trip(client, topic)


async def test_a_token_over_tls(world: World, topic: str) -> None:
    url = world.tls_url.replace("pulsar+ssl", "pulsar")
    client = Client(
        url,
        AuthenticationToken(token("root")),
        use_tls=True,
        tls_allow_insecure_connection=True,
    )
    await round_trip(client, topic)


async def test_a_broker_that_nobody_vouches_for(world: World, topic: str) -> None:
    client = Client(
        world.tls_url, AuthenticationToken(token("root")), operation_timeout_seconds=0.5
    )
    async with client:
        with pytest.raises(errors.ConnectError, match="certificate"):
            await client.create_producer(topic)


async def test_a_certificate_of_another_host(world: World, tmp_path: Path, topic: str) -> None:
    elsewhere = world.authority.issue("elsewhere.example").write(tmp_path, "elsewhere")
    settings = {
        "tls_port": 0,
        "tls_certificate_file": str(elsewhere.certificate),
        "tls_key_file": str(elsewhere.key),
    }
    with milepost.testing.broker(**settings) as broker:
        url = f"pulsar+ssl://localhost:{broker.running.broker.tls_port}"
        trusting = Client(url, tls_trust_certs_file_path=world.trusted, operation_timeout_seconds=1)
        async with trusting:
            with pytest.raises(errors.ConnectError, match="certificate"):
                await trusting.create_producer(topic)
        told = Client(url, tls_trust_certs_file_path=world.trusted, tls_validate_hostname=False)
        await round_trip(told, topic)


async def test_files_that_are_not_there(world: World, topic: str) -> None:
    client = Client(world.tls_url, tls_trust_certs_file_path="none.pem")
    async with client:
        with pytest.raises(errors.InvalidInput, match=r"none\.pem"):
            await client.create_producer(topic)


@pytest.mark.parametrize(
    "authentication",
    [
        None,
        AuthenticationToken("a.b.c"),
        AuthenticationToken(token("root", exp=1)),
        AuthenticationBasic("bob", "wrong"),
    ],
    ids=["none", "garbage", "expired", "password"],
)
async def test_a_wrong_one_is_refused_at_once(
    world: World, topic: str, authentication: Any
) -> None:
    async with Client(world.broker.url, authentication) as client:
        async with asyncio.timeout(5):  # far below the operation's
            with pytest.raises(errors.NotAuthenticated):
                await client.create_producer(topic)


async def test_a_role_without_the_right(world: World, topic: str) -> None:
    async with Client(world.broker.url, AuthenticationToken(token("stranger"))) as client:
        with pytest.raises(errors.NotAuthorized):
            await client.create_producer(topic)
        with pytest.raises(errors.NotAuthorized):
            await client.subscribe(topic, "s")


async def test_a_token_is_renewed_when_the_broker_asks(world: World, topic: str) -> None:
    """AUTH_CHALLENGE: the function is asked again, and the connection lives on."""
    asked: list[str] = []

    def renew() -> str:
        asked.append(token("root", exp=int(time.time()) + 2))
        return asked[-1]

    async with Client(world.broker.url, AuthenticationToken(renew)) as client:
        producer = await client.create_producer(topic, batching_enabled=False)
        first = len(asked)
        while len(asked) < first + 1:
            await producer.send(b"x")
            await asyncio.sleep(0.01)  # sleep: the token has two seconds
        await producer.send(b"still here")
        assert producer._link.connection is not None
        assert producer._epoch == 1


async def test_a_function_that_fails_is_told(world: World, topic: str) -> None:
    def fail() -> str:
        raise RuntimeError("the vault is sealed")

    client = Client(world.broker.url, AuthenticationToken(fail), operation_timeout_seconds=0.5)
    async with client:
        with pytest.raises(errors.ConnectError, match="the vault is sealed"):
            await client.create_producer(topic)
