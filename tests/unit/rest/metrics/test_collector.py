"""Metrics: what the broker knows, in the names that dashboards look for."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families
from stage.frames import message
from stage.http import Web

from milepost.broker.broker import Broker
from milepost.broker.dispatch.dispatchers import SHARED
from milepost.broker.subscription.subscription import Subscription
from milepost.positions.names import TopicName
from milepost.rest.metrics.exposition import Exposition
from milepost.wire.events import WireId
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


def test_commits_are_told_by_who_made_them(ask: Ask) -> None:
    def count(broker: Broker) -> None:
        broker.store.journal.commits = 5
        broker.store.journal.commits_on_loop = 3

    (answer,) = ask(count, "GET /metrics")
    assert samples(answer)["milepost_journal_commits_total"] == [
        ({"by": "loop"}, 3),
        ({"by": "thread"}, 2),
    ]


def test_reads_that_the_loop_waited_for_are_counted(ask: Ask) -> None:
    def count(broker: Broker) -> None:
        broker.engine.loop_files.reads = 7

    (answer,) = ask(count, "GET /metrics")
    assert samples(answer)["milepost_disk_reads_on_loop_total"] == [({}, 7)]


def test_a_disk_that_fails_or_fills_shows(ask: Ask) -> None:
    def fail(broker: Broker) -> None:
        broker.store.journal.is_failing = True

    before, after = map(samples, ask("GET /metrics", fail, "GET /metrics", cluster_name="east"))
    assert before["milepost_journal_failing"] == [({"cluster": "east"}, 0)]
    assert after["milepost_journal_failing"] == [({"cluster": "east"}, 1)]
    assert before["milepost_recovery_damages"] == [({"cluster": "east"}, 0)]


def test_what_is_told_of_a_topic_is_of_one_moment(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it takes to write it down: states of messages add up to all of them."""
    opened: list[Subscription] = []

    async def open_one(broker: Broker) -> None:
        topic = await broker.topic(TopicName.parse(TOPIC))
        for name in ("billing", "audit"):
            opened.append(await broker.create_subscription(topic, name, 0))
            opened[-1].cursor.extend(10)

    async def meanwhile(text: Exposition) -> None:
        for one in opened:
            end = one.cursor.end
            one.cursor.extend(end + 3)
            one.cursor.deliver(end - 1, end + 1, holder=1)
            one.cursor.ack([(end - 1, end)], holder=1)

    monkeypatch.setattr(Exposition, "pause", meanwhile)
    (answer,) = ask(open_one, "GET /metrics")
    found = samples(answer)
    for place in (0, 1):
        names = ("ready", "inflight", "acked")
        states = [found[f"milepost_subscription_{name}"][place][1] for name in names]
        assert states == [10, 0, 0]
        assert found["pulsar_subscription_back_log"][place][1] == 10


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
    assert found["pulsar_subscriptions_count"] == [(topic, 1)]
    assert found["pulsar_broker_subscriptions_count"] == [({"cluster": "standalone"}, 1)]
    namespace = {"cluster": "standalone", "namespace": "public/default"}
    assert found["pulsar_topics_count"] == [(namespace, 1)]


def test_how_long_writing_takes_and_how_large_entries_are(web: Web) -> None:
    """As upstream: a name a bucket, each without what smaller ones have, of the last minute."""
    stage = web.stage
    topic = stage.topic()
    producer = stage.producer(topic)
    stage.broker.rates.begin(0.0)
    stage.broker.rates.tick(0.0, topic)
    stage.publish(producer, message(0, b"x" * 20))
    stage.publish(producer, message(1, b"x" * 300), message(2, b"x" * 5000))
    stage.engine.holds_journal = True
    stage.publish(producer, message(3, b"x" * 20))
    stage.clock.advance(0.015)
    stage.engine.holds_journal = False
    stage.turn()
    assert samples(web("GET /metrics"))["pulsar_entry_size_count"][0][1] == 0
    stage.broker.rates.begin(60.0)
    stage.broker.rates.tick(60.0, topic)
    found = {name: rows[0][1] for name, rows in samples(web("GET /metrics")).items()}
    times = {
        name.removeprefix("pulsar_storage_write_latency_"): value
        for name, value in found.items()
        if name.startswith("pulsar_storage_write_latency_") and value
    }
    assert times == {"le_0_5": 3, "le_20": 1, "count": 4, "sum": pytest.approx(15_000)}
    assert found["pulsar_storage_ledger_write_latency_le_20"] == 1
    sizes = [found[f"pulsar_entry_size_le_{name}"] for name in ("128", "512", "4_kb", "16_kb")]
    assert sizes == [2, 1, 0, 1]
    assert found["pulsar_entry_size_sum"] == topic.bytes_in
    assert found["pulsar_storage_write_rate"] == pytest.approx(4 / 60)
    assert found["pulsar_broker_storage_write_rate"] == pytest.approx(4 / 60)


