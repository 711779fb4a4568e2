"""Clients that are heard, and the settings that hold for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from stage.stage import Stage

from milepost.positions.names import TopicName
from milepost.rocketmq import clients
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.calls import Call
from milepost.rocketmq.clients import ALIVE_S, NODE, Clients, settings_for
from milepost.rocketmq.codes import Code, Refused
from milepost.rocketmq.consuming.queues import Manner

GROUP = pb.Resource(name="g")


def caller(client: str) -> Call:
    return Call(client, None, "127.0.0.1", None)


def test_a_client_is_alive_while_it_is_heard(stage: Stage) -> None:
    known, clock = Clients(stage.broker), stage.clock
    known.heard(caller("a"))
    clock.advance(ALIVE_S - 1)
    known.heard(caller("b"))
    known.heard(caller("b"))
    assert (known.is_alive("a"), known.is_alive("b"), known.is_alive("c")) == (True, True, False)
    clock.advance(1)
    assert (known.is_alive("a"), known.is_alive("b")) == (False, True)
    known.tick(clock.monotonic())
    assert list(known._heard) == ["b"]
    known.left("b")
    assert not known.is_alive("b")


def test_clients_without_end_take_no_memory(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "CLIENTS_MAX", 10)
    known = Clients(stage.broker)
    for number in range(100):
        known.heard(caller(str(number)))
    assert list(known._strangers) == [str(number) for number in range(90, 100)]


def test_made_up_ids_push_out_no_client_that_lives(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "CLIENTS_MAX", 10)
    known = Clients(stage.broker)
    for _ in range(2):
        known.heard(caller("live"))
    for number in range(100):
        for _ in range(3):
            known.heard(caller(str(number)))
    assert known.is_alive("live")
    assert len(known._heard) == 10
    assert len(known._strangers) <= 10


def test_a_group_of_another_namespace_is_another_group(stage: Stage) -> None:
    known = Clients(stage.broker)
    for client, namespace in (("a", ""), ("b", "public/default"), ("c", "other"), ("d", "a/b/c")):
        settings = pb.Settings(client_type=pb.PUSH_CONSUMER)
        settings.subscription.group.name = "g"
        settings.subscription.group.resource_namespace = namespace
        stream = known._streams[client] = clients.Stream(caller(client), clients.Unread())
        stream.consumer = clients._told(settings)
    assert [one.call.client for one in known.consumers_of("g")] == ["a", "b"]


async def no_fifo(call: Call, told: pb.Subscription) -> Manner:
    return Manner()


def test_streams_are_limited_and_count_until_they_end(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(rocketmq_calls_max=16)
    known = Clients(stage.broker)

    async def play() -> None:
        with ExitStack() as open_streams:
            for _ in range(4):
                open_streams.enter_context(known.stream(caller("c")))
            with pytest.raises(Refused) as caught:
                open_streams.enter_context(known.stream(caller("c")))
            assert caught.value.code is Code.TOO_MANY_REQUESTS
        assert known.streams == 0

    stage.run(play())


def test_what_clients_do_not_read_is_bounded_for_all_of_them_together(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "UNREAD_SIZE_MAX", 1000)
    known = Clients(stage.broker)
    large = pb.TelemetryCommand(status=pb.Status(message="x" * 480))

    async def read(said: bytes) -> None:
        assert said == large.SerializeToString()

    async def play() -> None:
        with known.stream(caller("a")) as one, known.stream(caller("b")) as two:
            one.answer(large)
            assert two.tell(large)
            assert not two.tell(large)
            with pytest.raises(Refused) as caught:
                one.answer(large)
            assert caught.value.code is Code.TOO_MANY_REQUESTS
            await one.last()
            await one.write(read)
            assert two.tell(large)  # the other has read
        assert not two.tell(large)
        with known.stream(caller("c")) as three:  # those are gone
            assert three.tell(large)
            assert three.tell(large)

    stage.run(play())


def name_of(resource: pb.Resource) -> TopicName:
    return TopicName.parse(f"persistent://public/default/{resource.name}")


def test_a_client_is_answered_and_told_until_it_is_done(stage: Stage) -> None:
    known = Clients(stage.broker)
    topics = [pb.Resource(name="a"), pb.Resource(name="b")]
    told = pb.TelemetryCommand(status=pb.Status(code=1))
    settings = pb.Settings(client_type=pb.PRODUCER, publishing=pb.Publishing(topics=topics))
    read: list[pb.TelemetryCommand] = []

    async def commands() -> Any:
        yield pb.TelemetryCommand(settings=settings)
        yield pb.TelemetryCommand()  # one that this broker does not know

    async def write(said: bytes) -> None:
        read.append(pb.TelemetryCommand.FromString(said))

    async def play() -> None:
        with known.stream(caller("c")) as stream:
            assert stream.tell(told)
            await known.listen(stream, commands(), no_fifo, name_of)
            await stream.write(write)
            assert stream.topics == {str(name_of(one)) for one in topics}
            found = known.producer_of(str(name_of(topics[0])), lambda call: True)
            assert found is stream
            assert known.producer_of(str(name_of(topics[0])), lambda call: False) is None
        assert known.producer_of(str(name_of(topics[0])), lambda call: True) is None

    stage.run(play())
    assert [one.status.code for one in read] == [1, Code.OK]
    assert read[1].settings.publishing.validate_message_type


def test_a_client_that_reads_nothing_takes_little_memory(stage: Stage) -> None:
    """It loses its stream too: `grpc/call.py` gives up what is not read."""
    known = Clients(stage.broker)

    async def play() -> None:
        with known.stream(caller("c")) as stream:
            told = [stream.tell(pb.TelemetryCommand()) for _ in range(100)]
            assert told.count(True) == clients.TOLD_MAX

    asyncio.run(play())


def test_settings_of_a_producer() -> None:
    told = pb.Settings(client_type=pb.PRODUCER, publishing=pb.Publishing(topics=[GROUP]))
    told.backoff_policy.max_attempts = 5
    answer = settings_for(told, 1000)
    assert answer.backoff_policy.max_attempts == 5
    assert answer.backoff_policy.exponential_backoff.initial.ToMilliseconds() == 10
    assert (answer.publishing.max_body_size, len(answer.publishing.topics)) == (1000, 1)
    assert answer.HasField("metric")
    assert not told.publishing.max_body_size  # what was told is left as it is


def test_settings_of_a_client_that_knows_no_list_of_times() -> None:
    """Node's; it would try nothing again in a FIFO group."""
    told = pb.Settings(client_type=pb.PUSH_CONSUMER, subscription=pb.Subscription(group=GROUP))
    told.user_agent.language = NODE
    policy = settings_for(told, 1000).backoff_policy
    assert policy.max_attempts == 17
    backoff = policy.exponential_backoff
    assert (backoff.initial.seconds, backoff.max.seconds, backoff.multiplier) == (1, 7200, 3)


