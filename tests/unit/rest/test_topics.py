"""Partitions of a topic over REST."""

from __future__ import annotations

import pytest

from rest.conftest import Ask, Request

PATH = "/admin/v2/persistent/public/default/orders/partitions"


def put(body: bytes, path: str = PATH) -> Request:
    return Request("PUT", path, body)


def test_a_topic_without_partitions_has_none(ask: Ask) -> None:
    (answer,) = ask(f"GET {PATH}")
    assert (answer.status, answer.json) == (200, {"partitions": 0, "deleted": False})


def test_a_partitioned_topic_is_made_once(ask: Ask) -> None:
    made, found, again = ask(put(b"4"), f"GET {PATH}", put(b"4"))
    assert (made.status, made.body) == (204, b"")
    assert found.json["partitions"] == 4
    assert again.status == 409
    assert "orders" in again.reason


def test_asking_may_create_as_the_settings_say(ask: Ask) -> None:
    settings = {"allow_auto_topic_creation_type": "partitioned", "default_num_partitions": 3}
    without, asked, found = ask(
        f"GET {PATH}", f"GET {PATH}?checkAllowAutoCreation=true", f"GET {PATH}", **settings
    )
    assert [one.json["partitions"] for one in (without, asked, found)] == [0, 3, 3]


@pytest.mark.parametrize(
    "body",
    [b"", b"0", b"-1", b"10001", b"4.5", b'"4"', b"true", b"null", b"NaN", b"{", b"[" * 10_000],
)
def test_a_body_that_is_no_number_of_partitions_is_refused(ask: Ask, body: bytes) -> None:
    answer, found = ask(put(body), f"GET {PATH}")
    assert answer.status == 400, answer
    assert answer.reason
    assert found.json["partitions"] == 0


def test_a_partition_has_no_partitions(ask: Ask) -> None:
    path = "/admin/v2/persistent/public/default/orders-partition-1/partitions"
    (answer,) = ask(put(b"4", path))
    assert answer.status == 400
