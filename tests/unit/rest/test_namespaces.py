"""Topics of a namespace over REST."""

from __future__ import annotations

from rest.conftest import Ask, Request

TOPICS = "GET /admin/v2/namespaces/public/default/topics"


def test_topics_are_listed_by_full_name(ask: Ask) -> None:
    path = "/admin/v2/persistent/public/default/orders/partitions"
    empty, _, some, every, other = ask(
        TOPICS,
        Request("PUT", path, b"2"),
        TOPICS,
        f"{TOPICS}?mode=ALL",
        f"{TOPICS}?mode=NON_PERSISTENT",
    )
    orders = [f"persistent://public/default/orders-partition-{n}" for n in range(2)]
    assert [empty.json, some.json, every.json, other.json] == [[], orders, orders, []]


def test_a_mode_or_name_that_is_none_is_refused(ask: Ask) -> None:
    mode, name = ask(f"{TOPICS}?mode=SOME", "GET /admin/v2/namespaces/public/$/topics")
    assert mode.status == name.status == 400
    assert "mode" in mode.reason
