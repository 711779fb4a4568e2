"""Resets against acks, flows, reads, disconnects, restarts and kills by seed, and mistakes that are found."""

from __future__ import annotations

from typing import Any

import pytest
from stage.counts import campaign_count
from stage.tests_on import BUCKET, TESTS_ON

from milepost.broker import topic_loader
from milepost.broker.subscription.subscription import Subscription
from milepost.cursor.cursor import Cursor
from milepost.cursor.facts import SeekFact
from milepost.positions.ranges import IndexRanges
from rip.race import Race, run_races

SEEDS = campaign_count("MILEPOST_RACES", 240, 20_000)
BLOCKS = 8


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_interleaving_undoes_a_reset(block: int) -> None:
    """Promises 3 and 4; I1, I3, I4, I6, I15 to I18, R1, R2, R4 to R9."""
    run_races(Race, range(block, SEEDS, BLOCKS))


# Mistakes, planted one at a time. One more is seen by no client: an ack does not say whether it is of a
# delivery that is held back (tests/unit/broker/subscription/test_held_deliveries.py).


def _plant_acks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No index is ever stale: an ack counts whatever it was sent for."""
    real = Cursor._begin_epoch

    def begin_epoch(cursor: Cursor, fact: SeekFact) -> None:
        real(cursor, fact._replace(stale=IndexRanges()))

    monkeypatch.setattr(Cursor, "_begin_epoch", begin_epoch)


def _plant_epoch_on_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that follows is told, and goes on under its old epoch."""
    real = Subscription.seek

    def seek(subscription: Subscription, index: int, done: Any, **options: Any) -> Any:
        before = {consumer: consumer.epoch for consumer in subscription.consumers}
        closed = real(subscription, index, done, **options)
        for consumer, epoch in before.items():
            consumer.epoch = epoch
        return closed

    monkeypatch.setattr(Subscription, "seek", seek)


def _plant_forgetful_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process before may have delivered counts as never delivered."""
    real = topic_loader.open_cursor

    def open_cursor(*args: Any, **options: Any) -> Cursor:
        cursor = real(*args, **options)
        cursor.unsure_end = 0
        return cursor

    monkeypatch.setattr(topic_loader, "open_cursor", open_cursor)


def _plant_answer_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset is answered before it is on disk."""
    real = Subscription.seek

    def seek(subscription: Subscription, index: int, done: Any, **options: Any) -> Any:
        done(None)
        return real(subscription, index, lambda error: None, **options)

    monkeypatch.setattr(Subscription, "seek", seek)


@pytest.mark.parametrize(
    "plant",
    [
        _plant_acks,
        _plant_epoch_on_messages,
        pytest.param(
            _plant_answer_from_memory,
            marks=pytest.mark.skipif(
                TESTS_ON == BUCKET,
                reason="on a bucket the note of who has reset is a record behind the reset's own",
            ),
        ),
        _plant_forgetful_restart,
    ],
)
def test_a_planted_mistake_is_caught(monkeypatch: pytest.MonkeyPatch, plant: Any) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=r"Race \d+: \[Anomaly"):
        run_races(Race, range(1000))
