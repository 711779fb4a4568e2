"""What a client shows of itself."""

from __future__ import annotations

import pytest

from milepost.errors import NotAuthenticated
from milepost.rocketmq.calls import presented_by

TOKEN = "aaa.bbb.ccc"
SIGNED = "MQv2-HMAC-SHA1 Credential={}, SignedHeaders=x-mq-date-time, Signature=00FF"


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": SIGNED.format(TOKEN)},
        {"authorization": f"Bearer {TOKEN}"},
        {"authorization": f"bearer  {TOKEN} "},
        {"x-mq-session-token": TOKEN},
        {"authorization": SIGNED.format("key"), "x-mq-session-token": TOKEN},
    ],
)
def test_a_token_is_found(headers: dict[str, str]) -> None:
    shown = presented_by(headers, is_confidential=False)
    assert (shown.method, shown.data, shown.is_confidential) == ("token", TOKEN.encode(), False)


@pytest.mark.parametrize(
    "headers", [{}, {"authorization": ""}, {"authorization": SIGNED.format("")}]
)
def test_nothing_is_shown(headers: dict[str, str]) -> None:
    assert presented_by(headers, is_confidential=True).method == "none"


@pytest.mark.parametrize("key", ["LTAI5tKey", "a.b", "a.b.c.d"])
def test_an_access_key_that_is_no_token_is_refused(key: str) -> None:
    with pytest.raises(NotAuthenticated) as caught:
        presented_by({"authorization": SIGNED.format(key)}, is_confidential=True)
    assert caught.value.reason == "access_key"
    assert key not in str(caught.value)
