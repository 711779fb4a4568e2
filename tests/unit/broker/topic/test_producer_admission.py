"""ProducerAdmission: alone on a topic, in line for it, put out of it; with durable epochs."""

from __future__ import annotations

from typing import Any

import pytest
from stage.frames import message
from stage.stage import TOPIC, Stage
from stage.talk import answer, ask, error_of, produce, producer_command

from milepost.broker.topic.producer_admission import PLACE_KEPT_S
from milepost.errors import PersistenceError
from milepost.wire import pulsar_pb2 as pb

EXCLUSIVE, WAIT, FENCING = pb.Exclusive, pb.WaitForExclusive, pb.ExclusiveWithFencing


def test_alone_is_alone(stage: Stage) -> None:
    client = stage.client()
    assert produce(stage, client, 0, "a", producer_access_mode=EXCLUSIVE).topic_epoch == 0
    assert error_of(produce(stage, client, 1, "b")) == "ProducerBusy"
    refused = produce(stage, client, 2, "c", producer_access_mode=EXCLUSIVE)
    assert error_of(refused) == "ProducerFenced"
    assert set(stage.topic().producers) == {"a"}


def test_a_topic_epoch_is_durable_before_the_producer_is_told(stage: Stage) -> None:
    client = stage.client()
    stage.topic()
    stage.engine.holds_catalog = True
    request_id = ask(client, producer_command(producer_access_mode=EXCLUSIVE))
    stage.turn()
    assert answer(client, request_id) is None
    stage.engine.holds_catalog = False
    stage.turn()
    assert answer(client, request_id).topic_epoch == 0
    assert stage.store.catalog.topic(TOPIC).doc["epoch"] == 0
    stage = stage.restarted()
    again = produce(stage, stage.client(), name="other", producer_access_mode=EXCLUSIVE)
    assert again.topic_epoch == 1


def test_an_epoch_that_cannot_be_stored_is_not_given(stage: Stage) -> None:
    client = stage.client()
    stage.topic()
    fail_once(stage)
    reply = produce(stage, client, producer_access_mode=EXCLUSIVE)
    assert error_of(reply) == "PersistenceError"
    assert stage.topic().producers == client.session.producers == {}
    # The number is not used again: somebody may have heard of it.
    assert produce(stage, client, producer_access_mode=EXCLUSIVE).topic_epoch == 1


def test_who_waits_is_told_twice(stage: Stage) -> None:
    first, second = stage.client(), stage.client()
    produce(stage, first, producer_access_mode=EXCLUSIVE)
    request_id = ask(second, producer_command(name="q", producer_access_mode=WAIT))
    stage.turn()
    waiting = answer(second, request_id)
    assert not waiting.producer_ready
    first.hang_up()
    stage.turn()
    granted = answer(second, request_id)
    assert granted.producer_ready
    assert granted.topic_epoch == 1


def test_who_waits_and_asks_again_still_waits(stage: Stage) -> None:
    first, second = stage.client(), stage.client()
    produce(stage, first, producer_access_mode=EXCLUSIVE)
    produce(stage, second, name="q", producer_access_mode=WAIT)
    again = ask(second, producer_command(name="q", producer_access_mode=WAIT))
    stage.turn()
    assert not answer(second, again).producer_ready
    first.hang_up()
    stage.turn()
    assert answer(second, again).topic_epoch == 1
    assert second.take() == []


def test_who_waits_may_not_send(stage: Stage) -> None:
    first, second = stage.client(), stage.client()
    produce(stage, first, producer_access_mode=EXCLUSIVE)
    produce(stage, second, name="q", producer_access_mode=WAIT)
    second.say(message(0, producer="q"))
    stage.turn()
    assert second.is_lost
    assert stage.topic().log.end_index == 0
    assert stage.broker.counters.frames_refused == {"producer_not_ready": 1}


def test_who_is_alone_and_asks_again_hears_its_epoch(stage: Stage) -> None:
    client = stage.client()
    for _ in range(2):
        assert produce(stage, client, producer_access_mode=EXCLUSIVE).topic_epoch == 0


def test_who_asks_again_before_its_epoch_is_durable_is_not_told(stage: Stage) -> None:
    client = stage.client()
    stage.topic()
    stage.engine.holds_catalog = True
    first = ask(client, producer_command(producer_access_mode=EXCLUSIVE))
    again = ask(client, producer_command(producer_access_mode=EXCLUSIVE))
    stage.turn()
    assert error_of(answer(client, again)) == "ServiceNotReady"
    assert answer(client, first) is None


def test_who_waits_and_cannot_be_granted_is_refused(stage: Stage) -> None:
    first, second = stage.client(), stage.client()
    produce(stage, first, producer_access_mode=EXCLUSIVE)
    request_id = ask(second, producer_command(name="q", producer_access_mode=WAIT))
    stage.turn()
    answer(second, request_id)
    fail_once(stage)
    first.hang_up()
    stage.turn()
    assert error_of(answer(second, request_id)) == "PersistenceError"
    assert stage.topic().producers == {}


