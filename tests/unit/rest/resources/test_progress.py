"""Progress over REST: which lines, in which order, and what a line says."""

from __future__ import annotations

import pytest

from rest.conftest import Ask
from rest.resources.test_reset import fill

ALL = "/milepost/v1/progress"
NAMESPACE = "/milepost/v1/namespaces/public/default/progress"
TOPIC = "/milepost/v1/topics/public/default/orders/progress"


@pytest.mark.parametrize("path", [ALL, NAMESPACE, TOPIC])
def test_a_line_for_each_subscription(ask: Ask, path: str) -> None:
    every, one, none = ask(
        fill, f"GET {path}", f"GET {path}?subscription=s", f"GET {path}?subscription=other"
    )
    assert [line["subscription"] for line in every.json["subscriptions"]] == ["s", "team/reports"]
    (line,) = one.json["subscriptions"]
    assert (line["ready"], line["inflight"], line["delayed"], line["acked"]) == (4, 0, 0, 0)
    assert (line["first"], line["end"], line["mark_delete_index"]) == (0, 4, -1)
    assert (line["verdict"], line["consumers"], line["hole"]) == ("NO_CONSUMER", [], None)
    assert every.json["at_ms"] >= line["behind_ms"] >= 0
    assert none.json["subscriptions"] == []


def test_of_a_topic_that_is_not_there(ask: Ask) -> None:
    missing, nowhere, wrong = ask(
        f"GET {TOPIC}",
        f"GET {NAMESPACE.replace('default', 'none')}",
        f"GET {TOPIC}?subscription={'x' * 2000}",
    )
    assert missing.status == 404
    assert nowhere.status == 404
    assert wrong.status == 400
