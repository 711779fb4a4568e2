"""What a client shows of itself."""

from __future__ import annotations

import pytest

from milepost.broker.auth.authenticator import Presented
from milepost.rocketmq.calls import Signed, presented_by

TOKEN = "aaa.bbb.ccc"
SIGNED = "MQv2-HMAC-SHA1 Credential={}, SignedHeaders=x-mq-date-time, Signature=00FF"


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": SIGNED.format(TOKEN)},
        {"authorization": SIGNED.format(f"{TOKEN}//RocketMQ")},  # Go's clients
        {"authorization": f"Bearer {TOKEN}"},
        {"authorization": f"bearer  {TOKEN} "},
        {"x-mq-session-token": TOKEN},
        {"authorization": SIGNED.format("key"), "x-mq-session-token": TOKEN},
    ],
)
def test_a_token_is_found(headers: dict[str, str]) -> None:
    shown = presented_by(headers, is_confidential=False)
    assert shown == Presented("token", TOKEN.encode(), None, is_confidential=False)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": SIGNED.format("")},
        {"authorization": SIGNED.format("//RocketMQ")},
    ],
)
def test_nothing_is_shown(headers: dict[str, str]) -> None:
    assert presented_by(headers, is_confidential=True) == Presented("none")


@pytest.mark.parametrize("key", ["LTAI5tKey", "a.b", "a.b.c.d"])
@pytest.mark.parametrize(
    ("shown", "signature"),
    [("00" * 20, bytes(20)), ("00FF", b""), ("0g" * 20, b""), ("0" * 41, b"")],
)
def test_a_signature_is_found(key: str, shown: str, signature: bytes) -> None:
    authorization = f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x, Signature={shown}"
    headers = {"authorization": authorization, "x-mq-date-time": "now", "x-mq-session-token": "sts"}
    assert presented_by(headers, is_confidential=True) == Signed(key, b"now", signature)