# Names of upstream's own boards (overview, namespace, topic), as far as a single broker can have them.
BOARD_NAMES = """pulsar_active_connections pulsar_average_msg_size pulsar_broker_consumers_count
pulsar_broker_in_bytes_total pulsar_broker_msg_backlog pulsar_broker_out_bytes_total
pulsar_broker_producers_count pulsar_broker_rate_in pulsar_broker_rate_out
pulsar_broker_storage_logical_size pulsar_broker_storage_read_rate pulsar_broker_storage_size
pulsar_broker_storage_write_rate pulsar_broker_subscriptions_count pulsar_broker_throttled_connections
pulsar_broker_throughput_in pulsar_broker_throughput_out pulsar_broker_topic_load_pending_requests
pulsar_broker_topics_count pulsar_compaction_duration_time_in_mills
pulsar_compaction_removed_event_count pulsar_connection_closed_total_count
pulsar_connection_create_fail_count pulsar_connection_create_success_count
pulsar_connection_created_total_count pulsar_consumers_count pulsar_entry_size_count
pulsar_entry_size_le_overflow pulsar_in_bytes_total pulsar_in_messages_total pulsar_ml_count
pulsar_msg_backlog pulsar_out_bytes_total pulsar_out_messages_total pulsar_producers_count
pulsar_publish_rate_limit_times pulsar_rate_in pulsar_rate_out pulsar_storage_backlog_age_seconds
pulsar_storage_backlog_quota_limit pulsar_storage_backlog_quota_limit_time pulsar_storage_backlog_size
pulsar_storage_ledger_write_latency_count pulsar_storage_logical_size pulsar_storage_offloaded_size
pulsar_storage_read_rate pulsar_storage_size pulsar_storage_write_latency_count
pulsar_storage_write_latency_le_0_5 pulsar_storage_write_latency_le_1000
pulsar_storage_write_latency_overflow pulsar_storage_write_rate pulsar_subscription_back_log
pulsar_subscription_back_log_no_delayed pulsar_subscription_blocked_on_unacked_messages
pulsar_subscription_consumers_count pulsar_subscription_delayed pulsar_subscription_in_replay
pulsar_subscription_last_acked_timestamp
pulsar_subscription_last_consumed_flow_timestamp pulsar_subscription_last_consumed_timestamp
pulsar_subscription_last_expire_timestamp pulsar_subscription_last_mark_delete_advanced_timestamp
pulsar_subscription_msg_ack_rate pulsar_subscription_msg_drop_rate pulsar_subscription_msg_rate_expired
pulsar_subscription_msg_rate_out pulsar_subscription_msg_rate_redeliver
pulsar_subscription_msg_throughput_out pulsar_subscription_total_msg_expired
pulsar_subscription_unacked_messages pulsar_subscriptions_count pulsar_throughput_in
pulsar_throughput_out pulsar_topics_count pulsar_version_info"""


def test_the_names_of_upstreams_boards(web: Web) -> None:
    web.stage.subscription(web.stage.topic())
    assert set(BOARD_NAMES.split()) - set(samples(web("GET /metrics"))) == set()


def test_both_paths_and_both_formats(ask: Ask) -> None:
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    plain, slash, open_metrics = ask(
        "GET /metrics", "GET /metrics/", Request("GET", "/metrics", headers=accept)
    )
    assert plain.status == slash.status == 200
    assert plain.headers["content-type"].startswith("text/plain")
    assert open_metrics.headers["content-type"].startswith("application/openmetrics-text")
    assert open_metrics.body.endswith(b"# EOF\n")


# -- the exposition, as promtool judges it -------------------------------------------------------------

