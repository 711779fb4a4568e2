"""Metrics: what the broker knows, in the names that dashboards look for."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from milepost.broker.broker import Broker
from milepost.positions.names import TopicName
from rest.conftest import Answer, Ask, Request

TOPIC = "persistent://public/default/orders"


def samples(answer: Answer) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(answer.body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_counters_and_reasons_are_read_when_asked(ask: Ask) -> None:
    def count(broker: Broker) -> None:
        broker.counters.connections_opened += 2
        broker.counters.frames_refused["frame_too_large"] += 3

    before, after = map(samples, ask("GET /metrics", count, "GET /metrics", cluster_name="east"))
    assert before["milepost_connections_opened_total"] == [({}, 0)]
    assert "milepost_frames_refused_total" not in before
    assert after["milepost_connections_opened_total"] == [({}, 2)]
    assert after["milepost_frames_refused_total"] == [({"reason": "frame_too_large"}, 3)]
    assert after["pulsar_connection_created_total_count"] == [({"cluster": "east"}, 2)]


def test_a_subscription_shows_its_states(ask: Ask) -> None:
    async def open_one(broker: Broker) -> None:
        topic = await broker.topic(TopicName.parse(TOPIC))
        subscription = await broker.create_subscription(topic, "billing", 0)
        cursor = subscription.cursor
        cursor.extend(10)
        cursor.deliver(0, 4, holder=1)
        cursor.ack([(1, 3)], holder=1)

    (answer,) = ask(open_one, "GET /metrics")
    found = samples(answer)
    topic = {"cluster": "standalone", "namespace": "public/default", "topic": TOPIC}
    billing = {**topic, "subscription": "billing"}
    assert found["milepost_topic_end_index"] == [(topic, 0)]
    assert found["milepost_subscription_ready"] == [(billing, 6)]
    assert found["milepost_subscription_inflight"] == [(billing, 2)]
    assert found["milepost_subscription_acked"] == [(billing, 2)]
    assert found["pulsar_subscription_back_log"] == [(billing, 8)]
    assert found["pulsar_subscriptions_count"] == [({"cluster": "standalone"}, 1)]
    assert found["pulsar_topics_count"] == [({"cluster": "standalone"}, 1)]


def test_both_paths_and_both_formats(ask: Ask) -> None:
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    plain, slash, open_metrics = ask(
        "GET /metrics", "GET /metrics/", Request("GET", "/metrics", headers=accept)
    )
    assert plain.status == slash.status == 200
    assert plain.headers["content-type"].startswith("text/plain")
    assert open_metrics.headers["content-type"].startswith("application/openmetrics-text")
    assert open_metrics.body.endswith(b"# EOF\n")
