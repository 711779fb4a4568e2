"""Encryption from end to end: between our clients, and both ways with the official one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from rsa_keys import key_pair

import milepost
from milepost.aio import Client
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.client.policies import (
    CompressionType,
    ConsumerCryptoFailureAction,
    ConsumerDeadLetterPolicy,
    ConsumerType,
    InitialPosition,
)
from milepost.errors import CryptoError, EncryptionRequired, Timeout
from milepost.positions import EARLIEST
from milepost.positions.names import NamespaceName

Connect = Callable[..., Client]
SENDING: list[dict[str, Any]] = [
    {"batching_enabled": False},
    {"batching_enabled": True},
    {"batching_enabled": True, "compression_type": CompressionType.ZSTD},
    {"chunking_enabled": True, "compression_type": CompressionType.LZ4},
]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Files of a public and a private key."""
    folder = tmp_path_factory.mktemp("keys")
    found: list[str] = []
    for name, pem in zip(("public.pem", "private.pem"), key_pair(), strict=True):
        (folder / name).write_bytes(pem)
        found.append(str(folder / name))
    return found[0], found[1]


@pytest.fixture
def keys(paths: tuple[str, str]) -> milepost.CryptoKeyReader:
    return milepost.CryptoKeyReader(*paths)


@pytest.fixture
def official(service: str) -> Any:
    pulsar = pytest.importorskip("pulsar")
    client = pulsar.Client(service, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield pulsar, client
    client.close()


def contents(options: dict[str, Any]) -> list[bytes]:
    if "chunking_enabled" not in options:
        return [b"one", b"", b"two"]
    # More than one chunk: nothing that compresses.
    return [Random(1).randbytes(6_000_000), b"tail"]


@pytest.mark.parametrize("options", SENDING)
async def test_who_has_the_key_reads(
    connect: Connect, topic: str, keys: Any, options: dict[str, Any]
) -> None:
    async with connect() as client:
        consumer = await client.subscribe(topic, "s", crypto_key_reader=keys)
        producer = await client.create_producer(
            topic, encryption_key="k", crypto_key_reader=keys, **options
        )
        sent = [await producer.enqueue(content) for content in contents(options)]
        for one, content in zip(sent, contents(options), strict=True):
            message = await consumer.receive(20_000)
            assert message.data() == content
            assert message.message_id() == await one
            context = message.encryption_context()
            assert context is not None
            [key] = context.keys()
            assert key.key == "k"
            assert not context.is_decryption_failed()
            await consumer.acknowledge(message)


@pytest.mark.parametrize("options", SENDING)
def test_the_official_client_reads_ours(
    service: str, topic: str, paths: tuple[str, str], official: Any, options: dict[str, Any]
) -> None:
    pulsar, theirs = official
    consumer = theirs.subscribe(topic, "s", crypto_key_reader=pulsar.CryptoKeyReader(*paths))
    with milepost.Client(service) as client:
        producer = client.create_producer(
            topic,
            encryption_key="k",
            crypto_key_reader=milepost.CryptoKeyReader(*paths),
            **options,
        )
        for content in contents(options):
            producer.send_async(content, None)
        producer.flush()
    for content in contents(options):
        assert consumer.receive(20_000).data() == content


@pytest.mark.parametrize("options", SENDING)
def test_we_read_the_official_clients(
    service: str, topic: str, paths: tuple[str, str], official: Any, options: dict[str, Any]
) -> None:
    pulsar, theirs = official
    options = dict(options)
    if (compression := options.get("compression_type")) is not None:
        options["compression_type"] = getattr(pulsar.CompressionType, compression.name)
    producer = theirs.create_producer(
        topic, encryption_key="k", crypto_key_reader=pulsar.CryptoKeyReader(*paths), **options
    )
    for content in contents(options):
        producer.send_async(content, lambda *_: None)
    producer.flush()
    with milepost.Client(service) as client:
        reader = client.create_reader(
            topic, EARLIEST, crypto_key_reader=milepost.CryptoKeyReader(*paths)
        )
        for content in contents(options):
            message = reader.read_next(20_000)
            assert message.data() == content
            assert message.encryption_context() is not None


@pytest.mark.parametrize("batching", [False, True])
async def test_without_the_key(
    connect: Connect, topic: str, keys: Any, tmp_path: Path, batching: bool
) -> None:
    """FAIL leaves it for who has the key, DISCARD is rid of it, CONSUME hands it out as it is."""
    wrong = milepost.CryptoKeyReader(str(tmp_path / "none"), str(tmp_path / "none"))
    actions = ConsumerCryptoFailureAction
    async with connect() as client:
        blind: dict[Any, Any] = {
            action: await client.subscribe(
                topic,
                action.name,
                ConsumerType.Shared,
                crypto_key_reader=None if action is actions.FAIL else wrong,
                crypto_failure_action=action,
            )
            for action in actions
        }
        producer = await client.create_producer(
            topic, encryption_key="k", crypto_key_reader=keys, batching_enabled=batching
        )
        sent = [await producer.enqueue(b"secret") for _ in range(3)]
        for one in sent:
            await one
        plain = await client.create_producer(topic)
        await plain.send(b"for all")

        for action in (actions.FAIL, actions.DISCARD):
            message = await blind[action].receive(20_000)
            assert message.data() == b"for all"
            assert message.encryption_context() is None
            await blind[action].acknowledge(message)
            assert blind[action].stats.unreadable == (1 if batching else 3)
        consuming = blind[actions.CONSUME]
        for _ in range(1 if batching else 3):
            message = await consuming.receive(20_000)
            assert b"secret" not in message.data()
            context = message.encryption_context()
            assert context.is_decryption_failed()
            assert context.batch_size() == (3 if batching else -1)
            await consuming.acknowledge(message)
        assert (await consuming.receive(20_000)).data() == b"for all"

        for action, left in ((actions.FAIL, 3), (actions.DISCARD, 0)):
            await blind[action].close()
            seeing = await client.subscribe(
                topic, action.name, ConsumerType.Shared, crypto_key_reader=keys
            )
            for _ in range(left):
                assert (await seeing.receive(20_000)).data() == b"secret"
            if not left:
                with pytest.raises(Timeout):
                    await seeing.receive(200)


async def test_a_dead_letter_is_encrypted_too(connect: Connect, topic: str, keys: Any) -> None:
    async with connect() as client:
        consumer = await client.subscribe(
            topic,
            "s",
            ConsumerType.Shared,
            crypto_key_reader=keys,
            dead_letter_policy=ConsumerDeadLetterPolicy(1),
            negative_ack_redelivery_delay_ms=1,
        )
        producer = await client.create_producer(topic, encryption_key="k", crypto_key_reader=keys)
        await producer.send(b"secret")
        letters = await client.subscribe(
            f"{topic}-s-DLQ",
            "s",
            initial_position=InitialPosition.Earliest,
            crypto_failure_action=ConsumerCryptoFailureAction.CONSUME,
        )
        for _ in range(2):
            consumer.negative_acknowledge(await consumer.receive(20_000))
        with pytest.raises(Timeout):
            await consumer.receive(1)
        letter = await letters.receive(20_000)
        assert b"secret" not in letter.data()
        assert letter.encryption_context() is not None


async def test_a_producer_without_its_key(connect: Connect, topic: str, tmp_path: Path) -> None:
    missing = milepost.CryptoKeyReader(str(tmp_path / "none"), str(tmp_path / "none"))
    async with connect() as client:
        with pytest.raises(CryptoError, match="the public key 'k'"):
            await client.create_producer(topic, encryption_key="k", crypto_key_reader=missing)


@pytest.mark.usefixtures("milepost_only")
async def test_encryption_that_is_required_is_said_by_its_name(
    connect: Connect, topic: str, keys: Any, running: Any
) -> None:
    broker, name = running.running.broker, NamespaceName.parse("public/sealed")
    running.run(broker.directory.create_namespace(name, {}))
    policy = POLICIES["encryption_required"]
    running.run(broker.policies.book.set(Level.NAMESPACE, str(name), policy, True))
    sealed = topic.replace("public/default", str(name))
    async with connect() as client:
        with pytest.raises(milepost.exceptions.BrokerMetadataError, match="encryption is required"):
            await client.create_producer(sealed)
        with pytest.raises(EncryptionRequired):
            await client.create_producer(sealed)
        producer = await client.create_producer(sealed, encryption_key="k", crypto_key_reader=keys)
        await producer.send(b"sealed")
