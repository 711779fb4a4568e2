"""SUBSCRIBE: where a subscription begins, who may join, and what happens meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from stage.frames import batch, chunk, message
from stage.heard import deliveries, got
from stage.stage import TOPIC, Stage
from stage.talk import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    answer,
    ask,
    error_of,
    produce,
    request,
    seek_command,
    subscribe,
    subscribe_command,
    text_of,
    wire_id,
)

from milepost.broker.broker import READER_ORPHAN_S
from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.extensions import EXISTING_SUBSCRIPTION, extension

MakeStage = Callable[..., Stage]
EARLIEST, LATEST = pb.CommandSubscribe.Earliest, pb.CommandSubscribe.Latest


@pytest.fixture
def client(stage: Stage) -> Any:
    """A connection; the topic holds 0, the batch 1.0 to 1.2, and 2."""
    client = stage.client()
    produce(stage, client)
    client.say(message(0), batch(1, 3), message(2))
    stage.turn()
    client.take()
    return client


# -- where it begins -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED])
def test_a_new_one_begins_at_either_end(stage: Stage, client: Any, sub_type: Any) -> None:
    subscribe(stage, client, "new", sub_type, 0, permits=10)
    subscribe(stage, client, "old", sub_type, 1, permits=10, initialPosition=EARLIEST)
    assert [(one.consumer_id, one.entry_id) for one in deliveries(client)] == [
        (1, 0),
        (1, 1),
        (1, 2),
    ]


def test_one_that_exists_keeps_its_place(stage: Stage, client: Any) -> None:
    subscribe(stage, client, initialPosition=EARLIEST)
    request(stage, client, pb.CommandCloseConsumer(consumer_id=0, request_id=0))
    subscribe(stage, client, permits=10, initialPosition=LATEST)
    assert got(client) == ["0", "1.0", "1.1", "1.2", "2"]


def test_it_is_durable_before_its_client_is_told(stage: Stage, client: Any) -> None:
    stage.engine.holds_catalog = True
    request_id = ask(client, subscribe_command(initialPosition=EARLIEST))
    stage.turn()
    assert answer(client, request_id) is None
    stage.engine.holds_catalog = False
    stage.turn()
    assert isinstance(answer(client, request_id), pb.CommandSuccess)
    assert stage.restarted().topic().subscriptions["s"].cursor.counts() == (5, 0, 0, 0)


def test_what_is_published_while_it_is_made_is_its_own(stage: Stage, client: Any) -> None:
    stage.engine.holds_catalog = True
    ask(client, subscribe_command())
    client.say(message(3))
    stage.turn()
    stage.engine.holds_catalog = False
    stage.turn()
    client.say(message(4), pb.CommandFlow(consumer_id=0, messagePermits=10))
    stage.turn()
    assert got(client) == ["3", "4"]


def test_a_time_ago(make_stage: MakeStage) -> None:
    stage = make_stage()
    client = stage.client()
    produce(stage, client)
    for number in range(4):
        client.say(message(number))
        stage.turn()
        stage.clock.advance(10)
    subscribe(stage, client, permits=10, start_message_rollback_duration_sec=25)
    assert got(client) == ["2", "3"]


@pytest.mark.parametrize(("ago_s", "first"), [(25, 2), (5, 4), (10**15, 0), (2**64 - 9, 0)])
def test_a_reader_begins_a_time_ago_though_it_names_the_earliest_message(
    make_stage: MakeStage, ago_s: int, first: int
) -> None:
    stage = make_stage()
    client = stage.client()
    produce(stage, client)
    for number in range(4):
        client.say(message(number))
        stage.turn()
        stage.clock.advance(10)
    subscribe(
        stage,
        client,
        permits=10,
        durable=False,
        start_message_id=wire_id(-1, -1),  # as the Java client sends it
        start_message_rollback_duration_sec=ago_s,
    )
    assert got(client) == [str(number) for number in range(first, 4)]


def test_a_time_ago_begins_with_the_first_chunk_of_a_message(make_stage: MakeStage) -> None:
    stage = make_stage()
    client = stage.client()
    produce(stage, client)
    client.say(message(0), chunk(1, 0, 3), chunk(1, 1, 3))
    stage.turn()
    stage.clock.advance(10)
    client.say(chunk(1, 2, 3))
    stage.turn()
    for consumer_id, durable in enumerate((False, True)):
        subscribe(
            stage,
            client,
            f"s{consumer_id}",
            consumer_id=consumer_id,
            permits=10,
            durable=durable,
            start_message_rollback_duration_sec=5,
        )
        assert got(client) == ["1/0", "1/1", "1/2"]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (wire_id(1, 1), ["1.0", "1.1", "1.2", "2"]),
        (wire_id(1, 1, batch_index=1), ["1.0", "1.1", "1.2", "2"]),  # the client filters
        (wire_id(-1, -1), ["0", "1.0", "1.1", "1.2", "2"]),
        (wire_id(2**63 - 1, 2**63 - 1), []),
        (wire_id(1, 77), []),
        (wire_id(0, 5), ["0", "1.0", "1.1", "1.2", "2"]),
    ],
)
def test_a_reader_begins_with_the_entry_it_names(
    stage: Stage, client: Any, start: pb.MessageIdData, expected: list[str]
) -> None:
    subscribe(stage, client, permits=10, durable=False, start_message_id=start)
    assert got(client) == expected


def test_a_reader_that_names_none_begins_at_either_end(stage: Stage, client: Any) -> None:
    subscribe(stage, client, "a", consumer_id=0, permits=10, durable=False)
    subscribe(
        stage, client, "b", consumer_id=1, permits=10, durable=False, initialPosition=EARLIEST
    )
    assert {one.consumer_id for one in deliveries(client)} == {1}


def test_readers_are_gone_with_their_connection_and_after_a_restart(
    stage: Stage, client: Any
) -> None:
    subscribe(stage, client, durable=False)
    assert set(stage.topic().subscriptions) == {"s"}
    stage = stage.restarted()
    assert stage.topic().subscriptions == {}


# -- who may join --------------------------------------------------------------------------------------


def test_who_asks_twice_has_missed_the_first_answer(stage: Stage, client: Any) -> None:
    subscribe(stage, client)
    assert error_of(subscribe(stage, client)) == ""
    assert len(stage.topic().subscriptions["s"].consumers) == 1


def test_a_second_exclusive_consumer_is_busy(stage: Stage, client: Any) -> None:
    subscribe(stage, client)
    for consumer_id, other in ((1, client), (0, stage.client())):
        reply = subscribe(stage, other, consumer_id=consumer_id)
        assert error_of(reply) == "ConsumerBusy"
    assert len(stage.topic().subscriptions["s"].consumers) == 1


def test_one_type_at_a_time(stage: Stage, client: Any) -> None:
    subscribe(stage, client, sub_type=SHARED)
    reply = subscribe(stage, client, sub_type=FAILOVER, consumer_id=1)
    assert error_of(reply) == "ConsumerBusy"
    assert "Shared" in text_of(reply)
    request(stage, client, pb.CommandCloseConsumer(consumer_id=0, request_id=0))
    assert error_of(subscribe(stage, client, sub_type=FAILOVER, consumer_id=1)) == ""


def test_durable_and_not_are_two_things(stage: Stage, client: Any) -> None:
    subscribe(stage, client, "a", consumer_id=0)
    subscribe(stage, client, "b", consumer_id=1, durable=False)
    for name, durable in (("a", False), ("b", True)):
        reply = subscribe(stage, client, name, consumer_id=2, durable=durable)
        assert error_of(reply) == "NotAllowedError"


def test_key_ranges_that_cannot_be_are_refused(stage: Stage, client: Any) -> None:
    def sticky(*ranges: tuple[int, int]) -> pb.KeySharedMeta:
        return pb.KeySharedMeta(
            keySharedMode=pb.STICKY,
            hashRanges=[pb.IntRange(start=start, end=end) for start, end in ranges],
        )

    ok = subscribe(stage, client, sub_type=KEY_SHARED, keySharedMeta=sticky((0, 100)))
    assert error_of(ok) == ""
    reply = subscribe(
        stage, client, sub_type=KEY_SHARED, consumer_id=1, keySharedMeta=sticky((50, 200))
    )
    assert error_of(reply) == "ConsumerAssignError"
    assert list(client.session.consumers) == [0]


def test_a_reader_that_is_refused_leaves_no_subscription(stage: Stage, client: Any) -> None:
    reply = subscribe(
        stage,
        client,
        sub_type=KEY_SHARED,
        durable=False,
        keySharedMeta=pb.KeySharedMeta(
            keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=9, end=1)]
        ),
    )
    assert error_of(reply) == "ConsumerAssignError"
    assert stage.topic().subscriptions == {}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"subscription": ""}, "ProducerBusy"),  # upstream's code, for which C++ has a case
        ({"subscription": "x" * 1025}, "NotAllowedError"),
        ({"subscription": "a\nb"}, "NotAllowedError"),
        ({"priority_level": -2}, "NotAllowedError"),
        ({"priority_level": 70_000}, "NotAllowedError"),
        ({"topic": "persistent://public/nowhere/t"}, "TopicNotFound"),
        (
            {"topic": "persistent://public/default/none", "force_topic_creation": False},
            "TopicNotFound",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    stage: Stage, client: Any, fields: dict[str, Any], error: str
) -> None:
    reply = subscribe(stage, client, **fields)
    assert error_of(reply) == error
    assert client.session.opening == client.session.consumers == {}


@pytest.mark.parametrize("auto_topics", [True, False])
def test_a_partition_is_there_before_its_first_use(
    make_stage: MakeStage, auto_topics: bool
) -> None:
    """Consumers of a pattern subscribe to what the namespace lists, and let nothing be made."""
    stage = make_stage(allow_auto_topic_creation=auto_topics)
    name = TopicName.parse("persistent://public/default/many")
    stage.run(stage.broker.create_partitioned_topic(name, 2))
    client = stage.client()
    listed = request(
        stage, client, pb.CommandGetTopicsOfNamespace(namespace="public/default", request_id=0)
    )
    assert list(listed.topics) == [str(name.partition_name(one)) for one in range(2)]
    for consumer_id, topic in enumerate(listed.topics):
        reply = subscribe(
            stage, client, consumer_id=consumer_id, topic=topic, force_topic_creation=False
        )
        assert error_of(reply) == ""
    beyond = str(name.partition_name(0)).replace("-0", "-2")
    reply = subscribe(stage, client, consumer_id=7, topic=beyond, force_topic_creation=False)
    assert error_of(reply) == "TopicNotFound"


def test_a_partitioned_topic_is_joined_by_its_partitions(stage: Stage, client: Any) -> None:
    name = "persistent://public/default/parts"
    stage.run(stage.broker.create_partitioned_topic(TopicName.parse(name), 2))
    assert error_of(subscribe(stage, client, topic=name)) == "NotAllowedError"
    assert error_of(subscribe(stage, client, topic=f"{name}-partition-2")) == "TopicNotFound"
    assert error_of(subscribe(stage, client, topic=f"{name}-partition-1")) == ""


def test_there_may_be_so_many(make_stage: MakeStage) -> None:
    stage = make_stage(
        max_consumers_per_subscription=2, max_consumers_per_topic=3, max_subscriptions_per_topic=2
    )
    client = stage.client()

    def join(name: str, consumer_id: int) -> str:
        return error_of(subscribe(stage, client, name, SHARED, consumer_id))

    assert [join("a", number) for number in range(3)] == ["", "", "ConsumerBusy"]
    assert [join("b", number) for number in range(3, 5)] == ["", "ConsumerBusy"]
    assert join("c", 5) == "NotAllowedError"


def test_many_at_once_do_not_pass_the_limit(make_stage: MakeStage) -> None:
    stage = make_stage(max_subscriptions_per_topic=2)
    client = stage.client()
    requests = [ask(client, subscribe_command(f"s{number}", SHARED, number)) for number in range(4)]
    stage.turn()
    errors = [error_of(answer(client, one)) for one in requests]
    assert errors == ["", "", "NotAllowedError", "NotAllowedError"]


def test_subscriptions_are_made_only_where_they_may_be(make_stage: MakeStage) -> None:
    stage = make_stage(allow_auto_subscription_creation=False)
    client = stage.client()
    assert error_of(subscribe(stage, client)) == "SubscriptionNotFound"
    assert error_of(subscribe(stage, client, durable=False)) == ""


def test_a_client_may_ask_that_none_is_made(stage: Stage, client: Any) -> None:
    wish = {"metadata": [extension(EXISTING_SUBSCRIPTION)]}
    assert error_of(subscribe(stage, client, **wish)) == "SubscriptionNotFound"
    assert error_of(subscribe(stage, client, consumer_id=1)) == ""
    request(stage, client, pb.CommandCloseConsumer(consumer_id=1, request_id=0))
    assert error_of(subscribe(stage, client, consumer_id=2, **wish)) == ""


# -- what it says of itself ----------------------------------------------------------------------------


def test_properties_are_kept(stage: Stage, client: Any) -> None:
    subscribe(stage, client, subscription_properties=[pb.KeyValue(key="k", value="v")])
    assert stage.restarted().topic().subscriptions["s"].properties == {"k": "v"}


def test_a_failover_consumer_hears_that_it_is_active_after_its_success(
    stage: Stage, client: Any
) -> None:
    for consumer_id, name in ((0, "a"), (1, "b")):
        client.say(
            subscribe_command(sub_type=FAILOVER, consumer_id=consumer_id, consumer_name=name)
        )
        stage.turn()
    heard = [type(one).__name__ for one in client.take()]
    assert heard[:2] == ["CommandSuccess", "CommandActiveConsumerChange"]
    assert heard.count("CommandSuccess") == 2
    old = stage.client(protocol_version=11)
    subscribe(stage, old, "other", FAILOVER)
    assert old.take() == []  # it would not understand


# -- while it is being opened --------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [True, False])
def test_a_connection_that_ends_meanwhile_leaves_no_consumer(stage: Stage, durable: bool) -> None:
    client = stage.client()
    stage.engine.holds_catalog = True
    ask(client, subscribe_command(durable=durable))
    stage.turn()
    client.hang_up()
    stage.engine.holds_catalog = False
    stage.turn()
    subscriptions = stage.topic().subscriptions
    assert set(subscriptions) == ({"s"} if durable else set())
    assert all(not one.consumers for one in subscriptions.values())
    assert error_of(subscribe(stage, stage.client(), durable=durable)) == ""


def test_a_second_request_meanwhile_has_to_wait(stage: Stage) -> None:
    client = stage.client()
    stage.engine.holds_catalog = True
    first, second = ask(client, subscribe_command()), ask(client, subscribe_command())
    stage.turn()
    assert error_of(answer(client, second)) == "ServiceNotReady"
    stage.engine.holds_catalog = False
    stage.turn()
    assert error_of(answer(client, first)) == ""


def test_two_clients_at_once_make_one_subscription(stage: Stage) -> None:
    clients = [stage.client() for _ in range(3)]
    stage.topic()
    stage.engine.holds_catalog = True
    requests = [ask(client, subscribe_command(sub_type=SHARED)) for client in clients]
    stage.turn()
    stage.engine.holds_catalog = False
    stage.turn()
    assert [error_of(answer(c, r)) for c, r in zip(clients, requests, strict=True)] == [""] * 3
    assert len(stage.topic().subscriptions["s"].consumers) == 3
    assert len(stage.store.catalog.states(stage.topic().row.topic_id)) == 1


def test_it_waits_for_a_seek_to_be_durable(stage: Stage, client: Any) -> None:
    """SUCCESS of the seek goes out first: the client empties its queue when that arrives."""
    subscribe(stage, client)
    stage.engine.holds_journal = True
    seeking = ask(client, seek_command(wire_id(1, 0)))
    joining = ask(client, subscribe_command())
    stage.turn()
    (closed,) = client.take()
    assert isinstance(closed, pb.CommandCloseConsumer)
    stage.engine.holds_journal = False
    stage.turn()
    assert [one.request_id for one in client.take()] == [seeking, joining]


# -- readers that seek ---------------------------------------------------------------------------------


def test_a_reader_that_seeks_finds_its_subscription_again(stage: Stage, client: Any) -> None:
    """It comes back without saying where: the seek has said it."""
    subscribe(stage, client, durable=False, permits=10)
    request(stage, client, seek_command(None, message_publish_time=0))
    client.take()
    subscribe(stage, client, durable=False, permits=10)
    assert got(client) == ["0", "1.0", "1.1", "1.2", "2"]


def test_a_reader_that_does_not_come_back_is_forgotten(stage: Stage, client: Any) -> None:
    subscribe(stage, client, durable=False)
    request(stage, client, seek_command(wire_id(1, 0)))
    stage.tick(READER_ORPHAN_S - 1)
    assert set(stage.topic().subscriptions) == {"s"}
    stage.tick(2)
    assert stage.topic().subscriptions == {}


def test_another_reader_of_that_name_is_not_forgotten_in_its_place(
    stage: Stage, client: Any
) -> None:
    subscribe(stage, client, durable=False)
    request(stage, client, seek_command(wire_id(1, 0)))
    subscribe(stage, client, durable=False)  # back, and gone, and another one
    request(stage, client, pb.CommandCloseConsumer(consumer_id=0, request_id=0))
    subscribe(stage, client, durable=False, permits=10)
    other = stage.topic().subscriptions["s"]
    stage.tick(READER_ORPHAN_S + 2)
    assert stage.topic().subscriptions == {"s": other}
    client.take()
    client.say(message(3))
    stage.turn()
    assert got(client) == ["3"]


def test_the_topic_is_not_open_for_what_is_not_asked(stage: Stage) -> None:
    assert TOPIC not in stage.broker.topics


def test_a_reader_does_not_take_the_name_of_a_subscription_that_is_being_made(
    stage: Stage,
) -> None:
    one, other = stage.client(), stage.client()
    stage.topic()
    stage.engine.holds_catalog = True
    asked = ask(one, subscribe_command("s", SHARED))
    stage.turn()
    refused = subscribe(stage, other, "s", SHARED, durable=False)
    assert error_of(refused) == "ServiceNotReady"
    stage.engine.holds_catalog = False
    assert error_of(answer(one, asked, stage)) == ""
    assert stage.topic().subscriptions["s"].is_durable


def test_a_reader_that_is_one_too_many_leaves_nothing_behind(make_stage: MakeStage) -> None:
    stage = make_stage(max_consumers_per_topic=1)
    assert error_of(subscribe(stage, stage.client())) == ""
    for number in range(3):
        reply = subscribe(stage, stage.client(), f"reader-{number}", durable=False)
        assert error_of(reply) == "ConsumerBusy"
    assert set(stage.topic().subscriptions) == {"s"}
