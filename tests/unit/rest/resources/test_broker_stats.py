"""All topics of a broker in one answer, in the form that management tools poll."""

from __future__ import annotations

from stage.frames import batch, message
from stage.http import Web

from milepost.broker.dispatch.dispatchers import SHARED

BUNDLE = "0x00000000_0xffffffff"


def test_topics_by_namespace_bundle_and_domain(web: Web) -> None:
    stage = web.stage
    topic = stage.topic()
    stage.consumer(stage.subscription(topic), SHARED, permits=2)
    stage.publish(stage.producer(topic), message(0), batch(1, 3))
    stage.topic("non-persistent://public/default/n")
    for number in range(3):
        stage.topic(f"persistent://public/default/more-{number}")
    domains = web("GET /admin/v2/broker-stats/topics").json["public/default"][BUNDLE]
    assert set(domains) == {"persistent", "non-persistent"}
    assert len(domains["persistent"]) == 4
    found = domains["persistent"][str(topic.name)]
    assert (found["msgInCount"], found["producerCount"]) == (4, 1)
    assert found["publishers"][0]["producerName"] == "p"
    one = found["subscriptions"]["s"]
    assert (one["msgBacklog"], one["type"], len(one["consumers"])) == (2, "Shared", 1)
    assert one["numberOfEntriesSinceFirstNotAckedMessage"] == 2


def test_the_bundles_that_a_broker_has_topics_of(web: Web) -> None:
    web.stage.topic()
    (name,) = web("GET /admin/v2/brokers/standalone").json
    found = web(f"GET /admin/v2/brokers/standalone/{name}/ownedNamespaces").json
    assert found == {
        f"public/default/{BUNDLE}": {
            "broker_assignment": "shared",
            "is_controlled": False,
            "is_active": True,
        }
    }
    assert web("GET /admin/v2/brokers/standalone/other:1/ownedNamespaces").status == 404
