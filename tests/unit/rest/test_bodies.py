"""Bodies that have one reading, and those that have not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from milepost.rest.bodies import DEPTH_MAX, SIZE_MAX, BadBody, check, check_head, check_json, read


@pytest.mark.parametrize(
    "body",
    [b"4", b'"x"', b"{}", b'{"a": [1, {"a": 2}]}', b'["[[[[", "\\"[["]', b"[" * 64 + b"]" * 64],
)
def test_plain_json_passes(body: bytes) -> None:
    check_json(body)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"4 4", "not JSON"),
        (b"NaN", "says NaN"),
        (b"[-Infinity]", "says -Infinity"),
        (b'{"a": 1, "a": 2}', "names the key a twice"),
        (b'[{"b": {"c": 1, "c": 1}}]', "names the key c twice"),
        (b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1), "deeper than 64"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "deeper than 64"),
    ],
)
def test_anything_else_does_not(body: bytes, why: str) -> None:
    with pytest.raises(BadBody, match=why) as found:
        check_json(body)
    assert found.value.args[0] == 400


@pytest.mark.parametrize(
    ("kind", "passes"),
    [
        (b"application/json", True),
        (b"application/json; charset=utf-8", True),
        (b"Application/JSON", True),
        (b"application/vnd.partitioned-topic-metadata+json", True),
        (b"text/json", False),
        (b"application/jsonx", False),
        (b"application/x-www-form-urlencoded", False),
        (b"", False),
    ],
)
def test_what_a_body_says_it_is(kind: bytes, passes: bool) -> None:
    headers = [(b"content-type", kind)]
    check(headers, b"")
    if passes:
        check(headers, b"1")
    else:
        with pytest.raises(BadBody):
            check(headers, b"1")


def test_what_the_head_says() -> None:
    check_head([(b"content-length", b"%d" % SIZE_MAX), (b"content-encoding", b"identity")])
    with pytest.raises(BadBody, match="413"):
        check_head([(b"content-length", b"%d" % (SIZE_MAX + 1))])
    with pytest.raises(BadBody, match="415"):
        check_head([(b"content-encoding", b"br")])


def test_a_body_comes_in_parts_or_not_at_all() -> None:
    def reading(*messages: dict[str, Any]) -> bytes:
        waiting = list(messages)

        async def receive() -> dict[str, Any]:
            return waiting.pop(0)

        return asyncio.run(read(receive))

    part = {"type": "http.request", "body": b"ab", "more_body": True}
    assert reading(part, {"type": "http.request", "body": b"c"}) == b"abc"
    with pytest.raises(BadBody, match="400"):
        reading(part, {"type": "http.disconnect"})
