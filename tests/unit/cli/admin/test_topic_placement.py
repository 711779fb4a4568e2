"""Where topics lie, and the group `non-persistent`."""

from __future__ import annotations

from unit.cli.conftest import Line

T = "/admin/v2/persistent/acme/shop/orders"
STATUS = f"{T}/subscription/s/replicatedSubscriptionStatus"


def test_replicated_subscriptions(line: Line) -> None:
    command = ("topics", "get-replicated-subscription-status", "acme/shop/orders", "-s", "s")
    line(*command, answers=({"x": True},))
    assert line.asked == [f"GET {STATUS}"]
    line(*(one.replace("get-", "set-") for one in command), "-e", answers=(b"",))
    assert (line.asked, line.body) == ([f"POST {STATUS}"], True)
    line(*(one.replace("get-", "set-") for one in command))
    assert line.code == 2


def test_offloading(line: Line) -> None:
    last = {"ledgerId": 3, "entryId": 7, "partitionIndex": -1}
    line("topics", "offload", "acme/shop/orders", answers=(last, b""))
    assert line.asked == [f"GET {T}/lastMessageId", f"PUT {T}/offload"]
    assert line.body == {"ledgerId": 3, "entryId": 7}
    failed = {"status": "ERROR", "lastError": "no store"}
    line("topics", "offload-status", "acme/shop/orders", answers=(failed,))
    assert (line.code, "no store" in line.err) == (2, True)


def test_non_persistent_topics_have_a_group_of_older_words(line: Line) -> None:
    path = "/admin/v2/non-persistent/acme/shop"
    bundle = "0x00000000_0xffffffff"
    for words, asked in (
        ("list acme/shop", f"GET {path}"),
        (f"list-in-bundle acme/shop -b {bundle}", f"GET {path}/{bundle}"),
        ("create non-persistent://acme/shop/t", f"PUT {path}/t"),
        ("unload non-persistent://acme/shop/t", f"PUT {path}/t/unload"),
    ):
        line("admin", "non-persistent", *words.split(), answers=([],))
        assert (line.code, line.asked) == (0, [asked])


def test_all_policies_of_a_topic_go_at_once(line: Line) -> None:
    line("topicPolicies", "delete", "acme/shop/orders", answers=(b"",))
    assert line.asked == [f"DELETE {T}/policies"]
