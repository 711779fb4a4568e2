"""Requests as they stand in a URL, and answers read as what they should be."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.admin.errors import BadAnswer
from milepost.admin.request import Answer, get, namespace_path, own_path, post, put, topic_path
from milepost.errors import InvalidInput, InvalidTopicName
from milepost.positions import MessageId


def answer(body: bytes) -> Answer:
    return Answer(get("/x"), "http://h:1", 200, {}, body)


def test_a_query_has_what_is_given() -> None:
    request = get("/x", a=None, b=True, c="ü &", d=0)
    assert request.target == "/x?b=true&c=%C3%BC+%26&d=0"
    assert str(request) == "GET /x"
    assert get("/x", a=None).target == "/x"


def test_a_body_is_json_or_nothing() -> None:
    assert put("/x").body is None
    assert put("/x", {}).body == b"{}"
    assert post("/x", 4).body == b"4"


def test_names_become_paths_that_cannot_leave_their_place() -> None:
    assert topic_path("a/b/c d", "x/y") == "/admin/v2/persistent/a/b/c%20d/x%2Fy"
    assert topic_path("non-persistent://a/b/c") == "/admin/v2/non-persistent/a/b/c"
    assert own_path("c", "s") == "/milepost/v1/topics/public/default/c/s"
    assert namespace_path("a/b", "x") == "/admin/v2/namespaces/a/b/x"
    for text in ("a/b/..", "a/b/c/d", "a/../b/c"):
        with pytest.raises(InvalidTopicName):
            topic_path(text)


@pytest.mark.parametrize("part", ["", ".", ".."])
def test_a_part_that_would_lead_elsewhere_is_refused(part: str) -> None:
    for lead in (topic_path, own_path):
        with pytest.raises(InvalidInput, match="cannot be part of a path"):
            lead("a/b/c", "permissions", part)


@pytest.mark.parametrize(
    ("read", "body", "value"),
    [
        ("json", b"[1]", [1]),
        ("object", b'{"a": 1}', {"a": 1}),
        ("strings", b'["a"]', ["a"]),
        ("number", b"7", 7),
        ("text", b" ok\n", "ok"),
        ("text", b'"ok"', "ok"),
        ("message_id", b'{"ledgerId": 3, "entryId": 7}', MessageId(3, 7)),
    ],
)
def test_what_an_answer_is(read: str, body: bytes, value: Any) -> None:
    assert getattr(answer(body), read)() == value


@pytest.mark.parametrize(
    ("read", "body"),
    [
        ("json", b""),
        ("json", b"[" * 100_000),
        ("json", b"\xff"),
        ("object", b"[]"),
        ("strings", b"{}"),
        ("strings", b"[1]"),
        ("number", b"true"),
        ("number", b"1.5"),
        ("number", b"null"),
        ("message_id", b"{}"),
    ],
)
def test_what_it_is_not(read: str, body: bytes) -> None:
    with pytest.raises(BadAnswer, match="the answer is "):
        getattr(answer(body), read)()