@pytest.mark.parametrize(("asked_s", "answered_s"), [(0, 20), (7, 7), (20, 20), (21, 20), (-1, 20)])
def test_settings_of_a_consumer(asked_s: int, answered_s: int) -> None:
    told = pb.Settings(
        client_type=pb.SIMPLE_CONSUMER, subscription=pb.Subscription(group=GROUP, fifo=True)
    )
    told.subscription.long_polling_timeout.seconds = asked_s
    answer = settings_for(told, 1000)
    assert answer.backoff_policy.max_attempts == 17
    steps = [one.seconds for one in answer.backoff_policy.customized_backoff.next]
    assert (steps[:4], steps[-1], len(steps)) == ([1, 5, 10, 30], 7200, 18)
    subscription = answer.subscription
    assert subscription.long_polling_timeout.seconds == answered_s
    assert (subscription.fifo, subscription.receive_batch_size) == (False, 32)


@pytest.mark.parametrize(
    ("told", "code"),
    [
        (pb.Settings(client_type=pb.PRODUCER), Code.BAD_REQUEST),
        (pb.Settings(publishing=pb.Publishing()), Code.UNRECOGNIZED_CLIENT_TYPE),
        (
            pb.Settings(client_type=pb.PRODUCER, subscription=pb.Subscription(group=GROUP)),
            Code.UNRECOGNIZED_CLIENT_TYPE,
        ),
        (
            pb.Settings(client_type=pb.PUSH_CONSUMER, subscription=pb.Subscription()),
            Code.ILLEGAL_CONSUMER_GROUP,
        ),
    ],
)
def test_settings_that_are_none(told: pb.Settings, code: Code) -> None:
    with pytest.raises(Refused) as caught:
        settings_for(told, 1000)
    assert caught.value.code is code
