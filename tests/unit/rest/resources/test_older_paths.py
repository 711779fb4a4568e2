"""Calls of upstream's older clients."""

from __future__ import annotations

import pytest
from stage.frames import batch, message
from stage.http import Web
from stage.stage import Stage

from milepost.rest.resources.older_paths import STRATEGIES

N = "/admin/v2/namespaces/public/default"


@pytest.mark.parametrize(("older", "newer"), STRATEGIES.items())
def test_the_older_words_for_a_strategy(web: Web, older: str, newer: str) -> None:
    path = f"{N}/schemaAutoUpdateCompatibilityStrategy"
    assert web(f"GET {path}").status == 204
    assert web(f"PUT {path}", older).status == 204
    assert web(f"GET {path}").json == older
    assert web(f"GET {N}/schemaCompatibilityStrategy").json == newer


def test_a_word_that_is_none(web: Web) -> None:
    bad = web(f"PUT {N}/schemaAutoUpdateCompatibilityStrategy", "Sideways")
    assert (bad.status, "Backward" in bad.reason) == (400, True)


def test_what_is_stored_of_a_topic(web: Web, stage: Stage) -> None:
    topic = stage.topic("persistent://public/default/t")
    stage.subscription(topic, "s")
    stage.publish(stage.producer(topic), message(0), batch(1, 3))
    found = web("GET t/backlog").json
    assert found["topicName"] == "public/default/persistent/t"
    assert (found["totalMessages"], found["messageBacklog"]) == (2, 2)
    assert found["cursorDetails"]["s"]["cursorBacklog"] == 2
    (ledger,) = found["dataLedgerDetails"]
    assert ledger["entries"] == 2
    assert ledger["size"] >= found["storageSize"] > 0
    assert web("GET none/backlog").status == 404


def test_the_namespaces_of_a_group(web: Web) -> None:
    path = "/admin/v2/namespaces/standalone/antiAffinity/spread"
    assert web(f"GET {path}?tenant=public").json == []
    assert web(f"POST {N}/antiAffinity", "spread").status == 204
    assert web(f"GET {path}?tenant=public").json == ["public/default"]
    assert web(f"GET {path}").status == 400
    assert web(f"GET {path.replace('standalone', 'nope')}?tenant=public").status == 412


def test_all_policies_of_a_topic_are_removed_at_once(web: Web, stage: Stage) -> None:
    topic = stage.topic("persistent://public/default/t")
    assert web("POST t/maxProducers", 3).status == 204
    assert web("POST t/messageTTL?messageTTL=60").status == 204
    assert (topic.policies.max_producers, topic.policies.message_ttl_s) == (3, 60)
    assert web("DELETE t/policies").status == 204
    assert (topic.policies.max_producers, topic.policies.message_ttl_s) == (0, 0)
    assert web("GET t/maxProducers").body == b""
    assert web("DELETE none/policies").status == 404
