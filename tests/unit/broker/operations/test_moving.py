"""Messages that move to another topic, and are acked with that."""

from __future__ import annotations

from stage.frames import batch
from stage.stage import Stage
from stage.talk import error_of, wire_id
from stage.transactions import ABORT, ack_in, add_subscription, counts, end, new, started

from milepost.broker.operations import moving
from milepost.errors import MilepostError


def test_what_an_abort_brought_back_and_was_moved_is_acked_and_forgotten(stage: Stage) -> None:
    client = started(stage)
    client.say(batch(0, 2))
    stage.turn()
    txn = new(stage, client)
    assert not error_of(add_subscription(stage, client, txn))
    assert not error_of(ack_in(stage, client, txn, wire_id(1, 0, ack_set=[0b10])))
    assert not error_of(end(stage, client, txn, ABORT))
    subscription, store = stage.topic().subscriptions["s"], stage.broker.store
    answers: list[MilepostError | None] = []
    stage.loop.do(lambda: moving.move(subscription, [(0, 1)], lambda: True, store, answers.append))
    stage.turn()
    assert (answers, counts(stage)) == ([None], (0, 1, 0, 1))
    assert not subscription.unshown.torn
