"""Resets against acks, flows, reads, disconnects, restarts and kills by seed, and mistakes that are found."""

from __future__ import annotations

from typing import Any

import pytest
from stage.counts import campaign_count
from stage.tests_on import BUCKET, TESTS_ON

from milepost.broker import topic_loader
from milepost.broker.subscription.held_deliveries import HeldDeliveries
from milepost.broker.subscription.subscription import Subscription
from milepost.cursor.cursor import Cursor
from milepost.cursor.facts import SeekFact
from milepost.positions.ranges import IndexRanges
from rip.race import first_caught, run_seed

SEEDS = campaign_count("MILEPOST_RACES", 240, 20_000)
BLOCKS = 8


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_interleaving_undoes_a_reset(block: int) -> None:
    """Promises 3 and 4; I1, I3, I4, I6, I15 to I18, R1, R2, R4 to R9."""
    for seed in range(block, SEEDS, BLOCKS):
        run_seed(seed)


# Mistakes, planted one at a time.


def _plant_acks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No index is ever stale: an ack counts whatever it was sent for."""
    real = Cursor._begin_epoch

    def begin_epoch(cursor: Cursor, fact: SeekFact) -> None:
        real(cursor, fact._replace(stale=IndexRanges()))

    monkeypatch.setattr(Cursor, "_begin_epoch", begin_epoch)


def _plant_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ack of a delivery that nobody has got yet counts for it."""
    monkeypatch.setattr(HeldDeliveries, "acked", lambda held, ranges: ranges)


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
    ("plant", "seeds"),
    [
        (_plant_acks, range(50)),
        (_plant_epoch_on_messages, range(50)),
        pytest.param(
            _plant_answer_from_memory,
            range(50),
            marks=pytest.mark.skipif(
                TESTS_ON == BUCKET,
                reason="on a bucket the note of who has reset is a record behind the reset's own",
            ),
        ),
        # These need more luck: they begin near a seed that has it.
        (_plant_held, range(75, 300)),
        (_plant_forgetful_restart, range(470, 1000)),
    ],
)
def test_a_planted_mistake_is_caught(
    monkeypatch: pytest.MonkeyPatch, plant: Any, seeds: range
) -> None:
    plant(monkeypatch)
    assert first_caught(seeds) is not None, f"went unnoticed: {plant.__doc__}"


def test_without_a_mistake_nothing_is_caught() -> None:
    assert first_caught(range(3)) is None
