"""RocketMQ's access keys."""

from __future__ import annotations

import hmac

import pytest

from milepost.broker.auth.access_keys import AccessKeyTable
from milepost.errors import InvalidInput, NotAuthenticated

SECRET = "a long secret"
SAID = b"20260101T000000Z"


def sign(secret: str, said: bytes = SAID) -> bytes:
    return hmac.digest(secret.encode(), said, "sha1")


def test_a_key_is_a_role_of_its_own_or_the_one_that_is_named() -> None:
    table = AccessKeyTable.parse(f"# keys\n\nfirst:{SECRET}\nsecond:{SECRET}:billing\n")
    assert table.identify("first", SAID, sign(SECRET)).role == "first"
    found = table.identify("second", SAID, sign(SECRET))
    assert (found.role, found.method) == ("billing", "access_key")
    assert SECRET not in f"{table!r} {vars(table)}"


@pytest.mark.parametrize(
    ("key", "said", "signature"),
    [
        ("first", SAID, sign("another secret")),
        ("first", SAID + b" ", sign(SECRET)),
        ("first", SAID, b""),
        ("first", SAID, sign(SECRET)[:19]),
        ("unknown", SAID, sign(SECRET)),
        ("unknown", SAID, sign("no secret")),
        ("", b"", sign("", b"")),
    ],
)
def test_a_wrong_signature_and_an_unknown_key_are_told_alike(
    key: str, said: bytes, signature: bytes
) -> None:
    table = AccessKeyTable.parse(f"first:{SECRET}")
    with pytest.raises(
        NotAuthenticated, match="no such access key, or a wrong signature"
    ) as caught:
        table.identify(key, said, signature)
    assert caught.value.reason == "signature_wrong"


@pytest.mark.parametrize(
    "line",
    [
        "first",
        ":long secret",
        "first:short",
        "fir/st:long secret",
        "a.b.c:long secret",
        "first:long secret:role:more",
        f"{'k' * 257}:long secret",
        "first:long secret:",
        "first:long secret:ro\x07le",
    ],
)
def test_a_bad_line_is_named_by_its_number(line: str) -> None:
    with pytest.raises(InvalidInput, match=r"^line 2: ") as caught:
        AccessKeyTable.parse(f"good:long secret\n{line}")
    assert "long secret" not in str(caught.value)


def test_a_key_is_there_once() -> None:
    with pytest.raises(InvalidInput, match="line 2: the key is there already"):
        AccessKeyTable.parse("first:long secret\nfirst:other secret")
