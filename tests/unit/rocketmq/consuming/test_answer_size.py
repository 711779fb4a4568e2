"""Messages are made to fit into what a client reads, or are not sent to it."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import os

import pytest

from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.consuming.answer_size import SIZE_MAX, Limit, answer_limit, fitted

GO, RUST = answer_limit("GO", "5.0.1-rc1"), answer_limit("RUST", "5.0.0")


def made(body: bytes, **properties: str) -> pb.Message:
    digest = pb.Digest(type=pb.MD5, checksum="of the whole body")
    system = pb.SystemProperties(body_encoding=pb.IDENTITY, body_digest=digest)
    return pb.Message(user_properties=properties, system_properties=system, body=body)


def sent(message: pb.Message, limit: Limit | None) -> pb.Message | None:
    found: list[pb.Message | None] = []

    async def send() -> None:
        # Not as its result: asyncio.run makes the text of a result when it ends, here of megabytes.
        found.append(await fitted(message, limit))

    asyncio.run(send())
    return found[0]


@pytest.mark.parametrize(
    ("language", "version", "is_limited"),
    [
        ("JAVA", "5.2.0", False),
        ("PYTHON", "5.1.2", False),
        ("CPP", "5.1.0", False),
        ("", "", False),
        ("HTTP", "1.0.8", True),
        ("GO", "5.0.1-rc1", True),
        ("GO", "", True),
        ("GO", "9" * 100_000, True),
        ("GO", "5.1.4", False),
        ("GO", "6.0", False),
        ("RUST", "5.0.0", True),
    ],
)
def test_clients_that_read_four_mib_are_known_by_their_headers(
    language: str, version: str, is_limited: bool
) -> None:
    assert (answer_limit(language, version) is not None) is is_limited


def test_what_fits_goes_as_it_is() -> None:
    message = made(os.urandom(SIZE_MAX - 1000))
    before = message.SerializeToString()
    found = sent(message, GO)
    assert found is not None
    assert found.SerializeToString() == before
    assert sent(made(b"x" * (8 * SIZE_MAX)), None) is not None


def test_a_body_that_is_too_large_is_packed_and_its_digest_is_that_of_what_is_sent() -> None:
    body = b"0123456789" * (SIZE_MAX // 8)
    found = sent(made(body), GO)
    assert found is not None
    assert pb.ReceiveMessageResponse(message=found).ByteSize() <= SIZE_MAX
    assert gzip.decompress(found.body) == body
    system = found.system_properties
    assert system.body_encoding == pb.GZIP
    assert system.body_digest.checksum == hashlib.md5(found.body).hexdigest().upper()


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        (made(os.urandom(SIZE_MAX)), GO),
        (made(b"x" * SIZE_MAX), RUST),
        (made(b"x", own="x" * SIZE_MAX), GO),
        (made(b"x" * (17 * SIZE_MAX)), GO),
    ],
    ids=["random", "unpacks nothing", "properties", "beyond reason"],
)
def test_what_cannot_be_made_to_fit(message: pb.Message, limit: Limit) -> None:
    assert sent(message, limit) is None


@pytest.mark.parametrize("spare", range(-12, 13))
def test_no_answer_is_larger_than_the_limit_says(spare: int) -> None:
    body = os.urandom(SIZE_MAX - made(b"").ByteSize() - 16 + spare)
    found = sent(made(body), RUST)
    if found is not None:
        assert pb.ReceiveMessageResponse(message=found).ByteSize() <= SIZE_MAX