def reopened(
    stage: Stage, mode: pb.ProducerAccessMode, claimed: int | None
) -> tuple[Any, Any, Any]:
    """Two wait for a producer that opens again on its own connection: its answer, and theirs."""
    first, others = stage.client(), [stage.client(), stage.client()]
    produce(stage, first, producer_access_mode=EXCLUSIVE)
    asked = [
        ask(one, producer_command(name=name, producer_access_mode=WAIT))
        for one, name in zip(others, "qr", strict=True)
    ]
    stage.turn()
    assert not any(answer(*one).producer_ready for one in zip(others, asked, strict=True))
    fields = {} if claimed is None else {"topic_epoch": claimed}
    mine = produce(stage, first, epoch=1, producer_access_mode=mode, **fields)
    stage.turn()
    stage.topic().access.check()
    return mine, *[answer(*one) for one in zip(others, asked, strict=True)]


def test_who_is_alone_and_opens_again_keeps_its_place_and_epoch(stage: Stage) -> None:
    mine, *theirs = reopened(stage, EXCLUSIVE, 0)
    assert (mine.producer_ready, mine.topic_epoch) == (True, 0)
    assert theirs == [None, None]


def test_who_is_alone_and_opens_again_without_its_epoch_gets_a_new_one(stage: Stage) -> None:
    mine, *theirs = reopened(stage, EXCLUSIVE, None)
    assert (mine.producer_ready, mine.topic_epoch) == (True, 1)
    assert theirs == [None, None]


@pytest.mark.parametrize("comes_back", [True, False])
def test_who_is_alone_keeps_its_place_when_the_disk_refuses(stage: Stage, comes_back: bool) -> None:
    first, second = stage.client(), stage.client()
    produce(stage, first, producer_access_mode=EXCLUSIVE)
    request_id = ask(second, producer_command(name="q", producer_access_mode=WAIT))
    stage.turn()
    assert not answer(second, request_id).producer_ready
    stage.files.faults.fail("sync", under="journal")
    first.say(message(0))
    stage.turn()
    assert isinstance(first.take()[-1], pb.CommandCloseProducer)
    assert answer(second, request_id) is None
    if comes_back:
        mine = produce(stage, first, epoch=1, producer_access_mode=EXCLUSIVE, topic_epoch=0)
        assert (mine.producer_ready, mine.topic_epoch) == (True, 0)
    stage.loop.do(lambda: stage.broker.admissions.tick(stage.clock.monotonic() + PLACE_KEPT_S + 1))
    stage.turn()
    stage.topic().access.check()
    granted = answer(second, request_id)
    assert granted is None if comes_back else granted.topic_epoch == 1


def test_a_place_that_is_not_taken_again_goes_to_the_line(stage: Stage) -> None:
    """It opens again as one that waits, without an epoch, or shared: there are others before it."""
    mine, granted, waiting = reopened(stage, WAIT, None)
    assert not mine.producer_ready
    assert granted.topic_epoch == 1
    assert waiting is None


def test_a_place_goes_to_the_line_when_its_producer_is_refused(stage: Stage) -> None:
    mine, granted, waiting = reopened(stage, pb.Shared, None)
    assert error_of(mine) == "ProducerBusy"
    assert granted.topic_epoch == 1
    assert waiting is None


def test_who_waits_and_leaves_is_passed_over(stage: Stage) -> None:
    first, second, third = (stage.client() for _ in range(3))
    produce(stage, first, producer_access_mode=EXCLUSIVE)
    for client, name in ((second, "q"), (third, "r")):
        produce(stage, client, name=name, producer_access_mode=WAIT)
    second.hang_up()
    first.hang_up()
    stage.turn()
    (granted,) = third.take()
    assert granted.producer_ready
    assert set(stage.topic().producers) == {"r"}


def test_fencing_puts_the_others_out(stage: Stage) -> None:
    first, second, third = (stage.client() for _ in range(3))
    produce(stage, first, producer_access_mode=EXCLUSIVE)
    waiting = ask(second, producer_command(name="q", producer_access_mode=WAIT))
    stage.turn()
    answer(second, waiting)
    granted = produce(stage, third, name="r", producer_access_mode=FENCING)
    assert granted.topic_epoch == 1
    (closed,) = first.take()
    assert isinstance(closed, pb.CommandCloseProducer)
    assert error_of(answer(second, waiting)) == "ProducerFenced"
    assert set(stage.topic().producers) == {"r"}
    # Whoever comes back with its old epoch stays out for good.
    back = produce(stage, first, topic_epoch=0, epoch=1, producer_access_mode=EXCLUSIVE)
    assert error_of(back) == "ProducerFenced"


def fail_once(stage: Stage) -> None:
    """The next change of a topic's row fails."""
    catalog = stage.store.catalog
    whole = catalog.set_topic

    def fail(topic_id: int, doc: Any) -> None:
        catalog.set_topic = whole  # type: ignore[method-assign]
        raise PersistenceError("the catalog is full")

    catalog.set_topic = fail  # type: ignore[method-assign]