BOARD = """pulsar_topics_count pulsar_subscriptions_count pulsar_producers_count pulsar_consumers_count
pulsar_rate_in pulsar_rate_out pulsar_throughput_in pulsar_throughput_out pulsar_in_messages_total
pulsar_in_bytes_total pulsar_out_messages_total pulsar_out_bytes_total pulsar_storage_size
pulsar_storage_logical_size pulsar_storage_backlog_size pulsar_storage_backlog_age_seconds
pulsar_msg_backlog pulsar_average_msg_size pulsar_subscription_back_log
pulsar_subscription_back_log_no_delayed pulsar_subscription_unacked_messages
pulsar_subscription_blocked_on_unacked_messages pulsar_subscription_msg_rate_out
pulsar_subscription_msg_rate_redeliver pulsar_subscription_msg_ack_rate
pulsar_subscription_last_acked_timestamp pulsar_subscription_last_mark_delete_advanced_timestamp
pulsar_subscription_consumers_count pulsar_consumer_available_permits pulsar_consumer_unacked_messages
pulsar_active_connections pulsar_connection_created_total_count pulsar_connection_create_fail_count
pulsar_broker_topics_count pulsar_broker_rate_in pulsar_broker_msg_backlog pulsar_broker_storage_size
milepost_subscription_ready milepost_subscription_inflight milepost_subscription_acked
milepost_topic_first_index milepost_topic_end_index milepost_seek_epoch"""


def check_exposition(text: str) -> None:
    """Every family once, described before its samples, every series once, every value a number; ours
    named by the rules, too (Pulsar's names are older than the rules)."""
    assert text.endswith("\n")
    described: dict[str, str] = {}
    series: set[str] = set()
    family = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ", 3)[2]
            assert family not in described, f"{family} is there twice"
            assert line.split(" ", 3)[3].strip(), f"{family} is not explained"
            described[family] = ""
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family, line
            described[name] = kind
            if name.startswith("milepost_"):
                assert (kind == "counter") == name.endswith("_total"), line
        else:
            match = re.fullmatch(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)", line)
            assert match, line
            assert match[1] == family, f"{match[1]} among the samples of {family}"
            assert (match[1], match[2]) not in series, f"{line} is there twice"
            series.add((match[1], match[2]))  # type: ignore[arg-type]
            float(match[3])
    assert all(described.values())


def test_the_values_of_a_known_load(web: Web) -> None:
    stage = web.stage
    topic = stage.topic()
    consumer = stage.consumer(stage.subscription(topic), SHARED, permits=6)
    stage.tick(1)
    stage.publish(stage.producer(topic), *(message(number) for number in range(10)))
    stage.ack(consumer, *(WireId(1, number) for number in range(4)))
    stage.tick(10)
    answer = web("GET /metrics")
    check_exposition(answer.body.decode())
    found = samples(answer)
    assert set(BOARD.split()) <= set(found)
    labels = {"cluster": "standalone", "namespace": "public/default", "topic": str(topic.name)}
    of = {**labels, "subscription": "s"}
    assert found["pulsar_in_messages_total"] == [(labels, 10)]
    assert found["pulsar_in_bytes_total"] == [(labels, topic.bytes_in)]
    assert found["pulsar_out_messages_total"] == [(labels, 6)]
    assert found["pulsar_rate_in"] == [(labels, 1.0)]
    assert found["pulsar_broker_rate_in"] == [({"cluster": "standalone"}, 1.0)]
    assert found["pulsar_subscription_msg_rate_out"] == [(of, 0.6)]
    assert found["pulsar_subscription_msg_ack_rate"] == [(of, 0.4)]
    assert found["pulsar_subscription_back_log"] == [(of, 6)]
    assert found["pulsar_subscription_unacked_messages"] == [(of, 2)]
    assert found["pulsar_storage_backlog_age_seconds"] == [(labels, 10)]
    assert found["pulsar_storage_backlog_size"] == [(labels, topic.log.size_from(4))]
    assert found["milepost_subscription_mark_delete_index"] == [(of, 3)]
    assert found["milepost_entries_out_total"] == [({}, 6)]
    assert found["milepost_messages_out_total"] == [({}, 6)]
    assert found["milepost_messages_in_total"] == [({}, 10)]
    (permits,) = found["pulsar_consumer_available_permits"]
    assert permits == ({**of, "consumer_name": "c", "consumer_id": str(consumer.holder)}, 0)


def test_strange_names_do_not_break_the_exposition(web: Web) -> None:
    stage = web.stage
    topic = stage.topic('persistent://public/default/a"b')
    stage.subscription(topic, 'quote " backslash \\ end')
    check_exposition(web("GET /metrics").body.decode())
    found = samples(web("GET /metrics"))
    assert found["pulsar_subscription_back_log"][0][0]["subscription"] == 'quote " backslash \\ end'


def test_a_check_that_finds_nothing_is_no_check() -> None:
    for text in ("a 1\n", "# HELP a b\n# TYPE a gauge\na 1\na 1\n", "# HELP a b\na 1\n"):
        with pytest.raises(AssertionError):
            check_exposition(text)
